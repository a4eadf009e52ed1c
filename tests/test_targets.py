"""Targets: hand-computed rows, gradients, and shapes that must never broadcast."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dqn_lab.losses import huber, squared
from dqn_lab.targets import (
    double_q_learning_target,
    n_step_returns,
    q_learning_target,
    sarsa_target,
    selected_values,
    td_error,
)


@pytest.mark.case("B016")
@pytest.mark.parametrize(
    ("end", "discount", "target"),
    [("running", 0.99, 10.9), ("truncated", 0.99, 10.9), ("terminated", 0.0, 1.0)],
)
def test_only_a_terminal_step_drops_the_bootstrap(end, discount, target):
    y = q_learning_target([1.0], [discount], [[4.0, 10.0, 7.0]])
    assert y.numpy() == pytest.approx([target])


@pytest.mark.case("B023")
def test_double_learning_values_the_online_choice_with_the_target_network():
    online, target = [[1.0, 5.0, 2.0]], [[10.0, 3.0, 7.0]]
    assert double_q_learning_target([1.0], [0.9], online, target).numpy() == pytest.approx([3.7])
    assert q_learning_target([1.0], [0.9], target).numpy() == pytest.approx([10.0])


def test_double_learning_takes_the_first_of_equal_online_values():
    y = double_q_learning_target([0.0], [1.0], [[1.0, 4.0, 4.0]], [[7.0, 8.0, 9.0]])
    assert y.numpy().tolist() == [8.0]


def test_sarsa_values_the_action_that_is_taken_next():
    next_values = [[4.0, 10.0, 7.0], [1.0, 2.0, 3.0], [8.0, 5.0, 6.0]]
    y = sarsa_target([1.0, 2.0, 3.0], [0.9, 0.9, 0.0], next_values, [0, 2, 1])
    assert y.numpy() == pytest.approx([4.6, 4.7, 3.0])  # the last one is terminal: y = r


@pytest.mark.case("B119")
@pytest.mark.parametrize(
    ("end", "last_discount", "returns"),
    [
        ("running", 0.9, [17.29, 18.1, 19.0]),
        ("truncated", 0.9, [17.29, 18.1, 19.0]),
        ("terminated", 0.0, [2.71, 1.9, 1.0]),
    ],
)
def test_n_step_returns_carry_the_bootstrap_back_step_by_step(end, last_discount, returns):
    assert n_step_returns([1.0, 1.0, 1.0], [0.9, 0.9, last_discount], 20.0).numpy() == pytest.approx(returns)


def test_a_return_does_not_look_past_a_terminal_step():
    returns = n_step_returns([1.0, 2.0, 4.0, 8.0], [0.5, 0.0, 0.5, 0.5], 16.0)
    assert returns.numpy().tolist() == [2.0, 2.0, 12.0, 16.0]


def test_the_return_of_one_step_is_the_one_step_target():
    y = q_learning_target([1.0], [0.9], [[4.0, 10.0, 7.0]])
    assert n_step_returns([1.0], [0.9], 10.0).numpy() == y.numpy()


@pytest.mark.parametrize("length", [None, 4])
def test_returns_are_computed_in_a_graph_of_any_length(length):
    row = tf.TensorSpec((length,), tf.float32)
    traced = tf.function(n_step_returns, input_signature=[row, row, tf.TensorSpec((), tf.float32)])
    assert traced.get_concrete_function().output_shapes.rank == 1
    assert traced([1.0, 2.0, 4.0, 8.0], [0.5] * 4, 16.0).numpy().tolist() == [5.0, 8.0, 12.0, 16.0]
    if length is None:
        assert traced([3.0], [0.5], 2.0).numpy().tolist() == [4.0]
        assert traced([], [], 2.0).shape == (0,)


def test_a_plain_0_for_a_bootstrap_makes_no_integers_of_returns():
    assert n_step_returns([1.5, 0.5], [0.5, 0.0], 0).numpy().tolist() == [1.75, 0.5]


rows = st.integers(1, 5)
numbers = st.floats(-100, 100, width=32, allow_subnormal=False)  # TensorFlow has only 0 in their place


@given(st.data(), rows, st.integers(1, 18))
def test_targets_equal_a_loop_over_the_rows(data, rows, num_actions):
    table = arrays(np.float32, (rows, num_actions), elements=numbers)
    online, target = data.draw(table), data.draw(table)
    reward = data.draw(arrays(np.float32, rows, elements=numbers))
    discount = data.draw(arrays(np.float32, rows, elements=st.floats(0, 1, width=32)))
    single, double = [], []
    for b in range(rows):
        single.append(reward[b] + discount[b] * max(target[b]))
        best = list(online[b]).index(max(online[b]))
        double.append(reward[b] + discount[b] * target[b][best])
    y = q_learning_target(reward, discount, target)
    np.testing.assert_allclose(y, single, rtol=1e-5, atol=1e-5)
    y = double_q_learning_target(reward, discount, online, target)
    np.testing.assert_allclose(y, double, rtol=1e-5, atol=1e-5)


@given(st.data(), st.integers(1, 12))
def test_returns_equal_a_sum_over_the_steps_to_come(data, length):
    reward = data.draw(arrays(np.float32, length, elements=numbers))
    discount = data.draw(arrays(np.float32, length, elements=st.floats(0, 1, width=32)))
    bootstrap = data.draw(numbers)
    future = [*reward.astype(float), bootstrap]
    expected = [
        sum(np.prod(discount[t:k].astype(float)) * future[k] for k in range(t, length + 1)) for t in range(length)
    ]
    np.testing.assert_allclose(n_step_returns(reward, discount, bootstrap), expected, rtol=1e-5, atol=1e-3)


@pytest.mark.case("B025")
@pytest.mark.parametrize("action", [[1, 0, 1], [[1], [0], [1]]])
def test_one_value_per_row_is_picked(action):
    picked = selected_values([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], action)
    assert picked.shape == (3,)
    assert picked.numpy().tolist() == [2.0, 3.0, 6.0]


@pytest.mark.case("B025")
@pytest.mark.parametrize("target", [[1.0, 2.0, 3.0], [[1.0], [2.0], [3.0]]])
def test_a_column_never_broadcasts_against_a_row(target):
    error = td_error(target, [1.0, 2.0, 3.0])
    assert error.shape == (3,)
    assert tf.reduce_mean(squared(error)) == 0.0


@pytest.mark.case("B121")
def test_an_advantage_of_a_row_and_a_column_is_a_row():
    advantage = td_error([1.0, 2.0, 3.0], [[1.0], [2.0], [3.0]])
    assert advantage.shape == (3,)
    assert advantage.numpy().tolist() == [0.0, 0.0, 0.0]


def test_columns_of_rewards_and_discounts_are_rows():
    y = q_learning_target([[1.0], [2.0]], [[0.5], [0.0]], [[4.0, 6.0], [8.0, 1.0]])
    assert y.numpy().tolist() == [4.0, 2.0]


def test_a_graph_that_does_not_know_its_batch_size_gives_rows_too():
    column = tf.TensorSpec((None, 1), tf.float32)
    table = tf.TensorSpec((None, 2), tf.float32)
    traced = tf.function(q_learning_target, input_signature=[column, column, table])
    y = traced([[1.0], [2.0]], [[0.5], [0.0]], [[4.0, 6.0], [8.0, 1.0]])
    assert traced.get_concrete_function().output_shapes == tf.TensorShape([None])
    assert y.numpy().tolist() == [4.0, 2.0]


@pytest.mark.case("B026")
@pytest.mark.parametrize("num_actions", [2, 4, 18])
def test_untaken_actions_give_no_gradient_and_do_not_thin_the_loss(num_actions):
    values = np.random.default_rng(0).normal(size=(1, num_actions)).astype(np.float32)
    values[0, 1] = 0.0  # the taken one
    values = tf.constant(values)
    with tf.GradientTape() as tape:
        tape.watch(values)
        loss = huber(td_error([5.0], selected_values(values, [1])))
    gradient = tape.gradient(loss, values).numpy()
    assert loss.numpy().tolist() == [4.5]
    assert gradient[0, 1] == -1.0
    assert np.count_nonzero(np.delete(gradient, 1)) == 0


def test_an_infinite_value_of_an_untaken_action_stays_out():
    values = tf.constant([[1.0, np.inf, np.nan]])
    with tf.GradientTape() as tape:
        tape.watch(values)
        picked = selected_values(values, [0])
    assert picked.numpy().tolist() == [1.0]
    assert tape.gradient(picked, values).numpy().tolist() == [[1.0, 0.0, 0.0]]


def test_the_error_is_target_minus_value():
    value = tf.constant([2.0])
    with tf.GradientTape() as tape:
        tape.watch(value)
        error = td_error([5.0], value)
    assert error.numpy().tolist() == [3.0]
    assert tape.gradient(error, value).numpy().tolist() == [-1.0]


def test_numbers_take_the_dtype_of_the_values():
    values = tf.constant([[1.0, 2.0]], tf.float64)
    assert q_learning_target([1], np.float32([0.5]), values).dtype == tf.float64
    assert n_step_returns([1.0], [0.5], np.float64(2.0)).dtype == tf.float64
    assert td_error(np.float64([1.0]), tf.constant([1.0])).dtype == tf.float32


TABLE = np.zeros((3, 2), np.float32)
ROW = np.zeros(3, np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: selected_values(ROW, [0, 1, 0]), r"`values` must .*\[B, A\].* values.shape=\(3,\)"),
        (lambda: selected_values(TABLE, [[0, 1]]), r"`action` must .*\[B\].* action.shape=\(1, 2\)"),
        (lambda: selected_values(TABLE, [0, 1]), r"values.shape\[0\]=3, action.shape\[0\]=2"),
        (lambda: td_error(TABLE, ROW), r"`target` must .*\[B\].* target.shape=\(3, 2\)"),
        (lambda: td_error(0.0, ROW), r"`target` must .*\[B\].* target.shape=\(\)"),
        (lambda: td_error([0.0], ROW), r"target.shape\[0\]=1, value.shape\[0\]=3"),
        (lambda: q_learning_target([0.0], ROW, TABLE), r"same number of rows.*shape\[0\]=1"),
        (lambda: q_learning_target(ROW, [0.9], TABLE), r"discount.shape\[0\]=1"),
        (lambda: q_learning_target(ROW, ROW, TABLE[:, :0]), r"next_values.shape=\(3, 0\)"),
        (lambda: sarsa_target(ROW, [0.9], TABLE, [0, 1, 0]), r"discount.shape\[0\]=1"),
        (lambda: sarsa_target(ROW, ROW, TABLE, [0]), r"action.shape\[0\]=1"),
        (lambda: n_step_returns(ROW, ROW[:2], 0.0), r"reward.shape\[0\]=3, discount.shape\[0\]=2"),
        (lambda: n_step_returns(ROW, ROW, [0.0]), r"`bootstrap` must be one number, .* bootstrap.shape=\(1,\)"),
        (lambda: double_q_learning_target(ROW, ROW, TABLE, TABLE[:2]), r"action.shape\[0\]=3"),
        (
            lambda: double_q_learning_target(ROW, ROW, TABLE, TABLE[:, :1]),
            r"same number of actions. Received: .*online.shape=\(3, 2\), .*target.shape=\(3, 1\)",
        ),
    ],
)
def test_other_shapes_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_actions_that_are_no_integers_are_refused():
    with pytest.raises(TypeError, match="must hold integers. Received: action.dtype=float32"):
        selected_values(TABLE, [0.0, 1.0, 0.0])
