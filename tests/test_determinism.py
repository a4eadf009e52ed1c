"""The same seed gives the same bits, whoever looks on, and however the epochs are shared out between fits."""

import functools
import threading

import feeding_worlds as worlds
import gymnasium
import keras
import numpy as np
import pytest
from feeding_worlds import At, Losses, NumberedSequence, StopAfter, echo_agent

from dqn_lab.agents.dqn import DQN
from dqn_lab.models.networks import mlp
from dqn_lab.sequences.environment import EnvironmentSequence

both_modes = pytest.mark.parametrize("feeding", ["alternate", "overlap"])


class Recorded(EnvironmentSequence):
    """CartPole with a tape of the actions and the rewards of every decision."""

    def __init__(self, **settings):
        super().__init__(
            lambda: gymnasium.make("CartPole-v1"),
            **{
                "num_envs": 4,
                "replay_capacity_steps": 400,
                "replay_min_steps": 100,
                "updates_per_epoch": 40,
                "batch_size": 16,
                "epsilon": 0.2,
            }
            | settings,
        )
        self.actions_taken, self.rewards_paid = [], []

    def choose_actions(self, values, generator):
        actions = super().choose_actions(values, generator)
        self.actions_taken.extend(actions.tolist())
        return actions

    def produce_batch(self, *arguments):
        batch = super().produce_batch(*arguments)
        self.rewards_paid.append(self.get_latest_reward().tolist())
        return batch


def train(feeding, fits, *, seed=1, callbacks=(), stop_after=None):
    """Trains by fits of so many epochs; returns all that a later update could depend on, and what was done."""
    sequence, losses = Recorded(feeding=feeding, seed=seed), Losses()
    agent = DQN(mlp((4,), 2, hidden=(16,), seed=seed), double=True, target_period_updates=30)
    agent.compile(keras.optimizers.Adam(0.03))
    for epochs in fits:
        agent.fit(sequence, epochs=epochs, verbose=0, callbacks=[losses, *callbacks])
        callbacks = ()
    state = sequence.get_state()
    return {
        "weights": [np.array(weight) for weight in agent.get_weights()],
        "optimizer": [np.array(variable) for variable in agent.optimizer.variables],
        "ring": state["replay"],
        "simulation": state["simulation"],
        "generators": state["generators"],
        "batches": state["batches"],
        "carried": state["carried"],
        "actions": sequence.actions_taken,
        "rewards": sequence.rewards_paid,
        "losses": losses.losses,
    }


@functools.cache
def undisturbed(feeding, epochs):
    return train(feeding, [epochs])


def assert_same_bits(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_equal(one[name], other[name], err_msg=name)


@both_modes
def test_two_fits_of_two_epochs_give_the_bits_of_one_fit_of_four(feeding):
    whole = undisturbed(feeding, 4)
    assert_same_bits(whole, train(feeding, [2, 2]))
    assert len(whole["actions"]) == 100 + 4 * 160
    assert len(set(map(tuple, whole["ring"]["frames"]))) > 300


@both_modes
def test_a_fit_broken_off_gives_the_same_bits_in_every_run(feeding):
    runs = [train(feeding, [2, 1], callbacks=[StopAfter(23)]) for _ in range(2)]
    assert_same_bits(*runs)
    assert runs[0]["batches"] == 63


@pytest.mark.case("B131")
@both_modes
def test_the_same_seed_repeats_every_action_reward_and_loss_and_another_differs_within_50_actions(feeding):
    one, other = undisturbed(feeding, 4), train(feeding, [1], seed=2)
    assert len(one["actions"]) >= 500
    assert_same_bits(one, train(feeding, [4]))
    assert one["actions"][:50] != other["actions"][:50]
    assert one["losses"][:40] != other["losses"]
    assert (len(one["rewards"]), len(one["losses"])) == (160, 160)


def test_the_two_ways_of_feeding_differ_only_in_the_age_of_the_weights():
    one, other = undisturbed("alternate", 2), undisturbed("overlap", 2)
    assert one["actions"][:104] == other["actions"][:104]  # the fill and an epoch's first step
    assert one["losses"][0] == other["losses"][0]
    assert one["losses"] != other["losses"]
    assert one["batches"] == other["batches"] == 80


@both_modes
def test_looks_from_callbacks_and_from_another_thread_change_nothing(feeding):
    quiet = undisturbed(feeding, 2)
    looks, stop, begun = [], threading.Event(), threading.Event()

    class Look(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            self.thread = threading.Thread(target=look_on, args=(self.model.sequence,))
            self.thread.start()
            worlds.wait_for(begun)

        def on_train_batch_end(self, batch, logs=None):
            _look(self.model.sequence)

        def on_train_end(self, logs=None):
            stop.set()
            self.thread.join(worlds.GUARD)

    def look_on(sequence):
        while not stop.is_set():
            looks.append(_look(sequence)["index"].shape)
            begun.set()

    assert_same_bits(quiet, train(feeding, [2], callbacks=[Look()]))
    assert looks and set(looks) == {(16,)}


def _look(sequence):
    sequence.get_latest_feature(), sequence.get_latest_observation(), sequence.get_latest_action()
    sequence.sample_indices(4), sequence.get_minibatch(), len(sequence), repr(sequence)
    return sequence[3]


@both_modes
def test_evaluation_in_a_callback_changes_nothing(feeding):
    quiet = undisturbed(feeding, 2)
    played = []

    class Play(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            twin = self.model.sequence.create_validation_instance(0.05, num_envs=2)
            twin.policy = self.model.q_values
            for _ in range(20):
                twin.simulate_single()
            played.append(twin.get_latest_reward().tolist())

    assert_same_bits(quiet, train(feeding, [2], callbacks=[Play()]))
    assert played == [[1.0, 1.0]] * 2


@both_modes
def test_the_steps_after_a_stop_are_those_of_the_updates_made_and_the_one_ahead(feeding):
    sequence, agent, made = NumberedSequence(feeding), echo_agent(), 0
    for stop in (2, 4):
        agent.fit(sequence, epochs=1, verbose=0, callbacks=[StopAfter(stop)])
        made += stop
        assert sequence.steps == 8 + (made + (feeding == "overlap")) * 2
    agent.fit(sequence, epochs=1, verbose=0, callbacks=[At(0, lambda: None)])
    assert sequence.steps == 8 + (made + 5) * 2
    assert sequence.late_decisions() == []
