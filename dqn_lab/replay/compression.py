"""Observations compressed without loss."""

import math
from collections.abc import Callable
from typing import Any

import lz4.block
import numpy as np

from dqn_lab.replay.arena import Arena
from dqn_lab.replay.changes import index_between
from dqn_lab.replay.saved_arrays import refuse_other_arrays

_LEVEL = 5  # of LZ4's high compression: a third smaller than its fast mode, for 17 microseconds more per frame


class CompressedFrames:
    """The newest `capacity` observations, a lane's in blocks of 16 consecutive ones, each block compressed by LZ4.

    LZ4 finds in an observation what the one before it showed, up to 64 KiB back, so that mostly what moved remains.
    A lane's newest 16 observations are kept raw too. Its block is compressed when the next one begins:

        position   0 .. 15         16 .. 31       32 .. 47       48 49 50
                  [ overwritten ] [ compressed ] [ compressed ]             in the arena
                                                    35 .. 47   48 49 50     raw: what acting reads

    Args:
        capacity: observations, all lanes together, a multiple of `num_envs`.
        num_envs: number of lanes.
        shape: shape of one observation.
        dtype: dtype of the observations.
        on_growth: called with the bytes and the observations held before memory is allocated for more. It may raise
            MemoryError: then nothing has been written, and the same `append` may be tried again.
        block_rows: observations in a block; fewer cost more bytes each, more cost more time where single ones are read.
        chunk_bytes: bytes by which memory grows, or those of a block if that is more.
    """

    def __init__(
        self,
        capacity: int,
        num_envs: int,
        shape: tuple[int, ...],
        dtype,
        on_growth: Callable[[int, int], None] | None = None,
        *,
        block_rows: int = 16,
        chunk_bytes: int = 4 * 2**20,
    ) -> None:
        self.num_envs, self.slots, self.block_rows = num_envs, capacity // num_envs, block_rows
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self._on_growth = on_growth
        self._newest = np.full(num_envs, -1)  # position of each lane's newest observation
        self._recent = np.zeros((num_envs, block_rows, *shape), dtype)  # position p in row p % block_rows
        # A whole observation as one item: copying items costs numpy less than copying arrays.
        self._row = np.dtype(f"V{self._recent[0, 0].nbytes}")
        self._recent_rows = self._recent.reshape(num_envs, block_rows, -1).view(self._row)[..., 0]  # [N, block_rows]
        # As many blocks as a lane's rows can lie in: when one comes in its place, all of a block's rows are gone.
        blocks = num_envs, (self.slots - 2) // block_rows + 2
        self._serial = np.full(blocks, -1, np.int64)  # of the chunk that a block lies in; -1 where there is none
        self._begin, self._length = np.zeros(blocks, np.int32), np.zeros(blocks, np.int32)
        self._block_bytes = self._recent[0].nbytes
        incompressible = self._block_bytes + self._block_bytes // 255 + 16  # LZ4's bound
        self._arena = Arena(max(chunk_bytes, incompressible), self._announce_growth)

    def __len__(self) -> int:
        return int(np.minimum(self._newest + 1, self.slots).sum())

    @property
    def nbytes(self) -> int:
        """Bytes held: chunks as far as they were ever filled, raw observations, and where blocks lie."""
        return self._arena.nbytes + sum(array.nbytes for array in self._arrays().values())

    @property
    def compressed_bytes_per_row(self) -> float:
        """Mean bytes of a compressed observation; NaN before there is one."""
        rows = np.count_nonzero(self._length) * self.block_rows
        return self._length.sum() / rows if rows else math.nan

    @property
    def bytes_per_row(self) -> float:
        """About the bytes of an observation in changes."""
        packed = self.compressed_bytes_per_row
        return self._block_bytes / self.block_rows if math.isnan(packed) else packed

    def clear(self) -> None:
        """Forgets all observations, and gives their memory back."""
        self._arena.clear()
        for array in self._arrays().values():
            array[...] = 0
        self._newest[...] = self._serial[...] = -1

    def append(self, index: np.ndarray, frames: np.ndarray) -> None:
        """Writes one observation per index, each lane's next. [N], [N, *shape]

        Raises:
            MemoryError: as `on_growth` says.
        """
        position, lane = np.divmod(index, self.num_envs)
        row = position % self.block_rows
        if not row.all():
            for each in lane[(row == 0) & (position > 0)].tolist():
                self._compress(each)
        self._recent[lane, row] = frames
        self._newest[lane] = position

    def read(self, index: np.ndarray) -> np.ndarray:
        """Returns copies of stored observations, in any order and as often as asked for. [...] -> [..., *shape]"""
        position, lane = np.divmod(np.ravel(index), self.num_envs)  # [K], [K]
        row = position % self.block_rows  # [K]
        recent = position > self._newest[lane] - self.block_rows  # [K]
        if recent.all():
            rows = self._recent_rows[lane, row]  # [K]
        else:
            rows = np.empty(len(row), self._row)  # [K]
            rows[recent] = self._recent_rows[lane[recent], row[recent]]
            self._decompress(rows, np.flatnonzero(~recent), position, lane)
        return rows.view(self.dtype).reshape(*np.shape(index), *self.shape)

    def get_state(self) -> dict[str, Any]:
        """Returns the arrays themselves, not copies; "chunks" shows the arena's by serial number, as text.

        The chunk of the highest serial number is still being filled; the others change no more.
        """
        return {**self._arrays(), "chunks": {str(serial): data for serial, data in self._arena.get_state().items()}}

    def set_state(self, state: dict[str, Any]) -> None:
        """Copies what `get_state` shows in.

        Raises:
            ValueError: it is not of such a store, or blocks lie where it has no bytes.
            MemoryError: as `on_growth` says.
        """
        state = state if isinstance(state, dict) else {}
        refuse_other_arrays(self._arrays(), state)
        chunks, used = _by_serial(state.get("chunks")), state["length"] > 0
        serial, which, count = np.unique(state["serial"][used], return_inverse=True, return_counts=True)
        filled = np.array([len(chunks.get(each, ())) for each in serial.tolist()], np.int64)
        begin = state["begin"][used].astype(np.int64)
        if np.any((begin < 0) | (begin + state["length"][used] > filled[which])):
            raise ValueError(f"Compressed observations must lie within their chunk. Received: chunks={sorted(chunks)}")
        self._arena.set_state(chunks, dict(zip(serial.tolist(), count.tolist(), strict=True)))
        for name, array in self._arrays().items():
            array[...] = state[name]

    def get_changes(self, first: np.ndarray, written: np.ndarray) -> dict[str, np.ndarray]:
        """Returns copies of the observations from position `first` of each lane to `written - 1`, as they are kept.

        Args:
            first, written: positions that are stored, and rows written to each lane by then, [num_envs].

        Returns:
            "block_rows" (); of the B blocks that hold such observations "length" [B] and, one behind the other, their
            bytes, "compressed" [...]; those of them that are raw too, "recent" [M, *shape].
        """
        number, lane = np.divmod(self._complete_blocks(first, written), self.num_envs)  # [B], [B]
        place = lane, number % self._serial.shape[1]
        serial, begin, length = (each[place] for each in (self._serial, self._begin, self._length))  # [B] each
        places = zip(serial.tolist(), begin.tolist(), length.tolist(), strict=True)
        return {
            "block_rows": np.array(self.block_rows, np.int64),
            "length": length,
            "compressed": np.frombuffer(b"".join(self._arena.get(*each) for each in places), np.uint8),
            "recent": self.read(self._recent_index(first, written)),
        }

    def apply_changes(self, changes: dict[str, np.ndarray], first: np.ndarray, written: np.ndarray) -> None:
        """Takes over what `get_changes` returned for the same positions.

        Raises:
            ValueError: it is not of such a store.
            MemoryError: as `on_growth` says; then nothing has changed.
        """
        blocks, recent = self._complete_blocks(first, written), self._recent_index(first, written)
        self._check_changes(changes, len(blocks), len(recent))
        length = changes["length"].tolist()
        places = self._put_all(changes["compressed"], length)
        number, lane = np.divmod(blocks, self.num_envs)  # [B], [B]
        for each, block, place, size in zip(lane.tolist(), number.tolist(), places, length, strict=True):
            self._set_place(each, block, *place, size)
        position, lane = np.divmod(recent, self.num_envs)  # [M], [M]
        self._recent[lane, position % self.block_rows] = changes["recent"]
        self._newest[...] = written - 1

    def _complete_blocks(self, first: np.ndarray, written: np.ndarray) -> np.ndarray:
        """Returns the compressed blocks from that of position `first` on, numbered as rows are. -> [B]"""
        return index_between(first // self.block_rows, np.maximum(written - 1, 0) // self.block_rows)

    def _recent_index(self, first: np.ndarray, written: np.ndarray) -> np.ndarray:
        return index_between(np.maximum(first, written - self.block_rows), written)  # [M]

    def _check_changes(self, changes: dict[str, np.ndarray], blocks: int, recent: int) -> None:
        expected = {
            "block_rows": np.array(self.block_rows, np.int64),
            "length": np.empty(blocks, np.int32),
            "recent": np.empty((recent, *self.shape), self.dtype),
        }
        refuse_other_arrays(expected, changes)
        if changes["block_rows"] != self.block_rows:
            raise ValueError(f"A block must have {self.block_rows} rows. Received: block_rows={changes['block_rows']}")
        length = changes["length"]
        if np.any((length < 1) | (length > self._arena.chunk_bytes)):
            raise ValueError(
                f"A block must have 1 to {self._arena.chunk_bytes} bytes. "
                f"Received: length={length.min()} to {length.max()}"
            )
        refuse_other_arrays({"compressed": np.empty(length.sum(), np.uint8)}, changes)

    def _put_all(self, compressed: np.ndarray, length: list[int]) -> list[tuple[int, int]]:
        """Stores blocks that lie one behind the other, all or none; returns serial number and begin of each."""
        places, begin, view = [], 0, memoryview(compressed)
        try:
            for each in length:
                places.append(self._arena.put(view[begin : begin + each]))
                begin += each
        except MemoryError:
            for serial, _ in places:
                self._arena.release(serial)
            raise
        return places

    def _compress(self, lane: int) -> None:
        """Compresses the block that ends in the lane's newest observation."""
        compressed = lz4.block.compress(self._recent[lane], "high_compression", compression=_LEVEL, store_size=False)
        serial, begin = self._arena.put(compressed)
        self._set_place(lane, self._newest[lane] // self.block_rows, serial, begin, len(compressed))

    def _set_place(self, lane: int, number: int, serial: int, begin: int, length: int) -> None:
        """Notes where a lane's block lies, and releases the one whose place it takes."""
        place = lane, number % self._serial.shape[1]
        if self._length[place]:
            self._arena.release(int(self._serial[place]))
        self._serial[place], self._begin[place], self._length[place] = serial, begin, length

    def _decompress(self, rows: np.ndarray, missing: np.ndarray, position: np.ndarray, lane: np.ndarray) -> None:
        """Fills in the missing ones of some observations; each of their blocks is decompressed once.

        Args:
            rows: what to fill in, [K].
            missing: which of them, [P], of 0..K-1.
            position, lane: of all of them, [K].
        """
        blocks = self._serial.shape[1]
        block = lane[missing] * blocks + position[missing] // self.block_rows % blocks  # [P]
        order = np.argsort(block)
        block, missing = block[order], missing[order]  # [P], those of one block side by side
        row = position[missing] % self.block_rows  # [P]
        bounds = np.flatnonzero(np.diff(block, prepend=-1, append=-1))  # [U + 1], of U different blocks
        needed, bounds = block[bounds[:-1]], bounds.tolist()  # [U]
        places = (each.ravel()[needed].tolist() for each in (self._serial, self._begin, self._length))
        for *place, start, stop in zip(*places, bounds[:-1], bounds[1:], strict=True):
            block = lz4.block.decompress(self._arena.get(*place), uncompressed_size=self._block_bytes)
            rows[missing[start:stop]] = np.frombuffer(block, self._row)[row[start:stop]]

    def _arrays(self) -> dict[str, np.ndarray]:
        return {
            "newest": self._newest,
            "recent": self._recent,
            "serial": self._serial,
            "begin": self._begin,
            "length": self._length,
        }

    def _announce_growth(self) -> None:
        if self._on_growth is not None:
            self._on_growth(self.nbytes, len(self))


def _by_serial(chunks) -> dict[int, np.ndarray]:
    chunks = chunks if isinstance(chunks, dict) else {}
    if not all(str(name).isdecimal() and isinstance(data, np.ndarray) for name, data in chunks.items()):
        raise ValueError(f"Chunks are arrays by serial number. Received: chunks={sorted(map(str, chunks))}")
    return {int(name): data for name, data in chunks.items()}
