"""Workers and evaluations of an asynchronous run without processes: both take their turns inside the parent's waits."""

import pickle
import traceback
from contextlib import ExitStack, contextmanager

import pytest

from dqn_lab.asynchronous import evaluator, team
from dqn_lab.asynchronous.child_process import in_a_line
from dqn_lab.asynchronous.worker import Worker


class InlineTeam:
    """Stands where `Team` stands: in each wait every worker that may learn makes a segment, or tells its state."""

    def __init__(self, payload, shared, num_workers, context):
        self._payload, self.shared, self._num_workers = payload, shared, num_workers
        self.workers = []
        self._learns = []
        self._states = []
        self.waits = 0
        Inline.now.team = self

    @property
    def states(self):
        return None if any(self._learns) else list(self._states)

    def begin(self, states, due_steps, stop_requested=None):
        self.shared.progress.due_steps = due_steps
        for number, state in enumerate(states):
            worker = Worker(number, *pickle.loads(self._payload), self.shared)
            if state is not None:
                worker.set_state(pickle.loads(pickle.dumps(state)))
            self.workers.append(worker)
        self._learns, self._states = [True] * self._num_workers, [None] * self._num_workers
        for _ in range(Inline.now.segments_first):
            self._take_turns()
        return []

    def wait(self, seconds, others=()):
        self.waits += 1
        Inline.now.on_wait(self)
        self._take_turns()
        return [other for other in others if other.poll(0)]

    def meet(self):
        self.shared.progress.due_steps = 0

    def meet_rest(self):
        if not self.workers:
            return None
        self.meet()
        while self.states is None:
            try:
                self.wait(0)
            except (FloatingPointError, team.WorkerError):
                continue
        return self.states

    def go(self, due_steps):
        self.shared.progress.due_steps = due_steps
        self._learns, self._states = [worker is not None for worker in self.workers], [None] * self._num_workers

    def end(self):
        Inline.now.ended += 1

    def drop_late(self):
        late = [number for number, learns in enumerate(self._learns) if learns]
        for number in late:
            self.lose(number)
        return late

    def lose(self, number):
        """The worker is no more, and its state neither."""
        self.workers[number], self._learns[number], self._states[number] = None, False, None

    def _take_turns(self):
        for number, worker in enumerate(self.workers):
            if self._learns[number]:
                self._take_turn(number, worker)

    def _take_turn(self, number, worker):
        if worker.is_due():
            self._learns[number], self._states[number] = False, pickle.loads(pickle.dumps(worker.get_state()))
            return
        try:
            worker.learn()
        except FloatingPointError:
            self.lose(number)
            raise
        except Exception as error:
            self.lose(number)
            raise team.WorkerError(number, in_a_line(error), traceback.format_exc()) from None


class InlineEvaluator:
    """Stands where `Evaluator` stands: an epoch is evaluated when it is received."""

    def __init__(self, payload, context):
        self._evaluation, self._agent = evaluator._build(payload, ExitStack())
        self._requests = []
        self.connection = self

    def set_state(self, evaluation_state):
        self._evaluation.set_state(pickle.loads(pickle.dumps(evaluation_state)))

    def submit(self, epoch, parameters, view):
        self._requests.append((epoch, parameters.copy(), dict(view)))

    def poll(self, seconds):
        return bool(self._requests) and Inline.now.evaluated(seconds)

    def receive(self):
        Inline.now.on_receive()
        epoch, parameters, view = self._requests.pop(0)
        state = evaluator._end_epoch(self._evaluation, self._agent, epoch, parameters, view)
        state, media = pickle.loads(pickle.dumps((state, self._evaluation.media)))
        return {"epoch": epoch, "state": state, "media": media, "lines": []}

    def stop(self):
        Inline.now.ended += 1


class Inline:
    """What a test does at moments of a run; each does nothing unless it is replaced.

    Attributes:
        on_wait: of a team, in each of its waits.
        on_receive: before an evaluation.
        evaluated: whether the oldest evaluation has come in, asked in waits of so many seconds: 0 while workers learn.
        segments_first: that each worker makes as soon as it is begun.
        ended: how many teams and evaluators were ended.
        team: the newest one.
    """

    now: "Inline"

    def __init__(self):
        self.on_wait = lambda team: None
        self.on_receive = lambda: None
        self.evaluated = lambda seconds: True
        self.segments_first = 0
        self.ended = 0
        self.team: InlineTeam | None = None


@contextmanager
def inline():
    """Puts both in the place of processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(team, "Team", InlineTeam)
        patch.setattr(evaluator, "Evaluator", InlineEvaluator)
        patch.setattr(Inline, "now", Inline(), raising=False)
        yield Inline.now
