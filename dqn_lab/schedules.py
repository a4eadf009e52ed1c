"""Schedules: numbers that change with the count of agent steps."""

import math
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class LinearSchedule:
    """A straight line from one value to another, counted in agent steps (decisions), not in frames.

        value
        begin_value ------------.
                                 '.
                                   '.
        end_value                    '--------------
                    begin_steps   + decay_steps       steps

    It holds no counter: the same step gives the same value whenever and wherever it is asked, so a
    run that is continued goes on where its own step counter stands.

    Args:
        begin_value: value up to `begin_steps`.
        end_value: value from `begin_steps + decay_steps` on.
        begin_steps: agent steps before the line leaves `begin_value`.
        decay_steps: agent steps from `begin_value` to `end_value`; 0 is a jump at `begin_steps`.

    Raises:
        ValueError: a value is not finite, or a count of steps is negative or not finite.

    Example:

    >>> epsilon = LinearSchedule(1.0, 0.1, decay_steps=250_000)  # 1M frames / 4
    >>> epsilon(125_000)
    0.55
    """

    begin_value: float
    end_value: float
    begin_steps: int = field(default=0, kw_only=True)
    decay_steps: int = field(kw_only=True)

    def __post_init__(self) -> None:
        for name, given in asdict(self).items():
            if not math.isfinite(given):
                raise ValueError(f"`{name}` must be finite. Received: {name}={given}")
            if name.endswith("_steps") and given < 0:
                raise ValueError(f"`{name}` must be at least 0 agent steps. Received: {name}={given}")

    def __call__(self, steps: int) -> float:
        """Returns the value after `steps` agent steps.

        Raises:
            ValueError: `steps` is negative.
        """
        if steps < 0:
            raise ValueError(f"`steps` must be at least 0 agent steps. Received: steps={steps}")
        if steps >= self.begin_steps + self.decay_steps:
            return float(self.end_value)
        if steps <= self.begin_steps:
            return float(self.begin_value)
        done = (steps - self.begin_steps) / self.decay_steps
        value = self.begin_value + (self.end_value - self.begin_value) * done
        # Rounding must not carry a probability past its end value.
        low, high = sorted((self.begin_value, self.end_value))
        return float(min(max(value, low), high))

    def get_config(self) -> dict:
        """Returns the arguments that make an equal schedule."""
        return asdict(self)
