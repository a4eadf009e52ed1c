"""Losses: what a temporal difference or a policy costs, one pure function each, unreduced.

The replay agent takes the mean over the batch, each row times its weight, the asynchronous methods the
sum over the steps of a segment. DeepMind's code sums over the batch; where that difference matters
(centred RMSProp) `optimizers.py` has the arithmetic.
"""

from keras import ops

from dqn_lab.targets import as_row, as_table, check_same_rows, selected_values


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


def value_loss(error):
    """Returns e^2 / 2 with e = R - V(s): the critic's loss, its slope in V is exactly V - R.

    `value_loss_coefficient` comes on top of this half: at 0.5 the critic's gradient is 0.5 (V - R),
    half of what it is under (R - V)^2 / 2 alone, and a quarter of what it is under (R - V)^2. That
    is what the authors of Mnih et al. (2016) did: they multiplied the value's gradient V - R by 0.5.

    Args:
        error: R - V(s), [B], with the gradient of R stopped.

    Returns:
        Losses, [B].

    Raises:
        ValueError: `error` has another shape.
    """
    return 0.5 * ops.square(_row(error))  # [B]


def policy_gradient_loss(logits, action, advantage):
    """Returns -log pi(a|s) * advantage: Mnih et al. (2016), algorithm S3, as a loss to be minimised.

    A step against its gradient makes an action of positive advantage likelier. The advantage is
    taken as a number: no gradient goes through it to the value.

    Args:
        logits: of the policy, [B, A].
        action: the action that was taken in each row, [B] integers.
        advantage: R - V(s), [B].

    Returns:
        Losses, [B].

    Raises:
        ValueError: a shape is another one, or the numbers of rows differ.
        TypeError: `action` doesn't hold integers.
    """
    logits = as_table("logits", logits)  # [B, A]
    advantage = as_row("advantage", advantage, logits.dtype)  # [B]
    check_same_rows(logits=logits, advantage=advantage)
    log_probability = selected_values(ops.log_softmax(logits, axis=1), action)  # [B]
    return ops.negative(log_probability * ops.stop_gradient(advantage))  # [B]


def entropy(logits):
    """Returns H = -sum_a pi(a|s) log pi(a|s), from 0 for a sure action to log A for a uniform policy.

    A bonus, no loss: whoever minimises subtracts it. It comes from the log-softmax, in which no
    logarithm of 0 is taken, so a policy that has become sure has an entropy and a gradient of 0.

    Args:
        logits: of the policy, [B, A], finite.

    Returns:
        Entropies in nats, [B].

    Raises:
        ValueError: `logits` has another shape.
    """
    log_policy = ops.log_softmax(as_table("logits", logits), axis=1)  # [B, A]
    return ops.negative(ops.sum(ops.exp(log_policy) * log_policy, axis=1))  # [B]


LOSSES = {"huber": huber, "mse": squared}


def _row(error):
    error = ops.convert_to_tensor(error)
    if len(error.shape) != 1:
        raise ValueError(f"`error` must have one number per row, shape [B]. Received: error.shape={tuple(error.shape)}")
    return error  # [B]
