"""The checkpoints of an asynchronous run: what the workers share, and what each of them stands before."""

from __future__ import annotations

from collections.abc import Callable

from dqn_lab.run_checkpoints import RunCheckpoints


class AsynchronousCheckpoints(RunCheckpoints):
    """As `RunCheckpoints`; the parameters are in the state, bit for bit, and in the agent to be loaded without a run.

    Args:
        *parts, **options: as `RunCheckpoints` takes them.
        get_parts: returns what the training carries on, as `write_state` takes it.
        set_parts: takes it over; tells whether the environments' state was in it.
    """

    def __init__(self, *parts, get_parts: Callable[[], dict], set_parts: Callable[[dict], bool], **options):
        super().__init__(*parts, **options)
        self._get_training, self._set_training = get_parts, set_parts

    def save(self, state: dict | None = None):
        """As `RunCheckpoints`; the agent takes the parameters over first, so that they are what is checked."""
        return super().save(self.get_state() if state is None else state)

    def _get_parts(self) -> dict:
        return {"training": self._get_training()}

    def _set_parts(self, path, state: dict, manifest: dict) -> dict:
        return {"lanes": self._set_training(state["training"])}
