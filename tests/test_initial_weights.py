"""Initial weights: taken from a run or a file, or refused in a line that leaves the network as it was."""

import shutil

import keras
import numpy as np
import pytest
import toy_rundef

from dqn_lab import DQN
from dqn_lab.checkpoint import save_agent
from dqn_lab.initial_weights import load_initial_weights
from dqn_lab.models.networks import mlp


def network(actions=3, state=(4,), hidden=(6, 6), seed=1, dueling=True):
    return mlp(state, actions, hidden=hidden, dueling=dueling, seed=seed)


def make_agent(seed):
    agent = DQN(network(seed=seed), target_period_updates=5)
    agent.compile(optimizer="adam")
    return agent


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one.get_weights(), other.get_weights(), strict=True))


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Name of a source -> its path, and the seed of the network that is in it."""
    folder = tmp_path_factory.mktemp("sources")
    run, unevaluated = folder / "run", folder / "unevaluated"
    for directory in (run, unevaluated):
        directory.mkdir()
        (directory / "config.json").write_text("{}")
        for steps, seed in ((90, 2), (100, 3)):
            save_agent(directory / "checkpoints" / str(steps), make_agent(seed), {})
    save_agent(run / "best", make_agent(4), {"steps": 2800, "eval_return_mean": 11.0})
    make_agent(5).save(folder / "agent.keras")
    network(seed=6).save(folder / "network.keras")
    network(seed=7).save_weights(folder / "own.weights.h5")
    return {
        "best of a run": (run, 4),
        "newest of a run": (unevaluated, 3),
        "agent": (folder / "agent.keras", 5),
        "network": (folder / "network.keras", 6),
        "weights": (folder / "own.weights.h5", 7),
    }


@pytest.mark.parametrize("name", ["best of a run", "newest of a run", "agent", "network", "weights"])
def test_a_network_gets_the_weights_of_a_source(sources, name, caplog):
    path, seed = sources[name]
    own = network()
    caplog.set_level("INFO", "dqn_lab")
    load_initial_weights(own, str(path))
    told = {
        "best of a run": f"{path}, its best at 2,800 steps, mean return 11",
        "newest of a run": f"{path}, update 0, which no evaluation judged",
    }
    assert f"the network begins with the weights of {told.get(name, path)}\n" in caplog.text
    assert same(own, network(seed=seed))
    assert not same(own, network())


def test_layers_are_matched_by_their_place_whatever_their_names(tmp_path):
    layers = [keras.layers.Dense(6, name="a"), keras.layers.Dense(3, name="b")]
    keras.Sequential([keras.Input((4,)), *layers]).save(tmp_path / "other.keras")
    own = network(hidden=(6,), dueling=False)
    load_initial_weights(own, str(tmp_path / "other.keras"))
    assert np.array_equal(own.get_weights()[0], layers[0].kernel.numpy())


@pytest.mark.parametrize("name", ["agent", "weights"])
@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"actions": 4}, r"'advantage' has weights of shape \(6, 4\), in `initial_weights` \(6, 3\)"),
        ({"state": (5,)}, r"'hidden_1' has weights of shape \(5, 6\), in `initial_weights` \(4, 6\)"),
        ({"hidden": (6,)}, r"has weights of shape \(6, 3\), in `initial_weights` \(6, 6\)"),
        ({"hidden": (6, 6, 6)}, r"has weights of shape \(6, 6\), in `initial_weights` \(6, 3\)"),
        ({"dueling": False}, r"'hidden_2' has weights of shape none, in `initial_weights` \(6, 6\)"),
    ],
)
def test_a_misfit_is_refused_naming_the_first_layer_and_both_shapes(sources, name, other, said):
    own, path = network(**other), str(sources[name][0])
    with pytest.raises(
        ValueError, match=f"must fit the network: layer .*{said}. Received: initial_weights="
    ) as refusal:
        load_initial_weights(own, path)
    assert "\n" not in str(refusal.value)
    assert path in str(refusal.value)
    assert same(own, network(**other))


def test_the_first_of_many_layers_is_the_first_of_the_network(tmp_path):
    other = network(hidden=(2, 2, 3, 2, 2, 2, 2, 2, 2, 2, 3), dueling=False)
    other.save_weights(tmp_path / "other.weights.h5")
    with pytest.raises(ValueError, match=r"layer 'hidden_3' has weights of shape \(2, 2\), in .* \(2, 3\)"):
        load_initial_weights(network(hidden=(2,) * 11, dueling=False), str(tmp_path / "other.weights.h5"))


def test_weights_that_only_one_side_has_are_a_misfit(tmp_path):
    one = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, name="values")])
    two = keras.Sequential([keras.Input((2,)), *one.layers, keras.layers.Dense(2, name="more")])
    one.save_weights(tmp_path / "one.weights.h5")
    two.save_weights(tmp_path / "two.weights.h5")
    with pytest.raises(ValueError, match=r"'more' has weights of shape \(2, 2\), in `initial_weights` none"):
        load_initial_weights(two, str(tmp_path / "one.weights.h5"))
    with pytest.raises(ValueError, match=r"'more' has weights of shape none, in `initial_weights` \(2, 2\)"):
        load_initial_weights(one, str(tmp_path / "two.weights.h5"))


def truncated(path, folder):
    copy = shutil.copy(path, folder)
    with open(copy, "r+b") as file:
        file.truncate(path.stat().st_size // 2)
    return copy


def flipped(path, folder):
    copy = shutil.copytree(path, folder / "run")
    damaged = copy / "best" / "agent.keras"
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    return copy


def text(path, folder):
    copy = folder / path.name
    copy.write_text("no weights")
    return copy


class Unregistered(keras.layers.Layer):
    """Nobody who loads a file with it knows what it is."""


def unknown(path, folder):
    keras.Sequential([keras.Input((4,)), Unregistered()]).save(folder / "unknown.keras")
    return folder / "unknown.keras"


def agents_weights(path, folder):
    make_agent(1).save_weights(folder / "agent.weights.h5")
    return folder / "agent.weights.h5"


@pytest.mark.parametrize(
    ("name", "make", "said"),
    [
        ("agent", truncated, "can't be read: "),
        ("weights", truncated, "can't be read: .*truncated"),
        ("best of a run", flipped, "can't be read: agent.keras isn't the file that was saved"),
        ("agent", text, "can't be read: "),
        ("weights", text, "can't be read: .*signature"),
        ("network", unknown, "can't be read: .* could not be deserialized"),
        ("weights", agents_weights, "must fit the network: layer 'hidden_1' .* none"),
        ("agent", lambda path, folder: folder / "none.keras", "can't be read: .*none.keras"),
        ("agent", lambda path, folder: folder / "none.weights.h5", "can't be read: .*[Nn]o such file"),
        ("agent", lambda path, folder: folder / "nowhere", "can't be read: it is no run directory, .keras file or"),
        ("agent", lambda path, folder: folder, "can't be read: A run directory has a config.json"),
    ],
)
def test_what_is_no_source_or_damaged_is_refused_in_one_line(sources, tmp_path, name, make, said):
    own, path = network(), str(make(sources[name][0], tmp_path))
    with pytest.raises(ValueError, match=f"^`initial_weights` {said}.* Received: initial_weights=.") as refusal:
        load_initial_weights(own, path)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 1000
    assert same(own, network())


def test_a_failure_half_way_leaves_the_network_as_it_was(sources, monkeypatch):
    def load_half(model, path):
        model.set_weights([0 * each for each in model.get_weights()])
        raise OSError("Can't read data")

    monkeypatch.setattr(keras.Model, "load_weights", load_half)
    own = network()
    with pytest.raises(ValueError, match="can't be read: Can't read data. Received"):
        load_initial_weights(own, str(sources["weights"][0]))
    assert same(own, network())


def test_a_new_runs_network_and_target_network_begin_with_them(tmp_path):
    given = toy_rundef.run(seed=1).agent.network
    given.save_weights(tmp_path / "given.weights.h5")
    agent = toy_rundef.run(initial_weights=str(tmp_path / "given.weights.h5")).agent
    assert same(agent.network, given)
    assert same(agent.target_network, given)
    with pytest.raises(ValueError, match="initial_weights='nowhere'"):
        toy_rundef.run(initial_weights="nowhere")
