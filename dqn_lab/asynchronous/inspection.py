"""A look at what one worker does, for `dqn-train --check`."""

import pickle
from collections.abc import Callable

import numpy as np

from dqn_lab.asynchronous.local_network import LocalNetwork
from dqn_lab.asynchronous.rollout import Rollout, WorkerPolicy


def inspect_worker(payload: bytes, say: Callable[[str], None]) -> None:
    """Plays one segment in this process and prints it, its loss, and its gradient's norms; nothing is updated.

    Args:
        payload: of a worker.
        say: prints one line.

    Raises:
        FloatingPointError: the loss or a gradient is not finite.
    """
    make_sequence, network, method, settings = pickle.loads(payload)
    epsilon = 0.0 if method.actor_critic else settings.epsilon_start
    sequence, local = make_sequence(epsilon=epsilon, seed=settings.seed), LocalNetwork(network, method)
    generator = np.random.default_rng(settings.seed)
    rollout = Rollout(
        sequence, WorkerPolicy(local, samples=method.actor_critic, generator=generator), method, settings.t_max
    )
    segment = rollout.segment()
    gradient, loss, values = local.gradient(segment)
    for name, array in segment.items():
        shown = f", {array.tolist()}" if array.ndim == 1 else f", {array.min():g} to {array.max():g}"
        say(f"segment {name}: {array.dtype}{list(array.shape)}{shown}")
    say(f"mean value: {values / len(segment['action']):.6g}")
    say(f"loss: {loss:.6g}")
    begin = 0
    for variable in network.trainable_variables:
        part = gradient[begin : begin + int(np.prod(variable.shape))]
        begin += len(part)
        weight = np.linalg.norm(variable.numpy())
        say(f"{variable.path} {tuple(variable.shape)}: norm {weight:.4g}, gradient norm {np.linalg.norm(part):.4g}")
    if not np.isfinite(loss) or not np.isfinite(gradient).all():
        raise FloatingPointError(f"The loss or a gradient is not finite. Received: loss={loss}")
