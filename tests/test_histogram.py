"""Histograms for TensorBoard: buckets worked by hand, read back from an events file."""

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from dqn_lab.callbacks.histogram import write_histogram


def written(folder, *arrays):
    """What `write_histogram` leaves of each array: (step, buckets [30, 3] of left edge, right edge, count)."""
    writer = tf.summary.create_file_writer(str(folder))
    with writer.as_default():
        for step, values in enumerate(arrays):
            write_histogram("spread", values, step)
    writer.close()
    events = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    events.Reload()
    if not events.Tags()["tensors"]:
        return []
    assert events.SummaryMetadata("spread").plugin_data.plugin_name == "histograms"
    return [(one.step, tf.make_ndarray(one.tensor_proto)) for one in events.Tensors("spread")]


def test_thirty_buckets_go_from_the_least_value_to_the_largest(tmp_path):
    ((_, buckets),) = written(tmp_path, np.arange(31))
    np.testing.assert_allclose(buckets[:, 0], np.arange(30))
    np.testing.assert_allclose(buckets[:, 1], np.arange(1, 31))
    np.testing.assert_array_equal(buckets[:, 2], [1] * 29 + [2])  # the last bucket has its right edge, too


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64])
def test_any_shape_and_number_is_counted_whole(tmp_path, dtype):
    values = np.array([[0, 60], [60, 30]], dtype)
    ((_, buckets),) = written(tmp_path, values)
    assert {int(left): int(count) for left, _, count in buckets if count} == {0: 1, 30: 1, 58: 2}


def test_one_value_alone_lies_in_the_midst_of_a_width_of_1(tmp_path):
    ((_, buckets),) = written(tmp_path, np.full((2, 3), 5.0))
    assert (buckets[0, 0], buckets[-1, 1]) == (4.5, 5.5)
    assert buckets[15].tolist() == pytest.approx([5, 5 + 1 / 30, 6])
    assert buckets[:, 2].sum() == 6


def test_what_is_not_finite_is_left_out(tmp_path):
    ((_, buckets),) = written(tmp_path, [np.nan, 0.0, np.inf, 30.0, -np.inf])
    assert (buckets[0, 0], buckets[-1, 1]) == (0, 30)
    assert buckets[:, 2].tolist() == [1] + [0] * 28 + [1]


def test_nothing_is_written_where_there_is_no_finite_value(tmp_path):
    points = written(tmp_path, np.zeros((0, 4)), [np.nan, np.inf], [1.0], [])
    assert [step for step, _ in points] == [2]


def test_values_too_near_or_too_far_for_thirty_buckets_end_no_training(tmp_path):
    largest = float(np.finfo(np.float32).max)
    near, far, huge = written(tmp_path, [1.0, 1.0 + 3e-16], [-largest, largest], [-1.7e308, 2.0, 1.7e308])
    assert near[1][15, 2] == 2
    assert far[1][[0, -1], 2].tolist() == [1, 1]
    assert huge[1][15, 2] == huge[1][:, 2].sum() == 1  # beyond float32
