"""What a spawned process is sent."""

import cloudpickle


def make_payload(make_sequence, *others) -> bytes:
    """Pickles what a process is sent: lambdas, local functions and a script's own classes too.

    Args:
        make_sequence: makes the process's environment and front end.
        *others: of this package.

    Returns:
        Bytes that `pickle.loads` turns into the tuple of all arguments.

    Raises:
        TypeError: what makes the environment holds something that belongs to this process, such as an open file.
    """
    try:
        return cloudpickle.dumps((make_sequence, *others))
    except Exception as error:
        raise TypeError(
            "Workers are processes that make their environments themselves: what makes them must be picklable. "
            f"Received: make_environment={make_sequence!r}: {error}"
        ) from error
