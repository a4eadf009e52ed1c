"""What every run does by itself, on a run that learns nothing and has no replay."""

import math
from pathlib import Path

import pytest

from dqn_lab.checkpoint import AGENT, read_manifest
from dqn_lab.models.networks import mlp
from dqn_lab.resumable_run import ResumableRun
from dqn_lab.run_checkpoints import RunCheckpoints
from dqn_lab.run_directory import RunDirectory
from dqn_lab.rundef import Rundef
from dqn_lab.totals import StepTotals
from dqn_lab.training import Training

EPOCH = 10  # steps


class Counts:
    """An agent and its sequence in one: an update is a step."""

    frames = episodes = updates = steps = 0
    episode_return_sum = 0.0
    refused = None  # count that can't be restored

    def __init__(self):
        self.network = mlp((2,), 2, hidden=(3,))

    @property
    def variables(self):
        return self.network.variables

    def check_finite(self):
        if self.steps == 13:
            raise FloatingPointError("13 is not finite")

    def save(self, path):
        path.write_text(str(self.steps))


class CountingCheckpoints(RunCheckpoints):
    def _get_parts(self):
        return {"counted": self._agent.steps}

    def _set_parts(self, path, state, manifest):
        if (steps := int((path / AGENT).read_text())) == self._agent.refused:
            raise ValueError(f"too many. Received: {steps}")
        self._agent.steps = self._agent.updates = state["counted"]
        return {"told": "by parts"}


class CountingTraining(Training):
    class Limits:
        interrupted = False

        def fraction(self):
            return 0.0

    def fit(self):
        self.checkpoints.ready = True
        while not self._totals.are_reached(self.checkpoints.counters()):
            self._run.agent.steps += 1
            self._run.agent.updates += 1
            if self._run.agent.steps == self._run.fails_at:
                raise RuntimeError("on the way")
            self.checkpoints.epochs = self._run.agent.steps // EPOCH
        self.checkpoints.save_if_new()

    def _make_limits(self):
        return self.Limits()

    def _make_checkpoints(self, callbacks, settings):
        agent = self._run.agent
        return CountingCheckpoints(
            self._directory, agent, agent, callbacks, settings=settings, minutes=self.minutes, keep=self._run.keep
        )


class CountingRun(ResumableRun):
    fails_at = None

    def __init__(self, **parts):
        agent = Counts()
        super().__init__(agent, agent, **parts)

    def fixed_keys(self):
        return frozenset({"total_steps"} if self.arguments.get("anneal") else ())

    def _totals(self, steps, updates, minutes):
        return StepTotals(steps=steps or self.total_steps, minutes=minutes or math.inf, epoch_steps=EPOCH)

    def _make_training(self, *parts, **options):
        return CountingTraining(self, *parts, **options)

    def _why_inexact(self):
        return ["it only counts"]

    def _describe_stop(self):
        return "at once"


@pytest.fixture
def train(tmp_path, capsys):
    def train(fails_at=None, keep=2, **arguments):
        run = CountingRun(total_steps=arguments["total_steps"], arguments=arguments, keep=keep)
        run.fails_at = fails_at
        run.train(tmp_path / "run")
        return "".join(capsys.readouterr())

    return train


@pytest.fixture
def checkpoints(tmp_path):
    return tmp_path / "run" / "checkpoints"


def test_it_trains_is_finished_and_goes_on(train, checkpoints):
    first = train(total_steps=20)
    assert "ended after 20 updates, 20 steps, 0 frames, " in first and "continues at" not in first
    assert "this run is finished: 20 updates, 20 steps, " in train(total_steps=20)
    assert "continues at 20 steps, 20 updates, not exact: it only counts\n" in train(total_steps=25)
    assert sorted(path.name for path in checkpoints.iterdir()) == ["20", "25"]
    assert train(total_steps=40) and train(total_steps=50)
    assert sorted(path.name for path in checkpoints.iterdir()) == ["40", "50"]  # `keep` is 2


def test_it_describes_nothing_that_it_does_not_have(train, tmp_path):
    lines = train(total_steps=5).splitlines()
    assert [line.partition(":")[0] for line in lines[:8]] == [
        "device",
        "protocol",
        "network",
        "writes",
        "saves",
        "disk",
        "watch",
        "ends at",
    ]
    assert lines[3].endswith("(config.json, log.txt, progress.csv, TensorBoard events, checkpoints/, best/)")
    assert lines[4] == "saves: every 10 minutes and at the end; the same command continues the run " + (
        "(not exact: it only counts)"
    )
    assert "replay" not in read_manifest(tmp_path / "run" / "checkpoints" / "5")


def test_a_key_that_only_some_runs_may_change_is_compared_in_the_others(train):
    train(total_steps=5, anneal=False)
    assert "continues at 5 steps" in train(total_steps=6, anneal=False)


def test_a_key_that_this_run_may_not_change_is_refused(train):
    train(total_steps=5, anneal=True)
    with pytest.raises(ValueError, match=r"other settings: total_steps 5 -> 6\."):
        train(total_steps=6, anneal=True)


def test_a_checkpoint_whose_parts_refuse_is_put_aside_and_the_one_before_goes_on(train, checkpoints, monkeypatch):
    train(total_steps=5)
    train(total_steps=8)
    monkeypatch.setattr(Counts, "refused", 8)
    said = train(total_steps=9)
    assert "8.broken: 8: too many\n" in said and "continues at 5 steps, 5 updates" in said
    assert (checkpoints / "8.broken").is_dir() and (checkpoints / "9").is_dir()


def test_what_is_safe_is_saved_after_an_error(train, checkpoints, capsys):
    with pytest.raises(RuntimeError, match="on the way"):
        train(total_steps=20, fails_at=7)
    assert f"saved in {checkpoints} before ending" in capsys.readouterr().out
    assert "continues at 7 steps, 7 updates" in train(total_steps=20)


def test_figures_that_are_not_finite_are_not_saved(train, checkpoints, capsys):
    with pytest.raises(FloatingPointError):
        train(total_steps=13)
    assert "nothing is saved of a run whose figures are not finite" in capsys.readouterr().out
    assert not checkpoints.exists()


def test_what_parts_tell_and_the_counters_are_in_what_is_restored(train, tmp_path):
    train(total_steps=12)
    directory, agent = RunDirectory(tmp_path / "run"), Counts()
    options = {"settings": {}, "minutes": lambda: 0.0, "keep": 1}
    restored = CountingCheckpoints(directory, agent, agent, {}, **options)
    manifest = restored.restore()
    assert (manifest["told"], manifest["counters"]["steps"], restored.epochs) == ("by parts", 12, 1)
    assert restored.save_if_new() and agent.steps == 12


def test_a_rundef_may_build_any_of_them():
    run = CountingRun(total_steps=5)
    assert Rundef("counting", Path("counting.py"), lambda: run, "").build({}) is run


@pytest.mark.parametrize(
    ("method", "arguments"),
    [("_totals", 3), ("_make_training", 4), ("_why_inexact", 0), ("_describe_stop", 0), ("_inspect", 1)],
)
def test_what_a_run_must_define_is_named(method, arguments):
    agent = Counts()
    options = {"config": {}, "callbacks": ()} if method == "_make_training" else {}
    with pytest.raises(NotImplementedError, match=rf"^ResumableRun must define {method}\("):
        getattr(ResumableRun(agent, agent), method)(*[None] * arguments, **options)
