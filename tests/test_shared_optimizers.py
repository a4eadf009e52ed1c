import tracemalloc

import hogwild_workers as workers
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dqn_lab.asynchronous import shared_optimizers
from dqn_lab.asynchronous.shared_optimizers import MomentumSGD, SharedRMSProp, clip_by_norm
from dqn_lab.asynchronous.shared_parameters import SharedParameters

OPTIMIZERS = [SharedRMSProp, MomentumSGD]
LARGEST = float(np.finfo(np.float32).max)


def zeros(size=3):
    return np.zeros(size, np.float32)


def float32(*numbers):
    return np.array(numbers, np.float32)


def test_rmsprop_worked_by_hand():
    parameters, statistics = float32(1, 1, 1), float32(0, 0, 1)
    SharedRMSProp(parameters, statistics, decay=0.75, epsilon=0.1).apply(float32(2, -2, 0), 0.5)
    assert statistics == pytest.approx([1, 1, 0.75])
    assert parameters == pytest.approx([1 - 1 / 1.1**0.5, 1 + 1 / 1.1**0.5, 1])


def test_the_papers_settings_are_the_defaults():
    parameters, statistics = zeros(1), zeros(1)
    SharedRMSProp(parameters, statistics).apply(float32(1), 1)
    assert statistics == pytest.approx([0.01])
    assert parameters == pytest.approx([-1 / (0.01 + 0.1) ** 0.5])


def test_momentum_worked_by_hand():
    parameters, momentum = float32(1, 1), float32(0, 4)
    optimizer = MomentumSGD(parameters, momentum, decay=0.75)
    optimizer.apply(float32(2, 0), 0.5)
    assert momentum == pytest.approx([0.5, 3])
    assert parameters == pytest.approx([0.75, -0.5])
    optimizer.apply(float32(0, 0), 0.5)
    assert momentum == pytest.approx([0.375, 2.25])


def rmsprop_reference(theta, g, d, learning_rate):
    g = 0.99 * g + 0.01 * d**2
    return theta - learning_rate * d / np.sqrt(g + 0.1), g


def momentum_reference(theta, m, d, learning_rate):
    m = 0.99 * m + 0.01 * d
    return theta - learning_rate * m, m


@pytest.mark.parametrize(
    ("optimizer", "reference"), [(SharedRMSProp, rmsprop_reference), (MomentumSGD, momentum_reference)]
)
def test_one_worker_is_equal_to_float64_over_1000_annealed_steps(monkeypatch, optimizer, reference):
    monkeypatch.setattr(shared_optimizers, "_BLOCK", 64)
    generator = np.random.default_rng(0)
    size = 150  # two blocks and a part of one
    parameters = generator.standard_normal(size).astype(np.float32)
    expected, kept, statistics = parameters.astype(float), np.zeros(size), zeros(size)
    one = optimizer(parameters, statistics)
    for step in range(1_000):
        gradient = (generator.standard_normal(size) * 10 ** generator.uniform(-3, 2, size)).astype(np.float32)
        learning_rate = 7e-4 * (1 - step / 1_000)
        one.apply(gradient, learning_rate)
        expected, kept = reference(expected, kept, gradient.astype(float), learning_rate)
    np.testing.assert_allclose(statistics, kept, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(parameters, expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_learning_rate_of_0_moves_nothing(optimizer):
    parameters = float32(1, 2, 3)
    optimizer(parameters, zeros()).apply(float32(1, -1, LARGEST), 0)
    assert parameters.tolist() == [1, 2, 3]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 149])
def test_a_gradient_that_is_not_finite_is_refused_before_anything_is_changed(monkeypatch, optimizer, wrong, place):
    monkeypatch.setattr(shared_optimizers, "_BLOCK", 64)
    parameters, statistics, gradient = np.ones((3, 150), np.float32)
    gradient[place] = wrong
    with pytest.raises(FloatingPointError, match="`gradient` must be finite. Received: 1 of 150 numbers that are not"):
        optimizer(parameters, statistics).apply(gradient, 1e-3)
    assert (parameters == 1).all()
    assert (statistics == 1).all()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_gradients_whose_square_leaves_float32_count_as_the_largest_that_stays(optimizer):
    results = []
    for size in (1e18, LARGEST):
        parameters, statistics = zeros(2), zeros(2)
        one = optimizer(parameters, statistics)
        for _ in range(100):
            one.apply(float32(size, -size), 7e-4)
        assert np.isfinite(parameters).all()
        assert np.isfinite(statistics).all()
        results.append((parameters, statistics))
    # The first needs no cutting back: its squares sum up to less than the largest float32.
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("seen", [-5, -LARGEST, 0])
def test_no_step_is_larger_than_the_bound_whatever_others_did_to_the_statistics(seen):
    parameters, statistics = zeros(4), np.full(4, seen, np.float32)
    SharedRMSProp(parameters, statistics).apply(float32(0, 0.5, -100, 1e18), 1e-3)
    assert np.isfinite(parameters).all()
    assert np.abs(parameters).max() <= 1e-3 / 0.01**0.5 * 1.0001
    assert parameters[0] == 0


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_what_no_gradient_feeds_stays_out_of_the_range_of_slow_numbers(optimizer):
    parameters, statistics = zeros(), np.full(3, 1e-36, np.float32)
    one = optimizer(parameters, statistics)
    for _ in range(600):  # 1e-36 x 0.99^600 = 2.4e-39
        one.apply(zeros(), 7e-4)
    assert ((statistics == 0) | (np.abs(statistics) >= np.finfo(np.float32).tiny)).all()
    assert (parameters == 0).all() or np.abs(parameters).max() < 1e-30


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_update_allocates_no_array(optimizer):
    gradient, *arrays, out = np.ones((4, 300_000), np.float32)
    one = optimizer(*arrays)
    tracemalloc.start()
    try:
        clip_by_norm(gradient, 1.0, out)
        one.apply(gradient, 1e-3)
        one.apply(gradient, 1e-3)
        assert tracemalloc.get_traced_memory()[1] < 50_000  # bytes; a block of one byte a number has 65,536
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_wrong_arguments(optimizer):
    one = optimizer(zeros(), zeros())
    with pytest.raises(ValueError, match=r"`gradient` must have shape \(3,\). Received: gradient.shape=\(1,\)"):
        one.apply(zeros(1), 1e-3)
    for rate in (-1e-3, np.nan, np.inf):
        with pytest.raises(ValueError, match="`learning_rate` must be 0 or above, and finite. Received: learning_rate"):
            one.apply(zeros(), rate)
    with pytest.raises(ValueError, match=r"`statistics` must be float32 of shape \(3,\).*statistics.shape=\(2,\)"):
        optimizer(zeros(3), zeros(2))
    with pytest.raises(ValueError, match="`parameters` must be float32.*parameters.dtype=float64"):
        optimizer(np.zeros(3), zeros(3))
    for decay in (-0.1, 1, np.nan):
        with pytest.raises(ValueError, match="`decay` must be from 0 to below 1. Received: decay="):
            optimizer(zeros(), zeros(), decay=decay)


@pytest.mark.parametrize("epsilon", [0, -1, np.nan, np.inf])
def test_a_wrong_epsilon(epsilon):
    with pytest.raises(ValueError, match="`epsilon` must be above 0. Received: epsilon="):
        SharedRMSProp(zeros(), zeros(), epsilon=epsilon)


@pytest.mark.parametrize(
    ("most", "expected"),
    [(1, [0.6, 0.8, 0]), (5, [3, 4, 0]), (40, [3, 4, 0]), (0, [3, 4, 0])],
)
def test_a_gradient_is_clipped_to_a_norm(most, expected):
    gradient, out = float32(3, 4, 0), np.full(3, 7, np.float32)
    assert clip_by_norm(gradient, most, out) == 5
    assert out == pytest.approx(expected)
    assert gradient.tolist() == [3, 4, 0]
    clip_by_norm(gradient, most, gradient)
    assert gradient == pytest.approx(expected)


@given(
    st.lists(st.floats(-LARGEST, LARGEST, width=32), min_size=1, max_size=9),
    st.floats(1e-3, 1e3),
)
def test_what_is_clipped_has_that_norm_and_the_same_direction(numbers, most):
    gradient = np.array(numbers, np.float32)
    out = np.empty_like(gradient)
    norm = clip_by_norm(gradient, most, out)
    exact = np.linalg.norm(gradient.astype(float))
    assert norm == pytest.approx(exact, rel=1e-5, abs=1e-18)
    scale = min(1.0, most / exact) if exact else 1.0
    np.testing.assert_allclose(out, gradient.astype(float) * scale, rtol=1e-4, atol=1e-30)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_is_not_clipped(wrong):
    out = zeros(2)
    with pytest.raises(FloatingPointError, match="`gradient` must be finite. Received: 1 of 2"):
        clip_by_norm(float32(1, wrong), 40, out)
    assert out.tolist() == [0, 0]


@pytest.mark.parametrize("most", [-1, np.nan])
def test_a_wrong_norm(most):
    with pytest.raises(ValueError, match=r"`most` must be 0 \(off\) or above. Received: most="):
        clip_by_norm(zeros(), most, zeros())


@pytest.mark.parametrize("number", [1, 2, 4])
def test_workers_lose_a_share_of_their_updates_and_nothing_else(record_property, number):
    shared, updates = SharedParameters(200_000, workers.SPAWN), 100
    workers.run(workers.add_one, shared, [(updates,)] * number)
    kept, most = shared.parameters, updates * number
    record_property("lost", 1 - float(kept.mean()) / most)
    assert shared.steps == most
    assert np.isfinite(kept).all()
    assert (kept == kept.round()).all()
    assert 1 <= kept.min() and kept.max() <= most
    if number == 1:
        assert (kept == most).all()


def test_a_storm_of_gradients_from_four_workers_leaves_everything_finite():
    shared, updates = SharedParameters(1_000, workers.SPAWN), 1_000
    seen = workers.run(workers.storm, shared, [(seed, updates) for seed in range(4)])
    assert max(seen) <= 4 * updates * 7e-4 / 0.01**0.5
    assert np.isfinite(seen).all()
    assert np.isfinite(shared.parameters).all()
    assert np.isfinite(shared.statistics).all() and shared.statistics.min() >= 0
    assert shared.steps == 4 * updates * 5
