"""A run directory: where a run's files are, and who may make one."""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

from filelock import FileLock, Timeout

FORMAT = 2
_LOCK, _CONFIG_PART = ".lock", "config.json.part"
_LOOK_SECONDS = 0.1  # longer than another process looks at the lock (`is_running`)

_PACKAGE = Path(__file__).resolve().parent
_VERSIONED = ("dqn_lab", "tensorflow", "keras", "gymnasium", "ale-py", "numpy")


class RunDirectory:
    """`runs/<name>/` with `config.json`, whose presence makes a directory a run.

    A run that is there is continued, or put aside. While a run goes on it holds the lock `.lock` in it, which the
    system frees however the process ends.

    Args:
        path: the directory; it is made by `create`, not before.
        fresh: whether a run that is there is put aside.
    """

    def __init__(self, path: str | Path, *, fresh: bool = False):
        self.path = Path(path).resolve() if Path(path).name in ("", "..") else Path(path)  # `.` has no name
        self.fresh = fresh
        self._lock: FileLock | None = None
        self._found: frozenset[str] = frozenset()  # what was in it before this process came

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    @property
    def config(self) -> Path:
        return self.path / "config.json"

    @property
    def log(self) -> Path:
        return self.path / "log.txt"

    @property
    def progress(self) -> Path:
        return self.path / "progress.csv"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def best(self) -> Path:
        return self.path / "best"

    @property
    def is_used(self) -> bool:
        """Whether there is a run in it."""
        return self.config.exists()

    @property
    def replay(self) -> Path:
        return self.path / "replay"

    @property
    def weights(self) -> Path:
        return self.path / "weights"

    @property
    def lacks_config(self) -> bool:
        """Whether there are checkpoints in it and no config.json, so that nobody knows of which run."""
        numbered = self.checkpoints.glob("[0-9]*") if self.checkpoints.is_dir() else ()
        return not self.is_used and any(True for _ in numbered)

    @property
    def continues(self) -> bool:
        """Whether `open` goes on with a run that is there."""
        return self.is_used and not self.fresh

    def read_config(self) -> dict:
        """Returns what config.json says.

        Raises:
            ValueError: it isn't what a run wrote, or is of another format.
        """
        try:
            config = dict(json.loads(self.config.read_text(encoding="utf-8")))
        except (OSError, TypeError, ValueError):
            config = {}
        if config.get("format") != FORMAT:
            raise ValueError(
                f"a run's config.json is of format {FORMAT}: name another directory with --run-dir, or put what is "
                f"there aside with --fresh. Received: {self.config} of format {config.get('format', 'unknown')}"
            )
        return config

    def check(self) -> None:
        """Says before anything is built whether `open` would be refused.

        Raises:
            FileExistsError: a run is going on in it, or it has a run's checkpoints without its config.json.
            NotADirectoryError: something on the way there is a file; a file stands where a folder should, or a folder
                where a file should.
            PermissionError: it can't be written.
        """
        if self._is_locked():
            raise FileExistsError(
                "a run is going on in this directory: stop it, or name another with --run-dir. "
                f"Received: run_dir={self.path}"
            )
        if self.lacks_config and not self.fresh:
            raise FileExistsError(
                "this directory has checkpoints and no config.json: put that back, name another directory with "
                f"--run-dir, or put what is there aside with --fresh. Received: run_dir={self.path}"
            )
        self._check_kinds()
        there = self.existing_parent()
        if not there.is_dir():
            raise NotADirectoryError(f"a run directory can't be in a file. Received: {self.path}")
        for place in (there, *(one for one in self._folders() if one.exists())):
            if not os.access(place, os.W_OK | os.X_OK):
                raise PermissionError(f"a run directory must be writable. Received: {place}")

    def existing_parent(self) -> Path:
        """Returns the directory itself, or the nearest one above it that there is."""
        return next(one for one in (self.path, *self.path.absolute().parents) if one.exists())

    def open(self, config: dict) -> Path | None:
        """Makes the directory, or takes over the one that is there; `config.json` is written last.

        Returns:
            Where the run that was there has been put, or None.

        Raises:
            OSError: as `check`, or what the system says; nothing is left half made.
        """
        self.check()
        if not self.fresh and self.path.is_dir():
            self._found = frozenset(os.listdir(self.path))
        put_aside = self._put_aside() if self.fresh and (self.is_used or self.lacks_config) else None
        made = not self.path.exists()
        try:
            (self.path.resolve() if self.path.is_symlink() else self.path).mkdir(parents=True, exist_ok=True)
            self._take_lock()
            self.write_config(config)
        except OSError:
            if self._lock is not None:
                (self.path / _CONFIG_PART).unlink(missing_ok=True)
                self._remove_lock()
            if made and self.path.is_dir():
                self.path.rmdir()
            raise
        return put_aside

    def write_config(self, config: dict) -> None:
        """Writes config.json, whole or not at all.

        Raises:
            OSError: what the system says.
        """
        part = self.path / _CONFIG_PART
        try:
            with open(part, "w", encoding="utf-8") as file:
                file.write(json.dumps(jsonable(config), indent=2) + "\n")
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.config)
        except OSError as error:
            raise OSError(f"config.json can't be written: {error}. Received: run_dir={self.path}") from error

    def release(self) -> None:
        """Lets go of the lock: the run has ended."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def discard(self, *, keep_log: bool = False) -> None:
        """Takes away what a run wrote that saved nothing, so that the same command can be given again.

        What was there before stays.
        """
        files = [self.config, self.progress, *self.path.glob("events.out.tfevents.*")]
        for file in files if keep_log else [*files, self.log]:
            if file.name not in self._found:
                file.unlink(missing_ok=True)
        self._remove_lock()  # last: another run may begin from now on
        for folder in (*self._folders(), self.path):
            with contextlib.suppress(OSError):  # not there, or not empty: somebody else's
                folder.rmdir()

    def _folders(self) -> tuple[Path, ...]:
        return self.checkpoints, self.best, self.replay, self.weights

    def _check_kinds(self) -> None:
        if self.path.is_symlink() and not self.path.exists():
            raise NotADirectoryError(f"a run directory can't be a link to nothing. Received: run_dir={self.path}")
        wrong = [one for one in self._folders() if one.exists() and not one.is_dir()]
        wrong += [one for one in (self.config, self.progress, self.log, self.path / _LOCK) if one.is_dir()]
        if wrong:
            raise NotADirectoryError(
                "a run directory has folders checkpoints, best, replay and weights, and files beside them. "
                f"Received: {wrong[0]}"
            )

    def _remove_lock(self) -> None:
        lock = self.path / _LOCK
        with contextlib.suppress(PermissionError):  # Windows removes no open file
            lock.unlink(missing_ok=True)
        self.release()
        lock.unlink(missing_ok=True)

    def _is_locked(self) -> bool:
        if self._lock is not None or not (self.path / _LOCK).exists():
            return False
        lock = FileLock(self.path / _LOCK)
        try:
            lock.acquire(timeout=_LOOK_SECONDS, poll_interval=_LOOK_SECONDS / 10)
        except Timeout:
            return True
        except OSError:  # it can't be written, which `check` says better
            return False
        lock.release()
        return False

    def _take_lock(self) -> None:
        lock = FileLock(self.path / _LOCK)
        try:
            lock.acquire(timeout=_LOOK_SECONDS, poll_interval=_LOOK_SECONDS / 10)
        except Timeout:
            raise FileExistsError(f"a run has just begun in this directory. Received: run_dir={self.path}") from None
        self._lock = lock

    def _put_aside(self) -> Path:
        place = self.path.resolve() if self.path.is_symlink() else self.path
        number = 1
        while (old := place.with_name(f"{place.name}.old-{number}")).exists():
            number += 1
        try:
            return place.rename(old)
        except OSError as error:
            raise OSError(
                f"what is there can't be put aside ({error.strerror}): name another directory with --run-dir. "
                f"Received: run_dir={self.path}"
            ) from error


def is_running(path: str | Path) -> bool:
    """Whether a process of this machine is carrying out the run of a directory. Nothing is written.

    The lock is shared for microseconds; a run that begins just then waits for that.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return RunDirectory(path)._is_locked()
    try:
        with open(Path(path) / _LOCK, "rb") as lock:  # closing it lets go
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # there is none, or it can't be read
        return False
    return False


def describe_software() -> dict[str, str]:
    """Versions of Python and of the packages that a result can depend on."""
    versions = {"python": platform.python_version(), "system": platform.platform()}
    for name in _VERSIONED:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue  # imported from a folder, or an optional one
    return versions


def git_commit(folder: Path = _PACKAGE) -> str | None:
    """The commit of the clone that the package is in, with `-dirty` if files differ from it."""
    git = ["git", "-C", str(folder)]
    try:
        # An environment may lie in somebody else's repository: its commit says nothing of ours.
        top = _output([*git, "rev-parse", "--show-toplevel"])
        if Path(top).resolve() != folder.parent:
            return None
        return _output([*git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"])
    except (OSError, subprocess.SubprocessError):
        return None


def jsonable(value):
    """The value with what JSON can't say written as text: infinity as "inf", paths, tuples."""
    if isinstance(value, dict):
        return {str(key): jsonable(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return jsonable(value.tolist()) if hasattr(value, "tolist") else str(value)


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()
