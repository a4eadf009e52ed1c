"""The fits of a run: their callbacks, what is said and saved at their end."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable

from dqn_lab.evaluation import EvaluationStopped
from dqn_lab.interruption import Interruption
from dqn_lab.run_checkpoints import UnsavedError
from dqn_lab.run_directory import RunDirectory, jsonable
from dqn_lab.totals import Totals


class Training:
    """Fits the agent of a run until one of its totals is reached.

    Args:
        run: of which the parts are.
        directory: of the run.
        transcript: that prints and keeps the log.
        totals: that end it.
        interruption: that may ask it to stop.
        config: the run's configuration, shown in TensorBoard.
        settings: what may not change in a run.
        callbacks: a user's.
    """

    def __init__(
        self,
        run,
        directory: RunDirectory,
        transcript,
        totals: Totals,
        interruption: Interruption,
        *,
        config: dict,
        settings: dict,
        callbacks: Iterable,
    ):
        from dqn_lab.callbacks.checkpoint import BestCheckpoint, Checkpoint
        from dqn_lab.callbacks.limits import Limits
        from dqn_lab.callbacks.metrics import Metrics
        from dqn_lab.callbacks.progress import Progress
        from dqn_lab.callbacks.progress_csv import ProgressCSV
        from dqn_lab.callbacks.tensorboard import TensorBoardScalars
        from dqn_lab.callbacks.weights import KeepWeights
        from dqn_lab.run_checkpoints import RunCheckpoints

        self._run, self._directory, self._transcript, self._totals = run, directory, transcript, totals
        self._began, self._minutes_before = time.perf_counter(), 0.0
        evaluation = [] if run.evaluation is None else [run.evaluation]
        if evaluation:
            run.evaluation.stop_requested = lambda: interruption.requested
        metrics = Metrics(run.evaluation, minutes=self.minutes)
        tensorboard = TensorBoardScalars(
            directory.path, metrics, log_period_updates=run.log_period_updates, texts=_texts(run, config)
        )
        self._limits = Limits(
            total_updates=totals.updates,
            total_minutes=totals.minutes,
            minutes=self.minutes,
            stop_requested=lambda: interruption.requested,
        )
        progress = Progress(transcript, metrics, self._limits)
        stateful = {"metrics": metrics, "tensorboard": tensorboard, "progress": progress}
        self.checkpoints = RunCheckpoints(
            directory,
            run.agent,
            run.sequence,
            stateful | ({"evaluation": run.evaluation} if evaluation else {}),
            settings=settings,
            minutes=self.minutes,
            keep=run.keep,
        )
        steps = run.checkpoint_period_steps
        self._checkpoint = Checkpoint(
            self.checkpoints,
            minutes=self.minutes,
            period_updates=None if steps is None else math.ceil(steps / run.sequence.train_period_steps),
            period_minutes=run.checkpoint_period_minutes,
        )
        # What saves the epoch before it is judged; measures, then monitors, then what writes: each sees all that those
        # before it added.
        self._callbacks = [
            self._checkpoint,
            metrics,
            *evaluation,
            *callbacks,
            ProgressCSV(directory.progress, metrics),
            tensorboard,
            progress,
            BestCheckpoint(directory.best, metrics, counters=self.checkpoints.counters),
            *([KeepWeights(directory.weights, metrics)] if run.keep_weights == "all" else []),
            self._limits,
        ]

    def minutes(self) -> float:
        """Minutes that the run has taken so far, over all its processes."""
        return self._minutes_before + (time.perf_counter() - self._began) / 60

    def restore(self) -> dict | None:
        """As `RunCheckpoints.restore`; the minutes go on too."""
        manifest = self.checkpoints.restore()
        if manifest is not None:
            self._began, self._minutes_before = time.perf_counter(), manifest["counters"]["minutes"]
        return manifest

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

    def rescue(self, error: BaseException, *, may_discard: bool) -> None:
        """Saves what is safe when an error came.

        Where nothing had been learnt the directory is no run any more, so that the same command can be given again:
        after an error only its log stays, after Ctrl-C nothing.

        Args:
            error: that ended the run.
            may_discard: there was no run in the directory before.
        """
        if isinstance(error, UnsavedError):
            return  # it says so itself
        if isinstance(error, FloatingPointError):
            last = self.checkpoints.describe_last()
            self._transcript.say(f"nothing is saved of a run whose figures are not finite; {last}")
            return
        try:
            if self._checkpoint.rescue():
                self._transcript.say(f"saved in {self._directory.checkpoints} before ending")
                return
        except (OSError, FloatingPointError) as failure:
            self._transcript.say(str(failure))
            return
        if may_discard:
            asked = isinstance(error, KeyboardInterrupt)
            if asked:
                self._transcript.close_log()
            self._directory.discard(keep_log=not asked)

    def is_finished(self, counters: dict) -> bool:
        """Whether a run with these counters has come to its end."""
        if not counters:
            return False
        whole_epochs = counters["updates"] // len(self._run.sequence)
        ended = counters["updates"] >= self._totals.updates or counters["minutes"] >= self._totals.minutes
        return ended and counters["epochs"] == whole_epochs

    def conclude(self) -> bool:
        """Says how the run ended; returns whether it was not by a request to stop."""
        agent, sequence = self._run.agent, self._run.sequence
        how = "stopped" if self._limits.interrupted else "ended"
        self._transcript.say(
            f"{how} after {agent.updates:,} updates, {sequence.steps:,} steps, "
            f"{sequence.frames:,} frames, {self.minutes():.1f} minutes; "
            f"saved in {self._directory.checkpoints}"
        )
        return not self._limits.interrupted

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


def _texts(run, config: dict) -> dict[str, str]:
    """Network and configuration, as Markdown that TensorBoard shows."""
    lines: list[str] = []
    run.agent.network.summary(print_fn=lambda line, **_: lines.append(line))
    return {
        "network": _verbatim("\n".join(lines)),
        "config": _verbatim(json.dumps(jsonable(config), indent=2)),
    }


def _verbatim(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())
