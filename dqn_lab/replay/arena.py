"""Blocks of bytes of any length, kept in chunks of one size that are used again and again."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dqn_lab.replay.lazy_memory import lazy_zeros


@dataclass(slots=True)
class _Chunk:
    data: np.ndarray  # [chunk_bytes] uint8
    view: memoryview  # of `data`: slicing it is what reading costs
    touched: int  # bytes of `data` that were ever written: only these take memory
    end: int = 0  # bytes filled
    live: int = 0  # blocks not released


class Arena:
    """Where blocks lie, one behind the other, whatever they are.

    Only the newest chunk is written to. A full one changes no more; once all its blocks are released, its memory is
    used for another. As blocks are released in about the order in which they came, the number of chunks stays what
    the live blocks need, and memory neither grows nor falls to pieces:

        serial   7             8             9         10 is next, and takes the memory of 7
               [ . . . . . ] [ . b b b b ] [ b b|   ]                 b live, . released

    A chunk's serial number is never used again: two states that show the same one show the same bytes.

    Args:
        chunk_bytes: size of a chunk; no block may be larger.
        before_growth: called before memory for another chunk is allocated; what it raises leaves all as it was.
    """

    def __init__(self, chunk_bytes: int, before_growth: Callable[[], None]) -> None:
        self.chunk_bytes = chunk_bytes
        self._newest = -1  # serial number of the chunk being filled
        self._before_growth = before_growth
        self._chunks: dict[int, _Chunk] = {}
        self._free: list[np.ndarray] = []

    @property
    def nbytes(self) -> int:
        """Bytes held: all that was ever written to."""
        return len(self._free) * self.chunk_bytes + sum(chunk.touched for chunk in self._chunks.values())

    def put(self, block: bytes | memoryview) -> tuple[int, int]:
        """Stores a block; returns its chunk's serial number, and where in the chunk it begins."""
        chunk = self._chunks.get(self._newest)
        if chunk is None or chunk.end + len(block) > self.chunk_bytes:
            chunk = self._begin_chunk()
        begin, chunk.end = chunk.end, chunk.end + len(block)
        chunk.view[begin : chunk.end] = block
        chunk.touched = max(chunk.touched, chunk.end)
        chunk.live += 1
        return self._newest, begin

    def get(self, serial: int, begin: int, length: int) -> memoryview:
        """Returns a block, not a copy."""
        return self._chunks[serial].view[begin : begin + length]

    def release(self, serial: int) -> None:
        """Gives up one of a chunk's blocks."""
        self._chunks[serial].live -= 1
        if serial != self._newest:
            self._reuse_if_dead(serial)

    def clear(self) -> None:
        """Gives up all blocks, and their memory."""
        self._chunks, self._free = {}, []

    def get_state(self) -> dict[int, np.ndarray]:
        """Returns serial number -> the bytes filled, themselves and not copies, of every chunk in use."""
        return {serial: chunk.data[: chunk.end] for serial, chunk in self._chunks.items()}

    def set_state(self, chunks: dict[int, np.ndarray], live: dict[int, int]) -> None:
        """Copies the chunks of `get_state` in.

        Args:
            chunks: serial number -> bytes.
            live: serial number -> number of blocks that are not released.
        """
        restored = {}
        for serial, data in chunks.items():
            chunk = restored[serial] = self._make_chunk(self._allocate(), 0)
            chunk.data[: len(data)] = data
            chunk.end = chunk.touched = len(data)
            chunk.live = live.get(serial, 0)
        self._chunks, self._free, self._newest = restored, [], max(restored, default=-1)

    def _begin_chunk(self) -> _Chunk:
        self._reuse_if_dead(self._newest)
        if self._free:
            chunk = self._make_chunk(self._free.pop(), self.chunk_bytes)
        else:
            chunk = self._make_chunk(self._allocate(), 0)
        self._newest += 1
        self._chunks[self._newest] = chunk
        return chunk

    def _reuse_if_dead(self, serial: int) -> None:
        if serial in self._chunks and not self._chunks[serial].live:
            self._free.append(self._chunks.pop(serial).data)

    def _allocate(self) -> np.ndarray:
        self._before_growth()
        return lazy_zeros(self.chunk_bytes, np.uint8)

    @staticmethod
    def _make_chunk(data: np.ndarray, touched: int) -> _Chunk:
        return _Chunk(data, memoryview(data), touched)
