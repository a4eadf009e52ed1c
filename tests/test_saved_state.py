"""Nested states come back from files as they were, and nothing in a file is run."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dqn_lab.saved_state import read_state, write_state

numbers = st.integers() | st.floats(allow_nan=False) | st.booleans() | st.none()
words = st.text(max_size=5) | st.sampled_from(["array", "bytes", "dict", "arr_0"])
leaves = numbers | words | st.binary(max_size=5)
states = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3), max_leaves=10
)


@given(states)
def test_what_was_written_is_read_again(tmp_path_factory, state):
    folder = tmp_path_factory.mktemp("state")
    write_state(folder, "run", state)
    assert read_state(folder, "run") == state


@pytest.mark.parametrize("dtype", [np.uint8, np.bool_, np.int32, np.float64, "<U3"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_arrays_keep_shape_dtype_and_bits(tmp_path, dtype, shape):
    array = np.full(shape, 1, dtype)
    write_state(tmp_path, "run", {"a": [array, array * 1 if dtype != "<U3" else array], "b": array.tobytes()})
    read = read_state(tmp_path, "run")
    np.testing.assert_array_equal(read["a"][0], array, strict=True)
    assert read["b"] == array.tobytes()


def test_a_generators_state_has_integers_of_128_bits(tmp_path):
    generator = np.random.default_rng(3)
    generator.random(5)
    write_state(tmp_path, "run", generator.bit_generator.state)
    other = np.random.default_rng(0)
    other.bit_generator.state = read_state(tmp_path, "run")
    assert other.random() == generator.random()


def test_numbers_of_numpy_and_tuples_become_pythons(tmp_path):
    write_state(tmp_path, "run", {"a": (np.int64(3), np.float64("inf"), np.bool_(True))})
    (number, infinite, flag) = read_state(tmp_path, "run")["a"]
    assert (type(number), number, infinite, flag) == (int, 3, float("inf"), True)


@pytest.mark.parametrize(
    ("value", "kind"),
    [({1: 2}, "dict"), (np.array([None]), "ndarray"), (set(), "set"), (object(), "object"), (1j, "complex")],
)
def test_anything_else_is_refused_where_it_stands_and_nothing_is_written(tmp_path, value, kind):
    with pytest.raises(TypeError, match=rf"Received: run\.lanes\[1\]\.x is a {kind}$"):
        write_state(tmp_path, "run", {"lanes": [0, {"x": value}]})
    assert list(tmp_path.iterdir()) == []


class _Bomb:
    def __reduce__(self):
        return pytest.fail, ("code of a file was run",)


def test_a_pickle_in_the_place_of_the_arrays_is_not_run(tmp_path):
    write_state(tmp_path, "run", {"a": np.zeros(3)})
    np.savez(tmp_path / "run.npz", arr_0=np.zeros(0))
    (tmp_path / "run.npz").write_bytes(pickle.dumps(_Bomb()))
    with pytest.raises(ValueError, match="a saved state is what was written. Received: .*run: "):
        read_state(tmp_path, "run")


@pytest.mark.parametrize("damage", ["no json", "no npz", "cut json", "cut npz", "other json"])
def test_a_damaged_file_is_told_in_a_line(tmp_path, damage):
    write_state(tmp_path, "run", {"a": np.arange(50), "b": 1})
    what, ending = damage.split()
    file = tmp_path / f"run.{ending}"
    if what == "no":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-20] if what == "cut" else b'{"array": "arr_7"}')
    with pytest.raises(ValueError, match="a saved state is what was written. Received: .*run: "):
        read_state(tmp_path, "run")
