"""Rundefs: Python files with one function `run(*, ...) -> Run` whose signature is the schema."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import cloudpickle

from dqn_lab.rundef_keys import described_keys, why_not_a_key
from dqn_lab.rundef_values import parse_value, show_value

_PACKAGE = Path(__file__).resolve().parent


class RundefError(ValueError):
    """A rundef that can't be used: it doesn't import, has no `run`, or its `run` returns no run."""


class SettingError(ValueError):
    """A rundef or setting that was asked for and isn't there, or has a value of the wrong type."""


@dataclass(frozen=True)
class Key:
    """One keyword of a rundef's `run`."""

    name: str
    annotation: object
    default: object

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty


@dataclass(frozen=True)
class Rundef:
    """A loaded rundef.

    Args:
        name: the file's name without `.py`.
        path: the file.
        run: its function `run(*, ...) -> Run`.
        text: its module docstring.
    """

    name: str
    path: Path
    run: Callable
    text: str

    @property
    def keys(self) -> dict[str, Key]:
        """The keys that `--set` takes, in the order of the signature."""
        parameters = _signature(self.run).parameters.values()
        return {one.name: Key(one.name, one.annotation, one.default) for one in parameters}

    def parse(self, settings: Iterable[str]) -> dict[str, object]:
        """Turns `KEY=VALUE` texts into values of the types the signature asks for.

        Raises:
            SettingError: for a text without `=`, an unknown key or a value of another type.
        """
        return dict(self._parse_one(setting) for setting in settings)

    def resolve(self, given: dict[str, object]) -> dict[str, object]:
        """Every key with the value the run will have: the given one or the default.

        Raises:
            SettingError: for an unknown key, or one that has no default and wasn't given.
        """
        for name in given:
            self._key(name)
        values = {name: given.get(name, key.default) for name, key in self.keys.items()}
        missing = [name for name, value in values.items() if value is inspect.Parameter.empty]
        if missing:
            raise SettingError(
                f"{self.name} needs a value for {missing[0]}: --set {missing[0]}=VALUE. Received: {missing[0]} not set"
            )
        return values

    def build(self, arguments: dict[str, object]):
        """Calls `run` and returns the run that it built.

        Raises:
            RundefError: if `run` returns something else.
        """
        from dqn_lab.resumable_run import ResumableRun

        built = self.run(**arguments)
        if not isinstance(built, ResumableRun):
            raise RundefError(
                f"`run` of a rundef must return a dqn_lab.Run or an AsynchronousRun ({self.path}). "
                f"Received: {type(built).__name__}"
            )
        return built

    def describe(self) -> str:
        """The text of `dqn-train RUNDEF --help`: every key with default, unit and one line."""
        lines = [self.text.strip(), "", "keys (--set KEY=VALUE):"]
        described = described_keys(inspect.getdoc(self.run) or "")
        for name, key in self.keys.items():
            unit, line = described.get(name, ("", ""))
            default = "must be set" if key.required else show_value(key.default)
            lines.append(f"  {name}={default}" + (f"  [{unit}]" if unit else ""))
            lines.extend([f"      {line}"] if line else [])
        return "\n".join(lines)

    def _parse_one(self, setting: str) -> tuple[str, object]:
        name, equals, text = setting.partition("=")
        name = name.strip()
        if not equals or not name:
            raise SettingError(f"--set takes KEY=VALUE. Received: {setting}")
        key = self._key(name)
        try:
            return name, parse_value(text.strip(), key.annotation, key.default)
        except ValueError as error:
            raise SettingError(f"{name} {error}. Received: {name}={text.strip()}") from None

    def _key(self, name: str) -> Key:
        keys = self.keys
        if name in keys:
            return keys[name]
        near = difflib.get_close_matches(name, keys, n=1, cutoff=0.0)
        closest = f"the closest is {near[0]!r}" if near else "it has no keys"
        hint = why_not_a_key(name, keys) or closest
        raise SettingError(f"{self.name} has no such key; {hint}. Received: {name}")


def find_rundef(name: str | Path) -> Path:
    """The file of a rundef given by path or by name.

    A name is looked up in `rundefs/` beside the package, then in the installed `dqn_lab.rundefs`.

    Raises:
        SettingError: if there is none; it names the closest one that there is.
    """
    path = Path(name)
    if path.suffix == ".py":
        if path.is_file():
            return path
        raise SettingError(f"no such rundef file. Received: {name}")
    if path.name != str(name):
        raise SettingError(f"a rundef is a .py file or a name without folders. Received: {name}")
    found = _named_rundefs()
    if path.name in found:
        return found[path.name]
    near = difflib.get_close_matches(path.name, found, n=1, cutoff=0.0)
    hint = f"; the closest is {near[0]!r}" if near else ""
    raise SettingError(f"no rundef has this name{hint}. Received: {name}")


def rundef_names() -> list[str]:
    """The names that `dqn-train NAME` knows."""
    return sorted(_named_rundefs())


def load_rundef(name: str | Path) -> Rundef:
    """Loads a rundef given by path or by name.

    Raises:
        SettingError: if there is no such file or name.
        RundefError: if it does not import, or has no `run` with keyword arguments.
    """
    path = find_rundef(name)
    module = _import(path)
    run = getattr(module, "run", None)
    if not callable(run):
        raise RundefError(f"a rundef needs a function `run(*, ...) -> Run`. Received: {path}")
    kinds = {one.kind for one in _signature(run).parameters.values()}
    if kinds - {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}:
        raise RundefError(f"`run` of a rundef must name every argument. Received: {path}")
    return Rundef(path.stem, path, run, module.__doc__ or "")


def default_run_directory(name: str, arguments: dict[str, object]) -> Path:
    """`runs/<rundef>[-<game>][-<method>]-seed<seed>`, without a game that the rundef's name has."""
    words = [name]
    for key in ("game", "method"):
        word = str(arguments.get(key) or "")
        if word and word.lower() not in name.lower():
            words.append("".join(c if c.isalnum() or c in "_-." else "_" for c in word))
    words.append(f"seed{arguments.get('seed', 0)}")
    return Path("runs") / "-".join(words)


def _named_rundefs() -> dict[str, Path]:
    folders = [_PACKAGE.parent / "rundefs"]
    installed = importlib.util.find_spec("dqn_lab.rundefs")
    if installed is not None:
        folders.extend(Path(folder) for folder in installed.submodule_search_locations or ())
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.py")):
            if not path.stem.startswith("_"):
                found.setdefault(path.stem, path)
    return found


def _import(path: Path) -> ModuleType:
    name = f"_rundef_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    cloudpickle.register_pickle_by_value(module)  # for processes of a run, which can't import it by this name
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        kind = type(error).__name__
        raise RundefError(f"a rundef must import ({kind}: {error}). Received: {path}") from error
    return module


def _signature(run: Callable) -> inspect.Signature:
    try:
        return inspect.signature(run, eval_str=True)
    except NameError:  # an annotation that only a type checker can see
        return inspect.signature(run)
