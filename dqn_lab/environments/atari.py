"""Atari games as steps of several raw frames, each shown as one small luminance picture."""

import operator
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import cv2
import gymnasium
import numpy as np

from dqn_lab.arguments import require_flag, require_integer
from dqn_lab.environments.atari_id import import_ale, resolve_game
from dqn_lab.environments.emulator import load_emulator, restore_emulator, restores_exactly, save_emulator
from dqn_lab.environments.environment_state import require_keys, set_generator
from dqn_lab.protocols import FrameSkip, check_setting

# Sticky actions swallow one frame of FIRE with their probability p, four with p^4.
_FIRE_FRAMES = 4
_FRAMES_PER_SECOND = 60
_STATE = ("rom", "emulator", "held", "screens", "newest", "played", "lives", "ended", "generator")


class _Game(NamedTuple):
    """What is the same in every emulator of a ROM."""

    minimal_actions: tuple[Any, ...]
    all_actions: tuple[Any, ...]
    screen_shape: tuple[int, int]


@cache
def _describe(rom: str) -> _Game:
    emulator = load_emulator(rom, 0)
    return _Game(
        tuple(emulator.getMinimalActionSet()),
        tuple(emulator.getLegalActionSet()),
        tuple(emulator.getScreenDims()),
    )


class Atari(gymnasium.Env):
    """An Atari game; one step repeats an action over `frame_skip` raw frames.

    Drawing, for a skip of 4, `max_frames` 2 (r = raw frame, g = its reward):

        r1 r2 r3 r4        observation = resize(max(r3, r4)), reward = g1 + g2 + g3 + g4
        r1 r2 game over    observation = resize(max(r1, r2)), reward = g1 + g2

    Observations are uint8 [frame_size, frame_size], one picture, newly allocated at each step.
    Rewards are raw. A lost life is reported and never resets the game. `info` holds, at each
    reset and step: `lives`; `life_lost` (a drop to a lower count within the step); `frames` (raw
    frames the step stands for, the drawn ones where the skip is random; 0 at a reset);
    `episode_frame_number` (the emulator's own count, no-ops included).

    The frame cap counts all frames after the reset's own no-ops and FIRE. A game that ends in
    its no-ops is reset again and goes on with those left. `reset(seed=...)` seeds the emulator
    and the generator for no-ops, skips and sticky actions; a plain `reset()` goes on with both. A
    game's first frame has no action before it: NOOP sticks there.

    Args:
        game: a ROM's name ("breakout") or a registered id ("ALE/Breakout-v5").
        repeat_action_probability: sticky actions, per raw frame; None = the id's, else 0.
        frame_skip: raw frames per step, or (low, high): low to high - 1, drawn at each step.
        max_frames: 2: the maximum of the last two raw frames; 1: the last one.
        noop_max: a reset plays 1 to `noop_max` NOOP frames, each number equally likely; 0 = none.
        full_action_space: all 18 actions; None = the id's, else False: the game's minimal set.
        frame_cap: frames after which a game is truncated, in mid-step if need be; inf = open.
        fire_on_start: press FIRE for 4 frames after a reset and after each lost life (these add
            to the step's reward and to the cap), in games whose action set has FIRE.
        frame_size: side of the square picture in pixels.
        render_mode: None or "rgb_array".

    Attributes:
        on_frame: called after each frame that the emulator plays, a reset's too, with the frame's raw reward; None.

    Raises:
        ImportError: if ale-py isn't installed.
        TypeError, ValueError: for an unknown game, an id that contradicts a given value, or an
            argument of a wrong type or range.

    Source: Mnih et al. (2015), Methods: preprocessing; Machado et al. (2018): sticky actions.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}

    def __init__(
        self,
        game: str,
        *,
        repeat_action_probability: float | None = None,
        frame_skip: FrameSkip = 4,
        max_frames: int = 2,
        noop_max: int = 0,
        full_action_space: bool | None = None,
        frame_cap: int | float = 108_000,
        fire_on_start: bool = False,
        frame_size: int = 84,
        render_mode: str | None = None,
    ):
        identity = resolve_game(game)
        self.rom = identity.rom
        self.frame_skip = check_setting("frame_skip", frame_skip)
        self.frame_cap = check_setting("frame_cap", frame_cap)
        self._max_frames = check_setting("max_frames", max_frames)
        self._noop_max = check_setting("noop_max", noop_max)
        self.render_mode = _check_render_mode(render_mode)
        self.on_frame: Callable[[float], None] | None = None

        def settle(setting: str, given: Any, otherwise: Any) -> Any:
            given = None if given is None else check_setting(setting, given)
            settled = identity.settle(setting, given, "the argument")
            return otherwise if settled is None else settled

        sticky, full = repeat_action_probability, full_action_space
        self.repeat_action_probability = settle("repeat_action_probability", sticky, 0.0)
        self.full_action_space = settle("full_action_space", full, False)
        self._set_up_game(fire_on_start)
        self._set_up_pictures(require_integer("frame_size", frame_size, least=1))

    def _set_up_game(self, fire_on_start: bool) -> None:
        game = _describe(self.rom)
        self._actions = game.all_actions if self.full_action_space else game.minimal_actions
        self.action_space = gymnasium.spaces.Discrete(len(self._actions))
        meanings = self.get_action_meanings()
        presses = require_flag("fire_on_start", fire_on_start) and "FIRE" in meanings
        self._fire = self._actions[meanings.index("FIRE")] if presses else None
        self._emulator: Any = None  # a ROM is loaded once, by the first reset, with its seed
        self._noop = import_ale().Action.NOOP
        self._held = self._noop  # the last frame's action, which a sticky frame repeats
        self._played = 0  # frames since the reset's own
        self._lives = 0
        self._ended = True

    def _set_up_pictures(self, frame_size: int) -> None:
        self._size = (frame_size, frame_size)
        self.observation_space = gymnasium.spaces.Box(0, 255, self._size, np.uint8)
        shape = _describe(self.rom).screen_shape
        # The last two raw luminance screens, written in turn, never allocated again.
        self._screens = [np.zeros(shape, np.uint8) for _ in range(2)]  # [H, W] each
        self._newest = 0
        self._pooled = np.zeros(shape, np.uint8)  # [H, W]
        skip = self.frame_skip
        mean_skip = skip if isinstance(skip, int) else (skip[0] + skip[1] - 1) / 2
        self.metadata = {**self.metadata, "render_fps": round(_FRAMES_PER_SECOND / mean_skip)}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins a game; returns its first picture and `info`.

        Args:
            seed: seeds emulator and generator (loads the ROM anew); None goes on with both.
            options: not used.
        """
        super().reset(seed=seed)
        if seed is not None or self._emulator is None:
            self._emulator = load_emulator(self.rom, int(self.np_random.integers(2**31)))
        self._begin_game()
        if self._noop_max:
            self._play_before_start(self._noop, int(self.np_random.integers(1, self._noop_max + 1)))
        if self._fire is not None:
            self._play_before_start(self._fire, _FIRE_FRAMES)
        self._played = 0
        self._lives = self._emulator.lives()
        self._ended = False
        return self._picture(), self._info(life_lost=False, frames=0)

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Plays one step; returns picture, raw reward, terminated, truncated, `info`.

        Raises:
            TypeError: if the action is no integer.
            ValueError: if the action is out of range, or no game is running.
        """
        action = self._check_action(action)
        frames, lives = self._draw_skip(), self._lives
        reward = self._play(action, frames)
        life_lost = self._emulator.lives() < lives
        if life_lost and self._fire is not None:
            reward += self._play(self._fire, _FIRE_FRAMES)
        self._lives = self._emulator.lives()
        terminated = self._game_over()
        truncated = not terminated and self._played >= self.frame_cap
        self._ended = terminated or truncated
        return self._picture(), reward, terminated, truncated, self._info(life_lost, frames)

    def render(self) -> np.ndarray:
        """Returns the emulator's whole screen in colour, uint8 [H, W, 3].

        Raises:
            ValueError: if the render mode isn't "rgb_array", or before the first reset.
        """
        if self.render_mode != "rgb_array":
            raise ValueError(
                "render() needs the environment to be made with render_mode='rgb_array'. "
                f"Received: render_mode={self.render_mode!r}"
            )
        return self._running_emulator("render()").getScreenRGB()

    def get_action_meanings(self) -> list[str]:
        """Returns ALE's name of each action, in the order of the action numbers."""
        return [action.name for action in self._actions]

    def get_state(self) -> dict[str, Any]:
        """Returns all that the next steps depend on, as numpy arrays, bytes, ints, text and the generator's dict.

        Raises:
            ValueError: before the first reset.
        """
        emulator = self._running_emulator("get_state()")
        return {
            "rom": self.rom,
            "emulator": save_emulator(emulator),
            "held": self._held.value,
            "screens": np.stack(self._screens),  # [2, H, W]
            "newest": self._newest,
            "played": self._played,
            "lives": self._lives,
            "ended": self._ended,
            "generator": self.np_random.bit_generator.state,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from a state of `get_state`; `render` shows it from the next step on.

        Raises:
            ValueError: if the state is another game's, or none.
        """
        self._check_state(state)
        if self._emulator is None:
            self._emulator = load_emulator(self.rom, 0)
        restore_emulator(self._emulator, state["emulator"])
        set_generator(self.np_random, state["generator"])
        for screen, saved in zip(self._screens, state["screens"], strict=True):
            screen[:] = saved
        self._held = import_ale().Action(int(state["held"]))
        self._newest, self._played = int(state["newest"]), int(state["played"])
        self._lives, self._ended = int(state["lives"]), bool(state["ended"])

    def why_inexact(self) -> str | None:
        """Returns why a state can't be set exactly, in a few words, or None; tries it once per ROM (0.2 s)."""
        if restores_exactly(self.rom):
            return None
        return f"ale-py {import_ale().__version__} restores {self.rom} wrongly"

    def _check_state(self, state: dict[str, Any]) -> None:
        require_keys("Atari", state, _STATE)
        if state["rom"] != self.rom:
            raise ValueError(f"The state must be one of {self.rom!r}. Received: rom={state['rom']!r}")
        shape, expected = np.shape(state["screens"]), (2, *self._pooled.shape)
        if shape != expected:
            raise ValueError(f"The screens of {self.rom!r} have the shape {expected}. Received: {shape=}")

    def _begin_game(self) -> None:
        self._emulator.reset_game()
        self._held = self._noop
        for screen in self._screens:  # the new game has one frame only
            self._emulator.getScreenGrayscale(screen)

    def _play_before_start(self, action: Any, frames: int) -> None:
        for _ in range(frames):
            self._play_frame(action)
            if self._game_over():
                self._begin_game()

    def _play(self, action: Any, frames: int) -> float:
        """Plays up to `frames` raw frames, fewer at a game over or the cap; returns their sum."""
        reward = 0.0
        for _ in range(min(frames, self.frame_cap - self._played)):
            if self._game_over():
                break
            reward += self._play_frame(action)
        return reward

    def _play_frame(self, action: Any) -> float:
        reward = self._emulator.act(self._stick(action))
        self._played += 1
        if self._max_frames == 2:
            # Every frame, since the game can end after any: then this one is the last but one.
            self._newest = 1 - self._newest
            self._emulator.getScreenGrayscale(self._screens[self._newest])
        if self.on_frame is not None:
            self.on_frame(reward)
        return reward

    def _stick(self, action: Any) -> Any:
        """Returns the action that a frame is played with; not left to the emulator, which saves no held action."""
        sticky = self.repeat_action_probability
        if not sticky or self.np_random.random() >= sticky:
            self._held = action
        return self._held

    def _picture(self) -> np.ndarray:
        screen = self._screens[self._newest]  # [H, W]
        if self._max_frames == 2:
            screen = np.maximum(*self._screens, out=self._pooled)  # [H, W]
        else:
            self._emulator.getScreenGrayscale(screen)
        return cv2.resize(screen, self._size, interpolation=cv2.INTER_AREA)  # [size, size]

    def _info(self, life_lost: bool, frames: int) -> dict[str, Any]:
        return {
            "lives": self._lives,
            "life_lost": life_lost,
            "frames": frames,
            "episode_frame_number": self._emulator.getEpisodeFrameNumber(),
        }

    def _draw_skip(self) -> int:
        if isinstance(self.frame_skip, int):
            return self.frame_skip
        return int(self.np_random.integers(*self.frame_skip))  # the upper end excluded

    def _game_over(self) -> bool:
        return self._emulator.game_over(with_truncation=False)

    def _running_emulator(self, caller: str) -> Any:
        if self._emulator is None:
            raise ValueError(f"{caller} needs a game: call reset() first. Received: no game")
        return self._emulator

    def _check_action(self, action: int) -> Any:
        try:
            number = operator.index(action)
        except TypeError:
            raise TypeError(f"action must be an integer. Received: {action=}") from None
        if not 0 <= number < len(self._actions):
            last = len(self._actions) - 1
            raise ValueError(f"action must be from 0 to {last}. Received: action={number}")
        if self._ended:
            raise ValueError(f"No game is running: call reset() first. Received: action={number}")
        return self._actions[number]


def _check_render_mode(render_mode: str | None) -> str | None:
    if render_mode not in (None, "rgb_array"):
        raise ValueError(
            "render_mode must be None or 'rgb_array': Atari opens no window, it gives pictures to "
            f"record. Received: {render_mode=}"
        )
    return render_mode
