"""Memory of processes: what a replay takes while it is filled, and the peak of what is done."""

import contextlib
import ctypes
import sys
import threading
from collections.abc import Callable, Iterable

import psutil

_SETTLED_STEPS = 1_000  # by then emulators and buffers have what they need
_LOOK_SECONDS = 0.005


def resident_bytes(pid: int | None = None) -> int:
    """Returns the memory of a process that lies in RAM, what it shares with others too; None is this process."""
    return psutil.Process(pid).memory_info().rss


class ResidentPeak:
    """Looks at resident memory every 5 ms while a `with` block is carried out.

    Args:
        resident: returns the process's resident bytes.

    Attributes:
        extra_bytes: the most that was seen beyond what there was when the block began.
    """

    def __init__(self, resident: Callable[[], int] = resident_bytes) -> None:
        self.extra_bytes = 0
        self._resident = resident
        self._ended = threading.Event()

    def __enter__(self) -> "ResidentPeak":
        _give_back_freed_memory()  # or what is needed would be taken from it unseen
        self._before = self._resident()
        self._thread = threading.Thread(target=self._watch, name="resident-peak", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            self.extra_bytes = max(self.extra_bytes, self._resident() - self._before)


class ResidentOf:
    """The resident memory of some processes, each time they are looked at.

    Args:
        pids: of the processes.
        resident: returns a process's resident bytes.

    Attributes:
        now: bytes by process id at the last look.
        most: the largest of them so far.
    """

    def __init__(self, pids: Iterable[int], resident: Callable[[int], int] = resident_bytes) -> None:
        self._resident = resident
        self.now = dict.fromkeys(pids, 0)
        self.most = dict(self.now)

    def look(self) -> None:
        """Read all; one that has just died keeps what it had."""
        for pid in self.now:
            with contextlib.suppress(psutil.Error):
                self.now[pid] = self._resident(pid)
                self.most[pid] = max(self.most[pid], self.now[pid])


def fill_measured(sequence, resident: Callable[[], int] = resident_bytes) -> dict[str, float]:
    """Fills a sequence's replay.

    Args:
        sequence: not filled yet.
        resident: returns the process's resident bytes.

    Returns:
        `bytes_per_step`: what resident memory grew by from step 1,000 (a quarter of a fill below 4,000) to the end;
        `bytes_per_step_arithmetic`: what frames and columns of the rows that were stored then take;
        `fill_steps`, `fill_rows`: actions and rows of that stretch. An episode's final observation is a row too.
        Nothing, if the replay was filled already. Resident memory is blurred by a few MB that come and go elsewhere: to
        tell the bytes of packed frames a fill must be long.
    """
    settled = min(_SETTLED_STEPS, sequence.replay_min_steps // 4)
    begin: tuple[int, ...] = ()

    def progress(done: int, total: int) -> None:
        nonlocal begin
        if not begin and done >= settled:
            begin = _readings(sequence, resident)

    _give_back_freed_memory()  # or the first packed frames would come to lie in it, and nothing would seem to grow
    sequence.fill(progress)
    if not begin:
        return {}
    end = _readings(sequence, resident)
    steps, rows, grown, held = (last - first for last, first in zip(end, begin, strict=True))
    if not steps:
        return {}
    return {
        "bytes_per_step": grown / steps,
        "bytes_per_step_arithmetic": held / steps,
        "fill_steps": steps,
        "fill_rows": rows,
    }


def _readings(sequence, resident: Callable[[], int]) -> tuple[int, ...]:
    ring = sequence.replay.ring
    _give_back_freed_memory()
    return sequence.steps, len(ring), resident(), _held_bytes(ring)


def _give_back_freed_memory() -> None:
    """Lets glibc return what this process freed, so that what it holds is what it uses; elsewhere without effect."""
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


def _held_bytes(ring) -> int:
    """Bytes of the rows stored so far; arrays of zeros that nothing was written to take no memory yet."""
    frame, columns = ring.bytes_needed(1, ring.frames.shape, ring.frames.dtype)
    allocated_at_once = ring.frames.nbytes == ring.capacity * frame
    return len(ring) * columns + (len(ring) * frame if allocated_at_once else ring.frames.nbytes)
