"""Targets: what the value of the taken action should become, one pure function per update rule.

All take a batch first and return one number per row, unreduced. `reward` and `discount` may span n
steps: `reward` is then the discounted sum of the n rewards and `discount` is gamma^n, or 0 behind a
terminal step (and only there: an episode that was cut by a time limit keeps its bootstrap).

A column [B, 1] is read as the row [B] that it means, because [B] against [B, 1] would silently
broadcast to [B, B]; any other shape is refused. Numbers are taken in the dtype of the action
values. Whoever trains on a target stops its gradient.
"""

from keras import ops
from keras.backend import is_int_dtype, standardize_dtype


def selected_values(values, action):
    """Picks the value of one action in each row: Q(s, a).

    Outputs of other actions get a gradient of exactly 0, and their size doesn't enter the result.

    Args:
        values: action values, [B, A].
        action: an action from 0 to A - 1 in each row, [B] integers.

    Returns:
        Values, [B].

    Raises:
        ValueError: a shape is another one, or the numbers of rows differ.
        TypeError: `action` doesn't hold integers.
    """
    values = _table("values", values)  # [B, A]
    action = _row("action", action)  # [B]
    _check_same_rows(values=values, action=action)
    if not is_int_dtype(action.dtype):
        dtype = standardize_dtype(action.dtype)
        raise TypeError(f"`action` must hold integers. Received: action.dtype={dtype}")
    number = ops.arange(values.shape[1], dtype=action.dtype)  # [A]
    taken = ops.equal(number[None, :], action[:, None])  # [B, A]
    return ops.sum(ops.where(taken, values, ops.zeros_like(values)), axis=1)  # [B]


def td_error(target, value):
    """Returns the temporal difference y - Q(s, a) of each row.

    Args:
        target: y, [B].
        value: Q(s, a), [B].

    Returns:
        Errors, [B].

    Raises:
        ValueError: a shape is another one, or the numbers of rows differ.
    """
    value = _row("value", value)  # [B]
    target = _row("target", target, value.dtype)  # [B]
    _check_same_rows(target=target, value=value)
    return ops.subtract(target, value)  # [B]


def q_learning_target(reward, discount, next_values):
    """Returns y = r + discount * max_a Q(s', a): Mnih et al. (2015), equation 2 and algorithm 1.

    Args:
        reward: r, n-step or not, [B].
        discount: gamma^n, 0 behind a terminal step, [B].
        next_values: Q(s', .) of the network that bootstraps, [B, A].

    Returns:
        Targets, [B].

    Raises:
        ValueError: a shape is another one, or the numbers of rows differ.
    """
    next_values = _table("next_values", next_values)  # [B, A]
    return _bootstrap(reward, discount, ops.max(next_values, axis=1))  # [B]


def double_q_learning_target(reward, discount, next_values_online, next_values_target):
    """Returns y = r + discount * Q_target(s', argmax_a Q_online(s', a)).

    van Hasselt, Guez and Silver (2016): the online network chooses the action (the first of
    equals), the target network says what it is worth.

    Args:
        reward: r, n-step or not, [B].
        discount: gamma^n, 0 behind a terminal step, [B].
        next_values_online: Q_online(s', .), [B, A].
        next_values_target: Q_target(s', .), [B, A].

    Returns:
        Targets, [B].

    Raises:
        ValueError: a shape is another one, or the numbers of rows or actions differ.
    """
    online = _table("next_values_online", next_values_online)  # [B, A]
    target = _table("next_values_target", next_values_target)  # [B, A]
    if online.shape[1] != target.shape[1]:
        raise ValueError(
            "`next_values_online` and `next_values_target` must have the same number of actions. "
            f"Received: next_values_online.shape={tuple(online.shape)}, "
            f"next_values_target.shape={tuple(target.shape)}"
        )
    chosen = ops.argmax(online, axis=1)  # [B]
    return _bootstrap(reward, discount, selected_values(target, chosen))  # [B]


def _bootstrap(reward, discount, next_value):
    reward = _row("reward", reward, next_value.dtype)  # [B]
    discount = _row("discount", discount, next_value.dtype)  # [B]
    _check_same_rows(reward=reward, discount=discount, next_value=next_value)
    return ops.add(reward, ops.multiply(discount, next_value))  # [B]


def _table(name, given):
    tensor = ops.convert_to_tensor(given)  # [B, A]
    shape = tuple(tensor.shape)
    if len(shape) != 2 or not shape[1]:
        raise ValueError(f"`{name}` must be action values of shape [B, A]. Received: {name}.shape={shape}")
    return tensor


def _row(name, given, dtype=None):
    tensor = ops.convert_to_tensor(given)
    shape = tuple(tensor.shape)
    if len(shape) == 2 and shape[1] == 1:
        tensor = ops.squeeze(tensor, axis=1)  # [B]
    elif len(shape) != 1:
        raise ValueError(f"`{name}` must have one number per row, shape [B]. Received: {name}.shape={shape}")
    return tensor if dtype is None else ops.cast(tensor, dtype)  # [B]


def _check_same_rows(**tensors):
    rows = {name: tensor.shape[0] for name, tensor in tensors.items()}
    # A batch size that the graph doesn't know yet (None) fits all.
    if len({count for count in rows.values() if count is not None}) > 1:
        received = ", ".join(f"{name}.shape[0]={count}" for name, count in rows.items())
        raise ValueError(f"All arguments must have the same number of rows. Received: {received}")
