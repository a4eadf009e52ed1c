"""The totals at which a run ends, those of steps counted in updates where there is a replay."""

from __future__ import annotations

import math
import sys


class StepTotals:
    """How long a run is, in steps and minutes; the first total that is reached ends it.

    Args:
        steps: agent steps of the run.
        minutes: of the run, over all its processes.
        epoch_steps: agent steps of an epoch.

    Attributes:
        epochs: that hold so many steps.

    Raises:
        ValueError: a total isn't above 0.
    """

    def __init__(self, *, steps: float, minutes: float, epoch_steps: int):
        self.steps = require_above_0("total_steps", steps)
        self.minutes = require_above_0("total_minutes", minutes)
        self._count_in("steps", steps, epoch_steps)

    def describe(self) -> str:
        """One line."""
        words = [f"{total:,} {name}" for name, total in self.config().items() if not math.isinf(total)]
        return "ends at: " + (" or ".join(words) or "no limit; Ctrl-C stops and saves")

    def are_reached(self, counters: dict[str, float]) -> bool:
        """Whether a run with these counters has come to its end, the last whole epoch's end carried out."""
        counted = counters[self._counter]
        ended = counted >= self._total or counters["minutes"] >= self.minutes
        return ended and counters["epochs"] == counted // self._epoch

    def option_reached(self, counters: dict[str, float]) -> str:
        """The option of `dqn-train` whose total a run with these counters has reached; --steps if none."""
        return "--minutes" if counters["minutes"] >= self.minutes else "--steps"

    def config(self) -> dict[str, float]:
        """What config.json says of them."""
        return {"steps": self.steps, "minutes": self.minutes}

    def _count_in(self, counter: str, total: float, epoch: int) -> None:
        """Sets what decides beside minutes: a counter, where it ends, and an epoch's length in it."""
        self._counter, self._total, self._epoch = counter, total, epoch
        self.epochs = sys.maxsize if math.isinf(total) else math.ceil(total / epoch)


class Totals(StepTotals):
    """How long a run with a replay is; steps beside an update depend on timing, so they are counted in updates.

    Args:
        sequence: with `replay_min_steps`, `train_period_steps` and a length in updates.
        steps: agent steps of the run, the fill included.
        updates: gradient steps.
        minutes: of the run, over all its processes.

    Attributes:
        updates: at which the run ends, by steps or updates, whichever is first.
        epochs: that hold so many.

    Raises:
        ValueError: a total isn't above 0.
    """

    def __init__(self, sequence, *, steps: float, updates: float, minutes: float):
        from dqn_lab.callbacks.limits import updates_for_steps

        super().__init__(steps=steps, minutes=minutes, epoch_steps=len(sequence) * sequence.train_period_steps)
        self.given_updates = require_above_0("total_updates", updates)
        self.updates = min(updates, updates_for_steps(steps, sequence.replay_min_steps, sequence.train_period_steps))
        self._count_in("updates", self.updates, len(sequence))

    def option_reached(self, counters: dict[str, float]) -> str:
        """As `StepTotals`, with --updates."""
        option = super().option_reached(counters)
        return "--updates" if option == "--steps" and counters["updates"] >= self.given_updates else option

    def config(self) -> dict[str, float]:
        """What config.json says of them."""
        return {"updates": self.given_updates, **super().config()}


def require_above_0(name: str, total: float) -> float:
    """Returns a total.

    Raises:
        ValueError: it isn't above 0.
    """
    if isinstance(total, bool) or not isinstance(total, (int, float)) or not total > 0:
        raise ValueError(f"`{name}` must be above 0. Received: {name}={total!r}")
    return total
