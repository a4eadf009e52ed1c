"""A saved agent and sequence, in new objects, go on bit for bit: inside an epoch, at its end, from files alone."""

import functools
import tempfile
import zipfile
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from feeding_worlds import cartpole_sequence

from dqn_lab.agents.agent import Agent
from dqn_lab.agents.dqn import DQN
from dqn_lab.environments.catch import Catch
from dqn_lab.models.networks import mlp
from dqn_lab.optimizers import make_optimizer
from dqn_lab.saved_state import read_state, write_state
from dqn_lab.sequences.environment import EnvironmentSequence

EPOCHS, UPDATES = 3, 10
SAVED = (0, 3, 9, 10, 22)  # updates made then: at borders of epochs, before an epoch's last one, and inside
worlds = pytest.mark.parametrize(("world", "feeding"), [("cartpole", "alternate"), ("cartpole", "overlap")])


def make_sequence(world, feeding, seed):
    if world == "cartpole":
        return cartpole_sequence(feeding, seed=seed, replay_compression="lz4")
    return EnvironmentSequence(
        Catch,
        feeding=feeding,
        seed=seed,
        num_envs=2,
        train_period_steps=2,
        replay_capacity_steps=60,
        replay_min_steps=30,
        updates_per_epoch=UPDATES,
        batch_size=8,
        n_step=3,
        epsilon=0.3,
    )


def make_agent(sequence, seed, optimizer=None):
    network = mlp(sequence.state_shape, sequence.num_actions, hidden=(8,), seed=seed)
    agent = DQN(network, double=True, target_period_updates=7, gradient_clip=1.0)
    agent.compile(keras.optimizers.Adam(0.03) if optimizer is None else optimizer)
    return agent


class Figures(keras.callbacks.Callback):
    """Keeps what every callback sees: each update's and each epoch's logs and means."""

    def __init__(self):
        super().__init__()
        self.seen = {}

    def on_train_batch_end(self, batch, logs=None):
        means = [float(metric.result()) for metric in self.model.metrics]
        self.seen["update", self.model.updates] = dict(logs), means

    def on_epoch_end(self, epoch, logs=None):
        self.seen["epoch", epoch] = dict(logs)


class SaveBetween(keras.callbacks.Callback):
    """Saves between two updates, and at the end of each epoch."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def on_train_batch_begin(self, batch, logs=None):
        if self.model.updates in SAVED:
            save(self.folder / f"{self.model.updates}", self.model)

    def on_epoch_end(self, epoch, logs=None):
        save(self.folder / f"end of {epoch}", self.model)


def save(folder, agent):
    folder.mkdir()
    agent.save(folder / "agent.keras")
    write_state(folder, "state", {"agent": agent.get_state(), "sequence": agent.sequence.get_state()})


def load(folder, world, feeding):
    sequence = make_sequence(world, feeding, seed=8)
    agent = make_agent(sequence, seed=8)
    agent.restore(folder / "agent.keras")
    state = read_state(folder, "state")
    agent.set_state(state["agent"]), sequence.set_state(state["sequence"])
    return agent, sequence


def result(agent, sequence, figures):
    """All that a later update could depend on, and all that was seen."""
    return {
        "variables": [variable.numpy() for variable in agent.variables],
        "optimizer": [variable.numpy() for variable in agent.optimizer.variables],
        "metrics": agent.get_state(),
        "sequence": sequence.get_state() | {"seconds": None},
        "figures": figures.seen,
    }


@functools.cache
def whole_run(world, feeding, saves=True):
    """An uninterrupted run; returns its result and where it saved."""
    folder = tempfile.TemporaryDirectory()
    sequence, figures = make_sequence(world, feeding, seed=1), Figures()
    agent = make_agent(sequence, seed=1)
    saving = [SaveBetween(Path(folder.name))] if saves else []
    agent.fit(sequence, epochs=EPOCHS, verbose=0, log_period_updates=4, callbacks=[figures, *saving])
    return result(agent, sequence, figures), folder


def assert_goes_on(whole, agent, sequence, figures):
    other = result(agent, sequence, figures)
    later = {key: value for key, value in whole["figures"].items() if key in other["figures"]}
    np.testing.assert_equal(other, whole | {"figures": later})


def go_on(agent, sequence, made, figures):
    """Makes the rest of an epoch that was broken off, then the others."""
    fit = functools.partial(agent.fit, sequence, verbose=0, log_period_updates=4, callbacks=[figures])
    epoch, done = divmod(made, UPDATES)
    if done:
        fit(initial_epoch=epoch, epochs=epoch + 1, epoch_updates=UPDATES - done)
        epoch += 1
    fit(initial_epoch=epoch, epochs=EPOCHS)


CASES = [
    *[("cartpole", "alternate", made) for made in (3, 10)],
    *[("cartpole", "overlap", made) for made in (0, 9, 22)],
    ("catch", "overlap", 22),  # its ring wraps
    ("catch", "alternate", 9),
]


@pytest.mark.parametrize(("world", "feeding", "made"), CASES)
def test_a_run_goes_on_bit_for_bit_from_files_between_any_two_updates(world, feeding, made):
    whole, folder = whole_run(world, feeding)
    agent, sequence = load(Path(folder.name) / f"{made}", world, feeding)
    figures = Figures()
    go_on(agent, sequence, made, figures)
    assert_goes_on(whole, agent, sequence, figures)
    assert [key for key in figures.seen if key[0] == "update"] == [("update", n) for n in range(made + 1, 31)]
    assert ("epoch", made // UPDATES) in figures.seen


@worlds
def test_a_run_goes_on_bit_for_bit_after_an_epochs_end_that_is_made_good(world, feeding):
    whole, folder = whole_run(world, feeding)
    agent, sequence = load(Path(folder.name) / "end of 1", world, feeding)
    figures = Figures()
    agent.finish_epoch(sequence, 1, [figures])
    assert figures.seen == {("epoch", 1): whole["figures"]["epoch", 1]}
    go_on(agent, sequence, 2 * UPDATES, figures)
    assert_goes_on(whole, agent, sequence, figures)


@worlds
def test_saving_between_updates_changes_nothing(world, feeding):
    np.testing.assert_equal(whole_run(world, feeding)[0], whole_run(world, feeding, saves=False)[0])


@worlds
def test_a_state_within_a_fit_has_the_batch_that_is_made_ahead(world, feeding):
    _, folder = whole_run(world, feeding)
    states = {made: read_state(Path(folder.name) / f"{made}", "state")["sequence"] for made in SAVED}
    ahead = {made for made, state in states.items() if state["carried"] is not None}
    assert ahead == ({3, 9, 22} if feeding == "overlap" else set())
    assert {made: state["batches"] - made for made, state in states.items()} == {n: int(n in ahead) for n in SAVED}


# The end of an epoch alone.


class Tape(keras.callbacks.Callback):
    """Keeps the order of calls, and asks for the end where it is told to."""

    def __init__(self, stops=False):
        super().__init__()
        self.calls, self.stops = [], stops

    def on_train_begin(self, logs=None):
        self.calls.append(("on_train_begin", self.model.sequence.epoch_complete, len(self.model.fit_callbacks)))

    def on_epoch_begin(self, epoch, logs=None):
        self.calls.append(("on_epoch_begin", epoch))

    def on_epoch_end(self, epoch, logs=None):
        self.calls.append(("on_epoch_end", epoch, {name: type(value) for name, value in logs.items()}))
        self.model.stop_training = self.stops

    def on_train_end(self, logs=None):
        self.calls.append(("on_train_end", sorted(logs)))


@pytest.mark.parametrize("stops", [True, False])
def test_an_epochs_end_alone_calls_the_callbacks_as_a_fit_would(stops):
    sequence = cartpole_sequence()
    agent, tape = make_agent(sequence, seed=1), Tape(stops)
    agent.fit(sequence, verbose=0)
    sequence.epoch_complete = False
    agent.stop_training = not stops
    before = agent.get_state()
    agent.finish_epoch(sequence, 4, [tape])
    assert tape.calls == [
        ("on_train_begin", True, 1),
        ("on_epoch_begin", 4),
        ("on_epoch_end", 4, {"loss": float, "q_mean": float}),
        ("on_train_end", ["loss", "q_mean"]),
    ]
    assert agent.stop_training == stops
    np.testing.assert_equal(agent.get_state(), before)
    assert (agent.updates, sequence.batches) == (10, 10)


# Means of an epoch.


def test_means_go_on_once_and_begin_anew_with_the_next_epoch():
    sequence = cartpole_sequence()
    agent, other = make_agent(sequence, seed=1), make_agent(sequence, seed=1)
    agent.loss_mean.update_state(4.0)
    agent._in_epoch = True
    other.set_state(agent.get_state())
    other.reset_metrics()
    assert float(other.loss_mean.result()) == 4.0
    other.reset_metrics()
    assert float(other.loss_mean.result()) == 0.0


class WithOwnMetric(DQN):
    def __init__(self, network, **kwargs):
        super().__init__(network, **kwargs)
        self.largest = keras.metrics.Mean(name="largest")

    def train_step(self, batch):
        self.largest.update_state(tf.reduce_max(batch["reward"]))
        return super().train_step(batch)


def test_a_users_own_metrics_belong_to_the_state(tmp_path):
    sequence = cartpole_sequence()
    agents = [WithOwnMetric(mlp((4,), 2, hidden=(4,)), target_period_updates=None) for _ in range(2)]
    agents[0].largest.update_state(3.0), agents[0].largest.update_state(4.0)
    write_state(tmp_path, "agent", agents[0].get_state())
    agents[1].set_state(read_state(tmp_path, "agent"))
    assert float(agents[1].largest.result()) == 3.5
    with pytest.raises(ValueError, match=r"whose metrics and seeds have shapes \[.*\]\. Received: \["):
        make_agent(sequence, seed=1).set_state(agents[0].get_state())


@pytest.mark.parametrize("missing", ["variables", "logs", "in_epoch"])
def test_an_agents_state_with_something_missing_is_refused(missing):
    agent = make_agent(cartpole_sequence(), seed=1)
    state = agent.get_state()
    del state[missing]
    with pytest.raises(ValueError, match=f"An agent's state must be .* Received: no {missing}$"):
        agent.set_state(state)


def test_what_is_no_state_is_refused():
    with pytest.raises(ValueError, match="Received: no variables, logs, in_epoch"):
        make_agent(cartpole_sequence(), seed=1).set_state(None)


# An agent's file.


class WithExtras(DQN):
    """Has a weight of its own that moves with each update."""

    def __init__(self, network, **kwargs):
        super().__init__(network, **kwargs)
        self.extra = self.add_weight(shape=(3,), initializer="zeros", trainable=False, name="extra")

    def train_step(self, batch):
        self.extra.assign_add(tf.ones(3))
        return super().train_step(batch)


def dropout_network(seed):
    keras.utils.set_random_seed(seed)
    state = keras.Input((4,))
    hidden = keras.layers.Dropout(0.4)(keras.layers.Dense(6, activation="relu")(state))
    return keras.Model(state, keras.layers.Dense(2)(keras.layers.BatchNormalization()(hidden)))


def low_precision_network(dtype):
    def make(seed):
        state = keras.Input((4,))
        hidden = keras.layers.Dense(6, dtype=dtype, activation="relu")(state)
        return keras.Model(state, keras.layers.Dense(2, dtype=keras.DTypePolicy(dtype))(hidden))

    return make


def plain_network(seed):
    return mlp((4,), 2, hidden=(6,), seed=seed)


@pytest.mark.parametrize(
    ("network", "optimizer", "settings"),
    [
        (plain_network, "adam", {"target_period_updates": 3, "double": True}),
        (plain_network, "rmsprop_centered", {"target_period_updates": 4, "gradient_clip": 0.5}),
        (plain_network, "sgd", {"target_period_updates": None}),
        (dropout_network, "adam", {"target_period_updates": 3}),
        (low_precision_network("mixed_float16"), "adam", {"target_period_updates": 3}),
        (low_precision_network("mixed_bfloat16"), "rmsprop_centered", {"target_period_updates": 3}),
    ],
)
def test_an_agent_goes_on_bit_for_bit_from_its_file(network, optimizer, settings, tmp_path):
    def agent_and_sequence(seed):
        agent = WithExtras(network(seed), **settings)
        agent.compile(make_optimizer(optimizer, 0.02, batch_size=8))
        return agent, cartpole_sequence(updates_per_epoch=5)

    agent, sequence = agent_and_sequence(1)
    agent.fit(sequence, verbose=0)
    agent.save(tmp_path / "agent.keras")
    other, twin = agent_and_sequence(2)
    other.restore(tmp_path / "agent.keras")
    other.set_state(agent.get_state()), twin.set_state(sequence.get_state())
    np.testing.assert_equal(_variables(other), _variables(agent))
    for one, its in ((agent, sequence), (other, twin)):
        one.fit(its, verbose=0)
    np.testing.assert_equal(_variables(other), _variables(agent))
    assert other.updates == 10
    assert other.extra.numpy().tolist() == [10.0] * 3


def _variables(agent):
    every = [*agent.variables, *agent.optimizer.variables]
    return [(variable.dtype, variable.numpy()) for variable in every]


@pytest.fixture(scope="module")
def agent_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("agent") / "agent.keras"
    agent = make_agent(cartpole_sequence(), seed=1)
    agent.save(path)
    return path


@pytest.mark.parametrize(
    ("hidden", "optimizer", "text"),
    [
        (
            (9,),
            "adam",
            r"here float32\[4, 9\] for hidden_1 \(layers.*\)\. Received: float32\[4, 8\] in .*agent\.keras$",
        ),
        ((8, 8), "adam", r"here float32\[8, 8\] for hidden_2 \(.*\)\. Received: float32\[8, 2\] in "),
        ((8,), "sgd", r"here none for optimizer/vars/2\. Received: float32\[4, 8\] in "),
        (
            (8,),
            "rmsprop_centered",
            r"here float32\[8\] for rm_sprop\S* \(optimizer/vars/3\)\. Received: float32\[4, 8\] in ",
        ),
    ],
)
def test_a_file_of_another_agent_is_refused_and_changes_nothing(hidden, optimizer, text, agent_file):
    agent = DQN(mlp((4,), 2, hidden=hidden), double=True, target_period_updates=7)
    agent.compile(make_optimizer(optimizer, 0.03, batch_size=8))
    before = _variables(agent)
    with pytest.raises(ValueError, match=text) as raised:
        agent.restore(agent_file)
    assert "\n" not in str(raised.value)
    np.testing.assert_equal(_variables(agent), before)


def test_a_file_without_a_target_network_is_refused_by_an_agent_with_one(tmp_path):
    agents = [DQN(plain_network(1), target_period_updates=period) for period in (None, 3)]
    for agent in agents:
        agent.compile("sgd")
    agents[0].save(tmp_path / "agent.keras")
    with pytest.raises(ValueError, match=r"hidden_1 \(layers/functional_1/.*Received: none in "):
        agents[1].restore(tmp_path / "agent.keras")


def _flipped(data):
    with zipfile.ZipFile(data) as archive:
        at = archive.getinfo("model.weights.h5").header_offset + 5_000
    content = bytearray(data.read_bytes())
    content[at] ^= 1
    return bytes(content)


@pytest.mark.parametrize(
    "damage",
    [_flipped, lambda path: path.read_bytes()[:-200], lambda path: b"", lambda path: b"PK\3\4 no archive"],
    ids=["a bit", "cut", "empty", "another file"],
)
def test_a_damaged_file_is_refused_and_changes_nothing(damage, agent_file, tmp_path):
    path = tmp_path / "agent.keras"
    path.write_bytes(damage(agent_file))
    agent = make_agent(cartpole_sequence(), seed=2)
    before = _variables(agent)
    with pytest.raises(ValueError, match=r"^A saved agent is a \.keras file as it was written\. Received: .*agent"):
        agent.restore(path)
    np.testing.assert_equal(_variables(agent), before)


def test_a_file_that_is_missing_or_holds_no_weights_is_refused(tmp_path):
    agent = make_agent(cartpole_sequence(), seed=2)
    with pytest.raises(ValueError, match=r"\.keras file as it was written.*No such file"):
        agent.restore(tmp_path / "agent.keras")
    with zipfile.ZipFile(tmp_path / "agent.keras", "w") as archive:
        archive.writestr("config.json", "{}")
    with pytest.raises(ValueError, match=r"\.keras file as it was written.*model\.weights\.h5"):
        agent.restore(tmp_path / "agent.keras")


def test_no_code_of_a_file_runs(agent_file, monkeypatch):
    monkeypatch.setattr(Agent, "from_config", lambda *_: 1 / 0)
    monkeypatch.setattr(keras.saving, "deserialize_keras_object", lambda *_: 1 / 0)
    agent = make_agent(cartpole_sequence(), seed=2)
    agent.restore(agent_file)
    assert agent.updates == 0
