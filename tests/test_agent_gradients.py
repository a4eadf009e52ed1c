"""The gradient that an agent tells: that of its loss, and nothing is changed by asking for it."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from feeding_worlds import At, StopAfter, table_network

from dqn_lab.agents.dqn import DQN
from dqn_lab.environments.catch import Catch
from dqn_lab.models.networks import mlp
from dqn_lab.sequences.environment import EnvironmentSequence


def batch_of(rows, **columns):
    """A minibatch of states of ones and zeros."""
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
    return usual | {key: np.asarray(value, usual[key].dtype) for key, value in columns.items()}


def tabular(values, optimizer=None, cls=DQN, **settings):
    values = np.asarray(values, np.float32)
    agent = cls(table_network(values, np.zeros(values.shape[1])), **{"target_period_updates": 5} | settings)
    agent.compile(optimizer or keras.optimizers.SGD(1.0))
    return agent


def deep(optimizer=None, network=None, **settings):
    agent = DQN(network or mlp((4,), 3, hidden=(8,), seed=3), **{"target_period_updates": 5, "double": True} | settings)
    agent.compile(optimizer or keras.optimizers.Adam(1e-2))
    return agent


def drawn_batch(rows=6):
    generator = np.random.default_rng(1)
    return batch_of(
        rows,
        action=generator.integers(3, size=rows),
        reward=generator.normal(size=rows) * 2,
        discount=[0.9] * rows,
        weight=generator.random(rows),
    ) | {name: generator.normal(size=(rows, 4)).astype(np.float32) for name in ("state", "next_state")}


def by_tape(agent, batch):
    """The gradient of double Q-learning's Huber loss, written down once more."""
    rows = np.arange(len(batch["action"]))
    best = np.asarray(agent.network(batch["next_state"])).argmax(axis=1)
    bootstrap = np.asarray(agent.target_network(batch["next_state"]))[rows, best]
    target = batch["reward"] + batch["discount"] * bootstrap
    with tf.GradientTape() as tape:
        error = target - tf.gather(agent.network(batch["state"]), batch["action"], axis=1, batch_dims=1)
        size = tf.abs(error)
        losses = tf.where(size <= 1, 0.5 * error**2, size - 0.5)
        loss = tf.reduce_mean(batch["weight"] * losses)
        loss += tf.add_n([w.regularizer(w) for w in agent.network.trainable_variables if w.regularizer] or [0.0])
    return [each.numpy() for each in tape.gradient(loss, [w.value for w in agent.network.trainable_variables])]


def copied(agent):
    means = [variable for metric in agent.metrics for variable in metric.variables]
    return [np.array(each) for each in (*agent.variables, *agent.optimizer.variables, *means)]


# What it is.


def test_it_is_the_gradient_of_the_mean_of_the_weighted_losses():
    agent = tabular([[0, 0], [0, 0]])
    kernel, bias = agent.gradients(batch_of(2, action=[0, 1], reward=[0.5, 5], weight=[1, 0.5]))
    np.testing.assert_array_equal(kernel, [[-0.25, 0], [0, -0.25]])  # slopes -0.5 and -1, weights 1 and 0.5, over 2
    np.testing.assert_array_equal(bias, [-0.25, -0.25])


def test_it_is_a_tapes():
    agent, batch = deep(), drawn_batch()
    for found, expected in zip(agent.gradients(batch), by_tape(agent, batch), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_regularizers_are_part_of_it():
    inner = keras.layers.Dense(3, kernel_regularizer=keras.regularizers.L2(0.5), kernel_initializer="ones")
    agent, batch = deep(network=keras.Sequential([keras.Input((4,)), inner])), drawn_batch()
    for found, expected in zip(agent.gradients(batch), by_tape(agent, batch), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    assert np.abs(agent.gradients(batch)[0]).min() > 0.2  # the L2 alone has 2 * 0.5 * 1


def test_plain_gradient_descent_steps_by_it():
    agent, batch = deep(keras.optimizers.SGD(1.0)), drawn_batch()
    before, gradients = agent.network.get_weights(), agent.gradients(batch)
    agent.update(batch)
    for old, new, gradient in zip(before, agent.network.get_weights(), gradients, strict=True):
        np.testing.assert_allclose(old - new, gradient, rtol=1e-4, atol=1e-6)


def test_it_is_not_clipped():
    batch = drawn_batch()
    free, clipped = deep().gradients(batch), deep(gradient_clip=1e-3).gradients(batch)
    np.testing.assert_equal(free, clipped)
    assert np.sqrt(sum((each**2).sum() for each in free)) > 1e-2


def test_it_has_no_trace_of_an_optimizers_loss_scale():
    batch = drawn_batch()
    scaling = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(1e-2), initial_scale=1024.0)
    for plain, scaled in zip(deep().gradients(batch), deep(scaling).gradients(batch), strict=True):
        np.testing.assert_allclose(plain, scaled, rtol=1e-5, atol=1e-7)


def test_a_variable_that_the_loss_does_not_depend_on_has_zeros():
    class OfOnes(DQN):
        def example_losses(self, batch):
            return tf.gather(self.network(batch["state"]), [0], axis=1)[:, 0] * 0 + self.network.weights[1][1]

    kernel, bias = tabular([[1, 2], [3, 4]], cls=OfOnes).gradients(batch_of(2))
    np.testing.assert_array_equal(kernel, np.zeros((2, 2)))
    np.testing.assert_array_equal(bias, [0, 1])

    class OfNone(DQN):
        def example_losses(self, batch):
            return tf.ones(2) * self.network.weights[0][0, 0]

    kernel, bias = tabular([[1, 2], [3, 4]], cls=OfNone).gradients(batch_of(2))
    np.testing.assert_array_equal(kernel, [[1, 0], [0, 0]])
    np.testing.assert_array_equal(bias, [0, 0])


def test_that_of_an_embedding_is_whole():
    network = keras.Sequential([keras.Input((1,)), keras.layers.Embedding(4, 2), keras.layers.Flatten()])
    agent = DQN(network, target_period_updates=None)
    agent.compile(keras.optimizers.SGD(1.0))
    states = np.array([[2.0], [2.0]], np.float32)
    (table,) = agent.gradients(batch_of(2, reward=[9, 9]) | {"state": states, "next_state": states})
    np.testing.assert_array_equal(table, [[0, 0], [0, 0], [-1, 0], [0, 0]])


# What it leaves as it is.


def test_nothing_is_changed_by_it_and_the_next_updates_are_the_same():
    def made():
        begins = [keras.initializers.GlorotUniform(seed) for seed in (1, 2)]
        layers = [keras.Input((4,)), keras.layers.Dense(8, kernel_initializer=begins[0])]
        layers += [keras.layers.BatchNormalization(), keras.layers.Dropout(0.5, seed=3)]
        layers += [keras.layers.Dense(3, kernel_initializer=begins[1])]

        class InTraining(DQN):
            def example_losses(self, batch):
                values = self.network(batch["state"], training=True)
                self.q_mean.update_state(values)
                return tf.square(batch["reward"] - values[:, 0])

        agent = InTraining(keras.Sequential(layers), target_period_updates=2)
        agent.compile(keras.optimizers.Adam(1e-2))
        return agent

    batch, asked, left_alone = drawn_batch(), made(), made()
    for _ in range(3):
        before = copied(asked)
        gradients = asked.gradients(batch)
        np.testing.assert_equal(copied(asked), before)
        np.testing.assert_equal(asked.gradients(batch), gradients)  # by the same masks
        for agent in (asked, left_alone):
            agent.update(batch)
        np.testing.assert_equal(copied(asked), copied(left_alone))
    assert asked.updates == 3


# Before each update.


def sequence_of():
    return EnvironmentSequence(
        Catch, replay_capacity_steps=100, replay_min_steps=8, updates_per_epoch=4, batch_size=4, epsilon=1.0, seed=1
    )


def catch_agent():
    agent = DQN(mlp((10, 5, 1), 3, hidden=(8,), seed=3), target_period_updates=2)
    agent.compile(keras.optimizers.Adam(1e-2))
    return agent


class Asks(keras.callbacks.Callback):
    """Keeps what is seen before each update."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_begin(self, logs=None):
        self.model.before_update = self.note

    def note(self, batch):
        self.seen.append((self.model.updates, len(batch["action"]), self.model.gradients(batch)))


def test_it_is_called_before_each_update_of_that_fit_alone():
    agent, sequence, asks = catch_agent(), sequence_of(), Asks()
    agent.fit(sequence, epochs=2, callbacks=[asks], verbose=0)
    assert [each[:2] for each in asks.seen] == [(number, 4) for number in range(8)]
    assert agent.before_update is None
    agent.fit(sequence, epochs=1, verbose=0)
    assert len(asks.seen) == 8
    sequence.close()


def test_a_fit_that_asks_learns_the_same():
    agents = []
    for callbacks in ([], [Asks()]):
        agent, sequence = catch_agent(), sequence_of()
        agent.fit(sequence, epochs=2, callbacks=callbacks, verbose=0)
        sequence.close()
        agents.append(agent)
    np.testing.assert_equal(copied(agents[0]), copied(agents[1]))


@pytest.mark.parametrize("end", ["stopped", "raised"])
def test_a_fit_that_is_broken_off_leaves_none_behind(end):
    agent, sequence, asks = catch_agent(), sequence_of(), Asks()
    if end == "stopped":
        agent.fit(sequence, epochs=2, callbacks=[asks, StopAfter(2)], verbose=0)
    else:
        with pytest.raises(RuntimeError, match="boom"):
            agent.fit(sequence, epochs=2, callbacks=[asks, At(1, RuntimeError("boom"))], verbose=0)
    assert len(asks.seen) == 2
    assert agent.before_update is None
    sequence.close()
