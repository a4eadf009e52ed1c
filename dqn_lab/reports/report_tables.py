"""A report for people, in tables of text, and for programs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict

from dqn_lab.reports.aggregate_scores import Aggregate
from dqn_lab.reports.published_curves import PROTOCOL, STATISTIC
from dqn_lab.reports.reporting import Comparison, Report, Row
from dqn_lab.reports.table_markup import Table
from dqn_lab.scores import TABLES

_NONE = "-"
_GAME_COLUMNS = ("configuration", "seeds", "steps", "minutes", "score", "best", "human", "hardware", "protocol")
_OVER_COLUMNS = ("configuration", "games", "runs", "mean", "median", "IQM", "optimality gap", "protocol")
_COMPARED_COLUMNS = ("game", "configuration", "frames", STATISTIC, "Dopamine's DQN (lowest to highest)", "protocol")
_NUMBERS = frozenset(
    {"steps", "minutes", "score", "best", "human", "runs", "frames", *_OVER_COLUMNS[3:7], *_COMPARED_COLUMNS[3:5]}
)


def report_tables(report: Report) -> list[Table]:
    """A table of each game; then, where there are such figures, over games and beside the published curves."""
    games = [_game_table(game, list(rows)) for game, rows in itertools.groupby(report.rows, lambda row: row.group.game)]
    notes = Table("Notes", (), [], (*_reading_notes(report), *report.notes))
    return [*games, *_over_tables(report), *_compared_tables(report), notes]


def as_json(report: Report) -> dict[str, object]:
    """All figures, for `json.dumps`; null for one that there is none of."""
    return {
        "rows": [_row_json(row) for row in report.rows],
        "over_games": [
            {
                "configuration": one.configuration,
                "games": list(one.games),
                "runs": one.runs,
                "protocol": one.protocol,
                "human_table": "dqn_zoo",
            }
            | {name: _aggregate_json(figure) for name, figure in one.figures.items()}
            for one in report.over_games
        ],
        "notes": list(report.notes),
    }


def _game_table(game: str, found: Sequence[Row]) -> Table:
    protocols = list(dict.fromkeys(row.group.protocol for row in found))
    differ = len(protocols) > 1
    marks = {one: f"[{number}] {one}" if differ else one for number, one in enumerate(protocols, start=1)}
    kept = [name for name in _GAME_COLUMNS if name != "human" or any(row.human for row in found)]
    cells = [_game_cells(row, marks[row.group.protocol]) for row in found]
    note = "Rows with different numbers before the protocol were played by different rules: don't compare their scores."
    rows = [tuple(row[name] for name in kept) for row in cells]
    return Table(game, tuple(kept), rows, (note,) if differ else (), _NUMBERS)


def _game_cells(row: Row, protocol: str) -> dict[str, str]:
    mean, half = row.score
    return {
        "configuration": row.group.configuration,
        "seeds": f"{len(row.seeds)} ({', '.join(_NONE if one.seed is None else str(one.seed) for one in row.seeds)})",
        "steps": _range([one.steps for one in row.seeds], ",.0f"),
        "minutes": _range([one.minutes for one in row.seeds], ",.1f"),
        "score": _number(mean) + ("" if math.isnan(half) else f" +/- {_number(half)}"),
        "best": _number(row.best),
        "human": _NONE if row.human is None else f"{sum(row.human) / len(row.human):.3f}",
        "hardware": "; ".join(row.devices),
        "protocol": protocol,
    }


def _over_tables(report: Report) -> list[Table]:
    if not report.over_games:
        return []
    rows = [
        (
            one.configuration,
            f"{len(one.games)} ({', '.join(one.games)})",
            str(one.runs),
            *(_aggregate(one.figures[name]) for name in ("mean", "median", "iqm", "optimality_gap")),
            one.protocol,
        )
        for one in report.over_games
    ]
    note = (
        "Of the runs' last evaluations, human-normalised. IQM: mean without the lowest and the highest quarter of all "
        "runs. Optimality gap: what is missing to a person's score on average; lower is better. In brackets: 95% "
        "intervals by a bootstrap over seeds, stratified by games (Agarwal et al., 2021)."
    )
    return [Table("Over games", _OVER_COLUMNS, rows, (note,), _NUMBERS)]


def _compared_tables(report: Report) -> list[Table]:
    rows = [_compared_cells(row, row.comparison) for row in report.rows if row.comparison is not None]
    if not rows:
        return []
    note = (
        f"Both are the mean return (raw, undiscounted) of the training games that ended within the million frames up "
        f"to there, {STATISTIC} of progress.csv, not a score of evaluations; published: mean of 5 runs, lowest to "
        f"highest, protocol {PROTOCOL}."
    )
    marked = "Marked rows were played by other rules than the published ones: don't compare their scores."
    differ = any(row.comparison is not None and not row.comparison.same_rules for row in report.rows)
    return [Table("Beside Dopamine's DQN", _COMPARED_COLUMNS, rows, (note, marked) if differ else (note,), _NUMBERS)]


def _compared_cells(row: Row, comparison: Comparison) -> tuple[str, ...]:
    return (
        row.group.game,
        row.group.configuration,
        f"{comparison.frames:,}",
        _number(comparison.score),
        f"{_number(comparison.mean)} ({_number(comparison.low)} to {_number(comparison.high)})",
        row.group.protocol if comparison.same_rules else f"[other] {row.group.protocol}",
    )


def _reading_notes(report: Report) -> tuple[str, ...]:
    """What the figures of every game's table are."""
    human = f"human: the score as a share of the way from the random policy's to a person's ({TABLES['dqn_zoo']})."
    return (
        "score: mean over seeds of the last evaluation's mean return (raw, undiscounted, whole games), and its 95% "
        "interval over seeds (Student's t) from two seeds on; steps and minutes are those of that evaluation.",
        "best: mean over seeds of each run's best evaluation, which is biased upwards: the luckiest one is picked.",
        *((human,) if any(row.human for row in report.rows) else ()),
    )


def _row_json(row: Row) -> dict[str, object]:
    mean, half = row.score
    compared = row.comparison
    return {
        "game": row.group.game,
        "configuration": row.group.configuration,
        "protocol": row.group.protocol,
        "hardware": list(row.devices),
        "runs": [{name: _plain(value) for name, value in asdict(one).items()} for one in row.seeds],
        "score": _plain(mean),
        "interval": None if math.isnan(half) else [mean - half, mean + half],
        "best": _plain(row.best),
        "human_normalized": None if row.human is None else list(row.human),
        "published": None if compared is None else {name: _plain(value) for name, value in asdict(compared).items()},
    }


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _aggregate_json(figure: Aggregate) -> dict[str, object]:
    return {"value": figure.value, "interval": None if figure.interval is None else list(figure.interval)}


def _aggregate(figure: Aggregate) -> str:
    ends = "" if figure.interval is None else f" ({figure.interval[0]:.3f} to {figure.interval[1]:.3f})"
    return f"{figure.value:.3f}{ends}"


def _number(value: float) -> str:
    return _NONE if math.isnan(value) else f"{value:,.2f}".removesuffix(".00")


def _range(values: Sequence[float], form: str) -> str:
    known = [value for value in values if not math.isnan(value)]
    ends = [format(end, form) for end in (min(known), max(known))] if known else [_NONE]
    return " to ".join(dict.fromkeys(ends))
