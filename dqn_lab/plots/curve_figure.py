"""The figure of curves: a panel for each game, lines and bands in it, a legend below."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dqn_lab.callbacks.measures import COLUMNS
from dqn_lab.plots.curve_groups import HUMAN_NORMALIZED, CurveGroup
from dqn_lab.reports.published_curves import FRAMES_PER_STEP, PROTOCOL, PublishedCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

X_LABELS = {
    "steps": "steps (decisions of the agent)",
    "frames": "emulator frames",
    "updates": "updates (gradient steps)",
    "minutes": "minutes",
}
_Y_LABELS = {
    "eval_return_mean": "evaluation: mean return\n(raw, undiscounted)",
    "train_return_mean": "training games: mean return\n(raw, undiscounted)",
    HUMAN_NORMALIZED: "evaluation: human-normalised\n(0 random, 1 human, DQN Zoo)",
}
_NOTE = "line: mean of the seeds, where each has data; band: lowest to highest seed; thin lines: single seeds"

# Okabe and Ito's colours, which the colour-blind tell apart; their yellow is too pale for a line on white.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
_GREY = "#666666"
_LEGEND_CHARACTERS = 85
_WIDTH = 8.0  # inches, with a point of 1/72 inch: 800 pixels show 10 points as 14 pixels
_STYLE = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#DDDDDD",
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "text.parse_math": False,  # a $ in a title is a $
    "svg.hashsalt": "dqn_lab",  # the same names, and so the same file, each time
    "figure.dpi": 150,
    "savefig.dpi": 150,
}


@dataclass(frozen=True, eq=False)
class Panel:
    """What one pair of axes shows.

    Args:
        world: what is played.
        groups: of runs that play it.
        published: its published curve, or None.
    """

    world: str
    groups: tuple[CurveGroup, ...]
    published: PublishedCurve | None = None


def draw_panels(panels: Sequence[Panel], *, x: str, y: str, title: str | None = None) -> Figure:
    """Draws a figure of panels.

    Args:
        panels: one or more, with curves of `y` over `x`.
        x, y, title: as `dqn_lab.plots.plotting.plot_runs`.
    """
    with figure_style():
        return _draw_figure(panels, x, y, title)


def figure_style():
    """A context that figures are drawn and saved in: they look alike, whatever the user's settings of matplotlib."""
    import matplotlib.style

    return matplotlib.style.context(["default", _STYLE])


def short_number(value: float, position: int | None = None) -> str:
    """A tick's text: 2.5M, 40k, 0.1."""
    value = round(float(value), 9)
    for unit, suffix in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:g}{suffix}"
    return f"{value:g}"


def _draw_figure(panels: Sequence[Panel], x: str, y: str, title: str | None) -> Figure:
    from matplotlib.figure import Figure  # without pyplot, which would keep each figure

    columns = 1 if len(panels) == 1 else 2 if len(panels) <= 4 else 3
    rows = -(-len(panels) // columns)
    looks = _looks(panels)
    lines = sum(look["label"].count("\n") + 1 for look in looks.values()) + 2  # for a note and a published curve
    height = (4.2 if columns == 1 else 2.8) * rows + 0.2 * lines
    figure = Figure((_WIDTH, height), layout="constrained")
    for number, panel in enumerate(panels):
        axes = figure.add_subplot(rows, columns, number + 1)
        _draw(axes, panel, looks, x)
        axes.set_xlabel(X_LABELS[x])
        if number % columns == 0:
            axes.set_ylabel(_y_label(y))
    if title:
        figure.suptitle(title)
    _add_legend(figure, has_bands=any(len(group.curves) > 1 for panel in panels for group in panel.groups))
    return figure


def _looks(panels: Sequence[Panel]) -> dict[tuple[str, str], dict]:
    """A configuration and its protocol -> label, colour and dashes of its line, in every panel alike."""
    counts: dict[tuple[str, str], dict[str, str]] = {}
    for panel in panels:
        for group in panel.groups:
            counts.setdefault(_key(group), {})[panel.world] = count_runs(group)
    return {
        (label, protocol): {
            "label": textwrap.fill(f"{label}, {_counted(of_world)}, {protocol}", _LEGEND_CHARACTERS),
            "color": _COLOURS[number % len(_COLOURS)],
            "linestyle": _DASHES[number % len(_DASHES)],
        }
        for number, ((label, protocol), of_world) in enumerate(counts.items())
    }


def count_runs(group: CurveGroup) -> str:
    """How many runs, in words: "seed 0", "3 seeds"; "2 runs" where a seed isn't told, or is there twice."""
    number = len(group.curves)
    seeds = {run.seed for run in group.runs.runs} - {None}
    if len(seeds) < number:
        return f"{number} run" + "s" * (number > 1)
    return f"{number} seeds" if number > 1 else f"seed {seeds.pop()}"


def _counted(of_world: dict[str, str]) -> str:
    """How many runs, said once where it is the same in all panels."""
    if len(set(of_world.values())) == 1:
        return next(iter(of_world.values()))
    return ", ".join(f"{world}: {count}" for world, count in of_world.items())


def _key(group: CurveGroup) -> tuple[str, str]:
    return group.runs.configuration, group.runs.protocol


def _draw(axes: Axes, panel: Panel, looks: dict[tuple[str, str], dict], x: str) -> None:
    for group in panel.groups:
        _draw_group(axes, group, looks[_key(group)])
    if panel.published is not None:
        _draw_published(axes, panel, x)
    axes.set_title(panel.world)
    axes.xaxis.set_major_formatter(short_number)
    axes.yaxis.set_major_formatter(short_number)


def _add_legend(figure: Figure, *, has_bands: bool) -> None:
    """Below all panels, where it covers no curve; each configuration once."""
    lines = {}
    for axes in figure.axes:
        for line, label in zip(*axes.get_legend_handles_labels(), strict=True):
            lines.setdefault(label, line)
    if (published := lines.pop(_published_label(), None)) is not None:
        lines[_published_label()] = published  # last, whichever panel has it
    legend = figure.legend(
        lines.values(),
        lines.keys(),
        loc="outside lower center",
        title=_NOTE if has_bands else None,
        title_fontsize=8.5,
        handlelength=3,
    )
    legend.get_title().set_color(_GREY)


def _draw_group(axes: Axes, group: CurveGroup, look: dict) -> None:
    marker = "o" if len(group.x) == 1 else None  # a line of one point shows nothing
    axes.plot(group.x, group.mean, **look, linewidth=2, marker=marker, zorder=3)
    if len(group.curves) == 1:
        return
    axes.fill_between(group.x, group.low, group.high, color=look["color"], alpha=0.18, linewidth=0, zorder=2)
    for run, curve in zip(group.runs.runs, group.curves, strict=True):
        marker = "." if len(curve.x) == 1 else None
        name = f"_{run.directory}"  # a name that begins so stays out of the legend
        axes.plot(curve.x, curve.y, color=look["color"], linewidth=0.8, alpha=0.5, marker=marker, label=name)


def _draw_published(axes: Axes, panel: Panel, x: str) -> None:
    """Draws the published curve as far as the runs go, to the next point beyond."""
    curve, end = panel.published, max(curve.x[-1] for group in panel.groups for curve in group.curves)
    scale = 1 if x == "frames" else FRAMES_PER_STEP
    xs = np.array(curve.frames) / scale  # [K]
    shown = slice(0, int(np.searchsorted(xs, end)) + 1)
    axes.fill_between(xs[shown], curve.low[shown], curve.high[shown], color=_GREY, alpha=0.18, linewidth=0, zorder=1)
    axes.plot(
        xs[shown],
        curve.mean[shown],
        color=_GREY,
        linewidth=1.5,
        marker="o",
        markersize=3,
        label=_published_label(),
        zorder=2,
    )
    axes.set_xlim(right=1.03 * max(end, xs[0]))


def _published_label() -> str:
    said = f"Dopamine's DQN, mean and range of 5 runs, training games of each 1M frames, {PROTOCOL}"
    return textwrap.fill(said, _LEGEND_CHARACTERS)


def _y_label(y: str) -> str:
    units = {one.key: one.unit for one in COLUMNS}
    return _Y_LABELS.get(y) or (f"{y} ({units[y]})" if units.get(y) else y)
