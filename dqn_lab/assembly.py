"""Assembles a run's parts from a rundef's arguments, the same way for every rundef."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from dqn_lab.arguments import require_choice, require_flag, require_fraction, require_integer
from dqn_lab.initial_weights import load_initial_weights
from dqn_lab.protocols import Protocol, get_protocol
from dqn_lab.run import Run
from dqn_lab.schedules import LinearSchedule

# What a rundef's signature may leave out.
DEFAULTS = {
    "seed": 0,
    "num_envs": 1,
    "replay_compression": "none",
    "n_step": 1,
    "gamma": 0.99,
    "double": False,
    "loss": "huber",
    "optimizer": "adam",
    "optimizer_epsilon": None,
    "gradient_clip": None,
    "jit_compile": None,
    "device": "auto",
    "feeding": "auto",
    "frame_skip": None,
    "reward_transform": None,
    "epsilon_end": None,
    "epsilon_begin_steps": 0,
    "evaluation_epsilon": None,
    "evaluation_period_epochs": 1,
    "evaluation_episodes": 100,
    "evaluation_max_steps": math.inf,
    "initial_states": 1000,
    "initial_states_dir": "runs/initial_states",
    "media_period_evaluations": 10,
    "log_period_updates": 1000,
    "log_weights": False,
    "checkpoint_period_steps": 500_000,
    "checkpoint_period_minutes": 10.0,
    "keep": 2,
    "keep_weights": "none",
    "initial_weights": None,
    "total_steps": math.inf,
    "total_updates": math.inf,
}

# Games played beside each other in evaluation: the scores are the same, the time isn't. A step of
# classic control costs so little that the call of the network is what counts.
LANES, MANY_LANES = 8, 32

_MOST_ROWS = 64  # of a lane that a state may span where nothing is learnt

# The parts' own names of what a rundef calls otherwise: an error must name what the user can set.
_RUNDEF_NAMES = {
    "begin_value": "epsilon_start",
    "end_value": "epsilon_end",
    "final_epsilon": "epsilon_end",
    "begin_steps": "epsilon_begin_steps",
    "decay_steps": "epsilon_steps",
    "num_episodes": "evaluation_episodes",
    "num_max_iter": "evaluation_max_steps",
    "num_initial_states": "initial_states",
    "anneal_steps": "total_steps",
}


class Assembly:
    """A rundef's arguments and what is built from them. The device is chosen first of all.

    Args:
        arguments: all of a rundef's arguments by name: `locals()` in the first line of its `run`.

    Example:

    >>> def run(*, seed=0, batch_size=32, ...):
    ...     assembly = Assembly(locals())
    ...     sequence = assembly.environment_sequence(lambda: gymnasium.make("CartPole-v1"))
    ...     network = mlp(sequence.state_shape, sequence.num_actions, seed=seed)
    ...     return assembly.run(sequence, network)
    """

    _defaults = DEFAULTS

    def __init__(self, arguments: Mapping[str, object]):
        self.arguments = dict(arguments)
        self._values = self._defaults | self.arguments
        from dqn_lab.devices import select_device

        with own_names():
            self.protocol = self._choose_protocol()
        self.device = select_device(self["device"])
        self._evaluation_lanes = LANES

    def __getitem__(self, name: str):
        return self._values[name]

    @functools.cached_property
    def epsilon(self) -> LinearSchedule:
        """Share of random actions by the run's steps."""
        final = self.protocol.final_epsilon
        final = self["epsilon_end"] if final is None else final
        if final is None:
            raise ValueError(f"`epsilon_end` must be given: {self.protocol.name} has none. Received: epsilon_end=None")
        with own_names():
            return LinearSchedule(
                require_fraction("epsilon_start", self["epsilon_start"]),
                require_fraction("epsilon_end", final),
                begin_steps=self["epsilon_begin_steps"],
                decay_steps=self["epsilon_steps"],
            )

    def atari_sequence(self):
        """The sequence of the rundef's game, under its protocol."""
        from dqn_lab.sequences.atari import AtariSequence

        return self._make_sequence(AtariSequence, self["game"], protocol=self.protocol)

    def environment_sequence(self, make_environment: Callable):
        """The sequence of a gymnasium environment.

        Args:
            make_environment: returns a new one.
        """
        from dqn_lab.sequences.environment import EnvironmentSequence

        if self.protocol.is_atari:
            raise ValueError(
                "`protocol` must be classic-control where no Atari game is played. "
                f"Received: protocol={self.protocol.name!r}"
            )
        sequence = self._make_sequence(EnvironmentSequence, make_environment)
        sequence.protocol = self.protocol  # which its scores are told with
        self._evaluation_lanes = MANY_LANES
        return sequence

    def run(self, sequence, network) -> Run:
        """Agent and evaluation around sequence and network, compiled.

        Args:
            sequence: makes the minibatches.
            network: states -> action values, with its initial weights; `initial_weights` take their place.
        """
        with own_names():
            self._load_initial_weights(network)  # before they are copied to a target network
            evaluation = self._evaluation_arguments()
            return Run(
                sequence,
                self._make_agent(network),
                evaluation=None if evaluation is None else make_evaluation(sequence, **evaluation),
                arguments=self.arguments,
                protocol=self.protocol,
                device=str(self.device),
                total_steps=self["total_steps"],
                total_updates=self["total_updates"],
                log_period_updates=require_integer("log_period_updates", self["log_period_updates"], least=1),
                log_weights=require_flag("log_weights", self["log_weights"]),
                **self._checkpoint_arguments(),
            )

    def _choose_protocol(self) -> Protocol:
        protocol = get_protocol(self["protocol"])
        # Where a protocol leaves the final epsilon to the rundef, no value deviates from it.
        final_epsilon = None if protocol.final_epsilon is None else self["epsilon_end"]
        return protocol.override(
            frame_skip=self["frame_skip"],
            reward_transform=self["reward_transform"],
            final_epsilon=final_epsilon,
            evaluation_epsilon=self["evaluation_epsilon"],
        )

    def _make_sequence(self, kind: type, *given, **settings):
        names = (
            "num_envs batch_size replay_capacity_steps replay_min_steps replay_compression updates_per_epoch "
            "train_period_steps n_step gamma feeding seed"
        )
        own = {name: self[name] for name in names.split()}
        return kind(*given, epsilon=self.epsilon, **settings, **own)

    def _load_initial_weights(self, network) -> None:
        if self["initial_weights"] is not None:
            load_initial_weights(network, self["initial_weights"])

    def _checkpoint_arguments(self) -> dict[str, object]:
        name, minutes = "checkpoint_period_steps", self["checkpoint_period_minutes"]
        return {
            name: None if self[name] is None else require_integer(name, self[name], least=1),
            "checkpoint_period_minutes": None if minutes is None else _require_minutes(minutes),
            "keep": require_integer("keep", self["keep"], least=1),
            "keep_weights": require_choice("keep_weights", self["keep_weights"], ("none", "all")),
        }

    def _make_agent(self, network):
        from dqn_lab.agents.dqn import DQN
        from dqn_lab.optimizers import make_optimizer

        agent = DQN(
            network,
            double=self["double"],
            target_period_updates=self["target_period_updates"],
            gradient_clip=self["gradient_clip"],
            loss=self["loss"],
        )
        optimizer = make_optimizer(
            self["optimizer"], self["learning_rate"], batch_size=self["batch_size"], epsilon=self["optimizer_epsilon"]
        )
        jit_compile = "auto" if self["jit_compile"] is None else self["jit_compile"]
        agent.compile(optimizer=optimizer, jit_compile=jit_compile)
        return agent

    def _evaluation_arguments(self) -> dict[str, object] | None:
        """What `make_evaluation` takes beside the sequence, or None where the rundef wants no evaluation."""
        period = require_integer("evaluation_period_epochs", self["evaluation_period_epochs"], least=0)
        media = require_integer("media_period_evaluations", self["media_period_evaluations"], least=0)
        if period == 0:
            return None
        return {
            "epsilon": self.protocol.evaluation_epsilon,
            "num_episodes": self["evaluation_episodes"],
            "num_max_iter": self["evaluation_max_steps"],
            "num_initial_states": self["initial_states"],
            "init_state_dir": self["initial_states_dir"],
            "period_epochs": period,
            "seed": self["seed"],
            "num_envs": self._evaluation_lanes,
            "media_period_evaluations": media,
        }


def make_evaluation(sequence, **arguments):
    """The evaluation of a sequence's agent, on twins of it.

    Args:
        sequence: that makes the twins.
        **arguments: as `Evaluation`.
    """
    from dqn_lab.callbacks.evaluation import Evaluation

    return Evaluation(sequence.create_validation_instance, **arguments)


def check_arguments(arguments: dict[str, object]) -> dict[str, object]:
    """The same run with an initial fill of a few batches, which is what `--check` builds."""
    fill, capacity = arguments.get("replay_min_steps"), arguments.get("replay_capacity_steps")
    if not isinstance(fill, int) or (isinstance(capacity, int) and fill > capacity):
        return arguments  # a run would be refused for it, and so is this
    batch, lanes = arguments.get("batch_size", 32), arguments.get("num_envs", 1)
    return {**arguments, "replay_min_steps": min(fill, 2 * batch + 64 * lanes)}


def playing_arguments(arguments: Mapping[str, object]) -> dict[str, object]:
    """The same run with a replay of a few rows, on any device and never evaluated, which is what `load_run` builds."""
    lanes, window = arguments.get("num_envs", 1), arguments.get("n_step", 1)
    small = {"initial_weights": None, "evaluation_period_epochs": 0}
    if {"num_envs", "replay_min_steps"} <= arguments.keys():  # otherwise the rundef's own must find room
        small["replay_min_steps"] = lanes * window
        small["replay_capacity_steps"] = min(arguments.get("replay_capacity_steps", 0), lanes * (window + _MOST_ROWS))
    if arguments.get("device") == "gpu":
        small["device"] = "auto"
    return {**arguments, **{name: value for name, value in small.items() if name in arguments}}


def _require_minutes(minutes: float) -> float:
    if isinstance(minutes, bool) or not isinstance(minutes, (int, float)):
        raise TypeError(
            f"`checkpoint_period_minutes` must be a number or None. Received: checkpoint_period_minutes={minutes!r}"
        )
    if not minutes > 0:
        raise ValueError(
            f"`checkpoint_period_minutes` must be above 0 or None. Received: checkpoint_period_minutes={minutes}"
        )
    return minutes


@contextmanager
def own_names() -> Iterator[None]:
    """Words an error of a part in the names that a rundef has for its arguments."""
    try:
        yield
    except (TypeError, ValueError) as error:
        text = str(error)
        for own, name in _RUNDEF_NAMES.items():
            text = re.sub(rf"\b{own}\b", name, text)
        raise (TypeError if isinstance(error, TypeError) else ValueError)(text) from error
