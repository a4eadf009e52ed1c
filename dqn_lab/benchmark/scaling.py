"""How an asynchronous run's speed grows with its workers."""

from collections.abc import Callable, Mapping, Sequence

from dqn_lab.benchmark.figures import medians
from dqn_lab.benchmark.workers import working
from dqn_lab.devices import usable_cores

ROUNDS = 3  # each begins all processes anew


def measure_scaling(build: Callable, seconds: float, say: Callable[[str], None]) -> tuple[dict[str, object], object]:
    """Measures a run with 1, 2, 4, ... workers up to its own number, in turns, because the speed of a machine drifts.

    Args:
        build: returns a new run, with other arguments if they are given to it.
        seconds: that each number of workers is measured for, a third of it at a time.
        say: shows a line of progress.

    Returns:
        `scaling`: see `summarize_scaling`; the run with all workers.
    """
    run = build()
    numbers = worker_numbers(run.settings.num_workers)
    runs = [build(num_workers=number) for number in numbers[:-1]] + [run]
    speeds: dict[int, list[float]] = {number: [] for number in numbers}
    for turn in range(ROUNDS):
        order = list(zip(numbers, runs, strict=True))
        for number, each in reversed(order) if turn % 2 else order:
            say(f"round {turn + 1} of {ROUNDS}: {number} worker(s)")
            with working(each) as workers:
                window = workers.measure(seconds / ROUNDS)
            speeds[number].append(window["steps"] / window["seconds"])
    return {"scaling": summarize_scaling(speeds, usable_cores())}, run


def worker_numbers(most: int) -> list[int]:
    """Returns 1, 2, 4, ... and `most`."""
    return [*(2**power for power in range((most - 1).bit_length())), most]


def summarize_scaling(speeds: Mapping[int, Sequence[float]], cores: int) -> list[dict[str, object]]:
    """Returns a row for each number of workers.

    Args:
        speeds: steps per second of each round by the number of workers, 1 among them.
        cores: that there are to compute with.

    Returns:
        `num_workers`; `steps_per_second` and `scaling`, against 1 worker in the same round, medians with their spread;
        `expected`: as many times as fast as there are workers, or cores if those are fewer.
    """
    rows = []
    for number, each in speeds.items():
        ratios = [speed / single for speed, single in zip(each, speeds[1], strict=True)]
        row = {"num_workers": number} | medians({"steps_per_second": each, "scaling": ratios})
        rows.append(row | {"expected": float(min(number, cores))})
    return rows
