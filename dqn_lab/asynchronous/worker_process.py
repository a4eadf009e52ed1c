"""The process of a worker, as it is spawned: what it is sent, and what it sends."""

import contextlib
import pickle
import traceback

from dqn_lab.asynchronous.child_process import in_a_line, prepare_child

# What a worker says: it has been built; it goes on from the state it was given (with why an episode is lost, or None);
# it stands between two segments (with its state); or it has failed.
READY, BEGUN, WAITS, NOT_FINITE, FAILED = "ready", "begun", "waits", "not finite", "failed"
# What it is told.
GO, STOP = "go", "stop"


def run_worker(number: int, shared, pipe) -> None:
    """Learns until it is told to stop.

    Args:
        number: of the worker, from 0.
        shared: `shared_progress.Shared`, with all workers.
        pipe: to the parent, which sends `(make_sequence, network, method, settings)`, pickled, then answers READY with
            a state to go on from, or None, and WAITS with GO or STOP.
    """
    worker = None
    try:
        payload = pipe.recv()
        prepare_child()
        from dqn_lab.asynchronous.worker import Worker

        worker = Worker(number, *pickle.loads(payload), shared)
        pipe.send((READY, None))
        state = pipe.recv()
        pipe.send((BEGUN, None if state is None else worker.set_state(state)))
        _learn(worker, pipe)
    except FloatingPointError as error:
        _say_last(pipe, NOT_FINITE, str(error))
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # the last two are an environment's own
        _say_last(pipe, FAILED, (in_a_line(error), traceback.format_exc()))
    finally:
        if worker is not None:
            worker.close()


def _say_last(pipe, word: str, content) -> None:
    with contextlib.suppress(OSError):  # the parent is gone
        pipe.send((word, content))


def _learn(worker, pipe) -> None:
    while True:
        if worker.is_due():
            pipe.send((WAITS, worker.get_state()))
            if pipe.recv() == STOP:
                return
        else:
            worker.learn()
