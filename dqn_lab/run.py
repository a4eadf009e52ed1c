"""A run: an agent, the sequence it learns from and the callbacks around them, carried out."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from dqn_lab.interruption import Interruption
from dqn_lab.run_directory import (
    FORMAT,
    RunDirectory,
    describe_software,
    git_commit,
    jsonable,
)
from dqn_lab.transcript import Transcript


class Run:
    """What a rundef's `run` returns: all parts, built and compiled, and how long they run.

    Args:
        sequence: makes the minibatches.
        agent: learns from them; compiled.
        evaluation: the `Evaluation` callback, or None.
        arguments: what the rundef was given, resolved; goes into config.json.
        protocol: the rules that scores are measured under.
        device: what it computes on and why, one line.
        total_steps: agent steps of the run, the fill included; `math.inf` for no such limit.
        total_updates: gradient steps of the run; the first total that is reached ends it.
        log_period_updates: updates between two TensorBoard points inside an epoch.

    Raises:
        ValueError: a total isn't above 0.

    Example:

    >>> from rundefs.cartpole_v1 import run
    >>> run(seed=1).train("runs/mine")
    """

    def __init__(
        self,
        sequence,
        agent,
        *,
        evaluation=None,
        arguments: dict[str, object] | None = None,
        protocol=None,
        device: str = "",
        total_steps: float = math.inf,
        total_updates: float = math.inf,
        log_period_updates: int = 1000,
    ):
        self.sequence = sequence
        self.agent = agent
        self.evaluation = evaluation
        self.arguments = dict(arguments or {})
        self.protocol = protocol
        self.device = device
        self.total_steps = _above_0("total_steps", total_steps)
        self.total_updates = _above_0("total_updates", total_updates)
        self.log_period_updates = log_period_updates

    def train(
        self,
        run_directory: str | Path,
        *,
        fresh: bool = False,
        steps: float | None = None,
        updates: float | None = None,
        minutes: float | None = None,
        callbacks: Iterable = (),
        rundef: str = "",
        transcript: Transcript | None = None,
        end_process: bool = False,
    ) -> bool:
        """Trains until the first total of the run is reached, and saves.

        The first Ctrl-C or SIGTERM ends the run after the update in progress, and saves too.

        Args:
            run_directory: where all files go; made here, and refused if there is a run in it.
            fresh: put the run that is there aside, under another name.
            steps, updates: totals in place of the rundef's.
            minutes: a total of minutes.
            callbacks: Keras callbacks, placed between the evaluation and what writes files.
            rundef: name of the rundef, for config.json.
            transcript: that is in use already; None to print through one of its own.
            end_process: whether a second Ctrl-C or SIGTERM ends the process at once, whatever it is
                doing, instead of raising KeyboardInterrupt as soon as Python gets to it.

        Returns:
            Whether the run came to its end; False if it was asked to stop.

        Raises:
            FileExistsError: the directory has a run in it.
            ValueError: a total isn't above 0.
            OSError: a file can't be written.
            FloatingPointError: a loss or gradient was not finite.
            KeyboardInterrupt: asked to stop before the first update.
        """
        directory = RunDirectory(run_directory, fresh=fresh)
        directory.check()
        totals = self._totals(steps, updates, minutes)
        with ExitStack() as stack:
            transcript = transcript or stack.enter_context(Transcript())
            interruption = stack.enter_context(
                Interruption(end_process=end_process, on_first=lambda: _say_stopping(transcript))
            )
            fit = _Fit(self, directory, transcript, totals, interruption, rundef)
            fitted = fit.callbacks(callbacks)
            for line in (*self.describe(), *_describe_place(directory), totals.describe()):
                transcript.say(line)
            self._open(directory, transcript, rundef, totals)
            try:
                self._fill(transcript, interruption)
                self.agent.fit(
                    self.sequence,
                    epochs=totals.epochs,
                    callbacks=fitted,
                    verbose=0,
                    log_period_updates=self.log_period_updates,
                )
            except BaseException as error:
                fit.rescue(error)
                raise
            finally:
                directory.release()
            return fit.conclude()

    def check(self, say: Callable[[str], None] = print) -> None:
        """Prints network, one minibatch, targets, predictions, loss, weight and gradient norms.

        Args:
            say: prints one line.

        Raises:
            FloatingPointError: the loss or a gradient is not finite.
        """
        from dqn_lab.inspection import inspect_run

        for line in self.describe():
            say(line)
        inspect_run(self.sequence, self.agent, say)

    def describe(self) -> list[str]:
        """What it runs on and by which rules, in lines."""
        network = self.agent.network
        return [
            f"device: {self.device or 'as TensorFlow chooses'}",
            f"feeding: {self.sequence.feeding} ({self.sequence.feeding_reason})",
            f"protocol: {self.protocol or 'none'}",
            f"network: {network.count_params():,} parameters, {network.dtype_policy.name}",
        ]

    def config(self, rundef: str = "") -> dict:
        """What config.json says of the run."""
        protocol = self.protocol
        return {
            "format": FORMAT,
            "rundef": rundef,
            "arguments": self.arguments,
            "protocol": None if protocol is None else protocol.to_config(),
            "deviations": {} if protocol is None else protocol.deviations,
            "versions": describe_software(),
            "device": self.device,
            "feeding": self.sequence.feeding,
            "git_commit": git_commit(),
        }

    def _totals(self, steps, updates, minutes) -> _Totals:
        return _Totals(
            self.sequence,
            _above_0("total_steps", self.total_steps if steps is None else steps),
            _above_0("total_updates", self.total_updates if updates is None else updates),
            _above_0("total_minutes", math.inf if minutes is None else minutes),
        )

    def _open(self, directory: RunDirectory, transcript, rundef: str, totals: _Totals) -> None:
        put_aside = directory.create(self.config(rundef) | {"totals": totals.config()})
        transcript.open_log(directory.log)
        if put_aside is not None:
            transcript.say(f"the run that was there is now {put_aside}")

    def _fill(self, transcript, interruption: Interruption) -> None:
        from dqn_lab.callbacks.progress import fill_progress

        if self.sequence.steps >= self.sequence.replay_min_steps:
            return
        show = fill_progress(transcript)

        def progress(done: int, total: int) -> None:
            if interruption.requested:
                transcript.clear_status()
                raise KeyboardInterrupt("stopped before the first update: nothing was learnt, nothing is left behind")
            show(done, total)

        transcript.say(f"filling replay: {self.sequence.replay_min_steps:,} random steps")
        self.sequence.fill(progress)


class _Totals:
    """The totals of a run, those of steps counted in updates."""

    def __init__(self, sequence, steps: float, updates: float, minutes: float):
        from dqn_lab.callbacks.limits import updates_for_steps

        self.steps, self.given_updates, self.minutes = steps, updates, minutes
        self.updates = min(
            updates,
            updates_for_steps(steps, sequence.replay_min_steps, sequence.train_period_steps),
        )
        finite = not math.isinf(self.updates)
        self.epochs = math.ceil(self.updates / len(sequence)) if finite else sys.maxsize

    def describe(self) -> str:
        named = {"updates": self.given_updates, "steps": self.steps, "minutes": self.minutes}
        words = [f"{total:,} {name}" for name, total in named.items() if not math.isinf(total)]
        return "ends at: " + (" or ".join(words) or "no limit; Ctrl-C stops and saves")

    def config(self) -> dict[str, float]:
        return {"steps": self.steps, "updates": self.given_updates, "minutes": self.minutes}


class _Fit:
    """The callbacks of one fit, and what is said at its end."""

    def __init__(self, run: Run, directory, transcript, totals: _Totals, interruption, rundef: str):
        from dqn_lab.callbacks.checkpoint import Checkpoint
        from dqn_lab.callbacks.limits import Limits
        from dqn_lab.callbacks.metrics import Metrics

        self._run, self._directory, self._transcript = run, directory, transcript
        self._rundef = rundef
        self._began = time.perf_counter()
        self._metrics = Metrics(run.evaluation, minutes=self.minutes)
        self._checkpoint = Checkpoint(directory.checkpoints, minutes=self.minutes)
        self._limits = Limits(
            total_updates=totals.updates,
            total_minutes=totals.minutes,
            minutes=self.minutes,
            stop_requested=lambda: interruption.requested,
        )

    def minutes(self) -> float:
        return (time.perf_counter() - self._began) / 60

    def callbacks(self, users: Iterable) -> list:
        """Measures, then monitors, then what writes: each sees all that those before it added.

        But the epoch is saved before it is evaluated.
        """
        from dqn_lab.callbacks.checkpoint import BestCheckpoint
        from dqn_lab.callbacks.progress import Progress
        from dqn_lab.callbacks.progress_csv import ProgressCSV
        from dqn_lab.callbacks.tensorboard import TensorBoardScalars

        run, directory, metrics = self._run, self._directory, self._metrics
        return [
            metrics,
            self._checkpoint,
            *([] if run.evaluation is None else [run.evaluation]),
            *users,
            ProgressCSV(directory.progress, metrics),
            TensorBoardScalars(
                directory.path,
                metrics,
                log_period_updates=run.log_period_updates,
                texts=_texts(run, self._rundef),
            ),
            Progress(self._transcript, metrics, self._limits),
            BestCheckpoint(directory.best, metrics, self._checkpoint),
            self._limits,
        ]

    def rescue(self, error: BaseException) -> None:
        """Saves what had been learnt when an error came.

        Where that is nothing the directory is no run any more, so that the same command can be given again: after an
        error only its log stays, after Ctrl-C nothing.
        """
        try:
            if self._checkpoint.save_if_new():
                self._transcript.say(f"saved in {self._directory.checkpoints} before ending")
                return
        except OSError as failure:
            self._transcript.say(f"could not be saved: {failure}")
            return
        asked = isinstance(error, KeyboardInterrupt)
        if asked:
            self._transcript.close_log()
        self._directory.discard(keep_log=not asked)

    def conclude(self) -> bool:
        agent, sequence = self._run.agent, self._run.sequence
        how = "stopped" if self._limits.interrupted else "ended"
        self._transcript.say(
            f"{how} after {agent.updates:,} updates, {sequence.steps:,} steps, "
            f"{sequence.frames:,} frames, {self.minutes():.1f} minutes; "
            f"saved in {self._directory.checkpoints}"
        )
        return not self._limits.interrupted


def _describe_place(directory: RunDirectory) -> list[str]:
    return [
        f"writes: {directory.path} (config.json, log.txt, progress.csv, TensorBoard events, checkpoints/, best/)",
        f"watch: tensorboard --logdir {directory.path}",
    ]


def _texts(run: Run, rundef: str) -> dict[str, str]:
    """Network and configuration, as Markdown that TensorBoard shows."""
    import json

    lines: list[str] = []
    run.agent.network.summary(print_fn=lambda line, **_: lines.append(line))
    config = json.dumps(jsonable(run.config(rundef)), indent=2)
    return {
        "network": _verbatim("\n".join(lines)),
        "config": _verbatim(config),
    }


def _verbatim(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())


def _say_stopping(transcript: Transcript) -> None:
    transcript.say("stopping after this update, then saving; once more ends at once")


def _above_0(name: str, total: float) -> float:
    if isinstance(total, bool) or not isinstance(total, (int, float)) or not total > 0:
        raise ValueError(f"`{name}` must be above 0. Received: {name}={total!r}")
    return total
