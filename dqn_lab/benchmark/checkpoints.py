"""What a run's checkpoints cost: time, bytes and memory of a save, and the time until one is put back."""

import gc
import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dqn_lab.benchmark.memory import ResidentPeak
from dqn_lab.benchmark.training import Training
from dqn_lab.checkpoint import read_manifest
from dqn_lab.continuation import settings
from dqn_lab.disk import held_bytes
from dqn_lab.replay_checkpoints import ReplayCheckpoints
from dqn_lab.run_directory import RunDirectory

_RUNS = Path("runs")  # where runs are, and so the disk that counts


@dataclass(frozen=True)
class Save:
    """What a save took.

    Args:
        seconds: until all of it was on the disk.
        agent_bytes: of the checkpoint's own files: both networks, the optimizer, the run's state.
        replay_bytes: of what was new in the replay.
        peak_bytes: resident memory beyond what there was before.
    """

    seconds: float
    agent_bytes: int
    replay_bytes: int
    peak_bytes: int


def measure_checkpoints(
    build: Callable, seconds: float, say: Callable[[str], None]
) -> tuple[dict[str, object], object]:
    """Saves a run twice as `Run.train` does, an interval between them, and restores it into a new one.

    All in a temporary directory, which is removed. What callbacks carry on, some KB, is not in it.

    Args:
        build: returns a new run; called twice.
        seconds: that training and simulation take, half of it each.
        say: shows a line of progress.

    Returns:
        Figures by name, see `summarize_saves`, and `stored_rows` of the full save; the run that was restored.

    Raises:
        ValueError: the run has no interval, as it saves at its end alone.
        OSError: what the system says, a full disk for one.
    """
    place = _RUNS if _RUNS.is_dir() else Path.cwd()
    with tempfile.TemporaryDirectory(prefix="dqn-benchmark-", dir=place) as folder:
        directory = RunDirectory(folder)
        figures = _measure_saves(build(), directory, seconds, say)
        gc.collect()  # the replay of one run makes room for the other's
        run = build()
        say("restoring")
        checkpoints = _checkpoints(run, directory)
        begin = time.perf_counter()
        checkpoints.restore()
        return figures | {"restore_seconds": time.perf_counter() - begin}, run


def interval_steps(run, steps_per_second: float) -> int:
    """Returns the steps from one checkpoint of a run to the next, at this speed of training.

    Raises:
        ValueError: it has no such periods.
    """
    steps, minutes = run.checkpoint_period_steps, run.checkpoint_period_minutes
    if steps is None and minutes is None:
        raise ValueError(
            "What checkpoints cost depends on their period. "
            "Received: checkpoint_period_steps=None, checkpoint_period_minutes=None"
        )
    by_time = math.inf if minutes is None else minutes * 60 * steps_per_second
    return max(round(min(math.inf if steps is None else steps, by_time)), 1)


def summarize_saves(
    full: Save, empty: Save, save: Save, *, steps: int, rows: int, capacity: int, interval: int, steps_per_second: float
) -> dict[str, object]:
    """Returns what saves cost a run.

    Args:
        full: the first save, for which all rows were new.
        empty: one for which none were, so what a save costs whatever is new.
        save: one after some steps.
        steps, rows: those steps, and the rows that they brought.
        capacity: rows that the replay holds.
        interval: steps between two checkpoints; of fewer `steps`, what the rows cost is scaled up.
        steps_per_second: of training.

    Returns:
        Of the first save, and (without "full_") of one an interval later: `full_save_seconds`, `full_save_bytes_agent`,
        `full_save_bytes_replay`, `full_save_peak_mb`; `save_note`, how the latter was come by; `save_measured_steps`;
        `interval_steps`, `interval_seconds`; `share_of_training`, of its time, that saves take; `steps_per_second`.
    """
    scale = min(rows * interval / steps, capacity) / min(rows, capacity)
    save_seconds = _scaled(save.seconds, empty.seconds, scale)
    interval_seconds = interval / steps_per_second
    scaled = f"what new rows cost is scaled up by {scale:.2f} from {steps:,} steps"
    return {
        "steps_per_second": steps_per_second,
        "interval_steps": interval,
        "interval_seconds": interval_seconds,
        "full_save_seconds": full.seconds,
        "full_save_bytes_agent": full.agent_bytes,
        "full_save_bytes_replay": full.replay_bytes,
        "full_save_peak_mb": full.peak_bytes / 1e6,
        "save_seconds": save_seconds,
        "save_bytes_agent": save.agent_bytes,
        "save_bytes_replay": round(_scaled(save.replay_bytes, empty.replay_bytes, scale)),
        "save_peak_mb": save.peak_bytes / 1e6,
        "save_measured_steps": steps,
        "save_note": scaled if steps < interval else "measured after all steps of an interval",
        "share_of_training": save_seconds / interval_seconds,
    }


def _scaled(whole: float, fixed: float, scale: float) -> float:
    return whole + (scale - 1) * max(whole - fixed, 0)


def _measure_saves(run, directory: RunDirectory, seconds: float, say: Callable[[str], None]) -> dict[str, object]:
    sequence, ring = run.sequence, run.sequence.replay.ring
    interval_steps(run, 1.0)  # refuses before the fill
    say(f"filling replay: {sequence.replay_min_steps:,} random steps")
    sequence.fill()
    say("training")
    training = Training(run)
    training.warm_up()
    window = training.measure(seconds / 2)
    speed = window.steps / window.seconds
    interval, stored = interval_steps(run, speed), len(ring)
    say("saving")
    checkpoints = _checkpoints(run, directory)
    full, empty = _save(checkpoints, directory), _save(checkpoints, directory)
    say("simulating")
    steps, rows = sequence.steps, ring.written.sum()
    _simulate(sequence, interval, seconds / 2)
    steps, rows = sequence.steps - steps, int(ring.written.sum() - rows)
    say("saving")
    save = _save(checkpoints, directory)
    return {"stored_rows": stored} | summarize_saves(
        full, empty, save, steps=steps, rows=rows, capacity=ring.capacity, interval=interval, steps_per_second=speed
    )


def _checkpoints(run, directory: RunDirectory) -> ReplayCheckpoints:
    kept = settings("", run.arguments, run.protocol)
    return ReplayCheckpoints(directory, run.agent, run.sequence, {}, settings=kept, minutes=lambda: 0.0, keep=run.keep)


def _save(checkpoints: ReplayCheckpoints, directory: RunDirectory) -> Save:
    before = {path.name for path in directory.replay.glob("*")}
    with ResidentPeak() as peak:
        begin = time.perf_counter()
        path = checkpoints.save()
        seconds = time.perf_counter() - begin
    written = [entry["bytes"] for entry in read_manifest(path)["replay"] if entry["file"] not in before]
    return Save(seconds, held_bytes(path), sum(written), peak.extra_bytes)


def _simulate(sequence, steps: int, seconds: float) -> None:
    """Makes so many steps, or as many as there is time for."""
    goal, end = sequence.steps + steps, time.perf_counter() + seconds
    sequence.simulate_single()
    while sequence.steps < goal and time.perf_counter() < end:
        sequence.simulate_single()
