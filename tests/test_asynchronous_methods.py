"""The rules of the asynchronous methods: losses and gradients of a segment of three steps, worked by hand.

Networks are tables: the state is one of four, and a table's row is what the network says of it.
"""

import math

import numpy as np
import pytest
import tensorflow as tf

from dqn_lab.asynchronous.methods import METHODS, AdvantageActorCritic, NStepQ, OneStepQ, OneStepSarsa
from dqn_lab.losses import entropy

STATES = np.eye(4)
ONLINE = [[1.0, 2.0], [3.0, 0.0], [0.5, 1.5], [6.0, 4.0]]
TARGET = [[100.0, 100.0], [2.0, 5.0], [1.0, 0.0], [10.0, 20.0]]
TAKEN = [(0, 1), (1, 0), (2, 1)]  # of values 2, 3, 1.5


def segment(action=(1, 0, 1), reward=(1.0, 0.0, -1.0), terminal=False, dtype=np.float32, **more):
    return {
        "state": tf.constant(STATES, dtype),
        "action": tf.constant(action, tf.int32),
        "reward": tf.constant(reward, tf.float32),
        "discount": tf.constant([0.9, 0.9, 0.0 if terminal else 0.9], tf.float32),
        **{name: tf.constant(value, tf.int32) for name, value in more.items()},
    }


def learn(method, given, online=ONLINE, target=TARGET):
    """Loss, values, and the gradient in the table of the worker's network; there must be none in the other one."""
    online, target = tf.Variable(online, dtype=tf.float32), tf.Variable(target, dtype=tf.float32)
    with tf.GradientTape(persistent=True) as tape:
        loss, values = method.loss(lambda states: states @ online, lambda states: states @ target, given)
    assert tape.gradient(loss, target) is None
    return float(loss), values.numpy().tolist(), tape.gradient(loss, online).numpy()


# Temporal differences y - Q(s, a) of the three steps.
ERRORS = [
    (OneStepQ, {}, {}, [3.5, -2.1, 15.5]),  # 1 + 0.9 * 5, 0.9 * 1, -1 + 0.9 * 20
    (OneStepQ, {}, {"terminal": True}, [3.5, -2.1, -2.5]),
    (OneStepQ, {"double": True}, {}, [0.8, -3.0, 6.5]),  # 1 + 0.9 * 2, 0.9 * 0, -1 + 0.9 * 10
    (OneStepSarsa, {}, {"next_action": [1, 1, 0]}, [3.5, -3.0, 6.5]),
    (OneStepSarsa, {}, {"next_action": [0, 0, 1]}, [0.8, -2.1, 15.5]),
    (OneStepSarsa, {}, {"next_action": [0, 0, 1], "terminal": True}, [0.8, -2.1, -2.5]),
    (NStepQ, {}, {}, [12.77, 12.3, 15.5]),  # 1 + 0.9 * 15.3, 0.9 * 17, -1 + 0.9 * 20
    (NStepQ, {}, {"terminal": True}, [-1.81, -3.9, -2.5]),
    (NStepQ, {"double": True}, {}, [5.48, 4.2, 6.5]),  # 1 + 0.9 * 7.2, 0.9 * 8, -1 + 0.9 * 10
]


@pytest.mark.parametrize(("rule", "arguments", "given", "errors"), ERRORS)
@pytest.mark.parametrize("loss", ["mse", "huber"])
def test_the_sum_of_the_steps_losses_teaches_the_actions_taken_and_nothing_else(loss, rule, arguments, given, errors):
    cost, values, gradient = learn(rule(loss=loss, **arguments), segment(**given))
    errors = np.array(errors)
    slopes = 2 * errors if loss == "mse" else np.clip(errors, -1, 1)
    costs = errors**2 if loss == "mse" else slopes * (errors - slopes / 2)
    assert cost == pytest.approx(costs.sum(), rel=1e-5)
    assert values == [2.0, 3.0, 1.5]
    expected = np.zeros((4, 2))
    for place, slope in zip(TAKEN, slopes, strict=True):
        expected[place] = -slope
    np.testing.assert_allclose(gradient, expected, rtol=1e-5)


def test_huber_is_the_rule_unless_another_loss_is_asked_for():
    for rule in (OneStepQ, NStepQ, OneStepSarsa):
        assert rule().get_config()["loss"] == "huber"


RETURNS = [(False, [17.29, 18.1, 19.0]), (True, [2.71, 1.9, 1.0])]


@pytest.mark.case("B119")
@pytest.mark.parametrize(("terminal", "returns"), RETURNS)
def test_a_step_bootstraps_once_from_the_return_of_the_next(terminal, returns):
    given = segment(reward=[1.0, 1.0, 1.0], terminal=terminal)
    _, _, gradient = learn(NStepQ(loss="mse"), given, np.zeros((4, 2)), [[0, 0]] * 3 + [[20.0, 7.0]])
    assert [-gradient[place] / 2 for place in TAKEN] == pytest.approx(returns)
    _, _, gradient = criticise(AdvantageActorCritic(value_loss_coefficient=1.0), given, value=[0, 0, 0, 20.0])
    assert (-gradient[:3, 2]).tolist() == pytest.approx(returns)


# The actor-critic: a row is two logits and the state's value.

LOGITS = [[0.0, 0.0], [math.log(3), 0.0], [0.0, math.log(3)], [5.0, -5.0]]  # pi = 1/2 1/2, 3/4 1/4, 1/4 3/4


def criticise(method, given, *, logits=LOGITS, value=(1.0, 2.0, 3.0, 20.0), column=False, dtype=tf.float32):
    """Loss, values, and the gradient in the table [4, 3]."""
    table = tf.Variable(np.column_stack([logits, value]), dtype=dtype)

    def network(states):
        outputs = states @ table
        return outputs[:, :2], outputs[:, 2:] if column else outputs[:, 2]

    with tf.GradientTape() as tape:
        loss, values = method.loss(network, None, given)
    return float(loss), values.numpy().tolist(), tape.gradient(loss, table).numpy()


def test_an_actor_critic_worked_by_hand():
    given = segment(action=[1, 0, 0], reward=[1.0, 1.0, 1.0])
    loss, values, gradient = criticise(AdvantageActorCritic(entropy_beta=0.5, value_loss_coefficient=0.5), given)
    advantage = [16.29, 16.1, 16.0]
    surprise = [math.log(2), math.log(4 / 3), math.log(4)]
    unsure = math.log(4) - 0.75 * math.log(3)  # entropy of 3/4 1/4
    policy = sum(a * s for a, s in zip(advantage, surprise, strict=True))
    critic = 0.5 * sum(a**2 / 2 for a in advantage)
    assert loss == pytest.approx(policy + critic - 0.5 * (math.log(2) + 2 * unsure), rel=1e-6)
    assert values == [1.0, 2.0, 3.0]
    # 0.5 (V - R): nothing of the advantage in the policy's term, nor of the bootstrap's value.
    assert gradient[:, 2].tolist() == pytest.approx([-0.5 * a for a in advantage] + [0.0])
    # (pi - taken) A + beta * sum_b pi_a pi_b (z_a - z_b): the entropy pulls the likelier logit down.
    pull = 0.5 * 3 / 16 * math.log(3)
    expected = [
        [0.5 * 16.29, -0.5 * 16.29],
        [-0.25 * 16.1 + pull, 0.25 * 16.1 - pull],
        [-0.75 * 16.0 - pull, 0.75 * 16.0 + pull],
        [0.0, 0.0],
    ]
    np.testing.assert_allclose(gradient[:, :2], expected, rtol=1e-5)


@pytest.mark.parametrize("beta", [0.0, 0.7])
def test_an_actor_critics_slopes_are_finite_differences(beta):
    generator = np.random.default_rng(0)
    logits, value = generator.normal(0, 2, (4, 2)), generator.normal(0, 2, 4)
    given = segment(dtype=np.float64)
    reward, discount = given["reward"].numpy(), given["discount"].numpy().astype(float)
    returns = [value[3]]
    for r, g in zip(reward[::-1], discount[::-1], strict=True):
        returns.insert(0, r + g * returns[0])
    method = AdvantageActorCritic(entropy_beta=beta, value_loss_coefficient=0.3)

    def cost(logits, value):
        """With returns and advantages as they are: the numbers that no gradient goes through."""
        log_policy = logits[:3] - np.log(np.exp(logits[:3]).sum(axis=1, keepdims=True))
        taken = log_policy[range(3), given["action"].numpy()]
        actor = -taken * (returns[:3] - held) - beta * -(np.exp(log_policy) * log_policy).sum(axis=1)
        return (actor + 0.3 * (returns[:3] - value[:3]) ** 2 / 2).sum()

    held = value[:3].copy()
    loss, _, gradient = criticise(method, given, logits=logits, value=value, dtype=tf.float64)
    assert loss == pytest.approx(cost(logits, value))
    table = np.column_stack([logits, value])
    slopes = np.zeros_like(table)
    for place in np.ndindex(*table.shape):
        step = np.zeros_like(table)
        step[place] = 1e-6
        more, less = table + step, table - step
        slopes[place] = (cost(more[:, :2], more[:, 2]) - cost(less[:, :2], less[:, 2])) / 2e-6
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-8)


def test_behind_a_terminal_step_nothing_depends_on_what_the_last_state_is_worth():
    given = segment(terminal=True, next_action=[0, 1, 0])
    for method in (OneStepQ(), OneStepQ(double=True), NStepQ(), NStepQ(double=True), OneStepSarsa()):
        told = [learn(method, given, ONLINE[:3] + [row], TARGET[:3] + [row[::-1]]) for row in ([9e3, 0], [-5, 7e4])]
        assert told[0][0] == told[1][0]
        np.testing.assert_array_equal(told[0][2], told[1][2])
    told = [criticise(AdvantageActorCritic(), given, value=[1, 2, 3, last]) for last in (9e3, -7e4)]
    assert told[0][0] == told[1][0]
    np.testing.assert_array_equal(told[0][2], told[1][2])


def test_a_step_at_advantage_0_raises_the_entropy():
    given = segment(reward=[0.0, 0.0, 0.0], terminal=True)
    before = entropy(tf.constant(LOGITS)).numpy()
    _, _, gradient = criticise(AdvantageActorCritic(entropy_beta=0.0), given, value=[0.0] * 4)
    assert not gradient.any()
    _, _, gradient = criticise(AdvantageActorCritic(entropy_beta=0.1), given, value=[0.0] * 4)
    after = entropy(tf.constant(LOGITS - gradient[:, :2].astype(np.float32))).numpy()
    assert (after[1:3] > before[1:3] + 1e-3).all()
    assert after[0] == pytest.approx(before[0])  # it is the largest there is


@pytest.mark.case("B121")
def test_a_critic_whose_values_are_a_column_has_advantages_in_a_row():
    given = segment(reward=[0.1, 0.2, 3.0])
    row = criticise(AdvantageActorCritic(), given)
    column = criticise(AdvantageActorCritic(), given, column=True)
    assert column[0] == row[0]
    assert column[1] == row[1] == [1.0, 2.0, 3.0]
    np.testing.assert_array_equal(column[2], row[2])
    exact = segment(reward=[1.0, 2.0, 3.0])
    exact["discount"] = tf.zeros(3)
    assert not criticise(AdvantageActorCritic(entropy_beta=0.0), exact, column=True)[2].any()  # R - V = 0


def test_what_a_rule_needs():
    needs = {name: (rule.actor_critic, rule.needs_target, rule.needs_next_action) for name, rule in METHODS.items()}
    assert needs == {
        "one_step_q": (False, True, False),
        "one_step_sarsa": (False, True, True),
        "n_step_q": (False, True, False),
        "a3c": (True, False, False),
    }


@pytest.mark.parametrize(
    "method",
    [
        OneStepQ(double=True, loss="mse"),
        OneStepSarsa(loss="mse"),
        NStepQ(double=True),
        AdvantageActorCritic(entropy_beta=0.5, value_loss_coefficient=1),
    ],
)
def test_a_config_makes_an_equal_rule(method):
    assert vars(type(method)(**method.get_config())) == vars(method)


@pytest.mark.parametrize(
    ("make", "error", "rule"),
    [
        (lambda: OneStepQ(loss="abs"), ValueError, "`loss` must be one of huber, mse. Received: loss='abs'"),
        (lambda: OneStepSarsa(loss=1), ValueError, "`loss` must be one of huber, mse. Received: loss=1"),
        (lambda: NStepQ(double=1), TypeError, "`double` must be True or False. Received: double=1"),
        (
            lambda: AdvantageActorCritic(entropy_beta=-0.1),
            ValueError,
            "`entropy_beta` must be 0 or above, and finite. Received: entropy_beta=-0.1",
        ),
        (
            lambda: AdvantageActorCritic(value_loss_coefficient=math.nan),
            ValueError,
            "`value_loss_coefficient` must be 0 or above, and finite. Received: value_loss_coefficient=nan",
        ),
        (
            lambda: AdvantageActorCritic(entropy_beta=True),
            TypeError,
            "`entropy_beta` must be a number. Received: entropy_beta=True",
        ),
    ],
)
def test_wrong_arguments(make, error, rule):
    with pytest.raises(error) as raised:
        make()
    assert str(raised.value) == rule
