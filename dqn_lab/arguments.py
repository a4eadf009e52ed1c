"""Checks of argument values, each with one clear line."""

import numbers


def require_integer(name: str, value, *, least: int) -> int:
    """Returns `value` as an int.

    Raises:
        TypeError: it is not an integer.
        ValueError: it is below `least`.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"`{name}` must be an integer. Received: {name}={value!r}")
    if value < least:
        raise ValueError(f"`{name}` must be at least {least}. Received: {name}={value}")
    return int(value)


def require_flag(name: str, value) -> bool:
    """Returns `value` if it is True or False.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, bool):
        raise TypeError(f"`{name}` must be True or False. Received: {name}={value!r}")
    return value


def require_fraction(name: str, value) -> float:
    """Returns `value` as a float within 0 and 1.

    Raises:
        TypeError: it is not a number.
        ValueError: it lies outside.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"`{name}` must be a number. Received: {name}={value!r}")
    if not 0 <= value <= 1:
        raise ValueError(f"`{name}` must lie within 0 and 1. Received: {name}={value}")
    return float(value)


def require_choice(name: str, value, choices) -> str:
    """Returns `value` if it is one of the choices, which are strings.

    Raises:
        ValueError: it is none of them.
    """
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(choices)}. Received: {name}={value!r}")
    return value
