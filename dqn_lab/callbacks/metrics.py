"""Measures what a run does between two moments, and puts an epoch's figures into its logs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import keras

from dqn_lab.callbacks.measures import COLUMNS, LOGS_ONLY, OF_EVALUATION

_KEYS = tuple(one.key for one in (*COLUMNS, *LOGS_ONLY))
_PARTS = ("acting", "environment", "sampling", "update")


@dataclass(frozen=True)
class Reading:
    """The counters of an agent and of the sequence it is fitted on, at one moment.

    Args:
        time: of the clock, in seconds.
        steps, frames, updates, episodes: totals of the run.
        return_sum, length_sum: of all training games that have ended, raw returns and steps.
        seconds: spent so far, by part: acting, environment, sampling, update.
    """

    time: float
    steps: int
    frames: int
    updates: int
    episodes: int
    return_sum: float
    length_sum: int
    seconds: Mapping[str, float]

    @classmethod
    def of(cls, agent, clock: Callable[[], float] = time.perf_counter) -> Reading:
        """Reads an agent's and its sequence's counters now."""
        sequence = agent.sequence
        return cls(
            clock(),
            sequence.steps,
            sequence.frames,
            agent.updates,
            sequence.episodes,
            sequence.episode_return_sum,
            sequence.episode_length_sum,
            dict(sequence.seconds),
        )


class Meter:
    """Turns what happened since its last reading into figures, for an epoch or any other period.

    Args:
        agent: with `updates` and `sequence`.
        clock: seconds from any moment on.
    """

    def __init__(self, agent, clock: Callable[[], float] = time.perf_counter):
        self._agent = agent
        self._clock = clock
        self._last = Reading.of(agent, clock)
        self._began = self._last.time
        self._carried = 0.0  # seconds of a state that was set

    def restart_clock(self) -> None:
        """Leaves the time since the last reading out of the rates: an evaluation's, say.

        After `set_state` it is the time since then that is left out.
        """
        self._began = self._clock() - self._carried

    def measure(self) -> dict[str, float]:
        """The figures since the last call; those of training games only if one has ended."""
        now, last = Reading.of(self._agent, self._clock), self._last
        elapsed = max(now.time - self._began, 1e-9)
        self._last, self._began, self._carried = now, now.time, 0.0
        figures = {
            "steps": now.steps,
            "frames": now.frames,
            "updates": now.updates,
            "episodes": now.episodes,
            "steps_per_second": (now.steps - last.steps) / elapsed,
            "updates_per_second": (now.updates - last.updates) / elapsed,
            "epsilon": self._agent.sequence.epsilon,
        }
        for part in _PARTS:
            spent = now.seconds.get(part, 0.0) - last.seconds.get(part, 0.0)
            figures[f"time_{part}"] = spent / elapsed
        games = now.episodes - last.episodes
        if games > 0:
            figures["train_return_mean"] = (now.return_sum - last.return_sum) / games
            figures["train_length_mean"] = (now.length_sum - last.length_sum) / games
        return {key: float(value) for key, value in figures.items()}

    def get_state(self) -> dict:
        """The counts of the last reading, and the seconds since then that go into the rates."""
        counts = asdict(self._last)
        del counts["time"]  # of a clock that another process doesn't have
        # Without an update since then it was an evaluation's time, or nobody's.
        learnt = self._agent.updates != self._last.updates
        return {"counts": counts, "elapsed": self._clock() - self._began if learnt else 0.0}

    def set_state(self, state: dict) -> None:
        """Goes on from what `get_state` returned as if no time had passed since."""
        now, self._carried = self._clock(), state["elapsed"]
        self._last, self._began = Reading(time=now, **state["counts"]), now - self._carried


class Metered(keras.callbacks.Callback):
    """A callback with a meter that goes on from one fit to the next, in another process too.

    Args:
        clock: seconds from any moment on.
    """

    def __init__(self, clock: Callable[[], float]):
        super().__init__()
        self._clock = clock
        self._meter: Meter | None = None  # of the fit that is going on
        self._between: dict | None = None  # the meter's state between two fits

    def on_train_begin(self, logs=None):
        self._meter = Meter(self.model, self._clock)
        if self._between is not None:
            self._meter.set_state(self._between)
        self._between = None  # a fit that raises leaves none: the next one's meter is new

    def on_epoch_begin(self, epoch, logs=None):
        self._meter.restart_clock()

    def on_train_end(self, logs=None):
        self._between, self._meter = self._meter.get_state(), None

    def get_state(self) -> dict:
        """What a continued run needs, between two updates or two fits."""
        return {"meter": self._between if self._meter is None else self._meter.get_state()}

    def set_state(self, state: dict) -> None:
        """Takes over what `get_state` returned, before a fit; that the model isn't known yet is no matter."""
        self._between = state["meter"]


class Metrics(Metered):
    """Puts the figures of each epoch into `logs`, as floats, for every callback that comes after.

    The mean over training games of an epoch in which none ended is the last one again, and -inf
    before the first: never NaN, with which ModelCheckpoint saves once and never again. Of an epoch
    that was broken off the logs hold the figures of the last complete one.

    Args:
        evaluation: the callback that adds the figures of OF_EVALUATION, or None. Which of its
            figures are new is told by its `complete_epochs` and `period_epochs`.
        minutes: minutes that the run has taken so far.
        clock: seconds from any moment on.
    """

    def __init__(
        self,
        evaluation=None,
        *,
        minutes: Callable[[], float],
        clock: Callable[[], float] = time.perf_counter,
    ):
        super().__init__(clock)
        self._evaluation = evaluation
        self._minutes = minutes
        self._new: frozenset[str] = frozenset()  # keys that this epoch measured
        self._logs = {"train_return_mean": -math.inf, "train_length_mean": -math.inf}

    @property
    def train_return_mean(self) -> float:
        """Of the last complete epoch in which a training game ended; -inf before the first."""
        return self._logs["train_return_mean"]

    @property
    def evaluated(self) -> bool:
        """Whether the epoch that ended last was evaluated; to be asked after the evaluation."""
        if self._evaluation is None or not self._new:
            return False
        epochs = self._evaluation.complete_epochs
        return epochs == 1 or epochs % self._evaluation.period_epochs == 0

    def on_epoch_end(self, epoch, logs=None):
        logs = {} if logs is None else logs
        self._new = frozenset()
        if self.model.sequence.epoch_complete:
            measured = self._meter.measure() | {"epochs": epoch + 1.0, "minutes": float(self._minutes())}
            self._new = frozenset(measured) | frozenset(logs)  # Keras's own: loss, q_mean
            self._logs |= measured
        logs.update(self._logs)

    def row(self, logs: Mapping[str, float]) -> dict[str, float]:
        """The figures that this epoch measured, by key: none that is carried on or infinite."""
        new = self._new | (OF_EVALUATION if self.evaluated else frozenset())
        given = {key: logs[key] for key in _KEYS if key in new and key in logs}
        return {key: value for key, value in given.items() if math.isfinite(value)}

    def get_state(self) -> dict:
        """As `Metered`, with the figures carried on."""
        return super().get_state() | {"logs": dict(self._logs)}

    def set_state(self, state: dict) -> None:
        """As `Metered`."""
        super().set_state(state)
        self._logs = dict(state["logs"])
