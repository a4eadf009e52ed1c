"""The rules of the asynchronous methods: what a segment of consecutive steps costs, and nothing else.

A segment goes from the state after the last update to the state that the next one begins in:

    state      s_0   s_1   ...   s_T-1   s_T            s_T: what the last action led to
    action     a_0   a_1   ...   a_T-1
    discount   g     g     ...   g or 0                 0 behind a terminal step, which ends the segment

A rule returns the sum of its steps' losses (not the mean), as the papers' accumulated gradients have it. Parameters
and the target network's stay as they were when the segment began, for one-step rules too.
"""

import tensorflow as tf

from dqn_lab.arguments import require_choice, require_flag
from dqn_lab.losses import LOSSES, entropy, policy_gradient_loss, value_loss
from dqn_lab.targets import (
    as_row,
    double_q_learning_target,
    n_step_returns,
    q_learning_target,
    sarsa_target,
    selected_values,
    td_error,
)

Segment = dict[str, tf.Tensor]


class Method:
    """One rule.

    Attributes:
        name: that a rundef calls it by.
        actor_critic: its network gives a policy and a state value, no action values.
        needs_target: it bootstraps from a target network.
        needs_next_action: its targets need the action taken in s_T, so that the last step waits for the next segment.
    """

    name: str
    actor_critic = False
    needs_target = True
    needs_next_action = False

    def loss(self, network, target_network, segment: Segment) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the loss of a segment, and the values that it predicts.

        Args:
            network: states -> outputs, of the worker's own parameters.
            target_network: states -> outputs, of the target parameters; None where none is needed.
            segment: state [T + 1, ...], action [T] int32, reward [T], discount [T]; next_action [T] where the rule
                needs it.

        Returns:
            Sum of the T steps' losses, []; and Q(s, a), or V(s), of the T steps, [T].
        """
        raise NotImplementedError

    def get_config(self) -> dict:
        """Returns the arguments that make an equal rule."""
        return {key.removeprefix("_"): value for key, value in vars(self).items()}


class _ActionValueMethod(Method):
    """What the rules on action values have in common.

    Args:
        loss: of a temporal difference: "huber" (errors clipped to 1, as in the implementations that reproduced the
            paper) or "mse".
    """

    def __init__(self, *, loss: str = "huber"):
        self._loss = require_choice("loss", loss, LOSSES)

    def _cost(self, target, values):
        return tf.reduce_sum(LOSSES[self._loss](td_error(tf.stop_gradient(target), values)))  # []


class _DoubleMethod(_ActionValueMethod):
    def __init__(self, *, double: bool = False, loss: str = "huber"):
        super().__init__(loss=loss)
        self._double = require_flag("double", double)


class OneStepQ(_DoubleMethod):
    """Asynchronous one-step Q-learning: y = r + discount * max_a Q(s', a; theta^-). Mnih et al. (2016), algorithm 1.

    Args:
        double: the worker's network chooses the next action, the target network values it.
        loss: of a temporal difference, "huber" or "mse".
    """

    name = "one_step_q"

    def loss(self, network, target_network, segment):
        """See `Method.loss`."""
        state, reward, discount = segment["state"], segment["reward"], segment["discount"]
        values = selected_values(network(state[:-1]), segment["action"])  # [T]
        next_values = target_network(state[1:])  # [T, A]
        if self._double:
            target = double_q_learning_target(reward, discount, network(state[1:]), next_values)  # [T]
        else:
            target = q_learning_target(reward, discount, next_values)  # [T]
        return self._cost(target, values), values


class OneStepSarsa(_ActionValueMethod):
    """Asynchronous one-step Sarsa: y = r + discount * Q(s', a'; theta^-). Mnih et al. (2016), section 4.

    a' is the action that was really taken in s'. Behind a time limit none was: one is drawn as it would have been.

    Args:
        loss: of a temporal difference, "huber" or "mse".
    """

    name = "one_step_sarsa"
    needs_next_action = True

    def loss(self, network, target_network, segment):
        """See `Method.loss`."""
        state = segment["state"]
        values = selected_values(network(state[:-1]), segment["action"])  # [T]
        next_values = target_network(state[1:])  # [T, A]
        target = sarsa_target(segment["reward"], segment["discount"], next_values, segment["next_action"])  # [T]
        return self._cost(target, values), values


class NStepQ(_DoubleMethod):
    """Asynchronous n-step Q-learning: R_t = r_t + discount * R_t+1, from max_a Q(s_T, a; theta^-).

    Mnih et al. (2016), algorithm S2: each step looks as far as the segment goes.

    Args:
        double: the worker's network chooses the action in s_T, the target network values it.
        loss: of a temporal difference, "huber" or "mse".
    """

    name = "n_step_q"

    def loss(self, network, target_network, segment):
        """See `Method.loss`."""
        state = segment["state"]
        values = selected_values(network(state[:-1]), segment["action"])  # [T]
        nothing, everything = tf.zeros([1]), tf.ones([1])  # [1]: the target of one row is the value of its next state
        last = target_network(state[-1:])  # [1, A]
        if self._double:
            bootstrap = double_q_learning_target(nothing, everything, network(state[-1:]), last)  # [1]
        else:
            bootstrap = q_learning_target(nothing, everything, last)  # [1]
        return self._cost(n_step_returns(segment["reward"], segment["discount"], bootstrap[0]), values), values


class AdvantageActorCritic(Method):
    """Asynchronous advantage actor-critic (A3C): Mnih et al. (2016), algorithm S3.

        loss = sum_t [ -log pi(a_t|s_t) (R_t - V(s_t)) + value_loss_coefficient * (R_t - V(s_t))^2 / 2 - beta H(pi) ]

    with R_t = r_t + discount * R_t+1 from V(s_T), and the gradient of R_t, and of the advantage in the first term,
    stopped.

    Args:
        entropy_beta: weight of the policy's entropy, which the loss lowers: larger policies' entropy costs less.
        value_loss_coefficient: on top of the half in (R - V)^2 / 2: at 0.5 the critic's gradient is 0.5 (V - R), as
            the paper's authors have it; see `losses.value_loss`.

    Raises:
        ValueError: a number is negative or not finite.
    """

    name = "a3c"
    actor_critic = True
    needs_target = False

    def __init__(self, *, entropy_beta: float = 0.01, value_loss_coefficient: float = 0.5):
        self._entropy_beta = _require_weight("entropy_beta", entropy_beta)
        self._value_loss_coefficient = _require_weight("value_loss_coefficient", value_loss_coefficient)

    def loss(self, network, target_network, segment):
        """See `Method.loss`."""
        logits, value = network(segment["state"])  # [T + 1, A], [T + 1]
        value = as_row("value", value)  # a column would make a table of the advantages
        bootstrap, logits, value = value[-1], logits[:-1], value[:-1]  # [], [T, A], [T]
        returns = n_step_returns(segment["reward"], segment["discount"], tf.stop_gradient(bootstrap))  # [T]
        advantage = td_error(returns, value)  # [T]
        losses = (
            policy_gradient_loss(logits, segment["action"], advantage)
            + self._value_loss_coefficient * value_loss(advantage)
            - self._entropy_beta * entropy(logits)
        )  # [T]
        return tf.reduce_sum(losses), value


METHODS = {each.name: each for each in (OneStepQ, OneStepSarsa, NStepQ, AdvantageActorCritic)}


def _require_weight(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"`{name}` must be a number. Received: {name}={value!r}")
    if not 0 <= value < float("inf"):
        raise ValueError(f"`{name}` must be 0 or above, and finite. Received: {name}={value}")
    return float(value)
