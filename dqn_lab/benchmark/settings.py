"""What a benchmark measures, and what it changes in a rundef's arguments unless they were given."""

from __future__ import annotations

import math

from dqn_lab.devices import usable_cores

STAGES = {"simulation": "simulate_ms", "acting": "act_ms", "sampling": "sample_ms", "update": "update_ms"}
REPLAY_WHAT, ASYNCHRONOUS_WHAT = (*STAGES, "soak", "checkpoint"), ("scaling", "sharing")  # of one kind of run only
WHAT = (*STAGES, "train", "soak", "checkpoint", *ASYNCHRONOUS_WHAT, "all")
SECONDS, SOAK_SECONDS, SHARING_SECONDS = 30.0, 120.0, 60.0
SOAK_EPOCHS = 20  # each ends with an evaluation

_MOST_FILL = 20_000  # steps; more would only take time
_SOAK_EPOCH = 200  # updates
_SOAK_COPIES = 100  # to the target network
_SOAK_FILLS = 4  # a ring that was filled four times has wrapped three times
_SOAK_EVALUATION = {
    "evaluation_period_epochs": 1,
    "evaluation_episodes": math.inf,
    "evaluation_max_steps": 300,
    "initial_states": 100,
    "initial_states_dir": None,
}


def rounds_in(seconds: float) -> int:
    """Returns the rounds that a measurement of so many seconds is divided into: of four seconds, but 3 to 30."""
    return 30 if seconds > 120 else max(round(seconds / 4), 3)


def default_seconds(what: str) -> float:
    """Returns how long is measured where nobody says."""
    return {"soak": SOAK_SECONDS, "sharing": SHARING_SECONDS}.get(what, SECONDS)


def benchmark_arguments(what: str, arguments: dict[str, object], given: dict[str, object]) -> dict[str, object]:
    """Returns the arguments that a run is measured with.

    Args:
        what: one of `WHAT`.
        arguments: all of the rundef's, resolved.
        given: those that the user set, which stay.
    """
    if what == "scaling":
        changes = {"num_workers": usable_cores()}
    else:
        changes = _soak_changes(arguments, given) if what == "soak" else _shorter_fill(arguments)
    return arguments | {name: value for name, value in changes.items() if name in arguments and name not in given}


def _shorter_fill(arguments: dict[str, object]) -> dict[str, object]:
    fill = arguments.get("replay_min_steps")
    return {"replay_min_steps": min(fill, _MOST_FILL)} if isinstance(fill, int) else {}


def _soak_changes(arguments: dict[str, object], given: dict[str, object]) -> dict[str, object]:
    epoch = given.get("updates_per_epoch", _SOAK_EPOCH)
    updates = SOAK_EPOCHS * epoch
    lanes, period = arguments.get("num_envs") or 1, arguments.get("train_period_steps") or 4
    capacity = given.get("replay_capacity_steps", updates * period // _SOAK_FILLS // lanes * lanes)
    return {
        "updates_per_epoch": epoch,
        "replay_capacity_steps": capacity,
        "replay_min_steps": capacity // 4,
        "target_period_updates": max(updates // _SOAK_COPIES, 1),
        **_SOAK_EVALUATION,
    }
