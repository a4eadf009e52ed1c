"""Windows of training: what `Agent.fit` achieves between two looks at the clock."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import keras

WARM_UP_UPDATES = 50


@dataclass(frozen=True)
class Window:
    """What was done between two looks at the clock.

    Args:
        seconds: that passed.
        steps: actions that were stored.
        frames: emulator frames that these stand for.
        updates: gradient steps.
    """

    seconds: float
    steps: int
    frames: int
    updates: int


class Training:
    """Trains a run for a window at a time, as `Run.train` does but without a run directory.

    Args:
        run: whose replay is filled.
        clock: returns seconds.
    """

    def __init__(self, run, clock: Callable[[], float] = time.perf_counter) -> None:
        self._run, self._clock = run, clock

    def warm_up(self) -> None:
        """Makes the first updates, in which all is compiled."""
        self._fit(Meter(self._clock, 0.0, WARM_UP_UPDATES))

    def measure(self, seconds: float) -> Window:
        """Returns what was done in so many seconds, or in one update if that takes longer."""
        meter = Meter(self._clock, seconds)
        self._fit(meter)
        return meter.window

    def _fit(self, callback) -> None:
        run = self._run
        run.agent.fit(
            run.sequence,
            epochs=sys.maxsize,
            callbacks=[callback],
            verbose=0,
            log_period_updates=run.log_period_updates,
        )


class Meter(keras.callbacks.Callback):
    """Looks at clock and counts after a fit's first update and at its end, which it brings about.

    Args:
        clock: returns seconds.
        seconds: after which the fit ends.
        updates: after the first one, before which it doesn't.

    Attributes:
        window: what was done between the two looks.
    """

    def __init__(self, clock: Callable[[], float], seconds: float, updates: int = 1) -> None:
        super().__init__()
        self.window: Window | None = None
        self._clock, self._seconds, self._least_updates = clock, seconds, updates
        self._first: tuple[float, ...] = ()
        self._updates = 0

    def on_train_batch_end(self, batch, logs=None):
        """Look at the clock, and at the counts if it is the first update or may be the last one."""
        self._updates += 1
        if not self._first:
            self._first = self._readings()
        elif self._updates > self._least_updates and self._clock() - self._first[0] >= self._seconds:
            differences = (last - first for last, first in zip(self._readings(), self._first, strict=True))
            self.window, self.model.stop_training = Window(*differences), True

    def _readings(self) -> tuple[float, ...]:
        updates = self.model.updates  # which waits for an update that is going on on a GPU
        sequence = self.model.sequence
        return self._clock(), sequence.steps, sequence.frames, updates
