"""What became of a run: whether it goes on, came to its end, was stopped or broke off, as far as its files tell."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from dqn_lab.checkpoint import newest_counters
from dqn_lab.run_directory import is_running
from dqn_lab.run_record import RunRecord

RUNNING, FINISHED, STOPPED, CRASHED = "running", "finished", "stopped", "crashed"
_TAIL_BYTES = 8192
_ENDED = ("ended after ", "this run is finished: ")


def run_state(run: RunRecord) -> tuple[str, str]:
    """Tells a run's state by its lock, its newest checkpoint and the last line of its log.

    Returns:
        One of four, and for the last one why:
        "running": a process of this machine has the lock.
        "finished": its newest checkpoint has reached a total of the run, or the log ends by saying so.
        "stopped": it was asked to stop and saved; the same command continues it.
        "crashed": the log ends with an error, or in the midst of things, as after `kill -9` or a power cut. A copy of
        a run that was going on looks like that, too, and so does a run that goes on on another machine.
        Without a log a run with a checkpoint counts as stopped.
    """
    if is_running(run.directory):
        return RUNNING, ""
    counters, last = reached_counters(run), _last_line(run.directory / "log.txt")
    if _has_reached_totals(run.config, counters) or last.startswith(_ENDED):
        return FINISHED, ""
    saved = bool(newest_counters(run.directory / "checkpoints")) or _has_rows(run)
    if last.startswith("stopped after ") or (not last and saved):
        return STOPPED, ""
    return CRASHED, _why(last)


def reached_counters(run: RunRecord) -> dict[str, float]:
    """How far it has come by its newest checkpoint, or by its rows where these know of more steps."""
    columns = run.progress
    row = {name: float(columns[name][-1]) for name in ("steps", "updates", "minutes", "epochs") if _has(columns, name)}
    saved = newest_counters(run.directory / "checkpoints")
    return row if row.get("steps", -1) > saved.get("steps", -1) else saved


def last_written(directory: str | Path) -> float:
    """When something in a run directory or its checkpoints was last written, in seconds as `time.time` counts."""
    folder = Path(directory)
    times = [folder.stat().st_mtime]
    for place in (folder, folder / "checkpoints"):
        if place.is_dir():
            for entry in os.scandir(place):
                with contextlib.suppress(FileNotFoundError):  # of a run that goes on
                    times += [entry.stat(follow_symlinks=False).st_mtime] if entry.name != ".lock" else []
    return max(times)


def _has_reached_totals(config: Mapping, counters: Mapping[str, float]) -> bool:
    """As `StepTotals.are_reached`, of what JSON keeps: behind a total the last whole epoch's evaluation is due."""
    totals, arguments = config.get("totals") or {}, config["arguments"]
    if not any(counters.get(name, -1) >= float(total) for name, total in totals.items()):
        return False
    counter = "updates" if "updates_per_epoch" in arguments else "steps"
    epoch = arguments.get(f"{counter}_per_epoch")
    if isinstance(epoch, bool) or not isinstance(epoch, int | float):
        return True
    return not epoch or counters.get("epochs") == counters.get(counter, 0) // epoch


def _last_line(log: Path) -> str:
    """The last line that isn't empty; "" where there is no log."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.path.getsize(log) - _TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _why(last: str) -> str:
    if ": error: " in last:
        return last
    if last.startswith("saved in "):
        return "an error ended it; it was saved before"
    return "its log breaks off" if last else "nothing was saved and there is no log"


def _has(columns: Mapping, name: str) -> bool:
    return name in columns and len(columns[name]) > 0


def _has_rows(run: RunRecord) -> bool:
    return _has(run.progress, "steps")
