"""How a run ends that does not come to its total: nothing lost, nothing half made."""

import functools
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import keras
import pytest
import toy_rundef

from dqn_lab import memory
from dqn_lab.checkpoint import check_checkpoint, complete_checkpoints
from dqn_lab.replay.arena import Arena

TOY = str(Path(toy_rundef.__file__))


class Raising(keras.callbacks.Callback):
    """Raises behind an update."""

    def __init__(self, update, error):
        super().__init__()
        self.update, self.error = update, error

    def on_train_batch_end(self, batch, logs=None):
        if self.model.updates == self.update:
            raise self.error


@pytest.mark.parametrize("error", [RuntimeError("boom"), KeyboardInterrupt()])
def test_what_was_learnt_is_saved_when_something_raises(tmp_path, error, capsys):
    with pytest.raises(type(error)) as raised:
        toy_rundef.run(total_updates=50).train(tmp_path / "toy", callbacks=[Raising(7, error)])
    assert raised.value is error
    (saved,) = complete_checkpoints(tmp_path / "toy" / "checkpoints")
    assert check_checkpoint(saved)["counters"]["updates"] == 7
    assert "saved in" in capsys.readouterr().out


def test_an_environment_that_raises_in_training_costs_no_update(tmp_path):
    with pytest.raises(RuntimeError, match="boom"):
        toy_rundef.run(boom_at_step=60, total_updates=50, feeding="alternate").train(tmp_path / "toy")
    newest = complete_checkpoints(tmp_path / "toy" / "checkpoints")[-1]
    assert check_checkpoint(newest)["counters"]["updates"] == 19  # the fill took 20 decisions, each update 2


def test_an_error_before_the_first_update_leaves_its_log_and_no_run(tmp_path):
    with pytest.raises(RuntimeError, match="boom"):
        toy_rundef.run(boom_at_step=3).train(tmp_path / "toy")
    assert os.listdir(tmp_path / "toy") == ["log.txt"]
    assert toy_rundef.run(total_updates=1).train(tmp_path / "toy")
    assert (tmp_path / "toy" / "config.json").exists()


def test_ctrl_c_in_the_fill_leaves_nothing(tmp_path, monkeypatch):
    run = toy_rundef.run()

    def interrupted(progress):
        raise KeyboardInterrupt

    monkeypatch.setattr(run.sequence, "fill", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.train(tmp_path / "runs" / "toy")
    assert os.listdir(tmp_path / "runs") == []


def test_a_second_run_in_the_same_directory_is_refused_while_the_first_goes_on(tmp_path):
    refusals = []

    class Second(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if self.model.updates == 2:
                with pytest.raises(FileExistsError, match="a run is going on in this directory") as refused:
                    toy_rundef.run(total_updates=1).train(tmp_path / "toy", fresh=True)
                refusals.append(refused)

    assert toy_rundef.run(total_updates=4).train(tmp_path / "toy", callbacks=[Second()])
    assert len(refusals) == 1
    (saved,) = complete_checkpoints(tmp_path / "toy" / "checkpoints")
    assert check_checkpoint(saved)["counters"]["updates"] == 4


def command(*words, **options):
    code = "import sys; from dqn_lab import cli; sys.exit(cli.train(sys.argv[1:]))"
    return subprocess.Popen([sys.executable, "-c", code, *map(str, words)], text=True, **options)


def test_a_run_goes_on_when_nobody_reads_what_it_prints(tmp_path):
    with command(
        TOY, "--run-dir", tmp_path / "toy", "--updates", 25, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        error = process.stderr.read()
    assert (process.returncode, error) == (0, "")
    assert "ended after 25 updates" in (tmp_path / "toy" / "log.txt").read_text()


@pytest.mark.posix
def test_a_run_needs_no_standard_output(tmp_path):
    words = f"exec {sys.executable} -m dqn_lab.cli dqn-train {TOY} --run-dir {tmp_path / 'toy'} --updates 3 >&-"
    done = subprocess.run(["sh", "-c", words], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((tmp_path / "toy" / "config.json").read_text())["rundef"] == "toy_rundef"


@pytest.mark.posix
def test_sigterm_before_the_run_is_told_in_a_line(tmp_path):
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import threading\n"
        "def run(*, seed: int = 0):\n"
        "    print('building', flush=True)\n"
        "    threading.Event().wait()\n"
    )
    with command(slow, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdout.readline() == "building\n"
        process.send_signal(signal.SIGTERM)
        error = process.stderr.read()
    assert (process.returncode, error) == (130, "dqn-train: interrupted\n")
    assert os.listdir(tmp_path) == ["slow.py"]


def test_a_rundef_that_calls_exit_is_an_error(tmp_path):
    rundef = tmp_path / "leaving.py"
    rundef.write_text("import sys\ndef run(*, seed: int = 0):\n    sys.exit(0)\n")
    with command(rundef, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        error = process.stderr.read()
    assert process.returncode == 1
    assert error == "dqn-train: error: SystemExit: 0 (--verbose shows where)\n"


def test_an_evaluation_that_raises_costs_no_update(tmp_path, monkeypatch):
    run = toy_rundef.run(total_updates=20)

    def broken(epoch, logs=None):
        raise RuntimeError("no evaluation")

    monkeypatch.setattr(run.evaluation, "on_epoch_end", broken)
    with pytest.raises(RuntimeError, match="no evaluation"):
        run.train(tmp_path / "toy")
    (saved,) = complete_checkpoints(tmp_path / "toy" / "checkpoints")
    counters = check_checkpoint(saved)["counters"]
    assert (counters["updates"], counters["epochs"]) == (10, 0)  # the epoch's end is still to come
    continued = toy_rundef.run(total_updates=20)
    assert continued.train(tmp_path / "toy")
    assert continued.evaluation.complete_epochs == 2


def test_a_replay_that_outgrows_the_memory_ends_the_run_with_a_line_and_all_that_was_learnt(tmp_path, monkeypatch):
    left = iter([*[2**34] * 3, 2**20])  # to the run, to its fill, to its first chunk of frames, to its second
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: next(left))
    monkeypatch.setattr(Arena, "__init__", functools.partialmethod(_in_small_chunks, Arena.__init__))
    run = toy_rundef.run(replay_compression="lz4", replay_capacity_steps=4000, updates_per_epoch=100)
    with pytest.raises(MemoryError, match=r"it holds [\d,]+ steps in .*replay_capacity_steps would fit"):
        run.train(tmp_path / "toy")
    (saved,) = complete_checkpoints(tmp_path / "toy" / "checkpoints")
    assert check_checkpoint(saved)["counters"]["updates"] > 0
    assert not list(left)


def _in_small_chunks(self, original, chunk_bytes, before_growth):
    original(self, min(chunk_bytes, 400), before_growth)


def test_a_request_breaks_an_evaluation_off_which_is_made_when_the_run_goes_on(tmp_path, capsys):
    class Asks(keras.callbacks.Callback):
        """Sends the signal in the second epoch's evaluation, when its first step is made."""

        def __init__(self, evaluation):
            super().__init__()
            self.evaluation = evaluation

        def on_train_begin(self, logs=None):
            twin = self.evaluation._twin
            step, asked = twin.simulate_single, threading.Event()

            def simulate_single():
                step()
                if self.model.updates == 20 and not asked.is_set():
                    asked.set()
                    signal.raise_signal(signal.SIGINT)
                    while not self.evaluation.stop_requested():  # a thread of its own hears it
                        pass

            twin.simulate_single = simulate_single

    run = toy_rundef.run(total_updates=30)
    handler = signal.getsignal(signal.SIGINT)
    assert run.train(tmp_path / "toy", callbacks=[Asks(run.evaluation)]) is False
    assert signal.getsignal(signal.SIGINT) is handler
    out = capsys.readouterr().out
    assert "stopped after 20 updates" in out
    assert out.count("evaluation at") == 1
    assert (tmp_path / "toy" / "progress.csv").read_text().count("\n") == 2
    toy_rundef.run(total_updates=30).train(tmp_path / "toy")
    toy_rundef.run(total_updates=30).train(tmp_path / "whole")
    rows = [
        [row.split(",")[9:21] for row in (tmp_path / name / "progress.csv").read_text().splitlines()]
        for name in ("toy", "whole")
    ]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 4
