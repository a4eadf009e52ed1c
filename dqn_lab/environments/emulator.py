"""The Arcade Learning Environment's emulator: how it is built, and put back where it was."""

from functools import cache
from threading import Lock
from typing import Any

import numpy as np

from dqn_lab.environments.atari_id import import_ale

_NOOP = 0
# Building two emulators at once has crashed: they share what they read the ROM with.
_BUILDING = Lock()
_SAVES, _FRAMES_BETWEEN, _FRAMES_AFTER = 20, 15, 3


def load_emulator(rom: str, seed: int) -> Any:
    """Returns a new `ale_py.ALEInterface`; a seed counts only while a ROM loads (70-100 ms)."""
    ale_py = import_ale()
    from ale_py import roms

    with _BUILDING:
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # no banner
        emulator = ale_py.ALEInterface()
        emulator.setFloat("repeat_action_probability", 0.0)
        emulator.setInt("random_seed", seed)
        emulator.loadROM(roms.get_rom_path(rom))
    return emulator


def save_emulator(emulator: Any) -> bytes:
    """Returns all that the next frames depend on, the emulator's own generator too."""
    return emulator.cloneState(include_rng=True).serialize()


def restore_emulator(emulator: Any, saved: bytes) -> None:
    """Puts an emulator where another of the same ROM was.

    Raises:
        ValueError: these are not the bytes of such an emulator.
    """
    emulator.act(_NOOP)  # Qbert and Tetris go wrong in an emulator that has not played a frame (ale-py 0.12.1)
    try:
        emulator.restoreState(import_ale().ALEState(saved))
    except (SystemError, TypeError, RuntimeError):  # ale-py's own words say nothing
        size = len(saved) if isinstance(saved, bytes) else None
        raise ValueError(f"The emulator's state must be a whole one of the same game. Received: bytes={size}") from None


@cache
def restores_exactly(rom: str) -> bool:
    """Tells whether the installed ale-py plays on as before from saved states: it is tried, once per ROM (0.2 s)."""
    one, other = load_emulator(rom, 1), load_emulator(rom, 0)
    legal, random = one.getMinimalActionSet(), np.random.default_rng(0)

    def play(*emulators: Any) -> bool:
        """Plays one frame in each; tells whether they show the same."""
        action = legal[random.integers(len(legal))]
        return len({_play_frame(emulator, action) for emulator in emulators}) == 1

    for _ in range(_SAVES):
        for _ in range(_FRAMES_BETWEEN):
            play(one)
        restore_emulator(other, save_emulator(one))
        if not all(play(one, other) for _ in range(_FRAMES_AFTER)):
            return False
    return True


def _play_frame(emulator: Any, action: Any) -> tuple[float, int, bytes]:
    if emulator.game_over(with_truncation=False):
        emulator.reset_game()
    return emulator.act(action), emulator.lives(), emulator.getScreenGrayscale().tobytes()
