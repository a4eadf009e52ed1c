"""Targets: what the value of the taken action should become, one pure function per update rule.

All take a batch first and return one number per row, unreduced. `reward` and `discount` may span n
steps: `reward` is then the discounted sum of the n rewards and `discount` is gamma^n, or 0 behind a
terminal step (and only there: an episode that was cut by a time limit keeps its bootstrap).

A column [B, 1] is read as the row [B] that it means, because [B] against [B, 1] would silently
broadcast to [B, B]; any other shape is refused. Numbers are taken in the dtype of the action
values. Whoever trains on a target stops its gradient.
"""

from keras import ops
from keras.backend import is_int_dtype, result_type, standardize_dtype


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
    values = as_table("values", values)  # [B, A]
    action = as_row("action", action)  # [B]
    check_same_rows(values=values, action=action)
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
    value = as_row("value", value)  # [B]
    target = as_row("target", target, value.dtype)  # [B]
    check_same_rows(target=target, value=value)
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
    next_values = as_table("next_values", next_values)  # [B, A]
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
    online = as_table("next_values_online", next_values_online)  # [B, A]
    target = as_table("next_values_target", next_values_target)  # [B, A]
    if online.shape[1] != target.shape[1]:
        raise ValueError(
            "`next_values_online` and `next_values_target` must have the same number of actions. "
            f"Received: next_values_online.shape={tuple(online.shape)}, "
            f"next_values_target.shape={tuple(target.shape)}"
        )
    chosen = ops.argmax(online, axis=1)  # [B]
    return _bootstrap(reward, discount, selected_values(target, chosen))  # [B]


def sarsa_target(reward, discount, next_values, next_action):
    """Returns y = r + discount * Q(s', a'): Rummery and Niranjan (1994); Mnih et al. (2016), section 4.

    Args:
        reward: r, n-step or not, [B].
        discount: gamma^n, 0 behind a terminal step (then a' is of no account), [B].
        next_values: Q(s', .) of the network that bootstraps, [B, A].
        next_action: a', the action that was really taken in s' and not one drawn anew, [B] integers.

    Returns:
        Targets, [B].

    Raises:
        ValueError: a shape is another one, or the numbers of rows differ.
        TypeError: `next_action` doesn't hold integers.
    """
    return _bootstrap(reward, discount, selected_values(next_values, next_action))  # [B]


def n_step_returns(reward, discount, bootstrap):
    """Returns R_t = r_t + discount_t * R_{t+1} of a segment: Mnih et al. (2016), algorithms S2 and S3.

        step      0     1    ...   T-1
        reward   r_0   r_1        r_T-1
        return   R_0 < R_1 < ... < R_T-1 < bootstrap        x < y: x takes discount * y

    Each step looks as far as the segment goes: the last one 1 step, the first one T.

    Args:
        reward: r of consecutive steps, oldest first, [T].
        discount: gamma, 0 behind a terminal step, [T].
        bootstrap: value of the state behind the last step, []. Behind a terminal step it is of no
            account, as long as it is finite; where a time limit cut the episode it counts.

    Returns:
        Returns, [T], in the dtype of `bootstrap`.

    Raises:
        ValueError: a shape is another one, or the numbers of steps differ.
    """
    bootstrap = ops.convert_to_tensor(bootstrap)  # []
    bootstrap = ops.cast(bootstrap, result_type(bootstrap.dtype, float))  # a plain 0 makes no integers of returns
    if len(bootstrap.shape):
        shape = tuple(bootstrap.shape)
        raise ValueError(f"`bootstrap` must be one number, shape []. Received: bootstrap.shape={shape}")
    reward = as_row("reward", reward, bootstrap.dtype)  # [T]
    discount = as_row("discount", discount, bootstrap.dtype)  # [T]
    check_same_rows(reward=reward, discount=discount)

    def back(later, step):
        now = step[0] + step[1] * later  # []
        return now, now

    # One array to scan: of two, Keras wants to know the length before the graph runs.
    steps = ops.stack([reward, discount], axis=1)  # [T, 2]
    return ops.scan(back, bootstrap, steps, reverse=True)[1]  # [T]


def _bootstrap(reward, discount, next_value):
    reward = as_row("reward", reward, next_value.dtype)  # [B]
    discount = as_row("discount", discount, next_value.dtype)  # [B]
    check_same_rows(reward=reward, discount=discount, next_value=next_value)
    return ops.add(reward, ops.multiply(discount, next_value))  # [B]


def as_table(name, given):
    """Returns `given` as a tensor [B, A], or raises ValueError with its name."""
    tensor = ops.convert_to_tensor(given)  # [B, A]
    shape = tuple(tensor.shape)
    if len(shape) != 2 or not shape[1]:
        raise ValueError(f"`{name}` must have one number per action, shape [B, A]. Received: {name}.shape={shape}")
    return tensor


def as_row(name, given, dtype=None):
    """Returns `given`, a row [B] or a column [B, 1], as a tensor [B], or raises ValueError with its name."""
    tensor = ops.convert_to_tensor(given)
    shape = tuple(tensor.shape)
    if len(shape) == 2 and shape[1] == 1:
        tensor = ops.squeeze(tensor, axis=1)  # [B]
    elif len(shape) != 1:
        raise ValueError(f"`{name}` must have one number per row, shape [B]. Received: {name}.shape={shape}")
    return tensor if dtype is None else ops.cast(tensor, dtype)  # [B]


def check_same_rows(**tensors):
    """Raises ValueError with the names if the tensors' numbers of rows differ."""
    rows = {name: tensor.shape[0] for name, tensor in tensors.items()}
    # A batch size that the graph doesn't know yet (None) fits all.
    if len({count for count in rows.values() if count is not None}) > 1:
        received = ", ".join(f"{name}.shape[0]={count}" for name, count in rows.items())
        raise ValueError(f"All arguments must have the same number of rows. Received: {received}")
