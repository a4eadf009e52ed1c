"""The checkpoints of a run that learns from a replay, whose rows they share."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from dqn_lab.checkpoint import AGENT, complete_checkpoints, read_manifest
from dqn_lab.run_checkpoints import RunCheckpoints
from dqn_lab.run_directory import RunDirectory
from dqn_lab.saved_replay import SavedReplay

_logger = logging.getLogger("dqn_lab")


class ReplayCheckpoints(RunCheckpoints):
    """Saves a run with its replay and puts it back; what `restore` adds is "lanes", whether environments go on.

        checkpoints/123000/agent.keras      both networks, the optimizer, the count of updates
                           state.json, npz  environments, generators, counters, what callbacks carry on
                           manifest.json    settings, machine, checksums of all files, those of replay/ too
        replay/000017.npz                   what was new in the replay at one save; shared by those after it

    Args:
        directory: of the run.
        agent: of the run.
        sequence: of the run.
        callbacks: name -> callback with `get_state` and `set_state`.
        **options: as `RunCheckpoints` takes them.
    """

    def __init__(self, directory: RunDirectory, agent, sequence, callbacks: Mapping[str, object], **options):
        super().__init__(directory, agent, sequence, callbacks, **options)
        self._sequence = sequence
        self._replay = SavedReplay(directory.replay, sequence.replay.ring)

    def _get_parts(self) -> dict:
        sequence = self._sequence.get_state(replay=False)  # a batch in the making still counts steps
        return {"feeding": self._sequence.feeding, "sequence": sequence, "agent": self._agent.get_state()}

    def _set_parts(self, path: Path, state: dict, manifest: dict) -> dict:
        self._replay.read(manifest["replay"])
        self._agent.restore(path / AGENT)
        self._set_sequence(state["sequence"])
        self._agent.set_state(state["agent"])
        if state["feeding"] != self._sequence.feeding:
            self._sequence.use_feeding(state["feeding"], "as the run began")
        return {"lanes": state["sequence"]["simulation"]["lanes"] is not None}

    def _set_sequence(self, state: dict) -> None:
        try:
            self._sequence.set_state(state)
        except Exception as error:  # an environment's own, whatever it is: the rest can still go on
            state["simulation"]["lanes"] = None
            self._sequence.set_state(state)
            _logger.warning(
                "the environments' state can't be set (%s: %s): new episodes begin", type(error).__name__, error
            )

    def _write_shared(self) -> dict:
        return {"replay": self._replay.write()}

    def _prune(self) -> None:
        kept, places = [], self._directory.checkpoints
        for path in (*complete_checkpoints(places), *places.glob("*.broken*")):
            try:
                kept.append(read_manifest(path)["replay"])
            except (KeyError, ValueError):  # it can't be loaded anyway
                continue
        self._replay.prune(kept)
