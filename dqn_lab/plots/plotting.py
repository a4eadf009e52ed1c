"""What `dqn-plot` draws: curves of runs, their mean and range over seeds, published curves behind them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dqn_lab.arguments import require_choice
from dqn_lab.output_file import check_output, whole_file
from dqn_lab.plots.curve_figure import X_LABELS, Panel, count_runs, draw_panels, figure_style
from dqn_lab.plots.curve_groups import CurveGroup, group_curves
from dqn_lab.reports.published_curves import STATISTIC, PublishedCurve, published_curve
from dqn_lab.run_record import read_runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
PUBLISHED = ("dopamine",)
# Of rundefs that have no key for it: what they play.
_WORLDS = {
    "catch": "Catch",
    "catch_async": "Catch",
    "cartpole_v0": "CartPole-v0",
    "cartpole_v1": "CartPole-v1",
    "cartpole_async": "CartPole-v1",
    "acrobot_v1": "Acrobot-v1",
    "mountaincar_v0": "MountainCar-v0",
}


def plot_runs(
    run_directories: Iterable[str | Path],
    out: str | Path | None = None,
    *,
    x: str = "steps",
    y: str | None = None,
    compare: str | None = None,
    title: str | None = None,
    say: Callable[[str], None] = print,
) -> Figure:
    """Draws runs' curves: a panel for each game, in it a line for each configuration, with a band over its seeds.

    Args:
        run_directories: one or more; they are only read, and their runs may be going on.
        out: a .png, .svg or .pdf; None: no file. The same runs give the same file.
        x: "steps", "frames", "updates" or "minutes".
        y: a column of progress.csv, or "human_normalized": its eval_return_mean between random policy (0) and human
            (1) as DQN Zoo has them. None: eval_return_mean, with `compare` train_return_mean.
        compare: "dopamine": Dopamine's published curve of DQN behind the runs', mean and range of 5 runs. It is of
            training games under the protocol "dopamine".
        title: above all panels.
        say: is told, in a line each, what is no run and what can't be drawn.

    Returns:
        The figure, which a notebook shows.

    Raises:
        ValueError: none is a run directory, one doesn't exist, none has a point to draw, or what was asked for isn't
            there.
        OSError: the file can't be written.
    """
    out = None if out is None else check_output(out, SUFFIXES)
    require_choice("x", x, X_LABELS)
    y = _column(x, y, compare)
    directories = list(run_directories)
    if not directories:
        raise ValueError("At least one run directory is needed. Received: run_directories=[]")
    groups = group_curves(read_runs(directories, say), x, y, say)
    for group in groups:
        if not len(group.x):
            say(f"{group.runs.configuration}: its {count_runs(group)} share no range of {x}, so they have no mean")
    panels = _panels(groups, compare is not None, say)
    figure = draw_panels(panels, x=x, y=y, title=title)
    if out is not None:
        _save(figure, out)
    return figure


def _column(x: str, y: str | None, compare: str | None) -> str:
    """The column to draw; refuses what no published curve can stand beside."""
    if compare is None:
        return "eval_return_mean" if y is None else y
    require_choice("compare", compare, PUBLISHED)
    if x not in ("steps", "frames"):
        raise ValueError(f"Published curves are over steps or frames. Received: x={x!r}, compare={compare!r}")
    if y not in (None, "train_return_mean", "eval_return_mean"):
        raise ValueError(f"Published curves are of raw returns. Received: y={y!r}, compare={compare!r}")
    return STATISTIC if y is None else y


def _panels(groups: Sequence[CurveGroup], compare: bool, say: Callable[[str], None]) -> list[Panel]:
    worlds: dict[str, list[CurveGroup]] = {}
    for group in groups:
        worlds.setdefault(_WORLDS.get(group.runs.game, group.runs.game), []).append(group)
    panels = [Panel(world, tuple(found), _published(found) if compare else None) for world, found in worlds.items()]
    without = [panel.world for panel in panels if panel.published is None] if compare else []
    if without and len(without) == len(panels):
        raise ValueError(f"No curve is published of {', '.join(without)}. Received: compare='dopamine'")
    if without:
        say(f"no curve is published of {', '.join(without)}")
    return panels


def _published(groups: Sequence[CurveGroup]) -> PublishedCurve | None:
    game = groups[0].runs.runs[0].game
    return None if game is None else published_curve(game)


def _save(figure: Figure, out: Path) -> None:
    # No date, so that the same figure is the same file.
    metadata = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[out.suffix.lower()]
    drawn = io.BytesIO()  # of a file that can't be written matplotlib may say anything but that
    with figure_style():
        figure.savefig(drawn, format=out.suffix[1:].lower(), metadata=metadata)
    with whole_file(out) as part:
        part.write_bytes(drawn.getbuffer())
