"""Held-out initial states and the random policy's score, kept in a file for all runs of a protocol.

The mean of the largest action values over the same states is the smoothest curve there is of what a
network has learnt; it can be compared between runs only where the states are the same. So they
depend on the environment, the protocol, their number and a seed of their own, never on the run's.
"""

import contextlib
import hashlib
import logging
import math
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dqn_lab.evaluation import evaluate

INITIAL_STATES_SEED = 20_200_801  # the states' own, whatever the run's seed

_FIELDS = ("state", "action", "reward", "terminal", "next_state")
_logger = logging.getLogger("dqn_lab")


@dataclass(frozen=True, eq=False)
class InitialStates:
    """One transition from each of S initial states, with a uniformly random action.

    Args:
        state: [S, ...] the first whole feature after a reset of its own.
        action: [S] int32.
        reward: [S] float32, as the learner sees it.
        terminal: [S] bool.
        next_state: [S, ...].
    """

    state: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    terminal: np.ndarray
    next_state: np.ndarray

    def __len__(self) -> int:
        return len(self.action)

    def batches(self, gamma: float, batch_size: int) -> Iterator[dict[str, np.ndarray]]:
        """Yield batches with the keys of a minibatch, all of `batch_size` rows.

        The last one is filled up with rows from the beginning, so that what is compiled for one
        shape serves all: use the first S of what was computed.
        """
        rows = np.arange(-(-len(self) // batch_size) * batch_size) % max(len(self), 1)
        for row in rows.reshape(-1, batch_size):  # [B]
            yield {
                "state": self.state[row],
                "action": self.action[row],
                "reward": self.reward[row],
                "discount": np.float32(gamma) * ~self.terminal[row],
                "next_state": self.next_state[row],
            }


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What every run of one environment and protocol is judged on.

    Args:
        states: the initial states.
        random_returns: returns of the random policy's episodes.
        limits: (num_episodes, num_max_iter) that these were played under.
    """

    states: InitialStates
    random_returns: tuple[float, ...]
    limits: tuple[float, float]

    @property
    def random_return_mean(self) -> float:
        """The random policy's mean return; NaN where no episode ended within the limits."""
        return float(np.mean(self.random_returns)) if self.random_returns else math.nan


def sample_initial_states(twin, count: int, seed: int = INITIAL_STATES_SEED) -> InitialStates:
    """Draw `count` initial states by random play from as many resets.

    Each lane is reset, plays `twin.initial_decisions` random decisions until a state is whole, and
    one more, which is the transition. Only the first reset is seeded: on Atari a seed loads the
    game anew. In a game that ends sooner the state is the padded one of the game after it. The
    twin's policy is None (random) afterwards.
    """
    twin.policy = None
    parts: dict[str, list] = {field: [] for field in _FIELDS}
    for drawn in range(0, max(count, 1), twin.num_envs):
        twin.restart(seed if drawn == 0 else None)
        for _ in range(twin.initial_decisions + 1):
            twin.simulate_single()
        transition = twin.get_latest_transition()
        for field in _FIELDS:
            parts[field].append(transition[field])
    return InitialStates(**{field: np.concatenate(parts[field])[:count] for field in _FIELDS})


def held_out(
    twin,
    count: int,
    *,
    num_episodes: float,
    num_max_iter: float,
    directory: str | os.PathLike | None = None,
    seed: int = INITIAL_STATES_SEED,
    stop_requested: Callable[[], bool] = lambda: False,
) -> HeldOut:
    """Read the held-out states and the random score of the twin's environment, or make them.

    Args:
        twin: what a sequence's `create_validation_instance` returns.
        count: how many states.
        num_episodes: limit of the random policy's evaluation, see `dqn_lab.evaluation.evaluate`.
        num_max_iter: its other limit, in steps.
        directory: where the file is looked for and written; None keeps no file.
        seed: of the states and of the random policy's episodes.
        stop_requested: as `dqn_lab.evaluation.evaluate` takes it.

    Raises:
        EvaluationStopped: as there; no file is written then.
    """
    limits = (float(num_episodes), float(num_max_iter))
    identity = {"key": twin.key(), "count": count, "seed": seed}
    path = None if directory is None else Path(directory) / _file_name(**identity)
    found = None if path is None else _read(path, identity)
    if found is not None and found.limits == limits:
        return found
    if found is None:
        states = sample_initial_states(twin, count, seed)
        _logger.info("sampled %s initial states%s", f"{count:,}", f" into {path}" if path else "")
    else:
        states = found.states
        _logger.info(
            "the random policy is played again: its score in %s is of other evaluation_episodes or "
            "evaluation_max_steps than this run's",
            path,
        )
    twin.policy = None
    random_play = evaluate(
        twin, num_episodes=num_episodes, num_max_iter=num_max_iter, seed=seed, stop_requested=stop_requested
    )
    made = HeldOut(states, random_play.returns, limits)
    if path is not None:
        _write(path, made, identity)
    return made


def _file_name(key: str, count: int, seed: int) -> str:
    digest = hashlib.sha256(f"{key}\n{count}\n{seed}".encode()).hexdigest()[:12]
    return f"{re.sub('[^A-Za-z0-9]+', '-', key)[:60].strip('-')}-{count}-{digest}.npz"


def _read(path: Path, identity: dict) -> HeldOut | None:
    """The file's content, or None, with the reason said, where it can't serve."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
            given = {name: stored[name].item() for name in identity}
            if given != identity:
                differing = ", ".join(n for n in identity if given[n] != identity[n])
                raise ValueError(f"it is for another {differing}")
            states = InitialStates(**{field: stored[field] for field in _FIELDS})
            if any(len(getattr(states, field)) != identity["count"] for field in _FIELDS):
                raise ValueError(f"it doesn't hold {identity['count']} states")
            returns, limits = stored["random_returns"], stored["limits"]
            return HeldOut(states, tuple(returns.tolist()), tuple(limits.tolist()))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        _logger.warning("%s can't be used (%s): sampling its states anew", path, error)
        return None


def _write(path: Path, made: HeldOut, identity: dict) -> None:
    """Write beside `path` and rename: a reader sees the old file or the whole new one."""
    fields = {field: getattr(made.states, field) for field in _FIELDS}
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "wb") as file:
            np.savez_compressed(
                file,
                **fields,
                **identity,
                random_returns=np.array(made.random_returns, np.float64),
                limits=np.array(made.limits, np.float64),
            )
        os.replace(part, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        _logger.warning("%s can't be written (%s): going on without the file", path, error)
