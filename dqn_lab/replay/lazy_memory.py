"""Arrays of zeros that take memory only where they are written to, whatever their size."""

import math
import mmap

import numpy as np


def lazy_zeros(shape: int | tuple[int, ...], dtype) -> np.ndarray:
    """Returns an array of zeros on pages of its own; the system gives each page when it is first written to.

    `np.zeros` does so for large arrays only, and where the allocator keeps freed memory not even then.
    """
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    count = math.prod(shape)
    # Private to this process where there is a choice: a child that was forked must not write into it.
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
    pages = mmap.mmap(-1, max(count * np.dtype(dtype).itemsize, 1), **private)
    return np.frombuffer(pages, dtype, count).reshape(shape)
