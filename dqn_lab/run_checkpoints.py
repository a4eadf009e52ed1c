"""A run's checkpoints: its whole state in files, written whole or not at all, and put back."""

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
    read_manifest,
    recover,
    recover_all,
    write_checkpoint,
)
from dqn_lab.continuation import describe_machine, differences
from dqn_lab.run_directory import RunDirectory
from dqn_lab.saved_replay import SavedReplay
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
    """Saves a run and puts it back.

        checkpoints/123000/agent.keras      both networks, the optimizer, the count of updates
                           state.json, npz  environments, generators, counters, what callbacks carry on
                           manifest.json    settings, machine, checksums of all files, those of replay/ too
        replay/000017.npz                   what was new in the replay at one save; shared by those after it

    Args:
        directory: of the run.
        agent: of the run.
        sequence: of the run.
        callbacks: name -> callback with `get_state` and `set_state`.
        settings: what may not change in a run; see `continuation.settings`.
        minutes: minutes that the run has taken so far.
        keep: how many of the newest checkpoints stay.

    Attributes:
        epochs: whose end has been carried out: the epoch was judged, and its row written.
        ready: the run stands where it can be saved: its replay is filled, or it was put back.
    """

    def __init__(
        self,
        directory: RunDirectory,
        agent,
        sequence,
        callbacks: Mapping[str, object],
        *,
        settings: Mapping[str, object],
        minutes: Callable[[], float],
        keep: int,
    ):
        self.epochs = 0
        self.ready = False
        self._directory, self._agent, self._sequence = directory, agent, sequence
        self._callbacks = dict(callbacks)
        self._settings, self._minutes, self._keep = dict(settings), minutes, keep
        self._replay = SavedReplay(directory.replay, sequence.replay.ring)
        self._saved: tuple[int, int] | None = None  # updates and epochs of the newest checkpoint

    def counters(self) -> dict[str, float]:
        """What the run has counted so far."""
        return {
            "steps": int(self._sequence.steps),
            "frames": int(self._sequence.frames),
            "updates": int(self._agent.updates),
            "epochs": self.epochs,
            "episodes": int(self._sequence.episodes),
            "minutes": float(self._minutes()),
        }

    def get_state(self) -> dict:
        """Returns what a run's next update depends on, beside the agent's variables and the replay's rows."""
        sequence = self._sequence.get_state(replay=False)  # first: a batch in the making still counts steps
        return {
            "counters": self.counters(),
            "feeding": self._sequence.feeding,
            "sequence": sequence,
            "agent": self._agent.get_state(),
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
            entries = self._replay.write()
            write_checkpoint(
                path,
                lambda part: self._write(part, state),
                counters,
                settings=self._settings,
                machine=describe_machine(),
                replay=entries,
            )
        except OSError as error:
            with contextlib.suppress(OSError):
                self._prune()  # of the replay's part of what failed, which the next try writes again
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
            Its manifest, as "lanes" whether the environments' state was in it, and as "curves" how far the curves were;
            None where there is no checkpoint.

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
            self._apply(path, state, manifest)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} isn't what a run saves: {type(error).__name__}: {error}") from error
        self._saved = manifest["counters"]["updates"], manifest["counters"]["epochs"]
        lanes = state["sequence"]["simulation"]["lanes"] is not None
        return {**manifest, "lanes": lanes, "curves": state["curves"]}

    def _is_this_runs(self, manifest: dict) -> bool:
        return not differences(manifest.get("settings", {}), self._settings)

    def _apply(self, path: Path, state: dict, manifest: dict) -> None:
        self._replay.read(manifest["replay"])
        self._agent.restore(path / AGENT)
        self._set_sequence(state["sequence"])
        self._agent.set_state(state["agent"])
        if state["feeding"] != self._sequence.feeding:
            self._sequence.use_feeding(state["feeding"], "as the run began")
        for name, callback in self._callbacks.items():
            if name in state["callbacks"]:
                callback.set_state(state["callbacks"][name])
        self.epochs = state["counters"]["epochs"]

    def _set_sequence(self, state: dict) -> None:
        try:
            self._sequence.set_state(state)
        except Exception as error:  # an environment's own, whatever it is: the rest can still go on
            state["simulation"]["lanes"] = None
            self._sequence.set_state(state)
            _logger.warning(
                "the environments' state can't be set (%s: %s): new episodes begin", type(error).__name__, error
            )

    def _write(self, part: Path, state: dict) -> None:
        self._agent.save(part / AGENT)
        write_state(part, _STATE, state)

    def _prune(self) -> None:
        kept, places = [], self._directory.checkpoints
        for path in (*complete_checkpoints(places), *places.glob("*.broken*")):
            try:
                kept.append(read_manifest(path)["replay"])
            except (KeyError, ValueError):  # it can't be loaded anyway
                continue
        self._replay.prune(kept)

    def _cut(self, positions: dict[str, int]) -> None:
        for line in curves.cut(self._directory.path, positions) or ():
            _logger.warning("%s", line)

    def _epochs_in(self, state: dict | None) -> int:
        return self.epochs if state is None else state["counters"]["epochs"]


def _received_first(error: ValueError | OSError) -> str:
    """An error's text for the midst of another one: what was received, then the rule."""
    rule, received, what = str(error).rpartition(" Received: ")
    return f"{what}: {rule.rstrip('.')}" if received else str(error)
