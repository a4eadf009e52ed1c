"""scripts/prove_learning.py: what is trained, judged and written, and what the same command does again."""

import dataclasses
import importlib.util
import json
import sys
from pathlib import Path

import pytest
from test_compare_with_published import write_pong

from dqn_lab.run_record import read_run

SCRIPTS = Path(__file__).parents[1] / "scripts"
SMALL = {"updates_per_epoch": 100, "evaluation_episodes": 2, "initial_states": 0, "keep_weights": "all"}


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)  # where a script finds the others
    spec = importlib.util.spec_from_file_location("prove_learning", SCRIPTS / "prove_learning.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "prove_learning", module)
    spec.loader.exec_module(module)
    return module


def small_claim(script, judge):
    words = tuple(word for key, value in SMALL.items() for word in ("--set", f"{key}={value}"))
    return script.Claim("small", "Catch: anything", "catch", (3,), (*words, "--updates", "200"), judge)


def answer(directory, run, steps, mean):
    """What `dqn-evaluate` would have said, kept."""
    found = {"mean": mean, "std": 0.5, "interval": [mean - 1, mean + 1], "steps": steps}
    directory.mkdir(exist_ok=True)
    (directory / f"{run}-{steps}.json").write_text(json.dumps(found))


def test_a_run_is_trained_judged_and_not_made_again(script, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(script, "CLAIMS", (small_claim(script, script.ends_at(-1.5)),))
    assert script.main([str(tmp_path)]) == 0
    table = (tmp_path / "claims.md").read_text()
    assert capfd.readouterr().out.endswith(table)
    run = read_run(tmp_path / "small-seed3")
    last = int(run.progress["steps"][-1])
    judged = json.loads((tmp_path / "judged" / f"small-seed3-{last}.json").read_text())
    assert (run.seed, run.progress["updates"][-1]) == (3, 200)
    assert (judged["episodes"], judged["epsilon"], judged["seed"]) == (30, 0.001, 1000)
    assert f"| Catch: anything | 3 | {last:,} | {run.progress['minutes'][-1]:.1f} | {judged['mean']:.2f} +/- " in table
    assert table.endswith(" | yes |\n")

    answer(tmp_path / "judged", "small-seed3", last, -7.0)
    assert script.main([str(tmp_path), "--judge-only"]) == 1
    assert "| -7.00 +/- 0.50 (mean -8.00 to -6.00) | no |\n" in (tmp_path / "claims.md").read_text()
    assert "200 updates" not in capfd.readouterr().out

    (tmp_path / "judged" / f"small-seed3-{last}.json").unlink()
    assert script.main([str(tmp_path)]) == 0
    assert "finished" in capfd.readouterr().out  # what `dqn-train` says of such a run
    assert (tmp_path / "claims.md").read_text() == table


def test_the_first_agent_that_reaches_the_level_is_told(script, tmp_path, monkeypatch):
    claim = dataclasses.replace(small_claim(script, script.reaches(18.0)), seeds=(0,))
    script.train(claim, tmp_path)
    run = read_run(tmp_path / "small-seed0")
    steps = [one.steps for one in script.kept_snapshots(run.directory)]
    assert len(steps) == 2
    monkeypatch.setattr(script, "output_of", lambda words: pytest.fail(f"asked again: {words}"))
    for means, row, holds in (((18.0, 20.0), 0, True), ((17.9, 20.0), 1, True), ((17.0, 17.9), 1, False)):
        for each, mean in zip(steps, means, strict=True):
            answer(tmp_path, "small-seed0", each, mean)
        (found,) = claim.judge(script.Judge(tmp_path), [run])
        assert (found.steps, found.holds) == (f"{steps[row]:,}", holds)
        assert found.minutes == f"{run.progress['minutes'][row]:.1f}"


def test_seeds_together_are_held_against_the_published_band(script, tmp_path):
    runs = [write_pong(tmp_path / str(seed), [first, -18.0], seed) for seed, first in ((0, -20.0), (1, -20.4))]
    *each, both = script.follows_published(None, [read_run(run) for run in runs])
    assert [(row.seed, row.score, row.holds) for row in each] == [
        ("0", "-20.00 / -18.00", None),
        ("1", "-20.40 / -18.00", None),
    ]
    assert (both.seed, both.holds) == ("0, 1", True)
    assert both.score.startswith("-20.20 inside ")
    worse = write_pong(tmp_path / "worse", [-20.2, -21.0], 2)
    *_, row = script.follows_published(None, [read_run(worse)])
    assert row.holds is False
    assert "-21.00 below" in row.score


def test_a_command_that_fails_ends_all_with_its_code(script, tmp_path, monkeypatch, capfd):
    words = ("--set", "no_such_key=1")
    claim = dataclasses.replace(small_claim(script, script.ends_at(0.0)), words=words)
    monkeypatch.setattr(script, "CLAIMS", (claim,))
    with pytest.raises(SystemExit) as end:
        script.main([str(tmp_path)])
    assert end.value.code == 2
    assert "no_such_key" in capfd.readouterr().err
    assert not (tmp_path / "claims.md").exists()


def test_every_claim_names_a_rundef_and_keys_that_there_are(script):
    from dqn_lab.rundef import load_rundef

    for claim in script.CLAIMS:
        settings = [word for flag, word in zip(claim.words, claim.words[1:], strict=False) if flag == "--set"]
        rundef = load_rundef(claim.rundef)
        assert rundef.resolve(rundef.parse([*settings, "seed=1"]))["seed"] == 1
    assert len({claim.name for claim in script.CLAIMS}) == len(script.CLAIMS)
