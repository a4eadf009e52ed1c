"""A window that shows pictures at the speed they are meant to have."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import numpy as np

_FAKE_DRIVERS = ("dummy", "offscreen")


class WindowClosed(Exception):
    """Whoever watches has closed the window, or pressed Escape or Q."""


class Window:
    """Opens with the first picture.

    Args:
        title: of the window.
        clock: tells seconds.
        sleep: waits for so many.

    Raises:
        ImportError: pygame isn't installed.
        ValueError: there is no display. (`SDL_VIDEODRIVER=dummy`, asked for, counts as one.)
    """

    def __init__(
        self, title: str, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._pygame = _import_pygame()
        self._title, self._clock, self._sleep = title, clock, sleep
        self._due: float | None = None
        self._open_display()

    def show(self, picture: np.ndarray, frame_rate: float) -> None:
        """Shows a picture, uint8 [H, W, 3] in RGB, when the one before it has been seen for its time.

        Raises:
            WindowClosed: nobody watches any more.
        """
        pygame = self._pygame
        now = self._clock()
        # One that comes too late is shown at once, and those after it don't hurry to make up for it.
        begin = now if self._due is None else max(self._due, now)
        if begin > now:
            self._sleep(begin - now)
        self._due = begin + 1 / frame_rate
        size = picture.shape[1], picture.shape[0]
        surface = pygame.display.get_surface()
        if surface is None or surface.get_size() != size:
            surface = pygame.display.set_mode(size)
            pygame.display.set_caption(self._title)
        pygame.surfarray.blit_array(surface, picture.swapaxes(0, 1))
        pygame.display.flip()
        if any(map(self._ends, pygame.event.get())):
            raise WindowClosed

    def close(self) -> None:
        """Closes it."""
        self._pygame.display.quit()

    def _ends(self, event) -> bool:
        pygame = self._pygame
        return event.type == pygame.QUIT or (
            event.type == pygame.KEYDOWN and event.key in (pygame.K_ESCAPE, pygame.K_q)
        )

    def _open_display(self) -> None:
        asked_for = os.environ.get("SDL_VIDEODRIVER")
        on_x = sys.platform.startswith("linux") and not asked_for
        if on_x and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            raise _no_display("neither DISPLAY nor WAYLAND_DISPLAY is set")
        try:
            self._pygame.display.init()
        except self._pygame.error as error:
            raise _no_display(str(error)) from None
        driver = self._pygame.display.get_driver()
        if driver in _FAKE_DRIVERS and not asked_for:
            self.close()
            raise _no_display(f"SDL's driver {driver}")


def _import_pygame():
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        import pygame
    except ImportError:
        raise ImportError("A window needs pygame-ce: pip install pygame-ce, or this package's extra `video`.") from None
    return pygame


def _no_display(why: str) -> ValueError:
    return ValueError(f"A window needs a display; without one `out` writes a file to watch. Received: {why}")
