"""The disk that a run will need, refused before the run where it isn't free."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from pathlib import Path

from dqn_lab.memory import describe_bytes


def run_bytes(
    *, agent: int, network: int, keep: int, weights: float, row: float = 0.0, rows: float = 0, period: float = math.inf
) -> int:
    """Returns the bytes that a run's files will have in the end, those of curves and log left out.

    Args:
        agent: bytes of a saved agent.
        network: bytes of its network's weights.
        keep: checkpoints kept.
        weights: how many times the network's weights are written and kept.
        row: bytes of a replay row on disk.
        rows: most that the replay will hold.
        period: rows from one checkpoint to the next.
    """
    agents = keep + 1 + 2  # one being written; the best, and the one in whose place it comes
    rows += keep * min(period, rows)  # overwritten already, but an older checkpoint needs them, or one being written
    return int(agents * agent + row * rows + weights * network)


def held_bytes(*folders: Path) -> int:
    """Returns the bytes of all files in these folders, as far as they exist."""
    files = (one for folder in folders if folder.is_dir() for one in folder.rglob("*") if one.is_file())
    return sum(one.stat().st_size for one in files)


def check_disk(folder: Path, needed: int, held: int, *, lower: Sequence[str] = ("keep",)) -> str:
    """Returns a line that tells what a run's files need and what is free.

    Args:
        folder: where they will be, or an existing one above it.
        needed: bytes, in all.
        held: bytes of these that are there already.
        lower: keys whose lower values need less.

    Raises:
        OSError: it isn't free.
    """
    free = shutil.disk_usage(folder).free
    said = f"up to about {describe_bytes(needed)}, {describe_bytes(free)} are free"
    if needed - held > free:
        raise OSError(
            f"the run's files need {said}: name another disk with --run-dir, or lower {' or '.join(lower)}. "
            f"Received: run_dir={folder}"
        )
    return said
