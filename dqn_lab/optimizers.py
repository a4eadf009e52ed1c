"""Optimizers: Keras's own, and one preset equal to that of the Nature paper.

DeepMind's centred RMSProp (Mnih et al., 2015, extended data table 1: gradient momentum 0.95,
squared gradient momentum 0.95, minimum squared gradient 0.01) steps by

    m <- 0.95 m + 0.05 g        v <- 0.95 v + 0.05 g^2        w <- w - lr * g / sqrt(v - m^2 + 0.01)

where g is the gradient of the SUM of the losses of a batch. The agents here take the MEAN over B
rows, whose gradient is g / B; then m is m / B, v is v / B^2, and the same step is

    lr * g / sqrt(v - m^2 + 0.01)  =  lr * (g / B) / sqrt((v - m^2) / B^2 + 0.01 / B^2)

so under a mean the 0.01 must be 0.01 / B^2: 9.77e-6 for B = 32. It is no small number that only
guards a division: with 0.01 under a mean of 32 rows, steps where the summed gradient's
sqrt(v - m^2) is below 0.1 would be up to 32 times too small.
"""

import difflib
import math

import keras


def make_optimizer(
    name: str, learning_rate: float, *, batch_size: int | None = None, epsilon: float | None = None
) -> keras.optimizers.Optimizer:
    """Returns a new optimizer for a loss that is the mean over the batch.

    Args:
        name: "rmsprop_centered" is the Nature paper's (see above), "rmsprop", "adam" and "sgd" are
            Keras's with its defaults.
        learning_rate: step size, above 0; the paper's is 2.5e-4.
        batch_size: rows of a batch; needed by "rmsprop_centered", of no account to the others.
        epsilon: what "adam" adds to the root, or "rmsprop" under it, above 0; None for Keras's 1e-7. Keras's
            Adam adds it before the bias is corrected: Kingma and Ba (2015), section 2, epsilon hat.

    Raises:
        ValueError: `name` is unknown, `learning_rate` or `epsilon` is not above 0, "rmsprop_centered"
            is not told a batch size of at least 1, or an epsilon is given to one that takes none.
    """
    if name not in _OPTIMIZERS:
        closest = difflib.get_close_matches(str(name), _OPTIMIZERS, n=1, cutoff=0.0)[0]
        raise ValueError(
            f"`optimizer` must be one of {', '.join(_OPTIMIZERS)}; the closest is {closest!r}. "
            f"Received: optimizer={name!r}"
        )
    if not 0 < learning_rate < math.inf:
        raise ValueError(f"`learning_rate` must be above 0. Received: learning_rate={learning_rate}")
    if epsilon is None:
        return _OPTIMIZERS[name](learning_rate, batch_size)
    if name not in _TAKE_EPSILON:
        takers = " and ".join(_TAKE_EPSILON)
        raise ValueError(f"`optimizer_epsilon` is for {takers} only. Received: optimizer={name!r}, {epsilon=}")
    if not 0 < epsilon < math.inf:
        raise ValueError(f"`optimizer_epsilon` must be above 0. Received: optimizer_epsilon={epsilon}")
    return _TAKE_EPSILON[name](learning_rate, epsilon=epsilon)


def _rmsprop_centered(learning_rate, batch_size):
    if batch_size is None or batch_size < 1:
        raise ValueError(
            "`batch_size` must be at least 1 for rmsprop_centered, whose epsilon depends on it. "
            f"Received: batch_size={batch_size}"
        )
    epsilon = 0.01 / batch_size**2  # of a sum over the batch -> of a mean over the batch
    return keras.optimizers.RMSprop(learning_rate, rho=0.95, epsilon=epsilon, centered=True)


_OPTIMIZERS = {
    "rmsprop_centered": _rmsprop_centered,
    "rmsprop": lambda learning_rate, _: keras.optimizers.RMSprop(learning_rate),
    "adam": lambda learning_rate, _: keras.optimizers.Adam(learning_rate),
    "sgd": lambda learning_rate, _: keras.optimizers.SGD(learning_rate),
}
_TAKE_EPSILON = {"adam": keras.optimizers.Adam, "rmsprop": keras.optimizers.RMSprop}
