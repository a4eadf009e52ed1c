"""Catch: a ball falls and a paddle on the bottom row should be under it."""

import math
import operator
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from dqn_lab.environments.environment_state import require_keys, set_generator

_CELL_PIXELS = 16
_BALL, _PADDLE = (255, 255, 255), (80, 160, 255)  # RGB


class _Rules(NamedTuple):
    rows: int
    columns: int
    paddle_width: int
    moves: tuple[int, ...]  # columns, one per action
    caught: float
    missed: float
    largest_slope: float  # columns per row


_RULES = {
    "bsuite": _Rules(10, 5, 1, (-1, 0, 1), caught=1.0, missed=-1.0, largest_slope=0.0),
    "kaixhin": _Rules(24, 24, 2, (0, -1, 1), caught=1.0, missed=0.0, largest_slope=1 / 3),
}


class Catch(gymnasium.Env):
    """The smallest game with pictures: 9 steps (bsuite) or 23 (kaixhin), one reward at the end.

    | variant | rows x columns | paddle | actions 0, 1, 2 | reward | ball |
    |---|---|---|---|---|---|
    | `bsuite` | 10 x 5 | 1 wide | left, stay, right | +1 caught, -1 missed | straight down |
    | `kaixhin` | 24 x 24 | 2 wide | stay, left, right | +1 caught, 0 missed | see below |

    The ball starts in a random column of the first row and falls one row a step, the paddle
    starts in the middle. In `kaixhin` the ball also moves up to 1/3 column sideways a step, with
    a slope drawn at the reset, and bounces off the sides; a single picture doesn't show the
    slope, so a learner that sees one picture has to guess a little.

    Observations are float32 [rows, columns, 1], 0 or 1: a network of any kind takes them as they
    are, a convolution with the one channel last; uint8 would save memory that 50 cells don't
    need and ask every network to scale.

    Args:
        variant: "bsuite" or "kaixhin".
        render_mode: None or "rgb_array".

    Raises:
        ValueError: if the variant or the render mode is none of these.

    Source: Osband et al. (2020), Behaviour Suite; the Catch of Kaixhin/rlenvs.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 8}

    def __init__(self, variant: str = "bsuite", *, render_mode: str | None = None):
        if variant not in _RULES:
            raise ValueError(f"variant must be one of {', '.join(_RULES)}. Received: {variant=}")
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode must be None or 'rgb_array'. Received: {render_mode=}")
        self._variant, self._rules = variant, _RULES[variant]
        self.render_mode = render_mode
        shape = (self._rules.rows, self._rules.columns, 1)
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, shape, np.float32)
        self.action_space = gymnasium.spaces.Discrete(len(self._rules.moves))
        self._row, self._column, self._slope = 0, 0.0, 0.0  # the ball; columns may be fractions
        self._paddle = 0  # its leftmost column
        self._ended = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Drops a new ball; returns the first observation and an empty `info`.

        Args:
            seed: seeds the generator of columns and slopes; None goes on with it.
            options: not used.
        """
        super().reset(seed=seed)
        rules = self._rules
        self._row, self._column = 0, float(self.np_random.integers(rules.columns))
        self._slope = self.np_random.uniform(-1.0, 1.0) * rules.largest_slope
        self._paddle = (rules.columns - rules.paddle_width) // 2
        self._ended = False
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Moves paddle and ball; returns observation, reward, terminated, False, `info`.

        Raises:
            TypeError: if the action is no integer.
            ValueError: if the action is out of range, or no ball is falling.
        """
        self._move_paddle(self._check_action(action))
        self._move_ball()
        self._ended = self._row == self._rules.rows - 1
        reward = self._outcome() if self._ended else 0.0
        return self._observation(), reward, self._ended, False, {}

    def render(self) -> np.ndarray:
        """Returns the board in colour, uint8 [16 rows, 16 columns, 3].

        Raises:
            ValueError: if the render mode isn't "rgb_array".
        """
        if self.render_mode != "rgb_array":
            raise ValueError(
                "render() needs the environment to be made with render_mode='rgb_array'. "
                f"Received: render_mode={self.render_mode!r}"
            )
        board = np.zeros((self._rules.rows, self._rules.columns, 3), np.uint8)
        board[-1, self._paddle : self._paddle + self._rules.paddle_width] = _PADDLE
        board[self._row, self._ball_column()] = _BALL
        return board.repeat(_CELL_PIXELS, axis=0).repeat(_CELL_PIXELS, axis=1)

    def get_action_meanings(self) -> list[str]:
        """Returns a name of each action, in the order of the action numbers."""
        return [{-1: "left", 0: "stay", 1: "right"}[move] for move in self._rules.moves]

    def get_state(self) -> dict[str, Any]:
        """Returns all that the next steps depend on, as plain numbers and text."""
        return {
            "variant": self._variant,
            "ball": [self._row, self._column, self._slope],
            "paddle": self._paddle,
            "ended": self._ended,
            "generator": self.np_random.bit_generator.state,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from a state of `get_state`.

        Raises:
            ValueError: if the state is of another variant, or none.
        """
        require_keys("Catch", state, ("variant", "ball", "paddle", "ended", "generator"))
        if state["variant"] != self._variant:
            raise ValueError(f"The state must be of variant {self._variant!r}. Received: variant={state['variant']!r}")
        set_generator(self.np_random, state["generator"])
        row, column, slope = state["ball"]
        self._row, self._column, self._slope = int(row), float(column), float(slope)
        self._paddle, self._ended = int(state["paddle"]), bool(state["ended"])

    def _check_action(self, action: int) -> int:
        try:
            number = operator.index(action)
        except TypeError:
            raise TypeError(f"action must be an integer. Received: {action=}") from None
        if not 0 <= number < len(self._rules.moves):
            raise ValueError(f"action must be from 0 to 2. Received: action={number}")
        if self._ended:
            raise ValueError(f"No ball is falling: call reset() first. Received: action={number}")
        return number

    def _move_paddle(self, action: int) -> None:
        rightmost = self._rules.columns - self._rules.paddle_width
        self._paddle = min(max(self._paddle + self._rules.moves[action], 0), rightmost)

    def _move_ball(self) -> None:
        self._row += 1
        last = self._rules.columns - 1
        column = self._column + self._slope
        if not 0 <= column <= last:  # the part beyond the side is travelled back
            column = -column if column < 0 else 2 * last - column
            self._slope = -self._slope
        self._column = column

    def _ball_column(self) -> int:
        return math.floor(self._column + 0.5)

    def _outcome(self) -> float:
        caught = 0 <= self._ball_column() - self._paddle < self._rules.paddle_width
        return self._rules.caught if caught else self._rules.missed

    def _observation(self) -> np.ndarray:
        board = np.zeros(self.observation_space.shape, np.float32)  # [rows, columns, 1]
        board[-1, self._paddle : self._paddle + self._rules.paddle_width] = 1.0
        board[self._row, self._ball_column()] = 1.0
        return board


if "dqn_lab/Catch-v0" not in gymnasium.registry:  # a reload would warn of a double
    gymnasium.register("dqn_lab/Catch-v0", entry_point="dqn_lab.environments.catch:Catch")
