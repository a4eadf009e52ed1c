"""The agent as a Keras model: its updates, what stops them, what they cost, and what a user may override or add."""

import gc
import threading
from types import SimpleNamespace

import feeding_worlds as worlds
import gymnasium
import keras
import numpy as np
import pytest
import tensorflow as tf
from feeding_worlds import Losses, NumberedSequence, StopAfter, cartpole_sequence, echo_agent, table_network
from gymnasium.spaces import Box, Discrete

from dqn_lab.agents.agent import Agent
from dqn_lab.agents.dqn import DQN
from dqn_lab.exploration import epsilon_greedy
from dqn_lab.models.networks import mlp
from dqn_lab.sequences.environment import EnvironmentSequence

ONE = np.ones(1, np.float32)


class OneStep(gymnasium.Env):
    """Episodes of one step, whose only state is ones; the first action pays 1."""

    def __init__(self, end, state=ONE):
        self.observation_space = Box(0, 255, state.shape, state.dtype)
        self.action_space = Discrete(3)
        self.end, self.state = end, state

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.state, {}

    def step(self, action):
        return self.state, 1.0, self.end == "terminated", self.end == "truncated", {}


def one_step_sequence(end="terminated", state=ONE, **settings):
    usual = {"replay_capacity_steps": 200, "replay_min_steps": 8, "updates_per_epoch": 3, "train_period_steps": 1}
    return EnvironmentSequence(
        lambda: OneStep(end, state), **usual | {"batch_size": 4, "epsilon": 0.0, "feeding": "alternate"} | settings
    )


def small_agent(cls=DQN, *, optimizer=None, compile_with=None, **settings):
    network = settings.pop("network", None) or mlp((4,), 2, hidden=(8,), seed=3)
    agent = cls(network, **{"target_period_updates": 5} | settings)
    agent.compile(optimizer or keras.optimizers.SGD(0.1), **compile_with or {})
    return agent


def copied(variables):
    return [np.array(variable) for variable in variables]


class WithLosses(DQN):
    """Update k has the loss `losses[k - 1]`, whatever the values."""

    losses = (1.0, 2.0, 6.0)

    def example_losses(self, batch):
        loss = tf.gather(tf.constant(self.losses, tf.float32), self.update_count.value)
        return loss + 0.0 * super().example_losses(batch)


# Losses and values that a fit logs.


def test_an_epochs_loss_is_the_mean_over_its_updates():
    logged, running = [], Losses()

    class Look(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            logged.append(logs["loss"])

    history = small_agent(WithLosses).fit(
        cartpole_sequence(updates_per_epoch=3), verbose=0, callbacks=[Look(), running]
    )
    assert logged == history.history["loss"] == [3.0]
    assert running.losses == [1.0, 1.5, 3.0]
    assert history.history.keys() == {"loss", "q_mean"}


def test_means_begin_anew_with_each_epoch():
    class Longer(WithLosses):
        losses = (1.0, 2.0, 6.0, 4.0, 4.0, 1.0)

    history = small_agent(Longer).fit(cartpole_sequence(updates_per_epoch=3), epochs=2, verbose=0)
    assert history.history["loss"] == [3.0, 3.0]
    assert history.history["q_mean"][0] != history.history["q_mean"][1]


@pytest.mark.case("B016")
@pytest.mark.parametrize(("end", "target"), [("truncated", 10.9), ("terminated", 1.0)])
def test_a_time_limit_keeps_the_bootstrap_and_a_games_end_takes_it_away(end, target):
    network = table_network([[0, 0, 0]], [0, 0, 0])
    agent = small_agent(network=network, optimizer=keras.optimizers.SGD(0.0))
    agent.target_network.set_weights([np.array([[4, 10, 7]]), np.zeros(3)])
    history = agent.fit(one_step_sequence(end), verbose=0)
    assert history.history["loss"] == pytest.approx([target - 0.5])


@pytest.mark.case("B028")
def test_bytes_are_scaled_once():
    network = mlp((2,), 3, hidden=(), state_dtype="uint8")
    network.set_weights([np.array([[1, 0, 0], [0, 1, 0]]), np.zeros(3)])
    sequence = one_step_sequence(state=np.array([255, 128], np.uint8))
    agent = small_agent(network=network, optimizer=keras.optimizers.SGD(0.0))
    agent.fit(sequence, verbose=0)
    states = sequence[0]["state"]
    assert (states.dtype, sequence.replay.ring.frames.dtype) == (np.uint8, np.uint8)
    first, second, _ = agent.q_values(states)[0].numpy()
    assert (first, second) == (1.0, pytest.approx(0.50196, abs=1e-5))


# What stops the updates.


@pytest.mark.case("B027")
@pytest.mark.parametrize("feeding", ["alternate", "overlap"])
def test_a_loss_that_is_no_number_stops_the_run_with_the_weights_of_the_update_before(feeding, tmp_path):
    breaks_after = tf.Variable(4, dtype=tf.int64)

    class Broken(DQN):
        def example_losses(self, batch):
            return tf.where(tf.equal(self.update_count.value, breaks_after), np.nan, super().example_losses(batch))

    class SaveEach(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.save_weights(tmp_path / f"{self.model.updates}.weights.h5")

    agent = small_agent(Broken, optimizer=keras.optimizers.Adam(0.1))
    sequence = cartpole_sequence(feeding)
    with pytest.raises(FloatingPointError) as raised:
        agent.fit(sequence, verbose=0, callbacks=[SaveEach()])
    assert str(raised.value).startswith("The loss of update 5 is not finite; the update was not made.")
    assert agent.updates == agent.optimizer.iterations == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{number}.weights.h5" for number in (1, 2, 3, 4)]
    stopped, optimizer = copied(agent.network.weights), copied(agent.optimizer.variables)
    target = copied(agent.target_network.weights)
    assert (target[0] != stopped[0]).any()  # the fifth update, which would have copied, was not made
    agent.load_weights(tmp_path / "4.weights.h5")
    np.testing.assert_equal(copied(agent.network.weights), stopped)
    np.testing.assert_equal(copied(agent.optimizer.variables), optimizer)
    breaks_after.assign(-1)
    agent.fit(sequence, verbose=0)
    assert agent.updates == 14


def test_a_gradient_that_is_no_number_stops_the_run_too():
    class Steep(DQN):
        def example_losses(self, batch):
            third = tf.equal(self.update_count.value, 2)
            return tf.sqrt(tf.abs(0.0 * super().example_losses(batch)) + tf.where(third, 0.0, 1.0))  # steep at 0

    agent = small_agent(Steep)
    with pytest.raises(FloatingPointError, match="^The gradient norm of update 3 is not finite"):
        agent.fit(cartpole_sequence(), verbose=0)
    assert agent.updates == 2
    assert np.isfinite(agent.network.get_weights()[0]).all()


# Gradients.


@pytest.mark.parametrize("scaling", [False, True], ids=["plain", "loss scaling"])
@pytest.mark.parametrize(("clip", "clipped"), [(0.25, True), (1e6, False), (None, False)])
def test_a_gradient_clip_equals_the_reference_in_numpy(clip, clipped, scaling):
    generator = np.random.default_rng(0)
    kernel, bias = generator.normal(size=(4, 3)).astype(np.float32), np.zeros(3, np.float32)
    agent = DQN(table_network(kernel, bias), target_period_updates=9, gradient_clip=clip, loss="mse")
    optimizer = keras.optimizers.SGD(1.0)
    agent.compile(keras.optimizers.LossScaleOptimizer(optimizer) if scaling else optimizer, run_eagerly=True)
    agent.optimizer.build(agent.network.trainable_variables)
    state = generator.normal(size=(6, 4)).astype(np.float32)
    action, reward = generator.integers(3, size=6), generator.normal(size=6).astype(np.float32)
    weight = generator.uniform(size=6).astype(np.float32)
    batch = {"state": state, "next_state": state, "action": action.astype(np.int32), "reward": reward}
    batch |= {"discount": np.zeros(6, np.float32), "weight": weight}
    agent.train_step({key: tf.constant(value) for key, value in batch.items()})

    slope = 2 * weight * ((state @ kernel)[np.arange(6), action] - reward) / 6
    taken = np.eye(3)[action] * slope[:, None]  # [B, A], the loss's slope along each value
    gradients = [state.T @ taken, taken.sum(axis=0)]
    norm = np.sqrt(sum((gradient**2).sum() for gradient in gradients))
    assert norm > 0.5
    factor = clip / norm if clipped else 1
    expected = [old - factor * gradient for old, gradient in zip([kernel, bias], gradients, strict=True)]
    for found, reference in zip(agent.network.get_weights(), expected, strict=True):
        np.testing.assert_allclose(found, reference, atol=1e-5)


def test_a_clip_takes_sparse_gradients_and_weights_without_any():
    state = keras.Input((1,), dtype="int32")
    looked_up = keras.layers.Embedding(4, 2)(keras.layers.Flatten()(state))  # its gradient is sparse
    idle = keras.layers.Dense(2)(keras.ops.stop_gradient(keras.layers.Flatten()(looked_up)))
    network = keras.Model(state, keras.layers.Flatten()(looked_up) + keras.ops.stop_gradient(idle))
    agent = DQN(network, target_period_updates=9, gradient_clip=0.01)
    agent.compile(keras.optimizers.SGD(1.0), run_eagerly=True)
    before = copied(network.weights)
    batch = {"state": [[1]], "next_state": [[1]], "action": [0], "reward": [5.0], "discount": [0.0], "weight": [1.0]}
    with pytest.warns(UserWarning, match="Gradients do not exist"):
        agent.train_step({key: tf.constant(value) for key, value in batch.items()})
    changes = [new - old for new, old in zip(copied(network.weights), before, strict=True)]
    assert np.abs(changes[0]).sum() == pytest.approx(0.01, rel=1e-4)
    assert changes[0][1, 0] > 0
    assert not any(change.any() for change in changes[1:])


def test_the_networks_own_regularizers_are_part_of_the_loss():
    state = keras.Input((1,))
    dense = keras.layers.Dense(2, kernel_regularizer=keras.regularizers.L2(0.5), use_bias=False)
    agent = DQN(keras.Model(state, dense(state)), target_period_updates=9)
    dense.kernel.assign([[0.0, 2.0]])
    agent.compile(keras.optimizers.SGD(0.25), run_eagerly=True)
    batch = {"state": [[1.0]], "next_state": [[1.0]], "action": [0], "reward": [5.0], "discount": [0.0]}
    logs = agent.train_step({key: tf.constant(value) for key, value in (batch | {"weight": [1.0]}).items()})
    assert logs["loss"] == 4.5 + 0.5 * 2.0**2
    np.testing.assert_allclose(dense.kernel, [[0.25, 2.0 - 0.25 * 2 * 0.5 * 2.0]])


# Precision and compilation.


@pytest.mark.case("B101")
@pytest.mark.parametrize("precision", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_keeps_float32_weights_and_a_finite_loss(precision, tmp_path):
    losses = {}
    for dtype in ("float32", precision):
        network, running = mlp((4,), 2, hidden=(8,), seed=3, dtype=dtype), Losses()
        agent = small_agent(network=network, optimizer=keras.optimizers.Adam(0.01))
        before = copied(network.weights)
        agent.fit(cartpole_sequence(), epochs=5, verbose=0, callbacks=[running])
        losses[dtype] = running.losses
    assert agent.updates == 50
    assert np.isfinite(losses[precision]).all()
    assert losses[precision][0] == pytest.approx(losses["float32"][0], rel=0.01)
    assert {weight.dtype for weight in agent.network.weights} == {"float32"}
    assert all((new != old).any() for new, old in zip(copied(agent.network.weights), before, strict=True))
    scales = isinstance(agent.optimizer, keras.optimizers.LossScaleOptimizer)
    assert (agent.dtype_policy.name, scales) == (precision, precision == "mixed_float16")

    agent.save(tmp_path / "agent.keras")
    loaded = keras.saving.load_model(tmp_path / "agent.keras")
    assert loaded.dtype_policy.name == precision
    loaded.make_train_function()  # as a further fit would
    np.testing.assert_equal(copied(loaded.optimizer.variables), copied(agent.optimizer.variables))


def test_loss_scaling_leaves_out_steps_that_overflow_until_its_scale_fits():
    class Large(WithLosses):
        def example_losses(self, batch):
            return 8.0 * DQN.example_losses(self, batch)

    network = mlp((4,), 2, hidden=(8,), seed=3, dtype="mixed_float16")
    agent = small_agent(Large, network=network, loss="mse", gradient_clip=1.0)
    agent.optimizer.initial_scale = 2.0**30
    agent.fit(cartpole_sequence(), epochs=3, verbose=0)
    assert agent.updates == 30
    assert 0 < agent.optimizer.iterations < 30
    assert np.isfinite(copied(agent.network.weights)[0]).all()


def test_loss_scaling_does_not_hide_gradients_that_are_never_finite():
    class Steep(DQN):
        def example_losses(self, batch):
            return tf.sqrt(tf.abs(0.0 * super().example_losses(batch)))

    agent = small_agent(Steep, network=mlp((4,), 2, hidden=(8,), seed=3, dtype="mixed_float16"))
    with pytest.raises(FloatingPointError, match="^The gradient norm of update 16 is not finite"):  # 2^15 -> 1
        agent.fit(cartpole_sequence(), epochs=3, verbose=0)
    assert agent.optimizer.iterations == 0


@pytest.mark.case("B095")
def test_compiled_or_not_the_losses_are_the_same():
    losses = {}
    for jit_compile in (False, True, "auto"):
        running = Losses()
        agent = small_agent(double=True, compile_with={"jit_compile": jit_compile})
        agent.fit(cartpole_sequence(), verbose=0, callbacks=[running])
        losses[jit_compile] = running.losses
        assert agent.jit_compile == (jit_compile is True)
    assert len(losses[False]) == 10
    np.testing.assert_allclose(losses[True], losses[False], rtol=0, atol=1e-5)
    np.testing.assert_allclose(losses["auto"], losses[False], rtol=0, atol=1e-5)


# What an update costs.


def test_the_update_is_traced_with_the_first_one_only():
    class Traced(DQN):
        traces = ()

        def train_step(self, batch):
            self.traces = (*self.traces, self.stage)
            return super().train_step(batch)

    class Stage(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            self.model.stage = self.model.updates

    agent, sequence = small_agent(Traced), cartpole_sequence()
    agent.fit(sequence, epochs=3, verbose=0, callbacks=[Stage()])
    agent.fit(sequence, epochs=2, verbose=0, callbacks=[Stage()])
    assert agent.updates == 50
    assert set(agent.traces) == {0}
    assert agent._compiled_q_values.trace_count == 1


@pytest.mark.parametrize("feeding", ["alternate", "overlap"])
def test_no_object_and_no_thread_is_left_by_an_epoch(feeding):
    counts = []

    class Count(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch in (1, 4):
                gc.collect()
                counts.append((len(gc.get_objects()), threading.active_count()))

    small_agent().fit(cartpole_sequence(feeding), epochs=5, verbose=0, callbacks=[Count()])
    (objects, running), (objects_later, running_later) = counts
    assert objects_later - objects <= 3  # 30 updates further on: less than one object for each
    assert running_later == running


@pytest.mark.case("B085")
def test_200_updates_are_one_fit_and_no_predict(monkeypatch):
    fits, fit = [], keras.Model.fit

    def counted(*arguments, **keywords):
        fits.append(1)
        return fit(*arguments, **keywords)

    def refused(*arguments, **keywords):
        raise AssertionError("predict was called")

    monkeypatch.setattr(keras.Model, "predict", refused)
    monkeypatch.setattr(keras.Model, "fit", counted)
    agent = small_agent()
    agent.fit(cartpole_sequence(updates_per_epoch=100), epochs=2, verbose=0)
    assert (agent.updates, len(fits)) == (200, 1)


@pytest.mark.case("B091")
def test_four_threads_act_while_the_agent_is_fitted():
    agent, sequence = small_agent(optimizer=keras.optimizers.SGD(0.0)), cartpole_sequence(updates_per_epoch=100)
    states = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    expected, found, errors, begun = agent.q_values(states).numpy(), [], [], threading.Barrier(5)

    def act():
        try:
            begun.wait(worlds.GUARD)
            found.extend(agent.q_values(states).numpy() for _ in range(100))
        except BaseException as error:
            errors.append(error)

    actors = [threading.Thread(target=act) for _ in range(4)]

    class Begin(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 0:
                begun.wait(worlds.GUARD)

    for actor in actors:
        actor.start()
    agent.fit(sequence, verbose=0, callbacks=[Begin()])
    for actor in actors:
        actor.join(worlds.GUARD)
    assert errors == []
    assert (agent.updates, len(found)) == (100, 400)
    assert all((values == expected).all() for values in found)


# Files and other callbacks.


@pytest.mark.case("B107")
def test_an_agent_goes_on_from_a_file_as_if_it_had_not_been_saved(tmp_path):
    def trained():
        agent, sequence = small_agent(optimizer=keras.optimizers.Adam(0.01), double=True), cartpole_sequence()
        agent.fit(sequence, epochs=5, verbose=0)
        return agent, sequence

    (agent, sequence), (_, same_sequence) = trained(), trained()
    agent.save(tmp_path / "agent.keras")
    loaded = keras.saving.load_model(tmp_path / "agent.keras")
    assert loaded.optimizer.iterations == loaded.updates == 50
    np.testing.assert_equal(copied(loaded.optimizer.variables), copied(agent.optimizer.variables))
    np.testing.assert_equal(loaded.get_weights(), agent.get_weights())
    agent.fit(sequence, verbose=0, callbacks=[StopAfter(1)])
    loaded.fit(same_sequence, verbose=0, callbacks=[StopAfter(1)])
    assert loaded.updates == 51
    np.testing.assert_equal(loaded.get_weights(), agent.get_weights())
    np.testing.assert_equal(copied(loaded.optimizer.variables), copied(agent.optimizer.variables))


@pytest.mark.case("B114")
def test_keras_own_tensorboard_and_checkpoints_work_and_logs_are_floats(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    kinds = set()

    class Kinds(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            kinds.update(map(type, logs.values()))

        def on_epoch_end(self, epoch, logs=None):
            kinds.update(map(type, logs.values()))

    agent = small_agent()
    callbacks = [
        keras.callbacks.TensorBoard(tmp_path / "logs", update_freq=5),
        keras.callbacks.ModelCheckpoint(tmp_path / "best.keras", monitor="loss", save_best_only=True),
        Kinds(),
    ]
    history = agent.fit(cartpole_sequence(), epochs=2, verbose=0, callbacks=callbacks)
    assert kinds == {float}
    events = EventAccumulator(str(tmp_path / "logs" / "train"))
    events.Reload()
    written = [float(tf.make_ndarray(event.tensor_proto)) for event in events.Tensors("epoch_loss")]
    np.testing.assert_allclose(written, history.history["loss"], rtol=1e-6)
    assert isinstance(keras.saving.load_model(tmp_path / "best.keras"), DQN)


# What a user overrides or brings along.


def test_a_users_own_train_step_is_counted_and_copies_the_target():
    class Mine(DQN):
        def train_step(self, batch):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(self.temporal_differences(batch)))
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            return {"loss": loss, "mine": 2.0 * loss}

    agent = small_agent(Mine, target_period_updates=4)
    before = copied(agent.network.weights)
    history = agent.fit(cartpole_sequence(updates_per_epoch=4), epochs=2, verbose=0)
    assert agent.updates == agent.optimizer.iterations == 8
    assert (agent.network.get_weights()[0] != before[0]).any()
    np.testing.assert_equal(agent.target_network.get_weights(), agent.network.get_weights())
    assert history.history["mine"] == pytest.approx([2 * loss for loss in history.history["loss"]])


def test_a_users_own_metrics_are_logged_as_means_of_the_epoch():
    class Measured(DQN):
        def __init__(self, *arguments, **keywords):
            super().__init__(*arguments, **keywords)
            self.number = keras.metrics.Mean(name="number")

        def train_step(self, batch):
            self.number.update_state(self.update_count.value)
            return super().train_step(batch)

    history = small_agent(Measured).fit(cartpole_sequence(updates_per_epoch=4), epochs=2, verbose=0)
    assert history.history["number"] == [1.5, 5.5]
    assert history.history.keys() == {"loss", "q_mean", "number"}


def test_a_users_own_sequential_network_trains_with_its_dropout_and_normalisation():
    network = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(8, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5, seed=1),
            keras.layers.Dense(2),
        ]
    )
    agent, before = small_agent(network=network, target_period_updates=10), copied(network.variables)
    agent.fit(cartpole_sequence(), verbose=0)
    after = copied(network.variables)
    assert sum((new != old).any() for new, old in zip(after, before, strict=True)) == len(after)
    np.testing.assert_equal(copied(agent.target_network.variables), after)
    states = np.ones((2, 4), np.float32)
    np.testing.assert_array_equal(agent.q_values(states), network(states, training=False))
    np.testing.assert_array_equal(agent(states), network(states))


def test_a_network_called_before_it_knew_its_input_will_do():
    network = keras.Sequential([keras.layers.Dense(2)])
    network(np.zeros((1, 4), np.float32))
    agent = small_agent(network=network)
    np.testing.assert_equal(agent.target_network.get_weights(), network.get_weights())


def test_an_agent_recompiled_between_two_fits_goes_on_with_its_count():
    agent, sequence = small_agent(), cartpole_sequence()
    agent.fit(sequence, verbose=0)
    agent.compile(keras.optimizers.Adam(0.01))
    agent.fit(sequence, verbose=0)
    assert (agent.updates, int(agent.optimizer.iterations)) == (20, 10)


def test_a_rule_says_its_losses_and_temporal_differences():
    agent = Agent(table_network([[0, 0]], [0, 0]), target_period_updates=None)
    with pytest.raises(NotImplementedError, match="^Agent must define example_losses"):
        agent.example_losses({})
    with pytest.raises(NotImplementedError, match="^Agent must define temporal_differences"):
        agent.temporal_differences({})


# What is refused, in one line each.


@pytest.mark.parametrize(
    ("arguments", "received"),
    [
        ({"steps_per_epoch": 5}, "steps_per_epoch"),
        ({"validation_data": (1, 2)}, "validation_data"),
        ({"validation_split": 0.1}, "validation_split"),
        ({"class_weight": {0: 1}}, "class_weight"),
        ({"sample_weight": [1]}, "sample_weight"),
        ({"batch_size": 32}, "batch_size"),
        ({"workers": 2, "use_multiprocessing": True}, "workers, use_multiprocessing"),
        ({"shuffle": True}, "shuffle=True"),
        ({"shufle": False}, "shufle"),
    ],
)
def test_what_has_no_place_in_a_fit_is_refused(arguments, received):
    sequence, agent = NumberedSequence("alternate"), echo_agent()
    with pytest.raises(ValueError, match=f"^[^\n]*Received: {received}$"):
        agent.fit(sequence, **arguments)
    assert sequence.steps == 0


def test_what_changes_nothing_may_be_given_to_a_fit():
    sequence, agent = NumberedSequence("alternate"), echo_agent()
    agent.fit(sequence, verbose=0, shuffle=False, steps_per_epoch=None)
    assert agent.updates == 5


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"optimizer": "adm"}, "Could not interpret optimizer identifier: adm"),
        ({"optimizer": None}, "An agent needs an optimizer. Received: optimizer=None"),
        (
            {"steps_per_execution": 4},
            "`steps_per_execution` must be 1: updates and environment steps take turns one by one. "
            "Received: steps_per_execution=4",
        ),
        (
            {"loss": "mse", "metrics": ["mae"]},
            "An agent's `compile` takes optimizer, jit_compile and run_eagerly; the loss is the agent's own. "
            "Received: loss, metrics",
        ),
    ],
)
def test_what_has_no_place_in_compile_is_refused(arguments, text):
    agent = DQN(table_network([[0, 0]], [0, 0]), target_period_updates=None)
    with pytest.raises(ValueError) as raised:
        agent.compile(**arguments)
    assert str(raised.value) == text


def test_kerass_own_defaults_may_be_given_to_compile():
    agent = DQN(table_network([[0, 0]], [0, 0]), target_period_updates=None)
    agent.compile("sgd", loss=None, metrics=None, steps_per_execution=1)
    assert isinstance(agent.optimizer, keras.optimizers.SGD)


def test_only_a_sequence_can_be_fitted_and_only_by_a_compiled_agent():
    agent = DQN(table_network([[0, 0]], [0, 0]), target_period_updates=None)
    with pytest.raises(TypeError, match="^An agent is fitted to a dqn_lab sequence. Received: ndarray$"):
        agent.fit(np.zeros(3))
    sequence = one_step_sequence()
    agent = DQN(table_network([[0, 0, 0]], [0, 0, 0]), target_period_updates=None)
    with pytest.raises(ValueError, match="^An agent is compiled before it is fitted: `agent.compile"):
        agent.fit(sequence)
    assert sequence.steps == 0
    agent.compile("sgd")
    with pytest.raises(RuntimeError, match="^An agent learns from a sequence, by `agent.fit"):
        agent.train_on_batch(np.zeros((2, 1)), np.zeros(2))
    agent.fit(sequence, verbose=0)
    assert agent.updates == 3


@pytest.mark.parametrize(
    ("network", "text"),
    [
        (
            lambda: table_network([[0, 0]], [0, 0]),
            r"must return one value per action, 3 here. Received: output_shape=\(None, 2\)$",
        ),
        (
            lambda: table_network([[0, 0, 0]] * 2, [0, 0, 0]),
            r"must take states of shape \(1,\). Received: input_shape=\(None, 2\)$",
        ),
        (
            lambda: mlp((1, 1), 3),
            r"must take states of shape \(1,\). Received: input_shape=\(None, 1, 1\)$",
        ),
    ],
)
def test_a_network_that_does_not_fit_the_sequence_is_refused(network, text):
    agent = DQN(network(), target_period_updates=None)
    agent.compile("sgd")
    sequence = one_step_sequence()
    with pytest.raises(ValueError, match=f"^The network {text}"):
        agent.fit(sequence, verbose=0)
    assert sequence.steps == 0


class Subclassed(keras.Model):
    def __init__(self, **keywords):
        super().__init__(**keywords)
        self.dense = keras.layers.Dense(2)

    def call(self, states):
        return self.dense(states)


def _subclassed():
    network = Subclassed()
    network(np.zeros((1, 4), np.float32))
    return network


def _model(outputs):
    state = keras.Input((4,))
    return keras.Model(state, outputs(state))


def _two_inputs():
    one, other = keras.Input((1,)), keras.Input((1,))
    return keras.Model([one, other], keras.layers.Dense(2)(one + other))


@pytest.mark.parametrize(
    ("network", "error", "text"),
    [
        (lambda: None, TypeError, "must be a built functional or Sequential Keras model"),
        (lambda: keras.layers.Dense(2), TypeError, "must be a built functional or Sequential Keras model"),
        (lambda: keras.Sequential([keras.layers.Dense(2)]), TypeError, "must be a built functional or Sequential"),
        (_subclassed, TypeError, "must be a built functional or Sequential Keras model"),
        (lambda: _model(keras.layers.Reshape((2, 2))), ValueError, "must take states .B, ...]"),
        (lambda: _model(lambda state: {"values": state}), ValueError, "must take states .B, ...]"),
        (lambda: _model(lambda state: [state, state]), ValueError, "must take states .B, ...]"),
        (_two_inputs, ValueError, "must take states .B, ...]"),
    ],
)
def test_a_network_of_another_kind_is_refused_in_one_line(network, error, text):
    with pytest.raises(error, match=f"^`network` {text}[^\n]*Received: [^\n]*$"):
        DQN(network(), target_period_updates=5)


def test_a_subclassed_network_may_be_wrapped():
    network = _model(Subclassed())
    agent = DQN(network, target_period_updates=5)
    np.testing.assert_equal(agent.target_network.get_weights(), network.get_weights())
    assert agent.target_network.variables[0] is not network.variables[0]


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"target_period_updates": 0}, ValueError, "target_period_updates=0"),
        ({"target_period_updates": 2.5}, TypeError, "target_period_updates=2.5"),
        ({"gradient_clip": 0}, ValueError, "gradient_clip=0"),
        ({"gradient_clip": float("nan")}, ValueError, "gradient_clip=nan"),
        ({"gradient_clip": "10"}, TypeError, "gradient_clip='10'"),
        ({"gradient_clip": True}, TypeError, "gradient_clip=True"),
    ],
)
def test_wrong_numbers_are_refused_in_one_line(settings, error, text):
    with pytest.raises(error, match=f"^`[^\n]*Received: {text}$"):
        DQN(table_network([[0, 0]], [0, 0]), **{"target_period_updates": 5} | settings)


def test_a_network_that_turns_fractions_into_whole_numbers_is_refused():
    network = mlp((1,), 3, state_dtype="uint8")
    agent = DQN(network, target_period_updates=None)
    agent.compile("sgd")
    with pytest.raises(ValueError, match="must not cast states of float32 to integers. Received: input dtype uint8"):
        agent.fit(one_step_sequence(), verbose=0)


def test_a_network_with_nothing_to_train_is_refused():
    network = mlp((1,), 1, state_dtype="float32")
    network.trainable = False
    agent = DQN(network, target_period_updates=None)
    agent.compile("sgd")
    with pytest.raises(ValueError, match="must have weights to train"):
        agent.fit(one_step_sequence(), verbose=0)


def test_action_values_must_be_floating_point():
    state = keras.Input((1,))
    network = keras.Model(state, keras.ops.cast(keras.layers.Dense(2)(state), "int32"))
    with pytest.raises(ValueError, match="must return floating-point action values. Received: output dtype int32"):
        DQN(network, target_period_updates=None)


@pytest.mark.parametrize("epochs", [-1, None, 1.5])
def test_epochs_must_be_a_count(epochs):
    with pytest.raises((TypeError, ValueError), match="`epochs` must be "):
        small_agent(network=mlp((1,), 3, seed=3)).fit(one_step_sequence(), epochs=epochs, verbose=0)


class _Odd:
    """A value that is no number."""


@pytest.mark.parametrize(
    ("logs", "received"),
    [
        (None, "NoneType"),
        ([1.0], "list"),
        ({"x": tf.zeros(3)}, r"x=\w*Tensor of shape \(3,\)"),
        ({"x": {"y": 1.0}}, "x=dict"),
        ({"x": "abc"}, "x=str"),
        ({"x": tf.constant("abc")}, r"x=\w*Tensor of shape \(\)"),
        ({"x": _Odd()}, "x=_Odd"),
    ],
    ids=["None", "list", "vector", "dict", "text", "text tensor", "object"],
)
def test_a_train_step_that_returns_no_numbers_is_told_before_an_update_is_made(logs, received):
    class Odd(DQN):
        def train_step(self, batch):
            super().train_step(batch)
            return logs

    agent = small_agent(Odd)
    with pytest.raises(TypeError, match=f"`train_step` must return a dict of numbers. Received: {received}$"):
        agent.fit(cartpole_sequence(), verbose=0)
    assert agent.updates == 0


@pytest.mark.parametrize("value", [1, 2.5, np.float64(3), tf.constant(4, tf.bfloat16), tf.constant(True)])
def test_any_number_may_be_logged(value):
    class Plain(DQN):
        def train_step(self, batch):
            return {"mine": value}

    history = small_agent(Plain).fit(cartpole_sequence(updates_per_epoch=2), verbose=0)
    assert history.history["mine"] == [float(value)]


# Acting.


def test_it_acts_greedily_or_at_random_with_a_generator():
    agent = small_agent(network=table_network([[1.0, 2.0, 0.0]], [0, 0, 0]))
    states = np.ones((500, 1), np.float32)
    assert agent.act(states).tolist() == [1] * 500
    generator, same = np.random.default_rng(3), np.random.default_rng(3)
    actions = agent.act(states, 0.5, generator)
    np.testing.assert_array_equal(actions, epsilon_greedy(agent.act_values(states), 0.5, same))
    assert set(actions.tolist()) == {0, 1, 2}
    assert actions.dtype == np.int64


def test_it_values_states_by_their_best_action_and_leads_a_twin_by_its_own_or_another_networks_values():
    networks = [table_network([[1.0, 2.0, 0.0]], [0, 0, 0]), table_network([[5.0, 2.0, 7.0]], [0, 0, 0])]
    agent, states, twin = small_agent(network=networks[0]), np.ones((2, 1), np.float32), SimpleNamespace()
    assert agent.state_values(states).numpy().tolist() == [2, 2]
    agent.lead(twin)
    assert np.array_equal(twin.policy(states), [[1, 2, 0]] * 2)
    agent.lead(twin, networks[1])
    assert np.array_equal(twin.policy(states), [[5, 2, 7]] * 2)


@pytest.mark.parametrize(
    ("epsilon", "text"), [(0.1, "need a `generator`. Received: epsilon=0.1"), (1.5, "epsilon.* Received: epsilon=1.5")]
)
def test_it_refuses_to_explore_without_a_generator_or_with_no_probability(epsilon, text):
    with pytest.raises(ValueError, match=text):
        small_agent().act(np.ones((1, 4), np.float32), epsilon)


@pytest.mark.parametrize("states", [np.ones(4), np.ones((2, 3)), np.float32(1), "x"], ids=["one", "narrow", "0-d", "x"])
def test_it_refuses_states_of_another_shape_in_a_line(states):
    with pytest.raises(ValueError, match=r"^States must have shape \[B, 4\]. Received: \("):
        small_agent().act(states)


def test_no_states_need_no_actions_and_a_number_is_no_generator():
    assert small_agent().act(np.ones((0, 4), np.float32)).shape == (0,)
    with pytest.raises(TypeError, match="generator"):
        small_agent().act(np.ones((1, 4), np.float32), 0.5, 0)


# Figures between two fits, and where it went wrong.


class _LastLoss(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(logs["loss"])


def test_figures_are_read_as_often_however_the_epochs_are_shared_out_between_fits():
    tapes = []
    for fits in ([3], [1, 2]):
        sequence, tape = cartpole_sequence(updates_per_epoch=7), _LastLoss()
        agent = DQN(mlp((4,), 2, hidden=(4,), seed=1), target_period_updates=None)
        agent.compile("sgd")
        for epochs in fits:
            agent.fit(sequence, epochs=epochs, verbose=0, log_period_updates=3, callbacks=[tape])
        tapes.append(tape.seen)
    assert tapes[0] == tapes[1]
    assert len(set(tapes[0])) == 10  # of updates 1, 3, 6, 7, 9, 12, 14, 15, 18 and 21


def test_an_update_that_is_not_finite_is_told_with_its_step():
    sequence = cartpole_sequence(replay_min_steps=40, train_period_steps=4)
    agent = DQN(mlp((4,), 2, hidden=(4,)), target_period_updates=None)
    agent.compile("sgd")
    agent.fit(sequence, verbose=0)
    agent.unfinite.assign(1)
    with pytest.raises(FloatingPointError) as raised:
        agent.check_finite()
    assert str(raised.value) == (
        "The loss of update 11 is not finite; the update was not made. It was due at step 84. A lower learning rate, "
        "a gradient clip or clipped rewards may help."
    )
