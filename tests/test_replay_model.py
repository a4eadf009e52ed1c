"""Replay against a model written as plain lists of episodes, over random histories."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_ring import make_ring, snapshot, store  # noqa: F401

from dqn_lab.replay.replay import Replay
from dqn_lab.replay.windows import is_drawable
from dqn_lab.sequences.transitions import build_transitions

pytestmark = pytest.mark.usefixtures("store")

GAMMA = 0.5  # with whole rewards every sum is exact

# What may happen in a lane: nothing, a step, one that costs a life (terminal, the game goes on), the ends of an
# episode (its rules, a time limit, both at once), being abandoned, and being abandoned between an action and its
# outcome.
IDLE, STEP, LIFE_LOST, TERMINATED, TRUNCATED, BOTH, ABANDONED, INTERRUPTED = range(8)
STEPS = (STEP, LIFE_LOST, TERMINATED, TRUNCATED, BOTH)
ANYTHING = st.integers(IDLE, INTERRUPTED)
MOSTLY_STEPS = st.sampled_from([STEP] * 6 + [LIFE_LOST, TERMINATED, TRUNCATED])


@dataclass
class Row:
    position: int
    frame: int
    action: int | None = None
    reward: float = 0.0
    terminal: bool = False


@dataclass
class Episode:
    rows: list[Row] = field(default_factory=list)
    over: bool = False


class Lane:
    """One lane as a list of episodes, each a list of rows; nothing is ever overwritten."""

    def __init__(self):
        self.episodes: list[Episode] = []
        self.written = 0

    def observe(self, frame):
        if not self.episodes or self.episodes[-1].over:
            self.episodes.append(Episode())
        self.episodes[-1].rows.append(Row(self.written, frame))
        self.written += 1

    def end(self):
        if self.episodes:
            self.episodes[-1].over = True

    def transitions(self, slots, span, n_step):
        """Returns position -> transition of all that may be drawn."""
        oldest = self.written - slots
        found = {}
        for episode in self.episodes:
            for number in range(len(episode.rows)):
                made = transition(episode, number, oldest, span, n_step)
                if made is not None:
                    found[episode.rows[number].position] = made
        return found


def stack(rows, number, span):
    return [rows[max(number - back, 0)] for back in range(span - 1, -1, -1)]


def transition(episode, number, oldest, span, n_step):
    """Returns what a transition holds, or None where it is not complete."""
    rows = episode.rows
    if any(row.position < oldest for row in stack(rows, number, span)):
        return None
    reward, depth = 0.0, 0
    while True:
        row = rows[number + depth]
        if row.action is None:  # the newest row, or at depth 0 a final observation
            return None
        reward += GAMMA**depth * row.reward
        depth += 1
        if number + depth == len(rows):  # what the action led to is not stored yet
            return None
        final = episode.over and number + depth == len(rows) - 1
        if row.terminal or final or depth == n_step:
            break
    return {
        "state": [each.frame for each in stack(rows, number, span)],
        "action": rows[number].action,
        "reward": reward,
        "discount": 0.0 if row.terminal else GAMMA**depth,
        "next_state": [each.frame for each in stack(rows, number + depth, span)],
    }


class Pair:
    """A ring and its model, which the same things happen to."""

    def __init__(self, num_envs, slots):
        self.ring = make_ring(slots * num_envs, num_envs)
        self.model = [Lane() for _ in range(num_envs)]
        self.frames = 0

    def happen(self, events):
        """Lets one event happen in each lane; a lane without a running episode begins one instead."""
        events = np.array(events)
        running = np.array([bool(lane.episodes) and not lane.episodes[-1].over for lane in self.model])
        self.append(np.flatnonzero((events != IDLE) & ~running))
        acting = running & np.isin(events, (*STEPS, INTERRUPTED))
        self.record(np.flatnonzero(acting), events[acting])
        self.append(np.flatnonzero(running & np.isin(events, STEPS)))
        self.end(np.flatnonzero(running & np.isin(events, (TERMINATED, TRUNCATED, BOTH))))
        self.abandon(np.flatnonzero(running & np.isin(events, (ABANDONED, INTERRUPTED))))

    def append(self, lanes):
        frames = self.frames + np.arange(len(lanes))
        self.frames += len(lanes)
        index = self.ring.append(frames, lanes)
        for lane, frame, number in zip(lanes, frames, index, strict=True):
            assert number == self.model[lane].written * len(self.model) + lane
            self.model[lane].observe(int(frame))

    def record(self, lanes, events):
        action, reward = lanes + 3 * (self.frames % 5), (7.0 * lanes + self.frames) % 8 - 3.0
        terminal = np.isin(events, (LIFE_LOST, TERMINATED, BOTH))
        ends = np.isin(events, (TERMINATED, TRUNCATED, BOTH))
        self.ring.record(action, reward, terminal, ends, lanes)
        for each, lane in enumerate(lanes):
            if events[each] != INTERRUPTED:
                row = self.model[lane].episodes[-1].rows[-1]
                row.action, row.reward, row.terminal = int(action[each]), float(reward[each]), bool(terminal[each])

    def end(self, lanes):
        for lane in lanes:
            self.model[lane].end()

    def abandon(self, lanes):
        self.ring.abandon_episodes(lanes)
        self.end(lanes)

    def expected(self, span, n_step):
        """Returns index -> transition."""
        return {
            position * len(self.model) + number: made
            for number, lane in enumerate(self.model)
            for position, made in lane.transitions(self.ring.slots, span, n_step).items()
        }

    def check_agrees(self, span, n_step):
        ring, replay = self.ring, Replay(self.ring, span=span, n_step=n_step)
        ring.check_valid()
        assert len(ring) == sum(min(lane.written, ring.slots) for lane in self.model)
        expected = self.expected(span, n_step)
        assert sorted(replay.sampler.drawable().tolist()) == sorted(expected)
        every = np.arange(-2 * ring.capacity, ring.newest_index.max() + 2 * ring.capacity)
        assert every[is_drawable(ring, every, span, n_step)].tolist() == sorted(expected)
        index = np.array(list(expected), np.int64)
        built = build_transitions(replay, index, GAMMA, lambda rows: replay.observations(rows, span), replay.rewards)
        for name in ("state", "action", "reward", "discount", "next_state"):
            assert built[name].tolist() == [made[name] for made in expected.values()]
        if expected:
            assert set(replay.sample(8, np.random.default_rng(self.frames)).tolist()) <= set(expected)


@st.composite
def histories(draw, events=ANYTHING, least=0, most=40):
    num_envs = draw(st.integers(1, 3))
    slots = draw(st.integers(2, 12))
    happenings = st.lists(st.lists(events, min_size=num_envs, max_size=num_envs), min_size=least, max_size=most)
    return num_envs, slots, draw(st.integers(1, 5)), draw(st.integers(1, 4)), draw(happenings)


@settings(max_examples=150)
@given(histories())
def test_any_history_gives_what_the_model_gives(history):
    num_envs, slots, span, n_step, happenings = history
    pair = Pair(num_envs, slots)
    for events in happenings:
        pair.happen(events)
        pair.check_agrees(span, n_step)


@settings(max_examples=60)
@given(histories(MOSTLY_STEPS, least=30, most=60))
def test_long_episodes_give_what_the_model_gives(history):
    num_envs, slots, span, n_step, happenings = history
    pair = Pair(num_envs, slots)
    for events in happenings:
        pair.happen(events)
    pair.check_agrees(span, n_step)


def test_every_wrap_position_gives_what_the_model_gives():
    """Episodes of a few steps in two lanes, out of step with each other and with the rings' sizes."""
    for slots in (2, 3, 5, 8, 9):
        pair = Pair(2, slots)
        ends = [TERMINATED, TRUNCATED]
        for number in range(5 * slots + 10):
            pair.happen([ends[number % 2] if number % (lane + 4) == 0 else STEP for lane in range(2)])
            for span, n_step in ((1, 1), (4, 1), (1, 3), (3, 3)):
                pair.check_agrees(span, n_step)
        assert (pair.ring.written > 2 * slots).all()


@given(histories(), st.integers(0, 40))
def test_a_restored_ring_gives_what_the_model_gives(history, moment):
    num_envs, slots, span, n_step, happenings = history
    pair = Pair(num_envs, slots)
    for number, events in enumerate(happenings):
        if number == moment:
            saved, pair.ring = pair.ring, make_ring(slots * num_envs, num_envs)
            pair.ring.set_state(saved.get_state())
            assert snapshot(pair.ring) == snapshot(saved)
            saved.set_state(make_ring(slots * num_envs, num_envs).get_state())  # the copy does not hang on it
        pair.happen(events)
    pair.check_agrees(span, n_step)


@given(histories(MOSTLY_STEPS))
def test_a_lane_of_the_least_capacity_always_has_something_to_draw(history):
    num_envs, _, span, n_step, happenings = history
    pair = Pair(num_envs, span + n_step + 1)
    steps = np.zeros(num_envs, int)
    for events in happenings:
        running = [bool(lane.episodes) and not lane.episodes[-1].over for lane in pair.model]
        steps += running
        pair.happen(events)
        drawable = {index % num_envs for index in pair.expected(span, n_step)}
        assert drawable >= set(np.flatnonzero(steps >= n_step).tolist())
