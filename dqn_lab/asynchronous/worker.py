"""A worker: one process that plays, learns from what it plays, and updates what all workers share."""

import math
import time

import numpy as np

from dqn_lab.asynchronous.local_network import LocalNetwork
from dqn_lab.asynchronous.methods import Method
from dqn_lab.asynchronous.rollout import Rollout, WorkerPolicy
from dqn_lab.asynchronous.settings import AsynchronousSettings
from dqn_lab.asynchronous.shared_optimizers import MomentumSGD, SharedRMSProp, clip_by_norm
from dqn_lab.asynchronous.shared_progress import COUNTERS, Shared

_OF_SEQUENCE = ("steps", "frames", "episodes", "episode_return_sum", "episode_length_sum")


class Worker:
    """One of the workers, between two rendezvous: `learn` makes one segment and one update.

        load theta -> at most t_max steps -> gradient -> clip -> update of theta -> count -> target copy where it is due

    Args:
        number: of the worker, from 0.
        make_sequence: `(epsilon=, seed=) -> sequence` with one lane.
        network: as `models.networks` builds it; a copy of its own.
        method: the rule.
        settings: of the run.
        shared: with all workers.
    """

    def __init__(
        self, number: int, make_sequence, network, method: Method, settings: AsynchronousSettings, shared: Shared
    ):
        self.number, self._settings, self._method = number, settings, method
        self._parameters, self._progress = shared.parameters, shared.progress
        # Of equal seeds all workers would play the same games; a spawned child's draws have nothing in common.
        own = np.random.SeedSequence(settings.seed).spawn(settings.num_workers)[number]
        for_sequence, for_epsilon, for_policy = own.spawn(3)
        self._set_epsilon_final(settings.draw_final_epsilon(np.random.default_rng(for_epsilon)))
        self._sequence = make_sequence(epsilon=self._epsilon, seed=int(for_sequence.generate_state(1)[0] >> 1))
        self._network = LocalNetwork(network, method)
        self._policy = WorkerPolicy(
            self._network, samples=method.actor_critic, generator=np.random.default_rng(for_policy)
        )
        self._rollout = Rollout(self._sequence, self._policy, method, settings.t_max)
        self._statistics = self._parameters.statistics
        if settings.rmsprop != "shared":
            begin = settings.rmsprop_start if settings.rmsprop == "per_worker" else 0.0
            self._statistics = np.full_like(self._statistics, begin)
        self._optimizer = self._make_optimizer()
        self._target_copies: int | None = None  # none loaded yet
        self._seen = self._sequence_counts()

    @property
    def updates(self) -> int:
        """Updates that this worker has made."""
        return int(self._row("updates"))

    def is_due(self) -> bool:
        """Whether all workers are to meet before the next segment."""
        return self._parameters.steps >= self._progress.due_steps

    def learn(self) -> None:
        """Makes one segment and one update.

        Raises:
            FloatingPointError: a reward, observation, value, loss or gradient is not finite; no update is made then.
        """
        self._load()
        acting_before = self._sequence.seconds["acting"]
        began = time.perf_counter()
        segment = self._play()
        played = time.perf_counter()
        self._update(segment)
        self._count(began, played, self._sequence.seconds["acting"] - acting_before)

    def get_state(self) -> dict:
        """Returns all that this worker's next segment depends on, beside what is shared."""
        memory = self._policy.memory
        return {
            "final_epsilon": self.final_epsilon,
            "sequence": self._sequence.get_state(),
            "rollout": self._rollout.get_state(),
            "memory": None if memory is None else memory.copy(),
            "generator": self._policy.generator.bit_generator.state,
            "statistics": None if self._settings.rmsprop == "shared" else self._statistics.copy(),
        }

    def set_state(self, state: dict) -> str | None:
        """Takes over what `get_state` returned. An environment whose state is not in it begins a new episode.

        Returns:
            Why an environment that has its state in it begins one too, in a few words; None where it goes on.
        """
        self._set_epsilon_final(state["final_epsilon"])
        refusal = self._set_sequence(state["sequence"])
        self._policy.generator.bit_generator.state = state["generator"]
        if state["statistics"] is not None:
            self._statistics[:] = state["statistics"]
        if state["sequence"]["simulation"]["lanes"] is not None:
            self._rollout.set_state(state["rollout"])
            self._policy.memory = state["memory"]
        self._seen = self._sequence_counts()
        return refusal

    def close(self) -> None:
        """Closes the environment, with what it may have begun itself."""
        self._sequence.close()

    def _set_sequence(self, state: dict) -> str | None:
        try:
            self._sequence.set_state(state)
        except Exception as error:  # an environment's own, whatever it is: the rest can still go on
            if state["simulation"]["lanes"] is None:
                raise
            state["simulation"]["lanes"] = None
            self._sequence.set_state(state)
            return f"the environment's state can't be set ({type(error).__name__}: {error})"
        return None

    def _set_epsilon_final(self, final: float) -> None:
        self.final_epsilon = final
        self._schedule = self._settings.epsilon_schedule(final)

    def _epsilon(self, steps_of_this_worker: int) -> float:
        return 0.0 if self._method.actor_critic else self._schedule(self._parameters.steps)

    def _load(self) -> None:
        self._network.load(self._parameters.parameters)
        if self._method.needs_target:
            copies = self._progress.target_copies  # first: a copy made meanwhile is loaded next time
            if copies != self._target_copies:
                self._network.load_target(self._parameters.target_parameters)
                self._target_copies = copies

    def _play(self) -> dict[str, np.ndarray]:
        self._sequence.batches = self.updates  # which it names where a number is not finite
        try:
            return self._rollout.segment()
        except FloatingPointError as error:
            raise FloatingPointError(f"Worker {self.number}, at {self._parameters.steps:,} steps: {error}") from error

    def _update(self, segment: dict[str, np.ndarray]) -> None:
        gradient, loss, values = self._network.gradient(segment)
        steps = self._parameters.steps
        if not math.isfinite(loss):
            raise FloatingPointError(self._not_finite("loss", steps))
        try:
            norm = None
            if most := self._settings.gradient_clip:
                norm = min(clip_by_norm(gradient, most, out=gradient), most)
            self._optimizer.apply(gradient, self._settings.learning_rate_at(steps), norm=norm)
        except FloatingPointError:
            raise FloatingPointError(self._not_finite("gradient", steps)) from None
        learnt = len(segment["action"])
        for name, more in {"updates": 1, "learnt_steps": learnt, "loss_sum": loss, "value_sum": values}.items():
            self._add(name, more)

    def _count(self, began: float, played: float, acting: float) -> None:
        counts = self._sequence_counts()
        made = {name: counts[name] - self._seen[name] for name in _OF_SEQUENCE}
        self._seen = counts
        for name, more in made.items():
            self._add(name, more)
        self._add("acting", acting)
        self._add("environment", played - began - acting)
        self._add("update", time.perf_counter() - played)
        self._progress.counters[self.number, COUNTERS.index("epsilon")] = self._sequence.epsilon
        before = self._parameters.add_steps(made["steps"])
        self._copy_to_target(before, before + made["steps"])

    def _copy_to_target(self, before: int, after: int) -> None:
        """By the worker whose steps complete a period: the count hands each range of steps out once."""
        period = self._settings.target_period_steps
        if self._method.needs_target and before // period != after // period:
            self._parameters.target_parameters[:] = self._parameters.parameters
            self._progress.target_copies = after // period

    def _make_optimizer(self):
        parameters, decay = self._parameters.parameters, self._settings.rmsprop_decay
        if self._settings.rmsprop == "momentum_sgd":
            return MomentumSGD(parameters, self._statistics, decay=decay)
        epsilon = self._settings.rmsprop_epsilon
        return SharedRMSProp(parameters, self._statistics, decay=decay, epsilon=epsilon)

    def _sequence_counts(self) -> dict[str, float]:
        return {name: getattr(self._sequence, name) for name in _OF_SEQUENCE}

    def _row(self, name: str) -> float:
        return float(self._progress.counters[self.number, COUNTERS.index(name)])

    def _add(self, name: str, more: float) -> None:
        self._progress.counters[self.number, COUNTERS.index(name)] += more

    def _not_finite(self, what: str, steps: int) -> str:
        return (
            f"The {what} of worker {self.number}'s update {self.updates + 1:,} is not finite, at {steps:,} steps; the "
            "update was not made. A lower learning rate, a gradient clip or clipped rewards may help."
        )
