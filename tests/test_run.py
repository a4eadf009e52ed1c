"""Runs: assembled from arguments, carried out in a directory of their own, watched and saved."""

import json
import math
import os
import re
import subprocess
import sys

import keras
import numpy as np
import pytest
import toy_rundef
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from dqn_lab import DQN, EnvironmentSequence, Run, load_agent
from dqn_lab.checkpoint import check_checkpoint, read_agent
from dqn_lab.environments.catch import Catch
from dqn_lab.models.networks import mlp

KEYS = toy_rundef.run.__kwdefaults__


class Tape(keras.callbacks.Callback):
    """What a user's callback sees."""

    def __init__(self):
        super().__init__()
        self.logs = []

    def on_epoch_end(self, epoch, logs=None):
        self.logs.append(dict(logs))


def scalar_steps(folder, tag):
    events = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    events.Reload()
    return [one.step for one in events.Tensors(tag)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """One run of three epochs and a half, for all that can be read off a run."""
    folder = tmp_path_factory.mktemp("runs") / "toy"
    tape = Tape()
    run = toy_rundef.run(total_updates=35, evaluation_period_epochs=2, seed=3)
    ended = run.train(folder, callbacks=[tape], rundef="toy")
    return {"run": run, "folder": folder, "ended": ended, "tape": tape}


def test_a_run_ends_by_itself_at_its_total(trained):
    assert trained["ended"] is True
    assert trained["run"].agent.updates == 35
    assert trained["run"].sequence.steps == 40 + 35 * 4


def test_its_directory_has_everything_under_its_fixed_name(trained):
    names = sorted(os.listdir(trained["folder"]))
    assert [name for name in names if not name.startswith("events.out.tfevents")] == [
        ".lock",
        "best",
        "checkpoints",
        "config.json",
        "log.txt",
        "progress.csv",
        "replay",
    ]
    assert len(names) == 8


def test_config_json_tells_arguments_rules_and_versions(trained):
    config = json.loads((trained["folder"] / "config.json").read_text())
    assert config["format"] == 2
    assert config["rundef"] == "toy"
    assert set(config["arguments"]) == set(KEYS)
    assert config["arguments"]["seed"] == 3
    assert config["arguments"]["evaluation_max_steps"] == "inf"
    assert config["protocol"]["name"] == "classic-control"
    assert config["deviations"] == {}
    assert config["device"].startswith("cpu")
    assert config["feeding"] in ("alternate", "overlap")
    assert {"python", "tensorflow", "keras", "numpy"} <= set(config["versions"])
    assert "git_commit" in config


def test_rows_are_of_complete_epochs_and_the_checkpoint_is_of_the_end(trained):
    rows = (trained["folder"] / "progress.csv").read_text().splitlines()
    assert [row.split(",")[2] for row in rows] == ["updates", "10", "20", "30"]
    checkpoints = trained["folder"] / "checkpoints"
    assert sorted(os.listdir(checkpoints), key=int) == [str(40 + 35 * 4)]
    counters = check_checkpoint(checkpoints / "180")["counters"]
    assert (counters["updates"], counters["epochs"]) == (35, 3)
    assert "eval_return_mean" in check_checkpoint(trained["folder"] / "best")["counters"]


def test_a_checkpoint_is_the_agent(trained):
    agent = read_agent(trained["folder"] / "checkpoints" / "180")
    assert isinstance(agent, DQN)
    state = trained["run"].sequence[0]["state"]
    values = trained["run"].agent.q_values(state).numpy()
    assert (agent.q_values(state).numpy() == values).all()
    assert agent.updates == 35


_ACTS = """
import sys
import numpy as np
import dqn_lab

folder, which, states = sys.argv[1:]
agent = dqn_lab.load_agent(folder, which)
np.save(states.replace("states", which), agent.act(np.load(states)))
"""


def test_a_fresh_process_acts_by_the_best_or_latest_agent_of_a_run(trained, tmp_path):
    states = np.random.default_rng(0).random((64, *trained["run"].sequence.state_shape), np.float32)
    np.save(tmp_path / "states.npy", states)
    saved = {"best": trained["folder"] / "best", "latest": trained["folder"] / "checkpoints" / "180"}
    for which, checkpoint in saved.items():
        command = [sys.executable, "-c", _ACTS, str(trained["folder"]), which, str(tmp_path / "states.npy")]
        subprocess.run(command, check=True, timeout=600)
        values = read_agent(checkpoint).act_values(states)
        np.testing.assert_array_equal(np.load(tmp_path / f"{which}.npy"), values.argmax(axis=1))


def test_what_has_no_agent_is_told_in_a_line(tmp_path):
    with pytest.raises(ValueError, match="A run directory has a config.json. Received: run_directory="):
        load_agent(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="No evaluation .* which='latest' loads its newest checkpoint. Received: "):
        load_agent(tmp_path)
    with pytest.raises(ValueError, match="This run has saved no checkpoint. Received: "):
        load_agent(tmp_path, which="latest")
    with pytest.raises(ValueError, match="which.*Received: which='newest'"):
        load_agent(tmp_path, which="newest")


def test_a_users_callback_sees_measures_and_evaluation_as_floats(trained):
    logs = trained["tape"].logs
    assert len(logs) == 4  # Keras ends the broken-off epoch too
    for one in logs:
        assert {type(value) for value in one.values()} == {float}
        assert not any(math.isnan(value) for value in one.values())
        assert {"loss", "steps", "train_return_mean", "eval_return_mean"} <= set(one)
    assert logs[3]["updates"] == 30.0
    assert logs[1]["eval_return_mean"] == logs[2]["eval_return_mean"]  # epoch 2's


def test_the_start_says_what_it_runs_on_and_what_it_writes(trained):
    log = (trained["folder"] / "log.txt").read_text().splitlines()
    folder = trained["folder"]
    patterns = [
        r"device: cpu \(as asked\)",
        r"feeding: \w+ \(.+\)",
        r"protocol: classic-control",
        r"network: 435 parameters, float32",  # 50 x 8 + 8 + 8 x 3 + 3
        rf"writes: {folder} \(config\.json, log\.txt, progress\.csv, TensorBoard events, .+\)",
        r"saves: every 500,000 steps or 10 minutes and at the end; the same command continues the run \(exact\)",
        r"disk: up to about \d\S* MiB, \d\S* GiB are free",
        rf"watch: tensorboard --logdir {folder}",
        r"ends at: 35 updates",
    ]
    for line, pattern in zip(log, patterns, strict=False):
        assert re.fullmatch(pattern, line)
    assert re.fullmatch(r"ended after 35 updates, 180 steps, 180 frames, .* saved in .*", log[-1])


@pytest.mark.case("B117")
def test_five_epochs_print_few_lines_and_never_draw_one_anew(tmp_path, capsys):
    run = toy_rundef.run(total_updates=50, initial_states_dir=str(tmp_path / "states"))
    capsys.readouterr()
    run.train(tmp_path / "toy")
    out = capsys.readouterr().out
    assert "\r" not in out
    assert "\b" not in out
    assert out == (tmp_path / "toy" / "log.txt").read_text()
    lines = out.splitlines()
    progress = [line for line in lines if line.startswith("epoch ")]
    evaluation = [line for line in lines if line.startswith("evaluation ")]
    assert (len(progress), len(evaluation)) == (5, 5)
    assert len(lines) - len(progress) - len(evaluation) <= 15


@pytest.mark.case("B115")
def test_every_figure_of_an_epoch_is_over_agent_steps(tmp_path):
    run = toy_rundef.run(
        replay_min_steps=100,
        updates_per_epoch=100,
        total_updates=300,
        num_envs=4,
        train_period_steps=4,
        feeding="alternate",
    )
    run.train(tmp_path)
    for tag in (
        "train/loss",
        "rollout/exploration_rate",
        "rollout/ep_rew_mean",
        "eval/mean_reward",
        "time/fps",
    ):
        assert scalar_steps(tmp_path, tag) == [500, 900, 1300]


@pytest.mark.case("B114")
def test_keras_own_tensorboard_works_beside(tmp_path):
    run = toy_rundef.run(total_updates=20)
    own = keras.callbacks.TensorBoard(tmp_path / "keras")
    tape = Tape()
    run.train(tmp_path / "run", callbacks=[own, tape])
    assert scalar_steps(tmp_path / "keras" / "train", "epoch_loss") == [0, 1]
    assert {type(value) for logs in tape.logs for value in logs.values()} == {float}


@pytest.mark.case("B085")
def test_a_run_is_one_fit_and_never_predicts(tmp_path, monkeypatch):
    fits, fit = [], keras.Model.fit

    def counted(self, *arguments, **keywords):
        fits.append(self)
        return fit(self, *arguments, **keywords)

    def predict(self, *arguments, **keywords):
        raise AssertionError("predict was called")

    monkeypatch.setattr(keras.Model, "fit", counted)
    monkeypatch.setattr(keras.Model, "predict", predict)
    run = toy_rundef.run(total_updates=200, updates_per_epoch=50)
    run.train(tmp_path)
    assert run.agent.updates == 200
    assert fits == [run.agent]


@pytest.mark.case("B027")
def test_a_loss_that_is_not_finite_ends_the_run_and_keeps_the_last_good_save(tmp_path):
    class Diverging(DQN):
        def example_losses(self, batch):
            losses = super().example_losses(batch)  # [B]
            diverged = keras.ops.cast(self.update_count >= 4, "float32")
            return losses / (1.0 - diverged)  # [B]

    sequence = EnvironmentSequence(
        Catch, replay_capacity_steps=400, replay_min_steps=40, updates_per_epoch=1, epsilon=1.0
    )
    network = mlp(sequence.state_shape, sequence.num_actions, hidden=(8,))
    agent = Diverging(network, target_period_updates=5)
    agent.compile(optimizer="sgd")
    with pytest.raises(FloatingPointError, match="update 5"):
        Run(sequence, agent, total_updates=20, checkpoint_period_steps=4).train(tmp_path)
    checkpoints = sorted(os.listdir(tmp_path / "checkpoints"), key=int)
    newest = check_checkpoint(tmp_path / "checkpoints" / checkpoints[-1])
    assert newest["counters"]["updates"] == 4


@pytest.mark.parametrize(
    ("totals", "updates"),
    [
        ((None, None, None), 7),
        ((None, 3, None), 3),
        ((None, 30, None), 30),
        ((40 + 12, None, None), 3),
        ((40 + 13, None, None), 4),
        ((10, None, None), 1),
        ((math.inf, math.inf, None), math.inf),
    ],
)
def test_a_total_that_is_given_takes_the_place_of_the_rundefs(totals, updates):
    run = toy_rundef.run(total_updates=7, evaluation_period_epochs=0)
    assert run.evaluation is None
    assert run._totals(*totals).updates == updates


def test_minutes_end_a_run_that_has_no_other_total(tmp_path):
    run = toy_rundef.run(evaluation_period_epochs=0)
    assert run.train(tmp_path, minutes=1e-9) is True
    assert run.agent.updates == 1


def test_a_total_must_be_above_0(tmp_path):
    with pytest.raises(ValueError, match="`total_steps` must be above 0. Received: total_steps=0"):
        toy_rundef.run(total_steps=0)
    run = toy_rundef.run()
    with pytest.raises(ValueError, match="`total_minutes` must be above 0. Received: .*=-1"):
        run.train(tmp_path / "toy", minutes=-1)
    assert not (tmp_path / "toy").exists()


def test_another_runs_directory_is_left_alone_or_put_aside(trained, capsys, tmp_path):
    run = toy_rundef.run(total_updates=1)
    with pytest.raises(ValueError, match=r"other settings: seed 3 -> 0\. .*--fresh"):
        run.train(trained["folder"])
    assert capsys.readouterr().out == ""  # nothing was announced that then doesn't happen
    run.train(tmp_path / "toy")
    toy_rundef.run(total_updates=1).train(tmp_path / "toy", fresh=True)
    said = f"the run that was there is now {tmp_path / 'toy.old-1'}\n"
    assert said in capsys.readouterr().out
    assert said in (tmp_path / "toy" / "log.txt").read_text()


def test_check_looks_at_everything_and_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run, lines = toy_rundef.run(), []
    before = [weight.numpy().copy() for weight in run.agent.weights]
    run.check(lines.append)
    text = "\n".join(lines)
    for pattern in (
        r"^device: cpu",
        r"hidden_1 \(Dense\)",
        r"\n  state: float32 \(8, 10, 5, 1\), 0 to 1, mean 0\.04\n",
        r"\n  action: int32 \(8,\), ",
        r"\n  index: int64 \(8,\), ",
        r"\npredictions: \S+ to \S+, mean \S+\n",
        r"\ntargets: \S+ to \S+, mean \S+\n",
        r"\nloss: \d",
        r"\n  hidden_1/kernel: \d\S*, \d",
        r"\ngradient norm: \d\S*$",
    ):
        assert re.search(pattern, text), pattern
    assert all((one == two.numpy()).all() for one, two in zip(before, run.agent.weights, strict=True))
    assert run.agent.updates == 0
    assert os.listdir(tmp_path) == []


def test_check_says_when_the_loss_is_not_finite():
    run = toy_rundef.run()
    weights = run.agent.network.get_weights()
    run.agent.network.set_weights([one * math.nan for one in weights])
    with pytest.raises(FloatingPointError, match="must be finite. Received: loss=nan"):
        run.check(lambda line: None)


def test_a_request_during_the_fill_ends_it_with_nothing_to_save(tmp_path):
    from dqn_lab.transcript import Transcript

    class Requested:
        requested = True

    run = toy_rundef.run()
    with Transcript() as transcript, pytest.raises(KeyboardInterrupt, match="nothing was learnt"):
        run._fill(transcript, Requested())
    assert run.sequence.steps < 40
