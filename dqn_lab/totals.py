"""The totals at which a run ends, those of steps counted in updates."""

from __future__ import annotations

import math
import sys


class Totals:
    """How long a run is; the first total that is reached ends it.

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

        for name, total in (("steps", steps), ("updates", updates), ("minutes", minutes)):
            require_above_0(f"total_{name}", total)
        self.steps, self.given_updates, self.minutes = steps, updates, minutes
        self.updates = min(updates, updates_for_steps(steps, sequence.replay_min_steps, sequence.train_period_steps))
        finite = not math.isinf(self.updates)
        self.epochs = math.ceil(self.updates / len(sequence)) if finite else sys.maxsize

    def describe(self) -> str:
        """One line."""
        named = {"updates": self.given_updates, "steps": self.steps, "minutes": self.minutes}
        words = [f"{total:,} {name}" for name, total in named.items() if not math.isinf(total)]
        return "ends at: " + (" or ".join(words) or "no limit; Ctrl-C stops and saves")

    def option_reached(self, counters: dict[str, float]) -> str:
        """The option of `dqn-train` whose total a run with these counters has reached; --steps if none."""
        if counters["minutes"] >= self.minutes:
            return "--minutes"
        return "--updates" if counters["updates"] >= self.given_updates else "--steps"

    def config(self) -> dict[str, float]:
        """What config.json says of them."""
        return {"steps": self.steps, "updates": self.given_updates, "minutes": self.minutes}


def require_above_0(name: str, total: float) -> float:
    """Returns a total.

    Raises:
        ValueError: it isn't above 0.
    """
    if isinstance(total, bool) or not isinstance(total, (int, float)) or not total > 0:
        raise ValueError(f"`{name}` must be above 0. Received: {name}={total!r}")
    return total
