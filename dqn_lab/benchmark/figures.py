"""The figures of a benchmark from what its rounds measured."""

import statistics
from collections.abc import Mapping, Sequence

from dqn_lab.benchmark.settings import STAGES
from dqn_lab.benchmark.training import Window

RATES = ("steps_per_second", "updates_per_second", "frames_per_second")


def medians(rounds: Mapping[str, Sequence[float] | None]) -> dict[str, float | list[float] | None]:
    """Returns the median of every figure over the rounds and, as `<figure>_spread`, its [min, max]; None of nothing."""
    figures: dict[str, float | list[float] | None] = {}
    for name, values in rounds.items():
        figures[name] = statistics.median(values) if values else None
        figures[f"{name}_spread"] = [min(values), max(values)] if values else None
    return figures


def summarize(
    stages: Mapping[str, Sequence[float]], windows: Sequence[Window], feeding: str
) -> dict[str, float | list[float] | None]:
    """Returns the figures of a run with a replay, as `medians` does.

    Args:
        stages: milliseconds per update by stage, one a round; those that were measured.
        windows: of training, one a round.
        feeding: "overlap" or "alternate".

    Returns:
        Rates, stages and `efficiency`; None where there is nothing to tell.
    """
    rounds = {STAGES[stage]: list(milliseconds) for stage, milliseconds in stages.items()}
    if windows:
        rounds |= {
            "steps_per_second": [window.steps / window.seconds for window in windows],
            "updates_per_second": [window.updates / window.seconds for window in windows],
            "frames_per_second": [window.frames / window.seconds for window in windows],
        }
    if windows and set(STAGES) <= set(stages):
        best = _best_possible_ms(stages, feeding)
        rounds["efficiency"] = [
            each * window.updates / window.seconds / 1000 for each, window in zip(best, windows, strict=True)
        ]
    return medians({name: rounds.get(name) for name in (*RATES, *STAGES.values(), "efficiency")})


def _best_possible_ms(stages: Mapping[str, Sequence[float]], feeding: str) -> list[float]:
    """Each round's milliseconds per update if nothing were lost between the stages."""
    best = []
    for simulate, act, sample, update in zip(*(stages[stage] for stage in STAGES), strict=True):
        beside = act + simulate + sample
        best.append(max(update, beside) if feeding == "overlap" else update + beside)
    return best
