"""Nested states as two files, one of JSON and one of arrays; to read them runs no code of theirs."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np

State = None | bool | int | float | str | bytes | np.ndarray | list | dict

# What JSON has no word for stands there as an object of one key; so do dicts themselves, lest one be taken for it.
_ARRAY, _BYTES, _DICT = "array", "bytes", "dict"


def write_state(folder: Path, name: str, state: State) -> None:
    """Writes `<name>.json` and, with the arrays in it, `<name>.npz`.

    Args:
        folder: that exists.
        name: of the files, without an ending.
        state: dicts with text for keys, lists, arrays, bytes, numbers, text, None.

    Raises:
        TypeError: there is something else in it; the text says where.
        OSError: what the system says.
    """
    arrays: list[np.ndarray] = []
    encoded = _encode(state, name, arrays)
    np.savez(folder / f"{name}.npz", *arrays)
    (folder / f"{name}.json").write_text(json.dumps(encoded) + "\n", encoding="utf-8")


def read_state(folder: Path, name: str) -> State:
    """Returns what `write_state` wrote; tuples come back as lists, numpy's numbers as Python's.

    Raises:
        ValueError: a file is missing, or is none that was written.
    """
    try:
        encoded = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        with open(folder / f"{name}.npz", "rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            return _decode(encoded, arrays)
    except (OSError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"a saved state is what was written. Received: {folder / name}: {error}") from error


def _encode(state, where: str, arrays: list[np.ndarray]):
    if state is None or isinstance(state, bool | int | float | str):
        return state
    if isinstance(state, np.generic):
        return _encode(state.item(), where, arrays)
    if isinstance(state, list | tuple):
        return [_encode(each, f"{where}[{number}]", arrays) for number, each in enumerate(state)]
    if isinstance(state, dict) and all(isinstance(key, str) for key in state):
        return {_DICT: {key: _encode(value, f"{where}.{key}", arrays) for key, value in state.items()}}
    if isinstance(state, bytes):
        return {_BYTES: _put(np.frombuffer(state, np.uint8), arrays)}
    if isinstance(state, np.ndarray) and not state.dtype.hasobject:
        return {_ARRAY: _put(state, arrays)}
    raise TypeError(
        "A saved state is made of dicts with text for keys, lists, arrays, bytes, numbers, text and None. "
        f"Received: {where} is a {type(state).__name__}"
    )


def _put(array: np.ndarray, arrays: list[np.ndarray]) -> str:
    arrays.append(array)
    return f"arr_{len(arrays) - 1}"  # as numpy calls what it is given without names


def _decode(encoded, arrays):
    if isinstance(encoded, list):
        return [_decode(each, arrays) for each in encoded]
    if not isinstance(encoded, dict):
        return encoded
    ((kind, value),) = encoded.items()
    if kind == _DICT:
        return {key: _decode(each, arrays) for key, each in value.items()}
    return arrays[value].tobytes() if kind == _BYTES else arrays[value]
