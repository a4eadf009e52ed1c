"""Arrays of a saved state, which must be like those that they are to fill."""

import numpy as np


def refuse_other_arrays(arrays: dict[str, np.ndarray], state: dict[str, np.ndarray]) -> None:
    """Refuses a state whose arrays are not like these.

    Raises:
        ValueError: an array is missing or has another shape or dtype.
    """
    for name, array in arrays.items():
        given = state.get(name)
        received = (given.shape, str(given.dtype)) if isinstance(given, np.ndarray) else None
        if received != (array.shape, str(array.dtype)):
            raise ValueError(
                f"The ring's {name!r} must have shape {array.shape} and dtype {array.dtype}. "
                f"Received: {name}={received}"
            )
