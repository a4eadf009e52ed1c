"""What a continued run must have in common with its beginning, and when it is told to be inexact."""

import re

import pytest

from dqn_lab import continuation as module
from dqn_lab.continuation import describe_machine, differences, refuse_other_settings, settings, why_inexact
from dqn_lab.protocols import get_protocol
from dqn_lab.run_directory import RunDirectory


def used(folder, **arguments):
    directory = RunDirectory(folder)
    directory.open({"format": 2, "settings": settings("toy", arguments, get_protocol("breakout-v0"))})
    directory.release()
    return RunDirectory(folder)


def test_other_settings_are_refused_with_the_keys_and_both_ways_out(tmp_path):
    directory = used(tmp_path, gamma=0.99, n_step=1, total_steps=float("inf"))
    with pytest.raises(ValueError) as refusal:
        refuse_other_settings(directory, settings("toy", {"gamma": 0.9, "n_step": 1}))
    assert re.search(r"other settings: gamma 0.99 -> 0.9\..*--run-dir.*--fresh. Received: run_dir=", str(refusal.value))
    with pytest.raises(ValueError, match="rundef toy -> other"):
        refuse_other_settings(directory, settings("other", {}))


def test_the_same_settings_are_accepted_as_json_keeps_them(tmp_path):
    arguments = {"frame_skip": (3, 5), "epsilon_steps": 10, "replay_capacity_steps": float("inf")}
    directory, told = used(tmp_path, **arguments), settings("toy", arguments)
    refuse_other_settings(directory, told)
    assert {name: directory.read_config()["settings"][name] for name in told} == told


@pytest.mark.parametrize(
    "key",
    "evaluation_epsilon evaluation_period_epochs evaluation_episodes evaluation_max_steps initial_states "
    "initial_states_dir media_period_evaluations log_period_updates log_weights total_steps total_updates "
    "checkpoint_period_steps checkpoint_period_minutes keep keep_weights device".split(),
)
def test_what_only_watches_or_lengthens_a_run_may_change(tmp_path, key):
    refuse_other_settings(used(tmp_path, **{key: 1}), settings("toy", {key: 2}))
    assert settings("toy", {key: 2}) == {"rundef": "toy"}


def test_a_key_that_this_run_may_not_change_is_compared():
    arguments = {"total_steps": 5, "keep": 2}
    assert settings("toy", arguments, fixed=frozenset({"total_steps"})) == {"rundef": "toy", "total_steps": 5}


def test_of_a_protocol_only_the_evaluation_may_change(tmp_path):
    directory = used(tmp_path)
    protocol = get_protocol("breakout-v0")
    refuse_other_settings(directory, settings("toy", {}, protocol.override(evaluation_epsilon=0.5)))
    with pytest.raises(ValueError, match=r"protocol.frame_skip 4 -> 3\."):
        refuse_other_settings(directory, settings("toy", {}, protocol.override(frame_skip=3)))


def test_a_setting_that_one_version_does_not_know_refuses_nothing(tmp_path):
    refuse_other_settings(used(tmp_path, old=1), settings("toy", {"new": 2}))
    assert differences({"keras": "3.15.1", "cores": 2, "gone": 0}, {"keras": "3.16.0", "cores": 8, "new": 1}) == (
        "keras 3.15.1 -> 3.16.0, cores 2 -> 8"
    )


def test_the_machine_is_told_by_all_that_sums_may_depend_on(monkeypatch):
    machine = describe_machine()
    assert {"python", "tensorflow", "keras", "numpy", "ale-py", "processor", "cores", "threads", "gpus"} <= set(machine)
    assert machine == describe_machine()
    assert "system" not in machine
    monkeypatch.setattr(module.Path, "read_text", lambda *_, **__: "processor : 0\nmodel name\t: Brand X\n")
    assert describe_machine()["processor"] == "Brand X"

    def missing(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr(module.Path, "read_text", missing)
    assert describe_machine()["processor"]


class Environments:
    def __init__(self, reason):
        self.reason = reason

    def why_inexact(self):
        return self.reason


def test_what_can_not_be_exact_is_told(monkeypatch):
    import tensorflow as tf

    assert why_inexact(Environments(None)) == []
    assert why_inexact(Environments("Mine has no get_state and set_state")) == [
        "Mine has no get_state and set_state, episodes begin anew"
    ]
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["GPU:0"])
    assert why_inexact(Environments(None)) == ["a GPU adds up in another order each time"]


def test_what_has_another_text_in_each_process_is_not_compared(tmp_path):
    told = settings("toy", {"f": lambda: 0, "s": {"a", "b"}, "n": [1, object()], "p": tmp_path, "k": 1})
    assert told == {"rundef": "toy", "p": str(tmp_path), "k": 1}
