"""Settings of a sequence that must fit each other, and the replay made from them."""

import functools
import logging
import math

from gymnasium.spaces import Box

from dqn_lab.arguments import require_choice, require_integer
from dqn_lab.memory import check_memory, check_reserve, describe_bytes
from dqn_lab.replay.compression import CompressedFrames
from dqn_lab.replay.raw_frames import RawFrames
from dqn_lab.replay.replay import Replay
from dqn_lab.replay.ring import FrameRing

_log = logging.getLogger("dqn_lab")
_COMPRESSED_BYTES = 600  # of an 84 x 84 frame: more than any of nine games took


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


def make_replay(
    space: Box, *, num_envs: int, capacity: int, span: int, n_step: int, compression: str = "none"
) -> Replay:
    """Makes the replay, after saying how much memory it needs and checking that it is there.

    Args:
        space: of one lane's observations.
        num_envs: number of lanes.
        capacity: `replay_capacity_steps`.
        span: observations in a state.
        n_step: most rewards in a target.
        compression: `replay_compression`: "lz4" compresses the observations without loss, and memory is taken as
            they come; "none" keeps them as they are, and memory for all is asked for at once.

    Raises:
        TypeError: a number is no integer.
        ValueError: the capacity is no multiple of the lanes, cannot be sure to hold a transition, or exceeds the
            memory (that of "lz4" by an estimate, until `check_growth`); or another argument is out of range.
    """
    require_choice("replay_compression", compression, ("none", "lz4"))
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
    raw, columns = FrameRing.bytes_needed(capacity, space.shape, space.dtype)
    frames, make_frames, of_frames = raw, RawFrames, f"{describe_bytes(raw)} of frames"
    if compression == "lz4" and raw:  # an observation without elements is all there is of it already
        frames = _expected_bytes(raw, capacity)
        make_frames = functools.partial(CompressedFrames, on_growth=functools.partial(check_reserve, multiple=num_envs))
        of_frames = f"about {describe_bytes(frames)} of compressed frames (at most {describe_bytes(raw)})"
    needed = f"Replay memory: {of_frames} + {describe_bytes(columns)} of columns for {capacity:,} steps."
    _announce(needed, frames + columns, capacity, (frames + columns) / capacity, num_envs)
    ring = FrameRing(capacity, num_envs, space.shape, space.dtype, make_frames)
    return Replay(ring, span=span, n_step=n_step)


def expected_row_bytes(ring: FrameRing) -> float:
    """Returns the bytes that one row of a full ring is expected to take, in memory as on disk."""
    raw, columns = FrameRing.bytes_needed(1, ring.frames.shape, ring.frames.dtype)
    frame = _expected_bytes(raw, 1) if isinstance(ring.frames, CompressedFrames) else raw
    return frame + columns


def check_growth(replay: Replay) -> None:
    """Checks after the initial fill, by the size of what it brought, that the full compressed replay will fit.

    Does nothing where nothing is compressed, or not yet.

    Raises:
        ValueError: what is still to come exceeds the memory.
    """
    ring = replay.ring
    frame = getattr(ring.frames, "compressed_bytes_per_row", math.nan)
    if math.isnan(frame):
        return
    _, columns = FrameRing.bytes_needed(1, ring.frames.shape, ring.frames.dtype)
    per_step = frame + columns
    said = (
        f"Replay memory: {per_step:.0f} B per step, measured over {len(ring):,} steps; "
        f"{describe_bytes(round(per_step * ring.capacity))} for {ring.capacity:,} steps."
    )
    to_come = round(per_step * (ring.capacity - len(ring)))
    _announce(said, to_come, ring.capacity, per_step, ring.num_envs)


def _expected_bytes(raw: int, capacity: int) -> int:
    return min(raw, capacity * _COMPRESSED_BYTES)


def _announce(said: str, needed_bytes: int, capacity: int, bytes_per_row: float, num_envs: int) -> None:
    """Logs a need and refuses it if it is not to be met; the refusal repeats what was logged."""
    _log.info(said)
    try:
        check_memory(needed_bytes, capacity, bytes_per_row, multiple=num_envs)
    except ValueError as error:
        raise ValueError(f"{said} {error}") from None
