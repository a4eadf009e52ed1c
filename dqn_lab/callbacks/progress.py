"""Shows how a run goes on: a status line on a terminal, one line per epoch everywhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

from dqn_lab.callbacks.limits import Limits
from dqn_lab.callbacks.metrics import Metered, Metrics

_REDRAW_SECONDS = 0.5


class Progress(Metered):
    """Shows updates, steps, frames, rate, epsilon, loss, last mean return and the time left.

    Args:
        transcript: with `say(text)`, `show_status(text, fraction)`, `clear_status()` and the flag
            `interactive`.
        metrics: the `Metrics` of the same fit.
        limits: the `Limits` of the same fit.
        clock: seconds from any moment on.
    """

    def __init__(
        self,
        transcript,
        metrics: Metrics,
        limits: Limits,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ):
        super().__init__(clock)
        self._transcript = transcript
        self._metrics = metrics
        self._limits = limits
        self._next_redraw = self._fraction = 0.0
        self._began: float | None = None
        self._return = math.nan  # of the last training games that ended

    def on_train_begin(self, logs=None):
        super().on_train_begin()
        self._return = self._metrics.train_return_mean  # a continued run knows one
        if self._began is None:  # the time left is told by all fits together
            self._began, self._fraction = self._clock(), self._limits.fraction()

    def on_train_batch_end(self, batch, logs=None):
        if not self._transcript.interactive or self._clock() < self._next_redraw:
            return
        self._next_redraw = self._clock() + _REDRAW_SECONDS
        figures = {**self._meter.measure(), **(logs or {})}
        self._transcript.show_status(self._line(figures), self._limits.fraction())

    def on_epoch_end(self, epoch, logs=None):
        if self.model.sequence.epoch_complete:
            row = self._metrics.row(logs or {})
            self._transcript.say(f"epoch {epoch + 1}: {self._line(row)}")
            self._meter.measure()  # the next epoch's figures begin here
        else:
            figures = {**(logs or {}), **self._meter.measure()}
            self._transcript.say(f"epoch {epoch + 1}, in its course: {self._line(figures)}")

    def on_train_end(self, logs=None):
        super().on_train_end()
        self._transcript.clear_status()

    def _line(self, figures: Mapping[str, float]) -> str:
        newest = figures.get("train_return_mean", math.nan)
        self._return = newest if math.isfinite(newest) else self._return
        words = [
            f"{figures['updates']:,.0f} updates",
            f"{figures['steps']:,.0f} steps",
            f"{figures['frames']:,.0f} frames",
            f"{figures['steps_per_second']:,.0f} steps/s",
            f"epsilon {figures['epsilon']:.3f}",
        ]
        words += [f"loss {figures['loss']:.4g}"] if "loss" in figures else []
        words += [] if not math.isfinite(self._return) else [f"training return {self._return:.4g}"]
        left = self._seconds_left()
        words += [] if left is None else [f"{_duration(left)} left"]
        return ", ".join(words)

    def _seconds_left(self) -> float | None:
        fraction, elapsed = self._limits.fraction(), self._clock() - self._began
        done = fraction - self._fraction  # since then; a continued run began further on
        return elapsed * (1.0 - fraction) / done if done > 0 else None


def fill_progress(transcript) -> Callable[[int, int], None]:
    """A callable for `sequence.fill`: a status line on a terminal, one line at its end elsewhere.

    Args:
        transcript: as `Progress` takes it.
    """
    next_redraw = 0.0

    def show(done: int, total: int) -> None:
        nonlocal next_redraw
        now = time.perf_counter()
        if done >= total:
            transcript.clear_status()
            transcript.say(f"replay filled with {done:,} random steps")
        elif now >= next_redraw:
            next_redraw = now + _REDRAW_SECONDS
            transcript.show_status(f"filling replay: {done:,} of {total:,} steps", done / total)

    return show


def _duration(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    if minutes < 1:
        return f"{seconds:.0f} s"
    if hours < 1:
        return f"{minutes:.0f} min"
    return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} days"
