"""Memory: how much this machine has left, and whether a replay fits into it."""

from collections.abc import Iterator
from pathlib import Path

import psutil

_UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_RESERVE = 0.1  # of what is available: left to the network, the emulator and the system
_WORKER_BYTES = 300 * 2**20  # of a process with TensorFlow and an emulator, beside what all of them share
_LEAST_LEFT = 256 * 2**20  # bytes that a growing replay leaves; it grows by some MiB at a time


def describe_bytes(count: int) -> str:
    """Returns a number of bytes for people: "6.57 GiB", "0.02 GiB", "6.89 KiB", "12 B"."""
    for unit, size in _UNITS:
        if count >= size / 100:  # the largest unit in which two decimals still show something
            return f"{count / size:.2f} {unit}"
    return f"{count} B"


def available_memory_bytes() -> int:
    """Returns the bytes still to be had: the least that the machine and its control groups leave.

    A container's limit (cgroup v1 or v2) is often far below the memory of its machine.
    """
    return min([psutil.virtual_memory().available, *_cgroup_remaining_bytes()])


def check_memory(needed_bytes: int, capacity: int, bytes_per_row: float, *, multiple: int = 1) -> None:
    """Refuses a replay that is larger than the memory that is left.

    Args:
        needed_bytes: all that will be allocated, in bytes.
        capacity: rows of the replay, all lanes together.
        bytes_per_row: bytes that one row more or less costs.
        multiple: of which the proposed capacity is to be one (the lanes).

    Raises:
        ValueError: it doesn't fit. The text has both figures and a capacity that fits, which leaves
            a tenth of the available memory free.
    """
    available = available_memory_bytes()
    if needed_bytes <= available:
        return
    fixed = needed_bytes - capacity * bytes_per_row
    advice = _advise(int((available * (1 - _RESERVE) - fixed) // bytes_per_row), multiple)
    raise ValueError(
        f"The replay must fit into memory: it needs {describe_bytes(needed_bytes)}, and "
        f"{describe_bytes(available)} are available; {advice} fit. "
        f"Received: replay_capacity_steps={capacity}"
    )


def check_reserve(bytes_held: int, rows_held: int, *, multiple: int = 1) -> None:
    """Refuses a replay's growth when the machine has hardly any memory left.

    Without it the system would end the process, at a moment of its own choice and without a word.

    Args:
        bytes_held: bytes that the replay's observations take now.
        rows_held: rows that it holds now.
        multiple: of which the proposed capacity is to be one (the lanes).

    Raises:
        MemoryError: less than 256 MiB are left. The text has all figures and a capacity that would have fitted.
    """
    available = available_memory_bytes()
    if available >= _LEAST_LEFT:
        return
    fitting = max(bytes_held + available - _LEAST_LEFT, 0) / max(bytes_held, 1)
    raise MemoryError(
        f"The growing replay must leave {describe_bytes(_LEAST_LEFT)} of memory: {describe_bytes(available)} are "
        f"available, and it holds {rows_held:,} steps in {describe_bytes(bytes_held)}; "
        f"{_advise(int(rows_held * fitting), multiple)} fit."
    )


def check_workers(num_workers: int) -> None:
    """Refuses more worker processes than the memory that is left has room for.

    Args:
        num_workers: how many.

    Raises:
        ValueError: they don't fit. The text has a number that does.
    """
    available = available_memory_bytes()
    if num_workers * _WORKER_BYTES > available:
        raise ValueError(
            f"`num_workers` must fit into memory: each takes about {describe_bytes(_WORKER_BYTES)}, and "
            f"{describe_bytes(available)} are available; num_workers={available // _WORKER_BYTES} would fit. "
            f"Received: num_workers={num_workers}"
        )


def _advise(rows: int, multiple: int) -> str:
    rows = _round_down(rows) // multiple * multiple
    return f"replay_capacity_steps={rows:_} would" if rows > 0 else "no replay_capacity_steps would"


def _round_down(rows: int) -> int:
    """Keeps the two leading digits, a number that is easy to type and that lanes divide."""
    unit = 10 ** max(len(str(rows)) - 2, 0)
    return rows // unit * unit


def _cgroup_remaining_bytes(
    root: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")
) -> Iterator[int]:
    """Yields what each control group of this process leaves it; the kernel enforces every one."""
    for group, (limit, usage, reclaimable) in _cgroup_folders(root, membership):
        remaining = _remaining(group / limit, group / usage, group / "memory.stat", reclaimable)
        if remaining is not None:
            yield remaining


def _cgroup_folders(root: Path, membership: Path) -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """Yields the folders of this process's memory groups, inmost first, with their files' names."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            top, files = root, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            top, files = root / "memory", names
        else:
            continue
        # In a container the path may be the host's: then only `top` exists, and has the limit.
        group = top / path.lstrip("/")
        for folder in [group, *group.parents]:
            if folder == top or top in folder.parents:
                yield folder, files


def _remaining(limit: Path, usage: Path, stat: Path, reclaimable: str) -> int | None:
    """Returns limit - usage + file cache that the kernel gives back first; None: no limit here."""
    try:
        free = int(limit.read_text()) - int(usage.read_text())  # "max" is no number: no limit
    except (OSError, ValueError):
        return None
    return max(free + _count(stat, reclaimable), 0)


def _count(stat: Path, name: str) -> int:
    try:
        counts = dict(line.split() for line in stat.read_text().splitlines())
        return int(counts.get(name, 0))
    except (OSError, ValueError):
        return 0
