"""The loop that all rules share: a few steps in the environment, as one segment to learn from."""

import numpy as np

from dqn_lab.asynchronous.local_network import LocalNetwork
from dqn_lab.asynchronous.methods import Method
from dqn_lab.exploration import perturbed_logits


class WorkerPolicy:
    """What a worker's sequence asks for action values: the local network, with its memory or its dice where it has any.

    Args:
        network: of the worker.
        samples: the values are a policy's logits, to be sampled.
        generator: of the noise; it moves only where the policy is sampled.

    Attributes:
        state: in which values were asked for last, [1, ...].
        memory: of an LSTM, that the next state is seen with, [2, 1, U]; None without one.
    """

    def __init__(self, network: LocalNetwork, *, samples: bool, generator: np.random.Generator):
        self._network, self._samples, self.generator = network, samples, generator
        self.state: np.ndarray | None = None
        self.memory: np.ndarray | None = None
        self.forget()

    def __call__(self, state: np.ndarray) -> np.ndarray:
        """[1, ...] -> [1, A]"""
        self.state = state
        if self.memory is None:
            values = self._network.values(state)  # [1, A]
        else:
            values, self.memory = self._network.recall(state, self.memory)  # [1, A]
        return perturbed_logits(values, self.generator) if self._samples else values

    def forget(self) -> None:
        """An episode begins."""
        if self._network.lstm_units:
            self.memory = np.zeros((2, 1, self._network.lstm_units), np.float32)


class Rollout:
    """Takes steps in the one lane of a sequence, and hands them out as segments.

    A segment ends after `t_max` steps, behind a terminal step, or with the episode; the next one goes on from there.
    Where a rule needs the action taken in a segment's last state, the newest step waits for it and is the first one of
    the next segment, which may be one step longer at an episode's end:

        steps made    0 1 2 3 4 5 | 6 7 8 9 10 | 11 12 X        X: the episode's end
        segments      0 1 2 3 4   | 5 6 7 8 9  | 10 11 12 X

    Args:
        sequence: with one lane; its policy is set.
        policy: of the worker.
        method: the rule that learns from the segments.
        t_max: most steps of a segment.
    """

    def __init__(self, sequence, policy: WorkerPolicy, method: Method, t_max: int):
        self._sequence, self._policy, self._method, self._t_max = sequence, policy, method, t_max
        sequence.policy = policy
        self._rows: list[dict] = []  # steps of the segment that is being made

    def segment(self) -> dict[str, np.ndarray]:
        """Takes steps until a segment is whole.

        Returns:
            state [T + 1, ...], action [T] int32, reward [T] float32 (the learner's), discount [T] float32; next_action
            [T] int32 and memory [2, 1, U] where rule and network need them.
        """
        length = self._t_max + self._method.needs_next_action
        memory = self._policy.memory
        while True:
            step = self._step()
            if step is not None:
                self._rows.append(step)
            ended = self._sequence.get_latest_episode_end()[0]
            if step is not None and (step["terminal"] or ended or len(self._rows) == length):
                break
        segment = self._build(bool(ended), self._rows)
        if memory is not None:
            segment["memory"] = memory
        if ended:
            self._policy.forget()
        return segment

    def get_state(self) -> dict:
        """Returns what the next segment depends on, beside sequence and policy: the step that waits."""
        return {"rows": [dict(row) for row in self._rows]}

    def set_state(self, state: dict) -> None:
        """Takes over what `get_state` returned."""
        self._rows = [dict(row) for row in state["rows"]]

    def _step(self) -> dict | None:
        """One step; None if no policy decided it: the sequence's first one, or one that a lane spends on its reset."""
        sequence, policy = self._sequence, self._policy
        policy.state = None
        sequence.simulate_single()
        acted = sequence.get_latest_acted()[0]
        if policy.state is None or not acted:
            if sequence.get_latest_episode_end()[0] or not acted:
                policy.forget()
            return None
        index = sequence.get_latest_index()  # [1]
        return {
            "state": policy.state[0].copy(),  # a hook may return a view of rows that are overwritten soon
            "action": int(sequence.get_latest_action()[0]),
            "reward": float(sequence.ask_rewards(index)[0]),
            "terminal": bool(sequence.get_latest_terminal()[0]),
        }

    def _build(self, ended: bool, rows: list[dict]) -> dict[str, np.ndarray]:
        sequence = self._sequence
        last = sequence.ask_states(sequence.get_latest_index() + sequence.num_envs)  # [1, ...]
        states = [row["state"] for row in rows] + [last[0]]
        actions = [row["action"] for row in rows]
        self._rows = []
        next_actions = None
        if self._method.needs_next_action:
            if ended or rows[-1]["terminal"]:
                next_actions = [*actions[1:], self._action_past(last, rows[-1]["terminal"])]
            else:
                self._rows = [rows[-1]]
                next_actions, actions, states, rows = actions[1:], actions[:-1], states[:-1], rows[:-1]
        segment = {
            "state": np.stack(states),
            "action": np.array(actions, np.int32),
            "reward": np.array([row["reward"] for row in rows], np.float32),
            "discount": np.array([sequence.gamma * (not row["terminal"]) for row in rows], np.float32),
        }
        return segment if next_actions is None else segment | {"next_action": np.array(next_actions, np.int32)}

    def _action_past(self, state: np.ndarray, terminal: bool) -> int:
        """The action that would have been taken in the state that a time limit cut off; of no account behind an end."""
        if terminal:
            return 0
        return int(self._sequence.choose_actions(self._policy(state), self._policy.generator)[0])
