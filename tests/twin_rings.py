"""Rings in which the same happens, and whether they are the same."""

import numpy as np
from scripted_ring import stored_index

from dqn_lab.replay.replay import Replay
from dqn_lab.replay.ring import NO_ACTION

COLUMNS = ("action", "reward", "terminal", "episode_end", "age")


def advance(rings, lanes, generator):
    """Each of the lanes does what comes next, the same in all rings: an action is recorded or an observation comes."""
    ring = rings[0]
    waits = ring.action[ring.slot(ring.newest_index[lanes])] == NO_ACTION
    acts = (ring.written[lanes] > 0) & waits & ~ring.final[lanes]
    acting, observing = lanes[acts], lanes[~acts]
    outcome = generator.integers(5, size=len(acting)), generator.normal(size=len(acting))
    terminal, end = generator.random((2, len(acting))) < 0.2
    frames = generator.integers(2**62, size=len(observing))
    for each in rings:
        each.record(*outcome, terminal, end, acting)
        each.append(frames, observing)


def check_same(ring, twin):
    """Checks that all that is stored, drawn and known of the lanes is the same."""
    for name in ("written", "ending", "final"):
        np.testing.assert_array_equal(getattr(ring, name), getattr(twin, name))
    index = stored_index(twin)
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(ring, name)[ring.slot(index)], getattr(twin, name)[twin.slot(index)])
    np.testing.assert_array_equal(ring.frames.read(index), twin.frames.read(index))
    drawable = [Replay(each, span=3, n_step=2).sampler.drawable().tolist() for each in (ring, twin)]
    assert drawable[0] == drawable[1]
