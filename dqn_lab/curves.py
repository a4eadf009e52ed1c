"""The files that a run's curves are read from: how long they are at a checkpoint, and cut back to that."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_ROWS = "progress.csv"


def positions(directory: str | Path) -> dict[str, int]:
    """Returns the bytes of progress.csv and of each TensorBoard events file in a run's directory, by name."""
    return {name: file.stat().st_size for name, file in _files(directory).items()}


def flush(directory: str | Path) -> None:
    """Makes the system write these files to the disk, so that no later crash of the machine takes a part of them.

    Raises:
        OSError: what the system says.
    """
    for file in _files(directory).values():
        with open(file, "r+b") as stream:
            os.fsync(stream.fileno())


def cut(directory: str | Path, positions: Mapping[str, int]) -> list[str]:
    """Takes away what has been written since `positions` was told; does nothing when repeated.

    Args:
        directory: of the run.
        positions: what the function of that name returned. Files of theirs that it doesn't name are removed.

    Returns:
        A line for each file that is missing or shorter than it was; it stays so.

    Raises:
        OSError: what the system says.
    """
    files = _files(directory)
    complaints = [line for name, size in positions.items() if (line := _complaint(name, files.get(name), size))]
    for name, file in files.items():
        if name not in positions:
            file.unlink()
        elif file.stat().st_size > positions[name]:
            os.truncate(file, positions[name])
        elif file.name == _ROWS and file.stat().st_size < positions[name]:
            os.truncate(file, file.read_bytes().rfind(b"\n") + 1)  # the next row must not go on with half of one
    return complaints


def _files(directory: str | Path) -> dict[str, Path]:
    folder = Path(directory)
    found = (folder / _ROWS, *sorted(folder.glob("events.out.tfevents.*")))
    return {file.name: file for file in found if file.is_file()}


def _complaint(name: str, file: Path | None, size: int) -> str | None:
    if file is None:
        return f"{name} is missing: its part of the curves is lost"
    there = file.stat().st_size
    return (
        f"{name} has {there:,} of its {size:,} bytes: the end of its part of the curves is lost"
        if there < size
        else None
    )
