"""Saliency for the eye: signals at a state's pixels as a map, and a map over the game's picture."""

from __future__ import annotations

import cv2
import numpy as np

_WHOLE = 99.0  # percentile of a map that is shown as 1: a single pixel doesn't darken all others
_DIM = 0.6  # of the screen under the map


def brightness(signals: np.ndarray) -> np.ndarray:
    """Returns the strongest signal of either sign over the channels, as in Simonyan et al. (2014), for each state.

    A state's map is divided by its 99th percentile and cut at 1; one without any signal is 0. The channels of a stack
    are its frames, so what mattered where an older frame showed it is bright too.

    Args:
        signals: as `Saliency` returns them, [B, H, W, C].

    Returns:
        [B, H, W] float32, 0 to 1.
    """
    strongest = np.abs(signals).max(axis=3)  # [B, H, W]
    whole = np.percentile(strongest, _WHOLE, axis=(1, 2), keepdims=True)  # [B, 1, 1]
    whole = np.where(whole > 0, whole, strongest.max(axis=(1, 2), keepdims=True))  # fewer pixels than one in 100
    return np.clip(strongest / np.where(whole > 0, whole, 1), 0, 1).astype(np.float32)


def heated(picture: np.ndarray, saliency: np.ndarray | None) -> np.ndarray:
    """Returns a picture in dim grey with a map over it, in colours that colour-blind people see. [H, W, 3], uint8

    The lighter of the two shows, so that what is bright in the game is seen through all but the brightest of the map.
    A pixel of the state is the rectangle of the picture that it was made from, as the state shows the whole screen.

    Args:
        picture: uint8 [H, W, 3], RGB.
        saliency: 0 to 1, of any size [h, w]; None for no colour.
    """
    grey = _DIM * cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)[:, :, None]  # [H, W, 1]
    if saliency is None:
        return np.broadcast_to(grey, picture.shape).astype(np.uint8)
    heat = cv2.resize(saliency, picture.shape[1::-1], interpolation=cv2.INTER_AREA)  # [H, W]
    colour = cv2.applyColorMap((255 * heat).astype(np.uint8), cv2.COLORMAP_INFERNO)[:, :, ::-1]  # [H, W, 3], RGB
    return np.maximum(grey, colour * heat[:, :, None]).astype(np.uint8)
