"""One benchmark of one run, from its fill to its figures."""

from collections.abc import Callable, Mapping

from dqn_lab.asynchronous_run import AsynchronousRun
from dqn_lab.benchmark.checkpoints import measure_checkpoints
from dqn_lab.benchmark.figures import summarize
from dqn_lab.benchmark.memory import fill_measured, resident_bytes
from dqn_lab.benchmark.scaling import measure_scaling
from dqn_lab.benchmark.settings import ASYNCHRONOUS_WHAT, REPLAY_WHAT, STAGES, rounds_in
from dqn_lab.benchmark.sharing import measure_sharing
from dqn_lab.benchmark.soak import soak
from dqn_lab.benchmark.stages import Stages
from dqn_lab.benchmark.training import Training
from dqn_lab.benchmark.workers import measure_workers
from dqn_lab.devices import usable_cores
from dqn_lab.run_directory import describe_software, jsonable
from dqn_lab.rundef import SettingError


def measure(build: Callable, what: str, seconds: float, say: Callable[[str], None]) -> tuple[dict[str, object], object]:
    """Measures a run, one with a replay once that is filled; writes nothing that stays.

    Args:
        build: returns a new run; takes arguments by name that it is to have instead.
        what: one of `settings.WHAT`.
        seconds: that the measurement takes beside the fill and what is compiled.
        say: shows a line of progress.

    Returns:
        Figures by name, None where `what` measures none; the run.

    Raises:
        SettingError: `what` is none of a run of its kind.
    """

    def build_fitting(**changes):
        run = build(**changes)
        _refuse_what_it_lacks(run, what)
        return run

    if what == "checkpoint":
        return measure_checkpoints(build_fitting, seconds, say)
    if what == "scaling":
        return measure_scaling(build_fitting, seconds, say)
    run = build_fitting()
    if what == "sharing":
        return measure_sharing(run, seconds, say), run
    if isinstance(run, AsynchronousRun):
        return measure_workers(run, seconds, say), run
    return _measure_replay(run, what, seconds, say), run


def describe(run, rundef: str, arguments: Mapping[str, object]) -> dict[str, object]:
    """Returns what a run was measured with."""
    return {
        **(_describe_workers(run) if isinstance(run, AsynchronousRun) else _describe_feeding(run)),
        "precision": run.agent.network.dtype_policy.name,
        "device": run.device,
        "cores": usable_cores(),
        "versions": describe_software(),
        "rundef": rundef,
        "settings": jsonable(dict(arguments)),
    }


def _describe_feeding(run) -> dict[str, object]:
    return {
        "feeding": run.sequence.feeding,
        "num_envs": run.sequence.num_envs,
        "batch_size": run.sequence.batch_size,
    }


def _describe_workers(run) -> dict[str, object]:
    settings = run.settings
    return {"method": run.method.name, "num_workers": settings.num_workers, "t_max": settings.t_max}


def _refuse_what_it_lacks(run, what: str) -> None:
    asynchronous = isinstance(run, AsynchronousRun)
    if what in (REPLAY_WHAT if asynchronous else ASYNCHRONOUS_WHAT):
        kind, own = ("an asynchronous run", ASYNCHRONOUS_WHAT) if asynchronous else ("a run with a replay", REPLAY_WHAT)
        raise SettingError(f"--what of {kind} is one of {', '.join(own)}, train, all. Received: --what {what}")


def _measure_replay(run, what: str, seconds: float, say: Callable[[str], None]) -> dict[str, object]:
    say(f"filling replay: {run.sequence.replay_min_steps:,} random steps")
    memory = fill_measured(run.sequence)
    if what == "soak":
        say(f"training and evaluating for {seconds:g} s or longer")
        return soak(run, seconds)  # whose fill is too short to tell bytes per step
    figures = _measure_rounds(run, what, seconds, say)
    names = ("bytes_per_step", "bytes_per_step_arithmetic", "fill_steps", "fill_rows")
    return figures | {name: memory.get(name) for name in names} | {"resident_mb": resident_bytes() / 1e6}


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
