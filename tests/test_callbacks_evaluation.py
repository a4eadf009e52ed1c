"""The evaluation callback: when it evaluates, what it adds to the logs and what it says."""

import logging
import math
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from scripted_twin import ScriptedTwin

from dqn_lab.callbacks.evaluation import Evaluation
from dqn_lab.evaluation import NO_RESULT
from dqn_lab.saved_state import read_state, write_state

INF = math.inf
LIMITS = {"num_episodes": 1, "num_max_iter": INF}


class StubAgent(keras.Model):
    """What the callback may know of an agent. Its value of a state is (restarts, lane)."""

    def __init__(self, network=None):
        super().__init__()
        began = {"kernel_initializer": "zeros", "bias_initializer": "ones"}
        layers = [keras.Input((3,)), keras.layers.Dense(2, **began)]
        self.network = network or keras.Sequential(layers)
        self.sequence = SimpleNamespace(gamma=0.9, steps=1000, protocol=None, epoch_complete=True)
        self.states_seen = []

    def call(self, inputs):
        return self.network(inputs)

    def q_values(self, states):
        self.states_seen.append(len(states))
        return keras.ops.convert_to_tensor(np.asarray(states) * [1, 1, 0] @ np.eye(3)[:, :2])

    def state_values(self, states):
        return keras.ops.max(self.q_values(states), axis=-1)

    def lead(self, twin, network=None):
        twin.policy = self.q_values if network is None else network.predict_on_batch

    def td_errors(self, batch):
        errors = batch["reward"] + batch["discount"] - batch["state"][:, 1]
        return keras.ops.convert_to_tensor(errors)

    def fit(self, epochs, callbacks):
        self.fit_callbacks = tuple(callbacks)
        self.compile(optimizer="sgd", loss="mse", run_eagerly=True)
        ones = np.ones((1, 3)), np.ones((1, 2))
        return super().fit(*ones, epochs=epochs, callbacks=list(callbacks), verbose=0)


def is_agents(policy):
    return getattr(policy, "__name__", "") == "q_values"


class Scripted:
    """A `sequence_constructor` whose agent scores as written down, evaluation by evaluation."""

    def __init__(self, scores, lengths=(3,), **twin):
        self.scores, self.lengths, self.twin_arguments = scores, lengths, twin
        self.made = []

    def __call__(self, epsilon, num_envs):
        twin = ScriptedTwin(self._game, num_envs, **self.twin_arguments)
        twin.epsilon = epsilon
        self.made.append(twin)
        return twin

    def _game(self, policy, number):
        length = self.lengths[number % len(self.lengths)]
        if policy is None:
            return [0.0] * (length - 1) + [-30.0], False
        evaluations = [each for each in self.made[-1].policies if is_agents(each)]
        score = self.scores[len(evaluations) - 1] if is_agents(policy) else -25.0
        return [0.0] * (length - 1) + [score], False


class Tape(keras.callbacks.Callback):
    """Keeps the logs of each epoch as the callbacks after it see them."""

    def __init__(self):
        super().__init__()
        self.logs = []

    def on_epoch_end(self, epoch, logs=None):
        self.logs.append(dict(logs))


def make_evaluation(constructor, **given):
    arguments = LIMITS | {"num_initial_states": 5, "init_state_dir": None, "num_envs": 2}
    return Evaluation(constructor, 0.05, **arguments | given)


def run(scores, *, epochs, agent=None, before=(), after=(), **given):
    evaluation, tape = make_evaluation(Scripted(scores), **given), Tape()
    agent = agent or StubAgent()
    agent.fit(epochs, [*before, evaluation, tape, *after])
    return evaluation, tape.logs


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.INFO, logger="dqn_lab")
    return caplog


def test_the_first_epoch_is_evaluated_whatever_the_period_and_then_every_period():
    _, logs = run([1.0, 2.0, 3.0], epochs=7, period_epochs=3)
    assert [each["eval_return_mean"] for each in logs] == [1, 1, 2, 2, 2, 3, 3]


def test_the_period_counts_the_epochs_of_all_fits():
    constructor, agent, tape = Scripted([1.0, 2.0]), StubAgent(), Tape()
    evaluation = make_evaluation(constructor, period_epochs=3)
    agent.fit(2, [evaluation, tape])
    agent.fit(2, [evaluation, tape])
    assert [each["eval_return_mean"] for each in tape.logs] == [1, 1, 2, 2]
    assert len(constructor.made) == 1


def test_a_partial_epoch_evaluates_nothing_and_carries_the_last_one_on():
    agent, tape = StubAgent(), Tape()
    evaluation = make_evaluation(Scripted([1.0, 2.0]))
    for complete in (False, True, False, True):
        agent.sequence.epoch_complete = complete
        agent.fit(1, [evaluation, tape])
    assert [each["eval_return_mean"] for each in tape.logs] == [-INF, 1, 1, 2]
    assert tape.logs[0]["eval_episodes"] == 0.0
    assert tape.logs[0]["td_error"] == INF


def test_every_figure_is_a_float_in_the_logs_and_never_nan():
    _, (logs,) = run([4.0], epochs=1)
    ours = {name: value for name, value in logs.items() if name != "loss"}
    assert ours == {
        "eval_return_mean": 4.0,
        "eval_return_best": 4.0,
        "eval_return_std": 0.0,
        "eval_length_mean": 3.0,
        "eval_episodes": 1.0,
        "eval_episodes_cut": 0.0,
        "eval_episodes_capped": 0.0,
        "initial_state_value": pytest.approx(1.8),  # of (1,0) (1,1) (2,0) (2,1) (3,0)
        "td_error": pytest.approx(np.mean([0.9, 0.1, 0.9, 0.1, 0.9])),  # 0 + 0.9 - lane
        "baseline_random_return_mean": -30.0,
        "baseline_untrained_return_mean": -25.0,
    }
    assert all(type(value) is float for value in ours.values())


def test_where_no_episode_finishes_the_logs_hold_minus_infinity():
    evaluation, logs = run([4.0, 4.0], epochs=2, num_episodes=INF, num_max_iter=2)
    assert math.isnan(evaluation.result.return_mean)
    for each in logs:
        assert each["eval_return_mean"] == each["eval_return_std"] == -INF
        assert each["eval_length_mean"] == each["baseline_random_return_mean"] == -INF
        assert (each["eval_episodes"], each["eval_episodes_cut"]) == (0.0, 1.0)


@pytest.mark.case("B067")
def test_the_best_model_is_saved_after_the_better_evaluations_and_nothing_warns(tmp_path):
    best = keras.callbacks.ModelCheckpoint(
        str(tmp_path / "{epoch}.weights.h5"),
        monitor="eval_return_mean",
        mode="max",
        save_best_only=True,
        save_weights_only=True,
    )
    run([-21.0, -20.0, -20.5], epochs=3, after=[best])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.weights.h5", "2.weights.h5"]


@pytest.mark.case("B067")
def test_epochs_without_an_evaluation_of_their_own_do_not_warn(tmp_path):
    monitored = {"monitor": "eval_return_mean", "mode": "max"}
    best = keras.callbacks.ModelCheckpoint(
        str(tmp_path / "{epoch}.weights.h5"),
        save_best_only=True,
        save_weights_only=True,
        **monitored,
    )
    stop = keras.callbacks.EarlyStopping(patience=99, **monitored)
    _, logs = run([-21.0, -20.0, -20.5], epochs=5, period_epochs=2, after=[best, stop])
    assert [each["eval_return_mean"] for each in logs] == [-21, -20, -20, -20.5, -20.5]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.weights.h5", "2.weights.h5"]


def test_nothing_finished_at_first_spoils_no_later_best(tmp_path):
    best = keras.callbacks.ModelCheckpoint(
        str(tmp_path / "{epoch}.weights.h5"),
        monitor="eval_return_mean",
        mode="max",
        save_best_only=True,
        save_weights_only=True,
    )
    agent, tape = StubAgent(), Tape()
    constructor = Scripted([None, -20.0, -20.0], lengths=(9,))
    evaluation = make_evaluation(constructor, num_episodes=INF, num_max_iter=8)
    constructor.scores[0] = -21.0
    agent.fit(1, [evaluation, tape, best])
    constructor.lengths = (3,)
    agent.fit(2, [evaluation, tape, best])
    assert [each["eval_return_mean"] for each in tape.logs] == [-INF, -20, -20]
    assert best.best == -20


def test_a_monitor_that_stands_before_the_evaluation_is_named(said):
    stop = keras.callbacks.EarlyStopping(monitor="eval_return_mean", mode="max", patience=9)
    with pytest.warns(UserWarning, match="eval_return_mean"):  # Keras's own, at the first epoch
        run([1.0, 2.0], epochs=2, before=[stop])
    lines = [each.getMessage() for each in said.records if "stands before" in each.getMessage()]
    assert lines == [
        "EarlyStopping stands before Evaluation and sees `eval_return_mean` one epoch late: place it after"
    ]


def test_monitors_after_it_or_of_other_figures_are_not_named(said):
    of_loss = keras.callbacks.EarlyStopping(monitor="loss", mode="min", patience=9)
    after = keras.callbacks.EarlyStopping(monitor="eval_return_mean", mode="max", patience=9)
    run([1.0], epochs=1, before=[of_loss], after=[after])
    assert "stands before" not in said.text


def test_each_evaluation_is_one_line_with_the_scores_to_compare_it_with(said):
    agent = StubAgent()
    agent.sequence.protocol = "nature-2015 (final epsilon 0.02)"
    run([4.0, 6.0], epochs=2, agent=agent, num_episodes=2)
    lines = [each.getMessage() for each in said.records if "evaluation at" in each.getMessage()]
    assert lines == [
        "evaluation at 1,000 steps [nature-2015 (final epsilon 0.02)]: return "
        f"{score} +/- 0, length 3 steps, 2 finished, 0 cut, 0 capped; "
        "initial-state value 1.8, random policy -30, untrained network -25"
        for score in (4, 6)
    ]


def test_the_line_says_so_when_no_episode_finished(said):
    run([4.0], epochs=1, num_episodes=INF, num_max_iter=2)
    assert "[no protocol]: no episode finished, 1 cut, 0 capped; initial-state value 1.8\n" in said.text


def test_the_baselines_are_measured_once_just_before_the_first_evaluation():
    constructor = Scripted([1.0, 2.0])
    evaluation = make_evaluation(constructor, seed=11)
    StubAgent().fit(2, [evaluation])
    random_seed, *others = constructor.made[0].seeds
    assert random_seed == 20_200_801
    assert others == [11, 11, 11]  # the untrained network and two evaluations


def test_the_untrained_score_is_of_the_network_as_it_began():
    agent, asked = StubAgent(), []
    constructor = Scripted([1.0])

    def game(policy, number):
        if policy is not None and not is_agents(policy):
            asked.append(np.asarray(policy(np.zeros((2, 3), np.float32))))
        return [1.0], False

    constructor._game = game
    agent.network.layers[-1].set_weights([np.full((3, 2), 9.0), np.zeros(2)])  # trained
    agent.fit(1, [make_evaluation(constructor)])
    assert asked
    np.testing.assert_array_equal(asked[0], np.ones((2, 2)))
    np.testing.assert_array_less(5, agent.network.layers[-1].kernel)  # the agent's own is untouched


def test_a_network_that_cannot_be_copied_leaves_the_untrained_score_out(said):
    class Own(keras.Model):
        def __init__(self, size):
            super().__init__()
            self.dense = keras.layers.Dense(size)

        def call(self, inputs):
            return self.dense(inputs)

    _, (logs,) = run([1.0], epochs=1, agent=StubAgent(Own(2)))
    assert logs["baseline_untrained_return_mean"] == -INF
    assert logs["eval_return_mean"] == 1.0
    assert "the untrained network's score is left out" in said.text


def test_initial_states_are_valued_in_batches_of_one_size():
    agent = StubAgent()
    _, (logs,) = run([1.0], epochs=1, agent=agent, num_initial_states=250, num_envs=3)
    assert [size for size in agent.states_seen if size != 3] == [100, 100, 100]
    restart, lane = np.divmod(np.arange(250), 3)  # rows 0 to 49 fill the last batch and count once
    assert logs["initial_state_value"] == pytest.approx(np.maximum(restart + 1, lane).mean())
    assert logs["td_error"] == pytest.approx(np.abs(0.9 - lane).mean())


def test_no_initial_states_leave_their_figures_out(said):
    _, (logs,) = run([1.0], epochs=1, num_initial_states=0)
    assert (logs["initial_state_value"], logs["td_error"]) == (-INF, INF)
    assert "initial-state value" not in said.text


def test_initial_states_are_read_by_the_next_run(tmp_path):
    first, second = Scripted([1.0]), Scripted([1.0])
    for constructor in (first, second):
        StubAgent().fit(1, [make_evaluation(constructor, init_state_dir=tmp_path)])
    assert first.made[0].restarts == [20_200_801, None, None]
    assert second.made[0].restarts == []


def test_the_twin_plays_with_the_evaluations_epsilon_and_lanes():
    constructor = Scripted([1.0])
    StubAgent().fit(1, [make_evaluation(constructor, num_envs=3)])
    assert (constructor.made[0].epsilon, constructor.made[0].num_envs) == (0.05, 3)


def test_a_continued_run_carries_the_last_evaluation_and_the_count_on():
    constructor, tape = Scripted([1.0, 2.0]), Tape()
    first = make_evaluation(constructor, period_epochs=3)
    StubAgent().fit(2, [first, tape])
    constructor = Scripted([7.0])
    continued = make_evaluation(constructor, period_epochs=3)
    continued.set_state(first.get_state())
    partial, agent = StubAgent(), StubAgent()
    partial.sequence.epoch_complete = False
    partial.fit(1, [continued, tape])
    agent.fit(1, [continued, tape])
    assert [each["eval_return_mean"] for each in tape.logs] == [1, 1, 1, 7]
    assert tape.logs[3]["baseline_untrained_return_mean"] == -25.0
    assert [is_agents(policy) for policy in constructor.made[0].policies] == [True]  # no baseline is played again
    assert tape.logs[3]["initial_state_value"] == tape.logs[0]["initial_state_value"]


@pytest.mark.parametrize("changed", [{"num_episodes": 2}, {"num_max_iter": 50}, {"epsilon": 0.1}])
def test_a_continued_run_with_other_limits_plays_its_baselines_anew(changed):
    first = make_evaluation(Scripted([1.0]))
    StubAgent().fit(1, [first])
    constructor = Scripted([7.0])
    arguments = LIMITS | {"epsilon": 0.05, "num_initial_states": 5, "init_state_dir": None} | changed
    continued = Evaluation(constructor, **arguments)
    continued.set_state(first.get_state())
    StubAgent().fit(1, [continued])
    assert len(constructor.made[0].policies) == 3  # the random one, the untrained network, the agent's


def test_a_continued_runs_states_are_read_from_the_file(tmp_path):
    first = make_evaluation(Scripted([1.0]), init_state_dir=tmp_path)
    StubAgent().fit(1, [first])
    constructor = Scripted([7.0])
    continued = make_evaluation(constructor, init_state_dir=tmp_path)
    continued.set_state(first.get_state())
    StubAgent().fit(1, [continued])
    assert constructor.made[0].restarts == []
    assert len(constructor.made[0].policies) == 1


def test_its_state_can_be_saved_whatever_came_of_the_evaluation(tmp_path):
    first = make_evaluation(Scripted([1.0]), num_episodes=INF, num_max_iter=2)  # no episode ends in 2 steps
    before = first.get_state()
    StubAgent().fit(1, [first])
    second = make_evaluation(Scripted([1.0]), num_episodes=INF, num_max_iter=90)
    StubAgent().fit(1, [second])
    for state, result in ((before, NO_RESULT), (first.get_state(), first.result), (second.get_state(), second.result)):
        write_state(tmp_path, "state", state)
        continued = make_evaluation(Scripted([1.0]), num_episodes=INF, num_max_iter=2)
        continued.set_state(read_state(tmp_path, "state"))
        assert continued.result == result
        assert continued.get_state()["logs"] == state["logs"]
    assert second.result.episodes == 30


def test_it_refuses_a_model_that_is_no_agent():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    evaluation = make_evaluation(Scripted([1.0]))
    evaluation.set_model(model)
    with pytest.raises(TypeError, match="needs an agent with `lead`, `state_values`, `td_errors`, `sequence`. "):
        evaluation.on_train_begin()


@pytest.mark.parametrize(
    ("given", "error", "rule"),
    [
        ({"sequence_constructor": "twin"}, TypeError, "`sequence_constructor` must be callable"),
        ({"epsilon": 1.5}, ValueError, "Received: epsilon=1.5"),
        ({"epsilon": lambda step: 0.05}, TypeError, "`epsilon` must be a number"),
        ({"num_episodes": 0}, ValueError, "Received: num_episodes=0"),
        ({"num_episodes": INF}, ValueError, "must be finite"),
        ({"num_initial_states": -1}, ValueError, "Received: num_initial_states=-1"),
        ({"num_initial_states": 2.5}, TypeError, "Received: num_initial_states=2.5"),
        ({"period_epochs": 0}, ValueError, "Received: period_epochs=0"),
        ({"num_envs": 0}, ValueError, "Received: num_envs=0"),
    ],
)
def test_it_refuses_arguments_out_of_range(given, error, rule):
    arguments = {"sequence_constructor": print, "epsilon": 0.05} | LIMITS | given
    with pytest.raises(error, match=rule):
        Evaluation(**arguments)
