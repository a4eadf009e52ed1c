"""All commands by their names; `python -m dqn_lab.cli --help` lists them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from dqn_lab.commands.benchmark import benchmark
from dqn_lab.commands.evaluate import evaluate
from dqn_lab.commands.plot import plot
from dqn_lab.commands.record import record
from dqn_lab.commands.report import report
from dqn_lab.commands.runs import runs
from dqn_lab.commands.train import train

COMMANDS: dict[str, tuple[Callable[[Sequence[str] | None], int], str]] = {
    "dqn-train": (train, "trains what a rundef says"),
    "dqn-evaluate": (evaluate, "plays whole games with a run's agent and tells their scores"),
    "dqn-record": (record, "films whole games of a run's agent, or shows them in a window"),
    "dqn-plot": (plot, "draws curves of runs, with published ones behind"),
    "dqn-report": (report, "tells what several runs have reached, in tables"),
    "dqn-runs": (runs, "lists the runs under a directory"),
    "dqn-benchmark": (benchmark, "measures speed and memory of what a rundef says"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m dqn_lab.cli COMMAND ...`: the same commands where scripts aren't on the path."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help"):
        print("usage: python -m dqn_lab.cli COMMAND ...\n\ncommands, each with its own --help:")
        for name, (_, line) in COMMANDS.items():
            print(f"  {name}  {line}")
        return 0
    if words[0] not in COMMANDS:
        known = ", ".join(COMMANDS)
        print(f"dqn_lab: error: commands are {known}. Received: {words[0]}", file=sys.stderr)
        return 2
    return COMMANDS[words[0]][0](words[1:])


if __name__ == "__main__":
    sys.exit(main())
