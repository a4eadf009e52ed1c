"""A run's checkpoints: its whole state in files, written whole or not at all, put back, and the newest kept."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from dqn_lab import curves
from dqn_lab.checkpoint import (
    AGENT,
    UnknownFormatError,
    check_checkpoint,
    complete_checkpoints,
    keep_newest,
    newest_counters,
    numbered_checkpoints,
    put_aside,
    recover,
    recover_all,
    write_checkpoint,
)
from dqn_lab.continuation import describe_machine, differences
from dqn_lab.run_directory import RunDirectory
from dqn_lab.saved_state import read_state, write_state

_STATE = "state"
_NONE_LEFT = (
    "no checkpoint of this run can be used; begin anew with --fresh or in another directory (--run-dir), with what is "
    "left of its weights if you like (--set initial_weights=...)."
)
_logger = logging.getLogger("dqn_lab")


class UnsavedError(OSError):
    """A checkpoint could not be written; the text says which is the last good one."""


class RunCheckpoints:
    """Saves a run and puts it back. What a way of learning carries on is a subclass's.

        checkpoints/123000/agent.keras      the agent
                           state.json, npz  what the next update depends on beside it, and what callbacks carry on
                           manifest.json    settings, machine, checksums of all files

    A subclass defines `_get_parts` and `_set_parts`.

    Args:
        directory: of the run.
        agent: of the run; with `updates`, `check_finite()` and `save(path)`.
        counts: with `steps`, `frames` and `episodes` of the run.
        callbacks: name -> callback with `get_state` and `set_state`.
        settings: what may not change in a run; see `continuation.settings`.
        minutes: minutes that the run has taken so far.
        keep: how many of the newest checkpoints stay.

    Attributes:
        epochs: whose end has been carried out: the epoch was judged, and its row written.
        ready: the run stands where it can be saved: it was filled, or put back.
    """

    def __init__(
        self,
        directory: RunDirectory,
        agent,
        counts,
        callbacks: Mapping[str, object],
        *,
        settings: Mapping[str, object],
        minutes: Callable[[], float],
        keep: int,
    ):
        self.epochs = 0
        self.ready = False
        self._directory, self._agent, self._counts = directory, agent, counts
        self._callbacks = dict(callbacks)
        self._settings, self._minutes, self._keep = dict(settings), minutes, keep
        self._saved: tuple[int, int] | None = None  # updates and epochs of the newest checkpoint

    def counters(self) -> dict[str, float]:
        """What the run has counted so far."""
        return {
            "steps": int(self._counts.steps),
            "frames": int(self._counts.frames),
            "updates": int(self._agent.updates),
            "epochs": self.epochs,
            "episodes": int(self._counts.episodes),
            "train_return_sum": float(self._counts.episode_return_sum),  # raw, of these episodes
            "minutes": float(self._minutes()),
        }

    def get_state(self) -> dict:
        """Returns what a run's next update depends on, beside what files of their own hold."""
        parts = self._get_parts()  # first: they may still count steps
        return {
            "counters": self.counters(),
            **parts,
            "callbacks": {name: callback.get_state() for name, callback in self._callbacks.items()},
            "curves": curves.positions(self._directory.path),
        }

    def save_if_new(self, state: dict | None = None) -> bool:
        """Saves unless there is nothing that is not saved; tells whether any checkpoint of this run exists.

        Raises:
            UnsavedError: what the system says, and which checkpoint is the last good one.
        """
        if not self.ready or not self._agent.updates:
            return self._saved is not None
        if (self._agent.updates, self._epochs_in(state)) != self._saved:
            self.save(state)
        return True

    def save(self, state: dict | None = None) -> Path:
        """Saves the run between two updates.

        Args:
            state: as `get_state` returned it since the last update; None to take it now.

        Raises:
            FloatingPointError: a loss or gradient was not finite; nothing is saved then.
            UnsavedError: what the system says, and which checkpoint is the last good one.
        """
        self._agent.check_finite()
        state = self.get_state() if state is None else state
        counters = state["counters"]
        path = self._directory.checkpoints / str(counters["steps"])
        try:
            curves.flush(self._directory.path)
            shared = self._write_shared()
            write_checkpoint(
                path,
                lambda part: self._write(part, state),
                counters,
                settings=self._settings,
                machine=describe_machine(),
                **shared,
            )
        except OSError as error:
            with contextlib.suppress(OSError):
                self._prune()  # of the shared part of what failed, which the next try writes again
            raise UnsavedError(
                f"the run could not be saved at {counters['steps']:,} steps: {error}; {self.describe_last()}"
            ) from error
        self._saved = counters["updates"], counters["epochs"]
        keep_newest(self._directory.checkpoints, self._keep)
        self._prune()
        return path

    def describe_last(self) -> str:
        """Says which checkpoint is the last good one."""
        found = complete_checkpoints(self._directory.checkpoints)
        return f"the last good checkpoint is {found[-1]}" if found else "there is no earlier checkpoint"

    def newest_counters(self) -> dict[str, float]:
        """The counters of this run's newest checkpoint, its files unchecked; an empty dict where there is none."""
        return newest_counters(self._directory.checkpoints, self._is_this_runs)

    def restore(self) -> dict | None:
        """Puts the newest checkpoint back that is whole, and cuts the curves to where they were then.

        Those that can't be used are named and put aside.

        Returns:
            Its manifest, with what `_set_parts` tells, and as "curves" how far the curves were; None where there is no
            checkpoint.

        Raises:
            ValueError: there are checkpoints and none can be used.
            OSError: what the system says when files are put in order.
        """
        for name in (*recover_all(self._directory.checkpoints), *recover(self._directory.best)):
            _logger.info("removed what a save that was broken off has left: %s", name)
        found = numbered_checkpoints(self._directory.checkpoints)
        if not found:
            if broken := sorted(self._directory.checkpoints.glob("*.broken*")):
                raise ValueError(f"{_NONE_LEFT} Received: {', '.join(map(str, broken))}")
            self._cut({})
            return None
        refusals = []
        for path in reversed(found):
            try:
                manifest = self._restore(path)
            except UnknownFormatError:  # of a later version, say, which must not lose its newest one
                raise
            except (ValueError, OSError) as error:
                refusals.append((path, error))
                continue
            for each, error in refusals:
                _logger.warning("a checkpoint can't be used and is now %s: %s", put_aside(each), _received_first(error))
            self._prune()
            self._cut(manifest["curves"])
            return manifest
        reasons = "; ".join(_received_first(error) for _, error in refusals)
        raise ValueError(f"{_NONE_LEFT} Received: {reasons}")

    def _restore(self, path: Path) -> dict:
        manifest = check_checkpoint(path)
        if not self._is_this_runs(manifest):
            raise ValueError(f"{path} is another run's: {differences(manifest['settings'], self._settings)}")
        state = read_state(path, _STATE)
        try:
            told = self._set_state(path, state, manifest)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} isn't what a run saves: {type(error).__name__}: {error}") from error
        self._saved = manifest["counters"]["updates"], manifest["counters"]["epochs"]
        return {**manifest, **told, "curves": state["curves"]}

    def _is_this_runs(self, manifest: dict) -> bool:
        return not differences(manifest.get("settings", {}), self._settings)

    def _set_state(self, path: Path, state: dict, manifest: dict) -> dict:
        told = self._set_parts(path, state, manifest)
        for name, callback in self._callbacks.items():
            if name in state["callbacks"]:
                callback.set_state(state["callbacks"][name])
        self.epochs = state["counters"]["epochs"]
        return told

    def _get_parts(self) -> dict:
        """Returns what this way of learning carries on, as `write_state` takes it; keys are added to the state's."""
        raise NotImplementedError(f"{type(self).__name__} must define _get_parts().")

    def _set_parts(self, path: Path, state: dict, manifest: dict) -> dict:
        """Takes over what `_get_parts`, `_write` and `_write_shared` left.

        Args:
            path: the checkpoint; its files are as they were written.
            state: as `get_state` returned it.
            manifest: with what `_write_shared` returned.

        Returns:
            What `restore` adds to the manifest.

        Raises:
            ValueError, OSError: it can't be used; the text names the file. So do KeyError, TypeError and
                AttributeError, which are told as such.
        """
        raise NotImplementedError(f"{type(self).__name__} must define _set_parts(path, state, manifest).")

    def _write(self, part: Path, state: dict) -> None:
        """Writes a checkpoint's own files, manifest.json aside, into a folder."""
        self._agent.save(part / AGENT)
        write_state(part, _STATE, state)

    def _write_shared(self) -> dict:
        """Writes what lies outside the checkpoint, for later ones too; returns what its manifest says of that."""
        return {}

    def _prune(self) -> None:
        """Removes of what `_write_shared` wrote all that no checkpoint needs."""

    def _cut(self, positions: dict[str, int]) -> None:
        for line in curves.cut(self._directory.path, positions) or ():
            _logger.warning("%s", line)

    def _epochs_in(self, state: dict | None) -> int:
        return self.epochs if state is None else state["counters"]["epochs"]


def _received_first(error: ValueError | OSError) -> str:
    """An error's text for the midst of another one: what was received, then the rule."""
    rule, received, what = str(error).rpartition(" Received: ")
    return f"{what}: {rule.rstrip('.')}" if received else str(error)
