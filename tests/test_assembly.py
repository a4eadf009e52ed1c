"""Assembly: every rundef's parts from its arguments, and errors in a rundef's own words."""

import math

import pytest
import toy_rundef

from dqn_lab.assembly import Assembly, check_arguments, playing_arguments

ATARI = {
    "game": "pong",
    "protocol": "nature-2015",
    "replay_capacity_steps": 400,
    "replay_min_steps": 40,
    "updates_per_epoch": 10,
    "train_period_steps": 4,
    "batch_size": 8,
    "epsilon_start": 1.0,
    "epsilon_steps": 100,
    "device": "cpu",
}


def test_none_means_the_protocols_value():
    assembly = Assembly(ATARI | {"epsilon_end": None, "evaluation_epsilon": None})
    assert assembly.protocol.deviations == {}
    assert assembly.epsilon(10_000) == 0.1


def test_what_is_given_overrides_the_protocol_and_is_told():
    given = {"epsilon_end": 0.02, "frame_skip": (3, 5), "reward_transform": "none"}
    assembly = Assembly(ATARI | given | {"evaluation_epsilon": 0.001})
    assert assembly.protocol.deviations == {
        "final_epsilon": 0.02,
        "frame_skip": (3, 5),
        "reward_transform": "none",
        "evaluation_epsilon": 0.001,
    }
    assert assembly.epsilon(10_000) == 0.02


def test_epsilon_begins_to_fall_where_it_is_told():
    assembly = Assembly(ATARI | {"epsilon_begin_steps": 50})
    assert [assembly.epsilon(steps) for steps in (0, 50, 100, 150)] == pytest.approx([1.0, 1.0, 0.55, 0.1])


def test_an_atari_sequence_has_the_protocol_and_the_arguments():
    sequence = Assembly(ATARI | {"num_envs": 2, "seed": 5, "gamma": 0.9}).atari_sequence()
    assert str(sequence.protocol) == "nature-2015"
    assert sequence.state_shape == (84, 84, 4)
    assert (sequence.num_envs, sequence.gamma, sequence.batch_size) == (2, 0.9, 8)


@pytest.mark.case("B057")
@pytest.mark.parametrize(
    ("game", "protocol", "sticky"),
    [
        ("Breakout-v0", "breakout-v0", 0.25),
        ("BreakoutNoFrameskip-v4", "nature-2015", 0.0),
        ("ALE/Breakout-v5", "dopamine", 0.25),
    ],
)
def test_a_run_records_the_rules_its_scores_are_under(game, protocol, sticky):
    from dqn_lab.models.networks import nips

    assembly = Assembly(ATARI | {"game": game, "protocol": protocol, "target_period_updates": 5, "learning_rate": 1e-3})
    sequence = assembly.atari_sequence()
    run = assembly.run(sequence, nips(sequence.state_shape, sequence.num_actions))
    recorded = run.config()["protocol"]
    assert recorded["repeat_action_probability"] == sticky
    assert recorded["frame_cap"] == 108_000
    assert {"frame_skip", "noop_max", "terminal_on_life_loss", "reward_transform"} <= set(recorded)


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"epsilon_start": 1.5}, "`epsilon_start` must lie within 0 and 1. Received: .*=1.5"),
        ({"epsilon_end": -0.5}, "`epsilon_end` must lie within 0 and 1. Received: epsilon_end=-0.5"),
        ({"epsilon_end": None}, "`epsilon_end` must be given: classic-control has none"),
        ({"epsilon_steps": -1}, "`epsilon_steps` must be at least 0 .* Received: epsilon_steps=-1"),
        ({"epsilon_begin_steps": -1}, "`epsilon_begin_steps` .* Received: epsilon_begin_steps=-1"),
        ({"evaluation_episodes": 0}, "evaluation_episodes` .* Received: evaluation_episodes=0"),
        ({"evaluation_max_steps": 0.5}, "Received: evaluation_max_steps=0.5"),
        (
            {"evaluation_episodes": math.inf, "evaluation_max_steps": math.inf},
            "One of `evaluation_episodes` and `evaluation_max_steps` must be finite",
        ),
        ({"initial_states": -1}, "`initial_states` .* Received: initial_states=-1"),
        ({"evaluation_period_epochs": -1}, "Received: evaluation_period_epochs=-1"),
        ({"media_period_evaluations": -1}, "Received: media_period_evaluations=-1"),
        ({"log_period_updates": 0}, "`log_period_updates` .* Received: log_period_updates=0"),
        ({"checkpoint_period_steps": 0}, "`checkpoint_period_steps` .* Received: checkpoint_period_steps=0"),
        (
            {"checkpoint_period_minutes": 0},
            "`checkpoint_period_minutes` must be above 0 or None. Received: checkpoint_period_minutes=0",
        ),
        ({"checkpoint_period_minutes": math.nan}, "Received: checkpoint_period_minutes=nan"),
        ({"keep": 0}, "`keep` must be at least 1. Received: keep=0"),
        ({"keep_weights": "best"}, "`keep_weights` must be one of none, all. Received: keep_weights='best'"),
        ({"initial_weights": "runs/none"}, "`initial_weights` can't be read: .* Received: initial_weights='runs/none'"),
        ({"protocol": "nature"}, "did you mean 'nature-2015'"),
        ({"protocol": "dopamine", "evaluation_epsilon": 2.0}, "Received: evaluation_epsilon=2.0"),
        ({"num_envs": 3}, "Received: num_envs=3, train_period_steps=4"),
        ({"replay_min_steps": 500}, "Received: replay_min_steps=500, replay_capacity_steps=400"),
        ({"replay_capacity_steps": 4, "replay_min_steps": 4}, "Received: replay_capacity_steps=4"),
        ({"target_period_updates": None}, "Received: double=True, target_period_updates=None"),
        ({"learning_rate": 0.0}, "`learning_rate` must be above 0. Received: learning_rate=0.0"),
        ({"device": "tpu"}, "`device` must be one of auto, cpu, gpu. Received: device='tpu'"),
        ({"feeding": "both"}, "`feeding` must be one of .* Received: feeding='both'"),
    ],
)
def test_a_wrong_argument_is_refused_by_the_name_the_user_gave(given, rule):
    with pytest.raises(ValueError, match=rule):
        toy_rundef.run(**given)


def test_an_argument_of_the_wrong_type_stays_a_type_error():
    with pytest.raises(TypeError, match="`evaluation_episodes` must be a number. Received: "):
        toy_rundef.run(evaluation_episodes="many")
    with pytest.raises(TypeError, match="`checkpoint_period_minutes` must be a number or None. Received: .*='often'"):
        toy_rundef.run(checkpoint_period_minutes="often")
    with pytest.raises(TypeError, match="`log_weights` .* Received: log_weights=1"):
        toy_rundef.run(log_weights=1)
    with pytest.raises(TypeError, match="`checkpoint_period_minutes` must be .*=True"):
        toy_rundef.run(checkpoint_period_minutes=True)
    with pytest.raises(TypeError, match="`checkpoint_period_steps` must be an integer. Received: .*=0.5"):
        toy_rundef.run(checkpoint_period_steps=0.5)


def checkpoints_of(run):
    return run.checkpoint_period_steps, run.checkpoint_period_minutes, run.keep, run.keep_weights


def test_a_run_is_told_when_to_save_and_what_to_keep():
    given = {"checkpoint_period_steps": 70, "checkpoint_period_minutes": 0.5, "keep": 5, "keep_weights": "all"}
    assert checkpoints_of(toy_rundef.run(**given)) == (70, 0.5, 5, "all")
    never = {"checkpoint_period_steps": None, "checkpoint_period_minutes": None}
    assert checkpoints_of(toy_rundef.run(**never)) == (None, None, 2, "none")


def test_a_rundef_without_these_keys_saves_by_the_defaults():
    from dqn_lab.environments.catch import Catch
    from dqn_lab.models.networks import mlp

    names = {"checkpoint_period_steps", "checkpoint_period_minutes", "keep", "keep_weights", "initial_weights"}
    kept = {name: value for name, value in toy_rundef.run.__kwdefaults__.items() if name not in names}
    assembly = Assembly(kept)
    sequence = assembly.environment_sequence(Catch)
    run = assembly.run(sequence, mlp(sequence.state_shape, sequence.num_actions, hidden=(8,)))
    assert checkpoints_of(run) == (500_000, 10.0, 2, "none")


def test_a_check_fills_only_a_few_batches():
    arguments = {"replay_min_steps": 50_000, "num_envs": 4, "batch_size": 32, "game": "pong"}
    assert check_arguments(arguments) == arguments | {"replay_min_steps": 2 * 32 + 64 * 4}
    assert check_arguments({"replay_min_steps": 40}) == {"replay_min_steps": 40}
    assert check_arguments({"seed": 1}) == {"seed": 1}


def test_what_only_plays_needs_no_replay_no_gpu_no_evaluation_and_no_other_weights():
    arguments = {
        "game": "pong",
        "num_envs": 4,
        "n_step": 3,
        "replay_capacity_steps": 1_000_000,
        "replay_min_steps": 50_000,
        "evaluation_period_epochs": 5,
        "initial_weights": "given.keras",
        "device": "gpu",
    }
    small = playing_arguments(arguments)
    assert small == {
        "game": "pong",
        "num_envs": 4,
        "n_step": 3,
        "replay_capacity_steps": 4 * (3 + 64),
        "replay_min_steps": 4 * 3,
        "evaluation_period_epochs": 0,
        "initial_weights": None,
        "device": "auto",
    }
    assert playing_arguments({"device": "cpu", "seed": 3}) == {"device": "cpu", "seed": 3}


def test_a_replay_that_is_small_already_or_whose_fill_is_the_rundefs_own_stays():
    assert playing_arguments({"replay_capacity_steps": 1_000}) == {"replay_capacity_steps": 1_000}
    assert playing_arguments({"replay_min_steps": 90}) == {"replay_min_steps": 90}  # for lanes that are no key
    small = {"replay_capacity_steps": 8, "replay_min_steps": 2, "num_envs": 2}
    assert playing_arguments(small) == small
