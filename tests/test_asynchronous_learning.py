"""Each rule learns Catch, with all that it combines with; one worker, without processes."""

import multiprocessing
import pickle

import numpy as np
import pytest

from dqn_lab.asynchronous.agent import AsynchronousAgent
from dqn_lab.asynchronous.shared_progress import Shared
from dqn_lab.asynchronous.worker import Worker
from dqn_lab.evaluation import evaluate
from dqn_lab.rundef import load_rundef

MOST_STEPS = 100_000
LOOK_STEPS = 5_000


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "arguments",
    [
        {"method": "one_step_q"},
        {"method": "one_step_q", "double": True},
        {"method": "one_step_q", "dueling": True},
        {"method": "one_step_sarsa"},
        {"method": "n_step_q"},
        {"method": "n_step_q", "double": True},
        {"method": "n_step_q", "dueling": True},
        {"method": "a3c"},
        {"method": "a3c", "lstm": True},
    ],
    ids=lambda arguments: "-".join(map(str, arguments.values())).replace("True", list(arguments)[-1]),
)
def test_catch_is_learnt(arguments, seed):
    rundef = load_rundef("catch_async")
    run = rundef.build(rundef.resolve(arguments | {"seed": seed, "num_workers": 1, "initial_states_dir": None}))
    worker, shared = begin(run)
    twin = run.sequence.create_validation_instance(0.0)
    scores = []
    while shared.parameters.steps < MOST_STEPS and not (scores and scores[-1] >= 0.9):
        due = shared.parameters.steps + LOOK_STEPS
        while shared.parameters.steps < due:
            worker.learn()
        scores.append(score(run.agent, shared.parameters.parameters, twin))
    assert scores[-1] >= 0.9, scores


def begin(run) -> tuple[Worker, Shared]:
    initial, context = run.agent.get_parameters(), multiprocessing.get_context("spawn")
    shared = Shared.beginning(initial, 1, context)
    return Worker(0, *pickle.loads(run.worker_payload), shared), shared


def score(agent: AsynchronousAgent, parameters: np.ndarray, twin) -> float:
    agent.set_parameters(parameters)
    agent.lead(twin)
    return evaluate(twin, num_episodes=100, num_max_iter=np.inf, seed=7).return_mean
