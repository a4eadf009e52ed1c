"""Trains what the README claims of learning, one run at a time, judges it, and writes the table.

    python scripts/prove_learning.py DIR [--claim NAME ...] [--sb3-python PATH] [--judge-only]

    DIR/NAME-seed0/ ...           runs of `dqn-train`, which the same command goes on with
    DIR/judged/NAME-seed0-*.json  what `dqn-evaluate` said of an agent, asked once
    DIR/sb3_pong-seed0.json       what `sb3_pong.py` printed, with --sb3-python
    DIR/claims.md                 the table; its figures are those of the files above, whoever made them

Scores are the mean return of 30 games that training never saw, by the run's protocol with an epsilon of 0.001. The exit
code is 0 if every claim that was asked for holds, 1 if one doesn't, another where a command failed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import compare_with_published as published
import numpy as np

from dqn_lab.command_line import positive_number
from dqn_lab.reports.iteration_returns import iteration_returns
from dqn_lab.reports.published_curves import published_curve
from dqn_lab.run_record import RunRecord, read_run
from dqn_lab.snapshots import kept_snapshots

GAMES, EPSILON, GAMES_SEED = 30, 0.001, 1_000
HEADER = ("claim", "seed", "steps", "minutes", "score", "holds")


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Args:
        seed: of the run; of several, "0, 1".
        steps, minutes: of the agent that was judged, as text.
        score: what it reached, as text.
        holds: whether that is what was claimed; None where nothing is claimed of it.
    """

    seed: str
    steps: str
    minutes: str
    score: str
    holds: bool | None


@dataclass(frozen=True)
class Claim:
    """Something that runs must show.

    Args:
        name: of it, and of its runs' directories.
        text: what is claimed.
        rundef: that is trained.
        seeds: one run for each.
        words: further arguments of `dqn-train`, among them what ends the run.
        judge: rows of its runs, in the seeds' order.
    """

    name: str
    text: str
    rundef: str
    seeds: tuple[int, ...]
    words: tuple[str, ...]
    judge: Callable[[Judge, Sequence[RunRecord]], Iterator[Row]]

    def directories(self, parent: Path) -> list[Path]:
        return [parent / f"{self.name}-seed{seed}" for seed in self.seeds]


class Judge:
    """Asks `dqn-evaluate` for scores, of each agent once.

    Args:
        directory: where the answers are kept.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def score(self, run: RunRecord, which: str) -> dict:
        """Returns the JSON of one agent of a run: its steps or "latest"."""
        steps = kept_snapshots(run.directory)[-1].steps if which == "latest" else int(which)
        answer = self._directory / f"{run.directory.name}-{steps}.json"
        if not answer.exists():
            words = ("--which", which, "--episodes", str(GAMES), "--epsilon", str(EPSILON), "--seed", str(GAMES_SEED))
            text = output_of(command("dqn-evaluate", str(run.directory), *words, "--json"))
            keep(answer, text)
        return json.loads(answer.read_text(encoding="utf-8"))


def reaches(level: float) -> Callable[[Judge, Sequence[RunRecord]], Iterator[Row]]:
    """Judges each run by the first of its kept agents whose score is that high, and tells when that was."""

    def judge(judge: Judge, runs: Sequence[RunRecord]) -> Iterator[Row]:
        for run in runs:
            for snapshot in kept_snapshots(run.directory):
                found = judge.score(run, str(snapshot.steps))
                if found["mean"] >= level:
                    break
            yield _score_row(run, found, found["mean"] >= level)

    return judge


def ends_at(level: float) -> Callable[[Judge, Sequence[RunRecord]], Iterator[Row]]:
    """Judges each run by its last agent, which should score that much."""

    def judge(judge: Judge, runs: Sequence[RunRecord]) -> Iterator[Row]:
        for run in runs:
            found = judge.score(run, "latest")
            yield _score_row(run, found, found["mean"] >= level)

    return judge


def follows_published(judge: Judge, runs: Sequence[RunRecord]) -> Iterator[Row]:
    """Judges all runs together by their training games: no million frames below the lowest published run."""
    returns, curve = [iteration_returns(run) for run in runs], published_curve(runs[0].game)
    for run, one in zip(runs, returns, strict=True):
        steps, minutes = (f"{run.progress[name][-1]:,.{places}f}" for name, places in (("steps", 0), ("minutes", 1)))
        yield Row(str(run.seed), steps, minutes, " / ".join(f"{mean:.2f}" for mean in one.means), None)
    told, below = [], False
    for number, (low, high) in enumerate(zip(curve.low, curve.high, strict=True)):
        found = [one.means[number] for one in returns if number < len(one.means)]
        if not found:
            break
        mean = float(np.mean(found))
        where = published.judge(mean, low, high)
        told, below = [*told, f"{mean:.2f} {where} {low:.2f} to {high:.2f}"], below or where == "below"
    seeds = ", ".join(str(run.seed) for run in runs)
    yield Row(seeds, "", "", " / ".join(told), bool(told) and not below)


def _score_row(run: RunRecord, found: dict, holds: bool) -> Row:
    low, high = found["interval"]
    score = f"{found['mean']:.2f} +/- {found['std']:.2f} (mean {low:.2f} to {high:.2f})"
    return Row(str(run.seed), f"{found['steps']:,}", f"{minutes_at(run, found['steps']):.1f}", score, holds)


def minutes_at(run: RunRecord, steps: int) -> float:
    """Returns how long a run had been training, evaluations counted, at the first row that has these steps."""
    row = np.searchsorted(run.progress["steps"], steps)
    return float(run.progress["minutes"][min(row, len(run.progress["minutes"]) - 1)])


CLAIMS = (
    Claim("catch", "catch: 0.95 at the end", "catch", (0, 1, 2), (), ends_at(0.95)),
    Claim(
        "pong_fast",
        "pong_fast: 18 within 30 minutes",
        "pong_fast",
        (0, 1, 2),
        ("--set", "keep_weights=all", "--minutes", "30"),
        reaches(18.0),
    ),
    Claim(
        "breakout_fast",
        "breakout_fast: 60 minutes",
        "breakout_fast",
        (0, 1),
        ("--minutes", "60"),
        ends_at(30.0),
    ),
    *(
        Claim(
            f"dopamine_{game}",
            f"dopamine_dqn, {game}: 1M, 2M and 3M frames, published lowest to highest",
            "dopamine_dqn",
            (0, 1),
            ("--set", f"game={game}", "--steps", "750_000"),
            follows_published,
        )
        for game in ("breakout", "pong")
    ),
    Claim(
        "pong_a3c",
        "atari_async, a3c: Pong 18 within 120 minutes",
        "atari_async",
        (0,),
        tuple(
            word
            for setting in (
                "t_max=20",
                "rmsprop_epsilon=1e-6",
                "rmsprop_start=1",
                "learning_rate=1e-4",
                "anneal=false",
                "keep_weights=all",
            )
            for word in ("--set", setting)
        )
        + ("--minutes", "120"),
        reaches(18.0),
    ),
)


def command(name: str, *words: str) -> list[str]:
    """Returns one of this package's commands, for the Python that runs this."""
    return [sys.executable, "-m", "dqn_lab.cli", name, *words]


def output_of(words: Sequence[str]) -> str:
    """Returns what a command prints; its failure ends this process with the same code."""
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


def keep(path: Path, text: str) -> None:
    """Writes a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def train(claim: Claim, parent: Path) -> None:
    """Trains a claim's runs, one at a time. A command that fails or is interrupted ends this process with its code."""
    for seed, directory in zip(claim.seeds, claim.directories(parent), strict=True):
        words = ("--run-dir", str(directory), "--set", f"seed={seed}", *claim.words)
        code = subprocess.run(command("dqn-train", claim.rundef, *words)).returncode
        if code:
            sys.exit(code if code > 0 else 1)


def train_sb3(python: str, minutes: float, parent: Path) -> Row:
    """Trains SB3's DQN on Pong, or reads what was printed before; nothing of it can be continued."""
    answer = parent / "sb3_pong-seed0.json"
    if not answer.exists():
        script = str(Path(__file__).with_name("sb3_pong.py"))
        keep(answer, output_of([python, script, "--minutes", str(minutes), "--seed", "0"]))
    found = json.loads(answer.read_text(encoding="utf-8"))
    score = f"{found['mean']:.2f} +/- {found['std']:.2f}"
    return Row(str(found["seed"]), f"{found['steps']:,}", f"{found['minutes']:.1f}", score, None)


def table(rows: Sequence[tuple[str, Row]]) -> str:
    """Returns Markdown: a row for each of the judged."""
    lines = [HEADER, ("---",) * len(HEADER)]
    for text, row in rows:
        holds = {True: "yes", False: "no", None: ""}[row.holds]
        lines.append((text, row.seed, row.steps, row.minutes, row.score, holds))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Carries the claims out and writes the table after each. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    names = [claim.name for claim in CLAIMS]
    parser.add_argument("directory", type=Path, metavar="DIR", help="where runs, scores and the table are")
    parser.add_argument("--claim", action="append", choices=names, help="may be given again (default: all of them)")
    parser.add_argument("--judge-only", action="store_true", help="train nothing: judge the runs as they are")
    parser.add_argument(
        "--sb3-python", metavar="PATH", help="of an environment with Stable-Baselines3: Pong by it, too"
    )
    parser.add_argument("--sb3-minutes", type=positive_number, default=30.0, metavar="M", help="(default: 30)")
    given = parser.parse_args(argv)

    given.directory.mkdir(parents=True, exist_ok=True)
    judge, rows = Judge(given.directory / "judged"), []
    for claim in CLAIMS:
        if given.claim is not None and claim.name not in given.claim:
            continue
        if not given.judge_only:
            train(claim, given.directory)
        runs = [read_run(one) for one in claim.directories(given.directory) if (one / "config.json").exists()]
        rows += [(claim.text, row) for row in claim.judge(judge, runs)] if runs else []
        keep(given.directory / "claims.md", table(rows))
    if given.sb3_python is not None:
        rows.append(
            ("Stable-Baselines3's DQN on Pong", train_sb3(given.sb3_python, given.sb3_minutes, given.directory))
        )
        keep(given.directory / "claims.md", table(rows))
    print(table(rows), end="")
    return int(any(row.holds is False for _, row in rows))


if __name__ == "__main__":
    sys.exit(main())
