"""dqn-evaluate: what it prints, that it only reads, and one line for what is wrong."""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import toy_async_rundef

from dqn_lab import cli, run_evaluation
from dqn_lab.checkpoint import save_agent
from dqn_lab.evaluation import evaluate

ROOT = Path(__file__).resolve().parent.parent
SMALL = {
    "replay_min_steps": 40,
    "updates_per_epoch": 5,
    "evaluation_episodes": 4,
    "initial_states": 0,
    "initial_states_dir": "none",
    "keep_weights": "all",
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Catch: evaluated after 60 and 80 steps, its end a checkpoint after 88."""
    folder = tmp_path_factory.mktemp("runs") / "catch"
    settings = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    assert cli.train(["catch", "--run-dir", str(folder), "--updates", "12", *settings]) == 0
    return folder


@pytest.fixture
def copied(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "copy" / "run")


def run(capsys, *words):
    """Exit code and streams of the command."""
    capsys.readouterr()
    try:
        code = cli.evaluate([str(word) for word in words])
    except SystemExit as end:
        code = end.code
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def found(capsys, *words):
    """What it prints with --json."""
    code, out, err = run(capsys, *words, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def refused(capsys, code, *words):
    got, out, err = run(capsys, *words)
    assert (got, out) == (code, "")
    assert err.startswith("dqn-evaluate: error: ")
    assert err.count("\n") == 1
    return err


def contents(folder):
    digests = {}
    for path in sorted(folder.rglob("*")):
        data = path.read_bytes() if path.is_file() else b""
        digests[path.relative_to(folder)] = (path.stat().st_mtime_ns, hashlib.sha256(data).hexdigest())
    return digests


def test_help_is_quick_and_has_examples():
    code = (
        "import sys; from dqn_lab import cli\ntry: cli.evaluate(['--help'])\n"
        "finally: print([m for m in ('tensorflow', 'keras', 'gymnasium', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\n[]\n")
    assert done.stdout.count("\n  dqn-evaluate runs/") == 2
    options = "--which --episodes --frames --protocol --epsilon --seed --num-envs --json --verbose"
    assert all(option in done.stdout for option in options.split())


def test_the_best_agent_plays_thirty_games_of_the_runs_rules(capsys, trained):
    told = found(capsys, trained)
    best = json.loads((trained / "best" / "manifest.json").read_text())["counters"]
    assert (told["which"], told["steps"], told["run_directory"]) == ("best", best["steps"], str(trained))
    assert (told["episodes"], told["protocol"], told["epsilon"], told["seed"]) == (30, "classic-control", 0.0, 0)
    assert told["lengths"] == [9] * 30
    assert (told["cut"], told["capped"], told["frames"]) == (0, 0, 270)
    assert told["human_normalized"] is None
    again = found(capsys, trained, "--episodes", "4", "--num-envs", "1")
    assert again["returns"] == told["returns"][:4]
    assert again["mean"] == best["eval_return_mean"]  # the run's evaluation has its seed, 0


def test_the_games_depend_on_the_seed_and_not_on_the_lanes(capsys, trained):
    words = (trained, "--epsilon", "0.5", "--seed", "5")
    told = found(capsys, *words)
    assert found(capsys, *words, "--num-envs", "3") == told
    assert found(capsys, *words, "--seed", "6")["returns"] != told["returns"]
    assert told["protocol"] == "classic-control (evaluation epsilon 0.5)"
    assert told["interval"][0] < told["mean"] < told["interval"][1]


def test_lanes_are_as_many_as_in_the_runs_evaluations_but_no_more_than_games(capsys, trained, monkeypatch):
    lanes = []

    def playing(twin, **limits):
        lanes.append(twin.num_envs)
        return evaluate(twin, **limits)

    monkeypatch.setattr(run_evaluation, "evaluate", playing)
    for words in (["--episodes", "3"], ["--episodes", "40"], ["--frames", "20"], ["--num-envs", "50"]):
        assert run(capsys, trained, *words)[0] == 0
    assert lanes == [3, 32, 32, 30]


def test_as_many_games_as_fit_into_the_frames(capsys, trained):
    told = found(capsys, trained, "--frames", "30")
    assert (told["episodes"], told["cut"], told["frames"]) == (3, 1, 27)
    code, out, _ = run(capsys, trained, "--frames", "8")
    assert code == 0
    assert out.endswith("games     0 of seed 0; 1 cut, 0 capped\nreturn    none: no game was finished\n")


def test_people_get_aligned_lines(capsys, trained):
    code, out, err = run(capsys, trained, "--which", "88", "--episodes", "5")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    names = ["run", "agent", "protocol", "games", "return", "95%", "length"]
    assert [line[:10].rstrip() for line in lines] == names
    assert lines[1:4] == [
        "agent     that of 88 steps",
        "protocol  classic-control, epsilon 0",
        "games     5 of seed 0; 0 cut, 0 capped",
    ]


def test_all_that_was_kept_is_a_row_each(capsys, trained):
    told = found(capsys, trained, "--which", "all", "--episodes", "4")
    assert [one["steps"] for one in told] == [60, 80, 88]
    best = found(capsys, trained, "--episodes", "4")
    assert [one for one in told if one["which"] == "best"] == [best]
    assert told[2] == found(capsys, trained, "--which", "88", "--episodes", "4")
    code, out, _ = run(capsys, trained, "--which", "all", "--episodes", "4")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:-1]] == ["steps", "60", "80", "88"]


def test_a_save_that_a_run_removes_meanwhile_is_left_out(capsys, copied, monkeypatch):
    load = run_evaluation.load_snapshot

    def removing(directory, which):
        shutil.rmtree(copied / "checkpoints" / "88", ignore_errors=True)
        return load(directory, which)

    monkeypatch.setattr(run_evaluation, "load_snapshot", removing)
    code, out, err = run(capsys, copied, "--which", "all", "--episodes", "1", "--json")
    assert (code, err) == (0, "dqn-evaluate: 88 was removed meanwhile, and is left out\n")
    assert [one["steps"] for one in json.loads(out)] == [60, 80]


@pytest.mark.posix
def test_nothing_in_the_directory_is_changed_and_it_may_be_anywhere(capsys, trained, copied):
    expected = found(capsys, trained, "--epsilon", "0.2")
    folders = [copied, *(path for path in copied.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        before = contents(copied)
        assert found(capsys, copied, "--epsilon", "0.2") == expected | {"run_directory": str(copied)}
        assert run(capsys, copied, "--which", "all")[0] == 0
        assert contents(copied) == before
    finally:
        for folder in folders:
            folder.chmod(stat.S_IRWXU)


def test_where_there_is_no_best_the_latest_plays_and_a_line_says_so(capsys, copied):
    shutil.rmtree(copied / "best")
    code, out, err = run(capsys, copied, "--json")
    assert code == 0
    assert err == ("dqn-evaluate: no evaluation of this run has been saved as its best: its newest checkpoint plays\n")
    assert (json.loads(out)["which"], json.loads(out)["steps"]) == ("latest", 88)
    assert "No evaluation of this run has been saved" in refused(capsys, 1, copied, "--which", "best")


def test_an_asynchronous_runs_agent_draws_its_actions(capsys, tmp_path):
    made = toy_async_rundef.run(method="a3c", evaluation_period_epochs=0)
    save_agent(tmp_path / "checkpoints" / "60", made.agent, {"steps": 60})
    config = made.config("toy_async", toy_async_rundef.__file__)
    (tmp_path / "config.json").write_text(json.dumps(config, default=str))
    told = found(capsys, tmp_path, "--which", "latest", "--num-envs", "2")
    assert (told["steps"], told["epsilon"]) == (60, 0.0)
    assert found(capsys, tmp_path, "--which", "60")["returns"] == told["returns"]


@pytest.fixture(scope="module")
def breakout(tmp_path_factory):
    """An agent on Breakout that has learnt nothing, under rules of its own."""
    from rundefs import atari_dqn

    folder = tmp_path_factory.mktemp("atari") / "breakout"
    small = {"num_envs": 1, "replay_min_steps": 40, "replay_capacity_steps": 400, "initial_states_dir": None}
    made = atari_dqn.run(game="ALE/Breakout-v5", protocol="dopamine", device="cpu", frame_skip=2, **small)
    save_agent(folder / "best", made.agent, {"steps": 9})
    (folder / "config.json").write_text(json.dumps(made.config("atari_dqn"), default=str))
    made.sequence.close()
    return folder


def test_a_game_of_atari_is_measured_by_people(capsys, breakout):
    told = found(capsys, breakout, "--protocol", "breakout-v0", "--epsilon", "1", "--episodes", "2")
    assert (told["protocol"], told["epsilon"]) == ("breakout-v0 (evaluation epsilon 1.0)", 1.0)
    assert told["human_normalized"] == pytest.approx((told["mean"] - 1.7) / 28.8)
    assert told["frames"] == 4 * sum(told["lengths"])
    told = found(capsys, breakout, "--frames", "30")
    assert (told["protocol"], told["cut"]) == ("dopamine (frame skip 2)", 1)
    assert "`frames` must be at least 2, those of one step. Received: frames=1" in refused(
        capsys, 1, breakout, "--frames", "1"
    )
    assert "must be one of Atari's" in refused(capsys, 1, breakout, "--protocol", "classic-control")


@pytest.mark.parametrize(
    ("code", "words", "rule"),
    [
        (2, ["--episodes", "0"], "argument --episodes: invalid whole number above 0 value: '0'"),
        (2, ["--episodes", "-3"], "argument --episodes: invalid whole number above 0 value: '-3'"),
        (2, ["--frames", "x"], "argument --frames: invalid whole number above 0 value: 'x'"),
        (2, ["--episodes", "3", "--frames", "9"], "not allowed with argument"),
        (2, ["--epsilon", "1.5"], "argument --epsilon: invalid number from 0 to 1 value: '1.5'"),
        (2, ["--epsilon", "nan"], "argument --epsilon: invalid number from 0 to 1 value: 'nan'"),
        (2, ["--seed", "-1"], "argument --seed: invalid whole number from 0 on value: '-1'"),
        (2, ["--num-envs", "0"], "argument --num-envs: invalid whole number above 0 value: '0'"),
        (1, ["--protocol", "natur-2015"], "did you mean 'nature-2015'? Received: protocol='natur-2015'"),
        (1, ["--protocol", "dopamine"], "must be one of classic control's"),
        (1, ["--which", "newest"], "best, latest or the steps of a kept save. Received: which='newest'"),
        (1, ["--which", "7"], "Nothing was kept at 7 steps; kept: 60, 80, 88. Received: which='7'"),
    ],
)
def test_wrong_usage_is_one_line(capsys, trained, code, words, rule):
    assert rule in refused(capsys, code, trained, *words)


def test_a_directory_that_is_no_run_is_one_line(capsys, tmp_path):
    for folder in (tmp_path / "none", tmp_path):
        assert "A run directory has a config.json. Received: " in refused(capsys, 1, folder)
    assert "the following arguments are required: RUN_DIR" in refused(capsys, 2)
    (tmp_path / "config.json").write_text('{"model": "another program\'s"}')
    assert "config.json isn't that of a run. Received: " in refused(capsys, 1, tmp_path)
    (tmp_path / "config.json").write_text('{"rundef": "catch", "arguments": {}}')
    assert "This run has saved no checkpoint. Received: " in refused(capsys, 1, tmp_path)
    assert "This run has saved nothing. Received: " in refused(capsys, 1, tmp_path, "--which", "all")
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / "manifest.json").write_text('{"of": "another program"}')
    assert "manifest.json isn't the file that was saved." in refused(capsys, 1, tmp_path)


def test_a_broken_agent_is_one_line(capsys, copied):
    (copied / "best" / "agent.keras").write_bytes(b"broken")
    for words in ([], ["--which", "all"]):
        assert "agent.keras isn't the file that was saved. Received: " in refused(capsys, 1, copied, *words)


def test_a_rundef_that_is_gone_is_one_line(capsys, copied):
    config = json.loads((copied / "config.json").read_text())
    gone = config | {"rundef": "vanished", "rundef_file": str(copied / "vanished.py")}
    (copied / "config.json").write_text(json.dumps(gone))
    assert "The rundef of this run is gone: put its file back. Received: " in refused(capsys, 1, copied)
    changed = config | {"arguments": config["arguments"] | {"speed": 1}}
    (copied / "config.json").write_text(json.dumps(changed))
    assert "The rundef of this run isn't as it was: catch has no such key" in refused(capsys, 1, copied)
    (copied / "config.json").write_text(json.dumps({"rundef": "catch"}))
    assert "config.json isn't that of a run. Received: " in refused(capsys, 1, copied)


def test_verbose_shows_the_traceback(capsys, tmp_path):
    code, _, err = run(capsys, tmp_path, "--verbose")
    assert code == 1
    assert err.startswith("Traceback (most recent call last):\n")


@contextlib.contextmanager
def terminal(monkeypatch):
    """Makes the standard errors' stream a terminal; what it shows is in the list by the end."""
    import pty

    outer, inner = pty.openpty()
    shown, data = [], b""
    with monkeypatch.context() as patched, open(inner, "w", encoding="utf-8") as stream:
        patched.setenv("TERM", "xterm")
        patched.setattr(sys, "stderr", stream)
        yield shown
    with open(outer, "rb", buffering=0) as stream, contextlib.suppress(OSError):  # as it ends on Linux
        while part := stream.read(65_536):
            data += part
    shown.append(data.decode())


@pytest.mark.posix
def test_a_terminal_shows_how_far_it_is_and_the_figures_go_to_stdout_alone(capsys, trained, monkeypatch):
    with terminal(monkeypatch) as lines:
        assert cli.evaluate([str(trained), "--episodes", "4", "--which", "all"]) == 0
    out, (shown,) = capsys.readouterr().out, lines
    assert all(f"{steps} steps: 0 of 4 games, 0 steps" in shown for steps in (60, 80, 88))
    assert shown.endswith("\x1b[2K")  # the line is wiped
    assert "of 4 games" not in out
    assert "\x1b" not in out


@pytest.mark.posix
def test_frames_are_counted_where_they_are_the_limit(trained, monkeypatch):
    with terminal(monkeypatch) as lines:
        assert cli.evaluate([str(trained), "--frames", "90"]) == 0
    assert "best: 0 of 90 frames" in lines[0]


@pytest.mark.posix
def test_json_shows_nothing_else_on_a_terminal_either(capsys, trained, monkeypatch):
    with terminal(monkeypatch) as lines:
        assert cli.evaluate([str(trained), "--episodes", "4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["episodes"] == 4
    assert lines == [""]


@pytest.mark.posix
def test_ctrl_c_wipes_the_line_that_shows_how_far_it_is(trained, monkeypatch):
    def interrupted(twin, watch, **limits):
        watch()
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(run_evaluation, "evaluate", interrupted)
    with terminal(monkeypatch) as lines:
        assert cli.evaluate([str(trained)]) == 130
    assert "best: 0 of 30 games" in lines[0]
    assert lines[0].endswith("\x1b[2Kdqn-evaluate: interrupted\r\n")


@pytest.mark.posix
def test_ctrl_c_is_one_line_and_130(capsys, trained, monkeypatch):
    monkeypatch.setattr(run_evaluation, "evaluate", lambda twin, **limits: os.kill(os.getpid(), signal.SIGINT))
    assert run(capsys, trained) == (130, "", "dqn-evaluate: interrupted\n")
