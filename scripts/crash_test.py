"""Kills one Breakout run again and again, and compares its end with that of a run left alone."""

import argparse
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PERIOD_STEPS, FILL_STEPS, UPDATE_STEPS, LOG_UPDATES = 1000, 2000, 4, 5
SETTINGS = (
    f"replay_min_steps={FILL_STEPS}",
    "replay_capacity_steps=8000",  # overwritten twice in 4,000 updates
    f"train_period_steps={UPDATE_STEPS}",
    "updates_per_epoch=500",
    "target_period_updates=300",
    "epsilon_steps=10_000",
    "evaluation_max_steps=400",
    "initial_states=20",
    "initial_states_dir=none",
    f"log_period_updates={LOG_UPDATES}",
    f"checkpoint_period_steps={PERIOD_STEPS}",
    "checkpoint_period_minutes=none",
    "keep_weights=all",
)
KINDS = ("SIGKILL", "SIGTERM", "SIGINT", "SIGKILL in a save", "SIGKILL at the start")
# A save may come one update late, and where a run was when it died is known by its last point.
MOST_LOST = PERIOD_STEPS + UPDATE_STEPS * (1 + LOG_UPDATES)
POLL_SECONDS, SAVE_SECONDS = 0.002, 0.06  # a save takes a little longer


@dataclass
class Kill:
    """One kill and what came of it.

    Args:
        kind: one of KINDS.
        step: of the run when it came.
        code: exit code of the process.
        left: of a save that it broke off.
        went_on_from: step of the checkpoint that the next process began with; 0 if the run began anew, None as long as
            none has come so far.
    """

    kind: str
    step: int
    code: int
    left: str
    went_on_from: int | None = None

    @property
    def lost(self) -> int:
        return max(0, self.step - (self.went_on_from or 0))

    @property
    def complaint(self) -> str:
        """What is wrong about it; empty if nothing is."""
        asked = self.kind in ("SIGTERM", "SIGINT")
        if self.code != (130 if asked else -signal.SIGKILL):
            return f"exit code {self.code} after {self.kind}"
        allowed = 0 if asked else MOST_LOST + (FILL_STEPS if not self.went_on_from else 0)
        return f"{self.lost} steps were lost by {self.kind}" if self.lost > allowed else ""


class Process:
    """`dqn-train` at work, and what it says.

    Args:
        words: of the command.
        directory: of the run.
    """

    def __init__(self, words: list[str], directory: Path):
        self.directory = directory
        self.said: list[str] = []
        self._training = threading.Event()
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "dqn_lab.cli", "dqn-train", *words],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def went_on_from(self) -> int | None:
        """Step that it says the run goes on from, or has ended at; 0 if it began anew, None if it didn't say yet."""
        found = self._number(r"(?:continues at|this run is finished: [\d,]+ updates,) ([\d,]+) steps")
        return found or (0 if any(line.startswith("filling") for line in self.said) else None)

    @property
    def ended_at(self) -> int:
        """Step that it says it ended after; 0 if it didn't say."""
        return self._number(r"(?:stopped|ended) after [\d,]+ updates, ([\d,]+) steps")

    def wait(self) -> int:
        """Waits until it has ended by itself; returns the exit code."""
        code = self._popen.wait()
        self._reader.join()
        return code

    def wait_for_training(self) -> bool:
        """Waits for the first update to begin; tells whether it came."""
        self._training.wait()
        return self._popen.poll() is None

    def wait_until(self, condition, seconds: float = float("inf")) -> bool:
        """Waits for a condition, at most so long; tells whether the process is still there."""
        end = time.monotonic() + seconds
        while self._popen.poll() is None and time.monotonic() < end and not condition():
            time.sleep(POLL_SECONDS)
        return self._popen.poll() is None

    def kill(self, number: int) -> int:
        """Sends a signal, waits for the end, and returns the exit code."""
        self._popen.send_signal(number)
        return self.wait()

    def end(self) -> None:
        """Ends it, whatever it is doing."""
        self._popen.kill()
        self.wait()

    def _read(self) -> None:
        for line in self._popen.stdout:
            self.said.append(line.rstrip("\n"))
            if re.match("continues at|replay filled", line):
                self._training.set()
        self._training.set()

    def _number(self, pattern: str) -> int:
        found = re.search(pattern, "\n".join(self.said))
        return int(found.group(1).replace(",", "")) if found else 0


class CrashTest:
    """A run that is killed and one that is not.

    Args:
        out: directory for both.
        kills: how many.
        seed: of when they come, and of which kind.
        updates: of the whole run.
        settings: `KEY=VALUE` beside SETTINGS.
    """

    def __init__(self, out: Path, *, kills: int, seed: int, updates: int, settings: list[str]):
        self.killed, self.whole = out / "killed", out / "whole"
        self._generator = np.random.default_rng(seed)
        self._kinds = [KINDS[number % len(KINDS)] for number in range(kills)]
        self._generator.shuffle(self._kinds)
        self._settings, self._updates = settings, updates
        self._trained = [500.0, 10.0]  # steps and seconds so far; before that, a guess
        self._start_seconds = 5.0  # until training begins, at the last time

    def run(self) -> tuple[list[Kill], list[str]]:
        """Returns the kills, and complaints about what isn't as it should be."""
        kills: list[Kill] = []
        for kind in self._kinds:
            process = self._begin(self.killed)
            try:
                kill = self._kill(process, kind, self._target(kills))
            finally:
                process.end()
            self._note(kills, process)
            if kill is None:
                return kills, ["the run ended before all kills:", *process.said[-3:]]
            kills.append(kill)
            _tell(f"kill {len(kills)}: {kind} at {kill.step:,} steps, exit code {kill.code}")
        complaints = [
            self._finish(self.killed, kills),
            *(kill.complaint for kill in kills),
            self._finish(self.whole, []),
        ]
        return kills, [one for one in complaints if one] or self._compare()

    def _begin(self, directory: Path) -> Process:
        settings = [f"--set={one}" for one in (*SETTINGS, *self._settings)]
        return Process(["breakout_v0", f"--run-dir={directory}", f"--updates={self._updates}", *settings], directory)

    def _finish(self, directory: Path, kills: list[Kill]) -> str:
        _tell(f"to the end: {directory}")
        process = self._begin(directory)
        try:
            code = process.wait()
        finally:
            process.end()
        self._note(kills, process)
        return f"exit code {code} at the end: {process.said[-1:]}" if code else ""

    def _target(self, kills: list[Kill]) -> float:
        """Draws how many steps the run may make before the next kill, so that all of them find place."""
        total = FILL_STEPS + self._updates * UPDATE_STEPS
        left = total - newest_step(self.killed)
        return float(self._generator.uniform(0, 1.5)) * left / (len(self._kinds) - len(kills) + 1)

    def _kill(self, process: Process, kind: str, steps: float) -> Kill | None:
        """Kills a process when it has made about so many steps; None if it had ended by itself."""
        fraction, began, last = float(self._generator.uniform()), time.monotonic(), newest_step(self.killed) + steps
        if kind == "SIGKILL at the start":
            going_on = process.wait_until(lambda: False, fraction * self._start_seconds)
        else:
            going_on = process.wait_for_training()
            self._start_seconds, began = time.monotonic() - began, time.monotonic()
            seconds = steps * self._trained[1] / self._trained[0]
            going_on = going_on and process.wait_until(lambda: newest_step(self.killed) > last, seconds)
        if going_on and kind == "SIGKILL in a save":
            going_on = process.wait_until(lambda: unfinished_saves(self.killed))
            time.sleep(fraction * SAVE_SECONDS)
        if not going_on:
            return None
        seconds = time.monotonic() - began
        code = process.kill(signal.Signals[kind.split()[0]])
        left, step = unfinished_saves(self.killed), process.ended_at or newest_step(self.killed)
        if process.went_on_from is not None:  # before that there are points yet that will be cut
            step = max(step, last_point(self.killed))
        if kind != "SIGKILL at the start":
            made = step - (process.went_on_from or FILL_STEPS)
            self._trained = [self._trained[0] + max(made, 0), self._trained[1] + seconds]
        return Kill(kind, step, code, ", ".join(left))

    def _note(self, kills: list[Kill], process: Process) -> None:
        """Takes down where the process after a kill went on; one that was killed before it said so went on nowhere."""
        for kill in kills:
            if kill.went_on_from is None:
                kill.went_on_from = process.went_on_from

    def _compare(self) -> list[str]:
        _tell("comparing")
        sys.path.insert(0, str(ROOT / "tests"))
        from run_states import everything, names_differing

        found = [everything(one) for one in (self.whole, self.killed)]
        _tell(f"{len(found[0]):,} values and hashes are compared")
        return [f"differs: {name}" for name in names_differing(*found)]


def newest_step(directory: Path) -> int:
    """The newest checkpoint's step; 0 where there is none."""
    steps = [
        int(one.parent.name) for one in directory.glob("checkpoints/*/manifest.json") if one.parent.name.isdecimal()
    ]
    return max(steps, default=0)


def unfinished_saves(directory: Path) -> list[str]:
    """Names of saves that are being written, or were when the process died."""
    return sorted(one.name for one in directory.glob("checkpoints/.*.part"))


def last_point(directory: Path) -> int:
    """Step of the last point that TensorBoard would show; 0 where there is none."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    files = sorted(directory.glob("events.out.tfevents.*"))
    return max((event.step for file in files for event in EventFileLoader(str(file)).Load()), default=0)


def table(kills: list[Kill]) -> str:
    """The kills, in Markdown."""
    lines = ["| kill | signal | at step | went on from | steps lost | exit code | save broken off |"]
    lines.append("|---:|---|---:|---:|---:|---:|---|")
    for number, kill in enumerate(kills, 1):
        numbers = f"{kill.step:,} | {kill.went_on_from or 0:,} | {kill.lost:,} | {kill.code}"
        lines.append(f"| {number} | {kill.kind} | {numbers} | {'yes' if kill.left else ''} |")
    return "\n".join(lines)


def main(words: list[str] | None = None) -> int:
    """Returns the exit code: 0 if all is equal, and no more was lost than may be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="how many (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (default: 0)")
    parser.add_argument("--updates", type=int, default=4000, help="of the run (default: 4000)")
    parser.add_argument("--out", type=Path, default=Path("runs/crash_test"), help="a new directory for both runs")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="set a key of breakout_v0")
    given = parser.parse_args(words)
    if given.out.exists():
        parser.error(f"argument --out: must not exist yet. Received: {given.out}")
    given.out.mkdir(parents=True)
    out = given.out.resolve()
    test = CrashTest(out, kills=given.kills, seed=given.seed, updates=given.updates, settings=given.set)
    kills, complaints = test.run()
    verdict = complaints or [f"all equal: {len(kills)} kills, and at most {max(k.lost for k in kills):,} steps lost"]
    report = "\n\n".join([table(kills), "\n".join(verdict)])
    (out / "table.md").write_text(report + "\n", encoding="utf-8")
    print(report)
    return 1 if complaints else 0


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
