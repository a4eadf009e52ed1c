"""What the games of one evaluation say of an agent: mean, spread, interval, and the rules they were played under."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from dqn_lab.evaluation import EvaluationResult
from dqn_lab.protocols import Protocol
from dqn_lab.scores import TABLES, human_normalized

_CONFIDENCE = 0.95
_RESAMPLES = 9_999
_BATCH = 10_000_000  # numbers that are drawn at a time


@dataclass(frozen=True)
class ScoreSummary:
    """An evaluation's games, and what they are of.

    Args:
        result: of `evaluate`.
        run_directory: whose agent played.
        which: save of it, as it was asked for: "best", "latest" or steps.
        steps: agent steps of the run at this save.
        protocol: rules of the games, or None.
        epsilon: share of random actions.
        seed: of the games.
        game: of Atari, for scores normalised by people's; else None.
        human_table: see `dqn_lab.scores.published_scores`.
    """

    result: EvaluationResult
    run_directory: str
    which: str
    steps: int
    protocol: Protocol | None
    epsilon: float
    seed: int
    game: str | None = None
    human_table: str = "dqn_zoo"

    @functools.cached_property
    def interval(self) -> tuple[float, float] | None:
        """The mean's 95% bootstrap interval; None for fewer than two games."""
        return mean_bootstrap_interval(self.result.returns)

    @property
    def frames(self) -> int:
        """Emulator frames that the steps of the counted games stand for; of a drawn frame skip, on average."""
        return round(sum(self.result.lengths) * frames_per_step(self.protocol))

    @property
    def human_normalized(self) -> float | None:
        """The mean as a share of the way from the random policy's score to a person's; None where none is published."""
        if self.game is None or not self.result.episodes:
            return None
        return human_normalized(self.game, self.result.return_mean, self.human_table)

    def as_json(self) -> dict[str, object]:
        """Everything, for `json.dumps`; null for a figure that there is none of."""
        result, returns = self.result, self.result.returns
        interval = self.interval
        return {
            "run_directory": self.run_directory,
            "which": self.which,
            "steps": self.steps,
            "protocol": None if self.protocol is None else str(self.protocol),
            "epsilon": self.epsilon,
            "seed": self.seed,
            "episodes": result.episodes,
            "mean": result.return_mean if returns else None,
            "std": result.return_std if returns else None,
            "median": float(np.median(returns)) if returns else None,
            "min": min(returns, default=None),
            "max": max(returns, default=None),
            "interval": None if interval is None else list(interval),
            "human_normalized": self.human_normalized,
            "human_table": self.human_table,
            "cut": result.cut,
            "capped": result.capped,
            "frames": self.frames,
            "returns": list(returns),
            "lengths": list(result.lengths),
        }

    def lines(self) -> list[str]:
        """Lines for people."""
        result = self.result
        rows = {
            "run": self.run_directory,
            "agent": name_agent(self.which, self.steps),
            "protocol": f"{self.protocol or 'none'}, epsilon {self.epsilon:g}",
            "games": f"{result.episodes:,} of seed {self.seed}; {result.cut} cut, {result.capped} capped",
        }
        rows |= self._figure_rows() if result.episodes else {"return": "none: no game was finished"}
        width = max(map(len, rows))
        return [f"{name:<{width}}  {words}" for name, words in rows.items()]

    def _figure_rows(self) -> dict[str, str]:
        figures, lengths = self.as_json(), self.result.lengths
        mean, std, median, least, most = (_number(figures[name]) for name in ("mean", "std", "median", "min", "max"))
        rows = {
            "return": f"{mean} +/- {std}, median {median}, min {least}, max {most}",
            "95%": _interval(self.interval) + " (bootstrap interval of the mean)",
            "length": f"{_number(float(np.mean(lengths)))} steps, min {min(lengths):,}, max {max(lengths):,}",
        }
        human = self.human_normalized
        if human is not None:
            rows["human"] = f"{human:.1%} of the way from the random policy to people ({TABLES[self.human_table]})"
        return rows


_COLUMNS = ("steps", "agent", "mean", "std", "median", "min", "max", "95%", "games", "cut", "capped")


def name_agent(which: str, steps: int) -> str:
    """An agent's name for people: by which it was asked for, its steps among it."""
    return f"{'that' if which == str(steps) else which + ','} of {steps:,} steps"


def summary_table(summaries: list[ScoreSummary]) -> list[str]:
    """Lines for people: a row for each agent of one run, under the same rules."""
    first = summaries[0]
    rows = [(*_COLUMNS, "human") if first.game else _COLUMNS, *(_row(one) for one in summaries)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    human = f"; human: share of the way to people's scores in {TABLES[first.human_table]}" if first.game else ""
    return [
        f"{first.run_directory}: {first.protocol or 'no protocol'}, epsilon {first.epsilon:g}, seed {first.seed}",
        *("  ".join(map(str.rjust, row, widths)) for row in rows),
        f"95%: bootstrap interval of the mean{human}",
    ]


def mean_bootstrap_interval(returns: tuple[float, ...]) -> tuple[float, float] | None:
    """The 95% interval of a mean by the percentile bootstrap: the same for the same games.

    Args:
        returns: one a game.

    Returns:
        Its ends; None for fewer than two games, which say nothing of their spread.
    """
    if len(returns) < 2:
        return None
    from scipy.stats import bootstrap

    drawn = bootstrap(
        (np.asarray(returns),),
        np.mean,
        confidence_level=_CONFIDENCE,
        n_resamples=_RESAMPLES,
        method="percentile",  # BCa has no answer where all games are equal
        batch=max(1, _BATCH // len(returns)),
        random_state=np.random.default_rng(0),
    ).confidence_interval
    return float(drawn.low), float(drawn.high)


def frames_per_step(protocol: Protocol | None) -> float:
    """Emulator frames of a step; of a drawn frame skip (low, high), high excluded, the mean."""
    skip = 1 if protocol is None else protocol.frame_skip
    return (skip[0] + skip[1] - 1) / 2 if isinstance(skip, tuple) else skip


def _row(summary: ScoreSummary) -> tuple[str, ...]:
    figures = summary.as_json()
    human = figures["human_normalized"]
    share = "-" if human is None else f"{human:.1%}"
    return (
        f"{summary.steps:,}",
        "best" if summary.which == "best" else "",
        *(_number(figures[name]) for name in ("mean", "std", "median", "min", "max")),
        _interval(summary.interval),
        *(f"{figures[name]:,}" for name in ("episodes", "cut", "capped")),
        *((share,) if summary.game else ()),
    )


def _interval(interval: tuple[float, float] | None) -> str:
    return "-" if interval is None else " to ".join(map(_number, interval))


def _number(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "-"
    return f"{value:,.2f}".removesuffix(".00")
