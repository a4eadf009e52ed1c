"""A benchmark's figures as a table for people."""

from collections.abc import Mapping, Sequence

# figure -> what it is called, its unit, decimals
_ROWS = {
    "steps_per_second": ("training", "steps/s", 1),
    "updates_per_second": ("", "updates/s", 1),
    "frames_per_second": ("", "frames/s", 1),
    "simulate_ms": ("simulation", "ms per update", 3),
    "act_ms": ("acting", "ms per update", 3),
    "sample_ms": ("sampling", "ms per update", 3),
    "update_ms": ("update", "ms per update", 3),
    "efficiency": ("efficiency", "stages / training", 3),
    "acting_step_ms": ("acting", "ms of a worker per step", 3),
    "environment_step_ms": ("environment", "ms of a worker per step", 3),
    "update_step_ms": ("update", "ms of a worker per step", 3),
    "other_step_ms": ("other", "ms of a worker per step", 3),
    "episodes": ("episodes", "", 0),
    "parent_resident_mb": ("resident, parent", "MB", 1),
    "parent_peak_mb": ("peak, parent", "MB", 1),
    "worker_resident_mb": ("resident, a worker", "MB", 1),
    "worker_peak_mb": ("peak, a worker", "MB", 1),
    "bytes_per_step": ("replay, resident", "bytes per step", 1),
    "bytes_per_step_arithmetic": ("replay, arithmetic", "bytes per step", 1),
    "fill_rows": ("rows of the fill", "rows", 0),
    "resident_mb_full_ring": ("resident, ring full", "MB", 1),
    "resident_mb": ("resident, at the end", "MB", 1),
    "update_ms_first_quarter": ("time per update, first quarter", "ms", 3),
    "update_ms_last_quarter": ("time per update, last quarter", "ms", 3),
    "update_ratio": ("last to first quarter", "", 3),
    "threads_full_ring": ("threads, ring full", "", 0),
    "threads": ("threads, at the end", "", 0),
    "function_traces_full_ring": ("function traces, ring full", "", 0),
    "function_traces": ("function traces, at the end", "", 0),
    "ring_wraps": ("times the ring wrapped", "", 0),
    "target_copies": ("copies to the target network", "", 0),
    "evaluations": ("evaluations", "", 0),
    "stored_rows": ("replay", "rows", 0),
    "full_save_seconds": ("first checkpoint", "s", 3),
    "full_save_bytes_agent": ("", "bytes of agent and state", 0),
    "full_save_bytes_replay": ("", "bytes of the replay", 0),
    "full_save_peak_mb": ("", "MB of memory beside", 1),
    "interval_steps": ("from one checkpoint to the next", "steps", 0),
    "interval_seconds": ("", "s", 1),
    "save_seconds": ("checkpoint after an interval", "s", 3),
    "save_bytes_agent": ("", "bytes of agent and state", 0),
    "save_bytes_replay": ("", "bytes of the replay", 0),
    "save_peak_mb": ("", "MB of memory beside", 1),
    "share_of_training": ("share of training's time", "", 5),
    "restore_seconds": ("restoring", "s", 3),
}

# figures that are rows themselves -> their columns: what each is called, decimals
_TABLES = {
    "scaling": {
        "num_workers": ("workers", 0),
        "steps_per_second": ("steps/s", 1),
        "steps_per_second_spread": ("min to max", 1),
        "scaling": ("against 1 worker", 2),
        "scaling_spread": ("min to max", 2),
        "expected": ("expected", 2),
    },
    "sharing": {
        "num_workers": ("workers", 0),
        "updates": ("updates", 0),
        "lost_share": ("share lost", 6),
        "short_share": ("share of parameters short of one", 6),
    },
}
_VERDICTS = {
    "time per update": "time_verdict",
    "resident memory": "memory_verdict",
    "checkpoint after an interval": "save_note",
    "gradients up to 3e38": "stress_verdict",
}


def table(figures: Mapping[str, object]) -> str:
    """Returns the figures that there are, a line each: name, median, spread over the rounds, unit."""
    cells = [("", "median", "min to max", "")]
    for key, (name, unit, decimals) in _ROWS.items():
        value, spread = figures.get(key), figures.get(f"{key}_spread")
        if value is not None:
            cells.append((name, _show(value, decimals), _show(spread, decimals) if spread else "", unit))
    lines = _aligned(cells, "<>><") if len(cells) > 1 else []
    for key, columns in _TABLES.items():
        if key in figures:
            cells = [tuple(name for name, _ in columns.values())]
            cells += [
                tuple(_show(row[each], decimals) for each, (_, decimals) in columns.items()) for row in figures[key]
            ]
            lines += _aligned(cells, ">" * len(columns))
    lines += [f"{name}: {figures[key]}" for name, key in _VERDICTS.items() if key in figures]
    return "\n".join(lines)


def _show(value: float | list[float], decimals: int) -> str:
    values = value if isinstance(value, list) else [value]
    return " to ".join(f"{each:,.{decimals}f}" for each in values)


def _aligned(cells: Sequence[Sequence[str]], sides: str) -> list[str]:
    """One line a row; a column is aligned to its side, < or >."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)).rstrip()
        for row in cells
    ]


def context(facts: Mapping[str, object]) -> str:
    """Returns what else a figure depends on, beside what `Run.describe` says."""
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    if "num_workers" in facts:
        made = f"{facts['method']}, {facts['num_workers']} worker(s), t_max {facts['t_max']}"
    else:
        made = f"{facts['num_envs']} lane(s), batch {facts['batch_size']}"
    return f"rundef: {facts['rundef']}, {made}\ncores: {facts['cores']}\nversions: {versions}"
