"""A run of an asynchronous method: what its workers are sent, and how it is carried out."""

from __future__ import annotations

import math
from collections.abc import Callable

from dqn_lab.asynchronous_training import AsynchronousTraining
from dqn_lab.continuation import why_inexact
from dqn_lab.memory import check_workers
from dqn_lab.resumable_run import ResumableRun
from dqn_lab.totals import StepTotals


class AsynchronousRun(ResumableRun):
    """Workers that learn at once, each in a process and an environment of its own, without replay.

    Args:
        make_sequence: `(epsilon=..., seed=...) -> sequence` with one lane. Each worker has one, evaluation has one, and
            one is made here.
        network: as `dqn_lab.models.networks` builds it, with its initial weights: action values, or for an
            actor-critic logits and a value.
        method: the rule, such as `AdvantageActorCritic()`.
        settings: of workers and optimizer.
        make_evaluation: `sequence -> Evaluation`; None to evaluate never.
        greedy: an actor-critic is evaluated by its policy's most likely actions, instead of sampled ones.
        steps_per_epoch: agent steps of all workers from one evaluation, row and checkpoint to the next.
        log_weights: whether TensorBoard shows the weights, at each epoch's end.
        arguments, protocol, device, total_steps, checkpoint_period_minutes, keep, keep_weights: as `Run`.

    Raises:
        TypeError: what a process must be sent can't be pickled.
        ValueError: the network does not fit the sequence or the rule, or a number is out of range.

    Example:

    >>> from rundefs.catch_async import run
    >>> if __name__ == "__main__":
    ...     run(method="n_step_q").train("runs/mine")
    """

    def __init__(
        self,
        make_sequence: Callable,
        network,
        method,
        settings,
        *,
        make_evaluation: Callable | None = None,
        greedy: bool = False,
        steps_per_epoch: int = 250_000,
        arguments: dict[str, object] | None = None,
        protocol=None,
        device: str = "",
        total_steps: float = math.inf,
        log_weights: bool = False,
        checkpoint_period_minutes: float | None = 10.0,
        keep: int = 2,
        keep_weights: str = "none",
    ):
        from dqn_lab.agents.checks import check_fits
        from dqn_lab.asynchronous.agent import AsynchronousAgent
        from dqn_lab.asynchronous.payload import make_payload

        sequence = make_sequence(epsilon=0.0, seed=settings.seed)
        agent = AsynchronousAgent(network, actor_critic=method.actor_critic, greedy=greedy)
        check_fits(network, sequence)
        super().__init__(
            sequence,
            agent,
            evaluation=None if make_evaluation is None else make_evaluation(sequence),
            arguments=arguments,
            protocol=protocol,
            device=device,
            total_steps=total_steps,
            log_weights=log_weights,
            checkpoint_period_minutes=checkpoint_period_minutes,
            keep=keep,
            keep_weights=keep_weights,
        )
        sequence.close()  # none is played in it: its shapes are known now, and twins make environments of their own
        self.method, self.settings, self.steps_per_epoch = method, settings, steps_per_epoch
        self.worker_payload = make_payload(make_sequence, network, method, settings)
        self.evaluator_payload = make_payload(make_sequence, network, method.actor_critic, greedy, make_evaluation)

    def fixed_keys(self) -> frozenset[str]:
        """The total of steps where the learning rate falls over it."""
        return frozenset() if math.isinf(self.settings.anneal_steps) else frozenset({"total_steps"})

    def _totals(self, steps, updates, minutes) -> StepTotals:
        if updates is not None:
            raise ValueError(f"an asynchronous run ends at --steps or --minutes. Received: updates={updates}")
        steps = self.total_steps if steps is None else steps
        if self.total_steps < steps and self.fixed_keys():
            raise ValueError(
                f"behind {self.settings.anneal_steps:,} steps the learning rate is 0 (total_steps, anneal): nothing "
                f"would be learnt. Received: steps={steps}"
            )
        return StepTotals(
            steps=steps, minutes=math.inf if minutes is None else minutes, epoch_steps=self.steps_per_epoch
        )

    def _check_process(self) -> None:
        from dqn_lab.asynchronous.team import refuse_in_child

        refuse_in_child()
        check_workers(self.settings.num_workers)

    def _make_training(self, *parts, **options) -> AsynchronousTraining:
        return AsynchronousTraining(self, *parts, **options)

    def _why_inexact(self) -> list[str]:
        workers = self.settings.num_workers
        reasons = [f"{workers} workers update at once, in no fixed order"] if workers > 1 else []
        return [*reasons, *why_inexact(self.sequence)]

    def _why_continued_inexactly(self, manifest: dict) -> list[str]:
        reasons = super()._why_continued_inexactly(manifest)
        return reasons if manifest["lanes"] else ["episodes begin anew", *reasons]

    def _describe_stop(self) -> str:
        return "after the segments in progress, then saving"

    def _checkpoint_periods(self) -> dict[str, float | None]:
        return {"steps": self.steps_per_epoch} | super()._checkpoint_periods()

    def _describe_learning(self) -> list[str]:
        settings = self.settings
        workers = f"{settings.num_workers} worker{'s'[: settings.num_workers > 1]}"
        falls = "" if math.isinf(settings.anneal_steps) else f", falling to 0 at {settings.anneal_steps:,} steps"
        return [
            f"method: {self.method.name} ({', '.join(f'{k}={v}' for k, v in self.method.get_config().items())}), "
            f"{workers}, segments of {settings.t_max} steps, learning rate "
            f"{settings.learning_rate:g}{falls}"
        ]

    def _agent_bytes(self) -> int:
        return 4 * super()._agent_bytes()  # agent.keras; theta, theta^- and statistics

    def _inspect(self, say: Callable[[str], None]) -> None:
        from dqn_lab.asynchronous.inspection import inspect_worker

        inspect_worker(self.worker_payload, say)
