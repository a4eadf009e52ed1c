"""The saves that a run's agent can be loaded from, by name or by the steps they were made at."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dqn_lab.checkpoint import complete_checkpoints, find_complete, read_agent, read_manifest

_WEIGHTS = ".weights.h5"
_logger = logging.getLogger("dqn_lab")


@dataclass(frozen=True)
class Snapshot:
    """One save of a run's agent.

    Args:
        which: what `load_agent` takes for it: "best", or its steps as text.
        steps: agent steps of the run when it was made.
        path: a checkpoint's directory, or a file of weights.
    """

    which: str
    steps: int
    path: Path


def load_agent(run_directory: str | Path, which: str | int = "best"):
    """Loads a run's agent, for inference or anything else that a Keras model does.

    Args:
        run_directory: of a run, such as runs/catch-seed0.
        which: "best" for that of the best evaluation, "latest" for that of the newest checkpoint, or the steps of one
            that was kept (50_000 or "50000"). Of weights/ (`keep_weights=all`) the network's weights alone are
            those of these steps; updates, optimizer and target network are of another checkpoint.

    Returns:
        The agent: `agent.act(states)`, `agent.q_values(states)`, `agent.network`.

    Raises:
        ValueError: there is no such save in the directory, or it isn't as it was written.

    Example:

    >>> agent = dqn_lab.load_agent("runs/catch-seed0")
    >>> agent.act(states)  # [B, ...] -> [B]
    """
    return load_snapshot(run_directory, which)[0]


def load_snapshot(run_directory: str | Path, which: str | int = "best"):
    """As `load_agent`; where the newest checkpoint is damaged, "latest" is the one before it.

    Returns:
        The agent, and the `Snapshot` that it was loaded from.
    """
    snapshot = find_snapshot(run_directory, which)
    if which == "latest":
        return _read_first(reversed(_checkpoints(run_directory)))
    if not snapshot.path.name.endswith(_WEIGHTS):
        return read_agent(snapshot.path), snapshot
    best = _best(run_directory)
    others = [*([best] if best else []), *reversed(_checkpoints(run_directory))]
    if not others:
        raise ValueError(f"weights/ needs a checkpoint of the run that has its network. Received: which={which!r}")
    agent, _ = _read_first(others)
    try:
        agent.network.load_weights(snapshot.path)
    except Exception as error:  # whatever a file is that isn't what it should be
        said = " ".join(str(error).split())[:200]
        raise ValueError(
            f"{snapshot.path.name} isn't weights of this run's network ({said}). Received: {which}"
        ) from error
    return agent, snapshot


def find_snapshot(run_directory: str | Path, which: str | int) -> Snapshot:
    """Finds the save that `which` names, its files unread; arguments and errors as `load_agent`."""
    _check_directory(run_directory)
    if which == "latest":
        found = _checkpoints(run_directory)
        if not found:
            raise ValueError(f"This run has saved no checkpoint. Received: run_directory={str(run_directory)!r}")
        return found[-1]
    if which == "best":
        best = _best(run_directory)
        if best is None:
            raise ValueError(
                "No evaluation of this run has been saved as its best; which='latest' loads its newest checkpoint. "
                f"Received: run_directory={str(run_directory)!r}"
            )
        return best
    return _find_steps(run_directory, which)


def kept_snapshots(run_directory: str | Path) -> list[Snapshot]:
    """Lists best/, weights/ and checkpoints/, one save for each count of steps, ascending; files are unread.

    Raises:
        ValueError: it is no run directory.
    """
    _check_directory(run_directory)
    best = _best(run_directory)
    # What comes later goes first: a checkpoint of a run that goes on may soon be removed.
    saves = [*_checkpoints(run_directory), *_weights(run_directory), *([best] if best else [])]
    return [snapshot for _, snapshot in sorted({one.steps: one for one in saves}.items())]


def _find_steps(run_directory: str | Path, which: str | int) -> Snapshot:
    text = str(which).replace("_", "")
    if isinstance(which, bool) or not text.isdecimal():
        raise ValueError(f"`which` must be best, latest or the steps of a kept save. Received: which={which!r}")
    steps = int(text)
    # A checkpoint is the whole agent.
    for save in (*_checkpoints(run_directory), *_weights(run_directory), *kept_snapshots(run_directory)):
        if save.steps == steps:
            return save
    kept = ", ".join(str(one.steps) for one in kept_snapshots(run_directory)) or "none"
    raise ValueError(f"Nothing was kept at {steps} steps; kept: {kept}. Received: which={which!r}")


def _check_directory(run_directory: str | Path) -> None:
    if not (Path(run_directory) / "config.json").is_file():
        raise ValueError(f"A run directory has a config.json. Received: run_directory={str(run_directory)!r}")


def _best(run_directory: str | Path) -> Snapshot | None:
    path = find_complete(Path(run_directory) / "best")
    return None if path is None else Snapshot("best", int(read_manifest(path)["counters"].get("steps", 0)), path)


def _checkpoints(run_directory: str | Path) -> list[Snapshot]:
    found = complete_checkpoints(Path(run_directory) / "checkpoints")
    return [Snapshot(path.name, int(path.name), path) for path in found]


def _weights(run_directory: str | Path) -> list[Snapshot]:
    found = {path: path.name.removesuffix(_WEIGHTS) for path in (Path(run_directory) / "weights").glob(f"*{_WEIGHTS}")}
    return [Snapshot(name, int(name), path) for path, name in found.items() if name.isdecimal()]


def _read_first(snapshots: Iterable[Snapshot]):
    """The agent of the first that can be read, and which that is."""
    *others, last = snapshots
    for snapshot in others:
        try:
            return read_agent(snapshot.path), snapshot
        except ValueError as error:
            _logger.warning("%s; an older checkpoint is loaded", error)
    return read_agent(last.path), last
