"""Loaded runs: the agent, the games it was evaluated in, and the arguments, by the run's own rundef."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import toy_rundef
from filelock import FileLock

import dqn_lab
from dqn_lab.checkpoint import check_checkpoint, save_agent
from dqn_lab.evaluation import evaluate
from dqn_lab.saved_run import load_run

KEYS = toy_rundef.run.__kwdefaults__
GIVEN = {
    "seed": 3,
    "total_updates": 31,
    "learning_rate": 0.02,
    "evaluation_epsilon": 0.25,
    "evaluation_episodes": 30,
}


def tell(folder, **facts):
    """Changes what config.json says."""
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | facts))
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of three epochs, and one update of the fourth."""
    folder = tmp_path_factory.mktemp("runs") / "toy"
    toy_rundef.run(**GIVEN).train(folder, rundef="toy")
    return tell(folder, rundef_file=toy_rundef.__file__)


@pytest.fixture
def copied(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def contents(folder):
    return {one: (one.stat().st_mtime_ns, one.read_bytes()) for one in folder.rglob("*") if one.is_file()}


def test_the_best_agent_scores_in_the_runs_games_as_it_did(trained):
    run = dqn_lab.load_run(trained)
    best = check_checkpoint(trained / "best")["counters"]
    assert run.agent.updates == best["updates"]
    score = evaluate(run.sequence, num_episodes=30, num_max_iter=math.inf, seed=3)
    assert score.return_mean == best["eval_return_mean"]


def test_its_arguments_are_the_runs(trained):
    assert load_run(trained).arguments == KEYS | GIVEN


def test_the_sequence_is_ready_to_play_the_games_of_the_evaluations(trained):
    run = load_run(trained, "latest", num_envs=16)
    assert run.agent.updates == 31
    assert (run.sequence.num_envs, run.sequence.epsilon) == (16, 0.25)
    asked = []
    run.sequence.policy = lambda states: asked.append(states) or run.agent.act_values(states)
    first = run.sequence.get_latest_feature()
    run.sequence.simulate_single()
    assert np.array_equal(asked, [first])
    run.sequence.reseed(3)
    assert np.array_equal(run.sequence.get_latest_feature(), first)
    run.sequence.reseed(0)
    assert not np.array_equal(run.sequence.get_latest_feature(), first)


def test_it_acts_by_the_agents_values(trained):
    run = load_run(trained)
    states = run.sequence.get_latest_feature()
    assert np.array_equal(run.sequence.policy(states), run.agent.q_values(states))
    assert run.sequence.num_envs == 1


def test_a_run_that_goes_on_can_be_loaded_and_nothing_is_written(trained):
    before = contents(trained)
    with FileLock(trained / ".lock"):
        load_run(trained).sequence.simulate_single()
    assert contents(trained) == before


def test_a_replay_larger_than_the_machine_is_not_needed(copied):
    arguments = json.loads((copied / "config.json").read_text())["arguments"]
    large = {"replay_capacity_steps": 10**14, "replay_min_steps": 10**13}
    run = load_run(tell(copied, arguments=arguments | large))
    run.sequence.simulate_single()
    assert run.arguments["replay_capacity_steps"] == 10**14


def test_a_run_that_was_trained_elsewhere_or_from_weights_that_are_gone_is_loaded(copied):
    arguments = json.loads((copied / "config.json").read_text())["arguments"]
    run = load_run(tell(copied, arguments=arguments | {"device": "gpu", "initial_weights": "gone.keras"}))
    assert run.arguments["device"] == "gpu"


MINE = f"""
import math, sys
sys.path.insert(0, {str(Path(toy_rundef.__file__).parent)!r})
import toy_rundef

def run(*, seed: int = 0, hidden: tuple[int, ...] = (8,), frame_skip: int | tuple[int, int] | None = None,
        limit: int | float = 1, name: str = "", more: int = 7):
    if (hidden, frame_skip, limit, name, more) != ((8, 4), (3, 5), math.inf, "inf", 7):
        raise ValueError("not as it was")
    return toy_rundef.run(seed=seed)
"""


def test_tuples_and_infinities_come_back_and_a_new_key_has_its_default(copied, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    saved = {"seed": 1, "hidden": [8, 4], "frame_skip": [3, 5], "limit": "inf", "name": "inf"}
    run = load_run(tell(copied, rundef_file=str(tmp_path / "mine.py"), arguments=saved))
    assert run.arguments == {
        "seed": 1,
        "hidden": (8, 4),
        "frame_skip": (3, 5),
        "limit": math.inf,
        "name": "inf",
        "more": 7,
    }


def test_the_rundefs_file_goes_before_its_name_and_the_name_serves_where_it_is_gone(copied, monkeypatch):
    tell(copied, rundef="catch")
    assert load_run(copied).sequence.num_actions == 3
    found = []
    monkeypatch.setattr("dqn_lab.saved_run.load_rundef", lambda name: found.append(name) or 1 / 0)
    for facts in ({}, {"rundef_file": "gone/mine.py"}, {"rundef_file": None}, {"rundef_file": "toy", "rundef": ""}):
        with pytest.raises(ZeroDivisionError):
            load_run(tell(copied, **facts))
    assert found == [toy_rundef.__file__, "catch", "catch", "toy"]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (
            {"rundef_file": "gone/mine.py", "rundef": "mine"},
            "The rundef of this run is gone: put its file back. Received: rundef='mine', .*gone/mine.py'$",
        ),
        (
            {"rundef_file": "gone/mine.py", "rundef": ""},
            "The rundef of this run is gone: .*rundef_file='gone/mine.py'$",
        ),
        ({"rundef_file": None, "rundef": ""}, "This run was not begun from a rundef: .*Received: run_directory="),
        ({"arguments": None}, "config.json isn't that of a run. Received: run_directory="),
        ({"arguments": {"speed": 1}}, "isn't as it was: toy_rundef has no such key; .* Received: speed$"),
    ],
)
def test_a_rundef_that_cant_be_had_is_told_in_one_line(copied, facts, said):
    with pytest.raises(ValueError, match=said) as refusal:
        load_run(tell(copied, **facts))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("content", ["", "[]", "\xff", "{"])
def test_a_damaged_config_is_told_in_one_line(tmp_path, content):
    (tmp_path / "config.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(ValueError, match="^config.json isn't that of a run. Received: run_directory=.*'$"):
        load_run(tmp_path)


def test_what_isnt_there_is_told_in_one_line(copied, tmp_path):
    with pytest.raises(ValueError, match="A run directory has a config.json. Received: run_directory="):
        load_run(tmp_path)
    with pytest.raises(
        ValueError, match="`which` must be best, latest or the steps of a kept save. Received: which='newest'"
    ):
        load_run(copied, "newest")
    with pytest.raises(ValueError, match="`num_envs` must be at least 1. Received: num_envs=0"):
        load_run(copied, num_envs=0)
    shutil.rmtree(copied / "best")
    with pytest.raises(ValueError, match="No evaluation of this run has been saved as its best"):
        load_run(copied)


def test_a_rundef_that_has_become_another_world_is_refused(copied):
    cartpole = {"replay_min_steps": 1000, "replay_capacity_steps": 50_000}
    with pytest.raises(ValueError, match="The network must return one value per action, 2 here."):
        load_run(tell(copied, rundef="cartpole_v1", rundef_file=None, arguments=cartpole))


@pytest.fixture(scope="module")
def breakout(tmp_path_factory):
    """A run on Breakout that has saved an agent, with rules of its own."""
    from rundefs import atari_dqn

    folder = tmp_path_factory.mktemp("atari") / "breakout"
    own = {"frame_skip": (3, 5), "epsilon_end": 0.02, "evaluation_epsilon": 0.5, "reward_transform": "none"}
    small = {"num_envs": 1, "replay_min_steps": 40, "replay_capacity_steps": 400, "initial_states_dir": None}
    run = atari_dqn.run(game="breakout", device="cpu", **own, **small)
    return save_untrained(run, folder, "atari_dqn")


def save_untrained(run, folder, rundef, rundef_file=None):
    save_agent(folder / "best", run.agent, {"steps": 7})
    (folder / "config.json").write_text(json.dumps(run.config(rundef, rundef_file), default=str))
    run.sequence.close()
    return folder


def test_another_protocol_is_played_by_its_plain_rules(breakout):
    own = load_run(breakout)
    assert (str(own.protocol), own.steps) == (
        "nature-2015 (frame skip 3-5, reward none, final epsilon 0.02, evaluation epsilon 0.5)",
        7,
    )
    for name, key in (("dopamine", 0.001), ("nature-2015", 0.05)):
        run = load_run(breakout, protocol=name)
        assert (run.protocol.name, run.protocol.deviations, run.sequence.epsilon) == (name, {}, key)
        run.sequence.simulate_single()
        assert run.sequence.frames == 4
        assert f"'name': '{name}'" in run.sequence.key()
        assert "'deviations': {}" in run.sequence.key()
        assert run.arguments["frame_skip"] == (3, 5)
        run.sequence.close()
    own.sequence.close()


def test_another_epsilon_is_told_with_the_protocol(breakout, trained):
    run = load_run(breakout, protocol="dopamine", epsilon=0.0)
    assert (str(run.protocol), run.sequence.epsilon) == ("dopamine (evaluation epsilon 0.0)", 0.0)
    run.sequence.close()
    run = load_run(trained, epsilon=1.0)
    assert (str(run.protocol), run.sequence.epsilon) == ("classic-control (evaluation epsilon 1.0)", 1.0)
    with pytest.raises(ValueError, match="`epsilon` must lie within 0 and 1. Received: epsilon=1.5"):
        load_run(trained, epsilon=1.5)


def test_a_protocol_that_the_games_cant_have_is_refused(breakout, trained, copied, tmp_path):
    with pytest.raises(ValueError, match="must be one of Atari's, as the run's nature-2015 is. Received: protocol='cl"):
        load_run(breakout, protocol="classic-control")
    with pytest.raises(ValueError, match="must be one of classic control's, as .* Received: protocol='dopamine'"):
        load_run(trained, protocol="dopamine")
    with pytest.raises(ValueError, match="did you mean 'dopamine'. Received: protocol='dopamin'"):
        load_run(trained, protocol="dopamin")
    (tmp_path / "mine.py").write_text(MINE.replace("(8, 4), (3, 5), math.inf", "(8,), None, 1").replace('"inf"', '""'))
    tell(copied, rundef_file=str(tmp_path / "mine.py"), arguments={"seed": 1})
    with pytest.raises(ValueError, match="mine has no key protocol, .* Received: classic-control"):
        load_run(copied, protocol="classic-control")


@pytest.mark.parametrize("lstm", [False, True])
@pytest.mark.parametrize("greedy", [False, True])
def test_an_actor_critic_is_played_by_its_policy_alone(tmp_path, lstm, greedy):
    import toy_async_rundef

    made = toy_async_rundef.run(method="a3c", lstm=lstm, greedy=greedy)
    folder = save_untrained(made, tmp_path / "run", "toy_async", toy_async_rundef.__file__)
    run = load_run(folder, protocol="classic-control", num_envs=3)
    assert (run.sequence.epsilon, str(run.protocol)) == (0.0, "classic-control")
    first = evaluate(run.sequence, num_episodes=5, num_max_iter=math.inf)
    assert evaluate(run.sequence, num_episodes=5, num_max_iter=math.inf) == first
    assert load_run(folder, epsilon=0.25).sequence.epsilon == 0.25


def test_the_training_environments_are_closed(trained, monkeypatch):
    from dqn_lab.environments.catch import Catch

    closed = []
    monkeypatch.setattr(Catch, "close", lambda self: closed.append(id(self)))
    run = load_run(trained, num_envs=3)
    assert len(set(closed)) == KEYS["num_envs"]
    run.sequence.close()
    assert len(set(closed)) == KEYS["num_envs"] + 3
