"""Several seeds of one rundef: a run for each, in turn or some at a time, and a table of what they reached."""

from __future__ import annotations

import argparse
import contextlib
import queue
import signal
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dqn_lab.checkpoint import newest_counters
from dqn_lab.devices import usable_cores
from dqn_lab.interruption import EXIT_CODE, Interruption
from dqn_lab.seed_process import SeedProcess, core_numbers, say

_POLL_SECONDS = 1.0  # Windows hears Ctrl-C only between two waits


@dataclass(frozen=True)
class SeedRun:
    """One seed's run.

    Args:
        seed: its seed.
        directory: its run directory.
        words: arguments of its `dqn-train`.
    """

    seed: int
    directory: Path
    words: tuple[str, ...]


def train_seeds(runs: Sequence[SeedRun], jobs: int = 1) -> int:
    """Carries the runs out and prints what they reached.

    The first Ctrl-C or SIGTERM lets those in progress finish their update and save, and begins no other; the second
    ends all at once. If this process dies they save and end, too.

    Args:
        runs: in the order in which they begin.
        jobs: how many at a time; the CPU cores are shared out among them.

    Returns:
        The worst run's exit code: an error's before 130, for one that was stopped or not begun, before 0.

    Raises:
        KeyboardInterrupt: asked to stop twice.
    """
    from dqn_lab.seed_scores import score_table  # numpy, which --help doesn't need

    seeds = _Seeds(runs, min(jobs, len(runs)))
    seeds.carry_out()
    ends = [(run.seed, _read_reached(run.directory), _how(seeds.codes.get(run.seed))) for run in runs]
    say("\n".join(score_table(ends)), sys.stdout)
    return worst_code(seeds.codes.get(run.seed) for run in runs)


def seed_numbers(text: str) -> list[int]:
    """Reads the option --seeds: "0,1,2"."""
    words = text.split(",")
    if not all(word.strip().isdecimal() for word in words):
        raise argparse.ArgumentTypeError(f"seeds are whole numbers with commas between. Received: {text!r}")
    seeds = [int(word) for word in words]
    if len(set(seeds)) < len(seeds):
        raise argparse.ArgumentTypeError(f"a seed is given once. Received: {text!r}")
    return seeds


def share_cores(cores: Sequence[int], jobs: int) -> list[list[int]]:
    """Shares cores out among jobs, each job's beside each other; more jobs than cores get one each, in turn.

    Args:
        cores: their numbers, at least one.
        jobs: how many shares.

    Returns:
        [jobs] the numbers of each job's cores.
    """
    if jobs > len(cores):
        return [[cores[job % len(cores)]] for job in range(jobs)]
    edges = [job * len(cores) // jobs for job in range(jobs + 1)]
    return [list(cores[begin:end]) for begin, end in zip(edges, edges[1:], strict=False)]


def worst_code(codes: Iterable[int | None]) -> int:
    """The exit code for all of some runs' codes; None stands for a run that was not begun.

    A negative code is that of a process ended by a signal, an error.
    """
    codes = list(codes)
    errors = [code if code > 0 else 1 for code in codes if code not in (None, 0, EXIT_CODE)]
    return max(errors, default=EXIT_CODE if any(code != 0 for code in codes) else 0)


class _Seeds:
    """The runs of which some are waiting, some in progress and some have ended with a code."""

    def __init__(self, runs: Sequence[SeedRun], jobs: int):
        self.codes: dict[int, int] = {}
        self._number = len(runs)
        self._waiting = deque(runs)
        self._running: dict[SeedRun, tuple[SeedProcess, list[int] | None]] = {}
        self._events: queue.SimpleQueue = queue.SimpleQueue()  # (run, exit code), or None: asked to stop
        self._alone = jobs == 1
        cores = [] if self._alone else core_numbers()
        self._shares = share_cores(cores, jobs)[::-1] if cores else [None] * jobs
        if not self._alone:
            say(_describe_shares(jobs, len(cores), self._shares[::-1]), sys.stdout)

    def carry_out(self) -> None:
        """Returns when all that were begun have ended."""
        with Interruption(end_process=False, on_first=lambda: self._events.put(None)) as interruption:
            try:
                while True:
                    while self._waiting and self._shares and not interruption.requested:
                        self._begin(self._waiting.popleft())
                    if not self._running:
                        return
                    self._handle_event()
            except KeyboardInterrupt:
                for process, _ in self._running.values():
                    process.kill()
                raise

    def _begin(self, run: SeedRun) -> None:
        share = self._shares.pop()
        where = f"{self._number - len(self._waiting)} of {self._number}"
        on = "" if share is None else f" on {len(share)} core{'s'[: len(share) > 1]}"
        say(f"seed {run.seed}: {where}{on}, in {run.directory}", sys.stdout)
        process = SeedProcess(
            run.words,
            cores=share,
            prefix=None if self._alone else f"seed {run.seed}: ",
            on_end=lambda code: self._events.put((run, code)),
        )
        self._running[run] = process, share

    def _handle_event(self) -> None:
        try:
            event = self._events.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            return
        if event is None:
            say("stopping: each seed's run in progress saves first; once more ends all at once", sys.stdout)
            for process, _ in self._running.values():
                process.ask_to_stop()
            return
        run, code = event
        self.codes[run.seed] = code
        self._shares.append(self._running.pop(run)[1])
        if code not in (0, EXIT_CODE):
            say(f"seed {run.seed}: {_how(code)}", sys.stderr)


def _read_reached(directory: Path):
    from dqn_lab.seed_scores import read_reached

    return read_reached(directory / "progress.csv", newest_counters(directory / "checkpoints"))


def _describe_shares(jobs: int, cores: int, shares: Sequence[list[int] | None]) -> str:
    if not cores:
        return f"{jobs} jobs on {usable_cores()} cores, which this system can't share out: each uses all"
    counts = sorted({len(share) for share in shares})
    each = f"{counts[0]} each" if len(counts) == 1 else f"{counts[0]} or {counts[1]} each"
    return f"{jobs} jobs on {cores} cores: {each}" + (", in part the same" if jobs > cores else "")


def _how(code: int | None) -> str:
    """How a run ended, for people."""
    if code is None:
        return "not begun"
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
    return {0: "ended", EXIT_CODE: "stopped"}.get(code, f"error {code}")
