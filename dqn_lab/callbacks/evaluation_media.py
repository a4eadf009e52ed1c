"""What an evaluation leaves to look at: its first game as a film, and the values of the held-out initial states."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from PIL import Image

from dqn_lab.environments.pictures import Pictures

_MOST = 300  # pictures of a film; even
_LONGEST_SIDE = 160  # pixels
_LEAST_SECONDS, _LAST_SECONDS = 0.04, 1.0  # that a picture is shown; the last one


@dataclass(frozen=True)
class Gif:
    """An animated picture.

    Args:
        data: the file's bytes.
        width, height: in pixels.
    """

    data: bytes
    width: int
    height: int


@dataclass(frozen=True, eq=False)
class EvaluationMedia:
    """What one evaluation leaves to look at.

    Args:
        film: of its first game; None where the environment can't be drawn.
        values: of the held-out initial states: action values [S, A], or of an actor-critic state values [S].
    """

    film: Gif | None
    values: np.ndarray


class GameFilm:
    """Films the first game of an evaluation while it is played: `evaluate(twin, watch=GameFilm(twin))`.

    A picture is taken before each decision and at the game's end, so a step is one picture, small ones. A game of more
    than 300 of them is shown whole by every 2nd, 4th, ... picture. To draw changes nothing in the game.

        taken      0 1 2 3 4 5 6 7 8
        kept       0   2   4   6   8        once there were too many; from there on every other one is taken

    Args:
        twin: that lane 0 plays the game in.

    Attributes:
        failure: what an environment raised when it was drawn; then there is no film. None.

    Raises:
        ValueError: the environment has no pictures.
    """

    def __init__(self, twin) -> None:
        self.failure: Exception | None = None
        self._twin, self._picture = twin, Pictures(_first_environment(twin))
        self._kept: list[Image.Image] = []
        self._seen, self._every, self._over = 0, 1, False

    def __call__(self) -> None:
        """Takes a picture where one is due; what goes wrong is left in `failure`."""
        if self._over or self.failure is not None:
            return
        self._over = bool(self._twin.get_latest_episode_end()[0])
        try:
            if self._over or self._seen % self._every == 0:
                self._kept.append(_small(self._picture()))
        except Exception as error:  # an environment's own, whatever it is: no score depends on it
            self.failure = error
        self._seen += 1
        if len(self._kept) > _MOST:
            self._kept, self._every = self._kept[::2], 2 * self._every

    def encode(self) -> Gif:
        """Returns the film. At the game's own speed, or faster where pictures were left out."""
        first, *others = self._kept
        seconds = [max(1.0 / self._picture.rate, _LEAST_SECONDS)] * len(others) + [_LAST_SECONDS]
        file = io.BytesIO()
        milliseconds = [round(1000 * each) for each in seconds]
        first.save(file, "GIF", save_all=True, append_images=others, duration=milliseconds, loop=0)
        return Gif(file.getvalue(), *first.size)


def _first_environment(twin):
    environment = twin.environments[0]
    if hasattr(environment, "num_envs"):
        name = type(environment.unwrapped).__name__
        raise ValueError(f"A vector environment of a user's own can't be filmed. Received: {name}")
    return environment


def _small(picture: np.ndarray) -> Image.Image:
    image = Image.fromarray(picture)
    scale = min(1.0, _LONGEST_SIDE / max(image.size))
    if scale == 1.0:
        return image
    return image.resize([max(1, round(scale * side)) for side in image.size], Image.Resampling.BOX)
