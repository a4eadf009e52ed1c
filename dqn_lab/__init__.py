"""Deep Q-learning on Atari and classic control with Keras, on one machine.

What is public loads when they are first asked for, so that `import dqn_lab` stays free of TensorFlow.
"""

from importlib import import_module

_HOMES = {
    "SynchronousSequence": "dqn_lab.sequences.synchronous",
    "EnvironmentSequence": "dqn_lab.sequences.environment",
    "AtariSequence": "dqn_lab.sequences.atari",
    "Agent": "dqn_lab.agents.agent",
    "DQN": "dqn_lab.agents.dqn",
    "Evaluation": "dqn_lab.callbacks.evaluation",
    "Atari": "dqn_lab.environments.atari",
    "Catch": "dqn_lab.environments.catch",
    "LinearSchedule": "dqn_lab.schedules",
    "Run": "dqn_lab.run",
    "AsynchronousRun": "dqn_lab.asynchronous_run",
    "load_agent": "dqn_lab.snapshots",
    "load_run": "dqn_lab.saved_run",
}

__all__ = sorted(_HOMES)
__version__ = "0.1.0"


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'dqn_lab' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
