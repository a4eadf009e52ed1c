"""dqn-report: its Markdown, its page and its JSON, and one line for what is wrong."""

import html.parser
import json
import os

import pytest
from ended_runs import leave_run

from dqn_lab import cli
from dqn_lab.protocols import PROTOCOLS
from dqn_lab.reports.table_markup import Table, markdown, page

DOPAMINE = PROTOCOLS["dopamine"]


def run(capsys, *words):
    """Exit code and streams of the command."""
    try:
        code = cli.report([str(word) for word in words])
    except SystemExit as end:
        code = end.code
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def rows(*scores):
    """A million frames each, of ten games."""
    return [
        {
            "steps": 250_000 * n,
            "frames": 1_000_000 * n,
            "episodes": 10 * n,
            "minutes": 1.5 * n,
            "train_return_mean": score - 1,
            "eval_return_mean": score,
        }
        for n, score in enumerate(scores, start=1)
    ]


@pytest.fixture
def catch(tmp_path):
    """Two seeds and a run of another configuration, by other rules."""
    folder = tmp_path / "runs"
    for seed, score in enumerate((1.0, 0.5)):
        arguments = {"seed": seed, "double": True}
        leave_run(folder / f"catch{seed}", rows(2, score), rundef="catch", arguments=arguments, log="ended after 1")
    arguments = {"double": False}
    leave_run(folder / "odd", rows(-1), rundef="catch", arguments=arguments, protocol=None, log="ended after 1")
    return sorted(folder.iterdir())


@pytest.fixture
def atari(tmp_path):
    """Two seeds on two games, as the published curves were made; Pong's are worked with below."""
    scores = {"pong": (-20.7, 14.6), "breakout": (30.5, 1.7)}  # DQN Zoo's random policy and human
    return [
        leave_run(
            tmp_path / f"{game}{seed}",
            rows(0, score),
            rundef="dopamine_dqn",
            protocol=DOPAMINE,
            arguments={"seed": seed, "game": game},
            log="ended after 1",
        )
        for game, pair in scores.items()
        for seed, score in enumerate(pair)
    ]


def test_the_markdown_reads_as_it_stands(catch, capsys):
    code, out, err = run(capsys, *catch)
    assert (code, err) == (0, "")
    # Interval of 1 and 0.5: t of one degree 12.7062 times 0.25.
    assert out.startswith(
        """# Report

## catch

| configuration      | seeds    |   steps | minutes |         score | best | hardware       | protocol            |
| ------------------ | -------- | ------: | ------: | ------------: | ---: | -------------- | ------------------- |
| catch double=false | 1 (0)    | 250,000 |     1.5 |            -1 |   -1 | cpu (as asked) | [1] none            |
| catch double=true  | 2 (0, 1) | 500,000 |     3.0 | 0.75 +/- 3.18 |    2 | cpu (as asked) | [2] classic-control |

- Rows with different numbers before the protocol were played by different rules: don't compare their scores.

## Notes

- score: mean over seeds"""
    )
    assert "- best: mean over seeds of each run's best evaluation, which is biased upwards" in out
    assert "human" not in out


def test_figures_over_games_and_published_ones_have_tables_of_their_own(atari, capsys):
    code, out, _ = run(capsys, *atari, "--compare", "dopamine")
    assert code == 0
    over = out[out.index("## Over games") :].splitlines()
    cells = [cell.strip() for cell in over[4].strip("|").split("|")]
    assert cells[:3] == ["dopamine_dqn", "2 (breakout, pong)", "4"]
    assert [cell.split(" ")[0] for cell in cells[3:7]] == ["0.500"] * 4
    assert cells[3] == "0.500 (0.000 to 1.000)"  # of each game both runs are its worst with 1 in 16
    assert cells[7] == "dopamine"
    compared = out[out.index("## Beside Dopamine's DQN") :].splitlines()
    pong = [cell.strip() for cell in compared[5].strip("|").split("|")]
    # The training games are one below the evaluation: -21.7 and 13.6. 2M frames of the published curve.
    assert pong[:4] == ["pong", "dopamine_dqn", "2,000,000", "-4.05"]
    assert pong[5] == "dopamine"
    assert "- human: the score as a share of the way from the random policy's to a person's (DQN Zoo)." in out


def test_other_rules_than_the_published_are_marked(tmp_path, capsys):
    one = leave_run(tmp_path / "a", rows(1), protocol="nature-2015", arguments={"game": "pong"}, log="ended after 1")
    out = run(capsys, one, "--compare", "dopamine")[1]
    assert "| [other] nature-2015 |" in out
    assert "- Marked rows were played by other rules than the published ones" in out


def test_json_has_every_figure(atari, catch, capsys):
    code, out, _ = run(capsys, *atari, catch[2], "--compare", "dopamine", "--json")
    found = json.loads(out)
    assert (code, set(found)) == (0, {"rows", "over_games", "notes"})
    breakout, catch_row, pong = found["rows"]
    assert (pong["game"], pong["score"], pong["human_normalized"]) == ("pong", pytest.approx(-3.05), [0.0, 1.0])
    assert sum(pong["interval"]) == pytest.approx(2 * -3.05)
    assert [one["seed"] for one in pong["runs"]] == [0, 1]
    assert pong["published"]["scores"] == pytest.approx([-21.7, 13.6])
    assert (catch_row["interval"], catch_row["human_normalized"], catch_row["published"]) == (None, None, None)
    assert found["over_games"][0]["mean"] == {"value": pytest.approx(0.5), "interval": [0.0, 1.0]}
    assert found["notes"] == ["catch, catch: no published curve"]


class Reader(html.parser.HTMLParser):
    """Text of the cells, and tags that are left open."""

    def __init__(self, text):
        super().__init__()
        self.cells, self.open, self.links = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.links += [value for name, value in attributes if name in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data


NASTY = "a|b <script>alert(1)</script> & _x_ \\ *y*"


def test_the_page_is_whole_and_what_a_run_says_is_text_in_it():
    read = Reader(page("A & B", [Table("game <b>", ("configuration", "score"), [(NASTY, "1")], ("note <i>",))]))
    assert read.cells == ["configuration", "score", NASTY, "1"]
    assert (read.open, read.links) == ([], [])


def test_what_a_run_says_is_text_in_markdown():
    text = markdown("T", [Table("t", ("configuration",), [(NASTY,)])])
    assert r"| a\|b \<script>alert(1)\</script> & \_x\_ \\ \*y\* |" in text
    assert "| catch_async   |" in markdown("T", [Table("t", ("configuration",), [("catch_async",)])])


def test_a_file_is_written_whole_or_not_at_all(catch, tmp_path, capsys, monkeypatch):
    target = tmp_path / "report.md"
    assert run(capsys, *catch, "--out", target) == (0, f"{target}\n", "")
    printed = run(capsys, *catch)[1]
    assert target.read_text(encoding="utf-8") == printed
    page_file = tmp_path / "report.HTML"
    assert run(capsys, *catch, "--out", page_file, "--json")[0] == 0
    assert "catch double=true" in Reader(page_file.read_text(encoding="utf-8")).cells

    def fail(*words):
        raise OSError("no room")

    monkeypatch.setattr(os, "replace", fail)
    assert run(capsys, *catch[:1], "--out", target) == (1, "", "dqn-report: error: no room\n")
    assert target.read_text(encoding="utf-8") == printed
    assert sorted(one.name for one in tmp_path.iterdir()) == ["report.HTML", "report.md", "runs"]


@pytest.mark.parametrize(
    ("words", "code", "rule"),
    [
        ([], 2, "the following arguments are required: RUN_DIR"),
        (["{empty}"], 1, "A run directory has a config.json. Received: run_directory="),
        (["{none}"], 1, "A run directory has a config.json. Received: run_directory="),
        (["{foreign}"], 1, "config.json isn't that of a run. Received: run_directory="),
        (["{begun}"], 1, "This run has not been evaluated yet. Received: run_directory="),
        (["{foreign}", "{empty}"], 1, "config.json isn't that of a run. Received: run_directory="),
        (["{run}", "{none}"], 1, "A run directory has a config.json. Received: run_directory="),
        (["{run}", "--out", "{empty}/report.txt"], 1, "`out` must end in .md, .html. Received: out="),
        (["{run}", "--out", "{none}/report.md"], 1, "The folder of `out` doesn't exist. Received: out="),
        (["{run}", "--compare", "rainbow"], 2, "argument --compare: invalid choice: 'rainbow'"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(catch, tmp_path, capsys, words, code, rule):
    places = {name: tmp_path / name for name in ("empty", "none", "foreign", "begun")} | {"run": catch[0]}
    places["empty"].mkdir()
    places["foreign"].mkdir()
    (places["foreign"] / "config.json").write_text('{"port": 80}')
    leave_run(places["begun"])
    before = sorted(tmp_path.rglob("*"))
    got, out, err = run(capsys, *(word.format(**places) for word in words))
    assert (got, out) == (code, "")
    assert err.startswith(f"dqn-report: error: {rule}")
    assert err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_no_run_is_left_out_with_a_line(catch, tmp_path, capsys):
    alone = run(capsys, *catch)
    (tmp_path / "initial_states").mkdir()
    code, out, err = run(capsys, tmp_path / "initial_states", *catch)
    assert (code, out) == alone[:2]
    assert err == f"dqn-report: {tmp_path / 'initial_states'} is left out: A run directory has a config.json.\n"
