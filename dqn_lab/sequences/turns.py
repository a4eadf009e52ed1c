"""How a sequence takes turns with the updates of a fit."""

import time
from collections.abc import Callable

import keras
import numpy as np

from dqn_lab.arguments import require_choice, require_integer
from dqn_lab.devices import usable_cores
from dqn_lab.sequences.feed import FEEDINGS, Batch, Feed, choose_feeding, has_gpu
from dqn_lab.sequences.policy import Policy, action_values


class TurnTaking(keras.utils.PyDataset):
    """The side of a sequence that its feed and an agent work with.

    Update k is due as soon as `steps >= replay_min_steps + k * train_period_steps`.

    Args:
        feeding: "alternate", "overlap", or "auto" to choose by device and cores.

    Attributes:
        batches: minibatches made for updates.
        epoch_complete: the present or last epoch of a fit has had all its updates.

    Raises:
        ValueError: `feeding` is none of the three.
    """

    def __init__(self, feeding: str) -> None:
        super().__init__()
        self._feeding_asked = require_choice("feeding", feeding, FEEDINGS)
        self._feeding_reason: str | None = None  # of a feeding that is given, not chosen
        self.batches = 0
        self.epoch_complete = False
        self._feed: Feed | None = None
        self._carried: dict[str, np.ndarray] | None = None

    @property
    def feeding(self) -> str:
        """Who works while an update runs: "alternate" or "overlap"."""
        return self._choose_feeding()[0]

    @property
    def feeding_reason(self) -> str:
        """Why this way of feeding is used, in a few words."""
        return self._choose_feeding()[1]

    def use_feeding(self, feeding: str, reason: str) -> None:
        """Feeds by one of the two ways from now on, whatever device and cores would suggest.

        Args:
            feeding: "alternate" or "overlap".
            reason: why, in a few words.

        Raises:
            RuntimeError: a fit is running.
            ValueError: it is neither, or the lanes do not allow it.
        """
        self._refuse_inside_fit()
        require_choice("feeding", feeding, FEEDINGS[1:])
        chosen, obstacle = self._choose_feeding(feeding)
        if chosen != feeding:
            raise ValueError(f"This sequence can't be fed so: {obstacle}. Received: feeding={feeding!r}")
        self._feeding_asked, self._feeding_reason = feeding, reason

    def attach(self, policy: Policy, place: Callable[[Batch], dict] = dict, updates: int | None = None) -> Feed:
        """Returns the feed of one fit, which the caller closes. Makes the initial fill.

        Args:
            policy: features [N, ...] -> action values [N, A].
            place: takes a batch to the device that updates run on.
            updates: of each epoch of this fit; None for as many as the sequence says.

        Raises:
            RuntimeError: another fit is running.
            ValueError: no updates; or more than one thread, or a process, would produce minibatches.
        """
        if self.workers > 1 or self.use_multiprocessing:
            raise ValueError(
                "Minibatches must come from one thread, in order. "
                f"Received: workers={self.workers}, use_multiprocessing={self.use_multiprocessing}"
            )
        self._refuse_inside_fit()
        updates = len(self) if updates is None else require_integer("epoch_updates", updates, least=1)
        self.fill()
        self.epoch_complete = False
        carried, self._carried = self._carried, None
        self._feed = Feed(self, policy, place, carried, updates)
        return self._feed

    def detach(self, feed: Feed, carried: dict[str, np.ndarray] | None) -> None:
        """Ends a feed's fit. A batch that no update took is the next fit's first."""
        if feed is self._feed:
            self._feed, self._carried = None, carried

    def settle(self) -> None:
        """Waits until nothing is made beside the update: steps, counts and replay stand still until the next one.

        Inside a fit, on its thread, between two updates.
        """
        self._settled_batch()

    def is_step_due(self) -> bool:
        """Tells whether the environments must be stepped before the next batch is drawn."""
        return self.steps < self.replay_min_steps + (self.batches + 1) * self.train_period_steps

    def compute_values(self, policy: Policy) -> np.ndarray:
        """Returns a policy's action values of the newest states. [N, A]

        Raises:
            ValueError: they have another shape.
            FloatingPointError: one of them is NaN.
        """
        begin = time.perf_counter()
        try:
            values = action_values(policy, self.get_latest_feature(), self.num_actions)
        except FloatingPointError as error:
            raise FloatingPointError(f"{error} at step {self.steps:,}, before update {self.batches + 1}.") from None
        self.seconds["acting"] += time.perf_counter() - begin
        return values

    def produce_batch(self, policy: Policy | None, values: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Steps the environments as often as is due, then draws the next update's minibatch.

        Args:
            policy: whose values decide; None if they are given.
            values: values of the newest states, [N, A], for the one decision that is due.
        """
        with self._lock:
            while self.is_step_due():
                self._advance(self.compute_values(policy) if values is None else values)
            begin = time.perf_counter()
            batch = self.get_minibatch(self._generators["sampling"])
            self.batches += 1
            self.seconds["sampling"] += time.perf_counter() - begin
            return batch

    def on_epoch_begin(self) -> None:
        """Refuses a fit that did not attach a policy."""
        raise ValueError(
            "A sequence is trained on with `agent.fit(sequence)` of a dqn_lab agent, which attaches its policy."
        )

    def _settled_batch(self) -> Batch | None:
        """Returns the batch that the next update will take, if it is made; none is being made then."""
        if self._feed is None:
            return self._carried
        self._feed.settle()
        return self._feed.in_flight

    def _choose_feeding(self, asked: str | None = None) -> tuple[str, str]:
        if asked is None and self._feeding_reason is not None:
            return self._feeding_asked, self._feeding_reason
        return choose_feeding(
            self._feeding_asked if asked is None else asked,
            num_envs=self.num_envs,
            train_period_steps=self.train_period_steps,
            drops_rows=self._simulation.lanes.drops_rows,
            has_gpu=has_gpu(),
            cores=usable_cores(),
        )

    def _refuse_inside_fit(self) -> None:
        if self._feed is not None:
            raise RuntimeError("A fit is running on this sequence; only that fit may step it or attach to it.")
