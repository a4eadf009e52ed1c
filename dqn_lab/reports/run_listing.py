"""The runs under a directory, a line each: what became of them and what they have reached."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dqn_lab.protocols import Protocol
from dqn_lab.reports.run_states import last_written, reached_counters, run_state
from dqn_lab.run_record import read_run
from dqn_lab.seed_scores import Reached, read_reached

_COLUMNS = ("run", "state", "steps", "last", "best", "age", "protocol")
_NONE = "-"
_AGES = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


@dataclass(frozen=True)
class ListedRun:
    """A run as a listing shows it.

    Args:
        directory: of the run.
        state: "running", "finished", "stopped" or "crashed"; see `dqn_lab.reports.run_states.run_state`.
        why: it crashed; "" for the others.
        reached: steps, minutes, last and best evaluation.
        protocol: the rules of its scores, or None.
        written: when it last wrote something, in seconds as `time.time` counts.
    """

    directory: Path
    state: str
    why: str
    reached: Reached
    protocol: Protocol | None
    written: float

    def as_json(self, now: float) -> dict[str, object]:
        """Everything, for `json.dumps`; null for a figure that there is none of."""
        return {
            "run_directory": str(self.directory),
            "state": self.state,
            "why": self.why or None,
            "steps": self.reached.steps,
            "minutes": self.reached.minutes,
            "last": self.reached.last,
            "best": self.reached.best,
            "protocol": None if self.protocol is None else str(self.protocol),
            "age_seconds": max(0.0, now - self.written),
        }


def list_runs(directory: str | Path, say: Callable[[str], None] = print) -> list[ListedRun]:
    """Finds the runs under a directory, the newest first. Nothing is changed, and a run that goes on isn't disturbed.

    Args:
        directory: a run, or a folder with runs at any depth; hidden folders and those inside of runs are left out.
        say: is told, in a line each, of a config.json that isn't a run's.

    Raises:
        ValueError: there is no such directory, or no run under it.
    """
    if not Path(directory).is_dir():
        raise ValueError(f"There is no such directory. Received: directory={str(directory)!r}")
    runs = list(_found(Path(directory), say))
    if not runs:
        raise ValueError(f"No run is under this directory. Received: directory={str(directory)!r}")
    return sorted(runs, key=lambda run: (-run.written, str(run.directory)))


def runs_table(runs: list[ListedRun], now: float) -> list[str]:
    """Lines for people: a row for each run; then why some crashed.

    Args:
        runs: in the order of their rows.
        now: the time of which ages are told.
    """
    rows = [_COLUMNS, *(_row(run, now) for run in runs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    align = (str.ljust, str.ljust, str.rjust, str.rjust, str.rjust, str.rjust, str.ljust)
    lines = ["  ".join(to(*cell) for to, *cell in zip(align, row, widths, strict=True)).rstrip() for row in rows]
    return [*lines, *(f"{run.directory} crashed: {run.why}" for run in runs if run.why)]


def _found(folder: Path, say: Callable[[str], None]) -> Iterator[ListedRun]:
    if (folder / "config.json").is_file():
        try:
            yield _listed(folder)
            return
        except (AttributeError, OSError, TypeError, ValueError) as error:  # whatever else has a config.json
            say(f"{folder} is left out: {' '.join(str(error).split())}")
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.name[0] != "." and _is_folder(entry))
    except OSError as error:
        say(f"{folder} can't be read: {error.strerror}")
        return
    for place in (folder / name for name in names):
        # A link to a run is one; any other may lead in a circle.
        if not place.is_symlink() or (place / "config.json").is_file():
            yield from _found(place, say)


def _is_folder(entry: os.DirEntry) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads in a circle to itself
        return False


def _listed(folder: Path) -> ListedRun:
    run = read_run(folder)
    state, why = run_state(run)
    counters = reached_counters(run)
    return ListedRun(
        folder, state, why, read_reached(folder / "progress.csv", counters), run.protocol, last_written(folder)
    )


def _row(run: ListedRun, now: float) -> tuple[str, ...]:
    reached = run.reached
    steps = _NONE if reached.steps is None else f"{reached.steps:,.0f}"
    protocol = str(run.protocol or _NONE)
    return (str(run.directory), run.state, steps, _score(reached.last), _score(reached.best), _age(run, now), protocol)


def _age(run: ListedRun, now: float) -> str:
    seconds = max(0.0, now - run.written)
    unit, name = next((one for one in _AGES if seconds >= one[0]), _AGES[-1])
    return f"{seconds / unit:.0f} {name}"


def _score(score: float | None) -> str:
    return _NONE if score is None else f"{score:,.2f}"
