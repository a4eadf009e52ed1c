"""The replay ring: every observation once, with what was done in it and what came of it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dqn_lab.replay.changes import first_changed, index_between
from dqn_lab.replay.compression import CompressedFrames
from dqn_lab.replay.lazy_memory import lazy_zeros
from dqn_lab.replay.raw_frames import RawFrames
from dqn_lab.replay.saved_arrays import refuse_other_arrays

NO_ACTION = -1
_COLUMNS = {
    "action": np.int32,  # NO_ACTION where none was taken: a final observation, or a newest row
    "reward": np.float64,  # raw, as the environment gave it
    "terminal": np.bool_,  # do not bootstrap past this step
    "episode_end": np.bool_,  # the next row of the lane is this episode's final observation
    "age": np.int32,  # rows since the episode's first row; that of an endless episode stays at the most
}
_MOST_AGE = np.iinfo(_COLUMNS["age"]).max
_UNKNOWN_AGE = np.iinfo(_COLUMNS["age"]).min  # of a row that should be stored and was in no changes
_LANE_STATE = {"written": np.int64, "ending": np.bool_, "final": np.bool_}


class FrameRing:
    """Stores one observation per row, several lanes side by side, the oldest row overwritten first.

    A row is an observation, then the action taken in it and what that action brought. The observation that ends
    an episode, by termination or truncation, has a row of its own, without an action:

        one lane     a0    a1    a2    b0    b1          a0..a2: an episode of two actions
        action        1     0    -1     2    -1          a2: its final observation, b1: the newest row
        reward        0     5     .     0     .
        episode_end   .     X     .     .     .          set on the row whose action ended the episode
        age           0     1     2     0     1

    An index is the serial number of a row, never reused: `position in its lane * num_envs + lane`. The row before
    it in time is `index - num_envs`. Each lane owns `capacity / num_envs` slots and has its own write position, so
    the slot of an index is simply `index % capacity`.

    Args:
        capacity: rows in all lanes together, a multiple of `num_envs`, at least 2 per lane.
        num_envs: number of lanes.
        shape: shape of one observation.
        dtype: dtype of the observations.
        make_frames: makes the store of the observations from the four arguments above.

    Raises:
        ValueError: `capacity` does not give every lane the same number of at least two rows.
    """

    def __init__(
        self,
        capacity: int,
        num_envs: int,
        shape: tuple[int, ...],
        dtype,
        make_frames: Callable[..., RawFrames | CompressedFrames] = RawFrames,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"The ring needs at least one lane. Received: num_envs={num_envs}")
        if capacity % num_envs or capacity < 2 * num_envs:
            raise ValueError(
                "The ring's capacity must be a multiple of num_envs and at least twice as much. "
                f"Received: capacity={capacity}, num_envs={num_envs}"
            )
        self.capacity = int(capacity)
        self.num_envs = int(num_envs)
        self.slots = self.capacity // self.num_envs
        self.frames = make_frames(self.capacity, self.num_envs, shape, dtype)
        self._all_lanes = np.arange(self.num_envs)
        self._make_arrays()

    @staticmethod
    def bytes_needed(capacity: int, shape: tuple[int, ...], dtype) -> tuple[int, int]:
        """Returns the bytes of `capacity` observations, raw, and of the columns beside them."""
        frames = capacity * int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        return frames, capacity * sum(np.dtype(each).itemsize for each in _COLUMNS.values())

    @property
    def nbytes(self) -> int:
        """Bytes of all columns, and those that the observations take now."""
        return self.frames.nbytes + sum(array.nbytes for array in self._arrays().values())

    @property
    def bytes_per_row(self) -> float:
        """About the bytes of a row in changes."""
        return self.frames.bytes_per_row + sum(np.dtype(each).itemsize for each in _COLUMNS.values())

    @property
    def stored(self) -> np.ndarray:
        """Rows present in each lane. [num_envs]"""
        return np.minimum(self.written, self.slots)

    @property
    def oldest_position(self) -> np.ndarray:
        """Position of the oldest row still present in each lane. [num_envs]"""
        return np.maximum(self.written - self.slots, 0)

    @property
    def newest_index(self) -> np.ndarray:
        """Index of the newest row of each lane; negative for an empty lane. [num_envs]"""
        return (self.written - 1) * self.num_envs + self._all_lanes

    def __len__(self) -> int:
        return int(self.stored.sum())

    def slot(self, index: np.ndarray) -> np.ndarray:
        """Returns where the rows lie in the arrays. [B] -> [B]"""
        return index % self.capacity

    def is_stored(self, index: np.ndarray) -> np.ndarray:
        """Tells which rows, of any age, have been written and not been overwritten yet. [B] -> [B] bool"""
        behind = self.newest_index[index % self.num_envs] - index  # [B]
        return (index >= 0) & (behind >= 0) & (behind < self.capacity)  # [B]

    def append(self, frames: np.ndarray, lanes: np.ndarray | None = None) -> np.ndarray:
        """Adds one row to each of the lanes, overwriting their oldest when they are full.

        Args:
            frames: observations, [N, *shape].
            lanes: the N lanes, each at most once; all of them when None.

        Returns:
            The indices of the new rows, [N].

        Raises:
            ValueError: the observations have another shape, or a lane's newest row goes on and lacks its action.
            MemoryError: the store has no memory for them; the ring is as it was.
        """
        lanes = self._all_lanes if lanes is None else lanes
        newest = self.newest_index[lanes]
        self._check_append(np.shape(frames), lanes, self.slot(newest))
        index = newest + self.num_envs
        slot = self.slot(index)
        begins = self.final[lanes] | (self.written[lanes] == 0)
        age = np.where(begins, 0, _next_age(self.age[self.slot(newest)]))
        self.frames.append(index, frames)  # first, as it may find no memory
        self.age[slot] = age
        self.action[slot], self.reward[slot] = NO_ACTION, 0.0
        self.terminal[slot] = self.episode_end[slot] = False
        self.final[lanes], self.ending[lanes] = self.ending[lanes], False
        self.written[lanes] += 1
        return index

    def record(self, action, reward, terminal, episode_end, lanes=None) -> None:
        """Writes to the newest row of each lane which action was taken in it and what came of it, each [N].

        Raises:
            ValueError: a lane has no row to act in, or its newest row ended an episode or has its action already.
        """
        lanes = self._all_lanes if lanes is None else lanes
        slot = self.slot(self.newest_index[lanes])
        taken = self.action[slot] != NO_ACTION
        if np.any(taken | self.final[lanes] | (self.written[lanes] == 0)):
            raise ValueError(
                "An action is recorded once, in an observation that goes on. "
                f"Received: lanes={np.asarray(lanes).tolist()}"
            )
        self.action[slot], self.reward[slot] = action, reward
        self.terminal[slot], self.episode_end[slot] = terminal, episode_end
        self.ending[lanes] = episode_end

    def abandon_episodes(self, lanes: np.ndarray | None = None) -> None:
        """Ends the running episodes of the lanes as truncations at their newest observations.

        For a lane whose environment begins anew without having ended: nothing may look across that seam. An action
        recorded in the newest observation is taken back, as what it led to was never stored.

        Args:
            lanes: the lanes, each at most once; all of them when None. Those without a running episode stay as
                they are.
        """
        lanes = self._all_lanes if lanes is None else lanes
        lanes = lanes[self.written[lanes] > 0]
        newest = self.newest_index[lanes]
        slot = self.slot(newest)
        self.action[slot], self.reward[slot] = NO_ACTION, 0.0
        self.terminal[slot] = self.episode_end[slot] = self.ending[lanes] = False
        followed = self.age[slot] > 0
        self.episode_end[self.slot(newest[followed] - self.num_envs)] = True
        self.final[lanes] = True

    def clear(self) -> None:
        """Makes the ring as it was when it was new, and gives its memory back."""
        self.frames.clear()
        self._make_arrays()

    def get_state(self) -> dict[str, Any]:
        """Returns the arrays themselves, not copies; "frames" is the store's own state."""
        return {"frames": self.frames.get_state(), **self._arrays()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Copies what `get_state` shows in.

        Raises:
            ValueError: an array is missing or has another shape or dtype, or the store refuses its state.
        """
        self.check_state(state)
        self.frames.set_state(state.get("frames"))
        for name, array in self._arrays().items():
            array[...] = state[name]

    def check_state(self, state: dict[str, Any]) -> None:
        """Refuses columns that `set_state` cannot take; the store checks its own part itself, before it changes.

        Raises:
            ValueError: an array is missing or has another shape or dtype.
        """
        refuse_other_arrays(self._arrays(), state if isinstance(state, dict) else {})

    def get_changes(self, since: np.ndarray | None = None, until: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Returns copies of all that was stored or changed since `written` was `since`, or of a first part of it.

        A part is for a ring that the rest is applied to next: its rows are as they are now, and so is what it tells
        of the lanes.

        Args:
            since: `written` at the last checkpoint, [num_envs]; None for everything that is stored.
            until: position that each lane's rows end before, stored or the next, [num_envs]; None for all rows.

        Returns:
            "capacity" (), "since" [num_envs], "first" [num_envs], the position of each lane's first row, `written`,
            `ending` and `final` [num_envs], of K rows the columns [K], and what the store's `get_changes` returns.

        Raises:
            ValueError: `since` or `until` has another shape, `since` is ahead of `written`, or `until` lies before
                `since` or what is stored.
        """
        since = np.zeros_like(self.written) if since is None else np.array(since, np.int64)
        if since.shape != self.written.shape or np.any((since < 0) | (since > self.written)):
            raise ValueError(
                f"Changes are those since an earlier `written` of this ring, now {self.written.tolist()}. "
                f"Received: since={since.tolist()}"
            )
        first = first_changed(since, self.written, self.slots)
        until = self.written.copy() if until is None else np.array(until, np.int64)
        self._check_until(since, until)
        slot = self.slot(index_between(first, until))  # [K]
        return {
            "capacity": np.array(self.capacity, np.int64),
            "since": since,
            "first": first,
            **{name: getattr(self, name).copy() for name in _LANE_STATE},
            "written": until,
            **{name: getattr(self, name)[slot] for name in _COLUMNS},
            **self.frames.get_changes(first, until),
        }

    def apply_changes(self, changes: dict[str, np.ndarray]) -> None:
        """Takes changes over, which continue what this ring holds; an empty ring takes any as the first.

        So the oldest ones can be left out once nothing that they hold is stored any more; see `still_needed`. Whether
        too many were left out only the last changes decide: `check_valid` tells then.

        Raises:
            ValueError: they are of another kind of ring or store, or others come between.
            MemoryError: the store has no memory for them; the ring is as it was.
        """
        self._check_continues(changes)
        first, written = changes["first"], changes["written"]
        slot = self.slot(index_between(first, written))  # [K]
        refuse_other_arrays({name: np.empty(len(slot), dtype) for name, dtype in _COLUMNS.items()}, changes)
        self.frames.apply_changes(changes, first, written)  # first, as it may refuse them
        for name in _COLUMNS:
            getattr(self, name)[slot] = changes[name]
        unknown = index_between(np.maximum(written - self.slots, self.written), first)
        self.age[self.slot(unknown)] = _UNKNOWN_AGE
        for name in _LANE_STATE:
            getattr(self, name)[...] = changes[name]

    def check_valid(self) -> None:
        """Checks what must hold between the columns.

        Raises:
            ValueError: the ring contradicts itself; the text names the rule and the lane.
        """
        for lane in range(self.num_envs):
            positions = np.arange(self.oldest_position[lane], self.written[lane])
            slot = self.slot(positions * self.num_envs + lane)  # [S], the lane's rows from oldest to newest
            _refuse_broken(lane, self._row_rules(positions, slot) | self._episode_rules(slot))
            _refuse_broken(lane, self._lane_rules(lane, slot))

    def _make_arrays(self) -> None:
        for name, column_dtype in _COLUMNS.items():
            setattr(self, name, lazy_zeros(self.capacity, column_dtype))
        for name, lane_dtype in _LANE_STATE.items():
            setattr(self, name, np.zeros(self.num_envs, lane_dtype))

    def _arrays(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, name) for name in (*_COLUMNS, *_LANE_STATE)}

    def _check_append(self, shape: tuple[int, ...], lanes: np.ndarray, newest: np.ndarray) -> None:
        expected = (len(lanes), *self.frames.shape)
        if shape != expected:
            raise ValueError(f"The observations must have shape {expected}. Received: shape={shape}")
        if np.any((self.action[newest] == NO_ACTION) & ~self.final[lanes] & (self.written[lanes] > 0)):
            raise ValueError(
                f"An observation follows an action, or begins an episode. Received: lanes={np.asarray(lanes).tolist()}"
            )

    def _check_until(self, since: np.ndarray, until: np.ndarray) -> None:
        least = np.maximum(since, self.oldest_position)
        if until.shape != self.written.shape or np.any((until < least) | (until > self.written)):
            raise ValueError(
                f"Changes end between {least.tolist()} and {self.written.tolist()}. Received: until={until.tolist()}"
            )

    def _check_continues(self, changes: dict[str, np.ndarray]) -> None:
        lanes = {name: getattr(self, name) for name in _LANE_STATE}
        capacity = np.array(self.capacity, np.int64)
        refuse_other_arrays({"capacity": capacity, "since": self.written, "first": self.written, **lanes}, changes)
        if changes["capacity"] != capacity:
            raise ValueError(
                f"The changes must be of a ring of capacity {capacity}. Received: capacity={changes['capacity']}"
            )
        since, written = changes["since"], changes["written"]
        follows = np.array_equal(since, self.written) or not self.written.any()
        if not follows or np.any((since < 0) | (since > written)):
            raise ValueError(
                "Changes are applied in the order in which they were made, with none left out. Received: "
                f"since={since.tolist()}, written={written.tolist()}, in a ring of written={self.written.tolist()}"
            )
        first, least = changes["first"], first_changed(since, written, self.slots)
        if np.any((first < least) | (first > written)):
            raise ValueError(
                f"Rows of changes begin between {least.tolist()} and {written.tolist()}. Received: "
                f"first={first.tolist()}"
            )

    def _row_rules(self, positions: np.ndarray, slot: np.ndarray) -> dict[str, bool]:
        age, action, reward = self.age[slot], self.action[slot], self.reward[slot]
        idle = action == NO_ACTION
        return {
            "no changes with a stored row were left out": not np.any(age == _UNKNOWN_AGE),
            "a row's age is at most its position, and not negative": np.all((age >= 0) & (age <= positions)),
            "an action is 0 or more": np.all(idle | (action >= 0)),
            "a reward is finite": np.all(np.isfinite(reward)),
            "only an action brings a reward": not np.any(reward[idle]),
            "a terminal step was an action": not np.any(self.terminal[slot][idle]),
            "an episode ends by an action": not np.any(self.episode_end[slot][idle]),
        }

    def _episode_rules(self, slot: np.ndarray) -> dict[str, bool]:
        before, after = slot[:-1], slot[1:]
        begins, ends = self.age[after] == 0, self.episode_end[before]
        idle = self.action[slot] == NO_ACTION
        ended = begins[1:] & (self.age[before[1:]] > 0)  # an episode of two rows or more ended before this one
        return {
            "a row's age is one more than the row's before, or 0": np.all(
                begins | (self.age[after] == _next_age(self.age[before]))
            ),
            "an episode's end is followed by a row of the same episode": not np.any(ends & begins),
            "a final observation has no action": np.all(idle[1:][ends]),
            "the row before an episode's first row has no action": np.all(idle[:-1][begins]),
            "a row inside an episode has its action": not np.any(idle[:-1][~begins]),
            "a final observation follows an episode's end": np.all(ends[:-1][ended]),
        }

    def _lane_rules(self, lane: int, slot: np.ndarray) -> dict[str, bool]:
        newest, before = slot[-1:], slot[-2:-1]  # empty where there is no such row
        ends, ended = np.any(self.episode_end[newest]), np.any(self.episode_end[before])
        begins = np.any((self.age[newest] == 0) & (self.action[newest] == NO_ACTION))  # may have been abandoned
        return {
            "a lane has 0 rows or more": self.written[lane] >= 0,
            "`ending` tells that the newest row ended its episode": self.ending[lane] == ends,
            "`final` tells that the newest row is a final observation": self.final[lane] == ended or begins,
        }


def _next_age(age: np.ndarray) -> np.ndarray:
    return np.minimum(age, _MOST_AGE - 1) + 1  # [N]


def _refuse_broken(lane: int, rules: dict[str, bool]) -> None:
    for rule, holds in rules.items():
        if not holds:
            raise ValueError(f"The ring contradicts itself: {rule}. Received: lane={lane}")
