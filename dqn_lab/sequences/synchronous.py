"""The sequence: environments, replay and minibatches behind one `keras.utils.PyDataset`."""

import copy
import threading
import time
from collections.abc import Callable

import numpy as np
from gymnasium.vector import AutoresetMode

from dqn_lab.allocator import keep_freed_memory
from dqn_lab.arguments import require_fraction, require_integer
from dqn_lab.environments.lanes import Lanes
from dqn_lab.exploration import epsilon_greedy, uniform_actions
from dqn_lab.protocols import Protocol
from dqn_lab.sequences.front_end import FrontEnd
from dqn_lab.sequences.policy import Policy, require_policy
from dqn_lab.sequences.readings import SimulationReadings
from dqn_lab.sequences.settings import check_fill, check_growth, check_train_period, make_replay
from dqn_lab.sequences.simulation import Simulation
from dqn_lab.sequences.transitions import build_transitions
from dqn_lab.sequences.turns import TurnTaking
from dqn_lab.sequences.validation import ValidationInstance

_GENERATORS = ("exploration", "sampling", "environment")


class SynchronousSequence(FrontEnd, SimulationReadings, TurnTaking):
    """Steps environments, stores what happens, and yields minibatches, in step with the updates made from them.

    A subclass says what a state and a reward are, by three hooks over arrays of row indices; everything else
    (episode borders, n-step windows, uniform draws, evaluation) follows from them:

    - `get_states_start()`: how many consecutive stored steps a state spans;
    - `get_feature_by_index(index)`: the states at these rows, from `self.replay.observations(index, span)`;
    - `get_reward_by_index(index)`: the rewards the learner sees, from `self.replay.rewards(index)`.

    A subclass that needs attributes in its hooks sets them before it calls this constructor.

    `sequence[i]` looks at a minibatch and changes nothing; only the feed of a running `Agent.fit`, and outside one
    `simulate` and `simulate_single`, move it. The initial fill happens once, with the first look or feed.

    Update k is due as soon as `steps >= replay_min_steps + k * train_period_steps`.

    Args:
        make_environment: callable without arguments that returns a new `gymnasium.Env` with a Discrete action space
            and Box observations, or a `gymnasium.vector.VectorEnv`.
        num_envs: lanes stepped together; divides `train_period_steps` or is a multiple of it. None is 1, or as many as
            a vector environment has.
        batch_size: rows in a minibatch.
        replay_capacity_steps: rows of the replay in all lanes, a multiple of `num_envs`. The final observation of an
            episode takes a row too.
        replay_min_steps: uniformly random steps before the first update.
        replay_compression: "lz4" keeps observations compressed, without loss; "none" as they are.
        updates_per_epoch: minibatches in an epoch.
        train_period_steps: steps between two updates.
        n_step: most rewards in a target, at least 1.
        gamma: discount per step.
        epsilon: probability of a random action, a number or a callable of the run's steps.
        feeding: "alternate", "overlap", or "auto" to choose by device and cores.
        seed: of all randomness here.
        policy: features [N, ...] -> action values [N, A], for `simulate` outside a fit; uniform actions when None.

    Raises:
        TypeError, ValueError: an argument has the wrong type or range, or does not fit another; a space cannot be
            used; the replay does not fit into memory.

    Attributes:
        protocol: the rules of environment and evaluation, where the sequence is made by some.
    """

    protocol: Protocol | None = None

    def __init__(
        self,
        make_environment,
        *,
        num_envs: int | None = None,
        batch_size: int = 32,
        replay_capacity_steps: int,
        replay_min_steps: int,
        replay_compression: str = "none",
        updates_per_epoch: int,
        train_period_steps: int = 4,
        n_step: int = 1,
        gamma: float = 0.99,
        epsilon: float | Callable[[int], float],
        feeding: str = "auto",
        seed: int = 0,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(feeding)
        keep_freed_memory()
        self.batch_size = require_integer("batch_size", batch_size, least=1)
        self.updates_per_epoch = require_integer("updates_per_epoch", updates_per_epoch, least=1)
        self.seed = require_integer("seed", seed, least=0)
        self.gamma = require_fraction("gamma", gamma)
        self._epsilon = epsilon if callable(epsilon) else require_fraction("epsilon", epsilon)
        self.policy = require_policy(policy)
        self._make_environment = make_environment
        lanes = Lanes(make_environment, num_envs)
        self.num_envs, self.num_actions = lanes.num_envs, lanes.num_actions
        self.train_period_steps = check_train_period(train_period_steps, lanes.num_envs)
        self.replay = make_replay(
            lanes.observation_space,
            num_envs=lanes.num_envs,
            capacity=replay_capacity_steps,
            span=self.get_states_start(),
            n_step=n_step,
            compression=replay_compression,
        )
        self.replay_min_steps = check_fill(replay_min_steps, self.replay)
        self._simulation = Simulation(lanes, self.replay, self.get_terminal)
        children = np.random.SeedSequence(seed).spawn(len(_GENERATORS))
        self._generators = dict(zip(_GENERATORS, map(np.random.default_rng, children), strict=True))
        self.seconds = dict.fromkeys(("acting", "environment", "sampling", "update"), 0.0)
        self._lock = threading.RLock()  # a look from another thread waits for a step in progress

    def get_identity(self) -> str:
        """Returns what tells this environment and front end from others, for caches."""
        lanes = self._simulation.lanes
        space = lanes.observation_space
        return f"{type(self).__name__} {lanes.name} {space.shape} {space.dtype} {self.num_actions} {self.state_shape}"

    @property
    def environment_name(self) -> str:
        """What is played: the environment's registered id, or its class."""
        return self._simulation.lanes.name

    @property
    def epsilon(self) -> float:
        """Probability of a random action at the present step."""
        return require_fraction("epsilon", self._epsilon(self.steps)) if callable(self._epsilon) else self._epsilon

    @property
    def state_shape(self) -> tuple[int, ...]:
        """Shape of one state."""
        return self._example_state().shape

    @property
    def state_dtype(self) -> np.dtype:
        """dtype of the states."""
        return self._example_state().dtype

    @property
    def replay_bytes(self) -> int:
        """Bytes that the replay's arrays and compressed observations have."""
        return self.replay.ring.nbytes

    # The newest step.

    def get_latest_feature(self) -> np.ndarray:
        """Returns the states in which the next actions will be taken. [N, ...]"""
        with self._lock:
            self._begin_once()
            return self.ask_states(self.replay.ring.newest_index)

    def get_latest_observation(self) -> np.ndarray:
        """Returns the newest stored observations. [N, ...]"""
        with self._lock:
            self._begin_once()
            return self.replay.observations(self.replay.ring.newest_index)[:, 0]

    def get_action(self, generator: np.random.Generator | None = None) -> np.ndarray:
        """Returns actions for the newest states, epsilon-greedy by `policy`, uniform without one.

        Args:
            generator: it moves; a copy of the sequence's own, which does not, when None.

        Returns:
            [N] integers.
        """
        values = None if self.policy is None else self.compute_values(self.policy)
        return self.choose_actions(values, self._copied("exploration", generator))

    def choose_actions(self, values: np.ndarray | None, generator) -> np.ndarray:
        """Returns epsilon-greedy actions by these values, [N, A]; uniform ones without values. -> [N]"""
        if values is None:
            return uniform_actions(self.num_envs, self.num_actions, generator)
        return epsilon_greedy(values, self.epsilon, generator)

    # Simulation.

    def simulate_single(self) -> None:
        """Takes one decision in every lane: uniformly random during the initial fill, by `policy` after it.

        Raises:
            RuntimeError: a fit is running; only its feed steps the environments then.
        """
        self._refuse_inside_fit()
        with self._lock:
            self._begin_once()
            wanted = self.policy is not None and self._is_filled
            self._advance(self.compute_values(self.policy) if wanted else None)

    def simulate(self, steps: int) -> None:
        """Takes decisions until `steps` more steps have been made, or the next multiple of the lanes.

        Raises:
            RuntimeError: a fit is running.
        """
        goal = self.steps + require_integer("steps", steps, least=0)
        while self.steps < goal:
            self.simulate_single()

    def fill(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Makes the initial random steps, unless they have been made.

        Args:
            progress: called now and then with the steps made and the steps to make.

        Raises:
            ValueError: by the size of what they brought, the full replay will not fit into memory.
        """
        with self._lock:
            if self._is_filled:
                return
            self._begin_once()
            while not self._is_filled:
                self._advance(None)
                if progress is not None:
                    progress(self.steps, self.replay_min_steps)
            check_growth(self.replay)

    # Minibatches.

    def __len__(self) -> int:
        return self.updates_per_epoch

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        """Looks at a minibatch as the feed would hand it out now; nothing moves.

        Args:
            index: 0..len - 1; it makes no difference which.

        Returns:
            state [B, ...], action [B] int32, reward [B] float32 and discount [B] float32 (both n-step),
            next_state [B, ...], weight [B] float32, index [B] int64.

        Raises:
            IndexError: the epoch has fewer updates.
        """
        if not -len(self) <= index < len(self):
            raise IndexError(f"The epoch has {len(self)} updates. Received: index={index}")
        return self.get_minibatch()

    def sample_indices(self, n: int, generator: np.random.Generator | None = None) -> np.ndarray:
        """Draws rows uniformly over all that make complete transitions.

        Args:
            n: how many, with replacement.
            generator: it moves; a copy of the sequence's own, which does not, when None.

        Returns:
            [n] int64.
        """
        n = require_integer("n", n, least=1)
        with self._lock:
            self.fill()
            return self.replay.sample(n, self._copied("sampling", generator))

    def get_minibatch(self, generator: np.random.Generator | None = None) -> dict[str, np.ndarray]:
        """Draws a minibatch; see `__getitem__` for its keys and `sample_indices` for `generator`."""
        with self._lock:
            return self.get_transitions(self.sample_indices(self.batch_size, generator))

    def get_transitions(self, index: np.ndarray) -> dict[str, np.ndarray]:
        """Builds the transitions that begin in these rows, [B]; see `__getitem__` for the keys."""
        return build_transitions(self.replay, index, self.gamma, self.ask_states, self.ask_rewards)

    def create_validation_instance(self, epsilon: float, num_envs: int = 8) -> "ValidationInstance":
        """Returns an independent twin for evaluation: the same front end, its own environments and generators.

        Args:
            epsilon: probability of a random action.
            num_envs: its lanes; a vector environment keeps its own number.

        Raises:
            ValueError: `make_environment` returned the environment that this sequence trains in.
        """
        own = self._simulation.lanes
        lanes = Lanes(
            self.make_evaluation_environment, None if own.is_users_vector else num_envs, AutoresetMode.DISABLED
        )
        if lanes.shares_environments(own):
            raise ValueError(
                "make_environment must return a new environment at each call: evaluation would cut the training "
                f"episodes short. Received: make_environment={self._make_environment!r}"
            )
        return ValidationInstance(self, lanes, epsilon)

    def make_evaluation_environment(self):
        """Returns a new environment for evaluation; the same kind as for training."""
        return self._make_environment()

    # State.

    def why_inexact(self) -> str | None:
        """Returns why the environments can't go on exactly from a state, in a few words, or None where they can.

        Exact are this package's environments, gymnasium's classic control, and others that offer `get_state` and
        `set_state`; see `environment_state.why_inexact`.
        """
        return self._simulation.why_inexact()

    def get_state(self, replay: bool = True) -> dict:
        """Returns replay, counts, generators, and the environments' state unless `why_inexact` tells why not.

        Inside a fit it may be asked for between two updates, on the thread of the fit, such as in a callback's
        `on_train_batch_begin`: a batch in the making is waited for, and belongs to it. Nothing moves otherwise.

        Args:
            replay: whether the replay is in it. Its arrays are the sequence's own, not copies.
        """
        carried = self._settled_batch()  # first: what is being made moves all the rest
        return {
            "identity": self.get_identity(),
            "replay": self.replay.ring.get_state() if replay else None,
            "simulation": self._simulation.get_state(),
            "generators": {name: each.bit_generator.state for name, each in self._generators.items()},
            "batches": self.batches,
            "carried": None if carried is None else carried["index"].copy(),
            "seconds": dict(self.seconds),
        }

    def set_state(self, state: dict) -> None:
        """Takes over what `get_state` returned, and goes on as that sequence would have.

        Where the environments' state is not in it, the next step begins new episodes in all lanes. Where the replay
        is not in it, the ring stays: it must be as it was then, loaded by other means.

        Raises:
            RuntimeError: a fit is running.
            ValueError: something is missing, or of another shape or kind, or another sequence's. Nothing has changed
                then; or, if an environment refuses what is in its state, no more than that new episodes begin.
        """
        self._refuse_inside_fit()
        given = state if isinstance(state, dict) else {}
        missing = [name for name in self.get_state(replay=False) if name not in given]
        if missing:
            raise ValueError(f"The state must be what `get_state` returned. Received: no {', '.join(missing)}")
        if state["identity"] != self.get_identity():
            raise ValueError(
                f"The state must be one of the same environments and states, {self.get_identity()!r}. "
                f"Received: identity={state['identity']!r}"
            )
        generators = _generators_of(state["generators"])
        self._simulation.check_state(state["simulation"])
        seconds = _seconds_of(state["seconds"], self.seconds)
        if state["replay"] is not None:
            self.replay.ring.check_state(state["replay"])
        self._simulation.set_lanes(state["simulation"])
        if state["replay"] is not None:
            self.replay.ring.set_state(state["replay"])
        self._simulation.set_counts(state["simulation"])
        self._generators, self.seconds = generators, seconds
        self.batches = int(state["batches"])
        carried = state["carried"]
        self._carried = None if carried is None else self.get_transitions(carried)

    def __repr__(self) -> str:
        ring = self.replay.ring
        protocol = "" if self.protocol is None else f"protocol={str(self.protocol)!r}, "
        return (
            f"{type(self).__name__}({self.environment_name!r}, {protocol}num_envs={self.num_envs}, "
            f"num_actions={self.num_actions}, batch_size={self.batch_size}, steps={self.steps:,}, "
            f"frames={self.frames:,}, episodes={self.episodes:,}, replay={len(ring):,} of {ring.capacity:,} rows)"
        )

    @property
    def _is_filled(self) -> bool:
        return self.steps >= self.replay_min_steps

    def _example_state(self) -> np.ndarray:
        with self._lock:
            if not len(self.replay.ring):
                self._begin_once()
            return self.ask_states(self.replay.ring.newest_index[:1])[0]

    def _begin_once(self) -> None:
        if not self._simulation.has_begun:
            seeds = self._generators["environment"].integers(2**31, size=self.num_envs)
            self._simulation.begin(seeds.tolist())

    def _advance(self, values: np.ndarray | None) -> None:
        begin = time.perf_counter()
        action = self.choose_actions(values, self._generators["exploration"])
        self._simulation.step(action, self.batches + 1)
        self.seconds["environment"] += time.perf_counter() - begin

    def _copied(self, name: str, generator: np.random.Generator | None) -> np.random.Generator:
        return copy.deepcopy(self._generators[name]) if generator is None else generator


def _generators_of(states: dict) -> dict[str, np.random.Generator]:
    generators = {name: np.random.default_rng(0) for name in _GENERATORS}
    try:
        for name, each in generators.items():
            each.bit_generator.state = states[name]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"The generators' states must be what `get_state` returned. Received: {name}: {error}"
        ) from error
    return generators


def _seconds_of(saved, own: dict[str, float]) -> dict[str, float]:
    if not isinstance(saved, dict) or not all(isinstance(saved.get(name), int | float) for name in own):
        raise ValueError(f"The seconds must be numbers of {', '.join(own)}. Received: seconds={saved!r}")
    return {name: float(saved[name]) for name in own}
