"""What `dqn-evaluate` does: plays games with saved agents of a run, and sums up their scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

from dqn_lab.assembly import LANES, MANY_LANES
from dqn_lab.checkpoint import find_complete
from dqn_lab.devices import import_tensorflow
from dqn_lab.evaluation import evaluate
from dqn_lab.evaluation_status import EvaluationStatus
from dqn_lab.protocols import get_protocol
from dqn_lab.run_record import read_config
from dqn_lab.saved_run import RunGames
from dqn_lab.score_summary import ScoreSummary, frames_per_step
from dqn_lab.snapshots import Snapshot, find_snapshot, kept_snapshots, load_snapshot

EPISODES = 30
ALL = "all"


def evaluate_run(
    run_directory: Path,
    *,
    which: str | None = None,
    episodes: int | None = None,
    frames: int | None = None,
    protocol: str | None = None,
    epsilon: float | None = None,
    seed: int = 0,
    num_envs: int | None = None,
    verbose: bool = False,
    say: Callable[[str], None] = print,
    show: Callable[[str, float], None] | None = None,
) -> list[ScoreSummary]:
    """Evaluates saved agents of a run; nothing in its directory is changed.

    Args:
        run_directory, protocol, epsilon: as `load_run`.
        which: as `load_run`, or "all" for every one that was kept; None: the best, or where there is none the latest.
        episodes: games of each agent.
        frames: emulator frames in their place: as many games as fit, and the last one cut.
        seed: of the games.
        num_envs: games beside each other; None: as in the run's own evaluations.
        verbose: lets TensorFlow say what it likes.
        say: is told, in a line, what isn't as asked.
        show: is told twice a second how far it is, in words and from 0 to 1; None.

    Returns:
        One summary; of "all" one for each count of steps, ascending.

    Raises:
        ValueError: as `load_run`; or there are too few frames for one step.
    """
    if protocol is not None:
        get_protocol(protocol)  # what is wrong is told before the seconds that building takes
    read_config(run_directory)
    chosen = choose_save(run_directory, which, say)
    import_tensorflow(verbose)
    games = RunGames(run_directory, protocol, epsilon)
    games.close()
    limits = _limits(episodes, frames, games)
    lanes = num_envs or (LANES if games.is_atari else MANY_LANES)
    lanes = int(min(lanes, limits["num_episodes"]))

    def play(agent, snapshot: Snapshot) -> ScoreSummary:
        twin = games.make_twin(agent, lanes)
        skip = frames_per_step(games.protocol)
        label = chosen if chosen in ("best", "latest") else f"{snapshot.steps:,} steps"
        watch = None if show is None else EvaluationStatus(twin, limits, label, show, frames_per_step=skip)
        try:
            result = evaluate(twin, **limits, seed=seed, watch=watch)
        finally:
            twin.close()
        about = (games.protocol, games.epsilon, seed, games.game if games.is_atari else None)
        name = snapshot.which if chosen == ALL else chosen
        return ScoreSummary(result, str(run_directory), name, snapshot.steps, *about)

    return [play(*each) for each in load_saves(run_directory, chosen, say)]


def choose_save(run_directory: Path, which: str | None, say: Callable[[str], None]) -> str:
    """Says what to load before anything is built; refuses what isn't there. Arguments as `evaluate_run`."""
    if which == ALL:
        if not kept_snapshots(run_directory):
            raise ValueError(f"This run has saved nothing. Received: run_directory={str(run_directory)!r}")
        return ALL
    falls_back = which is None and find_complete(run_directory / "best") is None
    chosen = "latest" if falls_back else "best" if which is None else which
    snapshot = find_snapshot(run_directory, chosen)
    if falls_back:
        say("no evaluation of this run has been saved as its best: its newest checkpoint plays")
    return chosen if chosen == "latest" else snapshot.which


def load_saves(run_directory: Path, chosen: str, say: Callable[[str], None]) -> Iterator[tuple[object, Snapshot]]:
    """Loads what `choose_save` chose: one agent and its snapshot, or of "all" each that was kept, by its steps."""
    if chosen != ALL:
        yield load_snapshot(run_directory, chosen)
        return
    for snapshot in kept_snapshots(run_directory):
        try:
            loaded = load_snapshot(run_directory, snapshot.which)
        except (ValueError, OSError):
            if snapshot.path.exists():
                raise
            say(f"{snapshot.path.name} was removed meanwhile, and is left out")  # by a run that goes on
        else:
            yield loaded


def _limits(episodes: int | None, frames: int | None, games: RunGames) -> dict[str, float]:
    if frames is None:
        return {"num_episodes": EPISODES if episodes is None else episodes, "num_max_iter": math.inf}
    skip = frames_per_step(games.protocol)
    steps = int(frames // skip)
    if not steps:
        raise ValueError(f"`frames` must be at least {skip:g}, those of one step. Received: frames={frames}")
    return {"num_episodes": math.inf, "num_max_iter": steps}
