"""The fits of a run that learns from a replay."""

from __future__ import annotations

import math

from dqn_lab.evaluation import EvaluationStopped
from dqn_lab.replay_checkpoints import ReplayCheckpoints
from dqn_lab.training import Training


class ReplayTraining(Training):
    """Fits the agent of a run until one of its totals is reached.

    Args:
        run: whose agent learns from its sequence.
        *parts, **options: as `Training` takes them; totals are counted in updates.
    """

    def __init__(self, run, *parts, **options):
        from dqn_lab.callbacks.checkpoint import Checkpoint

        super().__init__(run, *parts, **options)
        steps = run.checkpoint_period_steps
        self._checkpoint = Checkpoint(
            self.checkpoints,
            minutes=self.minutes,
            period_updates=None if steps is None else math.ceil(steps / run.sequence.train_period_steps),
            period_minutes=run.checkpoint_period_minutes,
        )
        # What saves the epoch before it is judged; and last what stops, when all is done.
        self._callbacks = [self._checkpoint, *self._callbacks, self._limits]

    def fit(self) -> None:
        """Makes the updates that are left, beginning in the midst of an epoch if need be.

        An evaluation that is asked to stop is broken off; who continues the run begins with it.
        """
        self._try_state()
        self.checkpoints.ready = True
        try:
            self._fit_epochs()
        except EvaluationStopped:
            self._limits.interrupted = True
            self._checkpoint.rescue()

    def _try_state(self) -> None:
        """Says at the start, and not when it is needed, that environments can't tell their state."""
        sequence = self._run.sequence
        before = sequence.why_inexact()
        sequence.get_state(replay=False)
        if (reason := sequence.why_inexact()) != before:
            self._transcript.say(f"not exact: {reason}, episodes begin anew where the run is continued")

    def _fit_epochs(self) -> None:
        agent, length = self._run.agent, len(self._run.sequence)
        epoch, made = divmod(agent.updates, length)
        if epoch > self.checkpoints.epochs and not made:
            agent.finish_epoch(self._run.sequence, epoch - 1, self._callbacks)
            if agent.stop_training:
                return
        if agent.updates >= self._totals.updates:  # of an older checkpoint than the newest one
            return
        if made:
            self._fit(epoch, epoch + 1, length - made)
            if agent.stop_training:
                return
            epoch += 1
        if epoch < self._totals.epochs:
            self._fit(epoch, self._totals.epochs, None)

    def _fit(self, initial_epoch: int, epochs: int, epoch_updates: int | None) -> None:
        self._run.agent.fit(
            self._run.sequence,
            initial_epoch=initial_epoch,
            epochs=epochs,
            epoch_updates=epoch_updates,
            callbacks=self._callbacks,
            verbose=0,
            log_period_updates=self._run.log_period_updates,
        )

    def _make_limits(self):
        from dqn_lab.callbacks.limits import Limits

        return Limits(
            total_updates=self._totals.updates,
            total_minutes=self._totals.minutes,
            minutes=self.minutes,
            stop_requested=lambda: self._interruption.requested,
        )

    def _make_checkpoints(self, callbacks: dict, settings: dict) -> ReplayCheckpoints:
        run = self._run
        return ReplayCheckpoints(
            self._directory,
            run.agent,
            run.sequence,
            callbacks,
            settings=settings,
            minutes=self.minutes,
            keep=run.keep,
        )

    def _save_rest(self) -> bool:
        return self._checkpoint.rescue()
