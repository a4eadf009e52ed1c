"""The commands: one line for what is wrong, an exit code, and for dqn-train Ctrl-C that saves."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dqn_lab import cli, memory
from dqn_lab.checkpoint import check_checkpoint

TESTS = Path(__file__).resolve().parent
TOY = str(TESTS / "toy_rundef.py")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """What a command leaves behind in the present folder is seen, and is gone afterwards."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(TESTS.parent))
    return folder


def run(capsys, *words, command=cli.train):
    """Exit code and streams of a command in this process."""
    try:
        code = command([str(word) for word in words])
    except SystemExit as end:
        code = end.code
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def refused(capsys, code, *words, command=cli.train):
    """The one line that a command is refused with."""
    got, out, err = run(capsys, *words, command=command)
    assert got == code
    lines = err.splitlines()
    assert len(lines) == 1, err
    begin = f"dqn-{command.__name__}: error: "
    assert lines[0].startswith(begin)
    assert command is cli.train or out == ""
    return lines[0].removeprefix(begin)


def write(tmp_path, text, name="broken.py"):
    path = tmp_path / name
    path.write_text(text)
    return path


# Help.


@pytest.mark.parametrize("command", ["train", "benchmark"])
def test_help_imports_neither_tensorflow_nor_keras_nor_gymnasium(command):
    code = (
        f"import sys; from dqn_lab import cli; code = cli.{command}(sys.argv[1:]);"
        "print(code, [m for m in ('tensorflow', 'keras', 'gymnasium') if m in sys.modules])"
    )
    for words in (["--help"], ["cartpole_v1", "--help"], [TOY, "--help"]):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
        assert done.stdout.endswith("\n0 []\n")
        assert done.stderr == ""


def test_help_names_the_options_and_the_rundefs(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    words = "--run-dir --set --updates --steps --minutes --fresh --check --verbose".split()
    assert all(word in out for word in words)
    names = "acrobot_v1, atari_async, atari_dqn, breakout_fast, breakout_v0, cartpole_async, cartpole_v0, cartpole_v1"
    assert f"rundefs: {names}, catch, catch_async, dopamine_dqn, mountaincar_v0, pong_fast\n" in out


def test_the_benchmarks_help_names_its_options_and_choices(capsys):
    code, out, _ = run(capsys, "--help", command=cli.benchmark)
    assert code == 0
    assert all(word in out for word in "--set --what --seconds --json --verbose".split())
    assert "{simulation,acting,sampling,update,train,soak,checkpoint,scaling,sharing,all}" in out


@pytest.mark.parametrize("command", [cli.train, cli.benchmark])
def test_a_rundefs_help_lists_its_keys(capsys, command):
    code, out, _ = run(capsys, TOY, "--help", command=command)
    assert code == 0
    assert "\n  replay_capacity_steps=400  [steps]\n" in out
    assert "\n      the environment never returns from this step\n" in out


def test_the_family_of_commands_is_listed(capsys):
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert "dqn-train  trains what a rundef says" in out
    assert "dqn-benchmark  measures speed and memory" in out
    assert cli.main([]) == 0
    assert cli.main(["dqn-fly"]) == 2
    assert f"commands are {', '.join(cli.COMMANDS)}. Received: dqn-fly" in capsys.readouterr().err
    assert cli.main(["dqn-train", "--help"]) == 0


# Wrong usage: 2. Anything else that is wrong: 1.


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ([], "a rundef is needed: one of acrobot_v1, "),
        ([TOY, "--sett", "seed=1"], "unrecognized arguments: --sett"),
        ([TOY, "--updates", "0"], "argument --updates: invalid whole number above 0 value: '0'"),
        ([TOY, "--steps", "1.5"], "argument --steps: invalid whole number above 0 value: '1.5'"),
        ([TOY, "--minutes", "-1"], "argument --minutes: invalid number above 0 value: '-1'"),
        ([TOY, "--minutes", "nan"], "argument --minutes: invalid number above 0 value: 'nan'"),
        ([TOY, "--updates", "3", "--steps", "3"], "not allowed with argument --updates"),
        ([TOY, "--set", "sed=1"], "has no such key; the closest is 'seed'. Received: sed"),
        ([TOY, "--set", "seed=one"], "seed must be an integer. Received: seed=one"),
        ([TOY, "--set", "seed"], "--set takes KEY=VALUE. Received: seed"),
        (["breakout_v1"], "the closest is 'breakout_v0'. Received: breakout_v1"),
        (["nowhere/toy.py"], "no such rundef file. Received: nowhere/toy.py"),
    ],
)
def test_a_wrong_usage_is_one_line_and_code_2(capsys, elsewhere, words, rule):
    assert rule in refused(capsys, 2, *words)
    assert os.listdir(elsewhere) == []


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ([], "a rundef is needed: one of acrobot_v1, "),
        ([TOY, "--what", "speed"], "argument --what: invalid choice: 'speed'"),
        ([TOY, "--seconds", "0"], "argument --seconds: invalid number above 0 value: '0'"),
        ([TOY, "--seconds", "nan"], "argument --seconds: invalid number above 0 value: 'nan'"),
        ([TOY, "--seconds", "1e400"], "argument --seconds: invalid number above 0 value: '1e400'"),
        ([TOY, "--run-dir", "x"], "unrecognized arguments: --run-dir x"),
        ([TOY, "--set", "sed=1"], "has no such key; the closest is 'seed'. Received: sed"),
        (["breakout_v1", "--json"], "the closest is 'breakout_v0'. Received: breakout_v1"),
    ],
)
def test_a_wrong_usage_of_the_benchmark_is_one_line_and_code_2(capsys, elsewhere, words, rule):
    assert rule in refused(capsys, 2, *words, command=cli.benchmark)
    assert os.listdir(elsewhere) == []


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        (["boom_at_step=30"], "RuntimeError: boom (--verbose shows where)"),
        (["replay_min_steps=1000"], "`replay_min_steps` must not exceed `replay_capacity_steps`"),
    ],
)
def test_what_goes_wrong_in_a_benchmark_is_one_line_and_code_1(capsys, elsewhere, settings, rule):
    words = [word for setting in settings for word in ("--set", setting)]
    assert rule in refused(capsys, 1, TOY, "--json", "--seconds", "0.1", *words, command=cli.benchmark)
    assert os.listdir(elsewhere) == []


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("import nothing_of_that_name", "a rundef must import (ModuleNotFoundError: No module"),
        ("x = 1", "a rundef needs a function `run(*, ...) -> Run`. Received: "),
        ("def run(): return 3", "must return a dqn_lab.Run"),
        ("def run(): return 3", "Received: int"),
        ("def run(): raise RuntimeError('of\\ntwo lines')", "RuntimeError: of two lines (--verbose shows where)"),
        ("def run(): raise MemoryError", "MemoryError"),
        ("def run(): raise OSError(28, 'No space left on device')", "No space left on device"),
    ],
)
def test_a_rundef_that_cannot_be_used_is_one_line_and_code_1(capsys, elsewhere, tmp_path, text, rule):
    assert rule in refused(capsys, 1, write(tmp_path, text))
    assert os.listdir(elsewhere) == []


def test_verbose_shows_the_traceback(capsys, tmp_path):
    path = write(tmp_path, "def run(): raise RuntimeError('oh')")
    code, _, err = run(capsys, path, "--verbose")
    assert code == 1
    assert err.startswith("Traceback (most recent call last):\n")
    assert err.endswith("dqn-train: error: RuntimeError: oh\n")


@pytest.mark.case("B014")
def test_a_replay_larger_than_the_memory_is_refused_before_anything_is_made(capsys, elsewhere, monkeypatch):
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: 2**30)
    line = refused(capsys, 1, "breakout_v0", "--set", "device=cpu", "--set", "replay_compression=none")
    assert "6.57 GiB" in line or "6.6" in line
    assert "1.00 GiB" in line
    assert "replay_capacity_steps=" in line.split("Received")[0]
    assert os.listdir(elsewhere) == []


PENDULUM = """
import gymnasium
from dqn_lab.assembly import Assembly

def run(*, protocol="classic-control", replay_capacity_steps=400, replay_min_steps=40,
        updates_per_epoch=10, train_period_steps=4, batch_size=8, epsilon_start=1.0,
        epsilon_end=0.1, epsilon_steps=10, device="cpu"):
    assembly = Assembly(locals())
    assembly.environment_sequence(lambda: gymnasium.make("Pendulum-v1"))
    raise AssertionError("a network would be built now")
"""


@pytest.mark.case("B079")
def test_continuous_actions_are_refused_before_anything_is_built(capsys, elsewhere, tmp_path):
    line = refused(capsys, 1, write(tmp_path, PENDULUM))
    assert "Pendulum-v1" in line
    assert "Box" in line
    assert "Discrete" in line
    assert os.listdir(elsewhere) == []


@pytest.mark.case("B126")
def test_a_missing_ale_py_is_one_line_that_says_what_to_install(capsys, elsewhere, monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    words = ["--set", "game=ALE/Breakout-v5", "--set", "protocol=dopamine", "--set", "device=cpu"]
    assert "pip install ale-py" in refused(capsys, 1, "atari_dqn", *words)
    assert os.listdir(elsewhere) == []


def test_an_id_against_the_protocol_is_refused_with_both_values(capsys):
    words = ["--set", "game=ALE/Breakout-v5", "--set", "device=cpu"]
    line = refused(capsys, 1, "atari_dqn", *words)
    assert "0.25" in line
    assert "0.0" in line
    assert "nature-2015" in line


def test_a_directory_with_a_run_or_inside_a_file_is_refused(capsys, tmp_path):
    used = tmp_path / "used"
    used.mkdir()
    (used / "config.json").write_text("{}")
    line = refused(capsys, 1, TOY, "--run-dir", used)
    assert "--run-dir" in line
    assert "--fresh" in line
    (tmp_path / "file").write_text("")
    assert "can't be in a file" in refused(capsys, 1, TOY, "--run-dir", tmp_path / "file" / "toy")


def test_a_place_that_cannot_be_written_is_one_line(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "must be writable" in refused(capsys, 1, TOY, "--run-dir", tmp_path / "toy")


def test_an_environment_that_raises_is_one_line_and_its_traceback_is_in_the_log(capsys, tmp_path):
    words = ["--run-dir", tmp_path / "toy", "--set", "boom_at_step=30", "--updates", "50"]
    assert refused(capsys, 1, TOY, *words) == "RuntimeError: boom (--verbose shows where)"
    log = (tmp_path / "toy" / "log.txt").read_text()
    assert "Traceback (most recent call last):" in log
    assert log.endswith("dqn-train: error: RuntimeError: boom (--verbose shows where)\n")


# What it does.


def test_a_run_trains_and_ends_by_itself(capsys, tmp_path, elsewhere):
    code, out, err = run(capsys, TOY, "--set", "seed=4", "--updates", "12")
    assert (code, err) == (0, "")
    folder = elsewhere / "runs" / "toy_rundef-seed4"
    config = json.loads((folder / "config.json").read_text())
    assert (config["rundef"], config["arguments"]["seed"]) == ("toy_rundef", 4)
    assert config["totals"] == {"steps": "inf", "updates": 12, "minutes": "inf"}
    assert (folder / "log.txt").read_text() == out
    assert out.startswith("Replay memory: ")
    # The same command again says that it is finished, another one is refused, --fresh puts the first run aside.
    code, out, err = run(capsys, TOY, "--set", "seed=4", "--updates", "12")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1].startswith("this run is finished: 12 updates, 88 steps, ")
    other = refused(capsys, 1, TOY, "--set", "seed=4", "--set", "learning_rate=0.5")
    assert "other settings: learning_rate 0.001 -> 0.5. " in other
    code, out, _ = run(capsys, TOY, "--set", "seed=4", "--steps", "60", "--fresh")
    assert code == 0
    assert "the run that was there is now runs/toy_rundef-seed4.old-1\n" in out
    assert sorted(os.listdir("runs")) == ["toy_rundef-seed4", "toy_rundef-seed4.old-1"]


def test_check_makes_no_directory(capsys, elsewhere):
    code, out, err = run(capsys, TOY, "--check")
    assert (code, err) == (0, "")
    assert "\ngradient norm: " in out
    assert os.listdir(elsewhere) == []


SIGNALLED = """
import sys
from dqn_lab import cli
from dqn_lab.run import Run

train = Run.train

def pausing_train(self, *arguments, **keywords):
    import keras  # not before the command has silenced TensorFlow

    class Pause(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if self.model.updates == 70:
                print("update 70", flush=True)
                sys.stdin.readline()

    return train(self, *arguments, callbacks=[Pause()], **keywords)

Run.train = pausing_train
sys.exit(cli.train(sys.argv[1:]))
"""


def start(*words):
    return subprocess.Popen(
        [sys.executable, "-c", SIGNALLED, TOY, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_until(process, text):
    for line in process.stdout:
        if text in line:
            return
    raise AssertionError(f"ended without {text!r}: {process.stderr.read()}")


@pytest.mark.case("B110")
@pytest.mark.posix
def test_the_first_signal_finishes_the_update_saves_and_exits_130(tmp_path):
    with start("--run-dir", tmp_path / "toy", "--set", "updates_per_epoch=50") as process:
        read_until(process, "update 70")
        process.send_signal(signal.SIGINT)
        read_until(process, "stopping after this update")
        process.stdin.write("go on\n")
        process.stdin.flush()
        rest, err = process.communicate()
        assert process.returncode == 130
    assert err == ""
    assert "stopped after 70 updates" in rest
    saved = sorted(os.listdir(tmp_path / "toy" / "checkpoints"), key=int)
    newest = check_checkpoint(tmp_path / "toy" / "checkpoints" / saved[-1])
    assert newest["counters"]["updates"] == 70
    # The epoch of updates 51 to 100 was broken off: one row, of the first.
    assert (tmp_path / "toy" / "progress.csv").read_text().count("\n") == 2


@pytest.mark.case("B110")
@pytest.mark.posix
def test_the_second_signal_ends_it_while_an_environment_hangs_in_step(tmp_path):
    with start("--run-dir", tmp_path / "toy", "--set", "hang_at_step=60") as process:
        read_until(process, "hanging")
        process.send_signal(signal.SIGTERM)
        read_until(process, "stopping after this update")
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130


@pytest.mark.posix
@pytest.mark.parametrize("words", ["dqn-train --help", "dqn-train catch --help", "dqn-benchmark --help"])
def test_help_may_be_read_in_part(words):
    script = f"{sys.executable} -m dqn_lab.cli {words} | head -n 1"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: dqn-")
    assert done.stderr == ""
