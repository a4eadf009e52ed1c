"""What several runs have reached, by game and configuration, and over games: the figures of `dqn-report`."""

from __future__ import annotations

import contextlib
import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dqn_lab.reports.aggregate_scores import Aggregate, aggregate_scores
from dqn_lab.reports.published_comparison import Comparison, compare_group, published_for
from dqn_lab.reports.published_curves import PROTOCOL
from dqn_lab.reports.run_groups import RunGroup, group_runs
from dqn_lab.reports.run_states import run_state
from dqn_lab.run_record import RunRecord, read_runs
from dqn_lab.scores import human_normalized
from dqn_lab.seed_scores import mean_interval

_SCORE = "eval_return_mean"
_RULES = ("protocol", "frame_skip", "reward_transform")  # keys that a protocol's label tells


@dataclass(frozen=True)
class SeedScore:
    """What one run has reached at its last evaluation.

    Args:
        directory: of the run.
        seed: of it, or None.
        state: see `dqn_lab.reports.run_states.run_state`.
        steps, minutes: of the run at its last evaluation.
        score: mean return of the last evaluation.
        best: the largest mean return of its evaluations, of which there are so many.
        evaluations: how many.
    """

    directory: str
    seed: int | None
    state: str
    steps: float
    minutes: float
    score: float
    best: float
    evaluations: int


@dataclass(frozen=True)
class Row:
    """One configuration on one game.

    Args:
        group: its runs' game, configuration and protocol.
        seeds: what each run has reached.
        devices: what they computed on.
        human: each run's score as a share of the way from the random policy's to a person's; None where no such
            scores are published.
        comparison: with a published curve, where that was asked for and there is one.
    """

    group: RunGroup
    seeds: tuple[SeedScore, ...]
    devices: tuple[str, ...]
    human: tuple[float, ...] | None
    comparison: Comparison | None = None

    @property
    def score(self) -> tuple[float, float]:
        """Mean of the last evaluations, and half of its 95% interval over seeds; NaN of one seed."""
        return mean_interval([one.score for one in self.seeds])

    @property
    def best(self) -> float:
        """Mean of the runs' best evaluations."""
        return float(np.mean([one.best for one in self.seeds]))


@dataclass(frozen=True)
class OverGames:
    """One configuration over the games that it was run on.

    Args:
        configuration: rundef and keys.
        games: their names.
        runs: how many in all.
        protocol: of all of them.
        figures: human-normalised; see `dqn_lab.reports.aggregate_scores.FIGURES`.
    """

    configuration: str
    games: tuple[str, ...]
    runs: int
    protocol: str
    figures: dict[str, Aggregate]


@dataclass(frozen=True)
class Report:
    """Figures of several runs.

    Args:
        rows: ordered by game and configuration.
        over_games: of the configurations that were run on several games with human scores, under the same rules.
        notes: lines on what is left out and what must not be compared.
        compared: whether a comparison was asked for.
    """

    rows: tuple[Row, ...]
    over_games: tuple[OverGames, ...]
    notes: tuple[str, ...]
    compared: bool


def make_report(
    run_directories: Sequence[str | Path], compare: str | None = None, say: Callable[[str], None] = print
) -> Report:
    """Reads runs and makes their report. Nothing of theirs is changed or loaded; they may be going on.

    Args:
        run_directories: of one or more runs.
        compare: "dopamine" to put the training games beside the published curves; None.
        say: is told, in a line each, which directories are no runs, and left out.

    Raises:
        ValueError: none is a run directory, one doesn't exist, or no run has been evaluated yet; `compare` is another.
    """
    if compare not in (None, PROTOCOL):
        raise ValueError(f"`compare` must be {PROTOCOL} or None. Received: compare={compare!r}")
    if not run_directories:
        raise ValueError(f"A report is of one run or more. Received: run_directories={run_directories!r}")
    runs = read_runs(run_directories, say)
    notes: list[str] = []
    evaluated = [run for run in runs if _has_score(run, notes.append)]
    if not evaluated:
        more = f", nor has any of {len(runs) - 1} more" if len(runs) > 1 else ""
        raise ValueError(
            f"This run has not been evaluated yet{more}. Received: run_directory={str(runs[0].directory)!r}"
        )
    rows = tuple(_row(group, compare is not None) for group in group_runs(evaluated))
    over_games = tuple(_over_games(rows, notes.append))
    return Report(rows, over_games, (*notes, *_remarks(rows, compare is not None)), compare is not None)


def _has_score(run: RunRecord, say: Callable[[str], None]) -> bool:
    if np.isfinite(_column(run, _SCORE)).any():
        return True
    say(f"{run.directory} has not been evaluated yet: it is left out")
    return False


def _row(group: RunGroup, compared: bool) -> Row:
    seeds = tuple(map(_seed_score, group.runs))
    devices = tuple(dict.fromkeys(str(run.config.get("device") or "unknown") for run in group.runs))
    return Row(group, seeds, devices, _human(group, seeds), compare_group(group) if compared else None)


def _seed_score(run: RunRecord) -> SeedScore:
    scores = _column(run, _SCORE)  # [E]
    evaluated = np.flatnonzero(np.isfinite(scores))
    last = evaluated[-1]
    return SeedScore(
        str(run.directory),
        run.seed,
        run_state(run)[0],
        float(_column(run, "steps")[last]),
        float(_column(run, "minutes")[last]),
        float(scores[last]),
        float(scores[evaluated].max()),
        len(evaluated),
    )


def _human(group: RunGroup, seeds: Sequence[SeedScore]) -> tuple[float, ...] | None:
    if group.runs[0].game is None:
        return None
    with contextlib.suppress(ImportError, TypeError, ValueError):  # a game that this version doesn't know
        shares = [human_normalized(group.game, one.score) for one in seeds]
        return None if None in shares else tuple(shares)
    return None


def _over_games(rows: Sequence[Row], say: Callable[[str], None]) -> list[OverGames]:
    """Over the games of each configuration, where there are several; not over those played by different rules."""
    found = defaultdict(list)
    for row in rows:
        if row.human is not None:
            found[row.group.configuration_without(_RULES)].append(row)
    several = {name: members for name, members in found.items() if len({row.group.game for row in members}) > 1}
    if not several and len({row.group.game for members in found.values() for row in members}) > 1:
        say("no figures over games: no configuration was run on several of them")
    return [one for name, members in several.items() if (one := _over_games_of(name, members, say)) is not None]


def _over_games_of(configuration: str, rows: Sequence[Row], say: Callable[[str], None]) -> OverGames | None:
    protocols = list(dict.fromkeys(row.group.protocol for row in rows))
    if len(protocols) > 1:
        rules = "; ".join(protocols)
        say(f"no figures over the games of {configuration}, which were played by different rules: {rules}")
        return None
    scores = defaultdict(list)
    for row in rows:
        scores[row.group.game] += row.human
    counts = set(map(len, scores.values()))
    if len(counts) > 1:
        say(f"{configuration} has more seeds on some games than on others: the IQM counts each run alike")
    if 1 in counts:
        say(f"{configuration} has a single seed on a game: its figures over games have no intervals")
    figures = aggregate_scores(list(scores.values()))
    return OverGames(configuration, tuple(scores), sum(map(len, scores.values())), protocols[0], figures)


def _remarks(rows: Sequence[Row], compared: bool) -> list[str]:
    remarks = []
    for row in rows:
        for one in row.seeds:
            if one.state != "finished":
                remarks.append(f"{one.directory} is {one.state}: its figures are those of its last evaluation so far")
        for first, second in itertools.combinations(row.seeds, 2):
            if first.seed is not None and first.seed == second.seed:
                remarks.append(f"{first.directory} and {second.directory} have the same seed: they aren't independent")
        if compared and row.comparison is None:
            why = "no published curve" if published_for(row.group) is None else "short of the first published point"
            remarks.append(f"{row.group.game}, {row.group.configuration}: {why}")
    return list(dict.fromkeys(remarks))


def _column(run: RunRecord, name: str) -> np.ndarray:
    """A column of progress.csv; NaN in all rows where it has none, [E]."""
    rows = max(map(len, run.progress.values()), default=0)
    return run.progress.get(name, np.full(rows, np.nan))
