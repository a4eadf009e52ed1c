"""A compiled function: one trace for each shape and dtype, and the results of the function itself."""

import numpy as np
import pytest
import tensorflow as tf

from dqn_lab.agents.compiled_function import CompiledFunction


def _counted(function):
    """Returns a compiled function and the list of its inputs' descriptions, one for each run of its Python code."""
    runs = []

    def traced(inputs):
        runs.append(tf.nest.map_structure(lambda each: (each.dtype.name, each.shape.as_list()), inputs))
        return function(inputs)

    return CompiledFunction(traced), runs


def test_it_is_traced_once_for_each_shape_and_dtype_with_its_full_shape():
    compiled, runs = _counted(lambda x: 2 * x)
    inputs = [np.ones(shape, dtype) for shape, dtype in [((2, 3), "float32"), ((4, 3), "float32"), ((2, 3), "uint8")]]
    for _ in range(3):
        for each in inputs:
            doubled = compiled(tf.constant(each))
            np.testing.assert_array_equal(doubled, 2 * each)
            assert doubled.dtype == each.dtype
    assert runs == [("float32", [2, 3]), ("float32", [4, 3]), ("uint8", [2, 3])]
    assert compiled.trace_count == 3


def test_a_dict_is_traced_once_for_its_keys_shapes_and_dtypes():
    compiled, runs = _counted(lambda batch: {"sum": batch["a"] + batch["b"], "difference": batch["a"] - batch["b"]})
    for number in range(3):
        found = compiled({"a": tf.fill([2], 5.0 + number), "b": tf.fill([2], 3.0)})
        assert {key: value.numpy().tolist() for key, value in found.items()} == {
            "sum": [8.0 + number] * 2,
            "difference": [2.0 + number] * 2,
        }
    assert compiled.trace_count == len(runs) == 1
    compiled({"a": tf.zeros([3]), "b": tf.zeros([3])})
    compiled({"a": tf.zeros([2]), "b": tf.zeros([2]), "c": tf.zeros([])})
    assert compiled.trace_count == len(runs) == 3


def test_a_dict_of_other_keys_has_a_trace_of_its_own():
    compiled, _ = _counted(lambda batch: {f"twice {key}": 2 * value for key, value in batch.items()})
    for key in ("a", "b", "a"):
        found = compiled({key: tf.constant(3.0)})
        assert {name: float(value) for name, value in found.items()} == {f"twice {key}": 6.0}
    assert compiled.trace_count == 2


def test_the_order_of_a_dicts_keys_mixes_nothing_up():
    compiled, _ = _counted(lambda batch: batch["a"] - batch["b"])
    a, b = tf.constant([5.0]), tf.constant([3.0])
    assert [float(compiled(batch)[0]) for batch in ({"a": a, "b": b}, {"b": b, "a": a}, {"b": a, "a": b})] == [2, 2, -2]


def test_variables_are_read_and_changed_at_each_call():
    count = tf.Variable(0)
    compiled, _ = _counted(lambda x: x + tf.cast(count.assign_add(1), x.dtype))
    assert [float(compiled(tf.constant(10.0))) for _ in range(3)] == [11.0, 12.0, 13.0]
    count.assign(100)
    assert float(compiled(tf.constant(10.0))) == 111.0
    assert int(count) == 101


@pytest.mark.parametrize(("asked", "compiles"), [(None, None), (False, False), (True, True)])
def test_jit_compilation_is_passed_on(asked, compiles, monkeypatch):
    seen = []
    function = tf.function
    monkeypatch.setattr(tf, "function", lambda *args, **kwargs: seen.append(kwargs) or function(*args, **kwargs))
    CompiledFunction(lambda x: x, jit_compile=asked)
    assert seen == [{"jit_compile": compiles}]


def test_an_error_in_the_function_passes_and_leaves_no_trace():
    def fails(x):
        raise ValueError("boom")

    compiled = CompiledFunction(fails)
    with pytest.raises(ValueError, match="boom"):
        compiled(tf.constant(1.0))
    assert compiled.trace_count == 0
