"""What a run's own files tell of it: its config.json and the rows of its progress.csv."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dqn_lab.protocols import Protocol, protocol_from_config


@dataclass(frozen=True, eq=False)
class RunRecord:
    """A run as its files tell it. Nothing of it is loaded, so it may be going on, or be of another machine.

    Args:
        directory: of the run.
        rundef: name of its rundef; "" of a run that had none.
        arguments: by its rundef's keys, in JSON's types.
        protocol: the rules of its games, or None where its rundef told none.
        config: all of its config.json.
        progress: its progress.csv: column -> one number an epoch, [E] float; NaN where it has none.
    """

    directory: Path
    rundef: str
    arguments: Mapping[str, object]
    protocol: Protocol | None
    config: Mapping[str, object]
    progress: Mapping[str, np.ndarray]

    @property
    def game(self) -> str | None:
        """The Atari game, as the run names it; None elsewhere."""
        is_atari = self.protocol is not None and self.protocol.is_atari
        return str(self.arguments["game"]) if is_atari and "game" in self.arguments else None

    @property
    def seed(self) -> int | None:
        """Its seed, where it has the key."""
        seed = self.arguments.get("seed")
        return seed if isinstance(seed, int) and not isinstance(seed, bool) else None


def read_run(directory: str | Path) -> RunRecord:
    """Reads a run's record.

    Args:
        directory: of a run, such as runs/catch-seed0.

    Raises:
        ValueError: it is no run directory, or its config.json is no run's.
    """
    config = read_config(directory)
    return RunRecord(
        Path(directory),
        str(config.get("rundef") or ""),
        config["arguments"],
        protocol_from_config(config.get("protocol")),
        config,
        read_progress(Path(directory) / "progress.csv"),
    )


def read_runs(directories: Iterable[str | Path], say: Callable[[str], None] = print) -> list[RunRecord]:
    """Reads the records of runs, each once though it may be named twice.

    Args:
        directories: such as `runs/*` names; among them may be folders and files that are no runs.
        say: is told, in a line each, which of them are left out.

    Raises:
        ValueError: none is a run directory, or one doesn't exist.
    """
    found, refused = [], []
    for place in {os.path.realpath(one): Path(one) for one in directories}.values():
        try:
            found.append(read_run(place))
        except (OSError, ValueError) as error:
            if not os.path.exists(place):  # a slip of the pen, which no `*` makes
                raise
            refused.append((place, error))
    if refused and not found:
        raise refused[0][1]
    for place, error in refused:
        say(f"{place} is left out: {str(error).partition(' Received: ')[0]}")
    return found


def read_config(directory: str | Path) -> dict:
    """Reads a run directory's config.json.

    Raises:
        ValueError: there is none, or it is no run's.
    """
    try:
        config = json.loads((Path(directory) / "config.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise ValueError(f"A run directory has a config.json. Received: run_directory={str(directory)!r}") from None
    except (RecursionError, ValueError):  # no text, or no JSON
        config = None
    if not _is_of_a_run(config):
        raise ValueError(f"config.json isn't that of a run. Received: run_directory={str(directory)!r}")
    return config


def read_progress(path: str | Path) -> dict[str, np.ndarray]:
    """Reads the rows of a progress.csv; one that isn't whole, as a killed process leaves it, is passed over.

    A row is whole when it has all its cells and its line's end: the last number may be cut, too.

    Args:
        path: of the file. Of a missing one there is nothing: {}.

    Returns:
        Column -> one number a row, [E] float64; NaN where a cell is empty, no number or not finite.
    """
    try:
        with open(path, newline="", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return {}
    reader, rows, names = csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1], newline="")), [], ()
    with contextlib.suppress(csv.Error):  # no such file at all
        names = reader.fieldnames or ()
        rows += (row for row in reader if None not in row.values() and None not in row)
    return {name: np.array([_number(row[name]) for row in rows], np.float64) for name in names}  # [E] each


def _is_of_a_run(config: object) -> bool:
    """Whether it is made as a run's config.json is, in what is read here and by those who ask for its state."""
    if not isinstance(config, dict) or not isinstance(config.get("arguments"), dict):
        return False
    totals = config.get("totals") or {}
    return (
        isinstance(config.get("rundef"), str | None)
        and isinstance(totals, dict)
        and all(isinstance(total, int | float) or total == "inf" for total in totals.values())
    )


def _number(cell: str) -> float:
    try:
        number = float(cell)
    except ValueError:
        return math.nan
    return number if math.isfinite(number) else math.nan
