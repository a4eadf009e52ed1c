"""The notebooks, executed as a user executes them: what they learn, and what stays on the screen."""

import json
import sys
from ast import literal_eval
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "scripts" / "notebooks"
NAMES = ("own_sequence", "train_catch")


def read(name):
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


@pytest.fixture
def execute(tmp_path, monkeypatch):
    """Runs a notebook in an empty folder, by this Python and with no settings or kernels of the user's."""
    kernel = tmp_path / "kernels" / "python3"
    kernel.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))  # looked through first
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for variable in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    folder = tmp_path / "work"
    folder.mkdir()

    def run(name):
        notebook = read(name)
        where = {"metadata": {"path": str(folder)}}
        NotebookClient(
            notebook, kernel_name="python3", timeout=400, resources=where
        ).execute()  # raises what a cell did
        assert list(folder.iterdir()) == []  # nothing is left behind
        return notebook

    return run


def cell(notebook, words):
    """The one code cell with these words in it."""
    (found,) = (each for each in notebook.cells if each.cell_type == "code" and words in each.source)
    return found


def printed(notebook, words, stream="stdout"):
    return "".join(out.text for out in cell(notebook, words).outputs if out.get("name") == stream)


def shown(notebook, words, kind="text/plain"):
    """What the last expression of a cell, or a figure, is shown as."""
    (found,) = (out.data[kind] for out in cell(notebook, words).outputs if "data" in out)
    return found


def assert_quiet(notebook, epochs):
    """No bar drawn anew in every update, no warning; of `fit` two lines an epoch."""
    for each in notebook.cells:
        for out in each.get("outputs", ()):
            assert out.output_type != "stream" or out.name == "stdout", out.text
            text = out.get("text", "")
            assert "\r" not in text
            assert "\b" not in text
            assert "\x1b" not in text
            assert text.count("\n") <= 12
    told = printed(notebook, "agent.fit(").splitlines()
    assert told[::2] == [f"Epoch {number}/{epochs}" for number in range(1, epochs + 1)]
    assert all(line.startswith("500/500 - ") and "eval_return_mean: " in line for line in told[1::2])
    assert len(told) == 2 * epochs


def test_catch_is_learnt_and_the_minibatch_adds_up(execute):
    notebook = execute("train_catch")
    assert_quiet(notebook, epochs=3)
    assert shown(notebook, "sequence = ").startswith("EnvironmentSequence('Catch', num_envs=4")
    shapes = printed(notebook, "batch = sequence[0]")
    assert "state       float32 (32, 10, 5, 1)\n" in shapes
    assert len(shown(notebook, "imshow", "image/png")) > 1000
    returns = literal_eval(shown(notebook, "agent.fit("))
    assert len(returns) == 3
    assert returns[-1] >= 0.9
    values = printed(notebook, "values = agent.act_values").splitlines()
    assert len(values) == 8
    differences = [abs(float(line.split()[1]) - float(line.split()[3])) for line in values]
    largest = float(printed(notebook, "agent.td_errors").removeprefix("largest error "))
    assert max(differences) <= largest + 0.0015  # both are rounded; the largest is of all 32
    score, *board = printed(notebook, "agent.lead(twin)").splitlines()
    assert score.startswith("return +1;")
    assert [len(row) for row in board] == [5] * 10
    ball = board[8].index("#")
    assert abs(board[9].index("#") - ball) <= 1  # it can still be caught


def test_ones_own_sequence_is_checked_and_learns(execute):
    notebook = execute("own_sequence")
    assert_quiet(notebook, epochs=5)
    assert shown(notebook, "sequence = ").startswith("Blindfolded('CartPole-v1', num_envs=4")
    shapes = printed(notebook, "batch = sequence[0]")
    assert "next_state  float32 (32, 3, 2)\n" in shapes
    goes_on, *checks = printed(notebook, "moved up by one").splitlines()
    assert "True" in goes_on
    assert checks == ["moved up by one: True", "padded with the first: True"]
    returns = literal_eval(shown(notebook, "agent.fit("))
    assert len(returns) == 5
    assert returns[-1] >= 60  # a policy that draws its actions stands for about 22 steps


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_stored_without_what_it_printed(name):
    notebook = read(name)
    nbformat.validate(notebook)
    code = [each for each in notebook.cells if each.cell_type == "code"]
    assert [each.outputs for each in code] == [[]] * len(code)
    assert [each.execution_count for each in code] == [None] * len(code)
    assert {key for each in notebook.cells for key in each.metadata} == set()
    assert notebook.metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }


def test_each_notebook_is_executed():
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == sorted(NAMES)
