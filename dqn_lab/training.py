"""The learning of a run, carried out: what is measured and written at epochs, what is said and saved at its end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

from dqn_lab.checkpoint import complete_checkpoints
from dqn_lab.interruption import Interruption
from dqn_lab.run_checkpoints import RunCheckpoints, UnsavedError
from dqn_lab.run_directory import RunDirectory, jsonable
from dqn_lab.rundef_keys import ASYNCHRONOUS_KEYS, COMMON_KEYS
from dqn_lab.totals import StepTotals


class Training:
    """Has a run learn until one of its totals is reached.

    A subclass defines `fit`, `_make_limits` and `_make_checkpoints`.

    Args:
        run: of which the parts are.
        directory: of the run.
        transcript: that prints and keeps the log.
        totals: that end it.
        interruption: that may ask it to stop.
        config: the run's configuration, shown in TensorBoard, with its "settings".
        callbacks: a user's.

    Attributes:
        checkpoints: of the run.
    """

    def __init__(
        self,
        run,
        directory: RunDirectory,
        transcript,
        totals: StepTotals,
        interruption: Interruption,
        *,
        config: dict,
        callbacks: Iterable = (),
    ):
        from dqn_lab.callbacks.checkpoint import BestCheckpoint
        from dqn_lab.callbacks.metrics import Metrics
        from dqn_lab.callbacks.progress import Progress
        from dqn_lab.callbacks.progress_csv import ProgressCSV
        from dqn_lab.callbacks.tensorboard import TensorBoardScalars
        from dqn_lab.callbacks.tensorboard_dashboards import TensorBoardDashboards
        from dqn_lab.callbacks.tensorboard_media import TensorBoardMedia
        from dqn_lab.callbacks.tensorboard_weights import TensorBoardWeights
        from dqn_lab.callbacks.weights import KeepWeights

        self._run, self._directory, self._transcript, self._totals = run, directory, transcript, totals
        self._interruption = interruption
        self._began, self._minutes_before = time.perf_counter(), 0.0
        evaluation = [] if run.evaluation is None else [self._make_evaluation_callback()]
        metrics = Metrics(run.evaluation, minutes=self.minutes, clock=self.clock)
        tensorboard = TensorBoardScalars(
            directory.path,
            metrics,
            log_period_updates=run.log_period_updates,
            texts=_texts(run, config),
            clock=self.clock,
        )
        period = run.log_period_updates
        self._limits = self._make_limits()
        self._progress = progress = Progress(transcript, metrics, self._limits, clock=self.clock)
        stateful = {"metrics": metrics, "tensorboard": tensorboard, "progress": progress}
        stateful |= {"evaluation": run.evaluation} if evaluation else {}
        self.checkpoints = self._make_checkpoints(stateful, config["settings"])
        # Measures, then monitors, then what writes: each sees all that those before it added.
        self._callbacks = [
            metrics,
            *evaluation,
            *callbacks,
            ProgressCSV(directory.progress, metrics),
            tensorboard,
            TensorBoardDashboards(tensorboard, _hparams(config), _name(directory), COMMON_KEYS | ASYNCHRONOUS_KEYS),
            *([TensorBoardMedia(tensorboard, metrics, run.evaluation)] if evaluation else []),
            *([TensorBoardWeights(tensorboard, metrics, period_updates=period)] if run.log_weights else []),
            progress,
            BestCheckpoint(directory.best, metrics, counters=self.checkpoints.counters),
            *([KeepWeights(directory.weights, metrics)] if run.keep_weights == "all" else []),
        ]

    def clock(self) -> float:
        """Seconds from any moment on, by which rates are measured."""
        return time.perf_counter()

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
        """Learns until a total is reached or it is asked to stop, and saves, in the midst of an epoch if need be."""
        raise NotImplementedError(f"{type(self).__name__} must define fit().")

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
            if may_discard and not complete_checkpoints(self._directory.checkpoints):
                self._directory.discard(keep_log=True)
            return
        try:
            if self._save_rest():
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
        return bool(counters) and self._totals.are_reached(counters)

    def conclude(self) -> bool:
        """Says how the run ended; returns whether it was not by a request to stop."""
        how, counters = "stopped" if self._limits.interrupted else "ended", self.checkpoints.counters()
        self._transcript.say(
            f"{how} after {counters['updates']:,} updates, {counters['steps']:,} steps, "
            f"{counters['frames']:,} frames, {counters['minutes']:.1f} minutes; "
            f"saved in {self._directory.checkpoints}"
        )
        return not self._limits.interrupted

    def _make_evaluation_callback(self):
        """What puts the figures of the run's evaluation into the logs."""
        self._run.evaluation.stop_requested = lambda: self._interruption.requested
        return self._run.evaluation

    def _make_limits(self):
        """What knows when it ends: `fraction()` of the run that is done, `interrupted` if it was asked to stop."""
        raise NotImplementedError(f"{type(self).__name__} must define _make_limits().")

    def _make_checkpoints(self, callbacks: dict, settings: dict) -> RunCheckpoints:
        """The checkpoints of the run, in which these callbacks' state is."""
        raise NotImplementedError(f"{type(self).__name__} must define _make_checkpoints(callbacks, settings).")

    def _save_rest(self) -> bool:
        """Saves what isn't saved and is safe after an error; tells whether there is any checkpoint of this run."""
        return self.checkpoints.save_if_new()


def _hparams(config: dict) -> dict[str, object]:
    """What runs are compared by in TensorBoard."""
    return {"rundef": config["rundef"], **config["arguments"]}


def _name(directory: RunDirectory) -> str:
    """Of a run, with the folder that it lies in."""
    return "/".join(directory.path.absolute().parts[-2:])


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
