"""What an update costs beside its arithmetic: traces, and reads for which the device is waited for."""

import threading

import gymnasium
import keras
import numpy as np
import pytest
import tensorflow as tf
from feeding_worlds import StopAfter, cartpole_sequence

from dqn_lab.agents.dqn import DQN
from dqn_lab.models.networks import mlp
from dqn_lab.sequences.environment import EnvironmentSequence

both_modes = pytest.mark.parametrize("feeding", ["alternate", "overlap"])
READ = 3  # of the device at an update whose figures are read: the flag and two means


class Reads:
    """Counts the tensors that each thread has read from the device, by numpy(), float(), int() or bool()."""

    def __init__(self, monkeypatch):
        self.of_thread = {}
        owner = next(each for each in type(tf.constant(0)).__mro__ if "_numpy" in vars(each))
        read = owner._numpy

        def counted(tensor):
            name = threading.current_thread().name
            self.of_thread[name] = self.of_thread.get(name, 0) + 1
            return read(tensor)

        monkeypatch.setattr(owner, "_numpy", counted)

    @property
    def here(self):
        return self.of_thread.get(threading.current_thread().name, 0)


@pytest.fixture
def reads(monkeypatch):
    return Reads(monkeypatch)


class Counted(DQN):
    """Notes what each trace of the update sees, and the reads that acting needs."""

    def __init__(self, *arguments, reads=None, **keywords):
        super().__init__(*arguments, **keywords)
        self.reads, self.acted, self.acting_reads, self.traced = reads, 0, 0, ()

    def act_values(self, states):
        before = self.reads.here
        values = super().act_values(states)
        self.acted += 1
        self.acting_reads += self.reads.here - before
        return values

    def train_step(self, batch):
        self.traced = (*self.traced, {key: (value.dtype.name, tuple(value.shape)) for key, value in batch.items()})
        return super().train_step(batch)


class ReadsOfEachUpdate(keras.callbacks.Callback):
    """Keeps the reads from each update's beginning to its end, without those for acting."""

    def __init__(self, reads):
        super().__init__()
        self.reads, self.counts = reads, []

    def _count(self):
        return self.reads.here - self.model.acting_reads

    def on_train_batch_begin(self, batch, logs=None):
        self.begun = self._count()

    def on_train_batch_end(self, batch, logs=None):
        self.counts.append(self._count() - self.begun)


class Logs(keras.callbacks.Callback):
    """Keeps the logs of each update."""

    def __init__(self):
        super().__init__()
        self.updates, self.epochs = [], []

    def on_train_batch_end(self, batch, logs=None):
        self.updates.append(dict(logs))

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append(dict(logs))


class Numbering(DQN):
    """Learns nothing; its one figure is the update's number."""

    def train_step(self, batch):
        return {"mine": tf.cast(self.update_count.value + 1, tf.float32)}


def _agent(cls=DQN, **settings):
    agent = cls(mlp((4,), 2, hidden=(8,), seed=3), **{"target_period_updates": 5} | settings)
    agent.compile(keras.optimizers.Adam(0.01))
    return agent


def _copied(variables):
    return [np.array(variable) for variable in variables]


# The shim itself.


def test_every_way_to_read_a_tensor_or_a_variable_is_counted(reads):
    tensor, variable = tf.constant(3.0), keras.Variable(3.0)
    ways = [float, int, bool, lambda x: x.numpy(), np.array]
    for number, way in enumerate(ways, start=1):
        way(tensor) if way is not np.array else way(variable)
        assert reads.here == number
    tf.constant(1.0) + tensor
    assert reads.here == len(ways)


# Reads.


@both_modes
def test_the_device_is_read_at_the_very_first_update_every_tenth_and_an_epochs_last_only(feeding, reads):
    agent, counts = _agent(Counted, reads=reads), ReadsOfEachUpdate(reads)
    fitting = threading.current_thread().name
    sequence = cartpole_sequence(feeding, updates_per_epoch=40)
    agent.fit(sequence, verbose=0, callbacks=[counts], log_period_updates=10)
    assert counts.counts == [READ if number in (1, 10, 20, 30, 40) else 0 for number in range(1, 41)]
    assert (agent.acted, agent.acting_reads) == (40, 40)  # one read of one tensor for each decision
    assert set(reads.of_thread) == {fitting}

    counts.counts = []
    sequence.updates_per_epoch = 13
    agent.fit(sequence, epochs=2, verbose=0, callbacks=[counts], log_period_updates=10)
    read = [number for number, count in enumerate(counts.counts, start=41) if count]
    assert read == [50, 53, 60, 66]
    assert {count for count in counts.counts if count} == {READ}


@both_modes
def test_an_update_itself_reads_nothing(feeding, reads):
    agent, sequence = _agent(), cartpole_sequence(feeding)
    batch = sequence[0]
    agent.update(batch)
    before = reads.here
    for _ in range(3):
        agent.update(batch)
        agent.q_values(batch["state"])
    assert reads.here == before
    assert agent.updates == 4


# Traces.


@both_modes
def test_update_and_values_are_compiled_once_for_each_shape(feeding, reads):
    agent, sequence = _agent(Counted, reads=reads), cartpole_sequence(feeding, updates_per_epoch=20)
    agent.fit(sequence, verbose=0, callbacks=[StopAfter(1)])
    traced = agent.traced
    agent.fit(sequence, epochs=2, verbose=0)
    agent.update(sequence[0])
    assert agent.updates == 42
    assert agent.traced == traced
    assert agent._compiled_update.trace_count == 1
    assert agent._compiled_q_values.trace_count == 1
    for rows in (2, 8, 2, 8):
        agent.act_values(np.zeros((rows, 4), np.float32))
    assert agent._compiled_q_values.trace_count == 3


@both_modes
def test_bytes_reach_the_update_as_bytes_of_a_full_shape(feeding, reads):
    class Bytes(EnvironmentSequence):
        def get_feature_by_index(self, index):
            return np.clip(100 * np.abs(super().get_feature_by_index(index)), 0, 255).astype(np.uint8)

    usual = {"replay_capacity_steps": 400, "replay_min_steps": 40, "updates_per_epoch": 5, "batch_size": 6}
    sequence = Bytes(lambda: gymnasium.make("CartPole-v1"), num_envs=4, epsilon=0.2, feeding=feeding, **usual)
    agent = Counted(mlp((4,), 2, state_dtype="uint8"), target_period_updates=5, reads=reads)
    agent.compile("sgd")
    agent.fit(sequence, epochs=2, verbose=0)
    assert agent.updates == 10
    for seen in agent.traced:
        assert seen == {
            "state": ("uint8", (6, 4)),
            "action": ("int32", (6,)),
            "reward": ("float32", (6,)),
            "discount": ("float32", (6,)),
            "next_state": ("uint8", (6, 4)),
            "weight": ("float32", (6,)),
            "index": ("int64", (6,)),
        }


# Figures.


@both_modes
def test_figures_of_a_users_own_train_step_are_floats_as_old_as_the_last_read(feeding):
    agent, logs = _agent(Numbering), Logs()
    sequence = cartpole_sequence(feeding, updates_per_epoch=9)
    history = agent.fit(sequence, epochs=2, verbose=0, callbacks=[logs], log_period_updates=4)
    assert [each["mine"] for each in logs.updates] == [1, 1, 1, 4, 4, 4, 4, 8, 9, 9, 9, 12, 12, 12, 12, 16, 16, 18]
    assert {type(each["mine"]) for each in logs.updates} == {float}
    assert [each["mine"] for each in logs.epochs] == history.history["mine"] == [9.0, 18.0]
    logs.updates = []
    agent.fit(sequence, verbose=0, callbacks=[logs], log_period_updates=4)
    assert [each["mine"] for each in logs.updates] == [18, 20, 20, 20, 20, 24, 24, 24, 27]


def test_losses_that_are_read_at_each_update_are_the_running_means():
    running = []

    class Running(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            running.append((logs["loss"], float(self.model.loss_mean.result())))

    history = _agent().fit(cartpole_sequence(), verbose=0, callbacks=[Running()], log_period_updates=1)
    assert len(set(running)) == 10
    assert all(logged == mean for logged, mean in running)
    assert history.history["loss"] == [running[-1][0]]


@pytest.mark.parametrize(("value", "error"), [(0, ValueError), (2.5, TypeError)])
def test_the_log_period_is_a_number_of_updates(value, error):
    sequence, agent = cartpole_sequence(), _agent()
    with pytest.raises(error, match="`log_period_updates`[^\n]*Received: log_period_updates="):
        agent.fit(sequence, verbose=0, log_period_updates=value)
    agent.fit(sequence, verbose=0)
    assert agent.updates == 10


# What is not finite.


class BreaksAt13(DQN):
    """The loss of update 13 is no number, unless it has been mended."""

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.mended = tf.Variable(False)

    def example_losses(self, batch):
        broken = tf.equal(self.update_count.value, 12) & ~self.mended
        return tf.where(broken, np.nan, super().example_losses(batch))


class WeightsOfEachUpdate(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.weights = []

    def on_train_batch_end(self, batch, logs=None):
        self.weights.append(_copied([*self.model.weights, *self.model.optimizer.variables]))


@both_modes
@pytest.mark.parametrize(
    ("updates_per_epoch", "log_period_updates", "ended"),
    [(40, 10, 19), (16, 10, 15), (40, 13, 12), (40, 1, 12)],
    ids=["the period's read", "the epoch's last", "the update's own read", "every update"],
)
def test_a_loss_that_is_no_number_is_heard_of_at_the_next_read(feeding, updates_per_epoch, log_period_updates, ended):
    sequence, kept = cartpole_sequence(feeding, updates_per_epoch=updates_per_epoch), WeightsOfEachUpdate()
    agent = _agent(BreaksAt13, target_period_updates=2)
    with pytest.raises(FloatingPointError, match="^The loss of update 13 is not finite; the update was not made."):
        agent.fit(sequence, verbose=0, callbacks=[kept], log_period_updates=log_period_updates)
    assert len(kept.weights) == ended  # updates that ended before the one that raised
    assert agent.updates == agent.optimizer.iterations == 12
    assert not sequence.epoch_complete
    variables, of_12 = [*agent.weights, *agent.optimizer.variables], kept.weights[11]
    for later in [*kept.weights[12:], _copied(variables)]:
        compared = zip(variables, of_12, later, strict=True)
        changed = {variable.path for variable, old, new in compared if not np.array_equal(old, new)}
        assert changed <= {agent.unfinite.path}

    agent.mended.assign(True)
    history = agent.fit(sequence, verbose=0, log_period_updates=10)
    assert agent.updates == agent.optimizer.iterations == 12 + updates_per_epoch
    assert int(agent.unfinite) == 0
    assert np.isfinite(history.history["loss"]).all()
