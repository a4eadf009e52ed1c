"""The gradient step: the optimizer's own arithmetic, compiled or not, until something is not finite."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from dqn_lab.agents import gradient_step
from dqn_lab.agents.gradient_step import UNFINITE, GradientStep, has_xla
from dqn_lab.optimizers import make_optimizer

ONE, INF, NAN = tf.constant(1.0), tf.constant(np.inf), tf.constant(np.nan)
OPTIMIZERS = {
    "adam": lambda: make_optimizer("adam", 1e-3),
    "rmsprop_centered": lambda: make_optimizer("rmsprop_centered", 1e-3, batch_size=32),
    "sgd": lambda: make_optimizer("sgd", 1e-2),
    "loss scaling": lambda: keras.optimizers.LossScaleOptimizer(make_optimizer("adam", 1e-3), initial_scale=4.0),
}


class Modes(keras.optimizers.SGD):
    """Notes whether its arithmetic runs op by op."""

    def apply(self, grads, trainable_variables=None):
        self.modes = [*getattr(self, "modes", []), tf.executing_eagerly()]
        super().apply(grads, trainable_variables)


def _weights(generator=None):
    generator = generator or np.random.default_rng(0)
    shapes = [(7, 5), (5,), (3, 3, 2, 4)]
    return [keras.Variable(generator.normal(size=shape).astype(np.float32)) for shape in shapes]


def _stepped(optimizer, *, compiles=True):
    weights = _weights()
    optimizer.build(weights)
    unfinite = keras.Variable(0, dtype="int64", trainable=False)
    return GradientStep(optimizer, weights, unfinite, compiles=compiles), weights, unfinite


def _values(variables):
    return [np.array(variable) for variable in variables]


@pytest.mark.parametrize("in_graph", [False, True], ids=["eager", "in a graph"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_twenty_compiled_steps_equal_the_plain_optimizers(name, in_graph):
    step, weights, unfinite = _stepped(OPTIMIZERS[name]())
    plain, same_weights = OPTIMIZERS[name](), _weights()
    plain.build(same_weights)
    before, generator = _values(weights), np.random.default_rng(1)
    called = tf.function(lambda *gradients: step(list(gradients), ONE, ONE)) if in_graph else step
    for _ in range(20):
        gradients = [tf.constant(generator.normal(size=each.shape).astype(np.float32)) for each in weights]
        if in_graph:
            called(*gradients)
        else:
            called(gradients, ONE, ONE)
        plain.apply(gradients, same_weights)
    for found, expected, old in zip(_values(weights), _values(same_weights), before, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
        assert (found != old).all()
    for found, expected in zip(_values(step._optimizer.variables), _values(plain.variables), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())
    assert int(step._optimizer.iterations) == 20
    assert int(unfinite) == 0


@pytest.mark.parametrize("compiles", [True, False])
@pytest.mark.parametrize(
    ("loss", "norm", "found"),
    [
        (NAN, ONE, "loss"),
        (INF, ONE, "loss"),
        (ONE, NAN, "gradient norm"),
        (ONE, INF, "gradient norm"),
        (NAN, NAN, "loss"),
    ],
)
def test_what_is_not_finite_is_noted_and_no_step_is_made_from_then_on(loss, norm, found, compiles):
    step, weights, unfinite = _stepped(OPTIMIZERS["adam"](), compiles=compiles)
    gradients = [tf.ones(each.shape) for each in weights]
    step(gradients, ONE, ONE)
    before, optimizer = _values(weights), _values(step._optimizer.variables)
    step(gradients, loss, norm)
    step(gradients, ONE, ONE)
    step(gradients, ONE, NAN)
    assert UNFINITE[int(unfinite)] == found  # the first thing that went wrong
    np.testing.assert_equal(_values(weights), before)
    np.testing.assert_equal(_values(step._optimizer.variables), optimizer)
    unfinite.assign(0)
    step(gradients, ONE, ONE)
    assert int(step._optimizer.iterations) == 2
    assert (_values(weights)[0] != before[0]).all()


def test_loss_scaling_deals_with_an_overflow_itself_until_its_scale_is_one():
    step, weights, unfinite = _stepped(OPTIMIZERS["loss scaling"]())
    before, overflow = _values(weights), [tf.fill(each.shape, np.inf) for each in weights]
    for scale in (2.0, 1.0):
        step(overflow, ONE, INF)
        assert (float(step._optimizer.dynamic_scale), int(unfinite)) == (scale, 0)
    step(overflow, ONE, INF)
    assert UNFINITE[int(unfinite)] == "gradient norm"
    assert int(step._optimizer.iterations) == 0
    np.testing.assert_equal(_values(weights), before)


def test_weights_without_a_gradient_stay():
    step, weights, _ = _stepped(keras.optimizers.SGD(0.5))
    before = _values(weights)
    with pytest.warns(UserWarning, match="Gradients do not exist"):
        step([tf.ones((7, 5)), None, tf.ones((3, 3, 2, 4))], ONE, ONE)
    changes = [new - old for new, old in zip(_values(weights), before, strict=True)]
    np.testing.assert_allclose(changes[0], -0.5, rtol=1e-6)
    assert not changes[1].any()


@pytest.mark.parametrize(
    ("xla", "compiles", "op_by_op"), [(True, True, False), (True, False, True), (False, True, True)]
)
def test_it_is_compiled_only_where_that_is_wanted_and_possible(xla, compiles, op_by_op, monkeypatch):
    monkeypatch.setattr(gradient_step, "has_xla", lambda: xla)
    step, weights, _ = _stepped(Modes(0.5), compiles=compiles)
    before = _values(weights)
    step([tf.ones(each.shape) for each in weights], ONE, ONE)
    assert step._optimizer.modes[-1] is op_by_op
    for new, old in zip(_values(weights), before, strict=True):
        np.testing.assert_allclose(new, old - 0.5, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "error", [tf.errors.UnimplementedError(None, None, "no XLA"), ValueError("no XLA"), NotImplementedError("no XLA")]
)
def test_xla_is_missing_where_a_trial_fails(error, monkeypatch):
    def fails(function, *, jit_compile):
        def call(x):
            raise error

        return call

    monkeypatch.setattr(tf, "function", fails)
    assert has_xla.__wrapped__() is False


def test_xla_is_there_where_a_trial_gives_the_right_answer(monkeypatch):
    monkeypatch.setattr(tf, "function", lambda function, *, jit_compile: function if jit_compile else None)
    assert has_xla.__wrapped__() is True
