"""Checkpoints: directories that are complete when their manifest is there, and never half written.

checkpoints/.123000.part/agent.keras        written and flushed
                         manifest.json      written last
checkpoints/123000/                         renamed: now it is a checkpoint

One that was there already is `.123000.old` between two renames; if a kill comes just then, `recover` puts it back.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

FORMAT = 2
AGENT = "agent.keras"
MANIFEST = "manifest.json"
_SEAL = "sha256"


class UnknownFormatError(ValueError):
    """A checkpoint of a version that writes another format."""


def write_checkpoint(path: Path, write_files: Callable[[Path], None], counters: dict, **facts) -> Path:
    """Writes a checkpoint directory beside its place and renames it.

    A checkpoint that is already at `path` is replaced only once the new one is complete.

    Args:
        path: the directory, such as `checkpoints/123000` or `best`.
        write_files: writes its files into the empty directory it is given.
        counters: what the run had counted, such as steps and updates; goes into the manifest.
        **facts: what else the manifest says, made of what JSON knows.

    Raises:
        OSError: what the system says, a full disk for one; `path` is as it was.
    """
    part = _beside(path)
    _remove(part)
    try:
        part.mkdir(parents=True)
        write_files(part)
        files = sorted(one for one in part.rglob("*") if one.is_file())
        manifest = {
            "format": FORMAT,
            "counters": counters,
            **facts,
            "files": {one.relative_to(part).as_posix(): _file_sha256(one) for one in files},
        }
        for one in files:
            flush(one)
        (part / MANIFEST).write_text(json.dumps(sealed(manifest), indent=2) + "\n", encoding="utf-8")
        flush(part / MANIFEST)
        flush(part)
        _take_place(part, path)
    except BaseException:
        _remove(part)
        raise
    return path


def save_agent(path: Path, agent, counters: dict) -> Path:
    """Writes a checkpoint with the agent, its optimizer and its configuration in `agent.keras`."""
    return write_checkpoint(path, lambda part: agent.save(part / AGENT), counters)


def read_agent(path: Path):
    """Loads the agent of a checkpoint, optimizer included.

    Raises:
        ValueError: it is incomplete, or a file isn't the one that was written.
    """
    if AGENT not in check_checkpoint(path)["files"]:
        raise ValueError(f"a checkpoint has an {AGENT}. Received: {path}")
    try:
        return load_model(Path(path) / AGENT)
    except TypeError as error:  # Keras knows the class only once it is registered
        raise ValueError(
            f"the agent's own classes must be imported before it is loaded. Received: {Path(path) / AGENT}: "
            f"{' '.join(str(error).split())[:200]}"
        ) from error


def load_model(file: str | Path, **options):
    """`keras.saving.load_model` of an agent that this package saved, or of any other model.

    Keras knows a class of ours only once its module is imported, which the file names.

    Args:
        file: `*.keras`.
        **options: of Keras's function.
    """
    import keras

    with contextlib.suppress(OSError, KeyError, TypeError, ValueError, zipfile.BadZipFile, ImportError):
        # Whatever is wrong with the file, Keras says so.
        with zipfile.ZipFile(file) as archive:
            module = str(json.loads(archive.read("config.json"))["module"])
        if module.startswith("dqn_lab."):
            importlib.import_module(module)
    return keras.saving.load_model(file, **options)


def read_manifest(path: Path) -> dict:
    """The manifest: `format`, `counters`, `files` with their sha256, and its own.

    Raises:
        ValueError: there is none, or it isn't the one that was written or is of another format.
    """
    try:
        manifest = json.loads((Path(path) / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"a checkpoint has a {MANIFEST}. Received: {path}") from None
    except (RecursionError, ValueError):  # no text, or no JSON
        manifest = None
    kinds = {"format": int, "counters": dict, "files": dict}
    if not isinstance(manifest, dict) or not all(isinstance(manifest.get(key), kind) for key, kind in kinds.items()):
        raise ValueError(f"{MANIFEST} isn't the file that was saved. Received: {path}")
    if manifest["format"] == FORMAT and sealed(manifest) != manifest:
        raise ValueError(f"{MANIFEST} isn't the file that was saved. Received: {path}")
    if manifest["format"] != FORMAT:
        raise UnknownFormatError(
            f"this version reads checkpoints of format {FORMAT}. Received: {path} of format {manifest['format']}"
        )
    return manifest


def sealed(manifest: dict) -> dict:
    """Returns a manifest with the checksum of all else that it says."""
    rest = {key: value for key, value in manifest.items() if key != _SEAL}
    return rest | {_SEAL: hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()}


def check_checkpoint(path: Path) -> dict:
    """Compares the files with the manifest, and returns it.

    Raises:
        ValueError: it is incomplete, or a file isn't the one that was written.
    """
    manifest = read_manifest(path)
    for name, digest in manifest["files"].items():
        file = Path(path) / name
        if not file.is_file() or _file_sha256(file) != digest:
            raise ValueError(f"{name} isn't the file that was saved. Received: {path}")
    return manifest


def complete_checkpoints(directory: Path) -> list[Path]:
    """The complete checkpoints of a directory, the newest (most steps) last."""
    found = [one for one in _numbered(directory) if (one / MANIFEST).is_file()]
    return sorted(found, key=lambda one: int(one.name))


def find_complete(path: Path) -> Path | None:
    """Returns where a checkpoint is: at `path`, or beside it if a kill came just as it was to be replaced; or None."""
    return next((one for one in (path, _aside(path)) if (one / MANIFEST).is_file()), None)


def recover(path: Path) -> list[str]:
    """Puts in order what a kill while `path` was being saved has left; nothing complete is lost.

    Returns:
        Names of what is removed.

    Raises:
        OSError: what the system says.
    """
    old = _aside(path)
    if old.is_dir() and not path.exists():
        old.rename(path)
    removed = [one for one in (old, _beside(path)) if one.exists()]
    for one in removed:
        _remove(one)
    return [one.name for one in removed]


def recover_all(directory: Path) -> list[str]:
    """`recover` for all checkpoints of a directory; returns as it does."""
    leftovers = [*directory.glob(".*.old"), *directory.glob(".*.part")]
    places = sorted({directory / one.name[1:].rpartition(".")[0] for one in leftovers})
    return [name for place in places for name in recover(place)]


def put_aside(path: Path) -> Path:
    """Renames a checkpoint that can't be used, so that it counts no more; returns its new place."""
    number, broken = 1, path.with_name(f"{path.name}.broken")
    while broken.exists():
        number += 1
        broken = path.with_name(f"{path.name}.broken-{number}")
    return path.rename(broken)


def newest_counters(directory: Path, accepts: Callable[[dict], bool] = lambda manifest: True) -> dict[str, float]:
    """The counters of a directory's newest checkpoint, its files unchecked; an empty dict where there is none.

    Args:
        directory: of checkpoints.
        accepts: which manifests count.
    """
    for path in reversed(complete_checkpoints(directory)):
        with contextlib.suppress(ValueError):  # who loads it says so
            manifest = read_manifest(path)
            if accepts(manifest):
                return manifest["counters"]
    return {}


def numbered_checkpoints(directory: Path) -> list[Path]:
    """Those that `complete_checkpoints` finds, and newer ones that should be complete and aren't."""
    complete = complete_checkpoints(directory)
    newest = int(complete[-1].name) if complete else -1
    others = [one for one in _numbered(directory) if int(one.name) > newest]
    return [*complete, *sorted(others, key=lambda one: int(one.name))]


def keep_newest(directory: Path, count: int) -> None:
    """Removes all but the newest `count` complete checkpoints, and what a killed save left."""
    for old in complete_checkpoints(directory)[:-count]:
        # Incomplete before it is half gone.
        (old / MANIFEST).unlink(missing_ok=True)
        _remove(old)
    complete = complete_checkpoints(directory)
    half_gone = [one for one in _numbered(directory) if complete and int(one.name) < int(complete[-1].name)]
    for leftover in (*directory.glob(".*.part"), *(one for one in half_gone if one not in complete)):
        _remove(leftover)


def _take_place(part: Path, path: Path) -> None:
    old = _aside(path)
    _remove(old)
    if path.exists():
        path.rename(old)  # a directory can't be renamed onto one that has files
    try:
        part.rename(path)
    except OSError:
        if old.exists():
            old.rename(path)
        raise
    flush(path.parent)
    _remove(old)


def _numbered(directory: Path) -> list[Path]:
    return [one for one in directory.iterdir() if one.name.isdecimal()] if directory.is_dir() else []


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.old")


def _remove(path: Path) -> None:
    if path.exists():
        shutil.rmtree(path)


def sha256(stream: BinaryIO) -> str:
    """Returns the checksum of a file that is open, all of it."""
    stream.seek(0)
    return hashlib.file_digest(stream, "sha256").hexdigest()


def _file_sha256(file: Path) -> str:
    with open(file, "rb") as stream:
        return sha256(stream)


def flush(path: Path) -> None:
    """Makes the system write a file, or a directory's names, to the disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows has no such thing for directories
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
