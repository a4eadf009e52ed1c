"""What becomes of unlocked updates to shared parameters: how many are lost, and whether huge ones stay finite."""

import contextlib
import functools
import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing import connection

import numpy as np

from dqn_lab.asynchronous.settings import AsynchronousSettings
from dqn_lab.asynchronous.shared_optimizers import MomentumSGD, SharedRMSProp
from dqn_lab.asynchronous.shared_parameters import SharedParameters

ADDING = (1, 2, 4)  # workers
STRESSING = 4
STEPS = 5  # that a worker counts for an update
_LOOK = 16  # updates from one look at the pipe to the next
_EXACT = 2**24  # whole numbers up to it are float32
_SPAWN = multiprocessing.get_context("spawn")

Update = Callable[[], None]


def measure_sharing(run, seconds: float, say: Callable[[str], None]) -> dict[str, object]:
    """Lets processes update parameters of a run's size back to back, which no run does: it computes in between.

    Args:
        run: an `AsynchronousRun`.
        seconds: of the updates with large gradients; half of it is spent on the known updates.
        say: shows a line of progress.

    Returns:
        `sharing`: a row for each number of workers, see `add_known_updates`; the figures of `stress`.
    """
    initial, rows = run.agent.get_parameters(), []
    for number in ADDING:
        say(f"known updates: {number} worker(s)")
        rows.append(add_known_updates(initial.size, number, seconds / 2 / len(ADDING)))
    say(f"large gradients for {seconds:g} s: {STRESSING} workers")
    return {"sharing": rows} | stress(initial, run.settings, STRESSING, seconds)


def add_known_updates(size: int, num_workers: int, seconds: float) -> dict[str, float]:
    """Lets workers add 1 to every parameter, again and again.

    Args:
        size: numbers.
        num_workers: processes.
        seconds: that they do it for.

    Returns:
        `num_workers`; `updates` that were made; `lost_share` of them, over all parameters; `short_share`: of the
        parameters, those that an update is missing from.
    """
    shared = SharedParameters(size, _SPAWN)
    updates = sum(_together(_adder, shared, num_workers, seconds, most=_EXACT // num_workers))
    return {"num_workers": num_workers} | count_lost(shared.parameters, updates)


def count_lost(parameters: np.ndarray, updates: int) -> dict[str, float]:
    """See `add_known_updates`."""
    return {
        "updates": updates,
        "lost_share": 1 - float(parameters.mean(dtype=np.float64)) / updates,
        "short_share": float((parameters < updates).mean()),
    }


def stress(initial: np.ndarray, settings: AsynchronousSettings, num_workers: int, seconds: float) -> dict[str, object]:
    """Lets workers apply gradients of every size up to 3e38 by shared RMSProp, and count steps.

    Args:
        initial: parameters to begin with, [P] float32.
        settings: learning rate, decay and epsilon.
        num_workers: processes.
        seconds: that they do it for.

    Returns:
        See `judge_stress`.
    """
    shared = SharedParameters(initial.size, _SPAWN)
    shared.parameters[:] = initial
    updates = sum(_together(functools.partial(_stormer, settings), shared, num_workers, seconds))
    return {"stress_num_workers": num_workers} | judge_stress(shared, updates)


def judge_stress(shared: SharedParameters, updates: int) -> dict[str, object]:
    """Returns what there is to say of what workers share after so many updates; what was once not finite, still is.

    Returns:
        `stress_updates`; `stress_wrong`: parameters and statistics that are not finite, or statistics below 0;
        `stress_uncounted`: steps that were made and are not in the count; `stress_verdict`.
    """
    parameters, statistics = shared.parameters, shared.statistics
    sound = np.isfinite(parameters), np.isfinite(statistics) & (statistics >= 0)
    wrong = 2 * parameters.size - sum(int(each.sum()) for each in sound)
    uncounted = STEPS * updates - shared.steps
    found = f"{wrong:,} numbers are broken, {uncounted:,} steps uncounted"
    return {
        "stress_updates": updates,
        "stress_wrong": wrong,
        "stress_uncounted": uncounted,
        "stress_verdict": f"{'failed' if wrong or uncounted else 'PASS'}: after {updates:,} updates {found}",
    }


def _together(make_update, shared: SharedParameters, num_workers: int, seconds: float, most: int = _EXACT) -> list[int]:
    """Lets processes update at once for so many seconds, and returns how often each one did."""
    pipes, processes = [], []
    try:
        for number in range(num_workers):
            pipe, theirs = _SPAWN.Pipe()
            process = _SPAWN.Process(target=_work, args=(make_update, shared, number, most, theirs), daemon=True)
            process.start()
            theirs.close()  # so that this end hears when the process has ended
            pipes.append(pipe)
            processes.append(process)
        for pipe in pipes:
            pipe.recv()  # it is ready
        _tell(pipes)
        connection.wait(pipes, timeout=seconds)
        _tell(pipes)
        return [pipe.recv() for pipe in pipes]
    except (EOFError, ConnectionError):
        raise RuntimeError("A process that shares parameters has ended before it was told to.") from None
    finally:
        for pipe in pipes:
            pipe.close()  # whoever is still at it hears that
        for process in processes:
            process.join()


def _tell(pipes: list) -> None:
    for pipe in pipes:
        with contextlib.suppress(OSError):  # it has made all that it may, and has gone
            pipe.send(None)


def _work(make_update, shared: SharedParameters, number: int, most: int, pipe) -> None:
    """The process: ready, go, update until it is told to stop or nobody is left to tell, how often."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, which then closes the pipe
    update, updates = make_update(shared, number), 0
    with contextlib.suppress(OSError, EOFError):
        pipe.send(None)
        pipe.recv()
        while updates < most and (updates % _LOOK or not pipe.poll()):
            update()
            updates += 1
        pipe.send(updates)


def _adder(shared: SharedParameters, number: int) -> Update:
    optimizer = MomentumSGD(shared.parameters, np.zeros_like(shared.parameters), decay=0)
    gradient = np.full_like(shared.parameters, -1)
    return lambda: optimizer.apply(gradient, 1.0)


def _stormer(settings: AsynchronousSettings, shared: SharedParameters, number: int) -> Update:
    optimizer = SharedRMSProp(
        shared.parameters, shared.statistics, decay=settings.rmsprop_decay, epsilon=settings.rmsprop_epsilon
    )
    generator = np.random.default_rng(number)
    direction = generator.uniform(-3, 3, shared.parameters.size).astype(np.float32)
    gradient = np.empty_like(direction)

    def update() -> None:
        np.multiply(direction, np.float32(10 ** generator.uniform(-45, 38)), out=gradient)
        optimizer.apply(gradient, settings.learning_rate)
        shared.add_steps(STEPS)

    return update
