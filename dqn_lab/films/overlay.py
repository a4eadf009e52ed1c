"""What is drawn around a game's picture: score, values of the actions, the one taken; or a line of text."""

from __future__ import annotations

import math

import cv2
import numpy as np

from dqn_lab.films.moments import Decision, Moment

_LEAST_HEIGHT = 400  # pixels that a picture is enlarged to, where no zoom is asked for
_PANEL, _CAPTION = 304, 28  # width of the one, height of the other
_MARGIN, _LINE, _GAP = 12, 22, 6
_NAME, _BAR, _BAR_END = 12, 134, 236  # columns of a row
_ROW_HEIGHTS = (13, 26)  # least and most
_FONT = cv2.FONT_HERSHEY_SIMPLEX
# The colours are those of Okabe and Ito, which colour-blind people tell apart. RGB.
_GROUND, _RAISED, _TEXT, _FAINT = (24, 24, 28), (64, 64, 72), (240, 240, 240), (160, 160, 168)
_BLUE, _ORANGE, _VERMILION = (86, 180, 233), (230, 159, 0), (235, 110, 40)


class Overlay:
    """Draws pictures with what the agent thinks beside them.

    Bars are drawn to one scale, the widest seen so far.

    Args:
        action_names: as `FilmedGames` has them.
        epsilon: share of random actions.
        zoom: as `enlarged`.
        label: a first line, such as the steps of the snapshot; "" for none.
        is_actor_critic: the values are probabilities.
    """

    def __init__(
        self, action_names: tuple[str, ...], epsilon: float, zoom: int | None, label: str, is_actor_critic: bool
    ):
        self._names, self._epsilon, self._zoom, self._label = action_names, epsilon, zoom, label
        self._is_actor_critic = is_actor_critic
        self._low, self._high = 0.0, 1.0 if is_actor_critic else 1e-6

    def draw(self, moment: Moment) -> np.ndarray:
        """Returns a moment's picture with the panel to its right, uint8 [H, W, 3], both sides even."""
        picture = enlarged(moment.picture, self._zoom)
        lines = self._lines(moment)
        head = _MARGIN + _LINE * len(lines) + _GAP
        height = max(picture.shape[0], head + _ROW_HEIGHTS[0] * len(self._names) + _MARGIN)
        panel = np.full((height, _PANEL, 3), _GROUND, np.uint8)  # [H, W, 3]
        for number, (text, colour) in enumerate(lines):
            _write(panel, text, _NAME, _MARGIN + _LINE * number + _LINE // 2, 0.5, colour)
        self._draw_values(panel, head, moment.decision)
        return _even(np.hstack([_padded(picture, height), panel]))

    def _lines(self, moment: Moment) -> list[tuple[str, tuple]]:
        decision = moment.decision
        lines = [(self._label, _TEXT)] if self._label else []
        lines += [
            (f"score {moment.score:,.6g}", _TEXT),
            (f"game {moment.game + 1:,}, step {moment.step:,}", _TEXT),
            (f"epsilon {self._epsilon:g}", _FAINT),
        ]
        if decision is not None and decision.is_random:
            lines[-1] = (f"epsilon {self._epsilon:g}: random action", _VERMILION)
        if not self._is_actor_critic:
            return [*lines, ("Q-values", _FAINT)]
        value = "" if decision is None else f" {_number(decision.state_value)}"
        return [*lines, (f"state value{value}", _TEXT), ("probabilities", _FAINT)]

    def _draw_values(self, panel: np.ndarray, top: int, decision: Decision | None) -> None:
        least, most = _ROW_HEIGHTS
        row = min(max((panel.shape[0] - top - _MARGIN) // len(self._names), least), most)
        if decision is not None:
            self._low = min(self._low, float(decision.values.min()))
            self._high = max(self._high, float(decision.values.max()))
        for action, name in enumerate(self._names):
            taken = decision is not None and action == decision.action
            colour = _FAINT if not taken else _VERMILION if decision.is_random else _ORANGE
            middle = top + row * action + row // 2
            scale = 0.36 if row < 18 else 0.42
            if taken:
                panel[middle - row // 2 : middle + row // 2, _NAME // 2 : -_NAME // 2] = _RAISED
            _write(panel, f"{action} {name}", _NAME, middle, scale, colour if taken else _TEXT)
            if decision is not None:
                value = float(decision.values[action])
                self._draw_bar(panel, middle, row, value, colour if taken else _BLUE)
                _write(panel, _number(value), _PANEL - _MARGIN, middle, scale, _TEXT, ends=True)
        x = self._column(0.0)
        cv2.line(panel, (x, top), (x, top + row * len(self._names) - 1), _FAINT)

    def _draw_bar(self, panel: np.ndarray, middle: int, row: int, value: float, colour: tuple) -> None:
        half = max(row // 2 - 2, 3)
        left, right = sorted((self._column(0.0), self._column(value)))
        cv2.rectangle(panel, (left, middle - half), (right, middle + half - 1), colour, cv2.FILLED)

    def _column(self, value: float) -> int:
        return _BAR + round((_BAR_END - _BAR) * (value - self._low) / (self._high - self._low))


def enlarged(picture: np.ndarray, zoom: int | None) -> np.ndarray:
    """Each pixel as a square of so many. [H, W, 3] -> [zoom H, zoom W, 3]

    Args:
        picture: of any size.
        zoom: pixels; None for the least that makes the picture 400 pixels high: 2 for Atari.
    """
    zoom = math.ceil(_LEAST_HEIGHT / picture.shape[0]) if zoom is None else zoom
    return picture.repeat(zoom, axis=0).repeat(zoom, axis=1)


def plain(picture: np.ndarray, zoom: int | None, caption: str = "") -> np.ndarray:
    """A picture enlarged, and a line of text under it where there is one; both sides even. [H, W, 3] -> [H', W', 3]"""
    picture = enlarged(picture, zoom)
    if caption:
        strip = np.full((_CAPTION, picture.shape[1], 3), _GROUND, np.uint8)
        _write(strip, caption, 6, _CAPTION // 2, 0.5, _TEXT)
        picture = np.vstack([picture, strip])
    return _even(picture)


def _padded(picture: np.ndarray, height: int) -> np.ndarray:
    above = (height - picture.shape[0]) // 2
    below = height - picture.shape[0] - above
    return cv2.copyMakeBorder(picture, above, below, 0, 0, cv2.BORDER_CONSTANT, value=_GROUND)


def _even(picture: np.ndarray) -> np.ndarray:
    """H.264 keeps colours of 2 by 2 pixels."""
    height, width = picture.shape[:2]
    return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)))


def _write(picture, text: str, x: int, middle: int, scale: float, colour: tuple, ends: bool = False) -> None:
    """Text that begins, or ends, in a column."""
    (width, _), _ = cv2.getTextSize(text, _FONT, scale, 1)
    (_, height), _ = cv2.getTextSize("0", _FONT, scale, 1)
    place = x - width if ends else x, middle + height // 2
    cv2.putText(picture, text, place, _FONT, scale, colour, 1, cv2.LINE_AA)


def _number(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 100 else f"{value:,.0f}"
