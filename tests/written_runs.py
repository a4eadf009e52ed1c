"""Run directories written by hand: a config.json and the rows of a progress.csv."""

import csv
import json
from pathlib import Path

from dqn_lab.protocols import PROTOCOLS


def write_run(
    directory: Path, rows: dict[str, list], *, rundef="catch", protocol="classic-control", **arguments
) -> Path:
    """Writes a run.

    Args:
        directory: is made.
        rows: column -> a cell a row; "" where there is no figure.
        rundef, arguments: of the run.
        protocol: a name, a `Protocol`, or None.
    """
    protocol = PROTOCOLS.get(protocol, protocol)
    config = {"rundef": rundef, "arguments": arguments, "protocol": protocol and protocol.to_config()}
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with open(directory / "progress.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(rows)
        writer.writerows(zip(*rows.values(), strict=True))
    return directory
