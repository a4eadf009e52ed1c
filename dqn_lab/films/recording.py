"""What `dqn-record` does: films games of a run's saved agents, or shows them in a window."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dqn_lab.arguments import require_integer
from dqn_lab.devices import import_tensorflow
from dqn_lab.films.film import Film
from dqn_lab.films.heat_map import heated
from dqn_lab.films.moments import FilmedGame, FilmedGames, Moment
from dqn_lab.films.overlay import Overlay, plain
from dqn_lab.films.window import Window, WindowClosed
from dqn_lab.protocols import Protocol, get_protocol
from dqn_lab.run_evaluation import ALL, choose_save, load_saves
from dqn_lab.run_record import read_config
from dqn_lab.saved_run import RunGames
from dqn_lab.score_summary import name_agent

Draw = Callable[[Moment], np.ndarray]


@dataclass(frozen=True)
class Recording:
    """What was played.

    Args:
        run_directory: whose agents.
        out: the film; None where there is none.
        frames, seconds, size: of the film: pictures, their time, width and height in pixels; 0 where there is none.
        protocol: rules of the games, or None.
        epsilon: share of random actions.
        seed: of the games.
        saliency: method of the maps over the pictures, or None.
        games: name of the save, its steps, and its games that were played to the end.
    """

    run_directory: str
    out: Path | None
    frames: int
    seconds: float
    size: tuple[int, int]
    protocol: Protocol | None
    epsilon: float
    seed: int
    saliency: str | None
    games: tuple[tuple[str, int, tuple[FilmedGame, ...]], ...]

    def lines(self) -> list[str]:
        """Lines for people."""
        width, height = self.size
        rows = [("run", self.run_directory)]
        if self.out is not None:
            rows += [
                ("film", f"{self.out}: {self.seconds:.1f} s, {self.frames:,} pictures of {width} x {height} pixels")
            ]
        rows += [("protocol", f"{self.protocol or 'none'}, epsilon {self.epsilon:g}, seed {self.seed}")]
        if self.saliency is not None:
            rows += [("saliency", f"{self.saliency}: pixels that the value of the action taken depends on")]
        for which, steps, games in self.games:
            rows += [("agent", name_agent(which, steps))]
            rows += [("game", _told(game)) for game in games]
        return [f"{name:<8}  {words}" for name, words in rows]


def record_run(
    run_directory: str | Path,
    out: str | Path | None = None,
    *,
    episodes: int = 1,
    overlay: bool = False,
    saliency: str | None = None,
    watch: bool = False,
    which: str | None = None,
    protocol: str | None = None,
    epsilon: float | None = None,
    seed: int = 0,
    zoom: int | None = None,
    verbose: bool = False,
    say: Callable[[str], None] = print,
) -> Recording:
    """Plays whole games with saved agents of a run, the same as `evaluate_run`, and films them.

    Args:
        run_directory, protocol, epsilon, seed: as `evaluate_run`.
        out: the film, an .mp4 or a .gif; None only to `watch`.
        episodes: games of each agent.
        overlay: draw score, values of the actions, and the action taken beside the picture.
        saliency: "gradient", "guided" or "deconvnet": draw over the picture which pixels of the state, of any frame in
            it, the value of the action taken depends on, see `Saliency` and `heat_map`. None for no map.
        watch: show them in a window too, at their speed; closing it ends the games, and then no film is kept.
        which: as `evaluate_run`; of "all" the steps of each agent are written under the picture.
        zoom: whole number that pixels are enlarged by; None: the least that makes the picture 400 pixels high.
        verbose, say: as `evaluate_run`.

    Raises:
        ValueError: as `load_run` and `Film`; neither `out` nor `watch`; there is no display; an environment without
            pictures; of saliency, states that are no pictures.
        ImportError: pygame is missing, where a window or the environment's pictures need it.
        OSError: the film can't be written; there is none then.

    Example:

    >>> record_run("runs/catch-seed0", "catch.mp4", episodes=3, overlay=True)
    """
    episodes = require_integer("episodes", episodes, least=1)
    zoom = None if zoom is None else require_integer("zoom", zoom, least=1)
    if out is None and not watch:
        raise ValueError("`out` must be the film's file, unless `watch` shows the games. Received: out=None")
    if protocol is not None:
        get_protocol(protocol)  # what is wrong is told before the seconds that building takes
    read_config(run_directory)
    chosen = choose_save(Path(run_directory), which, say)
    played = []
    try:
        with contextlib.ExitStack() as stack:
            film = None if out is None else stack.enter_context(Film(out))
            window = stack.enter_context(contextlib.closing(Window(str(run_directory)))) if watch else None
            import_tensorflow(verbose)
            games = RunGames(run_directory, protocol, epsilon)
            games.close()
            for agent, snapshot in load_saves(Path(run_directory), chosen, say):
                twin = games.make_twin(agent)
                stack.callback(twin.close)  # not sooner: classic control takes pygame's display down with it
                is_actor_critic = getattr(agent, "actor_critic", False)
                filmed = FilmedGames(twin, is_actor_critic, _saliency(agent.network, saliency, is_actor_critic))
                played.append((snapshot.which if chosen == ALL else chosen, snapshot.steps, filmed.games))
                label = f"{snapshot.steps:,} steps" if chosen == ALL else ""
                draw = _overlaid(filmed, games.epsilon, zoom, label) if overlay else _plain(zoom, label)
                if saliency is not None:
                    draw = _over_heat(draw)
                _show(filmed, filmed.play(episodes, seed), draw, film, window)
    except WindowClosed:
        say("the window was closed" + ("" if film is None else ": no film is kept"))
        film = None
    return Recording(
        str(run_directory),
        None if film is None else film.path,
        0 if film is None else film.frames,
        0.0 if film is None else film.seconds,
        (0, 0) if film is None else film.size,
        games.protocol,
        games.epsilon,
        seed,
        saliency,
        tuple((which, steps, tuple(each)) for which, steps, each in played),
    )


def _show(filmed: FilmedGames, moments: Iterable[Moment], draw: Draw, film: Film | None, window: Window | None) -> None:
    if film is not None:
        film.begin(filmed.frame_rate)
    for moment in moments:
        picture = draw(moment)  # [H, W, 3]
        if film is not None:
            film.write(picture)
        if window is not None:
            window.show(picture, filmed.frame_rate)


def _overlaid(filmed: FilmedGames, epsilon: float, zoom: int | None, label: str) -> Draw:
    return Overlay(filmed.action_names, epsilon, zoom, label, filmed.is_actor_critic).draw


def _plain(zoom: int | None, label: str) -> Draw:
    return lambda moment: plain(moment.picture, zoom, label)


def _saliency(network, method: str | None, is_actor_critic: bool) -> Callable | None:
    from dqn_lab.saliency import Saliency

    return None if method is None else Saliency(network, method, actor_critic=is_actor_critic)


def _over_heat(draw: Draw) -> Draw:
    def draw_heated(moment: Moment) -> np.ndarray:
        saliency = None if moment.decision is None else moment.decision.saliency
        return draw(replace(moment, picture=heated(moment.picture, saliency)))

    return draw_heated


def _told(game: FilmedGame) -> str:
    capped = ", ended by its cap" if game.capped else ""
    return f"return {game.game_return:,.6g} in {game.length:,} steps{capped}"
