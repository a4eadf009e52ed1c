"""The feed: one fit's private view of a sequence, and the order in which simulation and updates take turns."""

import contextlib
import threading
from collections.abc import Callable
from typing import NoReturn

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


class Feed:
    """Hands minibatches to one `fit`, and holds the generator's thread back until each is due.

    TensorFlow asks the generator for items ahead of need, on a thread of its own. The agent's train function calls

        next_batch(iterator)    alternate: the batch is made here, the generator only hands it over
                                overlap: once it has come, the generator is told to make the next one
        the update              overlap: beside it the next batch is made
        end_update()

    To make a batch is to step the environments as often as is due, then to draw. So with `alternate` nothing moves
    between two updates; with `overlap` batch k + 1 is made while update k runs, by actions whose values were computed
    just before it, so that the generator's thread makes no TensorFlow call.

    A feed that has been closed stays closed. A generator that comes late, left over from a fit that was broken off in
    mid-epoch, meets a closed feed and ends.

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
        self.left = 0
        self.error: BaseException | None = None
        self.failed = False
        self._sequence = sequence
        self._policy = policy
        self._overlaps = sequence.feeding == "overlap"
        self._updates_per_epoch = len(sequence)
        self._closed = self._making = False
        self._in_flight = carried  # made, and not yet taken by an update
        self._ready = carried  # made, and not yet handed over
        self._values: tuple | None = None  # (values or None,), once the generator is to make a batch
        self._changed = threading.Condition()
        self._iterator = None

    def dataset(self):
        """Returns the minibatches of one epoch as a `tf.data.Dataset`, for Keras; fills the replay if need be.

        Not as a PyDataset, for which Keras leaves TensorFlow's autotuning on: the end of an epoch then now and again
        waits for its next turn, which comes once a minute in a long epoch.
        """
        import tensorflow as tf

        signature = {
            key: tf.TensorSpec((None, *value.shape[1:]), value.dtype) for key, value in self._sequence[0].items()
        }
        options = tf.data.Options()
        options.autotune.enabled = False
        dataset = tf.data.Dataset.from_generator(self.items, output_signature=signature)
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(self._updates_per_epoch))
        return dataset.prefetch(1).with_options(options)

    def items(self):
        """Yields an epoch's minibatches, each once it is due; on TensorFlow's thread."""
        for number in range(self._updates_per_epoch):
            batch = self.item(number)
            if batch is None:
                return
            yield batch

    def item(self, number: int) -> dict[str, np.ndarray] | None:
        """Returns a minibatch once it is due, or None once the feed is closed.

        Args:
            number: its place in the epoch; it makes no difference.
        """
        with self._changed:
            self._changed.wait_for(self._may_go_on)
            if self._closed:
                return None
            if self._ready is not None:
                batch, self._ready = self._ready, None
                return batch
            (values,), self._values, self._making = self._values, None, True
        try:
            self._make(None, values)
            return self._in_flight
        finally:
            with self._changed:
                self._making = False
                self._changed.notify_all()

    def next_batch(self, iterator) -> dict:
        """Returns the batch of the next update.

        Args:
            iterator: over this feed's dataset.

        Raises:
            RuntimeError: no batch could be made; `error` says why. The same text whatever it is, because Keras takes
                a StopIteration for the end of the epoch: whoever called `fit` raises `error` itself.
        """
        # Kept, because to free it is to wait for its generator, which waits here for as long as the feed is open.
        self._iterator = iterator
        if not self.left:
            self._begin_epoch()
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

    def _begin_epoch(self) -> None:
        self._sequence.epoch_complete = False
        self.left = self._updates_per_epoch
        if self._overlaps and self._in_flight is None:
            self._order_batch()  # nothing can overlap with an epoch's first batch

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
