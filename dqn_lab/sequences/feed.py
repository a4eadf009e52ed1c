"""The feed: one fit's private view of a sequence, and the order in which simulation and updates take turns."""

import contextlib
import threading
from collections.abc import Callable
from typing import NoReturn

import keras
import numpy as np

FEEDINGS = ("auto", "overlap", "alternate")
_SPARE_CORES = 8  # from here on the generator's thread does not take a core that the update waits for


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
    return "alternate", f"updates use all {cores} cores"


class Feed(keras.utils.PyDataset):
    """Hands minibatches to one `fit`, and holds Keras's generator thread back until each is due.

    Keras asks for items as far ahead as it likes, on a thread of its own. The agent's train function calls

        next_batch(iterator)    alternate: the batch is made here, the generator only hands it over
                                overlap: once it has come, the generator is told to make the next one
        the update              overlap: beside it the next batch is made
        end_update()

    To make a batch is to step the environments as often as is due, then to draw. So with `alternate` nothing moves
    between two updates; with `overlap` batch k + 1 is made while update k runs, by actions whose values were computed
    just before it, so that the generator's thread makes no TensorFlow call.

    A feed that has been closed stays closed. A generator that comes late, left over from a fit that was broken off in
    mid-epoch, meets a closed feed and touches nothing.

    Args:
        sequence: whose batches are fed.
        policy: features [N, ...] -> action values [N, A].
        carried: a batch that was made for an earlier fit and that no update took, or None.

    Attributes:
        left: updates of the epoch that have not taken their batch.
        error: what was raised while a batch was made, on whichever thread, or None.
        failed: whether `next_batch` raised because of it.
    """

    def __init__(
        self,
        sequence,
        policy: Callable[[np.ndarray], np.ndarray],
        carried: dict[str, np.ndarray] | None,
    ) -> None:
        super().__init__()
        self.left = 0
        self.error: BaseException | None = None
        self.failed = False
        self._sequence = sequence
        self._policy = policy
        self._overlaps = sequence.feeding == "overlap"
        self._begun = self._closed = self._making = False
        self._in_flight = carried  # made, and not yet taken by an update
        self._ready = carried  # made, and not yet handed to Keras
        self._values: tuple | None = None  # (values or None,), once the generator is to make a batch
        self._changed = threading.Condition()
        self._length = len(sequence)
        self._empty: dict[str, np.ndarray] = {}
        self._iterator = None

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        if not self._begun:  # Keras looks at shapes and dtypes
            probe = self._sequence[index]
            self._empty = {key: np.empty((0, *value.shape[1:]), value.dtype) for key, value in probe.items()}
            return probe
        with self._changed:
            self._changed.wait_for(self._may_go_on)
            if self._closed:
                return self._empty  # to a generator that nobody listens to; an exception would be printed
            if self._ready is not None:
                batch, self._ready = self._ready, None
                return batch
            (values,), self._values, self._making = self._values, None, True
        try:
            self._make(None, values)
        finally:
            with self._changed:
                self._making = False
                self._changed.notify_all()
        return self._in_flight

    def on_epoch_begin(self) -> None:
        """Readies the epoch; with `overlap` its first batch, which nothing can overlap with, is set going."""
        self._sequence.fill()
        self._sequence.epoch_complete = False
        self._begun, self.left = True, self._length
        if self._overlaps and self._in_flight is None:
            self._order_batch()

    def next_batch(self, iterator) -> dict:
        """Returns the batch of the next update.

        Args:
            iterator: Keras's, over this feed.

        Raises:
            RuntimeError: no batch could be made; `error` says why. The same text whatever it is, because Keras takes
                a StopIteration for the end of the epoch: whoever called `fit` raises `error` itself.
        """
        # Kept, because to free it is to wait for its generator, which waits here for as long as the feed is open.
        self._iterator = iterator
        if not self._overlaps and self._in_flight is None:
            self._make_here()
        batch = self._take(iterator)
        self._in_flight = None
        self.left -= 1
        if self._overlaps and self.left:  # after the last one nothing: the epoch ends quiet
            self._order_batch()
        return batch

    def end_update(self) -> None:
        """To be called after each update that was made."""
        self._sequence.epoch_complete = self.left == 0

    def close(self) -> None:
        """Ends the feed. What was ordered is made, here if the generator has not begun it, and carried on.

        So the number of steps after a stop depends on no thread's timing. What goes wrong is left in `error`.
        TensorFlow never frees what a generator belonged to, so that a closed feed holds on to nothing.
        """
        order = None
        try:
            with self._changed:
                self._changed.wait_for(lambda: not self._making)
                order, self._values, self._closed = self._values, None, True
                self._changed.notify_all()
            if order is not None:
                with contextlib.suppress(Exception):
                    self._make(None, *order)
        finally:  # also when a second Ctrl-C breaks off the wait
            with self._changed:
                self._closed = True
                self._changed.notify_all()
            self._sequence.detach(self, self._in_flight)
            self._sequence = self._policy = self._in_flight = self._ready = self._iterator = None

    def _may_go_on(self) -> bool:
        return self._closed or self._ready is not None or self._values is not None

    def _order_batch(self) -> None:
        due = self._sequence.is_step_due()
        values = self._sequence.compute_values(self._policy) if due else None  # [N, A]
        with self._changed:
            self._values = (values,)
            self._changed.notify_all()

    def _make_here(self) -> None:
        try:
            self._make(self._policy, None)
        except Exception:
            self._fail()
        with self._changed:
            self._ready = self._in_flight
            self._changed.notify_all()

    def _make(self, policy: Callable | None, values: np.ndarray | None) -> None:
        try:
            self._in_flight = self._sequence.produce_batch(policy, values)
        except BaseException as error:
            self.error = error
            raise

    def _take(self, iterator) -> dict:
        try:
            return next(iterator)
        except Exception:
            if self.error is None:
                raise
            self._fail()

    def _fail(self) -> NoReturn:
        self.failed = True
        raise RuntimeError("The next minibatch could not be made.") from self.error
