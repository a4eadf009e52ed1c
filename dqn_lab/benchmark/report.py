"""A benchmark's figures as a table for people."""

from collections.abc import Mapping

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


def table(figures: Mapping[str, object]) -> str:
    """Returns the figures that there are, a line each: name, median, spread over the rounds, unit."""
    cells = [("", "median", "min to max", "")]
    for key, (name, unit, decimals) in _ROWS.items():
        value, spread = figures.get(key), figures.get(f"{key}_spread")
        if value is None:
            continue
        spread = " to ".join(f"{each:,.{decimals}f}" for each in spread) if spread else ""
        cells.append((name, f"{value:,.{decimals}f}", spread, unit))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        f"{name:<{widths[0]}}  {value:>{widths[1]}}  {spread:>{widths[2]}}  {unit}".rstrip()
        for name, value, spread, unit in cells
    ]
    verdicts = {
        "time per update": "time_verdict",
        "resident memory": "memory_verdict",
        "checkpoint after an interval": "save_note",
    }
    lines += [f"{name}: {figures[key]}" for name, key in verdicts.items() if key in figures]
    return "\n".join(lines)


def context(facts: Mapping[str, object]) -> str:
    """Returns what else a figure depends on, beside what `Run.describe` says."""
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return (
        f"rundef: {facts['rundef']}, {facts['num_envs']} lane(s), batch {facts['batch_size']}\n"
        f"cores: {facts['cores']}\n"
        f"versions: {versions}"
    )
