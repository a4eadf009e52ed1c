"""The soak: whether a long training stays as fast and as small as it was when its replay was full."""

import statistics
import sys
import time
from array import array
from collections.abc import Callable

import keras
import psutil
from tensorflow.python.eager import context

from dqn_lab.benchmark.memory import resident_bytes
from dqn_lab.benchmark.settings import SOAK_EPOCHS

LIMIT_RATIO, LIMIT_MB = 1.03, 20.0


def soak(run, seconds: float, clock: Callable[[], float] = time.perf_counter) -> dict[str, object]:
    """Trains and evaluates a run for 20 epochs, and on until the time is up.

    Args:
        run: with a replay that these epochs fill several times.
        seconds: that it takes at least.
        clock: returns seconds.

    Returns:
        Figures by name, see `judge`; and how often the ring wrapped, the target was copied and an evaluation played.
    """
    watch = Watch(seconds, clock)
    evaluations = [] if run.evaluation is None else [run.evaluation]
    run.agent.fit(
        run.sequence,
        epochs=sys.maxsize,
        callbacks=[*evaluations, watch],
        verbose=0,
        log_period_updates=run.log_period_updates,
    )
    period = run.agent.target_period_updates
    return judge(watch) | {
        "ring_wraps": _wraps(run.sequence.replay.ring),
        "target_copies": run.agent.updates // period if period else 0,
        "evaluations": _evaluations(run.evaluation),
    }


class Watch(keras.callbacks.Callback):
    """Times the updates from the first full ring on, and ends the fit.

    Args:
        seconds: before which the fit doesn't end.
        clock: returns seconds.

    Attributes:
        update_seconds: from one update's end to the next one's, without what comes between epochs.
        full: what the process held when the ring was full for the first time; empty until then.
        end: what it held at the end.
    """

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        super().__init__()
        self.update_seconds = array("d")
        self.full: dict[str, float] = {}
        self.end: dict[str, float] = {}
        self._seconds, self._clock = seconds, clock
        self._begin, self._last = clock(), None

    def on_epoch_begin(self, epoch, logs=None):
        """The time since the last update isn't that of one."""
        self._last = None

    def on_train_batch_end(self, batch, logs=None):
        """Take the time."""
        now = self._clock()
        if self.full and self._last is not None:
            self.update_seconds.append(now - self._last)
        self._last = now
        ring = self.model.sequence.replay.ring
        if not self.full and len(ring) == ring.capacity:
            self.full = _held()

    def on_epoch_end(self, epoch, logs=None):
        """End the fit after 20 epochs, once the time is up."""
        if epoch + 1 >= SOAK_EPOCHS and self._clock() - self._begin >= self._seconds:
            self.end, self.model.stop_training = _held(), True


def judge(watch: Watch) -> dict[str, object]:
    """Compares the beginning and the end of a soak.

    Returns:
        `update_ms_first_quarter`, `update_ms_last_quarter`: medians, between them all updates after the ring was full;
        `update_ratio`: last to first; `resident_mb_full_ring` and `resident_mb`, `threads_full_ring` and `threads`,
        `function_traces_full_ring` and `function_traces`: at the first full ring and at the end;
        `time_verdict`, `memory_verdict`: "PASS", "over the limit of ...", or why there is none.
    """
    quarter = len(watch.update_seconds) // 4
    if not quarter:
        too_short = "none: the ring was not full for four updates"
        return watch.end | {"time_verdict": too_short, "memory_verdict": too_short}
    first = 1000 * statistics.median(watch.update_seconds[:quarter])
    last = 1000 * statistics.median(watch.update_seconds[-quarter:])
    grown = watch.end["resident_mb"] - watch.full["resident_mb"]
    return {
        "update_ms_first_quarter": first,
        "update_ms_last_quarter": last,
        "update_ratio": last / first,
        **{f"{name}_full_ring": value for name, value in watch.full.items()},
        **watch.end,
        "time_verdict": "PASS" if last / first <= LIMIT_RATIO else f"over the limit of {LIMIT_RATIO - 1:.0%}",
        "memory_verdict": "PASS" if grown <= LIMIT_MB else f"over the limit of {LIMIT_MB:.0f} MB",
    }


def _held() -> dict[str, float]:
    return {
        "resident_mb": resident_bytes() / 1e6,
        "threads": psutil.Process().num_threads(),
        "function_traces": len(context.context().list_function_names()),
    }


def _wraps(ring) -> int:
    """How often the lane that was written least began anew at its first slot."""
    return max(int((ring.written.min() - 1) // ring.slots), 0)


def _evaluations(evaluation) -> int:
    if evaluation is None:
        return 0
    epochs, period = evaluation.complete_epochs, evaluation.period_epochs
    return epochs // period + (epochs > 0 and period > 1)  # the first epoch's comes out of turn
