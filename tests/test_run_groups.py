"""Which runs belong together, and by which words they are told apart."""

from ended_runs import leave_run

from dqn_lab.protocols import PROTOCOLS
from dqn_lab.reports.run_groups import group_runs
from dqn_lab.run_record import read_run


def groups(*directories):
    return group_runs(map(read_run, directories))


def named(found):
    return [(group.game, group.configuration, [run.seed for run in group.runs]) for group in found]


def test_runs_that_differ_in_their_seed_alone_are_one_group_in_the_order_of_seeds(tmp_path):
    runs = [leave_run(tmp_path / str(seed), arguments={"seed": seed, "gamma": 0.9}) for seed in (11, 2, 0)]
    assert named(groups(*runs)) == [("toy", "toy", [0, 2, 11])]


def test_a_group_is_named_by_what_differs_and_nothing_else(tmp_path):
    common = {"gamma": 0.99, "double": True}
    runs = [
        leave_run(tmp_path / "a", arguments=common | {"method": "a3c"}),
        leave_run(tmp_path / "b", arguments=common | {"method": "n_step_q", "double": False}),
        leave_run(tmp_path / "c", arguments=common | {"method": "a3c", "lstm": 256}),
        leave_run(tmp_path / "d", rundef="other", arguments={"gamma": 0.5}),
    ]
    assert named(groups(*runs)) == [
        ("other", "other", [0]),
        ("toy", "toy double=false method=n_step_q", [0]),
        ("toy", "toy double=true lstm=256 method=a3c", [0]),
        ("toy", "toy double=true method=a3c", [0]),
    ]
    (group, *_) = groups(runs[1], runs[0])
    assert group.configuration_without({"double"}) == "toy method=n_step_q"


def test_what_no_learning_depends_on_tells_no_runs_apart(tmp_path):
    one = {"device": "cpu", "keep": 2, "log_period_updates": 1, "evaluation_episodes": 5, "initial_states_dir": "a"}
    other = {"device": "gpu", "keep": 9, "log_period_updates": 7, "checkpoint_period_minutes": 1}
    assert len(groups(leave_run(tmp_path / "a", arguments=one), leave_run(tmp_path / "b", arguments=other))) == 1
    older = leave_run(tmp_path / "older", arguments={"gamma": 0.9})
    assert len(groups(older, leave_run(tmp_path / "newer", arguments={"gamma": 0.9, "initial_weights": None}))) == 1
    steps = [leave_run(tmp_path / str(n), arguments={"total_steps": n}) for n in (10, 20)]
    assert [group.configuration for group in groups(*steps)] == ["toy total_steps=10", "toy total_steps=20"]


def test_rules_and_games_tell_runs_apart_whatever_a_game_is_called(tmp_path):
    nature, other = PROTOCOLS["nature-2015"], PROTOCOLS["nature-2015"].override(evaluation_epsilon=0.5)
    runs = [
        leave_run(tmp_path / "a", protocol=nature, arguments={"game": "ms_pacman", "seed": 1}),
        leave_run(tmp_path / "b", protocol=nature, arguments={"game": "ALE/MsPacman-v5"}),
        leave_run(tmp_path / "c", protocol=other, arguments={"game": "ms_pacman"}),
        leave_run(tmp_path / "d", protocol=nature, arguments={"game": "of_a_later_version"}),
        leave_run(tmp_path / "e", protocol=None, rundef=""),
    ]
    found = groups(*runs)
    assert named(found) == [
        ("ms_pacman", "toy", [0, 1]),
        ("ms_pacman", "toy", [0]),
        ("no rundef", "no rundef", [0]),
        ("of_a_later_version", "toy", [0]),
    ]
    assert [group.protocol for group in found[:3]] == [str(nature), str(other), "none"]
