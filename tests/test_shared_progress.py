"""Counters and the next rendezvous, in shared memory."""

import multiprocessing

import numpy as np

from dqn_lab.asynchronous.shared_progress import COUNTERS, SharedProgress

SPAWN = multiprocessing.get_context("spawn")


def test_it_begins_with_nothing_and_everybody_due():
    progress = SharedProgress(3, SPAWN)
    assert progress.counters.shape == (3, len(COUNTERS))
    assert progress.totals() == dict.fromkeys(COUNTERS, 0.0)
    assert (progress.due_steps, progress.target_copies) == (0, 0)


def test_totals_are_sums_over_the_workers_and_epsilon_their_mean():
    progress = SharedProgress(2, SPAWN)
    progress.counters[0] = np.arange(len(COUNTERS))
    progress.counters[1] = 10
    expected = {name: number + 10.0 for number, name in enumerate(COUNTERS)}
    assert progress.totals() == expected | {"epsilon": (COUNTERS.index("epsilon") + 10) / 2}
    assert all(type(value) is float for value in progress.totals().values())


def test_counts_beyond_32_bits():
    progress = SharedProgress(1, SPAWN)
    progress.due_steps = progress.target_copies = 2**62
    assert (progress.due_steps, progress.target_copies) == (2**62, 2**62)
    progress.counters[0, COUNTERS.index("frames")] = 2.0**50
    progress.counters[0, COUNTERS.index("frames")] += 1
    assert progress.totals()["frames"] == 2**50 + 1


def test_what_is_sent_to_a_process_is_the_memory_and_no_copy_of_it():
    progress = SharedProgress(2, SPAWN)
    sent = progress.__getstate__()
    assert "counters" not in sent
    theirs = SharedProgress.__new__(SharedProgress)
    theirs.__setstate__(sent)
    theirs.counters[1, 0] += 3
    theirs.due_steps, theirs.target_copies = 7, 2
    assert progress.totals()[COUNTERS[0]] == 3
    assert (progress.due_steps, progress.target_copies) == (7, 2)
