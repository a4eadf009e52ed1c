"""Pictures of the state that an environment is in, in colour, drawn without a display."""

import contextlib
import os
from collections.abc import Iterator

import numpy as np

_RATE = 30.0  # of an environment that doesn't say


class Pictures:
    """Draws an environment that was made to be played, not seen: called, it returns uint8 [H, W, 3] in RGB.

    Args:
        environment: with the render mode rgb_array, which it is put into.

    Attributes:
        rate: pictures per second, one for each step, that show a game at its own speed.

    Raises:
        ValueError: it has no such render mode; when called: what it renders is no picture.
        ImportError: when called: a package that it draws with is missing.
    """

    def __init__(self, environment) -> None:
        modes = environment.metadata.get("render_modes") or ()
        if "rgb_array" not in modes:
            raise ValueError(
                "Only an environment with the render mode rgb_array has pictures. "
                f"Received: {type(environment.unwrapped).__name__} with render_modes={list(modes)}"
            )
        self._environment = environment
        environment.unwrapped.render_mode = "rgb_array"
        self.rate = float(environment.metadata.get("render_fps") or _RATE)

    def __call__(self) -> np.ndarray:
        from gymnasium.error import DependencyNotInstalled

        try:
            with _drawing_off_screen():
                picture = self._environment.render()
        except DependencyNotInstalled as error:
            raise ImportError(f"Pictures of this environment need the extra `video` (pygame-ce). {error}") from None
        if np.ndim(picture) != 3 or np.shape(picture)[2] != 3:
            name, shape = type(self._environment.unwrapped).__name__, np.shape(picture)
            raise ValueError(f"render() must return a picture [H, W, 3]. Received: {name} with shape {shape}")
        return np.array(picture, np.uint8)  # [H, W, 3]


@contextlib.contextmanager
def _drawing_off_screen() -> Iterator[None]:
    """Keeps pygame, which classic control is drawn with, from greeting and from looking for a display."""
    quiet = {"PYGAME_HIDE_SUPPORT_PROMPT": "1", "SDL_VIDEODRIVER": "dummy"}
    added = quiet.keys() - os.environ.keys()
    os.environ.update({name: quiet[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]
