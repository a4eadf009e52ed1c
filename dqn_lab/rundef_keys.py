"""What each key of a rundef means: the unit and line that `dqn-train RUNDEF --help` shows."""

from __future__ import annotations

import re

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
    "loss": ("", "huber or mse"),
    "optimizer": ("", "rmsprop_centered (the Nature paper's), rmsprop, adam or sgd"),
    "learning_rate": ("", "the optimizer's step size"),
    "gradient_clip": ("", "largest global norm of the gradient; none: not clipped"),
    "precision": ("", "float32, mixed_bfloat16 or mixed_float16"),
    "jit_compile": ("", "compile the update with XLA; none: where Keras thinks it pays"),
    "device": ("", "auto, cpu or gpu"),
    "feeding": ("", "auto, overlap or alternate: who works while the update runs"),
    "epsilon_start": ("", "share of random actions at first"),
    "epsilon_end": ("", "share of random actions once it has fallen"),
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
    "log_period_updates": ("updates", "how often TensorBoard gets a point inside an epoch"),
    "checkpoint_period_steps": ("steps", "from one checkpoint to the next; none: minutes alone decide"),
    "checkpoint_period_minutes": ("minutes", "as well, whichever comes first; none: steps alone decide"),
    "keep": ("checkpoints", "how many of the newest stay"),
    "keep_weights": ("", "all: the network's weights of each evaluation are kept too; none"),
    "initial_weights": ("", "run directory, .keras or .weights.h5 file that a new run's network starts from; none"),
    "total_steps": ("steps", "length of the run; the first total reached ends it"),
    "total_updates": ("updates", "length of the run; the first total reached ends it"),
}

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
        "log_period_updates",
        "checkpoint_period_steps",
        "checkpoint_period_minutes",
        "keep",
        "keep_weights",
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
        for name, (unit, line) in COMMON_KEYS.items()
    }
    for name, text in _arguments(docstring).items():
        unit = _UNIT.fullmatch(text)
        described[name] = (unit[2], unit[1]) if unit else ("", text)
    return described


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
