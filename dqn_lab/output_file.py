"""A file that a command writes: whole, or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path


def check_output(path: str | Path, suffixes: Collection[str]) -> Path:
    """Returns where a file may be written.

    Args:
        path: of the file.
        suffixes: those that it may have, such as ".png".

    Raises:
        ValueError: it has none of them, it is a folder, or its folder doesn't exist or can't be written to.
    """
    path = Path(path)
    if path.suffix.lower() not in suffixes:
        raise ValueError(f"`out` must end in {', '.join(suffixes)}. Received: out={str(path)!r}")
    if path.is_dir():
        raise ValueError(f"`out` must be a file, and there is a folder. Received: out={str(path)!r}")
    if not path.parent.is_dir():
        raise ValueError(f"The folder of `out` doesn't exist. Received: out={str(path)!r}")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"The folder of `out` can't be written to. Received: out={str(path)!r}")
    return path


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Gives a name in the same folder to write to; it takes the place of `path` in the end, or goes if that fails."""
    part = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
