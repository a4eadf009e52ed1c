"""What an evaluation process is made of, for the tests; and as a program, one that evaluates for ever."""

import math
import multiprocessing
import signal
import sys

import cloudpickle

from dqn_lab.asynchronous.agent import AsynchronousAgent
from dqn_lab.asynchronous.evaluator import Evaluator
from dqn_lab.callbacks.evaluation import Evaluation
from dqn_lab.environments.catch import Catch
from dqn_lab.models.networks import mlp
from dqn_lab.sequences.environment import EnvironmentSequence

SPAWN = multiprocessing.get_context("spawn")


class Endless(Catch):
    """Says once that it is being played."""

    steps = 0

    def step(self, action):
        Endless.steps += 1
        if Endless.steps == 100:
            print("playing", flush=True)
        observation, *_ = super().step(action)
        self._row = 0
        return observation, 0.0, False, False, {}


def make_sequence(epsilon, seed, environment=Catch):
    return EnvironmentSequence(
        environment,
        replay_capacity_steps=8,
        replay_min_steps=1,
        updates_per_epoch=1,
        batch_size=1,
        epsilon=epsilon,
        seed=seed,
    )


def make_network():
    return mlp((10, 5, 1), 3, hidden=(600,), actor_critic=True, seed=3)  # more numbers than a pipe holds


def make_evaluation(sequence):
    make_twin = sequence.create_validation_instance
    return Evaluation(make_twin, 0.0, 20, math.inf, num_initial_states=4, init_state_dir=None, period_epochs=2)


def make_payload(*, environment=Catch, make_evaluation=make_evaluation):
    parts = lambda epsilon, seed: make_sequence(epsilon, seed, environment), make_network(), True, False  # noqa: E731
    return cloudpickle.dumps((*parts, make_evaluation))


def make_parameters():
    return AsynchronousAgent(make_network(), actor_critic=True).get_parameters()


def main():
    evaluator = Evaluator(make_payload(environment=Endless), SPAWN)
    evaluator.submit(0, make_parameters(), {"steps": 1})
    signal.pause()


if __name__ == "__main__":
    sys.exit(main())
