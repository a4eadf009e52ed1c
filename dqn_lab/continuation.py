"""What a run's continuation must have in common with its beginning, and what makes it inexact."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path

from dqn_lab.run_directory import RunDirectory, describe_software, jsonable
from dqn_lab.rundef_keys import CHANGEABLE_KEYS

# Of a protocol, what only evaluation goes by.
_CHANGEABLE_RULES = frozenset({"evaluation_epsilon", "evaluation_frame_cap", "deviations"})


def settings(
    rundef: str, arguments: Mapping[str, object], protocol=None, *, fixed: frozenset[str] = frozenset()
) -> dict:
    """Returns what may not change in a run, as JSON keeps it.

    Args:
        rundef: its name, "" for none.
        arguments: of the rundef, resolved.
        protocol: the rules the run is made under, or None.
        fixed: keys that may not change in this run, though they may in others. Before a run is built they aren't
            known, and what is compared then leaves them out.
    """
    changeable = CHANGEABLE_KEYS - fixed
    kept = {name: value for name, value in arguments.items() if name not in changeable and _is_comparable(value)}
    rules = {} if protocol is None else protocol.to_config()
    rules = {f"protocol.{name}": value for name, value in rules.items() if name not in _CHANGEABLE_RULES}
    return jsonable(({"rundef": rundef} if rundef else {}) | kept | rules)


def refuse_other_settings(directory: RunDirectory, asked: Mapping[str, object]) -> None:
    """Refuses to continue the run of a directory with other settings than it began with.

    Args:
        directory: with a run in it.
        asked: as `settings` returns them; those of the rundef alone are enough.

    Raises:
        ValueError: its config.json says otherwise, or can't be read.
    """
    began = directory.read_config().get("settings", {})
    if differing := differences(began, asked):
        raise ValueError(
            f"the run in this directory has other settings: {differing}. Set them as they were, name another directory "
            f"with --run-dir, or put the run aside with --fresh. Received: run_dir={directory.path}"
        )


def differences(before: Mapping[str, object], now: Mapping[str, object]) -> str:
    """Returns what differs of what both have, as `gamma 0.99 -> 0.9, ...`: a later version may have more settings."""
    names = [name for name in before if name in now and before[name] != now[name]]
    return ", ".join(f"{name} {before[name]} -> {now[name]}" for name in names)


def describe_machine() -> dict[str, object]:
    """Returns what the bits of a run can depend on: versions, processor, cores, threads."""
    import tensorflow as tf

    from dqn_lab.devices import usable_cores

    software = describe_software()
    software.pop("system")  # a kernel changes no sum
    threading = tf.config.threading
    return {
        **software,
        "processor": _processor(),
        "cores": usable_cores(),
        "threads": (
            f"{threading.get_intra_op_parallelism_threads() or 'any number'} in an operation, "
            f"{threading.get_inter_op_parallelism_threads() or 'any number'} beside each other"
        ),
        "gpus": len(tf.config.get_visible_devices("GPU")),
    }


def machine_changes(manifest: Mapping[str, object]) -> list[str]:
    """Returns what is another on this machine than a checkpoint's manifest says, in one text; nothing if all is equal.

    Args:
        manifest: with `describe_machine()` of its time as "machine".
    """
    changed = differences(manifest.get("machine", {}), describe_machine())
    return [changed] if changed else []


def why_inexact(sequence) -> list[str]:
    """Returns why a run will not be continued bit for bit, in a few words each; nothing where it will be."""
    import tensorflow as tf

    reasons = []
    if environments := sequence.why_inexact():
        reasons.append(f"{environments}, episodes begin anew")
    if tf.config.get_visible_devices("GPU"):
        reasons.append("a GPU adds up in another order each time")
    return reasons


def _is_comparable(value: object) -> bool:
    """Whether a value's text is the same in every process; a function's or a set's isn't."""
    if isinstance(value, dict):
        return all(map(_is_comparable, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_comparable, value))
    return value is None or isinstance(value, bool | int | float | str | Path) or hasattr(value, "tolist")


def _processor() -> str:
    """The processor's name: of one kind, sums come out the same."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
