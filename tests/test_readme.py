"""What the README says is what the code does."""

import re
import subprocess
from pathlib import Path

import pytest

from dqn_lab.callbacks.measures import COLUMNS, LOGS_ONLY
from dqn_lab.cli import COMMANDS, train
from dqn_lab.protocols import PROTOCOLS
from dqn_lab.rundef import rundef_names

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
# Keys of a run that takes a second or two.
SMALL = {
    "num_envs": 1,
    "replay_min_steps": 40,
    "updates_per_epoch": 2,
    "evaluation_episodes": 1,
    "evaluation_max_steps": 3_000,
    "evaluation_epsilon": 0.5,
    "initial_states": 0,
    "initial_states_dir": "none",
    "device": "cpu",
}


def table_after(heading: str) -> list[list[str]]:
    """Rows of the first table after a heading, without its head, each a list of cells."""
    lines = README[README.index(heading) :].splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def test_the_metrics_table_has_every_figure_with_its_tag_unit_and_meaning():
    expected = [[f"`{one.key}`", f"`{one.tag}`", one.unit, one.meaning] for one in (*COLUMNS, *LOGS_ONLY)]
    assert table_after("## Logged metrics") == expected


def test_the_protocol_table_shows_the_protocols():
    rows = {row[0].strip("`"): row for row in table_after("## Protocols")}
    assert set(rows) == set(PROTOCOLS)
    for name, protocol in PROTOCOLS.items():
        row = rows[name]
        assert row[2] == str(protocol.frame_skip)
        assert row[6] == protocol.reward_transform
        if protocol.repeat_action_probability is not None:
            assert float(row[1]) == protocol.repeat_action_probability
            assert row[5] == ("yes" if protocol.terminal_on_life_loss else "no")
            assert row[8] == f"{protocol.frame_cap:,} / {protocol.evaluation_frame_cap:,}"
            assert float(row[9]) == protocol.final_epsilon
        assert float(row[10]) == protocol.evaluation_epsilon


def test_the_rundef_table_names_every_rundef():
    named = {name for row in table_after("| rundef |")[0:] for name in re.findall(r"`(\w+)`", row[0])}
    assert named == set(rundef_names())


def test_the_architecture_names_every_part_of_the_package():
    parts = {path.name + "/" for path in (ROOT / "dqn_lab").iterdir() if path.is_dir() and path.name[0] != "_"}
    parts |= {path.name for path in (ROOT / "dqn_lab").glob("*.py") if path.name[0] != "_"}
    text = README[README.index("## Architecture") : README.index("## Protocols")]
    named = set(re.findall(r"`([\w*]+(?:\.py|/))`", text))
    patterns = [re.compile(re.escape(name).replace(r"\*", r"\w*") + "$") for name in named]
    assert [part for part in sorted(parts) if not any(pattern.match(part) for pattern in patterns)] == []


def test_the_commands_are_those_of_the_package():
    assert "dqn-train" in COMMANDS
    assert all(f"`{name}`" in README or name in README for name in COMMANDS)


@pytest.mark.parametrize("example", ["class PairSequence", "AtariSequence("])
def test_an_example_runs_as_it_stands(example, tmp_path, monkeypatch):
    code = next(block for block in re.findall(r"```python\n(.*?)```", README, re.S) if example in block)
    monkeypatch.chdir(tmp_path)
    for large, small in (
        ("replay_capacity_steps=100_000", "replay_capacity_steps=2_000"),
        ("replay_min_steps=5_000", "replay_min_steps=200"),
        ("updates_per_epoch=1_000", "updates_per_epoch=4"),
        ("num_episodes=8, num_max_iter=5_000", "num_episodes=1, num_max_iter=60, num_initial_states=8"),
        ("epochs=10", "epochs=2"),
    ):
        code = code.replace(large, small)
    names: dict = {}
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102
    assert names["agent"].updates == 2 * names["sequence"].updates_per_epoch
    assert names["evaluation"].complete_epochs == 2
    assert names["sequence"].steps > names["sequence"].replay_min_steps


@pytest.mark.parametrize("name", ["catch", "breakout_v0"])
def test_a_trained_run_is_loaded_and_plays_a_game_by_the_lines_shown(name, tmp_path, monkeypatch, capsys):
    code = next(block for block in re.findall(r"```python\n(.*?)```", README, re.S) if "load_run(" in block)
    assert len(code.splitlines()) <= 10
    monkeypatch.chdir(tmp_path)
    settings = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    assert train([name, "--updates", "2", *settings]) == 0
    names: dict = {}
    exec(compile(code.replace("catch-seed0", f"{name}-seed0"), "README.md", "exec"), names)  # noqa: S102
    assert capsys.readouterr().out.endswith(f"one game of seed 0: {names['score']:g}\n")
    run = names["run"]
    assert run.agent.updates == 2
    (length,) = {"catch": [9]}.get(name, [run.sequence.steps])
    assert (run.sequence.steps, run.sequence.episodes, run.sequence.num_envs) == (length, 1, 1)
    assert run.sequence.episode_return_sum == names["score"]


def test_the_top_level_is_what_the_project_allows():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    top = {line.split("/")[0] for line in listed.splitlines()}
    assert top <= {
        "pyproject.toml",
        "README.md",
        "dqn_lab",
        "rundefs",
        "tests",
        "scripts",
        ".github",
        ".ci",
        ".gitignore",
    }
