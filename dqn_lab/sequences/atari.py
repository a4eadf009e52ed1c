"""The sequence for Atari games."""

import functools

import cv2
import gymnasium
import numpy as np

from dqn_lab.arguments import require_flag, require_integer
from dqn_lab.environments.atari import Atari
from dqn_lab.environments.atari_id import resolve_game
from dqn_lab.environments.lanes import LaneStep
from dqn_lab.exploration import uniform_actions
from dqn_lab.protocols import Protocol, get_protocol
from dqn_lab.rewards import transform_reward
from dqn_lab.sequences.synchronous import SynchronousSequence


class AtariSequence(SynchronousSequence):
    """A sequence whose states are stacks of frames, [frame_size, frame_size, stack], the newest last.

    The ring holds each frame once, compressed; stacks are built on read. Early in an episode a stack repeats its first
    frame.

    Args:
        game: "breakout", "Breakout-v0", "BreakoutNoFrameskip-v4", "ALE/Breakout-v5" or another game's; an id that
            contradicts the protocol is refused.
        protocol: its name, or a `Protocol`.
        frame_skip: frames per step, or ALE's pair (low, high), high excluded.
        max_frames: raw frames whose maximum a picture shows, 1 or 2.
        fire_on_start: press FIRE after a reset and after each lost life, where the game has FIRE.
        stack: frames in a state.
        frame_size: side of a frame in pixels.
        reward_transform: "sign", "clip" or "none", applied on read; the ring keeps the raw sums.
        random_at_episode_start: draw an action at random where the newest stack would reach back over its
            episode's start; never in evaluation.
        repeat_action_probability, noop_max, terminal_on_life_loss, full_action_space, frame_cap,
            evaluation_frame_cap: see `Protocol`; like every argument above that is None, the protocol's value.
        replay_compression: as `SynchronousSequence`: frames compressed take a thirtieth of the memory or so.
        **arguments: as `SynchronousSequence`, but for `make_environment`.

    Raises:
        TypeError, ValueError: as `SynchronousSequence`, `Protocol` and `Atari`.
    """

    def __init__(
        self,
        game: str,
        *,
        protocol: str | Protocol,
        frame_skip: int | tuple[int, int] | None = None,
        max_frames: int | None = None,
        fire_on_start: bool = False,
        stack: int = 4,
        frame_size: int = 84,
        reward_transform: str | None = None,
        random_at_episode_start: bool = False,
        repeat_action_probability: float | None = None,
        noop_max: int | None = None,
        terminal_on_life_loss: bool | None = None,
        full_action_space: bool | None = None,
        frame_cap: int | None = None,
        evaluation_frame_cap: int | None = None,
        replay_compression: str = "lz4",
        **arguments,
    ) -> None:
        self.protocol = _atari_protocol(protocol).override(
            frame_skip=frame_skip,
            max_frames=max_frames,
            reward_transform=reward_transform,
            repeat_action_probability=repeat_action_probability,
            noop_max=noop_max,
            terminal_on_life_loss=terminal_on_life_loss,
            full_action_space=full_action_space,
            frame_cap=frame_cap,
            evaluation_frame_cap=evaluation_frame_cap,
        )
        self.stack = require_integer("stack", stack, least=1)
        self.random_at_episode_start = require_flag("random_at_episode_start", random_at_episode_start)
        self.game = game
        self.fire_on_start = fire_on_start
        self.frame_size = frame_size
        resolve_game(game).check_against(self.protocol)
        super().__init__(
            functools.partial(self.make_game, self.protocol.frame_cap),
            replay_compression=replay_compression,
            **arguments,
        )

    @property
    def environment_name(self) -> str:
        """What is played, as `game` was given."""
        return self.game

    def make_game(self, frame_cap: int | float) -> gymnasium.Env:
        """Returns a new game; a subclass may wrap it, or play another.

        Its observations are single frames, uint8 [frame_size, frame_size]; its infos say `life_lost` and `frames`, as
        `Atari` does.

        Args:
            frame_cap: frames after which a game is truncated.
        """
        return Atari(
            self.game,
            repeat_action_probability=self.protocol.repeat_action_probability,
            frame_skip=self.protocol.frame_skip,
            max_frames=self.protocol.max_frames,
            noop_max=self.protocol.noop_max,
            full_action_space=self.protocol.full_action_space,
            frame_cap=frame_cap,
            fire_on_start=self.fire_on_start,
            frame_size=self.frame_size,
        )

    def make_evaluation_environment(self) -> gymnasium.Env:
        """Returns a game with the evaluation's frame cap."""
        return self.make_game(self.protocol.evaluation_frame_cap)

    def get_states_start(self) -> int:
        """A state is a stack of frames."""
        return self.stack

    def get_feature_by_index(self, index: np.ndarray) -> np.ndarray:
        """Returns the stacks that end at these rows. [B] -> [B, frame_size, frame_size, stack]"""
        frames = np.moveaxis(self.replay.observations(index, self.stack), 1, 0)  # [stack, B, H, W]
        count, height, width = frames.shape[1:]
        planes = frames.reshape(self.stack, count * height, width)  # [stack, B * H, W]
        return cv2.merge(list(planes)).reshape(count, height, width, self.stack)  # interleaves fast

    def get_reward_by_index(self, index: np.ndarray) -> np.ndarray:
        """Returns the transformed sums of the raw rewards of these rows. [B] -> [B]"""
        return transform_reward(self.replay.rewards(index), self.protocol.reward_transform)  # [B]

    def get_terminal(self, step: LaneStep) -> np.ndarray:
        """Game over, and a lost life where the protocol says so. -> [N] bool"""
        if not self.protocol.terminal_on_life_loss:
            return step.terminated
        return step.terminated | step.life_lost

    def get_identity(self) -> str:
        """Returns game, rules and picture, for caches."""
        rom = resolve_game(self.game).rom
        return f"{super().get_identity()} {rom} fire_on_start={self.fire_on_start} {self.protocol.to_config()}"

    def choose_actions(self, values: np.ndarray | None, generator) -> np.ndarray:
        """Returns epsilon-greedy actions, or random ones early in an episode where that is asked for. -> [N]"""
        actions = super().choose_actions(values, generator)  # [N]
        if values is None or not self.random_at_episode_start:
            return actions
        newest = self.replay.ring.slot(self.replay.ring.newest_index)  # [N]
        reaches_over = self.replay.ring.age[newest] < self.stack - 1  # [N]
        return np.where(reaches_over, uniform_actions(self.num_envs, self.num_actions, generator), actions)


def _atari_protocol(protocol: str | Protocol) -> Protocol:
    protocol = get_protocol(protocol) if isinstance(protocol, str) else protocol
    if not isinstance(protocol, Protocol):
        raise TypeError(f"`protocol` must be a name or a Protocol. Received: protocol={protocol!r}")
    if not protocol.is_atari:
        raise ValueError(f"AtariSequence needs a protocol for Atari games. Received: protocol={protocol.name!r}")
    return protocol
