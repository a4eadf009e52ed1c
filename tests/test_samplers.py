"""Samplers: uniform over exactly what may be drawn, at a cost that does not depend on the capacity."""

import numpy as np
import pytest
from scripted_ring import A, B, C, make_ring, play, snapshot

from dqn_lab.replay import samplers
from dqn_lab.replay.ring import FrameRing
from dqn_lab.replay.samplers import UniformSampler
from dqn_lab.replay.windows import is_drawable


def make_sampler(ring, span=1, n_step=1):
    return UniformSampler(ring, span=span, n_step=n_step)


def uneven_ring():
    """Returns lanes that are empty, hardly filled, full, and wrapped, with every kind of end."""
    ring = make_ring(60, num_envs=5)
    play(ring, A, 2, lane=1)
    play(ring, B, 12, lane=2)
    for number, end in enumerate(("terminated", "truncated", "terminated", "truncated")):
        play(ring, C + 10 * number, 2 + number, end=end, lane=3)
    play(ring, 500, 40, terminal=[33, 35], lane=4)
    return ring


def chi_square(drawn, drawable):
    """Returns the statistic of a uniform distribution, and a bound that it exceeds with odds of about 1 in 10,000."""
    counts = np.array([np.count_nonzero(drawn == index) for index in drawable])
    assert counts.sum() == len(drawn)  # nothing else was drawn
    expected, freedom = len(drawn) / len(drawable), len(drawable) - 1
    bound = freedom * (1 - 2 / (9 * freedom) + 3.72 * np.sqrt(2 / (9 * freedom))) ** 3  # Wilson and Hilferty
    return ((counts - expected) ** 2 / expected).sum(), bound


@pytest.mark.case("B011")
def test_each_row_that_may_be_drawn_is_drawn_equally_often():
    ring = make_ring(8)
    play(ring, A, 5, end="terminated")
    play(ring, B, 6)
    drawn = make_sampler(ring, span=4).sample(20_000, np.random.default_rng(0))
    counts = np.bincount(ring.slot(drawn), minlength=8)
    assert counts[[2, 3, 4]].tolist() == [0, 0, 0]
    assert np.all(np.abs(counts[[0, 1, 5, 6, 7]] - 4_000) <= 300)


@pytest.mark.parametrize("rounds", [0, 1, 2, samplers._ROUNDS])
@pytest.mark.parametrize(("span", "n_step"), [(1, 1), (4, 1), (4, 3), (2, 5)])
def test_draws_are_uniform_over_uneven_lanes_whatever_is_drawn_from_the_full_list(monkeypatch, rounds, span, n_step):
    monkeypatch.setattr(samplers, "_ROUNDS", rounds)
    sampler = make_sampler(uneven_ring(), span, n_step)
    drawable = sampler.drawable()
    statistic, bound = chi_square(sampler.sample(20_000, np.random.default_rng(7)), drawable)
    assert statistic < bound


def test_the_places_of_a_batch_are_drawn_alike_and_apart():
    sampler = make_sampler(uneven_ring(), span=4)
    generator = np.random.default_rng(3)
    batches = np.array([sampler.sample(4, generator) for _ in range(4_000)])  # [4000, 4]
    drawable = sampler.drawable()
    for place in range(4):
        statistic, bound = chi_square(batches[:, place], drawable)
        assert statistic < bound
    pairs = np.searchsorted(np.sort(drawable), batches[:, 0]) * len(drawable)
    pairs += np.searchsorted(np.sort(drawable), batches[:, 3])
    statistic, bound = chi_square(pairs, np.arange(len(drawable) ** 2))
    assert statistic < bound


def test_draws_are_with_replacement():
    ring = make_ring(8)
    play(ring, A, 2)
    assert make_sampler(ring).sample(5, np.random.default_rng(0)).tolist() == [0] * 5


def test_the_list_of_what_may_be_drawn_is_exactly_what_the_rule_says():
    ring = uneven_ring()
    every = np.arange(ring.newest_index.max() + 100)
    for span, n_step in ((1, 1), (4, 1), (4, 3), (12, 11)):
        sampler = make_sampler(ring, span, n_step)
        assert sorted(sampler.drawable()) == every[is_drawable(ring, every, span, n_step)].tolist()


def test_a_draw_is_int64_and_moves_nothing_but_its_generator():
    ring = uneven_ring()
    sampler, before = make_sampler(ring, span=4), snapshot(ring)
    first, second, again = (np.random.default_rng(1) for _ in range(3))
    drawn = sampler.sample(32, first)
    assert drawn.dtype == np.int64 and drawn.shape == (32,)
    assert sampler.sample(32, second).tolist() == drawn.tolist()
    assert first.bit_generator.state == second.bit_generator.state != again.bit_generator.state
    assert snapshot(ring) == before


# Cost.


def count_slots(monkeypatch):
    """Counts the slots that are looked at."""
    touched, slot = [], FrameRing.slot
    monkeypatch.setattr(FrameRing, "slot", lambda ring, index: touched.append(np.size(index)) or slot(ring, index))
    return touched


def steps_ring(slots, episode):
    """Returns one full lane of episodes of so many steps, written in one go."""
    ring = make_ring(slots)
    ring.written[0] = slots
    ring.age[:] = np.arange(slots) % (episode + 1)
    ring.action[:] = np.where(ring.age == episode, -1, 0)
    ring.episode_end[:] = ring.age == episode - 1
    ring.ending[0], ring.final[0] = ring.episode_end[-1], ring.age[-1] == episode
    ring.check_valid()
    return ring


@pytest.mark.parametrize("episode", [1, 2, 1_000])
def test_drawing_costs_the_same_in_a_ring_of_any_capacity(monkeypatch, episode):
    monkeypatch.setattr(UniformSampler, "drawable", None)  # the full list is never asked for
    touched = count_slots(monkeypatch)
    costs = []
    for slots in (8_000, 800_000):
        sampler, generator = make_sampler(steps_ring(slots, episode), span=4, n_step=3), np.random.default_rng(0)
        touched.clear()
        for _ in range(100):
            assert len(sampler.sample(32, generator)) == 32
        costs.append(sum(touched))
    assert costs[1] < 1.2 * costs[0]
    assert costs[1] < 100 * 32 * 30


def test_a_ring_that_holds_hardly_anything_drawable_is_drawn_from_by_its_list(monkeypatch):
    ring = make_ring(2_000)
    for number in range(1_990):
        ring.append(np.array([number]))
        ring.abandon_episodes()
    play(ring, A, 2)
    asked = []
    drawable = UniformSampler.drawable
    monkeypatch.setattr(UniformSampler, "drawable", lambda sampler: asked.append(1) or drawable(sampler))
    drawn = make_sampler(ring).sample(32, np.random.default_rng(0))
    assert drawn.tolist() == [1_990] * 32
    assert asked == [1]


# Nothing to draw.


@pytest.mark.case("B003")
@pytest.mark.parametrize("stored", [0, 1])
def test_too_few_stored_steps_are_refused(stored):
    ring = make_ring(8)
    if stored:
        ring.append(np.array([A]))
    with pytest.raises(ValueError) as error:
        make_sampler(ring, span=4, n_step=2).sample(1, np.random.default_rng(0))
    assert str(error.value) == (
        "There are not enough stored steps to draw from: a transition needs a state of 4 observation(s) and a window "
        f"of up to 2 step(s). Received: {stored} stored row(s)"
    )


def test_a_window_that_no_row_completes_is_refused():
    ring = make_ring(8)
    play(ring, A, 4)
    with pytest.raises(ValueError, match=r"not enough stored steps.*up to 4 step\(s\).*Received: 4 stored row\(s\)"):
        make_sampler(ring, n_step=4).sample(3, np.random.default_rng(0))
    assert make_sampler(ring, n_step=3).sample(3, np.random.default_rng(0)).tolist() == [0, 0, 0]
