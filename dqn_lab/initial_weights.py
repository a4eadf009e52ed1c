"""Initial weights of a new run, read from another run or a file."""

from __future__ import annotations

import logging
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dqn_lab.checkpoint import find_complete, load_model, read_manifest
from dqn_lab.snapshots import load_agent

_logger = logging.getLogger("dqn_lab")


def load_initial_weights(network, source: str) -> None:
    """Gives a network the weights of another one of the same shape.

    Args:
        network: a built Keras model.
        source: a run directory (the agent of its best evaluation, else of its newest checkpoint), a `.keras` file (an
            agent, or any Keras network), or a network's `.weights.h5`.

    Raises:
        ValueError: it is none of these, is damaged, or doesn't fit the network, which is as it was then.
    """
    with tempfile.TemporaryDirectory() as folder:
        own, given = Path(folder, "own.weights.h5"), Path(folder, "given.weights.h5")
        network.save_weights(own)
        with _told_in_a_line(source):
            given, told = _weights_file(Path(source), given)
            found = _shapes(given)
        _check_fit(_shapes(own), found, source)
        before = network.get_weights()
        try:
            with _told_in_a_line(source):
                network.load_weights(given)
        except ValueError:
            network.set_weights(before)
            raise
    _logger.info("the network begins with the weights of %s", told)


def _weights_file(path: Path, written: Path) -> tuple[Path, str]:
    """The source itself if it is a file of weights, or `written` with those of its network; and its words."""
    told = str(path)
    if path.name.endswith(".weights.h5"):
        return path, told
    if path.suffix == ".keras":
        model = load_model(path, compile=False)
    elif path.is_dir():
        best = find_complete(path / "best")
        model = load_agent(path, "best" if best else "latest")
        told = f"{path}, {_describe_best(best) if best else f'update {model.updates:,}, which no evaluation judged'}"
    else:
        raise ValueError("it is no run directory, .keras file or .weights.h5 file")
    getattr(model, "network", model).save_weights(written)  # an agent's network, or the model itself
    return written, told


def _describe_best(best: Path) -> str:
    counters = read_manifest(best)["counters"]
    score = counters.get("eval_return_mean")
    return f"its best at {counters['steps']:,} steps" + ("" if score is None else f", mean return {score:.4g}")


@contextmanager
def _told_in_a_line(source: str) -> Iterator[None]:
    """Whatever is raised by a file that isn't what it should be."""
    try:
        yield
    except Exception as error:
        text = " ".join(str(error).split())[:300]  # Keras goes on with whole configurations
        raise ValueError(
            f"`initial_weights` can't be read: {text or type(error).__name__}. Received: initial_weights={source!r}"
        ) from error


def _shapes(weights_file: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Where each weight is in a `.weights.h5` -> its layer's name and its shape."""
    import h5py

    found = {}

    def visit(place: str, item) -> None:
        if isinstance(item, h5py.Dataset):
            found[place] = str(item.parent.attrs.get("name", item.parent.name)), item.shape

    with h5py.File(weights_file) as file:
        file.visititems(visit)
    return found


def _check_fit(own: dict, given: dict, source: str) -> None:
    for place in sorted({**own, **given}, key=_in_order):
        (layer, shape), (other_layer, other) = own.get(place, ("", "none")), given.get(place, ("", "none"))
        if shape != other:
            raise ValueError(
                f"`initial_weights` must fit the network: layer {layer or other_layer!r} has weights of shape {shape}, "
                f"in `initial_weights` {other}. Received: initial_weights={source!r}"
            )


def _in_order(place: str) -> list:
    """Sorts dense_10 after dense_9, as the layers stand."""
    return [(int(word), "") if word.isdigit() else (-1, word) for word in re.findall(r"\d+|\D+", place)]
