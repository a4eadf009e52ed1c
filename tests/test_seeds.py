"""`dqn-train --seeds`: what begins when, on which cores, what is said, and how all of it ends.

Most tests put a fake in the place of the child's training, which does in a blink what the seed's key `acts` says.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from test_cli import TESTS, TOY, elsewhere, refused

from dqn_lab import cli, seed_process
from dqn_lab.seed_process import core_numbers
from dqn_lab.seeds import share_cores, worst_code

__all__ = ["elsewhere"]  # a fixture of this file too

RUNDEF = "def run(*, seed: int = 0, acts: str = ''):\n    raise AssertionError('the parent builds nothing')\n"

FAKE = """
import os, signal, sys, threading
from pathlib import Path
from dqn_lab import interruption, seed_process
from dqn_lab.interruption import Interruption

def train(words):
    print("words", *words)
    seed = int(next(word for word in words if word.startswith("--set=seed=")).split("=")[2])
    acts = next((word for word in words if word.startswith("--set=acts=")), "--set=acts=").split("=")[2]
    directory = Path(next(word for word in words if word.startswith("--run-dir=")).split("=")[1])
    act = (acts.split(",") + [""] * 10)[seed]
    directory.mkdir(parents=True)
    (directory / "progress.csv").write_text(f"steps,minutes,eval_return_mean\\n100,0.5,{seed + 1}\\n")
    if act in ("wait", "hang", "outlast"):
        return wait(act)
    if act == "lines":
        for part in ("one ", "line\\nanother line\\n", "no end"):
            print(part, end="", flush=True)
        os.write(2, b"straight\\n")
    if act == "cores":
        print("uses", *seed_process.core_numbers())
    if act == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if act == "error":
        print("what is wrong", file=sys.stderr)
        return 1
    return 0

def wait(act):
    if act == "outlast":
        interruption._ONE_REQUEST_SECONDS = 600
    watching = [thread for thread in threading.enumerate() if thread.name == "standard input"]
    asked = threading.Event()
    with Interruption(end_process=True, on_first=asked.set):
        print("waiting", os.getpid())
        asked.wait()
        print("asked")
        if act == "hang":
            threading.Event().wait(60)
        if act == "outlast":
            watching[0].join()
            print("outlasted")
    print("saved")
    return 130
"""


@pytest.fixture(autouse=True)
def fake(tmp_path, monkeypatch):
    """The child trains by `FAKE`; returns the path of a rundef for it."""
    folder = tmp_path / "fake"
    folder.mkdir()
    (folder / "fake_training.py").write_text(FAKE)
    (folder / "acting.py").write_text(RUNDEF)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(
        seed_process, "_CHILD", seed_process._CHILD.replace("dqn_lab.cli import", "fake_training import")
    )
    return str(folder / "acting.py")


def train(capfd, *words):
    """Exit code, standard output and standard error of a command and its children, as lines."""
    code = cli.train([str(word) for word in words])
    printed = capfd.readouterr()
    return code, printed.out.splitlines(), printed.err.splitlines()


PARENT = """
import sys
from dqn_lab import cli, seed_process
seed_process._CHILD = seed_process._CHILD.replace("dqn_lab.cli import", "fake_training import")
sys.exit(cli.train(sys.argv[1:]))
"""


@contextlib.contextmanager
def started(fake, *words):
    """The command in a process that has a group of its own, as a terminal's foreground has; fit for signals."""
    paths = os.pathsep.join([str(Path(fake).parent), str(TESTS.parent)])
    with subprocess.Popen(
        [sys.executable, "-u", "-c", PARENT, fake, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": paths},
        start_new_session=True,
    ) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def read_until(process, *texts):
    """Lines up to the one that completes all the texts."""
    lines, missing = [], list(texts)
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        missing = [text for text in missing if text not in line]
        if not missing:
            return lines
    raise AssertionError(f"ended without {missing}: {lines} {process.stderr.read()}")


def words_of(lines, seed):
    """What the fake of a seed was called with."""
    found = [line.partition("words ")[2].split() for line in lines if "words " in line and f"--set=seed={seed}" in line]
    (words,) = found
    return words


# One after the other, or beside each other.


def test_seeds_train_in_turn_each_by_the_same_command_in_a_directory_of_its_own(fake, capfd, elsewhere):
    code, out, err = train(
        capfd,
        fake,
        "--seeds",
        "3,1",
        "--set",
        "acts=lines",
        "--updates",
        "7",
        "--fresh",
        "--verbose",
        "--run-dir",
        "d x",
    )
    assert (code, err) == (0, [])
    assert [line for line in out if line.startswith("seed ")][:2] == [
        "seed 3: 1 of 2, in d x/seed3",
        "seed 1: 2 of 2, in d x/seed1",
    ]
    assert " ".join(words_of(out, 3)) == (
        f"{fake} --set=acts=lines --set=seed=3 --updates=7 --run-dir=d x/seed3 --fresh --verbose"
    )
    assert [line.split() for line in out[-5:-3]] == [
        ["3", "100", "0.5", "4.00", "4.00", "ended"],
        ["1", "100", "0.5", "2.00", "2.00", "ended"],
    ]
    assert out[-1] == "95%: Student's t interval of the mean, seeds with a score: 2 of 2"


def test_without_a_directory_each_seed_has_its_usual_one(fake, capfd, elsewhere):
    code, out, _ = train(capfd, fake, "--seeds", "0,5", "--minutes", "0.5")
    assert code == 0
    assert sorted(os.listdir("runs")) == ["acting-seed0", "acting-seed5"]
    assert words_of(out, 5)[1:] == ["--set=seed=5", "--minutes=0.5", "--run-dir=runs/acting-seed5"]


def test_one_at_a_time_writes_straight_to_this_output_and_beside_each_other_by_whole_lines_with_the_seed(fake, capfd):
    _, out, err = train(capfd, fake, "--seeds", "0", "--set", "acts=lines", "--run-dir", "a")
    assert ("one line" in out, "another line" in out, err) == (True, True, ["straight"])
    _, out, err = train(capfd, fake, "--seeds", "0,1", "--jobs", "2", "--set", "acts=lines,lines", "--run-dir", "b")
    of_seeds = out[1 : out.index("seed  steps  minutes     last     best  run")]
    for seed in (0, 1):
        mine = [line.removeprefix(f"seed {seed}: ") for line in of_seeds if line.startswith(f"seed {seed}: ")]
        assert mine[0].endswith(f", in b/seed{seed}")
        assert mine[2:] == ["one line", "another line", "no end"]
    assert len(of_seeds) == 10
    assert sorted(err) == ["seed 0: straight", "seed 1: straight"]


def test_jobs_train_at_the_same_time_on_cores_of_their_own(fake, monkeypatch, capfd):
    monkeypatch.setattr("dqn_lab.seeds.core_numbers", lambda: [0, 1])
    code, out, _ = train(capfd, fake, "--seeds", "0,1", "--jobs", "9", "--run-dir", "a")
    assert code == 0
    assert out[0] == "2 jobs on 2 cores: 1 each"
    assert "seed 1: 2 of 2 on 1 core, in a/seed1" in out
    monkeypatch.setattr("dqn_lab.seeds.core_numbers", lambda: [])
    _, out, _ = train(capfd, fake, "--seeds", "0,1", "--jobs", "2", "--run-dir", "b")
    assert out[0].endswith("which this system can't share out: each uses all")
    assert "seed 1: 2 of 2, in b/seed1" in out


@pytest.mark.affinity
def test_a_childs_process_is_tied_to_its_cores(fake, capfd):
    cores = core_numbers()
    _, out, _ = train(capfd, fake, "--seeds", "0,1", "--jobs", "2", "--set", "acts=cores,cores", "--run-dir", "a")
    for seed, share in enumerate(share_cores(cores, 2)):
        assert f"seed {seed}: uses {' '.join(map(str, share))}" in out
    assert core_numbers() == cores


def test_cores_are_shared_out_evenly_and_none_twice_while_there_are_enough():
    assert share_cores([0, 1], 2) == [[0], [1]]
    assert share_cores([2, 3, 5, 7, 8], 2) == [[2, 3], [5, 7, 8]]
    assert share_cores([4, 6], 3) == [[4], [6], [4]]
    for cores in range(1, 9):
        for jobs in range(1, cores + 1):
            shares = share_cores(range(cores), jobs)
            assert sum(shares, []) == list(range(cores))
            assert {len(share) for share in shares} <= {cores // jobs, -(-cores // jobs)}


# Exit codes.


@pytest.mark.parametrize(
    ("codes", "worst"),
    [
        ([0, 0], 0),
        ([0, 130, 0], 130),
        ([0, None], 130),
        ([130, 1, 0], 1),
        ([1, 2, 130], 2),
        ([0, -9, 130], 1),
    ],
)
def test_the_exit_code_is_the_worst_runs(codes, worst):
    assert worst_code(codes) == worst


@pytest.mark.posix
def test_after_an_error_and_a_kill_the_other_seeds_train_and_both_are_said(fake, capfd):
    code, out, err = train(capfd, fake, "--seeds", "0,1,2", "--set", "acts=error,killed,", "--run-dir", "a")
    assert code == 1
    assert err == ["what is wrong", "seed 0: error 1", "seed 1: killed by SIGKILL"]
    assert [line.split()[5:] for line in out[-6:-3]] == [["error", "1"], ["killed", "by", "SIGKILL"], ["ended"]]


# Signals.


def send(process, number):
    """A terminal signals its whole foreground group; a cluster's SIGTERM comes to the process alone."""
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)


@pytest.mark.posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("jobs", [1, 2])
def test_the_first_signal_lets_the_runs_in_progress_save_and_begins_no_other(fake, tmp_path, number, jobs):
    acts = "acts=" + ",".join(["wait"] * jobs)
    with started(fake, "--seeds", "0,1,2", "--jobs", jobs, "--set", acts, "--run-dir", tmp_path / "d") as process:
        begun = ("seed 0: waiting", "seed 1: waiting") if jobs == 2 else ("waiting",)
        for line in read_until(process, *begun):
            if "waiting" in line:
                child = int(line.split()[-1])
                assert os.getpgid(child) == child  # out of the terminal's reach
        send(process, number)
        out, err = process.stdout.read().splitlines(), process.stderr.read()
    assert (process.returncode, err) == (130, "")
    assert sum(line.endswith("saved") for line in out) == jobs  # a second signal would have ended them before
    assert sum(line.endswith("asked") for line in out) == jobs
    table = out[[line.endswith("  run") for line in out].index(True) :]
    assert [line.endswith("stopped") for line in table[1:4]] == [True, jobs == 2, False]
    assert table[3].endswith("not begun")
    assert sorted(os.listdir(tmp_path / "d")) == [f"seed{seed}" for seed in range(jobs)]


@pytest.mark.posix
def test_the_second_signal_ends_all_at_once(fake, tmp_path):
    with started(fake, "--seeds", "0,1", "--jobs", 2, "--set", "acts=hang,hang", "--run-dir", tmp_path) as process:
        lines = read_until(process, "seed 0: waiting", "seed 1: waiting")
        process.send_signal(signal.SIGTERM)
        read_until(process, "seed 0: asked", "seed 1: asked")
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == ""
        assert process.stderr.read() == "dqn-train: interrupted\n"
    assert process.returncode == 130
    for line in lines:
        if "waiting" in line:
            with pytest.raises(ProcessLookupError):
                os.kill(int(line.split()[-1]), 0)


@pytest.mark.posix
def test_a_run_whose_parent_is_killed_saves_and_ends(fake, tmp_path):
    with started(fake, "--seeds", "0,1", "--set", "acts=wait,wait", "--run-dir", tmp_path / "d") as process:
        read_until(process, "waiting")
        process.kill()
        assert process.stdout.read() == "asked\nsaved\n"  # read to the end: nobody holds the pipe any more
    assert os.listdir(tmp_path / "d") == ["seed0"]


@pytest.mark.posix
def test_a_signal_to_parent_and_child_alike_asks_the_child_once(fake, tmp_path):
    code = seed_process._CHILD.format(path=sys.path, cores=None)
    words = [fake, "--set=seed=0", "--set=acts=outlast", f"--run-dir={tmp_path / 'd'}"]
    with subprocess.Popen(
        [sys.executable, "-u", "-c", code, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        read_until(child, "waiting")
        child.send_signal(signal.SIGTERM)
        read_until(child, "asked")
        child.stdin.close()
        assert child.stdout.read() == "outlasted\nsaved\n"
    assert child.returncode == 130


# Wrong usage.


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["--seeds", ""], "argument --seeds: seeds are whole numbers with commas between. Received: ''"),
        (["--seeds", "0,"], "argument --seeds: seeds are whole numbers with commas between. Received: '0,'"),
        (["--seeds", "0,1.5"], "argument --seeds: seeds are whole numbers"),
        (["--seeds=-1"], "argument --seeds: seeds are whole numbers"),
        (["--seeds", "0,one"], "argument --seeds: seeds are whole numbers"),
        (["--seeds", "0,1,00"], "argument --seeds: a seed is given once. Received: '0,1,00'"),
        (["--seeds", "0", "--jobs", "0"], "argument --jobs: invalid whole number above 0 value: '0'"),
        (["--jobs", "2"], "argument --jobs: needs several seeds: --seeds 0,1,2"),
        (["--seeds", "0", "--check"], "argument --check: not allowed with argument --seeds"),
        (["--seeds", "0", "--set", "seed=3"], "--seeds takes the place of --set seed. Received: seed=3"),
        (["--seeds", "0", "--set", "sed=3"], "has no such key; the closest is 'seed'. Received: sed"),
    ],
)
def test_a_wrong_usage_is_one_line_and_code_2(fake, capsys, elsewhere, words, rule):
    assert rule in refused(capsys, 2, fake, *words)
    assert os.listdir(elsewhere) == []


def test_a_rundef_without_the_key_seed_is_refused(capsys, tmp_path):
    path = tmp_path / "seedless.py"
    path.write_text("def run(*, game: str = 'catch'): pass\n")
    assert "--seeds needs a rundef with the key seed. Received: " in refused(capsys, 2, path, "--seeds", "0,1")


# In earnest.


def test_what_is_finished_is_skipped_the_rest_trains_and_the_parent_imports_no_tensorflow(tmp_path):
    code = (
        "import sys; from dqn_lab import cli; code = cli.train(sys.argv[1:]);"
        "print(code, [m for m in ('tensorflow', 'keras', 'gymnasium') if m in sys.modules])"
    )
    for seeds in ("0", "0,1"):
        words = [TOY, "--seeds", seeds, "--jobs", "2", "--updates", "20", "--run-dir", "d"]
        done = subprocess.run(
            [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True, cwd=tmp_path
        )
        assert (done.stdout.splitlines()[-1], done.stderr) == ("0 []", "")
    out = done.stdout.splitlines()
    assert any(line.startswith("seed 0: this run is finished") for line in out)
    assert any(line.startswith("seed 1: ended after 20 updates") for line in out)
    assert json.loads((tmp_path / "d" / "seed1" / "config.json").read_text())["arguments"]["seed"] == 1
    assert [line.split()[1] for line in out[-6:-4]] == ["120", "120"]
    assert out[-2].endswith("seeds with a score: 2 of 2")
