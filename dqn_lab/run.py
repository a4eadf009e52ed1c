"""A run: an agent, the sequence it learns from and the callbacks around them, carried out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from dqn_lab.continuation import describe_machine, differences, refuse_other_settings, settings, why_inexact
from dqn_lab.disk import check_disk, held_bytes, run_bytes
from dqn_lab.interruption import Interruption
from dqn_lab.run_directory import FORMAT, RunDirectory, describe_software, git_commit
from dqn_lab.totals import Totals, require_above_0
from dqn_lab.training import Training
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
        checkpoint_period_steps: agent steps from one checkpoint to the next; None: minutes alone decide.
        checkpoint_period_minutes: as well, whichever comes first; None: steps alone decide.
        keep: how many of the newest checkpoints stay.
        keep_weights: "all" writes the network's weights at each evaluation; "none".

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
        checkpoint_period_steps: int | None = 500_000,
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
        self.total_updates = require_above_0("total_updates", total_updates)
        self.log_period_updates = log_period_updates
        self.checkpoint_period_steps, self.checkpoint_period_minutes = (
            checkpoint_period_steps,
            checkpoint_period_minutes,
        )
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
            steps, updates: a total in place of the rundef's two.
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
            ValueError: a total isn't above 0; the run in the directory has other settings, or no checkpoint that can
                be used.
            OSError: a file can't be written, or the disk is too small.
            FloatingPointError: a loss or gradient was not finite.
            KeyboardInterrupt: asked to stop before the first update.
        """
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
                Interruption(end_process=end_process, on_first=lambda: _say_stopping(transcript, self.agent))
            )
            training = Training(
                self,
                directory,
                transcript,
                totals,
                interruption,
                config=config,
                settings=config["settings"],
                callbacks=callbacks,
            )
            for line in (*self.describe(), *self._describe_saves(directory, totals), totals.describe()):
                transcript.say(line)
            _open(directory, transcript, config)
            try:
                if continues and training.is_finished(counters := training.checkpoints.newest_counters()):
                    transcript.say(_describe_finished(counters, totals))
                    return True
                if continues:
                    feeding = self.sequence.feeding
                    self._continue(training, transcript)
                    if self.sequence.feeding != feeding:
                        transcript.say(f"feeding: {self.sequence.feeding} ({self.sequence.feeding_reason})")
                        directory.write_config(config | {"feeding": self.sequence.feeding})
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

    def config(self, rundef: str = "", rundef_file: str | Path | None = None) -> dict:
        """What config.json says of the run."""
        protocol = self.protocol
        return {
            "format": FORMAT,
            "rundef": rundef,
            "rundef_file": None if rundef_file is None else str(rundef_file),
            "arguments": self.arguments,
            "settings": settings(rundef, self.arguments, protocol),
            "protocol": None if protocol is None else protocol.to_config(),
            "deviations": {} if protocol is None else protocol.deviations,
            "versions": describe_software(),
            "device": self.device,
            "feeding": self.sequence.feeding,
            "git_commit": git_commit(),
        }

    def _totals(self, steps, updates, minutes) -> Totals:
        return Totals(
            self.sequence,
            steps=_given_first(steps, updates, self.total_steps),
            updates=_given_first(updates, steps, self.total_updates),
            minutes=math.inf if minutes is None else minutes,
        )

    def _describe_saves(self, directory: RunDirectory, totals: Totals) -> list[str]:
        reasons = why_inexact(self.sequence)
        exactly = f"not exact: {'; '.join(reasons)}" if reasons else "exact"
        periods = {"steps": self.checkpoint_period_steps, "minutes": self.checkpoint_period_minutes}
        often = " or ".join(f"{period:,g} {name}" for name, period in periods.items() if period is not None)
        when = f"every {often} and at the end" if often else "at the end"
        held = held_bytes(directory.checkpoints, directory.replay, directory.best, directory.weights)
        held = held if directory.continues else 0
        disk = check_disk(directory.existing_parent(), self._disk_bytes(totals), held)
        return [
            f"writes: {directory.path} (config.json, log.txt, progress.csv, TensorBoard events, checkpoints/, replay/, "
            "best/)",
            f"saves: {when}; the same command continues the run ({exactly})",
            f"disk: {disk}",
            f"watch: tensorboard --logdir {directory.path}",
        ]

    def _disk_bytes(self, totals: Totals) -> int:
        from dqn_lab.sequences.settings import expected_row_bytes

        ring, agent = self.sequence.replay.ring, self.agent
        steps = self.sequence.replay_min_steps + totals.updates * self.sequence.train_period_steps
        written = self.keep_weights == "all" and self.evaluation is not None and not math.isinf(totals.updates)
        return run_bytes(
            agent=sum(each.numpy().nbytes for each in (*agent.variables, *agent.optimizer.variables)),
            network=sum(each.numpy().nbytes for each in agent.network.variables),
            row=expected_row_bytes(ring),
            rows=min(ring.capacity, steps),
            period=math.inf if self.checkpoint_period_steps is None else self.checkpoint_period_steps,
            keep=self.keep,
            weights=1 + totals.epochs / self.evaluation.period_epochs if written else 0,
        )

    def _continue(self, training: Training, transcript) -> None:
        manifest = training.restore()
        if manifest is None:
            transcript.say("the run that is here has no checkpoint yet: it begins anew")
            return
        reasons = [] if manifest["lanes"] else ["episodes begin anew"]
        if changed := differences(manifest.get("machine", {}), describe_machine()):
            reasons.append(changed)
        reasons += [one for one in why_inexact(self.sequence) if manifest["lanes"]]
        exactly = f"not exact: {'; '.join(reasons)}" if reasons else "exactly"
        counters = manifest["counters"]
        transcript.say(f"continues at {counters['steps']:,} steps, {counters['updates']:,} updates, {exactly}")

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


def _open(directory: RunDirectory, transcript, config: dict) -> None:
    put_aside = directory.open(config)
    transcript.open_log(directory.log)
    if put_aside is not None:
        transcript.say(f"the run that was there is now {put_aside}")


def _given_first(given: float | None, other: float | None, own: float) -> float:
    """A total as given; none where the other one is; else the run's own."""
    if given is None:
        return own if other is None else math.inf
    return given


def _describe_finished(counters: dict, totals: Totals) -> str:
    option = totals.option_reached(counters)
    return (
        f"this run is finished: {counters['updates']:,} updates, {counters['steps']:,} steps, "
        f"{counters['minutes']:.1f} minutes; a larger {option} extends it, --fresh begins anew"
    )


def _say_stopping(transcript: Transcript, agent) -> None:
    when = "after this update, then saving" if agent.updates else "before the first update"
    transcript.say(f"stopping {when}; once more ends at once")
