"""Lazy arrays are like numpy's zeros, but take memory only where they are written to."""

import numpy as np
import psutil
import pytest

from dqn_lab.replay.lazy_memory import lazy_zeros


@pytest.mark.parametrize(("shape", "dtype"), [(7, np.int64), ((3, 2), np.float32), ((0, 5), bool), ((), np.uint8)])
def test_they_are_writable_zeros(shape, dtype):
    array = lazy_zeros(shape, dtype)
    expected = np.zeros(shape, dtype)
    np.testing.assert_array_equal(array, expected, strict=True)
    array[...] = 1
    assert (array == 1).all()
    assert not lazy_zeros(shape, dtype).any()


@pytest.mark.posix
def test_memory_is_taken_where_they_are_written_to_and_given_back():
    process, size = psutil.Process(), 256 * 2**20
    before = process.memory_info().rss
    array = lazy_zeros(size, np.uint8)
    untouched = process.memory_info().rss - before
    array[: size // 2] = 1
    half = process.memory_info().rss - before
    del array
    after = process.memory_info().rss - before
    assert untouched < size / 10
    assert 0.4 * size < half < 0.7 * size
    assert after < size / 10
