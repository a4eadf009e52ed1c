"""A run: an agent, the sequence it learns from and the callbacks around them, carried out."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from dqn_lab.continuation import machine_changes, why_inexact
from dqn_lab.interruption import Interruption
from dqn_lab.replay_training import ReplayTraining
from dqn_lab.resumable_run import ResumableRun
from dqn_lab.totals import Totals, require_above_0


class Run(ResumableRun):
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
        log_weights: whether TensorBoard shows weights and gradients that often; see `TensorBoardWeights`.
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

    folders = ("checkpoints", "replay", "best")
    disk_keys = ("replay_capacity_steps", "keep")

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
        log_weights: bool = False,
        checkpoint_period_steps: int | None = 500_000,
        checkpoint_period_minutes: float | None = 10.0,
        keep: int = 2,
        keep_weights: str = "none",
    ):
        super().__init__(
            sequence,
            agent,
            evaluation=evaluation,
            arguments=arguments,
            protocol=protocol,
            device=device,
            total_steps=total_steps,
            log_period_updates=log_period_updates,
            log_weights=log_weights,
            checkpoint_period_minutes=checkpoint_period_minutes,
            keep=keep,
            keep_weights=keep_weights,
        )
        self.total_updates = require_above_0("total_updates", total_updates)
        self.checkpoint_period_steps = checkpoint_period_steps

    def __repr__(self) -> str:
        return f"{super().__repr__()}\n  agent: {type(self.agent).__name__}\n  sequence: {self.sequence!r}"

    def config(self, rundef: str = "", rundef_file: str | Path | None = None) -> dict:
        """As `ResumableRun`, with the feeding."""
        return super().config(rundef, rundef_file) | {"feeding": self.sequence.feeding}

    def _totals(self, steps, updates, minutes) -> Totals:
        return Totals(
            self.sequence,
            steps=_given_first(steps, updates, self.total_steps),
            updates=_given_first(updates, steps, self.total_updates),
            minutes=math.inf if minutes is None else minutes,
        )

    def _make_training(self, *parts, **options) -> ReplayTraining:
        return ReplayTraining(self, *parts, **options)

    def _why_inexact(self) -> list[str]:
        return why_inexact(self.sequence)

    def _why_continued_inexactly(self, manifest: dict) -> list[str]:
        if manifest["lanes"]:
            return super()._why_continued_inexactly(manifest)
        return ["episodes begin anew", *machine_changes(manifest)]

    def _describe_stop(self) -> str:
        return "after this update, then saving" if self.agent.updates else "before the first update"

    def _inspect(self, say: Callable[[str], None]) -> None:
        from dqn_lab.inspection import inspect_run

        inspect_run(self.sequence, self.agent, say)

    def _describe_learning(self) -> list[str]:
        return [f"feeding: {self.sequence.feeding} ({self.sequence.feeding_reason})"]

    def _checkpoint_periods(self) -> dict[str, float | None]:
        return {"steps": self.checkpoint_period_steps} | super()._checkpoint_periods()

    def _agent_bytes(self) -> int:
        return super()._agent_bytes() + sum(each.numpy().nbytes for each in self.agent.optimizer.variables)

    def _replay_size(self, totals: Totals) -> dict[str, float]:
        from dqn_lab.sequences.settings import expected_row_bytes

        ring = self.sequence.replay.ring
        steps = self.sequence.replay_min_steps + totals.updates * self.sequence.train_period_steps
        return {
            "row": expected_row_bytes(ring),
            "rows": min(ring.capacity, steps),
            "period": math.inf if self.checkpoint_period_steps is None else self.checkpoint_period_steps,
        }

    def _continue(self, training, directory, transcript, config: dict) -> None:
        feeding = self.sequence.feeding
        super()._continue(training, directory, transcript, config)
        if self.sequence.feeding != feeding:
            transcript.say(f"feeding: {self.sequence.feeding} ({self.sequence.feeding_reason})")
            directory.write_config(config | {"feeding": self.sequence.feeding})

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


def _given_first(given: float | None, other: float | None, own: float) -> float:
    """A total as given; none where the other one is; else the run's own."""
    if given is None:
        return own if other is None else math.inf
    return given
