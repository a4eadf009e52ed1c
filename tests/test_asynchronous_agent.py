"""The agent of an asynchronous run: its values, its play on twins, its parameters and its file."""

import math
import sys

import gymnasium
import keras
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from dqn_lab.agents.checks import check_fits
from dqn_lab.asynchronous.agent import AsynchronousAgent
from dqn_lab.callbacks.evaluation import Evaluation
from dqn_lab.checkpoint import save_agent
from dqn_lab.evaluation import evaluate
from dqn_lab.initial_weights import load_initial_weights
from dqn_lab.models.networks import mlp
from dqn_lab.sequences.environment import EnvironmentSequence
from dqn_lab.snapshots import load_agent

STATES = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
KINDS = {"q": {}, "actor-critic": {"actor_critic": True}, "lstm": {"actor_critic": True, "lstm_units": 4}}


class Dice(gymnasium.Env):
    """Games of 2 to 6 steps that show random numbers; the return tells the actions in their order."""

    def __init__(self):
        self.observation_space = Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left, self.digit = int(self.np_random.integers(2, 7)), 1
        return self._observe(), {}

    def step(self, action):
        self.left, self.digit = self.left - 1, self.digit * 2
        return self._observe(), float(action * self.digit), self.left == 0, False, {}

    def _observe(self):
        return self.np_random.normal(size=3).astype(np.float32)


def network_of(kind, seed=1):
    network = mlp((3,), 2, hidden=(8,), seed=seed, **KINDS[kind])
    for weight in network.trainable_weights:  # logits far enough from 0 to matter
        weight.assign(weight.numpy() * 3)
    return network


def agent_of(kind, *, seed=1, **given):
    return AsynchronousAgent(network_of(kind, seed), actor_critic=kind != "q", **given)


def sequence_of():
    return EnvironmentSequence(
        Dice, replay_capacity_steps=8, replay_min_steps=1, updates_per_epoch=1, batch_size=1, epsilon=0.0, gamma=0.5
    )


@pytest.fixture(scope="module")
def sequence():
    return sequence_of()


def play(agent, sequence, num_envs, *, network=None, seed=5):
    twin = sequence.create_validation_instance(0.0, num_envs=num_envs)
    agent.lead(twin, network)
    return evaluate(twin, num_episodes=12, num_max_iter=math.inf, seed=seed)


def memory_of(rows=6, units=4):
    return [np.zeros((rows, units), np.float32)] * 2


def call(network, states, memory):
    return network([keras.ops.convert_to_tensor(each) for each in (states, *memory)])


def batch_of():
    generator = np.random.default_rng(1)
    return {
        "state": STATES,
        "action": np.array([0, 1, 0, 1, 1, 0], np.int32),
        "reward": generator.normal(size=6).astype(np.float32),
        "discount": np.array([0.9, 0, 0.9, 0.9, 0, 0.9], np.float32),
        "next_state": generator.normal(size=(6, 3)).astype(np.float32),
    }


def test_values_and_errors_of_action_values():
    agent, batch = agent_of("q"), batch_of()
    values, next_values = agent.network(STATES).numpy(), agent.network(batch["next_state"]).numpy()
    np.testing.assert_allclose(agent.act_values(STATES), values, rtol=1e-5)
    np.testing.assert_allclose(agent.state_values(STATES), values.max(axis=1), rtol=1e-5)
    errors = batch["reward"] + batch["discount"] * next_values.max(axis=1) - values[np.arange(6), batch["action"]]
    np.testing.assert_allclose(agent.td_errors(batch), errors, rtol=1e-4)


def test_values_and_errors_of_an_actor_critic():
    agent, batch = agent_of("actor-critic"), batch_of()
    (logits, value), (_, next_value) = (agent.network(batch[name]) for name in ("state", "next_state"))
    np.testing.assert_allclose(agent.act_values(STATES), logits, rtol=1e-5)
    np.testing.assert_allclose(agent.state_values(STATES), value, rtol=1e-5)
    errors = batch["reward"] + batch["discount"] * next_value.numpy() - value.numpy()
    np.testing.assert_allclose(agent.td_errors(batch), errors, rtol=1e-4)


def test_an_lstm_values_a_state_without_memory_and_the_next_one_with_it():
    agent, batch = agent_of("lstm"), batch_of()
    _, value, *memory = call(agent.network, STATES, memory_of())
    _, next_value, *_ = call(agent.network, batch["next_state"], memory)
    np.testing.assert_allclose(agent.state_values(STATES), value, rtol=1e-5)
    errors = batch["reward"] + batch["discount"] * next_value.numpy() - value.numpy()
    np.testing.assert_allclose(agent.td_errors(batch), errors, rtol=1e-4)


def test_actions_are_the_largest_values_or_drawn_by_the_policy():
    q, greedy, sampling = agent_of("q"), agent_of("actor-critic", greedy=True), agent_of("actor-critic")
    for agent in (q, greedy):
        assert np.array_equal(agent.act(STATES), agent.act_values(STATES).argmax(axis=1))
    logits = sampling.act_values(STATES[:1])[0]
    drawn = sampling.act(np.repeat(STATES[:1], 4000, axis=0), generator=np.random.default_rng(0))
    odds = 1 / (1 + np.exp(logits[0] - logits[1]))
    assert 0.05 < odds < 0.95
    assert drawn.mean() == pytest.approx(odds, abs=0.03)
    at_random = q.act(np.repeat(STATES[:1], 4000, axis=0), 1.0, np.random.default_rng(0))
    assert at_random.mean() == pytest.approx(0.5, abs=0.03)


def test_acting_without_dice_memory_or_the_right_shape_is_refused_in_a_line():
    with pytest.raises(ValueError, match=r"need a `generator`. Received: epsilon=0.0, generator=None, a policy that"):
        agent_of("actor-critic").act(STATES)
    with pytest.raises(ValueError, match=r"need a `generator`. Received: epsilon=0.5, generator=None$"):
        agent_of("q").act(STATES, 0.5)
    with pytest.raises(ValueError, match=r"`agent.lead\(twin\)` keeps its memory. Received: lstm_units=4$"):
        agent_of("lstm", greedy=True).act(STATES)
    with pytest.raises(ValueError, match=r"States must have shape \[B, 3\]. Received: \(3,\)$"):
        agent_of("q").act(STATES[0])


@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_evaluations_do_not_depend_on_the_number_of_lanes(kind, greedy, sequence):
    agent = agent_of(kind, greedy=greedy)
    alone, beside = play(agent, sequence, 1), play(agent, sequence, 3)
    assert alone == beside
    assert len(set(alone.returns)) > 3


def test_a_policy_is_sampled_anew_in_each_game_and_by_each_seed_only(sequence):
    agent = agent_of("actor-critic")
    first = play(agent, sequence, 2)
    assert play(agent, sequence, 2) == first
    assert play(agent, sequence, 2, seed=6) != first
    assert play(agent_of("actor-critic", greedy=True), sequence, 2) != first
    states = np.zeros((2, 3), np.float32)
    twin = sequence.create_validation_instance(0.0, num_envs=2)
    agent.lead(twin)
    noise = []
    for seed in (5, 6):
        twin.reseed(seed)
        noise += (twin.policy(states) - agent.act_values(states)).tolist()
    assert len(set(map(tuple, noise))) == 4


def test_a_twin_that_begins_anew_is_played_as_before(sequence):
    agent = agent_of("lstm")
    twin = sequence.create_validation_instance(0.0, num_envs=3)
    agent.lead(twin)
    played = []
    for _ in range(2):
        twin.reseed(5)
        twin.simulate_single()  # all lanes are still in their first games, whose numbers come again
        played.append(twin.policy(STATES[:3]))
    assert np.array_equal(*played)


def test_a_game_without_a_number_begins_without_memory_too(sequence):
    agent = agent_of("lstm", greedy=True)
    twin = sequence.create_validation_instance(0.0, num_envs=2)
    agent.lead(twin)
    begun = call(agent.network, STATES[:2], memory_of(rows=2))[0]
    for _ in range(2):
        twin.restart(7)
        np.testing.assert_allclose(twin.policy(STATES[:2]), begun, rtol=1e-5)
        twin.simulate_single()


def test_the_memory_of_a_game_goes_on_from_step_to_step(sequence):
    agent = agent_of("lstm", greedy=True)
    twin = sequence.create_validation_instance(0.0, num_envs=1)
    agent.lead(twin)
    twin.reseed(0)
    memory = memory_of(rows=1)
    for state in STATES[:3]:
        logits, _, *memory = call(agent.network, state[None], memory)
        np.testing.assert_allclose(twin.policy(state[None]), logits, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_another_network_of_its_kind_can_lead(kind, sequence):
    agent, other = agent_of(kind), agent_of(kind, seed=9)
    assert play(agent, sequence, 2, network=other.network) == play(other, sequence, 2) != play(agent, sequence, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_evaluated_as_any_agent(kind):
    sequence, agent = sequence_of(), agent_of(kind)
    evaluation = Evaluation(sequence.create_validation_instance, 0.0, 5, math.inf, 6, None, seed=5, num_envs=2)
    sequence.epoch_complete, agent.sequence = True, sequence
    evaluation.set_model(agent)
    evaluation.on_train_begin()
    evaluation.on_epoch_end(0, logs := {})
    assert logs["eval_return_mean"] == np.mean(play(agent, sequence, 1).returns[:5])
    untrained = agent_of(kind)
    untrained.network.set_weights(mlp((3,), 2, hidden=(8,), seed=1, **KINDS[kind]).get_weights())
    assert logs["baseline_untrained_return_mean"] == np.mean(play(untrained, sequence, 1).returns[:5])
    assert math.isfinite(logs["initial_state_value"]) and math.isfinite(logs["td_error"])


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_are_the_trainable_variables_in_their_order(kind):
    agent, other = agent_of(kind), agent_of(kind, seed=9)
    parameters = agent.get_parameters()
    assert (parameters.dtype, parameters.shape) == (np.float32, (agent.network.count_params(),))
    first = agent.network.trainable_variables[0].numpy()
    assert np.array_equal(parameters[: first.size], first.ravel())
    other.set_parameters(parameters)
    for one, two in zip(other.network.get_weights(), agent.network.get_weights(), strict=True):
        assert np.array_equal(one, two)


@pytest.mark.parametrize("change", [lambda flat: flat[1:], lambda flat: flat[None]])
def test_parameters_of_another_size_are_refused_and_change_nothing(change):
    agent = agent_of("q")
    before = agent.get_parameters()
    with pytest.raises(ValueError, match=r"`parameters` must have shape \(50,\). Received: \("):
        agent.set_parameters(change(before) + 1)
    assert np.array_equal(agent.get_parameters(), before)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_loaded_from_a_run_although_nothing_has_imported_its_class(kind, tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text("{}")
    agent = agent_of(kind, greedy=kind == "lstm")
    agent.updates = 7
    save_agent(tmp_path / "best", agent, {"steps": 30, "updates": 7})
    monkeypatch.delitem(keras.saving.get_custom_objects(), "dqn_lab>AsynchronousAgent")
    monkeypatch.delitem(sys.modules, "dqn_lab.asynchronous.agent")
    loaded = load_agent(tmp_path)
    assert (loaded.updates, loaded.actor_critic, loaded.greedy) == (7, kind != "q", kind == "lstm")
    assert np.array_equal(loaded.get_parameters(), agent.get_parameters())
    assert np.array_equal(loaded.state_values(STATES), agent.state_values(STATES))
    network = network_of(kind, seed=9)
    load_initial_weights(network, str(tmp_path))
    load_initial_weights(network, str(tmp_path / "best" / "agent.keras"))
    assert np.array_equal(AsynchronousAgent(network, actor_critic=kind != "q").get_parameters(), agent.get_parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_its_network_is_compared_with_a_sequence_as_any(kind, sequence):
    check_fits(network_of(kind), sequence)
    with pytest.raises(
        ValueError, match=r"must return one value per action, 2 here. Received: output_shape=\(None, 3\)"
    ):
        check_fits(mlp((3,), 3, **KINDS[kind]), sequence)


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (
            lambda: AsynchronousAgent(network_of("q"), actor_critic=True),
            ValueError,
            "Received: 1 inputs and 1 outputs$",
        ),
        (lambda: AsynchronousAgent(network_of("lstm")), ValueError, r"return action values \[B, A\]"),
        (lambda: AsynchronousAgent(network_of("q"), actor_critic=1), TypeError, "Received: actor_critic=1$"),
        (lambda: AsynchronousAgent(network_of("q"), greedy=None), TypeError, "Received: greedy=None$"),
        (lambda: AsynchronousAgent("nature", actor_critic=True), TypeError, "Received: network='nature'$"),
    ],
)
def test_what_it_cannot_be_made_of_is_refused(make, error, said):
    with pytest.raises(error, match=said):
        make()
