"""The text of a rundef's values: how `--set KEY=VALUE` is read and how a value is shown."""

from __future__ import annotations

import inspect
import math
import re
import types
import typing

_INTEGER = re.compile(r"[+-]?\d[\d_]*")


def parse_value(text: str, annotation: object, default: object) -> object:
    """Reads a value as the annotation says, or, without one, as the default's type.

    `none` and `inf` are read where the annotation allows them; an integer may have underscores;
    a tuple is `3-5` or `64,64`; a bool is `true` or `false`. Of a union the first type that can
    read the text does; a `Literal` comes first, so that its "none" is a text.

    Raises:
        ValueError: "must be int or none", for any other text.
    """
    kinds = _kinds(annotation, default)
    for kind in kinds:
        try:
            return _READERS[_origin(kind)](text, kind)
        except ValueError:
            continue
    raise ValueError("must be " + " or ".join(_name(kind) for kind in kinds))


def show_value(value: object) -> str:
    """The text that `parse_value` would read back: `1_000_000`, `3-5`, `none`, `true`, `inf`."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:_}"
    if isinstance(value, (tuple, list)):
        pair = len(value) == 2 and all(isinstance(one, int) for one in value)
        return ("-" if pair else ",").join(show_value(one) for one in value)
    return str(value)


def _kinds(annotation: object, default: object) -> tuple:
    """The types that may read the text, in the order they try."""
    if annotation is inspect.Parameter.empty or isinstance(annotation, str):
        if default is None or default is inspect.Parameter.empty:
            return (type(None), bool, int, float, str)
        return (tuple[int, ...],) if isinstance(default, tuple) else (type(default),)
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return tuple(sorted(typing.get_args(annotation), key=lambda kind: _rank(_origin(kind))))
    return (annotation,)


def _rank(origin: object) -> int:
    """Literals try first; a string, which reads everything, last."""
    return {typing.Literal: 0, type(None): 1, str: 3}.get(origin, 2)


def _origin(kind: object) -> object:
    origin = typing.get_origin(kind) or kind
    return origin if origin in _READERS else str


def _name(kind: object) -> str:
    if kind is type(None):
        return "none"
    if _origin(kind) is tuple:
        return "integers like 3-5 or 64,64"
    if _origin(kind) is typing.Literal:
        return " or ".join(map(repr, typing.get_args(kind)))
    return {bool: "true or false", int: "an integer", float: "a number", str: "text"}[_origin(kind)]


def _read_none(text: str, kind: object) -> None:
    if text.lower() != "none":
        raise ValueError
    return None


def _read_bool(text: str, kind: object) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


def _read_int(text: str, kind: object) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError
    return int(text)


def _read_float(text: str, kind: object) -> float:
    value = float(text)
    if math.isnan(value):
        raise ValueError
    return value


def _read_tuple(text: str, kind: object) -> tuple:
    words = text.strip("()").split(",") if "," in text else text.split("-")
    values = tuple(_read_int(word.strip(), int) for word in words if word.strip())
    wanted = typing.get_args(kind)
    open_ended = not wanted or wanted[-1] is Ellipsis
    if not values or not (open_ended or len(values) == len(wanted)):
        raise ValueError
    return values


def _read_literal(text: str, kind: object) -> str:
    if text not in typing.get_args(kind):
        raise ValueError
    return text


def _read_str(text: str, kind: object) -> str:
    return text


_READERS = {
    type(None): _read_none,
    bool: _read_bool,
    int: _read_int,
    float: _read_float,
    tuple: _read_tuple,
    typing.Literal: _read_literal,
    str: _read_str,
}
