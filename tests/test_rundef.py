"""Rundefs: found by path or name, their signature is the schema, their help lists every key."""

import math
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dqn_lab import rundef as rundefs
from dqn_lab.rundef import RundefError, SettingError, default_run_directory, load_rundef
from dqn_lab.rundef_keys import ASYNCHRONOUS_KEYS, CHANGEABLE_KEYS, COMMON_KEYS, described_keys
from dqn_lab.rundef_values import parse_value, show_value

TOY = '''"""A toy.

Paper: none.
"""
from typing import Literal


def run(
    *,
    seed: int = 0,
    game: str = "breakout",
    frame_skip: int | tuple[int, int] | None = None,
    reward_transform: Literal["sign", "clip", "none"] | None = None,
    learning_rate: float = 2.5e-4,
    total_steps: int | float = 1_000_000 // 4,
    double: bool = True,
    hidden: tuple[int, ...] = (64, 64),
    plain=3,
):
    """Builds it.

    Args:
        hidden: width of each
            hidden layer [units]
        plain: a key without annotation

    Returns:
        nothing of use
    """
    return {"seed": seed}
'''


@pytest.fixture
def toy(tmp_path):
    path = tmp_path / "toy.py"
    path.write_text(TOY)
    return load_rundef(path)


def write(tmp_path, text, name="broken.py"):
    path = tmp_path / name
    path.write_text(text)
    return path


# Values.


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("seed=1_000", 1000),
        ("seed=-3", -3),
        ("game=ALE/Breakout-v5", "ALE/Breakout-v5"),
        ("game=none", "none"),
        ("frame_skip=4", 4),
        ("frame_skip=3-5", (3, 5)),
        ("frame_skip=3,5", (3, 5)),
        ("frame_skip=none", None),
        ("reward_transform=none", "none"),
        ("reward_transform=sign", "sign"),
        ("learning_rate=1e-3", 0.001),
        ("learning_rate=1", 1.0),
        ("total_steps=200_000", 200_000),
        ("total_steps=inf", math.inf),
        ("double=false", False),
        ("double=True", True),
        ("hidden=32", (32,)),
        ("hidden=256,256,64", (256, 256, 64)),
        ("plain=7", 7),
        ("game=a=b", "a=b"),
    ],
)
def test_a_value_has_the_type_that_the_signature_asks_for(toy, setting, value):
    parsed = toy.parse([setting])[setting.split("=")[0]]
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("setting", "rule"),
    [
        ("seed=1.5", "seed must be an integer. Received: seed=1.5"),
        ("seed=", "seed must be an integer. Received: seed="),
        ("seed=inf", "seed must be an integer. Received: seed=inf"),
        ("learning_rate=fast", "learning_rate must be a number. Received: learning_rate=fast"),
        ("learning_rate=nan", "learning_rate must be a number. Received: learning_rate=nan"),
        ("double=1", "double must be true or false. Received: double=1"),
        ("total_steps=many", "must be an integer or a number. Received: total_steps=many"),
        ("frame_skip=3-4-5", "must be none or an integer or integers like 3-5 or 64,64. Received:"),
        ("reward_transform=cut", "must be 'sign' or 'clip' or 'none' or none. Received:"),
        ("hidden=wide", "hidden must be integers like 3-5 or 64,64. Received: hidden=wide"),
        ("plain=x", "plain must be an integer. Received: plain=x"),
        ("seed", "--set takes KEY=VALUE. Received: seed"),
        ("=3", "--set takes KEY=VALUE. Received: =3"),
    ],
)
def test_a_value_of_another_type_is_refused_in_one_line(toy, setting, rule):
    with pytest.raises(SettingError) as refusal:
        toy.parse([setting])
    assert rule in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_an_unknown_key_is_refused_with_the_closest(toy):
    with pytest.raises(SettingError, match="closest is 'learning_rate'.*Received: learning_rat$"):
        toy.parse(["learning_rat=1e-3"])
    with pytest.raises(SettingError, match="closest is 'total_steps'.*Received: total_updates$"):
        toy.resolve({"total_updates": 3})


@given(st.integers(-(10**12), 10**12) | st.none() | st.tuples(st.integers(1, 9), st.integers(1, 9)))
def test_what_is_shown_is_read_back(value):
    assert parse_value(show_value(value), int | tuple[int, int] | None, None) == value


@given(st.floats(allow_nan=False) | st.booleans())
def test_numbers_and_flags_are_read_back(value):
    assert parse_value(show_value(value), type(value), None) == value


def test_without_annotation_and_default_the_text_decides():
    assert parse_value("a", object, 2.0) == "a"  # a type it doesn't know is read as text
    for text, value in (("none", None), ("true", True), ("3", 3), ("0.5", 0.5), ("x", "x")):
        assert parse_value(text, "an annotation that could not be read", None) == value


def test_a_literal_keeps_the_word_none():
    kind = Literal["clip", "none"] | None
    assert parse_value("none", kind, None) == "none"
    with pytest.raises(ValueError, match="'clip' or 'none' or none"):
        parse_value("sign", kind, None)


# Keys.


def test_resolve_gives_every_key_the_given_value_or_its_default(toy):
    resolved = toy.resolve({"seed": 5})
    assert list(resolved) == list(toy.keys)
    assert resolved["seed"] == 5
    assert resolved["total_steps"] == 250_000


def test_a_key_without_default_must_be_set(tmp_path):
    rundef = load_rundef(write(tmp_path, "def run(*, game: str, seed: int = 0): ..."))
    with pytest.raises(SettingError, match="needs a value for game: --set game=VALUE. Received: "):
        rundef.resolve({})
    assert rundef.resolve({"game": "pong"}) == {"game": "pong", "seed": 0}
    assert "  game=must be set\n" in rundef.describe()


def test_help_lists_every_key_with_default_unit_and_line(toy):
    text = toy.describe()
    assert text.startswith("A toy.\n\nPaper: none.\n")
    lines = text.splitlines()
    for name in toy.keys:
        at = next(i for i, line in enumerate(lines) if line.startswith(f"  {name}="))
        assert len(lines[at + 1].strip()) > 5
    assert "  total_steps=250_000  [steps]" in lines
    assert "  hidden=64-64  [units]" in lines
    assert "      width of each hidden layer" in lines
    assert "  double=true" in lines
    assert "nothing of use" not in text


def test_a_docstring_describes_a_key_over_the_common_line():
    described = described_keys("Builds.\n\nArgs:\n    seed: mine [dice]\n\nReturns:\n    x: y\n")
    assert described["seed"] == ("dice", "mine")
    assert described["gamma"] == COMMON_KEYS["gamma"]
    assert "x" not in described


def test_the_common_keys_are_those_that_others_build_on():
    fixed = """seed, game, protocol, num_envs, frame_skip, reward_transform, replay_capacity_steps,
    replay_min_steps, updates_per_epoch, train_period_steps, target_period_updates, batch_size,
    n_step, gamma, double, dueling, loss, optimizer, learning_rate, precision, device, feeding,
    epsilon_start, epsilon_end, epsilon_begin_steps, epsilon_steps, evaluation_epsilon,
    evaluation_period_epochs, evaluation_episodes, evaluation_max_steps, initial_states,
    initial_states_dir, media_period_evaluations, log_period_updates, log_weights, total_steps, total_updates,
    checkpoint_period_steps, checkpoint_period_minutes, keep, keep_weights, initial_weights"""
    assert {name.strip() for name in fixed.split(",")} <= set(COMMON_KEYS)


def test_the_keys_that_a_continued_run_may_change_are_marked(toy):
    described = described_keys("")
    assert {name for name, (_, line) in described.items() if "may change in a continued run" in line} == CHANGEABLE_KEYS
    assert (
        "      length of the run; the first total reached ends it (may change in a continued run)\n" in toy.describe()
    )


def test_no_key_that_an_update_depends_on_may_change():
    watching = (
        "evaluation_",
        "initial_states",
        "log_",
        "media_period",
        "total_",
        "checkpoint_period",
        "keep",
        "device",
        "greedy",
    )
    assert CHANGEABLE_KEYS == {name for name in COMMON_KEYS | ASYNCHRONOUS_KEYS if name.startswith(watching)}


# Files.


def test_a_name_is_looked_up_beside_the_package_first(tmp_path, monkeypatch):
    beside, installed = tmp_path / "rundefs", tmp_path / "installed"
    for folder, names in ((beside, ["toy"]), (installed, ["toy", "other", "_hidden"])):
        folder.mkdir()
        for name in names:
            (folder / f"{name}.py").write_text(TOY)
    package = tmp_path / "dqn_lab"
    monkeypatch.setattr(rundefs, "_PACKAGE", package)

    class Spec:
        submodule_search_locations = [str(installed)]

    monkeypatch.setattr(rundefs.importlib.util, "find_spec", lambda name: Spec)
    assert rundefs.find_rundef("toy") == beside / "toy.py"
    assert rundefs.find_rundef("other") == installed / "other.py"
    assert rundefs.rundef_names() == ["other", "toy"]
    with pytest.raises(SettingError, match="closest is 'other'. Received: othre$"):
        rundefs.find_rundef("othre")
    monkeypatch.setattr(rundefs.importlib.util, "find_spec", lambda name: None)
    assert rundefs.rundef_names() == ["toy"]


def test_what_is_no_rundef_file_is_refused(tmp_path):
    missing = tmp_path / "missing.py"
    with pytest.raises(SettingError, match=r"no such rundef file. Received: .*missing\.py$"):
        load_rundef(missing)
    with pytest.raises(SettingError, match="a name without folders. Received: some/folder/name$"):
        load_rundef("some/folder/name")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("import nothing_of_that_name", r"must import \(ModuleNotFoundError: .*nothing_of_that_"),
        ("def run(:", r"must import \(SyntaxError: "),
        ("raise SystemExit(3)", r"must import \(SystemExit: 3\)"),
        ("x = 1", r"needs a function `run\(\*, ...\) -> Run`"),
        ("run = 3", r"needs a function `run\(\*, ...\) -> Run`"),
        ("def run(**anything): ...", "must name every argument"),
        ("def run(*anything): ...", "must name every argument"),
    ],
)
def test_a_file_that_is_no_rundef_is_refused_by_its_path(tmp_path, text, rule):
    with pytest.raises(RundefError, match=rule + r".*Received: .*broken\.py$"):
        load_rundef(write(tmp_path, text))


def test_a_rundef_may_import_what_only_a_type_checker_sees(tmp_path):
    text = "from __future__ import annotations\ndef run(*, seed: Unknown = 3): ..."
    assert load_rundef(write(tmp_path, text)).parse(["seed=4"]) == {"seed": 4}


def test_the_default_directory_names_rundef_game_method_and_seed():
    named = default_run_directory
    assert named("toy", {"seed": 3}) == Path("runs/toy-seed3")
    assert named("atari_dqn", {"game": "pong", "seed": 0}) == Path("runs/atari_dqn-pong-seed0")
    assert named("breakout_v0", {"game": "breakout", "seed": 1}) == Path("runs/breakout_v0-seed1")
    both = {"game": "ALE/Pong-v5", "method": "sarsa", "seed": 2}
    assert named("asynchronous", both) == Path("runs/asynchronous-ALE_Pong-v5-sarsa-seed2")


def test_reading_a_rundefs_help_imports_no_tensorflow(tmp_path):
    path = write(tmp_path, TOY, "toy.py")
    code = (
        f"from dqn_lab.rundef import load_rundef; load_rundef({str(path)!r}).describe(); import sys;"
        "print([m for m in ('tensorflow', 'keras', 'gymnasium', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
