"""Evaluations in a process of their own, while the workers go on learning."""

import atexit
import contextlib
import ctypes
import logging
import pickle
import queue
import threading
import traceback
from collections.abc import Iterator
from multiprocessing.connection import Connection
from types import SimpleNamespace

import numpy as np

from dqn_lab.asynchronous.child_process import describe_end, in_a_line, prepare_child, start_child
from dqn_lab.evaluation import EvaluationStopped

_END_SECONDS = 10.0  # that a process may take to be gone once its pipe is closed
_CLOSE_SECONDS = 5.0  # to close its environments
_logger = logging.getLogger("dqn_lab")


class EvaluatorError(RuntimeError):
    """The evaluation process has failed or died; the text says in a line what went wrong.

    Args:
        text: its exception in a line, or what is known of its end.
        trace: its traceback, as far as there is one.
    """

    is_told = True

    def __init__(self, text: str, trace: str = ""):
        super().__init__(f"the evaluation process failed: {text}")
        self.trace = trace.strip()


class Evaluator:
    """The parent's end: epochs go in one by one, and their results come out in the same order.

        parent   submit --> queue --> thread that sends --> pipe --> evaluates    child
                 receive <----------------------------------pipe <-- result

    A thread sends, so that nobody waits for a child that is being built, or evaluates, to read what it is sent.

    Args:
        payload: pickled `(make_sequence, network, actor_critic, greedy, make_evaluation)`: `make_sequence(epsilon=...,
            seed=...)` makes a sequence, the next three are as `AsynchronousAgent` takes them, and
            `make_evaluation(sequence)` makes the callback.
        context: that the process is spawned by.

    Attributes:
        connection: ready where there is something to `receive`.
        process: of the evaluations.
        pending: epochs submitted whose results have not been received.
    """

    def __init__(self, payload: bytes, context):
        self.connection, theirs = context.Pipe()
        # No daemon: that could not begin the processes that some environments consist of.
        self._stopping = context.RawValue(ctypes.c_bool, False)
        arguments = (theirs, self._stopping)
        self.process = context.Process(target=run_evaluator, args=arguments, name="evaluator", daemon=False)
        start_child(self.process)
        theirs.close()  # so that this end hears when the child has ended
        self.pending = 0
        self._outbox: queue.SimpleQueue = queue.SimpleQueue()
        self._outbox.put(payload)  # not as an argument: `start` would wait for ever for a child that dies first
        self._sender = threading.Thread(
            target=_send_all, args=(self._outbox, self.connection), name="evaluator", daemon=True
        )
        self._sender.start()
        atexit.register(self.stop)  # the interpreter waits for its children first, and this one never ends by itself

    def set_state(self, evaluation_state: dict) -> None:
        """Lets the evaluations go on from a saved one; before the first epoch is submitted."""
        self._outbox.put(("state", evaluation_state))

    def submit(self, epoch: int, parameters: np.ndarray, view: dict) -> None:
        """Asks for the end of an epoch, and whatever evaluation is due there. Never waits.

        Args:
            epoch: its number, from 0.
            parameters: of the network at that moment, [P]; copied.
            view: counters at that moment, such as steps: what the callback shall read from `agent.sequence`.
        """
        self._outbox.put(("epoch", epoch, np.array(parameters, np.float32), dict(view)))
        self.pending += 1

    def receive(self) -> dict:
        """Waits for the next result.

        Returns:
            epoch: as submitted.
            state: the evaluation's, for `Evaluation.set_state`.
            media: the evaluation's.
            lines: what it logged, as lines.

        Raises:
            EvaluatorError: it has failed or died.
        """
        try:
            failure, result = self.connection.recv()
        except (EOFError, OSError):
            failure, result = (describe_end(self.process, _END_SECONDS),), None
        if failure:
            raise EvaluatorError(*failure)
        self.pending -= 1
        return result

    def stop(self) -> None:
        """Ends the process, breaking an evaluation off; results that were not received are lost.

        It has a moment to close its environments, which may consist of processes.
        """
        atexit.unregister(self.stop)
        self._stopping.value = True
        self._outbox.put(("stop",))
        self._outbox.put(None)
        self.process.join(_CLOSE_SECONDS)
        self.process.kill()
        self.process.join()
        self._sender.join()
        self.connection.close()


def _send_all(outbox: queue.SimpleQueue, connection: Connection) -> None:
    with contextlib.suppress(OSError):  # the child is gone: who receives hears that
        while (request := outbox.get()) is not None:
            connection.send(request)


def run_evaluator(pipe: Connection, stopping) -> None:
    """What the child does, until its parent ends it or is gone.

    Args:
        pipe: to the parent, which sends a payload as `Evaluator` takes it, then requests.
        stopping: whose value says that no result is wanted any more.
    """
    with contextlib.ExitStack() as stack:
        try:
            payload = pipe.recv()
            prepare_child()
            lines = _keep_lines()
            evaluation, agent = _build(payload, stack)
            evaluation.stop_requested = lambda: stopping.value
            lines.clear()  # the parent has built all of it too, and told
            for kind, *content in _requests(pipe):
                if kind == "state":
                    evaluation.set_state(*content)
                else:
                    state = _end_epoch(evaluation, agent, *content)
                    result = {"epoch": content[0], "state": state, "media": evaluation.media, "lines": lines}
                    _answer(pipe, None, result)
                    lines.clear()
        except (EvaluationStopped, EOFError):  # the latter of a parent that is gone
            pass
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # the last two are an environment's own
            _answer(pipe, (in_a_line(error), traceback.format_exc()), None)


def _answer(pipe: Connection, failure: tuple | None, result: dict | None) -> None:
    with contextlib.suppress(OSError):  # the parent is gone
        pipe.send((failure, result))


def _requests(pipe: Connection) -> Iterator[tuple]:
    while True:
        try:
            request = pipe.recv()
        except (EOFError, OSError):
            return
        if request[0] == "stop":
            return
        yield request


def _build(payload: bytes, stack: contextlib.ExitStack) -> tuple:
    from dqn_lab.asynchronous.agent import AsynchronousAgent

    make_sequence, network, actor_critic, greedy, make_evaluation = pickle.loads(payload)
    sequence = make_sequence(epsilon=0.0, seed=0)
    stack.callback(sequence.close)
    agent = AsynchronousAgent(network, actor_critic=actor_critic, greedy=greedy)
    agent.sequence = SimpleNamespace(
        gamma=sequence.gamma, protocol=getattr(sequence, "protocol", None), epoch_complete=True
    )
    evaluation = make_evaluation(sequence)
    stack.callback(evaluation.close)
    evaluation.set_model(agent)
    evaluation.on_train_begin()
    return evaluation, agent


def _end_epoch(evaluation, agent, epoch: int, parameters: np.ndarray, view: dict) -> dict:
    vars(agent.sequence).update(view)
    agent.set_parameters(parameters)
    evaluation.on_epoch_end(epoch, {})
    return evaluation.get_state()


def _keep_lines() -> list[str]:
    """Returns the list that the library's messages go to from now on, instead of being shown."""
    handler = _Lines()
    _logger.handlers, _logger.propagate = [handler], False
    _logger.setLevel(logging.INFO)
    return handler.lines


class _Lines(logging.Handler):
    """Keeps messages as lines; a warning says that it is one."""

    def __init__(self):
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        mark = "warning: " if record.levelno >= logging.WARNING else ""
        self.lines.append(mark + record.getMessage())
