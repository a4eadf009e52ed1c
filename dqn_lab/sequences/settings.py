"""Settings of a sequence that must fit each other, and the replay made from them."""

import logging

from gymnasium.spaces import Box

from dqn_lab.arguments import require_integer
from dqn_lab.memory import check_memory, describe_bytes
from dqn_lab.replay.replay import Replay
from dqn_lab.replay.ring import FrameRing

_log = logging.getLogger("dqn_lab")


def check_train_period(train_period_steps: int, num_envs: int) -> int:
    """Returns the steps between two updates.

    Raises:
        TypeError: `train_period_steps` is no integer.
        ValueError: it is below 1, or decisions of `num_envs` steps and updates cannot take turns evenly.
    """
    period = require_integer("train_period_steps", train_period_steps, least=1)
    if period % num_envs and num_envs % period:
        raise ValueError(
            "`num_envs` must divide `train_period_steps` or be a multiple of it. "
            f"Received: num_envs={num_envs}, train_period_steps={period}"
        )
    return period


def check_fill(replay_min_steps: int, replay: Replay) -> int:
    """Returns the steps of the initial fill.

    Raises:
        TypeError: they are no integer.
        ValueError: they exceed the capacity, or are too few to draw from.
    """
    steps = require_integer("replay_min_steps", replay_min_steps, least=1)
    if steps > replay.ring.capacity:
        raise ValueError(
            "`replay_min_steps` must not exceed `replay_capacity_steps`. "
            f"Received: replay_min_steps={steps}, replay_capacity_steps={replay.ring.capacity}"
        )
    if steps < replay.ring.num_envs * replay.n_step:
        raise ValueError(
            "`replay_min_steps` must give every lane n_step steps. Received: "
            f"replay_min_steps={steps}, num_envs={replay.ring.num_envs}, n_step={replay.n_step}"
        )
    return steps


def make_replay(space: Box, *, num_envs: int, capacity: int, span: int, n_step: int) -> Replay:
    """Makes the replay, after saying how much memory it needs and checking that it is there.

    Args:
        space: of one lane's observations.
        num_envs: number of lanes.
        capacity: `replay_capacity_steps`.
        span: observations in a state.
        n_step: most rewards in a target.

    Raises:
        TypeError: a number is no integer.
        ValueError: the capacity is no multiple of the lanes, cannot be sure to hold a transition, or exceeds the
            memory; or another number is below 1.
    """
    span = require_integer("get_states_start()", span, least=1)
    n_step = require_integer("n_step", n_step, least=1)
    capacity = require_integer("replay_capacity_steps", capacity, least=1)
    least = (span + n_step + 1) * num_envs  # one more than a transition: the row in its place may be a final one
    if capacity < least or capacity % num_envs:
        raise ValueError(
            f"`replay_capacity_steps` must be a multiple of num_envs = {num_envs} and at least {least}, to hold "
            f"a state of {span} observation(s) and a window of {n_step} step(s) in every lane. "
            f"Received: replay_capacity_steps={capacity}"
        )
    frames, columns = FrameRing.bytes_needed(capacity, space.shape, space.dtype)
    needed = (
        f"Replay memory: {describe_bytes(frames)} of frames + {describe_bytes(columns)} of columns "
        f"for {capacity:,} steps."
    )
    _log.info(needed)
    try:
        check_memory(frames + columns, capacity, (frames + columns) / capacity, multiple=num_envs)
    except ValueError as error:
        raise ValueError(f"{needed} {error}") from None
    return Replay(FrameRing(capacity, num_envs, space.shape, space.dtype), span=span, n_step=n_step)
