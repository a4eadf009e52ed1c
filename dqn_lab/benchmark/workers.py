"""What the workers of an asynchronous run achieve between two readings of their counters."""

import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from dqn_lab.asynchronous.shared_progress import COUNTERS, Shared, SharedProgress
from dqn_lab.asynchronous.team import Team, WorkerError
from dqn_lab.benchmark.figures import medians
from dqn_lab.benchmark.memory import ResidentOf
from dqn_lab.benchmark.settings import rounds_in

WARM_UP_UPDATES = 50  # of each worker
_TICK_SECONDS = 0.1
_NEVER = 2**62  # steps
_PARTS = ("acting", "environment", "update")


class Workers:
    """Reads what workers count while they learn, which stops none of them.

    Args:
        team: that has begun.
        progress: what its workers count.
        memory: of their processes, looked at ten times a second.
        clock: returns seconds.
    """

    def __init__(
        self, team, progress: SharedProgress, memory: ResidentOf, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._team, self._progress, self.memory, self._clock = team, progress, memory, clock

    def warm_up(self) -> None:
        """Waits for each worker's first updates, in which all is compiled."""
        updates = self._progress.counters[:, COUNTERS.index("updates")]
        while updates.min() < WARM_UP_UPDATES:
            self._team.wait(_TICK_SECONDS)

    def measure(self, seconds: float) -> dict[str, float]:
        """Returns what the workers' counters grew by in so many `seconds`, or until a step was made if that is longer.

        Raises:
            FloatingPointError, WorkerError: as `Team.wait`.
        """
        first, begin = self._progress.totals(), self._clock()
        while (left := begin + seconds - self._clock()) > 0 or self._progress.totals()["steps"] == first["steps"]:
            self._team.wait(min(max(left, 0.0), _TICK_SECONDS))
            self.memory.look()
        last, end = self._progress.totals(), self._clock()
        return {"seconds": end - begin} | {name: last[name] - first[name] for name in COUNTERS}


@contextlib.contextmanager
def working(run) -> Iterator[Workers]:
    """Begins a run's workers and warms them up, without an evaluation and without files; ends them behind the block.

    Args:
        run: an `AsynchronousRun`; each time its workers begin with its initial weights and play the same games.
    """
    context, number = multiprocessing.get_context("spawn"), run.settings.num_workers
    shared = Shared.beginning(run.agent.get_parameters(), number, context, run.settings.rmsprop_start)
    team = Team(run.worker_payload, shared, number, context)
    try:
        team.begin([None] * number, _NEVER)
        workers = Workers(team, shared.progress, ResidentOf([os.getpid(), *_worker_pids(number)]))
        workers.warm_up()
        yield workers
    except WorkerError as error:
        error.add_note(error.trace)  # its own traceback ends at the pipe
        raise
    finally:
        team.end()


def measure_workers(run, seconds: float, say: Callable[[str], None]) -> dict[str, object]:
    """Measures a run's workers, all at once.

    Args:
        run: an `AsynchronousRun`.
        seconds: that the rounds take beside the beginning.
        say: shows a line of progress.

    Returns:
        Figures by name, see `summarize_workers`, and memory: `parent_resident_mb` and `parent_peak_mb` of this process;
        `worker_resident_mb` and `worker_peak_mb`, medians over the workers with their spread, and `..._each` of them.
    """
    rounds = rounds_in(seconds)
    say(f"beginning {run.settings.num_workers} worker(s)")
    with working(run) as workers:
        windows = []
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            windows.append(workers.measure(seconds / rounds))
    return summarize_workers(windows, run.settings.num_workers) | _summarize_memory(workers.memory)


def summarize_workers(windows: Sequence[Mapping[str, float]], num_workers: int) -> dict[str, object]:
    """Returns rates and where a worker's time goes, medians over windows with their spread.

    Args:
        windows: as `Workers.measure` returns them.
        num_workers: whose time it was.

    Returns:
        Rates of all workers together; `acting_step_ms`, `environment_step_ms`, `update_step_ms`, `other_step_ms`: a
        worker's milliseconds per step of its own, "other" what is in no counter; `episodes`: that ended in all windows.
    """
    rounds = {
        f"{name}_per_second": [each[name] / each["seconds"] for each in windows]
        for name in ("steps", "updates", "frames")
    }
    rounds |= {f"{name}_step_ms": [1000 * each[name] / each["steps"] for each in windows] for name in _PARTS}
    rounds["other_step_ms"] = [
        1000 * (num_workers * each["seconds"] - sum(each[name] for name in _PARTS)) / each["steps"] for each in windows
    ]
    return medians(rounds) | {"episodes": int(sum(each["episodes"] for each in windows))}


def _worker_pids(num_workers: int) -> list[int]:
    pids = {child.name: child.pid for child in multiprocessing.active_children()}
    return [pids[f"worker {number}"] for number in range(num_workers)]


def _summarize_memory(memory: ResidentOf) -> dict[str, object]:
    now, *workers_now = (each / 1e6 for each in memory.now.values())
    most, *workers_most = (each / 1e6 for each in memory.most.values())
    figures = {"parent_resident_mb": now, "parent_peak_mb": most}
    figures |= medians({"worker_resident_mb": workers_now, "worker_peak_mb": workers_most})
    return figures | {"worker_resident_mb_each": workers_now, "worker_peak_mb_each": workers_most}
