"""Evaluations in a process of their own."""

import logging
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import types
from types import SimpleNamespace

import evaluated_catch as catch
import numpy as np
import pytest

from dqn_lab.asynchronous.agent import AsynchronousAgent
from dqn_lab.asynchronous.evaluator import Evaluator, EvaluatorError
from dqn_lab.saved_state import read_state, write_state

VIEWS = [{"steps": 1000 * epoch, "updates": 3 * epoch} for epoch in (1, 2, 3, 4)]


def evaluate_here(parameters, caplog):
    """The states and lines that the same evaluations have in this process."""
    sequence = catch.make_sequence(0.0, 0)
    agent, evaluation = AsynchronousAgent(catch.make_network(), actor_critic=True), catch.make_evaluation(sequence)
    evaluation.set_model(agent)
    agent.sequence = SimpleNamespace(gamma=sequence.gamma, epoch_complete=True)
    evaluation.on_train_begin()
    told = []
    for epoch, (given, view) in enumerate(zip(parameters, VIEWS, strict=True)):
        vars(agent.sequence).update(view)
        agent.set_parameters(given)
        caplog.clear()
        evaluation.on_epoch_end(epoch, {})
        told.append({"epoch": epoch, "state": evaluation.get_state(), "media": None, "lines": caplog.messages})
    return told


def test_epochs_are_evaluated_in_their_order_as_here_and_nothing_stops_them_but_the_parent(caplog, capfd, tmp_path):
    caplog.set_level(logging.INFO, logger="dqn_lab")
    first = catch.make_parameters()
    parameters = [first * scale for scale in np.float32([1, 3, -1, -3])]
    expected = evaluate_here(parameters, caplog)
    assert [len(each["lines"]) for each in expected] == [2, 1, 0, 1]
    assert len({str(each["state"]["result"]) for each in expected}) == 3  # epochs 1, 2 and 4
    evaluator = Evaluator(catch.make_payload(), catch.SPAWN)
    try:
        write_state(tmp_path, "state", expected[0]["state"])
        evaluator.set_state(read_state(tmp_path, "state"))
        given = first.copy()
        for epoch in (1, 2, 3):
            given[:] = parameters[epoch]
            evaluator.submit(epoch, given, VIEWS[epoch])
        given[:] = np.nan
        assert evaluator.pending == 3
        assert evaluator.receive() == expected[1]
        assert evaluator.receive() == expected[2]
        assert evaluator.pending == 1
        if os.name == "posix":
            for number in (signal.SIGINT, signal.SIGTERM):
                os.kill(evaluator.process.pid, number)
        assert evaluator.receive() == expected[3]
        assert evaluator.pending == 0
        evaluator.submit(4, parameters[0], VIEWS[3])
    finally:
        evaluator.stop()
    assert not evaluator.process.is_alive()
    assert not evaluator._sender.is_alive()
    evaluator.stop()
    assert "evaluation at" not in "".join(capfd.readouterr())


def test_a_failure_is_told_with_its_traceback():
    def fail(sequence):
        raise ArithmeticError(f"no evaluation of {sequence.num_actions} actions")

    evaluator = Evaluator(catch.make_payload(make_evaluation=fail), catch.SPAWN)
    try:
        told = "the evaluation process failed: ArithmeticError: no evaluation of 3 actions"
        with pytest.raises(EvaluatorError, match=told) as failed:
            evaluator.receive()
        assert re.match(r"(?s)Traceback.* in fail\n.*ArithmeticError: no evaluation", failed.value.trace)
    finally:
        evaluator.stop()


def test_a_sudden_death_is_told_and_leaves_nothing_to_wait_for():
    evaluator = Evaluator(b"", catch.SPAWN)
    try:
        evaluator.process.kill()
        for epoch in range(3):
            evaluator.submit(epoch, np.zeros(100_000, np.float32), {})
        with pytest.raises(EvaluatorError, match="process failed: its process ended by signal 9$"):
            evaluator.receive()
    finally:
        evaluator.stop()
    assert not evaluator._sender.is_alive()


class Unread:
    """A process and a pipe whose other end nobody reads until the main thread lets it."""

    def __init__(self):
        self.sent, self.read = queue.SimpleQueue(), threading.Event()
        self.kill = self.join = self.start = self.close = lambda *_: None

    def Pipe(self):
        return self, self

    def Process(self, **_):
        return self

    def RawValue(self, *_):
        return types.SimpleNamespace(value=None)

    def send(self, request):
        if threading.current_thread() is threading.main_thread():
            raise AssertionError("the parent would wait here")
        self.read.wait()
        self.sent.put(request)


def test_the_parent_never_waits_for_what_it_sends():
    context = Unread()
    evaluator = Evaluator(b"", context)
    try:
        evaluator.set_state({"complete_epochs": 2})
        for epoch in range(3):
            evaluator.submit(epoch, np.full(2, epoch), {"steps": epoch})
        assert evaluator.pending == 3
    finally:
        context.read.set()
        evaluator.stop()
    assert context.sent.get() == b""
    sent = [context.sent.get() for _ in range(4)]
    assert sent[0] == ("state", {"complete_epochs": 2})
    assert [(kind, epoch, values.tolist(), view) for kind, epoch, values, view in sent[1:]] == [
        ("epoch", epoch, [epoch, epoch], {"steps": epoch}) for epoch in range(3)
    ]


def begin(*words):
    return subprocess.Popen(
        [sys.executable, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def wait_for_all(program):
    """The evaluation's process holds the other end of the program's output, which is over when both are."""
    try:
        program.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, signal.SIGKILL)
        raise
    return program.returncode


@pytest.mark.posix
def test_an_evaluation_ends_with_a_parent_that_is_killed():
    program = begin(catch.__file__)
    assert program.stdout.readline() == "playing\n"
    program.kill()
    assert wait_for_all(program) == -signal.SIGKILL


LEAVING = """
import multiprocessing, pickle, signal
from dqn_lab.asynchronous.evaluator import Evaluator

class Forever:
    def __reduce__(self):
        return signal.pause, ()

Evaluator(pickle.dumps(Forever()), multiprocessing.get_context("spawn"))
"""


@pytest.mark.posix
def test_a_parent_that_leaves_is_not_held_up_by_its_evaluation():
    assert wait_for_all(begin("-c", LEAVING)) == 0
