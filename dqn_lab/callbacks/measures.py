"""The figures of a run: the key in logs and progress.csv, the TensorBoard tag and the unit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """One figure.

    Args:
        key: in the logs, and the column in progress.csv if it has one.
        tag: in TensorBoard, over agent steps.
        unit: what it counts.
        meaning: one line.
    """

    key: str
    tag: str
    unit: str
    meaning: str


COLUMNS: tuple[Measure, ...] = (
    Measure("steps", "time/total_timesteps", "steps", "decisions of the agent, the fill included"),
    Measure("frames", "time/frames", "frames", "emulator frames that the steps stand for"),
    Measure("updates", "train/n_updates", "updates", "gradient steps"),
    Measure("epochs", "time/epochs", "epochs", "complete epochs"),
    Measure("episodes", "time/episodes", "episodes", "training games that ended"),
    Measure("minutes", "time/minutes", "minutes", "since the run began, the fill included"),
    Measure("steps_per_second", "time/fps", "steps/s", "without the time of evaluations"),
    Measure("updates_per_second", "time/updates_per_second", "updates/s", "as above"),
    Measure("epsilon", "rollout/exploration_rate", "", "share of random actions now"),
    Measure("loss", "train/loss", "", "mean over the epoch's updates"),
    Measure("q_mean", "train/q_mean", "learner's reward", "mean value of the actions trained on"),
    Measure("train_return_mean", "rollout/ep_rew_mean", "score", "raw, of the games that ended"),
    Measure("train_length_mean", "rollout/ep_len_mean", "steps", "of the games that ended"),
    Measure("eval_return_mean", "eval/mean_reward", "score", "raw and undiscounted, whole games"),
    Measure("eval_return_std", "eval/std_reward", "score", "over the evaluation's episodes"),
    Measure("eval_length_mean", "eval/mean_ep_length", "steps", "of the evaluation's episodes"),
    Measure("eval_episodes", "eval/episodes", "episodes", "that count"),
    Measure("eval_episodes_cut", "eval/episodes_cut", "episodes", "broken off by the step limit"),
    Measure("eval_episodes_capped", "eval/episodes_capped", "episodes", "ended by the frame cap"),
    Measure(
        "initial_state_value",
        "eval/initial_state_value",
        "learner's reward",
        "largest action value, mean over the held-out initial states",
    ),
    Measure("td_error", "eval/td_error", "learner's reward", "mean absolute, over these states"),
    Measure("time_acting", "time/acting", "share", "of the time: computing action values"),
    Measure("time_environment", "time/environment", "share", "of the time: stepping environments"),
    Measure("time_sampling", "time/sampling", "share", "of the time: drawing minibatches"),
    Measure("time_update", "time/update", "share", "of the time: gradient steps"),
)

# In logs and TensorBoard, but not in progress.csv.
LOGS_ONLY: tuple[Measure, ...] = (
    Measure("eval_return_best", "eval/best_mean_reward", "score", "largest `eval_return_mean` so far"),
    Measure("baseline_random_return_mean", "baseline/random_return", "score", "of the random policy"),
    Measure(
        "baseline_untrained_return_mean",
        "baseline/untrained_return",
        "score",
        "of the network with its first random weights",
    ),
)

# These hold between evaluations; the logs carry the last one on.
OF_EVALUATION = frozenset([one.key for one in COLUMNS if one.tag.startswith("eval/")] + [one.key for one in LOGS_ONLY])
