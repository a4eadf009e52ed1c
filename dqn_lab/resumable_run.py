"""What every run is: parts that learn in a directory of their own, and go on there after whatever ended them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from dqn_lab.continuation import machine_changes, refuse_other_settings, settings
from dqn_lab.disk import check_disk, held_bytes, run_bytes
from dqn_lab.interruption import Interruption
from dqn_lab.run_directory import FORMAT, RunDirectory, describe_software, git_commit
from dqn_lab.totals import StepTotals, require_above_0
from dqn_lab.training import Training
from dqn_lab.transcript import Transcript


class ResumableRun:
    """All parts of a run, built, and how long they run. What a way of learning does otherwise is a method.

    A subclass defines `_totals`, `_make_training`, `_why_inexact`, `_describe_stop` and `_inspect`.

    Args:
        sequence: the environment, as it is given to the learner.
        agent: what learns; with `network` and `updates`.
        evaluation: the `Evaluation` callback, or None.
        arguments: what the rundef was given, resolved; goes into config.json.
        protocol: the rules that scores are measured under.
        device: what it computes on and why, one line.
        total_steps: agent steps of the run; `math.inf` for no such limit.
        log_period_updates: updates between two TensorBoard points inside an epoch.
        log_weights: whether TensorBoard shows weights and gradients; see `TensorBoardWeights`.
        checkpoint_period_minutes: from one checkpoint to the next; None: minutes don't decide.
        keep: how many of the newest checkpoints stay.
        keep_weights: "all" writes the network's weights at each evaluation; "none".

    Raises:
        ValueError: the total isn't above 0.
    """

    folders = ("checkpoints", "best")  # that it writes into, weights/ aside
    disk_keys = ("keep",)  # which make it need less of the disk

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
        log_period_updates: int = 1000,
        log_weights: bool = False,
        checkpoint_period_minutes: float | None = 10.0,
        keep: int = 2,
        keep_weights: str = "none",
    ):
        self.sequence = sequence
        self.agent = agent
        self.evaluation = evaluation
        self.arguments = dict(arguments or {})
        self.protocol = protocol
        self.device = device
        self.total_steps = require_above_0("total_steps", total_steps)
        self.log_period_updates, self.log_weights = log_period_updates, log_weights
        self.checkpoint_period_minutes = checkpoint_period_minutes
        self.keep, self.keep_weights = keep, keep_weights

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
        rundef_file: str | Path | None = None,
        transcript: Transcript | None = None,
        end_process: bool = False,
    ) -> bool:
        """Trains until the first total of the run is reached, and saves; a run that is there is continued.

        The first Ctrl-C or SIGTERM ends the run after the update in progress, and saves too.

        Args:
            run_directory: where all files go; made here. A run in it must have had the same settings.
            fresh: put the run that is there aside, under another name, and begin a new one.
            steps, updates: a total in place of the rundef's.
            minutes: a total of minutes, beside these.
            callbacks: Keras callbacks, placed between the evaluation and what writes files. Their state is not saved.
            rundef: name of the rundef, for config.json.
            rundef_file: its file, for `load_run`.
            transcript: that is in use already; None to print through one of its own.
            end_process: whether a second Ctrl-C or SIGTERM ends the process at once, whatever it is
                doing, instead of raising KeyboardInterrupt as soon as Python gets to it.

        Returns:
            Whether the run came to its end; False if it was asked to stop.

        Raises:
            FileExistsError: a run is going on in the directory.
            ValueError: a total isn't above 0, or the run has none of its kind; the run in the directory has other
                settings, or no checkpoint that can be used.
            OSError: a file can't be written, or the disk is too small.
            FloatingPointError: a loss or gradient was not finite.
            KeyboardInterrupt: asked to stop before the first update.
        """
        self._check_process()
        directory = RunDirectory(run_directory, fresh=fresh)
        directory.check()
        totals = self._totals(steps, updates, minutes)
        config = self.config(rundef, rundef_file) | {"totals": totals.config()}
        continues = directory.continues
        if continues:
            refuse_other_settings(directory, config["settings"])
        with ExitStack() as stack:
            transcript = transcript or stack.enter_context(Transcript())
            interruption = stack.enter_context(
                Interruption(
                    end_process=end_process,
                    on_first=lambda: transcript.say(f"stopping {self._describe_stop()}; once more ends at once"),
                )
            )
            training = self._make_training(
                directory, transcript, totals, interruption, config=config, callbacks=callbacks
            )
            for line in (*self.describe(), *self._describe_saves(directory, totals), totals.describe()):
                transcript.say(line)
            _open(directory, transcript, config)
            try:
                if continues and training.is_finished(counters := training.checkpoints.newest_counters()):
                    transcript.say(_describe_finished(counters, totals))
                    return True
                if continues:
                    self._continue(training, directory, transcript, config)
                self._fill(transcript, interruption)
                training.fit()
            except BaseException as error:
                training.rescue(error, may_discard=not continues)
                raise
            finally:
                directory.release()
            return training.conclude()

    def check(self, say: Callable[[str], None] = print) -> None:
        """Prints network, one minibatch, targets, predictions, loss, weight and gradient norms.

        Args:
            say: prints one line.

        Raises:
            FloatingPointError: the loss or a gradient is not finite.
        """
        for line in self.describe():
            say(line)
        self._inspect(say)

    def __repr__(self) -> str:
        steps = getattr(self.agent.sequence, "steps", self.sequence.steps)  # workers' are counted by the agent's
        total = "" if math.isinf(self.total_steps) else f" of {self.total_steps:,}"
        made = f"{self.sequence.environment_name}, {steps:,}{total} steps, {self.agent.updates:,} updates"
        return "\n  ".join([f"{type(self).__name__}: {made}", *self.describe()])

    def describe(self) -> list[str]:
        """What it runs on and by which rules, in lines."""
        network = self.agent.network
        return [
            f"device: {self.device or 'as TensorFlow chooses'}",
            *self._describe_learning(),
            f"protocol: {self.protocol or 'none'}",
            f"network: {network.count_params():,} parameters, {network.dtype_policy.name}",
        ]

    def config(self, rundef: str = "", rundef_file: str | Path | None = None) -> dict:
        """What config.json says of the run."""
        protocol = self.protocol
        return {
            "format": FORMAT,
            "rundef": rundef,
            "rundef_file": None if rundef_file is None else str(rundef_file),
            "arguments": self.arguments,
            "settings": settings(rundef, self.arguments, protocol, fixed=self.fixed_keys()),
            "protocol": None if protocol is None else protocol.to_config(),
            "deviations": {} if protocol is None else protocol.deviations,
            "versions": describe_software(),
            "device": self.device,
            "git_commit": git_commit(),
        }

    def fixed_keys(self) -> frozenset[str]:
        """Keys of CHANGEABLE_KEYS that may not change in this run, as its updates depend on them."""
        return frozenset()

    def _totals(self, steps: float | None, updates: float | None, minutes: float | None) -> StepTotals:
        """The totals that end it: those given to `train`, the run's own in place of None."""
        raise NotImplementedError(f"{type(self).__name__} must define _totals(steps, updates, minutes).")

    def _make_training(
        self, directory: RunDirectory, transcript, totals, interruption: Interruption, *, config: dict, callbacks
    ) -> Training:
        """What carries the learning out. Nothing is written yet; a process begins in its `fit` alone."""
        raise NotImplementedError(f"{type(self).__name__} must define _make_training(...).")

    def _why_inexact(self) -> list[str]:
        """Why it will not be continued bit for bit, in a few words each."""
        raise NotImplementedError(f"{type(self).__name__} must define _why_inexact().")

    def _describe_stop(self) -> str:
        """When it stops that is asked to now, and whether it then saves."""
        raise NotImplementedError(f"{type(self).__name__} must define _describe_stop().")

    def _inspect(self, say: Callable[[str], None]) -> None:
        """Prints what one update looks at; changes nothing."""
        raise NotImplementedError(f"{type(self).__name__} must define _inspect(say).")

    def _describe_learning(self) -> list[str]:
        """How it learns, in lines of `describe`."""
        return []

    def _check_process(self) -> None:
        """Refuses a process that can't carry the run out."""

    def _fill(self, transcript, interruption: Interruption) -> None:
        """What comes before the first update; does nothing where that is done or isn't needed.

        Raises:
            KeyboardInterrupt: asked to stop.
        """

    def _checkpoint_periods(self) -> dict[str, float | None]:
        """From one checkpoint to the next, by unit."""
        return {"minutes": self.checkpoint_period_minutes}

    def _agent_bytes(self) -> int:
        """Of a checkpoint, what is shared with others left out."""
        return sum(each.numpy().nbytes for each in self.agent.variables)

    def _replay_size(self, totals) -> dict[str, float]:
        """Row, rows and period as `run_bytes` takes them."""
        return {}

    def _why_continued_inexactly(self, manifest: dict) -> list[str]:
        """As `_why_inexact`, of a checkpoint that has been put back."""
        return [*machine_changes(manifest), *self._why_inexact()]

    def _continue(self, training: Training, directory: RunDirectory, transcript, config: dict) -> None:
        """Puts the newest checkpoint back, and says where the run goes on."""
        manifest = training.restore()
        if manifest is None:
            transcript.say("the run that is here has no checkpoint yet: it begins anew")
            return
        reasons = self._why_continued_inexactly(manifest)
        exactly = f"not exact: {'; '.join(reasons)}" if reasons else "exactly"
        counters = manifest["counters"]
        transcript.say(f"continues at {counters['steps']:,} steps, {counters['updates']:,} updates, {exactly}")

    def _describe_saves(self, directory: RunDirectory, totals: StepTotals) -> list[str]:
        reasons = self._why_inexact()
        exactly = f"not exact: {'; '.join(reasons)}" if reasons else "exact"
        periods = self._checkpoint_periods()
        often = " or ".join(f"{period:,g} {name}" for name, period in periods.items() if period is not None)
        when = f"every {often} and at the end" if often else "at the end"
        held = held_bytes(*(directory.path / name for name in (*self.folders, "weights")))
        disk = check_disk(
            directory.existing_parent(),
            self._disk_bytes(totals),
            held if directory.continues else 0,
            lower=self.disk_keys,
        )
        folders = ", ".join(f"{name}/" for name in self.folders)
        return [
            f"writes: {directory.path} (config.json, log.txt, progress.csv, TensorBoard events, {folders})",
            f"saves: {when}; the same command continues the run ({exactly})",
            f"disk: {disk}",
            f"watch: tensorboard --logdir {directory.path}",
        ]

    def _disk_bytes(self, totals: StepTotals) -> int:
        written = self.keep_weights == "all" and self.evaluation is not None and totals.epochs < sys.maxsize
        return run_bytes(
            agent=self._agent_bytes(),
            network=sum(each.numpy().nbytes for each in self.agent.network.variables),
            keep=self.keep,
            weights=1 + totals.epochs / self.evaluation.period_epochs if written else 0,
            **self._replay_size(totals),
        )


def _open(directory: RunDirectory, transcript, config: dict) -> None:
    put_aside = directory.open(config)
    transcript.open_log(directory.log)
    if put_aside is not None:
        transcript.say(f"the run that was there is now {put_aside}")


def _describe_finished(counters: dict, totals: StepTotals) -> str:
    option = totals.option_reached(counters)
    return (
        f"this run is finished: {counters['updates']:,} updates, {counters['steps']:,} steps, "
        f"{counters['minutes']:.1f} minutes; a larger {option} extends it, --fresh begins anew"
    )
