"""The stages of an update, each the code that a run uses, timed between its fits."""

import time
from collections.abc import Callable, Iterable

import numpy as np
import tensorflow as tf


class Stages:
    """Times the stages of a run's updates, in the order in which an update needs them.

    Together, as in training: a stage that is repeated by itself finds weights and emulators in the processor's caches,
    where no training finds them, and takes half the time or less.

    Args:
        run: whose replay is filled.
        clock: returns seconds.
    """

    def __init__(self, run, clock: Callable[[], float] = time.perf_counter) -> None:
        self._sequence, self._agent, self._clock = run.sequence, run.agent, clock
        self._generator = np.random.default_rng(0)  # the sequence's own belongs to its fits
        share = self._sequence.num_envs / self._sequence.train_period_steps  # updates per decision
        self._decisions, self._updates = max(round(1 / share), 1), max(round(share), 1)  # of one turn
        self._batch = self._sampled()
        self._chunks = {
            "simulation": self._sequence.simulate_single,
            "acting": lambda: self._sequence.compute_values(self._agent.act_values),
            "sampling": self._sample,
            "update": self._update,
        }

    def measure(self, stages: Iterable[str], seconds: float) -> dict[str, float]:
        """Returns the milliseconds that stages take for one update.

        Args:
            stages: keys of `settings.STAGES`.
            seconds: that they are repeated for, at least once.

        Raises:
            FloatingPointError: updates were left out, because a loss or gradient was not finite.
        """
        turn = [stage for stage in self._turn() if stage in set(stages)]
        spent, turns = dict.fromkeys(turn, 0.0), 0
        steps, begin = self._sequence.steps, self._clock()
        while not turns or self._clock() - begin < seconds:
            for stage in turn:
                before = self._clock()
                self._chunks[stage]()
                spent[stage] += self._clock() - before
            turns += 1
        self._agent.check_finite()
        # Steps made here count towards no update of the next fit, which would otherwise make up for them.
        self._sequence.batches += (self._sequence.steps - steps) // self._sequence.train_period_steps
        return {stage: 1000 * each / (turns * self._updates) for stage, each in spent.items()}

    def _turn(self) -> list[str]:
        return ["acting", "simulation"] * self._decisions + ["sampling", "update"] * self._updates

    def _sample(self) -> None:
        self._batch = self._sampled()

    def _update(self) -> None:
        self._agent.update(self._batch)
        _ = self._agent.updates  # which waits for it

    def _sampled(self) -> dict[str, tf.Tensor]:
        batch = self._sequence.get_minibatch(self._generator)
        return {name: tf.convert_to_tensor(values) for name, values in batch.items()}
