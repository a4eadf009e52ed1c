"""Losses: what a temporal difference costs, one pure function each, unreduced.

The agent takes the mean over the batch, each row times its weight. DeepMind's code sums over the
batch; where that difference matters (centred RMSProp) `optimizers.py` has the arithmetic.
"""

from keras import ops


def huber(error, delta=1.0):
    """Returns e^2 / 2 for |e| <= delta, and delta * (|e| - delta / 2) beyond: Huber (1964).

    Its slope is the error clipped to [-delta, delta]: with delta 1 the error clipping of Mnih et
    al. (2015), Methods. The slope is clipped, not the error, so that a large error still teaches.

    Args:
        error: temporal differences, [B].
        delta: where the parabola goes over into a straight line, above 0.

    Returns:
        Losses, [B].

    Raises:
        ValueError: `error` has another shape, or `delta` is not above 0.
    """
    if not delta > 0:
        raise ValueError(f"`delta` must be above 0. Received: delta={delta}")
    error = _row(error)  # [B]
    slope = ops.clip(error, -delta, delta)  # [B]
    # In this form the gradient is exactly `slope`: nothing is added that cancels.
    return slope * (error - 0.5 * slope)  # [B]


def squared(error):
    """Returns e^2, as Keras's mean squared error has it: without a factor 1/2, its slope is 2 e.

    Args:
        error: temporal differences, [B].

    Returns:
        Losses, [B].

    Raises:
        ValueError: `error` has another shape.
    """
    return ops.square(_row(error))  # [B]


LOSSES = {"huber": huber, "mse": squared}


def _row(error):
    error = ops.convert_to_tensor(error)
    if len(error.shape) != 1:
        raise ValueError(f"`error` must have one number per row, shape [B]. Received: error.shape={tuple(error.shape)}")
    return error  # [B]
