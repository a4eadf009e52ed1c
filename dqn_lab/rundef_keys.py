"""What each key of a rundef means: the unit and line that `dqn-train RUNDEF --help` shows."""

from __future__ import annotations

import re
from collections.abc import Collection

# key -> (unit, line). A rundef's own keys are described in the `Args:` of its `run`.
COMMON_KEYS: dict[str, tuple[str, str]] = {
    "seed": ("", "of the weights, the environments, the exploration and the draws from replay"),
    "game": ("", "ROM name (breakout) or gymnasium id (ALE/Breakout-v5)"),
    "protocol": (
        "",
        "named set of environment and evaluation rules; a key left at none has its value",
    ),
    "num_envs": (
        "environments",
        "stepped together; divides train_period_steps or is a multiple",
    ),
    "frame_skip": (
        "frames/step",
        "frames an action is repeated for; 3-5 draws 3 or 4",
    ),
    "reward_transform": ("", "what the learner sees of a reward: sign, clip or none"),
    "replay_capacity_steps": ("steps", "steps that replay holds before the oldest is overwritten"),
    "replay_min_steps": ("steps", "uniformly random steps made before the first update"),
    "replay_compression": ("", "lz4: observations compressed without loss; none: as they are"),
    "updates_per_epoch": (
        "updates",
        "length of an epoch; at its end the agent is evaluated",
    ),
    "train_period_steps": ("steps", "steps per update, over all environments together"),
    "target_period_updates": ("updates", "how often the target network is copied; none: no target"),
    "batch_size": ("transitions", "minibatch of an update"),
    "n_step": ("steps", "rewards summed before bootstrapping"),
    "gamma": ("", "discount per step"),
    "double": ("", "double Q-learning: the online network chooses, the target network values"),
    "dueling": ("", "dueling head: state value plus advantages"),
    "initializer": ("", "how weights start: torch, as the papers'; he, with which pixels are told apart sooner"),
    "loss": ("", "huber or mse"),
    "optimizer": ("", "rmsprop_centered (the Nature paper's), rmsprop, adam or sgd"),
    "optimizer_epsilon": ("", "what adam or rmsprop keeps its divisor from 0 with; none: Keras's 1e-7"),
    "learning_rate": ("", "the optimizer's step size"),
    "gradient_clip": ("", "largest global norm of the gradient; none (asynchronous: or 0): not clipped"),
    "precision": ("", "float32, mixed_bfloat16 or mixed_float16"),
    "jit_compile": ("", "compile the update with XLA; none: where Keras thinks it pays"),
    "device": ("", "auto, cpu or gpu"),
    "feeding": ("", "auto, overlap or alternate: who works while the update runs"),
    "epsilon_start": ("", "share of random actions at first"),
    "epsilon_end": ("", "share of random actions once it has fallen; none: the protocol's (asynchronous: drawn)"),
    "epsilon_begin_steps": ("steps", "steps of the run before epsilon starts to fall"),
    "epsilon_steps": ("steps", "steps over which epsilon falls, in a straight line"),
    "evaluation_epsilon": ("", "share of random actions in evaluation"),
    "evaluation_period_epochs": ("epochs", "how often the agent is evaluated; 0: never"),
    "evaluation_episodes": (
        "episodes",
        "of an evaluation; inf: as many as the steps allow",
    ),
    "evaluation_max_steps": (
        "steps",
        "of an evaluation, over all its episodes; inf: no limit",
    ),
    "initial_states": ("states", "held-out initial states whose value is reported; 0: none"),
    "initial_states_dir": ("", "folder they are kept in for every run to share; none: not kept"),
    "media_period_evaluations": (
        "evaluations",
        "how often TensorBoard gets a film of one's first game and a histogram of values, the first too; 0: never",
    ),
    "log_period_updates": ("updates", "how often TensorBoard gets a point inside an epoch"),
    "log_weights": ("", "TensorBoard gets weights and gradients as often (asynchronous: weights, at epochs' ends)"),
    "checkpoint_period_steps": ("steps", "from one checkpoint to the next; none: minutes alone decide"),
    "checkpoint_period_minutes": ("minutes", "as well, whichever comes first; none: steps (or epochs) alone decide"),
    "keep": ("checkpoints", "how many of the newest stay"),
    "keep_weights": ("", "all: the network's weights of each evaluation are kept too; none"),
    "initial_weights": ("", "run directory, .keras or .weights.h5 file that a new run's network starts from; none"),
    "total_steps": ("steps", "length of the run; the first total reached ends it"),
    "total_updates": ("updates", "length of the run; the first total reached ends it"),
}

# What only asynchronous runs have.
ASYNCHRONOUS_KEYS: dict[str, tuple[str, str]] = {
    "num_workers": ("processes", "that learn, each in an environment of its own"),
    "t_max": ("steps", "most steps of a worker from one update to the next; none: 5, with an LSTM 20"),
    "method": ("", "one_step_q, one_step_sarsa, n_step_q or a3c (advantage actor-critic)"),
    "lstm": ("", "an LSTM behind the last hidden layer, for a3c"),
    "greedy": ("", "a3c is evaluated by its policy's likeliest actions; false: by actions drawn from it"),
    "anneal": ("", "the learning rate falls to 0 over total_steps, which may not change then"),
    "entropy_beta": ("", "a3c: weight of the policy's entropy, against early certainty"),
    "value_loss_coefficient": ("", "a3c: weight of the state value's loss, on top of the half in (R - V)^2 / 2"),
    "rmsprop": ("", "shared (statistics of all workers), per_worker, or momentum_sgd in its place"),
    "rmsprop_epsilon": ("", "added inside RMSProp's root"),
    "rmsprop_start": ("", "what RMSProp's statistics begin with; above 0: small first updates"),
    "target_period_steps": ("steps", "how often the target network is copied, counted over all workers"),
    "steps_per_epoch": ("steps", "length of an epoch, over all workers; at its end the agent is saved and evaluated"),
}

# What only runs with a replay have: the key that comes closest in an asynchronous run, if any does.
REPLAY_KEYS = {
    "num_envs": "num_workers",
    "replay_capacity_steps": "",
    "replay_min_steps": "",
    "replay_compression": "",
    "updates_per_epoch": "steps_per_epoch",
    "train_period_steps": "t_max",
    "target_period_updates": "target_period_steps",
    "batch_size": "t_max",
    "n_step": "t_max",
    "optimizer": "rmsprop",
    "optimizer_epsilon": "rmsprop_epsilon",
    "feeding": "",
    "epsilon_begin_steps": "",
    "log_period_updates": "",
    "checkpoint_period_steps": "steps_per_epoch",
    "total_updates": "total_steps",
}
_COMPUTING = ("device", "precision", "jit_compile")  # the same, but not for want of a replay

# What the same run may be continued with another value of: no update depends on it.
CHANGEABLE_KEYS = frozenset(
    {
        "device",
        "evaluation_epsilon",
        "evaluation_period_epochs",
        "evaluation_episodes",
        "evaluation_max_steps",
        "initial_states",
        "initial_states_dir",
        "media_period_evaluations",
        "log_period_updates",
        "log_weights",
        "checkpoint_period_steps",
        "checkpoint_period_minutes",
        "keep",
        "keep_weights",
        "greedy",
        "total_steps",
        "total_updates",
    }
)

_ARGUMENT = re.compile(r"(\w+):\s+(.*)")
_UNIT = re.compile(r"(.*?)\s*\[([^\]]+)\]$")


def described_keys(docstring: str) -> dict[str, tuple[str, str]]:
    """The common keys and, over them, those of a docstring's `Args:`: key -> (unit, line).

    A line `name: text [unit]` describes one; deeper indented lines carry it on. The common keys that a continued run
    may change are marked.
    """
    described = {
        name: (unit, f"{line} (may change in a continued run)" if name in CHANGEABLE_KEYS else line)
        for name, (unit, line) in (COMMON_KEYS | ASYNCHRONOUS_KEYS).items()
    }
    for name, text in _arguments(docstring).items():
        unit = _UNIT.fullmatch(text)
        described[name] = (unit[2], unit[1]) if unit else ("", text)
    return described


def why_not_a_key(name: str, keys: Collection[str]) -> str | None:
    """Why a rundef with these keys has no such key, where only the other kind of run has it; None elsewhere."""
    if "num_workers" not in keys:
        return "it is one of asynchronous rundefs, such as catch_async" if name in ASYNCHRONOUS_KEYS else None
    if name in _COMPUTING:
        return "an asynchronous run computes in float32 on CPU cores"
    if name not in REPLAY_KEYS:
        return None
    closest = REPLAY_KEYS[name]
    return "an asynchronous run has no replay" + (f"; {closest} comes closest" if closest else "")


def _arguments(docstring: str) -> dict[str, str]:
    found: dict[str, str] = {}
    _, _, section = docstring.partition("Args:\n")
    name = ""
    for line in section.splitlines():
        if line and not line.startswith(" "):
            break  # the next section
        argument = _ARGUMENT.fullmatch(line.strip())
        if argument and line.startswith("    ") and not line.startswith("     "):
            name = argument[1]
            found[name] = argument[2].strip()
        elif line.strip() and name:
            found[name] += " " + line.strip()
    return found
