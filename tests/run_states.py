"""All that a run directory holds, read back through the real code, to be compared with another's by name."""

import csv
import hashlib
import io
import re
import shutil
import tempfile
import zipfile
from pathlib import Path

import h5py
import numpy as np
import tensorflow as tf
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

from dqn_lab.checkpoint import AGENT, check_checkpoint, complete_checkpoints
from dqn_lab.replay_checkpoints import ReplayCheckpoints
from dqn_lab.run_directory import RunDirectory
from dqn_lab.saved_run import _load_rundef, _resolve
from dqn_lab.saved_state import read_state

# What a clock decides, and how long files are whose rows hold such figures.
_TIME = re.compile(r"(^|\.)(minutes|seconds|elapsed|\w+_per_second|time_\w+)(\.|$)|^saved\.curves\.")
_TAGS_OF_TIME = {
    "time/minutes",
    "time/fps",
    "time/updates_per_second",
    "time/acting",
    "time/environment",
    "time/sampling",
    "time/update",
}
_PLUGINS = {"scalars", "histograms", "images"}


def everything(run_directory: Path, actions: int = 1000) -> dict[str, object]:
    """All that runs are compared by: the newest checkpoint and what follows from it, the curves, the other saves."""
    folder = Path(run_directory)
    parts = {"row": rows(folder), "point": points(folder), "best": _best(folder), "weights": _weights(folder)}
    return final_state(folder, actions) | {
        f"{kind} {name}": value for kind, part in parts.items() for name, value in part.items()
    }


def names_differing(one: dict, other: dict) -> list[str]:
    """Keys that only one of two dicts has, or that have other values."""
    missing = object()
    return [name for name in one | other if one.get(name, missing) != other.get(name, missing)]


def final_state(run_directory: Path, actions: int = 1000) -> dict[str, object]:
    """The state of a run's newest checkpoint, and what comes of it, as values or hashes by name.

    Args:
        run_directory: is copied first, and stays as it is.
        actions: that are taken from there on by the agent's values.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(run_directory, Path(folder) / "run"))
        newest = complete_checkpoints(copy / "checkpoints")[-1]
        run = restored(copy)
        found = flat("saved", read_state(newest, "state")) | _state_of(run)
        found["minibatch"] = digest(*run.sequence[0].values())
        return found | flat("next actions", _act(run, actions)) | {f"then {k}": v for k, v in _state_of(run).items()}


def rows(run_directory: Path) -> dict[str, str]:
    """The cells of progress.csv, without the columns of time, by line and column."""
    with open(Path(run_directory) / "progress.csv", newline="", encoding="utf-8") as stream:
        cells = {
            f"{n} {name}": value for n, line in enumerate(csv.DictReader(stream), 1) for name, value in line.items()
        }
    return {name: value for name, value in cells.items() if not _TIME.search(name.partition(" ")[2])}


def points(run_directory: Path) -> dict[str, list]:
    """All curves, histograms and pictures of TensorBoard, without those of time, by tag and step, in whatever file."""
    found: dict[str, list] = {}
    for path in sorted(Path(run_directory).glob("events.out.tfevents.*")):
        for event in EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                if value.tag in _TAGS_OF_TIME or value.metadata.plugin_data.plugin_name not in _PLUGINS:
                    continue
                content = tf.make_ndarray(value.tensor)
                point = (
                    content.item() if content.ndim == 0 else digest(np.array(content.tolist()))
                )  # pictures' bytes too
                found.setdefault(f"{value.tag} at {event.step}", []).append(point)
    return found


def _best(run_directory: Path) -> dict[str, object]:
    """The best agent's variables and counters; empty where there is none."""
    folder = run_directory / "best"
    if not folder.exists():
        return {}
    with zipfile.ZipFile(folder / AGENT) as archive:
        variables = _datasets(io.BytesIO(archive.read("model.weights.h5")))
    return flat("counters", check_checkpoint(folder)["counters"]) | variables


def _weights(run_directory: Path) -> dict[str, str]:
    """What each file of weights/ holds."""
    files = sorted((run_directory / "weights").glob("*"))
    return {f"{file.name} {name}": value for file in files for name, value in _datasets(file).items()}


def _datasets(source) -> dict[str, str]:
    found = {}
    with h5py.File(source, "r") as file:
        file.visititems(lambda path, one: found.update({path: digest(one)} if isinstance(one, h5py.Dataset) else {}))
    return found


def flat(name: str, state) -> dict[str, object]:
    """A nested state as one dict, without what a clock decides; arrays and bytes as hashes."""
    if _TIME.search(name):
        return {}
    if isinstance(state, dict):
        return {k: v for key, each in state.items() for k, v in flat(f"{name}.{key}", each).items()}
    if isinstance(state, list | tuple):
        return {k: v for number, each in enumerate(state) for k, v in flat(f"{name}[{number}]", each).items()}
    if isinstance(state, np.ndarray | bytes):
        return {name: digest(np.frombuffer(state, np.uint8) if isinstance(state, bytes) else state)}
    return {name: repr(state)}  # nan is equal to itself then


def digest(*arrays) -> str:
    """A hash of arrays' values, shapes and dtypes."""
    found = hashlib.sha256()
    for array in map(np.asarray, arrays):
        found.update(f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def restored(directory: Path):
    """Returns the run of a directory, built anew, with its newest checkpoint put back; its curves are cut to that."""
    config = RunDirectory(directory).read_config()
    rundef = _load_rundef(config, directory)
    run = rundef.build(_resolve(rundef, config["arguments"]))
    checkpoints = ReplayCheckpoints(
        RunDirectory(directory),
        run.agent,
        run.sequence,
        {},
        settings=config["settings"],
        minutes=lambda: 0.0,
        keep=run.keep,
    )
    if checkpoints.restore() is None:
        raise ValueError(f"{directory} has no checkpoint")
    return run


def _state_of(run) -> dict[str, object]:
    agent, sequence = run.agent, run.sequence
    variables = {"agent": agent.variables, "optimizer": agent.optimizer.variables}
    named = {  # Keras numbers layers through all that a process makes
        f"{owner}[{number}] {re.sub(r'_[0-9]+', '', variable.path)}": variable.numpy()
        for owner, each in variables.items()
        for number, variable in enumerate(each)
    }
    counts = {"updates": agent.updates, "epsilon": sequence.epsilon, "feeding": sequence.feeding}
    lanes = {name: getattr(sequence.replay.ring, name) for name in ("written", "ending", "final")}
    ring = stored_rows(sequence) | lanes
    return flat("run", {**named, **counts, "sequence": sequence.get_state(replay=False), "ring": ring})


def stored_rows(sequence) -> dict[str, np.ndarray]:
    """The columns of all stored rows, each lane's from the oldest on; where they lie in memory is no matter. [N] each

    Args:
        sequence: whose ring is small enough that all its observations fit into memory.
    """
    ring = sequence.replay.ring
    spans = zip(ring.oldest_position, ring.written, strict=True)
    index = np.concatenate([np.arange(*span) * ring.num_envs + lane for lane, span in enumerate(spans)])
    columns = ("action", "reward", "terminal", "episode_end", "age")
    return {
        "lane": index % ring.num_envs,
        **{name: getattr(ring, name)[ring.slot(index)] for name in columns},
        "observation": sequence.replay.observations(index, 1)[:, 0],
    }


def _act(run, actions: int) -> list:
    """Lets the agent act; returns what it did."""
    sequence, taken = run.sequence, []
    sequence.policy = run.agent.act_values
    for _ in range(0, actions, sequence.num_envs):
        sequence.simulate_single()
        taken.append(np.array(sequence.get_latest_action()))
    return taken
