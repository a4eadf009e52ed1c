"""Settings of an asynchronous run that no rule of learning knows of."""

import math
from dataclasses import dataclass

import numpy as np

from dqn_lab.arguments import require_choice, require_fraction, require_integer
from dqn_lab.schedules import LinearSchedule

OPTIMIZERS = ("shared", "per_worker", "momentum_sgd")
# Mnih et al. (2016), section 5.1: what a worker's share of random actions falls to, and how often it is drawn.
FINAL_EPSILONS = (0.1, 0.01, 0.5)
FINAL_EPSILON_ODDS = (0.4, 0.3, 0.3)
_LARGEST_RATE = 1e6  # beside which parameters stay numbers for as long as anybody lets them grow


@dataclass(frozen=True)
class AsynchronousSettings:
    """How many workers learn, and how they update what they share. All steps are global: those of all workers together.

    Args:
        num_workers: processes that learn.
        t_max: most steps of a segment, after which a worker updates.
        seed: of all workers' environments, exploration and final epsilons.
        learning_rate: the optimizer's step size at the beginning.
        anneal_steps: steps over which it falls to 0 in a straight line; inf keeps it.
        gradient_clip: largest norm of a segment's gradient over all variables; 0 leaves it alone.
        rmsprop: "shared" statistics, those "per_worker", or no RMSProp but "momentum_sgd": the paper's comparison.
        rmsprop_decay: share of the statistics kept at each update.
        rmsprop_epsilon: added inside the root; of no account to momentum SGD.
        rmsprop_start: what RMSProp's statistics begin with. With 0 and a small epsilon the first updates move every
            parameter by up to 10 learning rates; with 1, as TensorFlow's RMSProp began, they are small.
        target_period_steps: steps from one copy of the parameters to the target network to the next.
        epsilon_start: share of random actions at the beginning.
        epsilon_end: what it falls to; None draws it for each worker, 0.1, 0.01 or 0.5 with odds 0.4, 0.3 and 0.3.
        epsilon_steps: steps over which it falls, in a straight line.

    Raises:
        TypeError, ValueError: an argument has another type or is out of range.

    Source: Mnih et al. (2016), sections 4 and 5.1; clip, decay and epsilon by its authors' mail.
    """

    num_workers: int = 1
    t_max: int = 5
    seed: int = 0
    learning_rate: float = 7e-4
    anneal_steps: float = math.inf
    gradient_clip: float = 40.0
    rmsprop: str = "shared"
    rmsprop_decay: float = 0.99
    rmsprop_epsilon: float = 0.1
    rmsprop_start: float = 0.0
    target_period_steps: int = 10_000  # 40,000 frames
    epsilon_start: float = 1.0
    epsilon_end: float | None = None
    epsilon_steps: int = 1_000_000  # 4M frames

    def __post_init__(self) -> None:
        for name in ("num_workers", "t_max", "target_period_steps"):
            require_integer(name, getattr(self, name), least=1)
        for name in ("seed", "epsilon_steps"):
            require_integer(name, getattr(self, name), least=0)
        require_choice("rmsprop", self.rmsprop, OPTIMIZERS)
        require_fraction("epsilon_start", self.epsilon_start)
        if self.epsilon_end is not None:
            require_fraction("epsilon_end", self.epsilon_end)
        for name in ("learning_rate", "rmsprop_epsilon"):
            _require_number(name, getattr(self, name), least=0, excluded=True)
        if self.learning_rate > _LARGEST_RATE:
            raise ValueError(
                f"`learning_rate` must be at most {_LARGEST_RATE:g}. Received: learning_rate={self.learning_rate}"
            )
        for name in ("gradient_clip", "rmsprop_start"):
            _require_number(name, getattr(self, name), least=0)
        _require_number("anneal_steps", self.anneal_steps, least=0, excluded=True, finite=False)
        if not 0 <= require_fraction("rmsprop_decay", self.rmsprop_decay) < 1:
            raise ValueError(f"`rmsprop_decay` must be below 1. Received: rmsprop_decay={self.rmsprop_decay}")

    def learning_rate_at(self, steps: int) -> float:
        """The learning rate after so many steps of all workers; exactly 0 once it has fallen."""
        if math.isinf(self.anneal_steps):
            return self.learning_rate
        return LinearSchedule(self.learning_rate, 0.0, decay_steps=self.anneal_steps)(steps)

    def draw_final_epsilon(self, generator: np.random.Generator) -> float:
        """What a worker's epsilon falls to; the generator gives one draw either way."""
        drawn = float(generator.choice(FINAL_EPSILONS, p=FINAL_EPSILON_ODDS))
        return drawn if self.epsilon_end is None else self.epsilon_end

    def epsilon_schedule(self, final: float) -> LinearSchedule:
        """A worker's share of random actions over the steps of all workers."""
        return LinearSchedule(self.epsilon_start, final, decay_steps=self.epsilon_steps)


def _require_number(name: str, value: float, *, least: float, excluded: bool = False, finite: bool = True) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise TypeError(f"`{name}` must be a number. Received: {name}={value!r}")
    fits = value > least if excluded else value >= least
    if not fits or (finite and math.isinf(value)):
        word = "above" if excluded else "at least"
        raise ValueError(f"`{name}` must be {word} {least}{', and finite' if finite else ''}. Received: {name}={value}")
