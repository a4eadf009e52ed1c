"""dqn-benchmark of asynchronous runs: figures worked by hand, and a few small processes through the command."""

import contextlib
import json
import math
import multiprocessing
import operator
import os
import types
from pathlib import Path

import numpy as np
import psutil
import pytest
from fake_run import FakeClock

from dqn_lab import cli
from dqn_lab.asynchronous.shared_parameters import SharedParameters
from dqn_lab.asynchronous.shared_progress import COUNTERS, SharedProgress
from dqn_lab.asynchronous.team import WorkerError
from dqn_lab.benchmark import scaling, settings, sharing, workers
from dqn_lab.benchmark.memory import ResidentOf
from dqn_lab.benchmark.report import context, table
from dqn_lab.benchmark.settings import benchmark_arguments, default_seconds

TESTS = Path(__file__).resolve().parent
TOY, REPLAY_TOY = str(TESTS / "toy_async_rundef.py"), str(TESTS / "toy_rundef.py")
SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Neither files nor processes may be left behind."""
    monkeypatch.chdir(tmp_path)
    yield
    assert os.listdir(tmp_path) == []
    assert multiprocessing.active_children() == []


def benchmark(capsys, *words):
    """The figures that the command prints, which are all that it prints."""
    assert cli.benchmark([*map(str, words), "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return json.loads(printed.out)


# What is measured.


def test_scaling_goes_up_to_the_cores_unless_a_number_of_workers_was_given(monkeypatch):
    monkeypatch.setattr(settings, "usable_cores", lambda: 6)
    arguments = {"num_workers": 2, "seed": 1}
    assert benchmark_arguments("scaling", arguments, {}) == {"num_workers": 6, "seed": 1}
    assert benchmark_arguments("scaling", arguments, {"num_workers": 2}) == arguments
    assert benchmark_arguments("all", arguments, {}) == benchmark_arguments("sharing", arguments, {}) == arguments


def test_a_stress_takes_a_minute():
    assert [default_seconds(what) for what in ("sharing", "soak", "scaling", "all")] == [60, 120, 30, 30]


@pytest.mark.parametrize(
    ("rundef", "what", "rule"),
    [
        (TOY, "soak", "--what of an asynchronous run is one of scaling, sharing, train, all. Received: --what soak"),
        (TOY, "checkpoint", "--what of an asynchronous run is one of scaling"),
        (TOY, "acting", "Received: --what acting"),
        (REPLAY_TOY, "sharing", "--what of a run with a replay is one of simulation, acting, sampling, update, soak, "),
        (REPLAY_TOY, "scaling", "checkpoint, train, all. Received: --what scaling"),
    ],
)
def test_what_a_run_has_not_is_refused(capsys, rundef, what, rule):
    assert cli.benchmark([rundef, "--json", "--what", what, "--seconds", "0.1"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("dqn-benchmark: error: ")
    assert rule in line


# Workers.


class FakeTeam:
    """Workers that begin an episode every 10 steps; a look takes half a second at least, in which each makes 4 steps.

    Args:
        idle_looks: in which they do nothing.
        paces: how many times as many steps each makes.
    """

    def __init__(self, clock, idle_looks=0, paces=(1, 1)):
        self.progress, self.clock, self.paces, self.idle_looks = SharedProgress(2, SPAWN), clock, paces, idle_looks
        self.looks = 0

    def wait(self, seconds):
        self.looks += 1
        self.clock.now += max(seconds, 0.5)
        if self.looks > self.idle_looks:
            for row, pace in zip(self.progress.counters, self.paces, strict=True):
                row[COUNTERS.index("steps")] += 4 * pace
                row[COUNTERS.index("updates")] += 1 * pace
                row[COUNTERS.index("acting")] += 0.125


def watched(team):
    memory = ResidentOf([1, 2, 3], resident=lambda pid: 10**6 * (100 * pid + team.looks))
    return workers.Workers(team, team.progress, memory, team.clock)


def test_a_window_is_what_the_counters_grew_by():
    team = FakeTeam(FakeClock())
    watch = watched(team)
    watch.measure(1.0)
    window = watch.measure(2.0)
    assert (window["seconds"], window["steps"], window["updates"], window["acting"]) == (2.0, 32, 8, 1.0)
    assert window["episodes"] == 0
    assert team.looks == 6
    assert watch.memory.now == {1: 106e6, 2: 206e6, 3: 306e6}


def test_a_window_lasts_until_a_step_is_made():
    team = FakeTeam(FakeClock(), idle_looks=5)
    window = watched(team).measure(1.0)
    assert (window["seconds"], window["steps"]) == (3.0, 8)


def test_the_slowest_worker_is_warm_before_it_is_measured():
    team = FakeTeam(FakeClock(), paces=(1, 10))
    watched(team).warm_up()
    assert team.looks == workers.WARM_UP_UPDATES


WINDOWS = [
    {"seconds": 2.0, "steps": 1000, "frames": 4000, "updates": 200, "episodes": 3, "acting": 1.5, "environment": 0.5}
    | {"update": 1.0},  # 4 seconds of 2 workers, of which 1 is in no counter
    {"seconds": 1.0, "steps": 400, "frames": 1600, "updates": 80, "episodes": 0, "acting": 0.8, "environment": 0.4}
    | {"update": 0.4},
    {"seconds": 1.0, "steps": 600, "frames": 2400, "updates": 100, "episodes": 2, "acting": 0.6, "environment": 0.6}
    | {"update": 0.5},
]


def test_rates_are_those_of_all_workers_and_times_those_of_one():
    figures = workers.summarize_workers(WINDOWS, 2)
    assert (figures["steps_per_second"], figures["steps_per_second_spread"]) == (500.0, [400.0, 600.0])
    assert (figures["updates_per_second"], figures["updates_per_second_spread"]) == (100.0, [80.0, 100.0])
    assert (figures["frames_per_second"], figures["frames_per_second_spread"]) == (2000.0, [1600.0, 2400.0])
    assert figures["acting_step_ms_spread"] == pytest.approx([1.0, 2.0])
    assert [figures[f"{part}_step_ms"] for part in ("acting", "environment", "update")] == pytest.approx([1.5, 1, 1])
    assert figures["other_step_ms"] == pytest.approx(1.0)  # of 4000 / 1000, 2000 / 400 and 2000 / 600
    assert figures["other_step_ms_spread"] == pytest.approx([0.5, 1.0])
    assert figures["episodes"] == 5


def test_memory_is_told_now_and_at_most_and_a_process_that_died_keeps_its_own():
    held = {1: iter([100, 300, 200]), 2: iter([50, 60])}

    def resident(pid):
        try:
            return 10**6 * next(held[pid])
        except StopIteration:
            raise psutil.NoSuchProcess(pid) from None

    memory = ResidentOf([1, 2], resident)
    for _ in range(3):
        memory.look()
    assert (memory.now, memory.most) == ({1: 200e6, 2: 60e6}, {1: 300e6, 2: 60e6})


def fake_run(size=3, **changes):
    return types.SimpleNamespace(
        settings=types.SimpleNamespace(num_workers=changes.get("num_workers", 2), rmsprop_start=0.0),
        agent=types.SimpleNamespace(get_parameters=lambda: np.arange(size, dtype=np.float32)),
        worker_payload=b"",
    )


def test_a_worker_that_fails_ends_all_and_its_traceback_is_kept(monkeypatch):
    class Failing:
        ended = 0

        def __init__(self, payload, shared, num_workers, context):
            assert shared.parameters.parameters.tolist() == shared.parameters.target_parameters.tolist() == [0, 1, 2]

        def begin(self, states, due_steps):
            assert states == [None, None]
            raise WorkerError(1, "RuntimeError: boom", "Traceback: in step\nRuntimeError: boom")

        def end(self):
            Failing.ended += 1

    monkeypatch.setattr(workers, "Team", Failing)
    with pytest.raises(WorkerError, match="worker 1 failed: RuntimeError: boom") as caught:
        with workers.working(fake_run()):
            pass
    assert caught.value.__notes__ == ["Traceback: in step\nRuntimeError: boom"]  # which --verbose shows
    assert Failing.ended == 1


def test_workers_are_measured_through_the_command(capsys):
    words = ("--set", "num_workers=2", "--set", "t_max=4", "--set", "initial_states_dir=kept")
    figures = benchmark(capsys, TOY, "--seconds", "0.6", *words)
    for name in ("steps_per_second", "updates_per_second", "frames_per_second", "acting_step_ms", "update_step_ms"):
        low, high = figures[f"{name}_spread"]
        assert 0 < low <= figures[name] <= high
    assert figures["steps_per_second"] == figures["frames_per_second"]
    assert figures["updates_per_second"] < figures["steps_per_second"] < 4.5 * figures["updates_per_second"]
    assert figures["episodes"] > 0
    for name in ("worker_resident_mb", "worker_peak_mb"):
        low, high = sorted(figures[f"{name}_each"])
        assert 0 < low <= figures[name] <= high
    assert 0 < figures["parent_resident_mb"] <= figures["parent_peak_mb"]
    assert (figures["num_workers"], figures["t_max"], figures["method"]) == (2, 4, "one_step_q")
    assert (figures["rundef"], figures["settings"]["t_max"]) == ("toy_async_rundef", 4)
    assert figures.keys() >= {"precision", "device", "cores", "versions", "what", "seconds"}


# Scaling.


@pytest.mark.parametrize(
    ("most", "numbers"), [(1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (4, [1, 2, 4]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])]
)
def test_numbers_of_workers_are_doubled_up_to_the_last(most, numbers):
    assert scaling.worker_numbers(most) == numbers


def test_numbers_of_workers_take_turns_and_are_compared_within_a_round(monkeypatch):
    # steps of a window, by the number of workers and the round
    steps = {1: iter([100, 200, 50]), 2: iter([180, 400, 90]), 4: iter([320, 700, 210])}
    measured = []

    class FakeWorkers:
        def __init__(self, number):
            self.number = number

        def measure(self, seconds):
            measured.append((self.number, seconds))
            return {"seconds": 2.0, "steps": next(steps[self.number])}

    @contextlib.contextmanager
    def working(run):
        yield FakeWorkers(run.settings.num_workers)

    monkeypatch.setattr(scaling, "working", working)
    monkeypatch.setattr(scaling, "usable_cores", lambda: 3)
    said = []
    figures, run = scaling.measure_scaling(lambda num_workers=4: fake_run(num_workers=num_workers), 6.0, said.append)
    assert measured == [(number, 2.0) for number in (1, 2, 4, 4, 2, 1, 1, 2, 4)]
    assert said[0] == "round 1 of 3: 1 worker(s)"
    assert run.settings.num_workers == 4
    one, two, four = figures["scaling"]
    assert (one["num_workers"], one["steps_per_second"], one["steps_per_second_spread"]) == (1, 50.0, [25.0, 100.0])
    assert (one["scaling"], one["scaling_spread"], one["expected"]) == (1.0, [1.0, 1.0], 1.0)
    assert (two["scaling"], two["scaling_spread"], two["expected"]) == (1.8, [1.8, 2.0], 2.0)
    assert (four["scaling"], four["scaling_spread"]) == (3.5, [3.2, 4.2])
    assert four["expected"] == 3.0  # there are no more cores


@pytest.mark.slow
def test_scaling_is_measured_through_the_command(capsys):
    figures = benchmark(capsys, TOY, "--what", "scaling", "--seconds", "0.3", "--set", "num_workers=2")
    assert [row["num_workers"] for row in figures["scaling"]] == [1, 2]
    assert all(row["steps_per_second"] > 0 and row["scaling"] > 0 for row in figures["scaling"])
    assert figures["settings"]["num_workers"] == figures["num_workers"] == 2


# Sharing.


def test_lost_updates_are_counted_over_all_parameters():
    # Of 4 x 10 updates 1 + 9 are missing, from two of the four.
    figures = sharing.count_lost(np.array([10, 9, 1, 10], np.float32), 10)
    assert figures == {"updates": 10, "lost_share": pytest.approx(0.25), "short_share": 0.5}


def shared_after(steps, parameters=(1.0, 2.0), statistics=(0.0, 3.0)):
    shared = SharedParameters(2, SPAWN)
    shared.parameters[:], shared.statistics[:] = parameters, statistics
    shared.add_steps(steps)
    return shared


def test_a_stress_is_passed_by_finite_numbers_and_an_exact_count():
    assert sharing.judge_stress(shared_after(15), 3) == {
        "stress_updates": 3,
        "stress_wrong": 0,
        "stress_uncounted": 0,
        "stress_verdict": "PASS: after 3 updates 0 numbers are broken, 0 steps uncounted",
    }


@pytest.mark.parametrize(
    ("shared", "wrong", "uncounted"),
    [
        ({"steps": 15, "parameters": (math.nan, math.inf)}, 2, 0),
        ({"steps": 15, "statistics": (math.inf, -1.0)}, 2, 0),
        ({"steps": 10}, 0, 5),
        ({"steps": 20}, 0, -5),
    ],
)
def test_a_stress_is_failed_by_anything_else(shared, wrong, uncounted):
    figures = sharing.judge_stress(shared_after(**shared), 3)
    assert (figures["stress_wrong"], figures["stress_uncounted"]) == (wrong, uncounted)
    assert figures["stress_verdict"].startswith("failed: ")


def test_sharing_is_measured_through_the_command(capsys, monkeypatch):
    monkeypatch.setattr(sharing, "ADDING", (1, 2))
    monkeypatch.setattr(sharing, "STRESSING", 2)
    figures = benchmark(capsys, TOY, "--what", "sharing", "--seconds", "0.2")
    one, two = figures["sharing"]
    assert (one["num_workers"], one["lost_share"], one["short_share"]) == (1, 0.0, 0.0)
    assert one["updates"] > 0
    assert two["num_workers"] == 2
    assert 0 <= two["lost_share"] <= two["short_share"] <= 1
    assert figures["stress_num_workers"] == 2
    assert figures["stress_updates"] > 0
    assert figures["stress_verdict"].startswith("PASS")


def test_no_more_is_added_than_a_float_can_count(monkeypatch):
    monkeypatch.setattr(sharing, "_EXACT", 40)
    # Were there no limit, this would take so long and count more.
    assert sharing.add_known_updates(3, 1, 60.0) == {
        "num_workers": 1,
        "updates": 40,
        "lost_share": 0.0,
        "short_share": 0.0,
    }


def test_a_process_that_fails_is_an_error(capfd):
    with pytest.raises(RuntimeError, match="A process that shares parameters has ended before it was told to"):
        sharing._together(operator.truediv, SharedParameters(3, SPAWN), 1, 60.0)
    assert "unsupported operand" in capfd.readouterr().err  # what it says itself


# The table.


def test_rows_are_a_table_of_their_own():
    rows = [
        {"num_workers": 1, "steps_per_second": 1234.5, "steps_per_second_spread": [1000.0, 1300.0]}
        | {"scaling": 1.0, "scaling_spread": [1.0, 1.0], "expected": 1.0},
        {"num_workers": 16, "steps_per_second": 9999.9, "steps_per_second_spread": [9000.0, 12000.0]}
        | {"scaling": 8.125, "scaling_spread": [8.0, 9.5], "expected": 16.0},
    ]
    assert table({"scaling": rows}).splitlines() == [
        "workers  steps/s           min to max  against 1 worker    min to max  expected",
        "      1  1,234.5   1,000.0 to 1,300.0              1.00  1.00 to 1.00      1.00",
        "     16  9,999.9  9,000.0 to 12,000.0              8.12  8.00 to 9.50     16.00",
    ]


def test_what_was_lost_and_the_stress_are_shown():
    rows = [{"num_workers": 2, "updates": 51_000, "lost_share": 0.00045, "short_share": 0.25}]
    assert table({"sharing": rows, "stress_verdict": "PASS: all"}).splitlines() == [
        "workers  updates  share lost  share of parameters short of one",
        "      2   51,000    0.000450                          0.250000",
        "gradients up to 3e38: PASS: all",
    ]


def test_a_workers_figures_are_shown_with_their_spread():
    figures = {"acting_step_ms": 0.5, "acting_step_ms_spread": [0.25, 0.75], "worker_peak_mb": 600.0}
    assert [line.split() for line in table(figures).splitlines()[1:]] == [
        ["acting", "0.500", "0.250", "to", "0.750", "ms", "of", "a", "worker", "per", "step"],
        ["peak,", "a", "worker", "600.0", "MB"],
    ]
    facts = {"rundef": "toy", "method": "a3c", "num_workers": 2, "t_max": 5, "cores": 2, "versions": {"keras": "3"}}
    assert context(facts) == "rundef: toy, a3c, 2 worker(s), t_max 5\ncores: 2\nversions: keras 3"
