"""DQN: which values it learns from, which weights it changes, and that it comes back from a file as it was."""

import functools
import inspect
import json
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from feeding_worlds import table_network
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dqn_lab.agents.dqn import DQN


def batch_of(rows, **columns):
    """A minibatch with one state (0, ..., row, ..., 0) = 1 a row, and whole columns to replace."""
    states = np.eye(rows, dtype=np.float32)
    usual = {
        "state": states,
        "action": np.zeros(rows, np.int32),
        "reward": np.zeros(rows, np.float32),
        "discount": np.zeros(rows, np.float32),
        "next_state": states,
        "weight": np.ones(rows, np.float32),
        "index": np.arange(rows, dtype=np.int64),
    }
    given = {key: np.asarray(value, usual[key].dtype) for key, value in columns.items()}
    return {key: tf.constant(value) for key, value in (usual | given).items()}


def tabular(values, *, learning_rate=1.0, target=None, cls=DQN, **settings):
    """An agent whose value of action a in row r's state is `values[r][a]`, and the target network's `target[r][a]`."""
    values = np.asarray(values, np.float32)
    agent = cls(table_network(values, np.zeros(values.shape[1])), **{"target_period_updates": 1_000_000} | settings)
    if target is not None:
        agent.target_network.layers[-1].kernel.assign(target)
    agent.compile(keras.optimizers.SGD(learning_rate), run_eagerly=True)
    agent.optimizer.build(agent.network.trainable_variables)
    return agent


def table(agent):
    """The online values that `tabular` was given, as they are now."""
    return agent.network.layers[-1].kernel.numpy()


# Targets.


@pytest.mark.case("B023")
@pytest.mark.parametrize(("double", "target"), [(True, 3.7), (False, 10.0)])
def test_double_values_the_online_argmax_by_the_target_network(double, target):
    agent = tabular([[1, 5, 2]], target=[[10, 3, 7]], double=double)
    batch = batch_of(1, reward=[1], discount=[0.9])
    value = 1  # of the action taken, by the online network
    assert agent.td_errors(batch).numpy() == pytest.approx([target - value])
    assert float(agent.train_step(batch)["loss"]) == pytest.approx(abs(target - value) - 0.5)


@pytest.mark.case("B016")
def test_only_a_terminal_takes_the_bootstrap_away():
    agent = tabular([[0, 0, 0]] * 3, target=[[4, 10, 7]] * 3, learning_rate=1e-6)
    batch = batch_of(3, reward=[1, 1, 1], discount=[0.99, 0.99, 0])  # running, truncated, terminated
    np.testing.assert_allclose(agent.td_errors(batch), [10.9, 10.9, 1.0], rtol=1e-6)
    assert float(agent.train_step(batch)["loss"]) == pytest.approx((10.4 + 10.4 + 0.5) / 3)


def test_without_a_target_network_the_online_network_bootstraps_and_gets_no_gradient_from_it():
    agent = tabular([[1, 0], [0, 4]], target_period_updates=None)
    assert agent.target_network is None
    batch = batch_of(2, reward=[1, 1], discount=[0.5, 0.5], next_state=np.eye(2)[[1, 1]], weight=[1, 0])
    np.testing.assert_allclose(agent.td_errors(batch), [1 + 0.5 * 4 - 1, 1 + 0.5 * 4 - 0])
    agent.train_step(batch)
    np.testing.assert_allclose(table(agent), [[1 + 1 / 2, 0], [0, 4]])


@pytest.mark.parametrize(("double", "errors"), [(False, [0.5, -2.5, 1.25]), (True, [0.5, -3.5, 1.25])])
def test_td_errors_are_target_minus_prediction_by_hand(double, errors):
    agent = tabular([[1, 2], [3, 1], [0, 0]], target=[[0, 1], [2, 4], [5, 5]], double=double)
    batch = batch_of(
        3, action=[1, 0, 1], reward=[2, -1.5, 1.25], discount=[0.5, 0.5, 0], next_state=np.eye(3)[[0, 1, 2]]
    )
    # Row 0: 2 + 0.5 * 1 - 2. Row 1: -1.5 + 0.5 * 4 (double: 2, of the online argmax 0) - 3. Row 2: 1.25 - 0.
    np.testing.assert_allclose(agent.td_errors({key: value.numpy() for key, value in batch.items()}), errors)


def test_td_errors_change_nothing():
    agent = tabular([[1, 2]], target=[[3, 4]])
    before = [np.array(weight) for weight in agent.get_weights()]
    agent.td_errors(batch_of(1, reward=[5]))
    np.testing.assert_equal([np.array(weight) for weight in agent.get_weights()], before)


@functools.cache
def of_five_rows(double):
    return tabular(np.zeros((5, 3)), double=double)


@pytest.mark.parametrize("double", [False, True])
@given(
    online=arrays(np.float32, (5, 3), elements=st.integers(-8, 8)),
    target=arrays(np.float32, (5, 3), elements=st.integers(-8, 8)),
    seed=st.integers(0, 99),
)
def test_td_errors_equal_a_reference_in_numpy(double, online, target, seed):
    generator = np.random.default_rng(seed)
    action, following = generator.integers(3, size=5), generator.integers(5, size=5)
    reward, discount = generator.integers(-4, 5, 5) / 4, generator.integers(0, 3, 5) / 2
    best = online[following].argmax(axis=1) if double else target[following].argmax(axis=1)
    expected = reward + discount * target[following, best] - online[np.arange(5), action]
    agent = of_five_rows(double)
    agent.network.layers[-1].kernel.assign(online)
    agent.target_network.layers[-1].kernel.assign(target)
    batch = batch_of(5, action=action, reward=reward, discount=discount, next_state=np.eye(5)[following])
    np.testing.assert_allclose(agent.td_errors(batch), expected, atol=1e-5)


# Losses and gradients, through a train step.


@pytest.mark.case("B018")
def test_huber_clips_the_gradient_not_the_error():
    agent = tabular([[0, 0], [0, 0]])
    loss = agent.train_step(batch_of(2, reward=[5, 0.5]))["loss"]
    assert loss == 2.3125  # the mean of 4.5 and 0.125
    np.testing.assert_array_equal(table(agent), [[1 / 2, 0], [0.5 / 2, 0]])  # slopes -1 and -0.5, over two rows


def test_mse_is_the_squared_error():
    agent = tabular([[0, 0], [0, 0]], loss="mse")
    assert agent.train_step(batch_of(2, reward=[3, 0.5]))["loss"] == (9 + 0.25) / 2
    np.testing.assert_array_equal(table(agent), [[2 * 3 / 2, 0], [2 * 0.5 / 2, 0]])


@pytest.mark.case("B026")
@pytest.mark.parametrize("actions", [2, 4, 18])
def test_actions_not_taken_get_no_gradient_and_do_not_dilute_the_loss(actions):
    values = np.arange(actions, dtype=np.float32) * 1.7
    values[1] = 0
    agent = tabular([values])
    assert agent.train_step(batch_of(1, action=[1], reward=[5]))["loss"] == 4.5
    values[1] = 1
    np.testing.assert_array_equal(table(agent), [values])


@pytest.mark.case("B044")
def test_each_rows_loss_is_weighted_before_the_mean():
    agent = tabular([[0.0], [0.0]])
    assert agent.train_step(batch_of(2, reward=[2, 2], weight=[1, 0.5]))["loss"] == 1.125
    np.testing.assert_array_equal(table(agent), [[0.5], [0.25]])


def test_q_mean_is_the_mean_value_of_the_actions_trained_on():
    agent = tabular([[1, 9], [9, 5]], learning_rate=1e-9)
    assert agent.train_step(batch_of(2, action=[0, 1]))["q_mean"] == 3
    assert agent.train_step(batch_of(2, action=[1, 1]))["q_mean"] == 5  # the mean of 1, 5, 9 and 5


# Target network.


@pytest.mark.case("B019")
def test_online_and_target_network_share_no_variable_and_only_a_copy_makes_them_equal():
    network = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(4), keras.layers.BatchNormalization(), keras.layers.Dense(2)]
    )
    agent = DQN(network, target_period_updates=2)
    agent.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    online, target = agent.network.variables, agent.target_network.variables
    assert not {id(variable.value) for variable in online} & {id(variable.value) for variable in target}
    assert agent.trainable_variables == agent.network.trainable_variables
    before = [variable.numpy() for variable in target]
    np.testing.assert_equal([variable.numpy() for variable in online], before)
    batch = batch_of(3, reward=[1, 2, 3])
    agent.update(batch)
    np.testing.assert_equal([variable.numpy() for variable in target], before)
    assert any((variable.numpy() != old).any() for variable, old in zip(online, before, strict=True))
    agent.update(batch)
    np.testing.assert_equal([variable.numpy() for variable in target], [variable.numpy() for variable in online])
    assert agent.target_network.variables == target  # in place: no new variable


@pytest.mark.case("B021")
def test_period_3_copies_after_updates_3_6_and_9_of_10():
    agent = tabular([[0.0, 0.0]], learning_rate=0.01, target_period_updates=3)
    copies, target = [], agent.target_network.layers[-1].kernel.numpy()
    for update in range(1, 11):
        agent.update(batch_of(1, reward=[5]))
        now = agent.target_network.layers[-1].kernel.numpy()
        if (now != target).any():
            np.testing.assert_array_equal(now, table(agent))
            copies.append(update)
        target = now
    assert copies == [3, 6, 9]


@pytest.mark.case("B022")
@pytest.mark.parametrize("batch_size", [1, 32])
def test_a_period_of_10_000_steps_at_4_steps_an_update_copies_every_2_500_updates(batch_size):
    agent = tabular(np.zeros((batch_size, 2)), learning_rate=0.01, target_period_updates=10_000 // 4)
    batch, copies = batch_of(batch_size, reward=[5] * batch_size), []
    for number in (1_249, 2_498, 4_997, 4_998, 7_498, 9_998):  # updates made so far; the two after each are watched
        agent.update_count.assign(number)
        for _ in range(2):
            before = agent.target_network.layers[-1].kernel.numpy()
            agent.update(batch)
            if (agent.target_network.layers[-1].kernel.numpy() != before).any():
                copies.append(4 * agent.updates)
    assert copies == [10_000, 20_000, 30_000, 40_000]


# Arguments and configuration.


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"loss": "hubr"}, ValueError, "`loss` must be one of huber, mse. Received: loss='hubr'"),
        (
            {"double": True, "target_period_updates": None},
            ValueError,
            "Double Q-learning needs a target network. Received: double=True, target_period_updates=None",
        ),
        ({"double": "no"}, TypeError, "`double` must be True or False. Received: double='no'"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(settings, error, text):
    with pytest.raises(error) as raised:
        DQN(table_network([[0, 0]], [0, 0]), **{"target_period_updates": 5} | settings)
    assert str(raised.value) == text


def test_a_configuration_makes_the_same_agent_again_and_stays_as_it_was():
    agent = DQN(
        table_network([[1, 2]], [3, 4]),
        double=True,
        target_period_updates=7,
        gradient_clip=10.0,
        loss="mse",
        name="mine",
    )
    config = agent.get_config()
    text = json.dumps(config)
    again = DQN.from_config(config)
    assert json.dumps(config) == text
    assert json.dumps(again.get_config()) == text
    assert (again.double, again.target_period_updates, again.gradient_clip, again.loss_name, again.name) == (
        True,
        7,
        10.0,
        "mse",
        "mine",
    )
    assert again.network.output_shape == (None, 2)


def test_a_configuration_without_a_target_network():
    agent = DQN.from_config(DQN(table_network([[1, 2]], [3, 4]), target_period_updates=None).get_config())
    assert (agent.target_network, agent.double, agent.gradient_clip) == (None, False, None)


# Files.


@pytest.fixture(scope="module")
def fresh_process(tmp_path_factory):
    """A dueling network and a trained, compiled agent with it, saved here and loaded in a process of its own."""
    folder = tmp_path_factory.mktemp("saved")
    state = keras.Input((3,), name="state")
    hidden = keras.layers.Dense(8, activation="relu")(state)
    value, advantage = keras.layers.Dense(1)(hidden), keras.layers.Dense(2)(hidden)
    mean = keras.ops.mean(advantage, axis=1, keepdims=True)
    network = keras.Model(state, value + (advantage - mean))
    agent = DQN(network, double=True, target_period_updates=2)
    agent.compile(keras.optimizers.Adam(0.01))
    for reward in range(3):
        agent.update(batch_of(3, reward=[reward] * 3))
    network.save(folder / "network.keras")
    agent.save(folder / "agent.keras")
    states = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    np.save(folder / "states.npy", states)
    np.savez(folder / "batch.npz", **batch_of(3, reward=[1, 2, 3], discount=[0.9] * 3))
    root = Path(__file__).parent.parent
    script = [sys.executable, "-c", _LOADS, str(folder)]
    done = subprocess.run(script, cwd=root, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    told = json.loads((folder / "told.json").read_text())
    told["losses here"] = losses_of_three_updates(keras.saving.load_model(folder / "network.keras"), folder)
    return agent, states, np.load(folder / "loaded.npz"), told


def losses_of_three_updates(network, folder):
    agent = DQN(network, target_period_updates=2)
    agent.compile(keras.optimizers.SGD(0.1), jit_compile="auto")
    batch = dict(np.load(folder / "batch.npz"))
    return [float(agent.update(batch)["loss"]) for _ in range(3)]


_LOADS = f"""
import json, sys
from pathlib import Path
import keras
import numpy as np
import tensorflow as tf

{inspect.getsource(losses_of_three_updates)}
folder = Path(sys.argv[1])
states = np.load(folder / "states.npy")
network = keras.saving.load_model(folder / "network.keras")
told = {{"config": network.to_json(), "knows dqn_lab": "dqn_lab" in sys.modules}}
found = {{"network": network(states).numpy()}}

from dqn_lab import DQN

agent = keras.saving.load_model(folder / "agent.keras")
told |= {{"class": type(agent) is DQN, "updates": agent.updates, "double": agent.double}}
told |= {{"iterations": int(agent.optimizer.iterations), "jit_compile": agent.jit_compile}}
found |= {{"agent": agent.q_values(states).numpy(), "target": agent.target_network(states).numpy()}}
tf.config.experimental.enable_op_determinism()
told["losses"] = losses_of_three_updates(network, folder)
found |= {{f"optimizer {{place}}": np.array(each) for place, each in enumerate(agent.optimizer.variables)}}
np.savez(folder / "loaded.npz", **found)
(folder / "told.json").write_text(json.dumps(told))
"""


@pytest.mark.case("B096")
def test_a_dueling_network_loads_in_a_fresh_process_without_this_package(fresh_process):
    agent, states, found, told = fresh_process
    assert not told["knows dqn_lab"]
    assert "Lambda" not in told["config"]
    np.testing.assert_array_equal(found["network"], agent.network(states))


@pytest.mark.case("B096")
def test_a_saved_agent_loads_in_a_fresh_process_once_its_class_is_imported(fresh_process):
    agent, states, found, told = fresh_process
    assert told["class"] and told["double"]
    assert (told["updates"], told["iterations"], told["jit_compile"]) == (3, 3, False)
    np.testing.assert_array_equal(found["agent"], agent.q_values(states))
    np.testing.assert_array_equal(found["target"], agent.target_network(states))
    assert (found["agent"] != found["target"]).any()
    variables = [np.array(variable) for variable in agent.optimizer.variables]
    np.testing.assert_equal([found[f"optimizer {place}"] for place in range(len(variables))], variables)


@pytest.mark.case("B095")
def test_with_deterministic_operations_auto_neither_raises_nor_changes_the_losses(fresh_process):
    _, _, _, told = fresh_process
    assert len(told["losses"]) == 3
    np.testing.assert_allclose(told["losses"], told["losses here"], rtol=0, atol=1e-5)
