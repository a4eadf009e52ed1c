"""Assembles an asynchronous run's parts from a rundef's arguments, the same way for every rundef."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from dqn_lab.arguments import require_flag, require_integer
from dqn_lab.assembly import DEFAULTS, Assembly, make_evaluation, own_names
from dqn_lab.asynchronous.settings import AsynchronousSettings
from dqn_lab.asynchronous_run import AsynchronousRun
from dqn_lab.protocols import Protocol
from dqn_lab.rundef import SettingError
from dqn_lab.rundef_keys import why_not_a_key

# What a rundef's signature may leave out.
_SETTINGS = {field.name: field.default for field in dataclasses.fields(AsynchronousSettings)}
_OTHERS = {
    "lstm": False,
    "dueling": False,
    "greedy": False,
    "anneal": False,
    "entropy_beta": 0.01,
    "value_loss_coefficient": 0.5,
    "steps_per_epoch": 250_000,
    "device": "cpu",
}

# Of a worker's sequence: no replay is drawn from, so a few rows to build the newest states from are enough.
_NO_REPLAY = {
    "num_envs": 1,
    "batch_size": 1,
    "replay_capacity_steps": 16,
    "replay_min_steps": 1,
    "replay_compression": "none",
    "updates_per_epoch": 1,
    "train_period_steps": 1,
    "feeding": "alternate",
}


class SequenceMaker:
    """Makes the sequences of workers and evaluation, each in the process that steps it: `maker(epsilon=..., seed=...)`.

    They have one lane, and next to no replay.

    Args:
        kind: their class.
        *given, **settings: what it is made with beside these two.

    Attributes:
        protocol: the rules that the sequences are given, where they are not made by some.
    """

    protocol: Protocol | None = None

    def __init__(self, kind: Callable, *given, **settings):
        self._kind, self._given, self._settings = kind, given, settings | _NO_REPLAY

    def __call__(self, *, epsilon, seed: int):
        with _without_replay_lines():
            sequence = self._kind(*self._given, epsilon=epsilon, seed=seed, **self._settings)
        if self.protocol is not None:
            sequence.protocol = self.protocol
        return sequence

    def __repr__(self) -> str:
        return f"SequenceMaker({', '.join([self._kind.__name__, *map(repr, self._given)])})"

    @property
    def state_shape(self) -> tuple[int, ...]:
        """Shape of one state."""
        return self._shapes[0]

    @property
    def num_actions(self) -> int:
        """Number of actions A."""
        return self._shapes[1]

    @functools.cached_property
    def _shapes(self) -> tuple[tuple[int, ...], int]:
        sequence = self(epsilon=0.0, seed=0)
        try:
            return sequence.state_shape, sequence.num_actions
        finally:
            sequence.close()


class AsynchronousAssembly(Assembly):
    """An asynchronous rundef's arguments and what is built from them. It computes on the CPU.

    In place of a sequence `atari_sequence` and `environment_sequence` give a `SequenceMaker`.

    Args:
        arguments: all of a rundef's arguments by name: `locals()` in the first line of its `run`.

    Raises:
        SettingError: arguments don't go together, or belong to runs with a replay.

    Example:

    >>> def run(*, seed=0, num_workers=2, method="a3c", ...):
    ...     assembly = AsynchronousAssembly(locals())
    ...     sequence = assembly.environment_sequence(lambda: gymnasium.make("CartPole-v1"))
    ...     network = mlp(sequence.state_shape, sequence.num_actions, actor_critic=assembly.actor_critic, seed=seed)
    ...     return assembly.run(sequence, network)
    """

    _defaults = DEFAULTS | _SETTINGS | _OTHERS

    def __init__(self, arguments: Mapping[str, object]):
        values = self._defaults | dict(arguments)
        _refuse_replay_keys(arguments)
        if values["t_max"] is None:
            values["t_max"] = 20 if values["lstm"] else 5  # what either was tuned with
        for name in ("num_workers", "t_max"):
            with _as_setting_error():
                require_integer(name, values[name], least=1)
        if values["anneal"] and math.isinf(values["total_steps"]):
            raise SettingError(
                "`anneal` needs a finite `total_steps`, over which the learning rate falls to 0. "
                f"Received: anneal=True, total_steps={values['total_steps']}"
            )
        self._method = _make_method(values)
        super().__init__(arguments)
        self._values = values

    @property
    def actor_critic(self) -> bool:
        """Whether the network is to give a policy and a state value, no action values."""
        return self._method.actor_critic

    def run(self, sequence: SequenceMaker, network) -> AsynchronousRun:
        """Workers and evaluation around sequences and network.

        Args:
            sequence: makes each worker's.
            network: with its initial weights; `initial_weights` take their place.
        """
        with own_names():
            self._load_initial_weights(network)
            evaluation = self._evaluation_arguments()
            return AsynchronousRun(
                sequence,
                network,
                self._method,
                self._settings(),
                make_evaluation=None if evaluation is None else functools.partial(make_evaluation, **evaluation),
                greedy=self["greedy"],
                steps_per_epoch=require_integer("steps_per_epoch", self["steps_per_epoch"], least=1),
                arguments=self.arguments,
                protocol=self.protocol,
                device=self._describe_device(),
                total_steps=self["total_steps"],
                log_weights=require_flag("log_weights", self["log_weights"]),
                **self._checkpoint_arguments(),
            )

    def _choose_protocol(self) -> Protocol:
        protocol = super()._choose_protocol()
        if self.actor_critic and self["evaluation_epsilon"] is None:
            protocol = protocol.override(evaluation_epsilon=0.0)  # its policy is random enough
        if self.actor_critic or self["epsilon_end"] is None:
            protocol = dataclasses.replace(protocol, final_epsilon=None)  # the method's: none, or one per worker
        return protocol

    def _make_sequence(self, kind: type, *given, **settings) -> SequenceMaker:
        return SequenceMaker(kind, *given, gamma=self["gamma"], **settings)

    def _settings(self) -> AsynchronousSettings:
        given = {name: self[name] for name in _SETTINGS}
        given["gradient_clip"] = given["gradient_clip"] or 0.0
        return AsynchronousSettings(**given | {"anneal_steps": self["total_steps"] if self["anneal"] else math.inf})

    def _checkpoint_arguments(self) -> dict[str, object]:
        arguments = super()._checkpoint_arguments()
        return {name: value for name, value in arguments.items() if name != "checkpoint_period_steps"}

    def _describe_device(self) -> str:
        from dqn_lab.devices import usable_cores

        return f"cpu (workers: {self['num_workers']}, a process and a thread each; cores: {usable_cores()})"


def _refuse_replay_keys(arguments: Mapping[str, object]) -> None:
    for name, value in arguments.items():
        if reason := why_not_a_key(name, {"num_workers", *arguments}):
            raise SettingError(f"`{name}` is no key of an asynchronous rundef: {reason}. Received: {name}={value!r}")


def _make_method(values: Mapping[str, object]):
    """The rule of that name, with those of the values that it takes."""
    from dqn_lab.asynchronous.methods import METHODS

    name = values["method"]
    if name not in METHODS:
        near = difflib.get_close_matches(str(name), METHODS, n=1, cutoff=0.0)
        raise SettingError(
            f"`method` must be one of {', '.join(METHODS)}; the closest is {near[0]!r}. Received: method={name!r}"
        )
    rule = METHODS[name]
    taken = inspect.signature(rule).parameters
    if values["double"] and "double" not in taken:
        _refuse(values, "double", [one for one in METHODS if "double" in inspect.signature(METHODS[one]).parameters])
    if values["dueling"] and rule.actor_critic:
        _refuse(values, "dueling", [one for one in METHODS if not METHODS[one].actor_critic])
    for key in ("lstm", "greedy"):
        if values[key] and not rule.actor_critic:
            _refuse(values, key, [one for one in METHODS if METHODS[one].actor_critic])
    return rule(**{each: values[each] for each in taken})


def _refuse(values: Mapping[str, object], name: str, methods: list[str]) -> None:
    *others, last = methods
    goes_with = f"{', '.join(others)} and {last}" if others else last
    raise SettingError(f"`{name}` goes with {goes_with} only. Received: {name}=True, method={values['method']!r}")


@contextmanager
def _as_setting_error() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise SettingError(str(error)) from None


@contextmanager
def _without_replay_lines() -> Iterator[None]:
    """Leaves out what a sequence says of a replay's memory."""
    logger = logging.getLogger("dqn_lab")

    def keep(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith("Replay memory: ")

    logger.addFilter(keep)
    try:
        yield
    finally:
        logger.removeFilter(keep)
