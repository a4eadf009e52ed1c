"""What an agent is saved by and goes on from."""

import copy
from pathlib import Path

import keras

from dqn_lab.agents.checks import check_agent_state
from dqn_lab.agents.saved_agent import check_saved_agent


class SavedModel(keras.Model):
    """The side of an agent that is saved and put back: as a `.keras` file, and what such a file does not hold.

    `restore` then `set_state`, between two updates or two fits, and training goes on bit for bit.
    """

    def __init__(self, **kwargs) -> None:
        super().__init__(**kwargs)
        self._logs: dict[str, float] = {}  # that callbacks were given last
        self._in_epoch = self._goes_on = False

    def restore(self, path: str | Path) -> None:
        """Takes over weights, optimizer and update count from an agent's file, bit for bit, into this agent.

        Nothing else of the file is read, and no code of it runs.

        Args:
            path: as `save` wrote it, `*.keras`.

        Raises:
            ValueError: it is damaged, or of an agent with other variables. Nothing has changed then.
        """
        check_saved_agent(self, Path(path))
        self.load_weights(path)

    def get_state(self) -> dict:
        """Returns what a saved agent's file does not hold: the epoch's means so far, and the newest figures in `logs`.

        The variables of all `metrics` are in it, a subclass's own too, and the states of the layers' seed generators.
        """
        return {
            "variables": [variable.numpy() for variable in self._unsaved_variables()],
            "logs": dict(self._logs),
            "in_epoch": self._in_epoch,
        }

    def set_state(self, state: dict) -> None:
        """Takes over what `get_state` returned; the next fit goes on with an epoch that was broken off.

        Raises:
            ValueError: it is none, or of an agent with other metrics or layers. Nothing has changed then.
        """
        variables, given = self._unsaved_variables(), state if isinstance(state, dict) else {}
        check_agent_state(given, variables)
        for variable, value in zip(variables, given["variables"], strict=True):
            variable.assign(value)
        self._logs = {name: float(value) for name, value in given["logs"].items()}
        self._in_epoch = self._goes_on = given["in_epoch"]

    def get_config(self) -> dict:
        """Returns what `from_config` needs."""
        return {
            "network": keras.saving.serialize_keras_object(self.network),
            "target_period_updates": self.target_period_updates,
            "gradient_clip": self.gradient_clip,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None) -> "SavedModel":
        """Makes an agent of the same shape, with new weights."""
        config = copy.deepcopy(config)  # Keras empties what it deserializes
        network = keras.saving.deserialize_keras_object(config.pop("network"), custom_objects)
        return cls(network, **config)

    def get_compile_config(self) -> dict:
        """Returns what `compile` needs, for saving."""
        return {
            "optimizer": keras.saving.serialize_keras_object(self.optimizer),
            "jit_compile": self._jit_compile_asked,
        }

    def compile_from_config(self, config: dict) -> None:
        """Compiles as the saved agent was, with the optimizer's variables ready to be loaded."""
        optimizer = keras.saving.deserialize_keras_object(config["optimizer"])
        self.compile(optimizer, jit_compile=config["jit_compile"])

    def reset_metrics(self) -> None:
        """Begins the means of an epoch anew; but after `set_state` inside an epoch they go on, once."""
        if not self._goes_on:
            super().reset_metrics()
        self._goes_on = False

    def _unsaved_variables(self) -> list:
        saved = {id(variable) for variable in self.weights}
        metrics = [variable for metric in self.metrics for variable in metric.variables]
        return metrics + [each for each in self.variables if id(each) not in saved | set(map(id, metrics))]
