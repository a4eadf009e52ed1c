"""The workers of a run as their parent sees them: begun, met, let go, and ended."""

import contextlib
import multiprocessing
import time
from collections.abc import Callable, Iterable, Sequence
from multiprocessing import connection

from dqn_lab.asynchronous.child_process import describe_end, start_child
from dqn_lab.asynchronous.shared_progress import Shared
from dqn_lab.asynchronous.worker_process import BEGUN, FAILED, GO, NOT_FINITE, READY, STOP, WAITS, run_worker

MEET_SECONDS = 30.0  # that a segment and its update may take once the run is to end
_END_SECONDS = 10.0
_LOOK_SECONDS = 0.25


class WorkerError(RuntimeError):
    """A worker has failed or died; the text names it, and says in a line what went wrong.

    Args:
        number: of the worker, from 0.
        text: its exception in a line, or what is known of its end.
        trace: its traceback, as far as there is one.
    """

    is_told = True

    def __init__(self, number: int, text: str, trace: str = ""):
        super().__init__(f"worker {number} failed: {text}")
        self.trace = trace.strip()


class Team:
    """Spawned workers that learn by themselves, and stand still together where the run is to be looked at.

        begin -> all learn -> the due step is made: each one says its state and waits -> go -> all learn -> ...

    Args:
        payload: as `run_worker` is sent it.
        shared: with all workers; kept here, so that its memory stays while they run.
        num_workers: how many.
        context: that processes are spawned by.
    """

    def __init__(self, payload: bytes, shared: Shared, num_workers: int, context):
        self._payload, self._shared, self._context = payload, shared, context
        self._pipes: list[connection.Connection | None] = [None] * num_workers
        self._processes: list = [None] * num_workers
        self._states: list[dict | None] = [None] * num_workers
        self._learns = False  # all workers have been let go

    @property
    def states(self) -> list[dict | None] | None:
        """The workers' states while all of them wait, else None; that of a worker that has failed is None."""
        waits = [pipe is None or state is not None for pipe, state in zip(self._pipes, self._states, strict=True)]
        return list(self._states) if all(waits) else None

    def begin(
        self, states: Sequence[dict | None], due_steps: int, stop_requested: Callable[[], bool] = lambda: False
    ) -> list[str]:
        """Begins all workers, and lets them learn once each has been built.

        Args:
            states: that they go on from; None begins anew.
            due_steps: at which they meet.
            stop_requested: asked now and then, while they are built, whether to leave off.

        Returns:
            Why a worker begins a new episode although its environment's state was given, in a few words each.

        Raises:
            WorkerError: a worker could not be built, or does not take its state.
            KeyboardInterrupt: it was asked to leave off; nothing has been learnt.
        """
        refuse_in_child()
        self._shared.progress.due_steps = due_steps
        for number in range(len(self._pipes)):
            self._pipes[number], theirs = self._context.Pipe()
            arguments = (number, self._shared, theirs)
            # No daemon: that would be killed while it writes to what is shared.
            self._processes[number] = self._context.Process(
                target=run_worker, args=arguments, name=f"worker {number}", daemon=False
            )
            start_child(self._processes[number])
            theirs.close()  # so that this end hears when the worker has ended
        for pipe in self._pipes:  # not as an argument: `start` would wait for ever for a child that dies first
            _send(pipe, self._payload)
        for number, pipe in enumerate(self._pipes):
            while not pipe.poll(_LOOK_SECONDS):
                if stop_requested():
                    raise KeyboardInterrupt("stopped before the first update: nothing was learnt")
            self._receive(number, READY)
        for pipe, state in zip(self._pipes, states, strict=True):  # all at once
            _send(pipe, state)
        self._learns = True
        reasons = [self._receive(number, BEGUN) for number in range(len(self._pipes))]
        return [reason for reason in dict.fromkeys(reasons) if reason]

    def wait(self, seconds: float, others: Iterable = ()) -> list:
        """Waits until workers wait, something else is ready, or the time is over.

        Args:
            seconds: at most.
            others: anything that `multiprocessing.connection.wait` takes.

        Returns:
            Those of the others that are ready.

        Raises:
            FloatingPointError: a worker met a number that is not finite.
            WorkerError: a worker has failed or died.
        """
        numbers = {pipe: number for number, pipe in enumerate(self._pipes) if pipe is not None}
        ready = connection.wait([*numbers, *others], timeout=seconds)
        for pipe in ready:
            if pipe in numbers:
                self._states[numbers[pipe]] = self._receive(numbers[pipe], WAITS)
        return [each for each in ready if each not in numbers]

    def meet(self) -> None:
        """Lets the workers wait before their next segment."""
        self._shared.progress.due_steps = 0

    def meet_rest(self) -> list[dict | None] | None:
        """After one has failed, lets the others finish their segments; those that can't are ended.

        Returns:
            The workers' states, None for those that have failed or were ended; or None if nothing was learnt yet.
        """
        if not self._learns:
            return None
        self.meet()
        latest = time.monotonic() + MEET_SECONDS
        while self.states is None and (left := latest - time.monotonic()) > 0:
            try:
                self.wait(left)
            except (FloatingPointError, WorkerError):
                continue  # one was enough to end the run
        self.drop_late()
        return self.states

    def drop_late(self) -> list[int]:
        """Ends the workers that do not wait; returns their numbers.

        Where that breaks an update off, some parameters have its change and some don't, as where two updates meet.
        """
        late = [n for n, pipe in enumerate(self._pipes) if pipe is not None and self._states[n] is None]
        for number in late:
            self._processes[number].kill()
            self._lose(number)
        return late

    def go(self, due_steps: int) -> None:
        """Lets the waiting workers learn until the next rendezvous."""
        self._shared.progress.due_steps = due_steps
        self._states = [None] * len(self._pipes)
        self._tell(GO)

    def end(self) -> None:
        """Ends all workers, those that learn too; nothing of them is left."""
        self._tell(STOP)
        self.meet()
        for process in self._processes:
            if process is not None:
                if self.states is None:
                    process.kill()  # it learns, and nobody wants that any more
                process.join(_END_SECONDS)
                if process.is_alive():
                    process.kill()
                    process.join()
                process.close()
        for pipe in self._pipes:
            if pipe is not None:
                pipe.close()
        self._pipes, self._processes = [None] * len(self._pipes), [None] * len(self._processes)

    def _tell(self, word: str) -> None:
        for pipe in self._pipes:
            if pipe is not None:
                _send(pipe, word)

    def _receive(self, number: int, expected: str):
        try:
            word, content = self._pipes[number].recv()
        except (EOFError, OSError):
            word, content = FAILED, (self._describe_end(number, expected),)
        if word == expected:
            return content
        self._lose(number)
        if word == NOT_FINITE:
            raise FloatingPointError(content)
        raise WorkerError(number, *content)

    def _describe_end(self, number: int, expected: str) -> str:
        said = describe_end(self._processes[number], _END_SECONDS)
        if expected != READY:
            return said
        return f"{said} before it had begun; a script begins a run under `if __name__ == '__main__':` only"

    def _lose(self, number: int) -> None:
        self._pipes[number].close()
        self._pipes[number], self._states[number] = None, None


def _send(pipe: connection.Connection, content) -> None:
    with contextlib.suppress(OSError):  # the worker has died: who waits for it hears that
        pipe.send(content)


def refuse_in_child() -> None:
    """Refuses to spawn from a script that runs again in each of the processes that it spawns.

    Raises:
        RuntimeError: this is such a process.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError(
            "A script that begins an asynchronous run must do so under `if __name__ == '__main__':`: each worker "
            "imports the script. Received: a run begun while a worker imports it"
        )
