"""The crash test itself, with a few kills."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "crash_test.py"


@pytest.mark.slow
@pytest.mark.posix
def test_a_run_that_is_killed_again_and_again_ends_as_if_it_had_been_left_alone(tmp_path):
    words = [sys.executable, SCRIPT, "--kills", "5", "--updates", "900", "--out", tmp_path / "out"]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    head, _, *kills, _, verdict = done.stdout.splitlines()
    assert head.startswith("| kill | signal | at step |")
    assert {row.split(" | ")[1] for row in kills} == {
        "SIGKILL",
        "SIGTERM",
        "SIGINT",
        "SIGKILL in a save",
        "SIGKILL at the start",
    }
    assert verdict.startswith("all equal: 5 kills")
