"""A replay's ring in files of what changed, each written once and shared by the checkpoints that need it.

    replay/000007.npz   |--------------|              the checkpoint of that time needs 7 and 8
           000008.npz                  |--|           small: the next file holds its rows too
           000009.npz                  |----------|   a later checkpoint needs 7 and 9

Reading a file runs no code of it.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import os
import re
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import numpy as np

from dqn_lab.checkpoint import flush, sha256
from dqn_lab.replay.changes import still_needed
from dqn_lab.replay.ring import FrameRing

_NAME = re.compile(r"[0-9]+\.npz")
_KINDS = {"file": str, "sha256": str, "bytes": int, "since": list, "written": list}


class SavedReplay:
    """Writes a ring's changes and reads them back.

    An entry stands for a file: "file" is its name, "sha256" and "bytes" are those of its content, "since" and
    "written" the rows written to each lane when it begins and when it ends. It is made of what JSON knows.

    Args:
        directory: of the files; made when it is needed.
        ring: what is saved. Between two calls rows are only added to it.
        file_bytes: about the most that one file holds, and the copies that are made of the ring at a time.
        small_bytes: a last file of less than about this is replaced by the next one.
    """

    def __init__(
        self, directory: Path, ring: FrameRing, *, file_bytes: int = 64 * 2**20, small_bytes: int = 4 * 2**20
    ) -> None:
        self.directory = Path(directory)
        self._ring, self._file_bytes, self._small_bytes = ring, file_bytes, small_bytes
        self._entries: list[dict] = []  # of the files that hold the ring as it was written or read last
        self._serial = 0  # of the newest file; none is used twice

    def write(self) -> list[dict]:
        """Writes what is new since the last `write` or `read`; all of it is on the disk before this returns.

        Returns:
            The entries of all files that the ring as it is now needs, the oldest first.

        Raises:
            OSError: what the system says, a full disk for one. What was begun is removed.
        """
        entries = self._entries_to_go_on_from()
        self.directory.mkdir(parents=True, exist_ok=True)
        self._serial = max([self._serial, *(int(path.stem) for path in self._files())])
        since = np.array(entries[-1]["written"]) if entries else np.zeros_like(self._ring.written)
        with contextlib.ExitStack() as undo:
            for until in self._ends(since):
                entries.append(self._write_file(since, until, undo))
                since = until
            flush(self.directory)
            undo.pop_all()
        self._entries = entries
        return copy.deepcopy(entries)

    def read(self, entries: list[dict]) -> None:
        """Fills the ring, which is emptied first, from what `write` returned; the next `write` goes on from there.

        All checksums are compared before anything is read.

        Raises:
            ValueError: a file is missing, isn't the one that was written, doesn't continue those before it or is of
                another ring; the text names it. The ring is empty then, as it is after any other error.
            MemoryError: as the ring's store says.
        """
        self._ring.clear()
        self._entries = []
        try:
            self.verify(entries)
            for entry in entries:
                self._read_file(entry)
            self._check_ring()
        except BaseException:
            self._ring.clear()
            raise
        self._entries = copy.deepcopy(entries)

    def verify(self, entries: list[dict]) -> None:
        """Compares the files with their checksums.

        Raises:
            ValueError: a file is missing, or isn't the one that was written; the text names it.
        """
        if not isinstance(entries, list) or not all(_is_entry(entry) for entry in entries):
            raise ValueError(f"A replay's files are listed as they were written. Received: {self.directory}")
        for entry in entries:
            with self._open(entry):
                pass

    def prune(self, kept: Iterable[list[dict]]) -> None:
        """Removes the files that no entry in these lists names, those of broken-off writes too.

        Raises:
            OSError: what the system says.
        """
        names = {entry["file"] for entries in kept for entry in entries}
        for path in self._files():
            if path.name not in names:
                path.unlink()

    def _entries_to_go_on_from(self) -> list[dict]:
        ring = self._ring
        needed = [each for each in self._entries if still_needed(np.array(each["written"]), ring.written, ring.slots)]
        entries = list(itertools.takewhile(self._is_there, needed))  # the ring still has what else was pruned
        if entries and self._is_small(entries[-1]):
            entries.pop()
        return entries

    def _is_there(self, entry: dict) -> bool:
        path = self.directory / entry["file"]
        return path.is_file() and path.stat().st_size == entry["bytes"]

    def _is_small(self, entry: dict) -> bool:
        # By rows, as a file also holds each lane's newest rows raw, however few are new.
        rows = sum(entry["written"]) - sum(entry["since"])
        return rows * self._ring.bytes_per_row < self._small_bytes

    def _ends(self, since: np.ndarray) -> list[np.ndarray]:
        """Returns how far each of the files reaches that are to be written. -> [num_envs] each"""
        ring = self._ring
        begin = np.maximum(since, ring.oldest_position)  # [num_envs]
        new = ring.written - begin  # [num_envs]
        files = max(math.ceil(new.sum() * ring.bytes_per_row / self._file_bytes), 1)
        return [begin + new * number // files for number in range(1, files + 1)]

    def _write_file(self, since: np.ndarray, until: np.ndarray, undo: contextlib.ExitStack) -> dict:
        changes = self._ring.get_changes(since, until)
        self._serial += 1
        path = self.directory / f"{self._serial:06d}.npz"
        with open(path, "x+b") as stream:
            undo.callback(_remove, path)
            np.savez(stream, **changes)
            stream.flush()
            os.fsync(stream.fileno())
            return {
                "file": path.name,
                "sha256": sha256(stream),
                "bytes": stream.seek(0, os.SEEK_END),
                "since": since.tolist(),
                "written": until.tolist(),
            }

    def _read_file(self, entry: dict) -> None:
        # Checked again, as it may have changed since; what is read is then what was checked.
        with self._open(entry) as stream:
            try:
                changes = _load(stream)
                self._ring.apply_changes(changes)
            except ValueError as error:
                raise self._refusal(entry, error) from error
        for name in ("since", "written"):
            if changes[name].tolist() != entry[name]:
                raise self._refusal(entry, f"{name}={changes[name].tolist()}, listed as {entry[name]}")

    def _check_ring(self) -> None:
        try:
            self._ring.check_valid()
        except ValueError as error:
            raise ValueError(f"A replay's files make a whole ring. Received: {self.directory}: {error}") from error

    def _open(self, entry: dict) -> BinaryIO:
        """Opens a file whose content is what was written."""
        with contextlib.ExitStack() as stack:
            try:
                stream = stack.enter_context(open(self.directory / entry["file"], "rb"))
                same = stream.seek(0, os.SEEK_END) == entry["bytes"] and sha256(stream) == entry["sha256"]
            except OSError as error:
                raise self._refusal(entry, error.strerror) from error
            if not same:
                raise self._refusal(entry, "its checksum differs")
            stream.seek(0)
            stack.pop_all()
        return stream

    def _refusal(self, entry: dict, why) -> ValueError:
        return ValueError(
            "A replay's file is the one that was written, and continues those before it. "
            f"Received: {self.directory / entry['file']}: {why}"
        )

    def _files(self) -> list[Path]:
        if not self.directory.is_dir():
            return []
        return [path for path in self.directory.iterdir() if _NAME.fullmatch(path.name)]


def _is_entry(entry) -> bool:
    if not isinstance(entry, dict) or not all(isinstance(entry.get(key), kind) for key, kind in _KINDS.items()):
        return False
    return bool(_NAME.fullmatch(entry["file"]))  # no way out of the directory


def _load(stream: BinaryIO) -> dict[str, np.ndarray]:
    """Returns a file's arrays.

    Raises:
        ValueError: it has none.
    """
    try:
        with np.load(stream, allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, EOFError, KeyError, TypeError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"not a file of arrays: {error}") from error


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # what went wrong before is what is told
        path.unlink()
