"""Deep Q-learning, plain and double."""

import keras
import tensorflow as tf

from dqn_lab.agents.agent import Agent
from dqn_lab.arguments import require_choice
from dqn_lab.losses import LOSSES
from dqn_lab.targets import double_q_learning_target, q_learning_target, selected_values, td_error


@keras.saving.register_keras_serializable("dqn_lab")
class DQN(Agent):
    """Deep Q-learning (Mnih et al. 2015, algorithm 1), with n-step targets as the sequence makes them.

    Args:
        network: as `Agent`.
        double: choose the next action by the online network and value it by the target network (van Hasselt, Guez
            and Silver 2016, eq. 4).
        target_period_updates, gradient_clip: as `Agent`.
        loss: of the temporal difference, "huber" or "mse".

    Raises:
        TypeError: `double` is no truth value.
        ValueError: double Q-learning without a target network, or an unknown loss.
    """

    def __init__(
        self,
        network: keras.Model,
        *,
        double: bool = False,
        target_period_updates: int | None,
        gradient_clip: float | None = None,
        loss: str = "huber",
        **kwargs,
    ) -> None:
        require_choice("loss", loss, LOSSES)
        if double not in (True, False):
            raise TypeError(f"`double` must be True or False. Received: double={double!r}")
        if double and target_period_updates is None:
            raise ValueError(
                "Double Q-learning needs a target network. Received: double=True, target_period_updates=None"
            )
        super().__init__(network, target_period_updates=target_period_updates, gradient_clip=gradient_clip, **kwargs)
        self.double = bool(double)
        self.loss_name = loss

    def example_losses(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Returns the loss of each row's temporal difference. [B]"""
        values = selected_values(self.network(batch["state"], training=True), batch["action"])  # [B]
        self.q_mean.update_state(values)
        return LOSSES[self.loss_name](td_error(self._target(batch), values))  # [B]

    def temporal_differences(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Returns target minus prediction of each row. [B]"""
        values = selected_values(self.network(batch["state"], training=False), batch["action"])  # [B]
        return td_error(self._target(batch), values)  # [B]

    def get_config(self) -> dict:
        """Returns what `from_config` needs."""
        return super().get_config() | {"double": self.double, "loss": self.loss_name}

    def _target(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        next_state, reward, discount = batch["next_state"], batch["reward"], batch["discount"]
        bootstrap = self.network if self.target_network is None else self.target_network
        next_values = bootstrap(next_state, training=False)  # [B, A]
        if self.double:
            online = self.network(next_state, training=False)  # [B, A]
            return tf.stop_gradient(double_q_learning_target(reward, discount, online, next_values))  # [B]
        return tf.stop_gradient(q_learning_target(reward, discount, next_values))  # [B]
