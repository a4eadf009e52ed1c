"""The feed: the minibatches of one fit, and the order in which simulation and updates take turns."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import NoReturn

import numpy as np

FEEDINGS = ("auto", "overlap", "alternate")
Batch = dict[str, np.ndarray]
_SPARE_CORES = 8  # from here on the feed's thread does not take a core that the update waits for


def has_gpu() -> bool:
    """Tells whether TensorFlow updates on a GPU."""
    import tensorflow as tf

    return bool(tf.config.get_visible_devices("GPU"))


def choose_feeding(
    asked: str,
    *,
    num_envs: int,
    train_period_steps: int,
    drops_rows: bool,
    has_gpu: bool,
    cores: int,
) -> tuple[str, str]:
    """Decides who works while the update runs.

    Args:
        asked: "auto", "overlap" or "alternate".
        num_envs: lanes stepped by one decision.
        train_period_steps: steps between two updates.
        drops_rows: the environments reset in steps of their own, so that a decision is not always num_envs steps.
        has_gpu: updates run on a GPU.
        cores: cores this process may use.

    Returns:
        "overlap" or "alternate", and the reason in a few words.
    """
    if asked == "alternate":
        return "alternate", "as asked"
    if num_envs < train_period_steps:
        return "alternate", f"overlap needs num_envs >= train_period_steps = {train_period_steps}"
    if drops_rows:
        return "alternate", "the vector environment resets its lanes in steps of their own"
    if asked == "overlap":
        return "overlap", "as asked"
    if has_gpu:
        return "overlap", "updates run on a GPU"
    if cores >= _SPARE_CORES:
        return "overlap", f"{cores} cores"
    return "alternate", "updates use the only core" if cores == 1 else f"updates use all {cores} cores"


class Feed:
    """Makes the minibatches of one fit, in turn with its updates.

    The agent's train function calls, for every update,

        next_batch()     alternate: the batch is made here and now
                         overlap: the batch ordered before the last update is waited for, then the next one ordered
        the update       overlap: beside it the ordered batch is made, on the feed's own thread
        end_update()

    To make a batch is to step the environments as often as is due, then to draw. So with `alternate` nothing moves
    between two updates; with `overlap` batch k + 1 is made while update k runs, by actions whose values were computed
    just before it, so that the feed's thread computes nothing with TensorFlow.

    Args:
        sequence: whose batches are fed.
        policy: features [N, ...] -> action values [N, A].
        place: takes a batch to the device that updates run on, on the thread that made it.
        carried: a batch that was made for an earlier fit and that no update took, or None.
        updates: of each epoch.

    Attributes:
        left: updates of the epoch that have not taken their batch.
        in_flight: a batch that is made and that no update has taken, or None.
        error: what was raised while a batch was made, on whichever thread, or None.
        failed: whether `next_batch` raised because of it.
    """

    def __init__(
        self,
        sequence,
        policy: Callable[[np.ndarray], np.ndarray],
        place: Callable[[Batch], dict],
        carried: Batch | None,
        updates: int,
    ) -> None:
        self.left = 0
        self.in_flight = carried
        self.error: BaseException | None = None
        self.failed = False
        self._sequence, self._policy, self._place = sequence, policy, place
        self._updates = updates
        self._ordered: Future | None = None  # what `place` makes of the batch in flight
        self._worker: ThreadPoolExecutor | None = None
        if sequence.feeding == "overlap":
            self._worker = ThreadPoolExecutor(1, thread_name_prefix="feed")

    def dataset(self):
        """Returns the numbers of an epoch's updates as a `tf.data.Dataset`, by which Keras counts.

        The batches do not travel in it: TensorFlow would ask for them ahead of need on a thread of its own, and take
        a millisecond and a half to hand over each.
        """
        import tensorflow as tf

        return tf.data.Dataset.range(self._updates)

    def next_batch(self) -> dict:
        """Returns the batch of the next update, as `place` left it.

        Raises:
            RuntimeError: no batch could be made; `error` says why. The same text whatever it is, because Keras takes
                a StopIteration for the end of the epoch: whoever called `fit` raises `error` itself.
        """
        if not self.left:
            self._sequence.epoch_complete = False
            self.left = self._updates
        try:
            batch = self._take()
        except Exception:
            if self.error is None:
                raise
            self._fail()
        orders = self._worker is not None and self.left > 1  # after the last one nothing: the epoch ends quiet
        values = self._due_values() if orders else None  # may raise: the batch is still in flight then
        self.in_flight = None
        self.left -= 1
        if orders:
            self._order(values)
        return batch

    def end_update(self) -> None:
        """To be called after each update that was made."""
        self._sequence.epoch_complete = self.left == 0

    def settle(self) -> None:
        """Waits until no batch is being made; what goes wrong there is left to who waits for the batch.

        The sequence stands still then until the next update asks for its batch.
        """
        if self._ordered is not None:
            wait([self._ordered])

    def close(self) -> None:
        """Ends the feed. A batch that was ordered is waited for and carried on.

        So the number of steps after a stop depends on no thread's timing. What goes wrong is left in `error`.
        """
        try:
            if self._worker is not None:
                self._worker.shutdown(wait=True)  # it carries out what was ordered
        finally:  # also when a second Ctrl-C breaks off the wait
            self._sequence.detach(self, self.in_flight)
            self._ordered = self.in_flight = None

    def _take(self) -> dict:
        if self.in_flight is not None and self._ordered is None:  # carried on from an earlier fit
            return self._place(self.in_flight)
        if self._worker is None:
            return self._make(self._policy, None)
        if self._ordered is None:
            self._order(self._due_values())  # nothing can overlap with an epoch's first batch
        ordered, self._ordered = self._ordered, None
        return ordered.result()

    def _due_values(self) -> np.ndarray | None:
        return self._sequence.compute_values(self._policy) if self._sequence.is_step_due() else None  # [N, A]

    def _order(self, values: np.ndarray | None) -> None:
        self._ordered = self._worker.submit(self._make, None, values)

    def _make(self, policy: Callable | None, values: np.ndarray | None) -> dict:
        try:
            self.in_flight = self._sequence.produce_batch(policy, values)
            return self._place(self.in_flight)
        except BaseException as error:
            self.error = error
            raise

    def _fail(self) -> NoReturn:
        self.failed = True
        raise RuntimeError("The next minibatch could not be made.") from self.error
