"""One benchmark of one run, from its fill to its figures."""

from collections.abc import Callable, Mapping

from dqn_lab.benchmark.checkpoints import measure_checkpoints
from dqn_lab.benchmark.figures import summarize
from dqn_lab.benchmark.memory import fill_measured, resident_bytes
from dqn_lab.benchmark.settings import STAGES, rounds_in
from dqn_lab.benchmark.soak import soak
from dqn_lab.benchmark.stages import Stages
from dqn_lab.benchmark.training import Training
from dqn_lab.devices import usable_cores
from dqn_lab.run_directory import describe_software, jsonable


def measure(build: Callable, what: str, seconds: float, say: Callable[[str], None]) -> tuple[dict[str, object], object]:
    """Fills a run's replay and measures it; writes nothing that stays.

    Args:
        build: returns a new run.
        what: one of `settings.WHAT`.
        seconds: that the measurement takes beside the fill and what is compiled.
        say: shows a line of progress.

    Returns:
        Figures by name, None where `what` measures none; the run.
    """
    if what == "checkpoint":
        return measure_checkpoints(build, seconds, say)
    run = build()
    say(f"filling replay: {run.sequence.replay_min_steps:,} random steps")
    memory = fill_measured(run.sequence)
    if what == "soak":
        say(f"training and evaluating for {seconds:g} s or longer")
        return soak(run, seconds), run  # whose fill is too short to tell bytes per step
    figures = _measure_rounds(run, what, seconds, say)
    names = ("bytes_per_step", "bytes_per_step_arithmetic", "fill_steps", "fill_rows")
    figures |= {name: memory.get(name) for name in names} | {"resident_mb": resident_bytes() / 1e6}
    return figures, run


def describe(run, rundef: str, arguments: Mapping[str, object]) -> dict[str, object]:
    """Returns what a run was measured with."""
    return {
        "feeding": run.sequence.feeding,
        "num_envs": run.sequence.num_envs,
        "precision": run.agent.network.dtype_policy.name,
        "batch_size": run.sequence.batch_size,
        "device": run.device,
        "cores": usable_cores(),
        "versions": describe_software(),
        "rundef": rundef,
        "settings": jsonable(dict(arguments)),
    }


def _measure_rounds(run, what: str, seconds: float, say: Callable[[str], None]) -> dict[str, object]:
    """Takes turns between training and stages, because the speed of a machine drifts."""
    parts = list(STAGES) if what == "all" else [what] if what in STAGES else []
    training = Training(run) if what in ("train", "all") else None
    if training is not None:
        training.warm_up()
    stages = Stages(run)
    stages.measure(parts, 0.0)  # compiles
    milliseconds: dict[str, list[float]] = {part: [] for part in parts}
    windows = []
    rounds = rounds_in(seconds)
    share = seconds / rounds / (2 if what == "all" else 1)
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        if training is not None:
            windows.append(training.measure(share))
        for part, each in stages.measure(parts, share).items() if parts else ():
            milliseconds[part].append(each)
    return summarize(milliseconds, windows, run.sequence.feeding)
