"""The order of the package's parts: a module imports only what stands on a line above its own."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "dqn_lab"

# From the ground up. A part is a folder or a file of dqn_lab; parts of one line may know each other.
LINES = (
    "arguments",
    "replay",
    "schedules exploration protocols rewards memory devices allocator saved_state notebook",
    "environments",
    "targets losses optimizers",
    "models saliency",
    "sequences",
    "agents",
    "evaluation evaluation_status initial_states checkpoint snapshots saved_replay curves disk scores score_summary "
    "run_record seed_scores",
    "asynchronous",
    "callbacks",
    "interruption run_directory transcript rundef_keys rundef_values inspection initial_weights totals",
    "continuation run_checkpoints replay_checkpoints asynchronous_checkpoints training replay_training "
    "asynchronous_training resumable_run run asynchronous_run",
    "rundef assembly asynchronous_assembly saved_run",
    "rundefs",
    "benchmark",
    "command_line output_file seed_process seeds run_evaluation",
    "films reports",
    "plots",
    "commands",
    "cli",
)
LINE_OF = {part: number for number, line in enumerate(LINES) for part in line.split()}
# Joined only where a run is put together; callbacks take what they watch as they find it.
STRANGERS = {"agents": {"sequences"}, "callbacks": {"sequences", "agents"}}
HEAVY = {"tensorflow", "keras", "gymnasium", "ale_py", "cv2"}
# What a part may not import, not even inside a function.
FREE_OF = {
    "replay": HEAVY,
    "arguments": HEAVY,
    "schedules": HEAVY,
    "exploration": HEAVY,
    "seed_scores": HEAVY,
    "scores": HEAVY,
    "reports": HEAVY,
    "plots": HEAVY,
    "score_summary": HEAVY,
    "snapshots": HEAVY,
    "run_record": HEAVY,
    "protocols": HEAVY,
    "rewards": HEAVY,
    "memory": HEAVY,
    "allocator": HEAVY,
    "saved_state": HEAVY,
    "evaluation": HEAVY,
    "initial_states": HEAVY,
    "environments": {"tensorflow", "keras"},
}
LIGHT = ("dqn_lab", "dqn_lab.cli")  # importing these loads nothing heavy


def name_of(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(node: ast.stmt, module: str, is_package: bool) -> list[str]:
    """Full names of what one import statement asks for."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    home = module.split(".")
    home = home[: len(home) - node.level + is_package] if node.level else []
    origin = ".".join([*home, *(node.module or "").split(".")]).strip(".")
    # `from dqn_lab import evaluation` names a module only in its last word.
    return [f"{origin}.{alias.name}" for alias in node.names]


def statements(tree: ast.AST, *, at_import: bool):
    """Import statements: all, or those that run when the module is imported."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif at_import and (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            or (isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"))
        ):
            continue
        else:
            yield from statements(node, at_import=at_import)


def read(package: Path, *, at_import: bool = False) -> dict[str, list[str]]:
    """module -> full names of what it imports."""
    return {
        name_of(path, package): [
            name
            for node in statements(ast.parse(path.read_text(encoding="utf-8")), at_import=at_import)
            for name in imported(node, name_of(path, package), path.name == "__init__.py")
        ]
        for path in sorted(package.rglob("*.py"))
    }


def part_of(module: str) -> str:
    """The part a module of dqn_lab belongs to; "" for the package itself."""
    return (module.split(".") + [""])[1]


def complaint(module: str, name: str) -> str | None:
    """What is wrong with an import, or None."""
    part, root = part_of(module), name.split(".")[0]
    if root != "dqn_lab":
        return f"{module} imports {root}" if root in FREE_OF.get(part, ()) else None
    other = part_of(name)
    if other not in LINE_OF:
        return f"{module} imports the package itself: {name}"
    if other in STRANGERS.get(part, ()):
        return f"{module} knows of {name}"
    above = LINE_OF[other] <= LINE_OF[part]
    return None if above else f"{module} imports {name} from a line below its own"


def violations(package: Path) -> list[str]:
    found = []
    for module, names in read(package).items():
        part = part_of(module)
        if not part:
            continue  # it only says where the public classes live
        if part not in LINE_OF:
            found.append(f"{module} stands on no line")
            continue
        found += [said for name in names if (said := complaint(module, name))]
    return found


def loaded_with(module: str, imports: dict[str, list[str]]) -> set[str]:
    """Everything that importing a module of the package loads, as far as statements say."""
    waiting, loaded = [module], set()
    while waiting:
        name = waiting.pop()
        # An import of a.b.c runs a and a.b too; its last word may be a name inside the module.
        for known in (name.rsplit(".", depth)[0] for depth in range(name.count(".") + 1)):
            if known not in loaded:
                loaded.add(known)
                waiting += imports.get(known, [])
    return loaded


def write(package: Path, sources: dict[str, str]) -> Path:
    for name, source in sources.items():
        path = package / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return package


def test_every_module_imports_only_from_the_lines_above():
    assert violations(PACKAGE) == []


def test_the_command_line_and_the_package_load_nothing_heavy():
    imports = read(PACKAGE, at_import=True)
    for module in LIGHT:
        assert module in imports
        assert loaded_with(module, imports) & HEAVY == set()


@pytest.mark.parametrize(
    ("module", "source", "said"),
    [
        ("schedules", "import dqn_lab.models.networks", "from a line below its own"),
        ("schedules", "from dqn_lab.models import networks", "from a line below its own"),
        ("schedules", "from dqn_lab import run", "from a line below its own"),
        ("schedules", "from . import run", "from a line below its own"),
        ("schedules", "def f():\n    from .models.networks import nature", "line below its own"),
        ("sequences/atari", "from ..agents import dqn", "from a line below its own"),
        ("sequences/atari", "from dqn_lab.agents.dqn import DQN", "from a line below its own"),
        ("agents/dqn", "from dqn_lab.sequences.atari import X", "knows of dqn_lab.sequences"),
        ("callbacks/a", "if True:\n    import dqn_lab.agents.dqn", "knows of dqn_lab.agents"),
        ("callbacks/a", "from ..sequences import atari", "knows of dqn_lab.sequences.atari"),
        ("replay/ring", "def f():\n    import tensorflow as tf", "replay.ring imports tensorflow"),
        ("environments/a", "from keras import ops", "environments.a imports keras"),
        ("run", "from dqn_lab import DQN", "run imports the package itself: dqn_lab.DQN"),
        ("run", "import dqn_lab", "run imports the package itself: dqn_lab"),
        ("leftovers", "import os", "dqn_lab.leftovers stands on no line"),
    ],
)
def test_an_import_against_the_order_is_found(tmp_path, module, source, said):
    (found,) = violations(write(tmp_path / "dqn_lab", {module: source}))
    assert said in found


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("agents/dqn", "from dqn_lab.targets import td_error\nimport tensorflow as tf"),
        ("agents/dqn", "from .agent import Agent\nfrom ..losses import huber"),
        ("agents/__init__", "from . import agent\nfrom ..losses import huber"),
        ("rundef", "from dqn_lab import run"),
        ("callbacks/a", "from dqn_lab.evaluation import evaluate"),
        ("__init__", "from dqn_lab.run import Run"),
    ],
)
def test_an_import_in_order_is_left_alone(tmp_path, module, source):
    assert violations(write(tmp_path / "dqn_lab", {module: source})) == []


def test_what_an_import_loads_is_followed_through_modules_but_not_into_functions(tmp_path):
    package = write(
        tmp_path / "dqn_lab",
        {
            "cli": "from dqn_lab.rundef import load\ndef f():\n    import keras",
            "rundef": "from dqn_lab import run\nif TYPE_CHECKING:\n    import cv2",
            "run": "import dqn_lab.agents.dqn",
            "agents/__init__": "import ale_py",
            "agents/dqn": "import tensorflow.nn",
        },
    )
    loaded = loaded_with("dqn_lab.cli", read(package, at_import=True))
    assert loaded & HEAVY == {"tensorflow", "ale_py"}
