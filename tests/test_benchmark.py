"""dqn-benchmark: figures worked by hand from a clock of our own, and small runs through the command."""

import importlib.util
import json
import math
import os
import threading
import types
import weakref
from pathlib import Path

import pytest
import toy_rundef
from fake_run import FakeCallback, FakeClock, FakeFit
from toy_rundef import run as toy_run

from dqn_lab import cli
from dqn_lab.benchmark.checkpoints import Save, interval_steps, summarize_saves
from dqn_lab.benchmark.figures import summarize
from dqn_lab.benchmark.memory import ResidentPeak, fill_measured
from dqn_lab.benchmark.report import table
from dqn_lab.benchmark.settings import SOAK_EPOCHS, benchmark_arguments, rounds_in
from dqn_lab.benchmark.soak import Watch, judge
from dqn_lab.benchmark.stages import Stages
from dqn_lab.benchmark.training import Meter, Training, Window
from dqn_lab.run_checkpoints import RunCheckpoints
from dqn_lab.saved_replay import SavedReplay

TESTS = Path(__file__).resolve().parent
TOY = str(TESTS / "toy_rundef.py")
RATES = {"steps_per_second", "updates_per_second", "frames_per_second"}
STAGE_MS = {"simulate_ms", "act_ms", "sample_ms", "update_ms"}
FACTS = {"feeding", "num_envs", "precision", "batch_size", "device", "cores", "versions", "rundef", "settings"}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Nothing may be left behind in the present folder."""
    monkeypatch.chdir(tmp_path)
    yield
    assert os.listdir(tmp_path) == []


def benchmark(capsys, *words):
    """The figures that the command prints, which are all that it prints."""
    assert cli.benchmark([*map(str, words), "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return json.loads(printed.out)


# What is changed in a rundef's arguments.


def test_a_long_fill_is_shortened_unless_it_was_given():
    arguments = {"replay_min_steps": 50_000, "replay_capacity_steps": 1_000_000}
    assert benchmark_arguments("all", arguments, {}) == arguments | {"replay_min_steps": 20_000}
    assert benchmark_arguments("all", arguments, {"replay_min_steps": 50_000}) == arguments
    assert benchmark_arguments("train", {"replay_min_steps": 40}, {}) == {"replay_min_steps": 40}
    assert benchmark_arguments("train", {"seed": 1}, {}) == {"seed": 1}


def test_a_soak_fills_its_ring_four_times_and_copies_the_target_a_hundred_times():
    arguments = {
        "num_envs": 8,
        "train_period_steps": 4,
        "updates_per_epoch": 50_000,
        "replay_capacity_steps": 1_000_000,
        "replay_min_steps": 50_000,
        "target_period_updates": 10_000,
        "evaluation_max_steps": math.inf,
        "initial_states_dir": "runs/initial_states",
    }
    assert benchmark_arguments("soak", arguments, {}) == {
        "num_envs": 8,
        "train_period_steps": 4,
        "updates_per_epoch": 200,
        "replay_capacity_steps": 20 * 200 * 4 // 4,
        "replay_min_steps": 1_000,
        "target_period_updates": 40,
        "evaluation_max_steps": 300,
        "initial_states_dir": None,
    }
    given = {"updates_per_epoch": 50, "replay_capacity_steps": 80, "initial_states_dir": "here"}
    changed = benchmark_arguments("soak", arguments | given, given)
    assert {name: changed[name] for name in given} == given
    assert (changed["replay_min_steps"], changed["target_period_updates"]) == (20, 10)


@pytest.mark.parametrize(("seconds", "rounds"), [(0.1, 3), (20, 5), (120, 30), (1e9, 30), (math.inf, 30)])
def test_rounds_are_three_to_thirty(seconds, rounds):
    assert rounds_in(seconds) == rounds


# Arithmetic.

STAGES = {
    "simulation": [2.0, 3.0, 4.0],
    "acting": [1.0, 1.0, 1.0],
    "sampling": [1.0, 2.0, 1.0],
    "update": [4.0, 8.0, 10.0],
}
WINDOWS = [Window(1.0, 400, 1600, 100), Window(2.0, 400, 1600, 100), Window(1.0, 320, 1280, 80)]  # 10, 20, 12.5 ms


@pytest.mark.parametrize(
    ("feeding", "best"), [("alternate", [8.0, 14.0, 16.0]), ("overlap", [4.0, 8.0, 10.0]), ("overlap", None)]
)
def test_efficiency_is_the_best_possible_by_the_time_taken_round_by_round(feeding, best):
    stages = STAGES if best else STAGES | {"update": [3.0, 5.0, 5.0]}
    best = best or [4.0, 6.0, 6.0]  # in overlap the longer of the update and all that goes on beside it
    ratios = sorted(each / whole for each, whole in zip(best, [10.0, 20.0, 12.5], strict=True))
    figures = summarize(stages, WINDOWS, feeding)
    assert figures["efficiency"] == pytest.approx(ratios[1])
    assert figures["efficiency_spread"] == pytest.approx([ratios[0], ratios[2]])


def test_figures_are_medians_with_their_spread():
    figures = summarize(STAGES, WINDOWS, "alternate")
    assert (figures["steps_per_second"], figures["steps_per_second_spread"]) == (320.0, [200.0, 400.0])
    assert (figures["updates_per_second"], figures["updates_per_second_spread"]) == (80.0, [50.0, 100.0])
    assert (figures["frames_per_second"], figures["frames_per_second_spread"]) == (1280.0, [800.0, 1600.0])
    assert (figures["simulate_ms"], figures["simulate_ms_spread"]) == (3.0, [2.0, 4.0])
    assert (figures["act_ms"], figures["sample_ms"], figures["update_ms"]) == (1.0, 1.0, 8.0)


def test_what_was_not_measured_is_none():
    figures = summarize({"update": [4.0]}, [], "alternate")
    assert figures["update_ms"] == 4.0
    assert {name for name, value in figures.items() if value is not None} == {"update_ms", "update_ms_spread"}
    assert summarize({}, WINDOWS, "alternate")["efficiency"] is None


def test_a_window_reaches_from_the_first_update_to_the_one_that_ends_it():
    clock = FakeClock()
    meter = Meter(clock, 3.0)
    fit = FakeFit([meter], clock)
    fit.run(epochs=9)
    assert meter.window == Window(seconds=3.0, steps=12, frames=48, updates=3)
    assert fit.agent.updates == 4


def test_a_window_has_as_many_updates_as_it_must():
    clock = FakeClock()
    meter = Meter(clock, 0.0, 5)
    FakeFit([meter], clock).run(epochs=9)
    assert meter.window.updates == 5


class FakeSequence:
    """Takes a second per decision, a tenth to look at newest states and a hundredth to draw."""

    def __init__(self, clock, num_envs):
        self.clock, self.num_envs, self.train_period_steps = clock, num_envs, 4
        self.steps = self.batches = 0

    def simulate_single(self):
        self.clock.now += 1.0
        self.steps += self.num_envs

    def compute_values(self, policy):
        self.clock.now += 0.1
        policy(None)

    def get_minibatch(self, generator):
        self.clock.now += 0.01
        return {"reward": generator.random(2)}


class FakeAgent:
    """Takes five seconds to update, of which it must be waited for, and one to act."""

    def __init__(self, clock):
        self.clock, self.begun, self.made = clock, 0, 0

    def check_finite(self):
        pass

    def act_values(self, states):
        self.clock.now += 1.0

    def update(self, batch):
        assert set(batch) == {"reward"}
        self.begun += 1

    @property
    def updates(self):
        self.clock.now += 5.0 * (self.begun - self.made)
        self.made = self.begun
        return self.made


@pytest.mark.parametrize(
    ("num_envs", "simulate", "act"), [(1, 4000, 4400), (2, 2000, 2200), (4, 1000, 1100), (8, 500, 550)]
)
def test_stages_are_told_per_update_whatever_the_lanes(num_envs, simulate, act):
    clock = FakeClock()
    sequence, agent = FakeSequence(clock, num_envs), FakeAgent(clock)
    stages = Stages(types.SimpleNamespace(sequence=sequence, agent=agent), clock)
    alone = {"simulation": simulate, "acting": act, "sampling": 10.0, "update": 5000.0}
    for stage, milliseconds in alone.items():
        assert stages.measure([stage], 10.0) == {stage: pytest.approx(milliseconds)}
    assert agent.made == 2  # in ten seconds
    assert stages.measure(alone, 0.0) == pytest.approx(alone)
    # The steps were those of so many updates, for which the next fit needs no others.
    assert sequence.batches == sequence.steps // 4 > 0


def test_a_fit_steps_as_often_as_ever_after_a_stage_of_simulation():
    run = toy_run(train_period_steps=4, num_envs=2)
    run.sequence.fill()
    training, stages = Training(run), Stages(run)
    training.warm_up()
    before = run.sequence.steps
    stages.measure(["simulation"], 0.02)
    assert run.sequence.steps > before
    window = training.measure(0.05)
    assert window.steps == 4 * window.updates > 0


# Memory.


def test_bytes_per_step_are_those_of_the_stretch_after_the_first_thousand_steps():
    sequence = toy_run(replay_capacity_steps=6_000, replay_min_steps=5_000, num_envs=2).sequence
    ring = sequence.replay.ring
    figures = fill_measured(sequence, resident=lambda: 10**9 + 300 * len(ring))
    rows, steps = figures["fill_rows"], figures["fill_steps"]
    assert steps == 4_000
    assert rows > steps  # final observations of Catch's episodes
    assert figures["bytes_per_step"] == pytest.approx(300 * rows / steps)
    _, columns = ring.bytes_needed(1, (10, 5), "float32")
    assert figures["bytes_per_step_arithmetic"] == pytest.approx((10 * 5 * 4 + columns) * rows / steps)


class PackedRing:
    """Rows whose frames take 100 bytes each, as they come, and whose columns take 20."""

    capacity = 10_000

    def __init__(self):
        self.rows = 0
        self.frames = types.SimpleNamespace(shape=(84, 84), dtype="uint8", nbytes=5_000)

    def __len__(self):
        return self.rows

    def bytes_needed(self, capacity, shape, dtype):
        return 7_056 * capacity, 20 * capacity

    def fill(self, progress):
        for _ in range(6_000):
            self.rows += 1
            self.frames.nbytes += 100
            progress(self.rows, 6_000)


def test_packed_frames_count_as_they_grow():
    class Sequence:
        replay_min_steps = 6_000
        replay = types.SimpleNamespace(ring=PackedRing())
        fill = replay.ring.fill
        steps = property(lambda self: len(self.replay.ring))

    figures = fill_measured(Sequence(), resident=lambda: 0)
    assert (figures["fill_steps"], figures["bytes_per_step_arithmetic"]) == (5_000, 120.0)


def test_a_replay_that_was_filled_before_tells_nothing():
    sequence = toy_run().sequence
    sequence.fill()
    assert fill_measured(sequence) == {}


# Soak.


class Ring:
    """Six rows; every update of an agent's has stored one."""

    capacity = 6

    def __init__(self, agent):
        self.agent = agent

    def __len__(self):
        return min(self.agent.updates, self.capacity)


class Pause(FakeCallback):
    """Takes a hundred seconds between two epochs."""

    def __init__(self, clock):
        self.clock = clock

    def on_epoch_end(self, epoch, logs):
        self.clock.now += 100.0


@pytest.mark.parametrize(("seconds", "epochs"), [(1.0, SOAK_EPOCHS), (2200.0, 22)])
def test_a_soak_times_the_updates_of_a_full_ring_and_not_what_comes_between_epochs(seconds, epochs):
    clock = FakeClock()
    watch = Watch(seconds, clock)
    fit = FakeFit([Pause(clock), watch], clock)
    fit.agent.sequence.replay = types.SimpleNamespace(ring=Ring(fit.agent))
    fit.run(epochs=100)
    assert fit.agent.updates == 4 * epochs  # of 104 seconds each
    # The ring is full after update 6 of 1 2 3 4, 5 6 7 8: two more of that epoch, then all but each epoch's first.
    assert list(watch.update_seconds) == [1.0] * (2 + 3 * (epochs - 2))
    assert set(watch.full) == set(watch.end) == {"resident_mb", "threads", "function_traces"}


def soaked(milliseconds, resident_mb):
    """What is said of a soak with these times of updates, whose ring was full at 500 MB."""
    watch = Watch(0.0, FakeClock())
    watch.update_seconds.extend(each / 1000 for each in milliseconds)
    watch.full = {"resident_mb": 500.0, "threads": 10, "function_traces": 30}
    watch.end = {"resident_mb": resident_mb, "threads": 11, "function_traces": 31}
    return judge(watch)


def test_a_soak_compares_the_first_and_the_last_quarter():
    figures = soaked([8.0, 10.0, 99.0, 50.0, 50.0, 50.0, 50.0, 50.0, 50.0, 7.0, 10.2, 12.0], 519.0)
    assert figures["update_ms_first_quarter"] == pytest.approx(10.0)
    assert figures["update_ms_last_quarter"] == pytest.approx(10.2)
    assert figures["update_ratio"] == pytest.approx(1.02)
    assert (figures["resident_mb_full_ring"], figures["resident_mb"]) == (500.0, 519.0)
    assert (figures["threads_full_ring"], figures["threads"]) == (10, 11)
    assert (figures["function_traces_full_ring"], figures["function_traces"]) == (30, 31)
    assert figures["time_verdict"] == figures["memory_verdict"] == "PASS"


def test_a_soak_over_a_limit_says_so():
    figures = soaked([10.0, 10.0, 10.0, 10.4], 521.0)
    assert figures["time_verdict"] == "over the limit of 3%"
    assert figures["memory_verdict"] == "over the limit of 20 MB"
    assert soaked([10.0] * 3, 500.0)["time_verdict"] == "none: the ring was not full for four updates"


def test_a_soak_through_the_command_wraps_the_ring_copies_the_target_and_evaluates(capsys):
    figures = benchmark(capsys, TOY, "--what", "soak", "--seconds", "0.1", "--set", "updates_per_epoch=10")
    assert figures["settings"]["replay_capacity_steps"] == 200
    assert figures["ring_wraps"] >= 3
    assert figures["target_copies"] == 100
    assert figures["evaluations"] == 20
    assert 0 < figures["function_traces"] <= figures["function_traces_full_ring"]  # fewer, if another test left some
    assert figures["threads"] > 0
    assert figures["update_ratio"] == figures["update_ms_last_quarter"] / figures["update_ms_first_quarter"]
    assert figures.keys() >= FACTS | {"time_verdict", "memory_verdict", "resident_mb", "resident_mb_full_ring"}


def test_a_soak_with_a_ring_that_is_never_full_says_that(capsys):
    settings = ("updates_per_epoch=2", "replay_capacity_steps=400", "evaluation_period_epochs=0")
    words = [word for setting in settings for word in ("--set", setting)]
    figures = benchmark(capsys, TOY, "--what", "soak", "--seconds", "0.1", *words)
    assert (figures["ring_wraps"], figures["evaluations"]) == (0, 0)
    assert figures["memory_verdict"] == "none: the ring was not full for four updates"


# Checkpoints.


@pytest.mark.parametrize(
    ("steps", "minutes", "interval"),
    [(500_000, 10.0, 60_000), (50_000, 10.0, 50_000), (None, 0.5, 3_000), (70, None, 70), (None, 1e-9, 1)],
)
def test_an_interval_is_that_of_the_period_that_is_over_first(steps, minutes, interval):
    run = types.SimpleNamespace(checkpoint_period_steps=steps, checkpoint_period_minutes=minutes)
    assert interval_steps(run, 100.0) == interval


FULL, EMPTY = Save(9.0, 400, 7_000, 3_000_000), Save(2.0, 410, 50, 0)
SAVE = Save(5.0, 420, 1_000, 1_500_000)


def saved(**changes):
    figures = {"steps": 1_000, "rows": 1_100, "capacity": 9_000, "interval": 4_000, "steps_per_second": 100.0}
    return summarize_saves(FULL, EMPTY, SAVE, **figures | changes)


def test_what_an_intervals_rows_cost_is_scaled_up_and_the_rest_of_a_save_is_not():
    assert saved() == {
        "steps_per_second": 100.0,
        "interval_steps": 4_000,
        "interval_seconds": 40.0,
        "full_save_seconds": 9.0,
        "full_save_bytes_agent": 400,
        "full_save_bytes_replay": 7_000,
        "full_save_peak_mb": 3.0,
        "save_seconds": 2.0 + 4 * 3.0,
        "save_bytes_agent": 420,
        "save_bytes_replay": 50 + 4 * 950,
        "save_peak_mb": 1.5,
        "save_measured_steps": 1_000,
        "save_note": "what new rows cost is scaled up by 4.00 from 1,000 steps",
        "share_of_training": 14.0 / 40.0,
    }


def test_no_interval_brings_more_rows_than_the_replay_holds():
    assert (saved(capacity=2_200)["save_seconds"], saved(capacity=2_200)["save_bytes_replay"]) == (8.0, 1_950)
    assert (saved(capacity=1_000)["save_seconds"], saved(capacity=1_000)["save_bytes_replay"]) == (5.0, 1_000)


def test_a_save_that_took_less_than_an_empty_one_is_not_scaled():
    figures = summarize_saves(
        FULL, SAVE, EMPTY, steps=1_000, rows=1_100, capacity=9_000, interval=4_000, steps_per_second=100.0
    )
    assert (figures["save_seconds"], figures["save_bytes_replay"]) == (2.0, 50)


def test_a_whole_interval_is_not_scaled():
    figures = saved(interval=1_000)
    assert (figures["save_seconds"], figures["save_bytes_replay"]) == (5.0, 1_000)
    assert figures["save_note"] == "measured after all steps of an interval"


def test_a_peak_is_the_most_beyond_what_there_was():
    held, all_seen = iter([500, 800, 600]), threading.Event()

    def resident():
        try:
            return next(held)
        except StopIteration:
            all_seen.set()
            return 600

    with ResidentPeak(resident) as peak:
        assert all_seen.wait(60)
    assert peak.extra_bytes == 300


def checkpoint(*settings):
    words = [word for setting in ("checkpoint_period_steps=8", *settings) for word in ("--set", setting)]
    return [TOY, "--what", "checkpoint", "--seconds", "0.2", *words]


@pytest.fixture
def saves(monkeypatch):
    """The places of all saves, and whether each was there."""
    save, places = RunCheckpoints.save, []

    def recorded(checkpoints, state=None):
        path = save(checkpoints, state)
        places.append((path.parents[1], path.is_dir()))
        return path

    monkeypatch.setattr(RunCheckpoints, "save", recorded)
    return places


def test_checkpoints_are_measured_through_the_command(capsys, monkeypatch, saves, tmp_path):
    monkeypatch.setitem(SavedReplay.__init__.__kwdefaults__, "small_bytes", 0)
    figures = benchmark(capsys, *checkpoint("replay_min_steps=300", "replay_capacity_steps=40_000"))
    assert figures.keys() >= saved().keys() | FACTS | {"stored_rows", "restore_seconds"}
    assert figures["stored_rows"] > 300 + 4 * 50  # the fill and the first updates
    assert (figures["interval_steps"], figures["save_measured_steps"]) == (8, 8)
    assert figures["interval_seconds"] == pytest.approx(8 / figures["steps_per_second"])
    assert figures["share_of_training"] == pytest.approx(figures["save_seconds"] / figures["interval_seconds"])
    assert figures["full_save_bytes_replay"] > 200 * figures["stored_rows"]  # 50 float32 each
    assert 0 < figures["save_bytes_replay"] < figures["full_save_bytes_replay"] / 2
    assert figures["full_save_bytes_agent"] == pytest.approx(figures["save_bytes_agent"], rel=0.1)
    assert min(figures[name] for name in ("full_save_seconds", "save_seconds", "restore_seconds")) > 0
    assert {place.parent for place, there in saves if there} == {tmp_path}  # which is empty again
    assert len(saves) == 3


def test_a_run_is_restored_whole_into_another_that_takes_its_place_in_memory(capsys, monkeypatch):
    rings, alive, counts = [], [], []
    build, restore = toy_rundef.Run, RunCheckpoints.restore

    def built(sequence, *words, **settings):
        alive.append(sum(ring() is not None for ring in rings))
        rings.append(weakref.ref(sequence.replay.ring))
        return build(sequence, *words, **settings)

    def restored(checkpoints):
        manifest = restore(checkpoints)
        counts.append((manifest["counters"], checkpoints.counters()))
        return manifest

    monkeypatch.setattr("dqn_lab.assembly.Run", built)
    monkeypatch.setattr(RunCheckpoints, "restore", restored)
    figures = benchmark(capsys, *checkpoint())
    assert alive == [0, 0]
    ((saved_counters, own),) = counts
    assert own == saved_counters
    assert own["updates"] > 50
    assert figures["settings"]["checkpoint_period_steps"] == 8


@pytest.mark.parametrize(
    ("method", "error", "code"), [("restore", ValueError("gone"), 1), ("save", KeyboardInterrupt(), 130)]
)
def test_what_goes_wrong_leaves_no_checkpoint_behind(capsys, monkeypatch, saves, tmp_path, method, error, code):
    original = getattr(RunCheckpoints, method)

    def fails(checkpoints, *words):
        original(checkpoints, *words)
        raise error

    monkeypatch.setattr(RunCheckpoints, method, fails)
    (tmp_path / "runs").mkdir()
    assert cli.benchmark([*checkpoint(), "--json"]) == code
    assert {place.parent for place, there in saves if there} == {Path("runs")}
    (tmp_path / "runs").rmdir()  # it is empty
    assert capsys.readouterr().err.splitlines() == [
        "dqn-benchmark: " + ("error: gone" if code == 1 else "interrupted"),
    ]


def test_a_run_without_a_period_has_no_interval(capsys, saves):
    words = checkpoint("checkpoint_period_steps=none", "checkpoint_period_minutes=none")
    assert cli.benchmark(words) == 1
    assert capsys.readouterr().err == (  # and nothing of a fill
        "dqn-benchmark: error: What checkpoints cost depends on their period. "
        "Received: checkpoint_period_steps=None, checkpoint_period_minutes=None\n"
    )
    assert saves == []


# The command.


def test_all_is_measured_through_the_command(capsys):
    figures = benchmark(capsys, TOY, "--seconds", "0.6", "--set", "seed=3")
    measured = RATES | STAGE_MS | {"efficiency"}
    memory = {"bytes_per_step", "bytes_per_step_arithmetic", "resident_mb"}
    assert figures.keys() >= measured | {f"{name}_spread" for name in measured} | memory | FACTS
    for name in measured:
        low, high = figures[f"{name}_spread"]
        assert 0 < low <= figures[name] <= high
    assert figures["rundef"] == "toy_rundef"
    assert (figures["settings"]["seed"], figures["num_envs"], figures["batch_size"]) == (3, 2, 8)
    assert (figures["feeding"], figures["precision"]) == ("alternate", "float32")
    assert figures["device"].startswith("cpu")
    assert {"python", "tensorflow", "keras"} <= figures["versions"].keys()


@pytest.mark.parametrize("what", [*STAGES, "train"])
def test_one_thing_is_measured_by_itself(capsys, what):
    figures = benchmark(capsys, TOY, "--what", what, "--seconds", "0.1")
    measured = {name for name in RATES | STAGE_MS | {"efficiency"} if figures[name] is not None}
    own = {"simulation": "simulate_ms", "acting": "act_ms", "sampling": "sample_ms", "update": "update_ms"}
    assert measured == ({own[what]} if what in own else RATES)


def test_a_step_of_an_atari_game_is_four_frames_and_a_row_of_its_replay_a_picture(capsys):
    settings = {
        "device": "cpu",
        "batch_size": 2,
        "precision": "mixed_bfloat16",
        "replay_capacity_steps": 2_000,
        "replay_min_steps": 200,
    }
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    figures = benchmark(capsys, "breakout_v0", "--what", "train", "--seconds", "0.3", *words)
    for frames, steps in zip(figures["frames_per_second_spread"], figures["steps_per_second_spread"], strict=True):
        assert frames == pytest.approx(4 * steps, rel=0.02)  # the last step of a game may be shorter
    assert figures["steps_per_second"] == pytest.approx(4 * figures["updates_per_second"], rel=0.02)
    assert 0 < figures["bytes_per_step_arithmetic"] < 1.1 * 7_100
    assert figures["precision"] == "mixed_bfloat16"


def test_nothing_but_the_object_is_on_stdout_whatever_a_rundef_prints(capsys, tmp_path_factory):
    path = tmp_path_factory.mktemp("rundefs") / "loud.py"
    path.write_text(
        "print('importing')\nimport toy_rundef\n"
        "def run(*, seed=0):\n    print('building')\n    return toy_rundef.run(seed=seed)\n"
    )
    assert cli.benchmark([str(path), "--json", "--what", "sampling", "--seconds", "0.1"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["settings"] == {"seed": 0}
    assert printed.err == "importing\nbuilding\n"


def test_people_get_a_table_and_see_how_far_it_is(capsys):
    assert cli.benchmark([TOY, "--what", "update", "--seconds", "0.1"]) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[0].split() == ["median", "min", "to", "max"]
    assert lines[1].startswith("update ")
    assert lines[1].endswith("ms per update")
    assert any(line.startswith("feeding: alternate (") for line in lines)
    assert lines[-1].startswith("versions: python ")
    assert printed.err.splitlines() == [
        "filling replay: 40 random steps",
        "round 1 of 3",
        "round 2 of 3",
        "round 3 of 3",
    ]


def test_a_table_is_aligned():
    figures = {
        "steps_per_second": 1234.56,
        "steps_per_second_spread": [999.0, 1300.0],
        "efficiency": None,
        "resident_mb": 800.0,
        "time_verdict": "PASS",
    }
    assert table(figures).splitlines() == [
        "                       median        min to max",
        "training              1,234.6  999.0 to 1,300.0  steps/s",
        "resident, at the end    800.0                    MB",
        "time per update: PASS",
    ]


# The comparison's script.


def test_a_ratio_is_to_the_best_of_each_round():
    path = TESTS.parent / "scripts" / "benchmark_against_sb3.py"
    spec = importlib.util.spec_from_file_location("benchmark_against_sb3", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    rates = {"SB3, 1": [50.0, 80.0], "SB3, 4": [100.0, 40.0]}
    assert script.ratios({"ours": [150.0, 160.0]}, rates) == {"ours": [1.5, 2.0]}
    assert script.summary([1.5, 2.0, 1.0], 1) == "1.5 (1.0 to 2.0)"
    command = script.our_command("8 float32 auto", 5.0, ["seed=1"])
    assert command[-2:] == ["--set", "seed=1"]
    assert {"num_envs=8", "precision=float32", "feeding=auto"} < set(command)
    words = script.sb3_command("python", 8, 20.0)
    assert words[words.index("--windows") + 1] == "5"
    assert words[words.index("--window-seconds") + 1] == "4.0"


def test_a_stage_whose_updates_are_not_made_is_no_figure():
    run = toy_run()
    run.sequence.fill()
    run.agent.unfinite.assign(2)
    with pytest.raises(FloatingPointError, match="gradient norm of update 1 is not finite; the update was not made"):
        Stages(run).measure(["update"], 0.0)
