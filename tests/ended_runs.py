"""Run directories as runs leave them, written by hand: configuration, rows, log and a checkpoint's counters."""

import json

from dqn_lab.checkpoint import write_checkpoint
from dqn_lab.protocols import PROTOCOLS

COLUMNS = (
    "steps",
    "frames",
    "updates",
    "epochs",
    "episodes",
    "minutes",
    "train_return_mean",
    "eval_return_mean",
)


def leave_run(
    directory,
    rows=(),
    *,
    rundef="toy",
    arguments=None,
    protocol="classic-control",
    totals=None,
    log=None,
    counters=None,
    device="cpu (as asked)",
):
    """Writes a run directory.

    Args:
        directory: to be made.
        rows: of progress.csv, each with some of `COLUMNS` by name.
        rundef, arguments, totals, device: as config.json has them.
        protocol: a protocol, its name, or None.
        log: the text of log.txt; None for no such file.
        counters: of a checkpoint; None for none.
    """
    directory.mkdir(parents=True)
    protocol = PROTOCOLS.get(protocol, protocol)
    config = {
        "format": 2,
        "rundef": rundef,
        "arguments": {"seed": 0} | (arguments or {}),
        "protocol": None if protocol is None else protocol.to_config(),
        "device": device,
        "totals": totals or {"steps": "inf", "updates": "inf", "minutes": "inf"},
    }
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    lines = [",".join(COLUMNS), *(",".join(str(row.get(name, "")) for name in COLUMNS) for row in rows)]
    (directory / "progress.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if log is not None:
        (directory / "log.txt").write_text(log, encoding="utf-8")
    if counters is not None:
        write_checkpoint(directory / "checkpoints" / str(counters["steps"]), lambda part: None, counters)
    return directory
