"""The disk that a run will need, refused before the run where it isn't free."""

from __future__ import annotations

import shutil
from pathlib import Path

from dqn_lab.memory import describe_bytes


def run_bytes(*, agent: int, network: int, row: float, rows: float, period: float, keep: int, weights: float) -> int:
    """Returns the bytes that a run's files will have in the end, those of curves and log left out.

    Args:
        agent: bytes of a saved agent.
        network: bytes of its network's weights.
        row: bytes of a replay row on disk.
        rows: most that the replay will hold.
        period: rows from one checkpoint to the next.
        keep: checkpoints kept.
        weights: how many times the network's weights are written and kept.
    """
    agents = keep + 1 + 2  # one being written; the best, and the one in whose place it comes
    rows += keep * min(period, rows)  # overwritten already, but an older checkpoint needs them, or one being written
    return int(agents * agent + row * rows + weights * network)


def held_bytes(*folders: Path) -> int:
    """Returns the bytes of all files in these folders, as far as they exist."""
    files = (one for folder in folders if folder.is_dir() for one in folder.rglob("*") if one.is_file())
    return sum(one.stat().st_size for one in files)


def check_disk(folder: Path, needed: int, held: int) -> str:
    """Returns a line that tells what a run's files need and what is free.

    Args:
        folder: where they will be, or an existing one above it.
        needed: bytes, in all.
        held: bytes of these that are there already.

    Raises:
        OSError: it isn't free.
    """
    free = shutil.disk_usage(folder).free
    said = f"up to about {describe_bytes(needed)}, {describe_bytes(free)} are free"
    if needed - held > free:
        raise OSError(
            f"the run's files need {said}: name another disk with --run-dir, or lower replay_capacity_steps or keep. "
            f"Received: run_dir={folder}"
        )
    return said
