"""Optimizers that several processes apply to the same parameters at once, without a lock (Hogwild).

Where two workers change the same number at the same moment, the one that writes last undoes the
other's update of it. Nothing else can happen to a number (a float32 in its place is read and
written whole), so parameters stay finite and go where the updates that were kept send them.

Arrays are walked block by block: a block stays in a core's own cache over the passes made on
it, and scratch memory is as small as a block.
"""

import math

import numpy as np

_BLOCK = 65_536  # numbers: 256 KiB of float32, four such arrays are in use at a time
# The square of a larger number leaves float32, whose largest is 3.4e38. Such gradients are cut back to it.
_LARGEST = 1e18
# Added so that what no gradient feeds doesn't decay below 1.2e-38, where some processors compute many times slower.
_SMALLEST = 1e-30


class SharedOptimizer:
    """The part that optimizers have in common: checks, then one block after the other.

    An object belongs to one worker; parameters and, if so wished, statistics belong to all.

    Args:
        parameters: changed in place, [P] float32.
        statistics: what the optimizer keeps of past gradients, changed in place, [P] float32.
        decay: share of them kept at each update, alpha, from 0 to below 1.

    Raises:
        ValueError: an array has another shape or type, or `decay` lies outside.
    """

    def __init__(self, parameters: np.ndarray, statistics: np.ndarray, *, decay: float = 0.99):
        if not 0 <= decay < 1:
            raise ValueError(f"`decay` must be from 0 to below 1. Received: decay={decay}")
        for name, array in {"parameters": parameters, "statistics": statistics}.items():
            if array.shape != (parameters.size,) or array.dtype != np.float32:
                raise ValueError(
                    f"`{name}` must be float32 of shape ({parameters.size},). "
                    f"Received: {name}.dtype={array.dtype}, {name}.shape={array.shape}"
                )
        self._decay = float(decay)
        self._size = parameters.size
        self._gradient, *scratch = np.empty((3, min(_BLOCK, self._size)), np.float32)
        self._blocks = [
            (rows, parameters[rows], statistics[rows], *(array[: parameters[rows].size] for array in scratch))
            for rows in _blocks(self._size)
        ]

    def apply(self, gradient: np.ndarray, learning_rate: float, *, norm: float | None = None) -> None:
        """Makes one update.

        Args:
            gradient: of the loss that is to become smaller, [P] float32. Numbers beyond 1e18 count as 1e18.
            learning_rate: step size, 0 or more.
            norm: of the gradient, or more, where it is known to be finite; None to look.

        Raises:
            FloatingPointError: a number of `gradient` is not finite.
            ValueError: `gradient` has another shape, or `learning_rate` is below 0 or not finite.
            Nothing is changed then.
        """
        if gradient.shape != (self._size,):
            raise ValueError(f"`gradient` must have shape ({self._size},). Received: gradient.shape={gradient.shape}")
        if not 0 <= learning_rate < math.inf:
            raise ValueError(f"`learning_rate` must be 0 or above, and finite. Received: learning_rate={learning_rate}")
        if norm is None:
            huge = not math.isfinite(_sum_of_squares(gradient))
            if huge:
                _check_finite(gradient)
        else:
            huge = norm > _LARGEST
        for rows, *block in self._blocks:
            part = gradient[rows]
            if huge:
                part = np.clip(part, -_LARGEST, _LARGEST, out=self._gradient[: part.size])
            self._apply(part, float(learning_rate), *block)

    def _apply(self, gradient, learning_rate, parameters, statistics, first, second):
        """Updates one block; the last two are scratch."""
        raise NotImplementedError


class SharedRMSProp(SharedOptimizer):
    """RMSProp of Mnih et al. (2016), equations S2 and S3: uncentred, with epsilon inside the root.

        g <- alpha g + (1 - alpha) d^2        theta <- theta - lr d / sqrt(g + epsilon)

    With g shared it is their shared RMSProp, with an array of each worker's own their RMSProp. The
    root is never taken of less than this worker's own (1 - alpha) d^2, whatever others do to g at
    that moment, so no number ever moves by more than lr / sqrt(1 - alpha): 10 lr for 0.99.

    Args:
        parameters: theta, changed in place, [P] float32.
        statistics: g, changed in place, [P] float32, 0 at the beginning.
        decay: alpha.
        epsilon: above 0. 0.1 is no small number: it counts for every gradient below about 0.3.

    Raises:
        ValueError: an array has another shape or type, `decay` lies outside, or `epsilon` is not above 0.
    """

    def __init__(self, parameters, statistics, *, decay: float = 0.99, epsilon: float = 0.1):
        super().__init__(parameters, statistics, decay=decay)
        if not 0 < epsilon < math.inf:
            raise ValueError(f"`epsilon` must be above 0. Received: epsilon={epsilon}")
        self._epsilon = float(epsilon)

    def _apply(self, gradient, learning_rate, parameters, statistics, square, step):
        np.multiply(gradient, gradient, out=square)
        np.multiply(square, 1 - self._decay, out=square)
        np.add(square, _SMALLEST, out=square)
        # What is shared is changed in place, one pass each: the moment in which an update of another can be lost
        # is as short as can be. Everything after that is the worker's own.
        np.multiply(statistics, self._decay, out=statistics)
        np.add(statistics, square, out=statistics)
        np.maximum(statistics, square, out=step)
        np.add(step, self._epsilon, out=step)
        np.sqrt(step, out=step)
        np.divide(gradient, step, out=step)
        np.multiply(step, learning_rate, out=step)
        np.subtract(parameters, step, out=parameters)


class MomentumSGD(SharedOptimizer):
    """Momentum SGD as Mnih et al. (2016) compare it, equation S1: each worker has a momentum of its own.

        m <- alpha m + (1 - alpha) d        theta <- theta - lr m

    Args:
        parameters: theta, changed in place, [P] float32.
        statistics: m, changed in place, [P] float32, 0 at the beginning; not to be shared.
        decay: alpha.

    Raises:
        ValueError: an array has another shape or type, or `decay` lies outside.
    """

    def _apply(self, gradient, learning_rate, parameters, momentum, step, _):
        np.multiply(gradient, 1 - self._decay, out=step)
        np.multiply(momentum, self._decay, out=momentum)
        np.add(momentum, step, out=momentum)
        # There and back: rounds to 0 what is too small to be computed with at full speed.
        np.add(momentum, _SMALLEST, out=momentum)
        np.subtract(momentum, _SMALLEST, out=momentum)
        np.multiply(momentum, learning_rate, out=step)
        np.subtract(parameters, step, out=parameters)


def clip_by_norm(gradient: np.ndarray, most: float, out: np.ndarray) -> float:
    """Scales a gradient down to a norm, if its own is larger: Pascanu et al. (2013), algorithm 1.

    Args:
        gradient: over all variables, [P] float32.
        most: largest norm (Euclidean) that is left alone; 0 leaves every one alone.
        out: where the result goes, [P] float32; may be `gradient` itself.

    Returns:
        The norm before.

    Raises:
        FloatingPointError: a number of `gradient` is not finite; `out` is not changed then.
        ValueError: `most` is below 0.
    """
    if not most >= 0:
        raise ValueError(f"`most` must be 0 (off) or above. Received: most={most}")
    largest, norm = 1.0, math.sqrt(_sum_of_squares(gradient))
    if not math.isfinite(norm):  # of the numbers, or only their squares leave float32
        _check_finite(gradient)
        largest = float(np.abs(gradient).max())
        norm = math.sqrt(_sum_of_squares(gradient / np.float32(largest)))
    if 0 < most < norm * largest:
        np.divide(gradient, largest, out=out)
        np.multiply(out, most / norm, out=out)
    elif out is not gradient:
        np.copyto(out, gradient)
    return norm * largest


def _blocks(size):
    return [slice(begin, min(begin + _BLOCK, size)) for begin in range(0, size, _BLOCK)]


def _sum_of_squares(array):
    # Not np.dot: BLAS would put threads to work that belong to other workers.
    return sum(float(np.einsum("i,i->", array[rows], array[rows])) for rows in _blocks(array.size))


def _check_finite(gradient):
    wrong = gradient.size - int(np.isfinite(gradient).sum())
    if wrong:
        raise FloatingPointError(
            f"`gradient` must be finite. Received: {wrong} of {gradient.size} numbers that are not"
        )
