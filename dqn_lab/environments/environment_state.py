"""All that an environment's next steps depend on, read out of it and put into another one like it."""

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import wrappers
from gymnasium.envs import classic_control

# What the next steps depend on, in the classes of gymnasium that are known through and through. A subclass isn't
# known: it may keep more. Nor is a wrapper around a user's function, which may remember.
_ATTRIBUTES = {
    classic_control.CartPoleEnv: ("state", "steps_beyond_terminated"),
    classic_control.MountainCarEnv: ("state",),
    classic_control.AcrobotEnv: ("state",),
    classic_control.PendulumEnv: ("state",),
    classic_control.Continuous_MountainCarEnv: ("state",),
    wrappers.TimeLimit: ("_elapsed_steps",),
    wrappers.OrderEnforcing: ("_has_reset",),
    wrappers.PassiveEnvChecker: (),  # only says what is wrong, once
    wrappers.RecordEpisodeStatistics: ("episode_count", "episode_returns", "episode_lengths"),
    wrappers.ClipReward: (),
    wrappers.DiscretizeAction: (),
    wrappers.DtypeObservation: (),
    wrappers.FilterObservation: (),
    wrappers.FlattenObservation: (),
    wrappers.GrayscaleObservation: (),
    wrappers.RescaleObservation: (),
    wrappers.ReshapeObservation: (),
    wrappers.ResizeObservation: (),
}


def why_inexact(environment: gymnasium.Env) -> str | None:
    """Returns why an environment can't be put back exactly, in a few words; None where it can.

    Exact are gymnasium's classic control, and environments and wrappers that offer `get_state() -> dict` and
    `set_state(state)`, unless they say otherwise in a `why_inexact() -> str | None`. A wrapper that offers them answers
    for all that it wraps too: it may call `get_environment_state(self.env)` and `set_environment_state`.
    """
    return next(filter(None, map(_why_layer_inexact, _layers(environment))), None)


def get_environment_state(environment: gymnasium.Env) -> dict[str, Any]:
    """Returns the state of an environment and its wrappers; of those that show none, the name.

    Returns:
        Dicts with str keys, lists, str, int, float, bool, None, bytes and numpy arrays only (a numpy scalar is an
        array without axes), all of them copies.

    Raises:
        TypeError: a `get_state` returned something else.
    """
    return {"layers": [{"name": _name(layer), "state": _get_layer_state(layer)} for layer in _layers(environment)]}


def set_environment_state(environment: gymnasium.Env, state: dict[str, Any]) -> None:
    """Lets an environment, which may be one never reset, go on from a state of `get_environment_state`.

    Raises:
        ValueError: the state is another environment's, or none, or it can't be set exactly.
    """
    if reason := why_inexact(environment):
        raise ValueError(f"A state must be set exactly or not at all. Received: {reason}")
    check_environment_state(environment, state)
    for layer, saved in zip(_layers(environment), state["layers"], strict=True):
        _set_layer_state(layer, copy_in(saved["state"]))


def check_environment_state(environment: gymnasium.Env, state: dict[str, Any]) -> None:
    """Refuses a state of another kind of environment, or of the same in other wrappers.

    Raises:
        ValueError: it is one.
    """
    layers = list(_layers(environment))
    require_keys("an environment", state, ("layers",))
    given = state["layers"] if isinstance(state["layers"], list) else []
    names = [saved.get("name") if isinstance(saved, dict) else None for saved in given]
    expected = [_name(layer) for layer in layers]
    if names != expected:
        raise ValueError(f"The state must be one of {' of '.join(expected)}. Received: layers={names}")
    for layer, saved in zip(layers, given, strict=True):
        if not saves_itself(layer):
            require_keys(_name(layer), saved.get("state"), _keys(layer))


def saves_itself(environment: Any) -> bool:
    """Tells whether an environment, wrapper or vector environment has a `get_state` and a `set_state` of its own."""
    # Asked of the class: an object might pass the question on to what it wraps.
    return all(callable(getattr(type(environment), name, None)) for name in ("get_state", "set_state"))


def copy_out(owner: str, value: Any) -> Any:
    """Returns a copy made of what a file can hold: see `get_environment_state`.

    Raises:
        TypeError: there is something else in it.
    """
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {str(key): copy_out(owner, each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [copy_out(owner, each) for each in value]
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufcSU":
        return np.array(value)
    if value is None or type(value) in (str, int, float, bool, bytes):
        return value
    raise TypeError(
        f"{owner}: a state must be made of dicts with str keys, lists, numbers, str, bytes, None and numpy arrays. "
        f"Received: a value of type {type(value).__name__}"
    )


def copy_in(value: Any) -> Any:
    """Returns a copy of what `copy_out` returned; an array without axes becomes the numpy scalar that it was."""
    if isinstance(value, dict):
        return {key: copy_in(each) for key, each in value.items()}
    if isinstance(value, list):
        return [copy_in(each) for each in value]
    return value.copy()[()] if isinstance(value, np.ndarray) else value


def require_keys(owner: str, state: Any, keys: tuple[str, ...]) -> None:
    """Refuses a state that lacks something.

    Raises:
        ValueError: it is no dict, or a key is missing.
    """
    missing = [key for key in keys if not isinstance(state, dict) or key not in state]
    if missing:
        raise ValueError(f"The state must be what `get_state` returned for {owner}. Received: no {', '.join(missing)}")


def set_generator(generator: np.random.Generator, state: dict[str, Any]) -> None:
    """Lets a generator go on from a `bit_generator.state`.

    Raises:
        ValueError: it is another kind of generator's, or none.
    """
    try:
        generator.bit_generator.state = state
    except (KeyError, TypeError, ValueError):
        kind = type(generator.bit_generator).__name__
        raise ValueError(f"The generator's state must be one of {kind}. Received: generator={state!r}") from None


def _layers(environment: gymnasium.Env) -> Iterator[gymnasium.Env]:
    """Yields wrappers and environment from the outermost inwards, up to the first that answers for what it wraps."""
    yield environment
    while isinstance(environment, gymnasium.Wrapper) and not saves_itself(environment):
        environment = environment.env
        yield environment


def _name(layer: gymnasium.Env) -> str:
    return type(layer).__name__


def _why_layer_inexact(layer: gymnasium.Env) -> str | None:
    if saves_itself(layer):
        return layer.why_inexact() if callable(getattr(type(layer), "why_inexact", None)) else None
    return None if type(layer) in _ATTRIBUTES else f"{_name(layer)} has no get_state and set_state"


def _keys(layer: gymnasium.Env) -> tuple[str, ...]:
    """Returns what the state of a known class holds: a wrapper draws by its environment's generator, if at all."""
    generator = () if isinstance(layer, gymnasium.Wrapper) else ("generator",)
    return _ATTRIBUTES[type(layer)] + generator


def _get_layer_state(layer: gymnasium.Env) -> Any:
    if saves_itself(layer):
        return copy_out(_name(layer), layer.get_state())
    if type(layer) not in _ATTRIBUTES:
        return None
    state = {name: getattr(layer, name) for name in _ATTRIBUTES[type(layer)]}
    if "generator" in _keys(layer):
        state["generator"] = layer.np_random.bit_generator.state
    return copy_out(_name(layer), state)


def _set_layer_state(layer: gymnasium.Env, state: Any) -> None:
    if saves_itself(layer):
        layer.set_state(state)
        return
    for name in _ATTRIBUTES[type(layer)]:
        setattr(layer, name, state[name])
    if "generator" in _keys(layer):
        set_generator(layer.np_random, state["generator"])
    if isinstance(layer, wrappers.PassiveEnvChecker):  # its comparison of two steps needs both
        layer.checked_reset = layer.checked_step = layer.checked_data_reuse = True
