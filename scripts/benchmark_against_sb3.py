"""Compares the speed of training with Stable-Baselines3's DQN, on Breakout, in turn and in processes of their own.

    python scripts/benchmark_against_sb3.py --sb3-python PATH

PATH is a Python of an environment with stable-baselines3, ale-py and opencv. Both do the same work for the same steps;
see `sb3_throughput.py` beside this file.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from dqn_lab.benchmark.settings import rounds_in

CAPACITY, FILL = 20_000, 4_000  # steps
SETTINGS = (
    "double=False",
    "optimizer=adam",
    "learning_rate=1e-4",
    "gradient_clip=10.0",
    "epsilon_start=0.1",  # and the protocol's final 0.1
    f"replay_capacity_steps={CAPACITY}",
    f"replay_min_steps={FILL}",
)


OURS = tuple(
    f"{lanes} {precision} {feeding}"
    for precision, feeding in (("float32", "auto"), ("mixed_bfloat16", "auto"), ("mixed_bfloat16", "overlap"))
    for lanes in (1, 4, 8)
    if (lanes, feeding) != (1, "overlap")  # which needs a lane for each step between two updates
)


def our_command(ours: str, seconds: float, settings: Sequence[str]) -> list[str]:
    """Returns the command that measures this package: "lanes precision feeding"."""
    lanes, precision, feeding = ours.split()
    settings = (f"num_envs={lanes}", f"precision={precision}", f"feeding={feeding}", *settings)
    command = [sys.executable, "-m", "dqn_lab.cli", "dqn-benchmark", "breakout_v0", "--what", "train", "--json"]
    command += ["--seconds", str(seconds)]
    for setting in (*SETTINGS, *settings):
        command += ["--set", setting]
    return command


def sb3_command(python: str, num_envs: int, seconds: float) -> list[str]:
    """Returns the command that measures Stable-Baselines3, in as many windows."""
    windows = rounds_in(seconds)
    figures = {"num-envs": num_envs, "window-seconds": seconds / windows, "windows": windows}
    figures |= {"capacity": CAPACITY, "fill": FILL}
    words = [word for name, value in figures.items() for word in (f"--{name}", str(value))]
    return [python, str(Path(__file__).with_name("sb3_throughput.py")), *words]


def ratios(ours: Mapping[str, Sequence[float]], sb3: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """Returns how many times as fast each of ours is as the best of SB3's, round by round."""
    best = [max(rates) for rates in zip(*sb3.values(), strict=True)]
    return {name: [rate / most for rate, most in zip(rates, best, strict=True)] for name, rates in ours.items()}


def measure(command: Sequence[str]) -> float:
    """Returns the steps per second that a command prints."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])["steps_per_second"]


def summary(values: Sequence[float], decimals: int) -> str:
    """Returns median and range in words."""
    low, middle, high = (f"{each:.{decimals}f}" for each in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({low} to {high})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sb3-python", required=True, metavar="PATH", help="a Python with stable-baselines3")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30.0, help="of measuring, each time")
    parser.add_argument("--num-envs", type=int, nargs="+", default=[1, 4, 8], help="environments of SB3, in turn")
    parser.add_argument(
        "--ours", nargs="+", default=OURS, metavar="'LANES PRECISION FEEDING'", help="of this package, in turn"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="more settings of ours")
    given = parser.parse_args()

    ours = {f"ours, {each}": our_command(each, given.seconds, given.set) for each in given.ours}
    sb3 = {f"SB3, {count} env(s)": sb3_command(given.sb3_python, count, given.seconds) for count in given.num_envs}
    rates: dict[str, list[float]] = {name: [] for name in (*ours, *sb3)}
    for number in range(given.rounds):
        for name, command in (ours | sb3).items():
            rates[name].append(measure(command))
            print(f"round {number + 1}: {name}: {rates[name][-1]:.1f} steps/s", flush=True)
    for name, values in rates.items():
        print(f"{name}: {summary(values, 1)} steps/s")
    for name, values in ratios({name: rates[name] for name in ours}, {name: rates[name] for name in sb3}).items():
        each = ", ".join(f"{value:.2f}" for value in values)
        print(f"{name} / SB3's best: {each}; median {summary(values, 2)}")


if __name__ == "__main__":
    main()
