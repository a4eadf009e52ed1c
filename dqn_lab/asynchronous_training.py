"""The learning of an asynchronous run: workers learn, a process evaluates, and the parent keeps the books.

    workers     segment, update, segment, update ... | stand still | ... until the next epoch's steps are made
    parent                                           | saves       |
                                                     | record  ------> evaluator: plays while the workers go on
    parent      <------- figures of the record's epoch: row, points, best ------'

A record is what the run had counted and learnt at an epoch's end. Its row is written when its evaluation has come in;
until then the record is in every checkpoint, so that whoever continues the run begins with its evaluation.
"""

from __future__ import annotations

import logging
import math
import multiprocessing
from collections.abc import Mapping
from types import SimpleNamespace

from dqn_lab.asynchronous_checkpoints import AsynchronousCheckpoints
from dqn_lab.run_checkpoints import UnsavedError
from dqn_lab.training import Training

_TICK_SECONDS = 0.25  # from one look at the clock, Ctrl-C and the status line to the next
_RETRY_MINUTES = 1.0
_SECONDS = ("acting", "environment", "update")
_logger = logging.getLogger("dqn_lab")


class AsynchronousTraining(Training):
    """Lets the workers of a run learn until one of its totals is reached.

    Args:
        run: an `AsynchronousRun`.
        *parts, **options: as `Training` takes them; totals are counted in steps of all workers.
    """

    def __init__(self, run, *parts, **options):
        from dqn_lab.asynchronous.shared_progress import Shared

        self._context = multiprocessing.get_context("spawn")
        workers, statistics = run.settings.num_workers, run.settings.rmsprop_start
        self._shared = Shared.beginning(run.agent.get_parameters(), workers, self._context, statistics)
        self._states: list[dict | None] = [None] * workers  # of the workers, as they last stood still
        self._pending: list[dict] = []  # records whose evaluation has not come in, oldest first
        self._marks: dict[str, float] = {}  # the counters' totals at the newest epoch's end
        self._shown: dict | None = None  # the record that callbacks see now; None: the present
        self._before: dict = {}  # while they see one: what a checkpoint says of callbacks and curves without it
        self._due_minutes = math.inf
        run.agent.sequence = SimpleNamespace(
            gamma=run.sequence.gamma, protocol=run.protocol, epoch_complete=True, settle=lambda: None
        )
        super().__init__(run, *parts, **options)
        self._view()

    def clock(self) -> float:
        """As `Training`; while a record is shown, its time."""
        return super().clock() if self._shown is None else self._shown["time"]

    def minutes(self) -> float:
        """As `Training`; while a record is shown, its own."""
        return super().minutes() if self._shown is None else self._shown["minutes"]

    def fit(self) -> None:
        """As `Training`: the workers' processes, and that of the evaluation, are begun and ended in it."""
        from dqn_lab.asynchronous.evaluator import EvaluatorError
        from dqn_lab.asynchronous.team import Team, WorkerError

        is_over = self._is_over()  # only evaluations may be left
        self.checkpoints.ready = is_over  # before workers have stood still there is nothing new to save
        team = Team(self._run.worker_payload, self._shared, self._run.settings.num_workers, self._context)
        self._begin_evaluator()
        try:
            self._begin_callbacks()  # first: games that end meanwhile would be in nobody's figures
            if not is_over:
                for reason in team.begin(self._states, self._next_due(), lambda: self._interruption.requested):
                    _logger.warning("not exact: %s, new episodes begin", reason)
            self._begin_clock()
            if not is_over:
                self._learn(team)
            self._receive_all()
            self._end_callbacks()
        except BaseException as error:
            if isinstance(error, WorkerError | EvaluatorError) and error.trace:
                self._transcript.say(error.trace)
            if not isinstance(error, FloatingPointError | UnsavedError):
                self._stand_still(team)
            raise
        finally:
            team.end()
            if self._evaluator is not None:
                self._evaluator.stop()

    def _learn(self, team) -> None:
        """Until all workers stand still and the run is over, or is asked to stop."""
        from dqn_lab.asynchronous.team import MEET_SECONDS

        self._due_minutes, latest = self._period_from_now(), math.inf
        while True:
            self._wait(team, _TICK_SECONDS)
            if self._interruption.requested or self.minutes() >= min(self._totals.minutes, self._due_minutes):
                team.meet()
            if self._interruption.requested:
                latest = min(latest, super().clock() + MEET_SECONDS)
            if super().clock() > latest:
                for number in team.drop_late():
                    _logger.warning("worker %d has not finished its segment and is ended", number)
            if team.states is not None:
                self._keep_books(team.states)
                if self._limits.interrupted and not self._run.agent.updates:
                    raise KeyboardInterrupt(
                        "stopped before the first update: nothing was learnt, nothing is left behind"
                    )
                if self._is_over() or self._limits.interrupted:
                    return
                team.go(self._next_due())
            self._view()
            self._progress.on_train_batch_end(0, self._losses())

    def _wait(self, team, seconds: float) -> None:
        others = [] if self._evaluator is None else [self._evaluator.connection]
        if team.wait(seconds, others):
            self._receive()

    def _keep_books(self, states: list) -> None:
        """All workers stand still: an epoch may have ended, and a checkpoint may be due."""
        self._states = states
        self.checkpoints.ready = True
        self._limits.interrupted = self._interruption.requested
        self._view()
        pending = len(self._pending)
        while self._shared.parameters.steps >= self._epoch_end():  # an epoch may be shorter than a segment
            self._record()
        if len(self._pending) > pending or self.minutes() >= self._due_minutes:
            self._save()
        if self._evaluator is None:
            self._deliver_all()

    def _record(self) -> None:
        totals = self._shared.progress.totals()
        record = {
            "time": self.clock(),
            "minutes": self.minutes(),
            "epoch": self.checkpoints.epochs + len(self._pending),
            "totals": totals,
            "logs": self._losses(),
            "parameters": self._shared.parameters.parameters.copy(),
        }
        self._marks = totals
        self._pending.append(record)
        self._submit(record)

    def _submit(self, record: dict) -> None:
        if self._evaluator is not None:
            self._evaluator.submit(record["epoch"], record["parameters"], _counts(record["totals"]))

    def _receive_all(self) -> None:
        """The evaluations that the run's end found unfinished; a request to stop leaves them to whoever goes on."""
        while self._pending and not self._limits.interrupted:
            if self._evaluator.connection.poll(_TICK_SECONDS):
                self._receive()
            else:
                self._limits.interrupted = self._interruption.requested

    def _receive(self) -> None:
        result = self._evaluator.receive()
        for line in result["lines"]:
            _logger.info("%s", line)
        self._deliver(result["state"], result["media"])

    def _deliver_all(self) -> None:
        while self._pending:
            self._deliver()

    def _deliver(self, evaluation_state: dict | None = None, media=None) -> None:
        """Shows the oldest record to the callbacks, as the end of its epoch."""
        carried = self.checkpoints.get_state()
        self._before = {name: carried[name] for name in ("callbacks", "curves")}
        if evaluation_state is not None:
            self._evaluation_callback.receive(evaluation_state, media)
        self._shown = record = self._pending[0]
        try:
            self._view()
            self._run.agent.set_parameters(record["parameters"])
            self._listed.on_epoch_end(record["epoch"], dict(record["logs"]))
        finally:
            self._shown = None
            self._view()
        self._pending.pop(0)
        self.checkpoints.epochs = record["epoch"] + 1
        self._before = {}

    def _save_rest(self) -> bool:
        """As `Training`; a record that a callback raised at stays pending, and is shown to all of them again."""
        return self.checkpoints.save_if_new(self.checkpoints.get_state() | self._before if self._before else None)

    def _view(self) -> None:
        """Lets the agent, and through it the callbacks, tell the counters of the record that is shown, or of now."""
        totals = self._shared.progress.totals() if self._shown is None else self._shown["totals"]
        vars(self._run.agent.sequence).update(
            _counts(totals),
            epsilon=totals["epsilon"],
            seconds={name: totals[name] / self._run.settings.num_workers for name in _SECONDS},
        )
        self._run.agent.updates = int(totals["updates"])

    def _losses(self) -> dict[str, float]:
        """Means over the steps learnt since the newest epoch's end; nothing before the first of them."""
        totals = self._shared.progress.totals()
        since = {name: totals[name] - self._marks.get(name, 0.0) for name in ("learnt_steps", "loss_sum", "value_sum")}
        steps = since["learnt_steps"]
        return {"loss": since["loss_sum"] / steps, "q_mean": since["value_sum"] / steps} if steps else {}

    def _save(self) -> None:
        """Saves between two segments; what the disk refuses is told and tried again."""
        try:
            self.checkpoints.save()
        except UnsavedError as error:
            _logger.warning("%s; training goes on, the next try is in a minute", error)
            self._due_minutes = self.minutes() + _RETRY_MINUTES
        else:
            self._due_minutes = self._period_from_now()

    def _stand_still(self, team) -> None:
        """After an error: what the other workers have learnt can be saved once they have finished their segments."""
        states = team.meet_rest()
        self.checkpoints.ready = states is not None  # else one of them may be ended in the midst of an update
        if states is not None:
            self._states = states
            self._view()

    def _begin_evaluator(self) -> None:
        from dqn_lab.asynchronous.evaluator import Evaluator

        self._evaluator = None
        if self._run.evaluation is None:
            return
        self._evaluator = Evaluator(self._run.evaluator_payload, self._context)
        self._evaluator.set_state(self._run.evaluation.get_state())
        for record in self._pending:  # of a run that is continued
            self._submit(record)

    def _begin_callbacks(self) -> None:
        import keras

        self._view()
        self._listed = keras.callbacks.CallbackList(self._callbacks, model=self._run.agent)
        self._listed.on_train_begin()

    def _begin_clock(self) -> None:
        """What is measured by time leaves out the beginning of processes."""
        now = super().clock()
        for record in self._pending:
            record["time"] += now  # it was the record's age
        self._listed.on_epoch_begin(self.checkpoints.epochs + len(self._pending))
        if self._evaluator is None:
            self._deliver_all()  # of a run that was killed between save and row

    def _end_callbacks(self) -> None:
        """The point of an epoch that was broken off, and the last save."""
        epoch = self.checkpoints.epochs + len(self._pending)
        sequence, self._run.agent.stop_training = self._run.agent.sequence, True
        if self._shared.parameters.steps > epoch * self._run.steps_per_epoch and self._losses():
            saved = self.checkpoints.get_state()  # before the last point is drawn: who goes on, goes on with the epoch
            sequence.epoch_complete = False
            self._listed.on_epoch_end(epoch, self._losses())
            sequence.epoch_complete = True
            self.checkpoints.save_if_new(saved)
        else:
            self.checkpoints.save_if_new()
        self._listed.on_train_end()

    def _get_state(self) -> dict:
        now = super().clock()
        self._run.agent.set_parameters(self._shared.parameters.parameters)
        pending = [{**record, "time": record["time"] - now} for record in self._pending]  # a clock's time ends with it
        return {
            "shared": self._shared.parameters.get_state(),
            "counters": self._shared.progress.counters.copy(),
            "target_copies": self._shared.progress.target_copies,
            "workers": self._states,
            "pending": pending,
            "marks": dict(self._marks),
        }

    def _set_state(self, state: dict) -> bool:
        progress = self._shared.progress
        if state["counters"].shape != progress.counters.shape:
            raise ValueError(
                f"counters must be {list(progress.counters.shape)}. Received: {list(state['counters'].shape)}"
            )
        self._shared.parameters.set_state(state["shared"])
        progress.counters[:], progress.target_copies = state["counters"], state["target_copies"]
        self._states, self._pending = list(state["workers"]), list(state["pending"])
        self._marks = dict(state["marks"])
        self._run.agent.set_parameters(self._shared.parameters.parameters)
        self._view()
        whole = [each is not None and each["sequence"]["simulation"]["lanes"] is not None for each in self._states]
        return all(whole)

    def _is_over(self) -> bool:
        return self._shared.parameters.steps >= self._totals.steps or self.minutes() >= self._totals.minutes

    def _epoch_end(self) -> int:
        """Steps at which the present epoch ends."""
        return (self.checkpoints.epochs + len(self._pending) + 1) * self._run.steps_per_epoch

    def _next_due(self) -> int:
        due = min(self._epoch_end(), self._totals.steps)
        return math.ceil(min(due, 2**62))

    def _period_from_now(self) -> float:
        period = self._run.checkpoint_period_minutes
        return math.inf if period is None else self.minutes() + period

    def _make_limits(self):
        return _Limits(self)

    def _fraction(self) -> float:
        steps = self._shared.parameters.steps
        return min(1.0, max(steps / self._totals.steps, self.minutes() / self._totals.minutes))

    def _make_evaluation_callback(self):
        from dqn_lab.callbacks.received_evaluation import ReceivedEvaluation

        self._evaluation_callback = ReceivedEvaluation(self._run.evaluation)
        return self._evaluation_callback

    def _make_checkpoints(self, callbacks: dict, settings: dict) -> AsynchronousCheckpoints:
        agent = self._run.agent
        return AsynchronousCheckpoints(
            self._directory,
            agent,
            agent.sequence,
            callbacks,
            settings=settings,
            minutes=self.minutes,
            keep=self._run.keep,
            get_parts=self._get_state,
            set_parts=self._set_state,
        )


class _Limits:
    """How much of a training is done, and whether it was asked to stop."""

    def __init__(self, training: AsynchronousTraining):
        self.interrupted = False
        self.fraction = training._fraction


def _counts(totals: Mapping[str, float]) -> dict[str, float]:
    """What callbacks read of the counters, as whole numbers where they are."""
    names = ("steps", "frames", "episodes", "episode_length_sum")
    return {name: int(totals[name]) for name in names} | {"episode_return_sum": totals["episode_return_sum"]}
