"""An evaluation twin without an environment: every episode's rewards are written down."""

import numpy as np


class ScriptedTwin:
    """Plays `game(policy, number) -> (rewards, truncated)` in lanes, as an evaluation twin does.

    Its feature says where it was taken: (restarts so far, lane, decisions since the restart). With
    `spends_a_decision` a lane resets itself in the decision after an end, as gymnasium's NEXT_STEP
    vector environments do.
    """

    def __init__(
        self,
        game,
        num_envs=1,
        initial_decisions=0,
        key="scripted",
        num_actions=2,
        spends_a_decision=False,
    ):
        self.game, self.num_envs, self.initial_decisions = game, num_envs, initial_decisions
        self.spends_a_decision = spends_a_decision
        self.num_actions = num_actions
        self.policy, self.epsilon = None, 0.0
        self.seeds, self.policies, self.restarts, self.decisions = [], [], [], 0
        self._key = key

    def key(self):
        return self._key

    def reseed(self, seed):
        self.seeds.append(seed)
        self.policies.append(self.policy)
        self._begin()

    def restart(self, seed=None):
        self.restarts.append(seed)
        self._begin()

    def _begin(self):
        self.episode_number = np.arange(self.num_envs)
        self._position = np.zeros(self.num_envs, np.int64)
        self._ended = np.zeros(self.num_envs, bool)
        self._acted = np.ones(self.num_envs, bool)
        self._truncated = np.zeros(self.num_envs, bool)
        self._reward = np.zeros(self.num_envs, np.float32)
        self._since = 0

    def simulate_single(self):
        self.decisions += 1
        resetting = self._ended & self.spends_a_decision
        begins = ~self._acted if self.spends_a_decision else self._ended
        for lane in np.flatnonzero(begins):
            self.episode_number[lane] = self.episode_number.max() + 1
            self._position[lane] = 0
        self._acted = ~resetting
        self._ended, self._truncated = np.zeros((2, self.num_envs), bool)
        self._reward = np.full(self.num_envs, np.nan, np.float32)
        state = self._feature()
        if self.policy is not None:
            values = np.asarray(self.policy(state))
            if values.shape != (self.num_envs, self.num_actions):
                raise ValueError(f"[N, A] values expected. Received: shape={values.shape}")
        for lane in np.flatnonzero(self._acted):
            rewards, truncated = self.game(self.policy, int(self.episode_number[lane]))
            self._reward[lane] = rewards[self._position[lane]]
            self._position[lane] += 1
            self._ended[lane] = self._position[lane] == len(rewards)
            self._truncated[lane] = self._ended[lane] and truncated
        self._since += 1
        self._transition = {
            "state": state,
            "action": np.arange(self.num_envs, dtype=np.int32) % self.num_actions,
            "reward": np.sign(self._reward),
            "terminal": self._ended & ~self._truncated,
            "next_state": self._feature(),
        }

    def _feature(self):
        lanes = np.arange(self.num_envs)
        rows = [(len(self.restarts), lane, self._since) for lane in lanes]
        return np.array(rows, np.float32)  # [N, 3]

    def get_latest_acted(self):
        return self._acted

    def get_latest_reward(self):
        return self._reward

    def get_latest_episode_end(self):
        return self._ended

    def get_latest_truncation(self):
        return self._truncated

    def get_latest_transition(self):
        return self._transition
