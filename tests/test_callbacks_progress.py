"""Progress: a status line on a terminal, and one plain line per epoch."""

import pytest
from fake_run import FakeClock, FakeFit

from dqn_lab.callbacks import progress as module
from dqn_lab.callbacks.limits import Limits
from dqn_lab.callbacks.metrics import Metrics
from dqn_lab.callbacks.progress import Progress, fill_progress


class FakeTranscript:
    """Writes down what it is asked to show."""

    def __init__(self, interactive):
        self.interactive, self.lines, self.states = interactive, [], []

    def say(self, text):
        self.lines.append(text)

    def show_status(self, text, fraction):
        self.states.append((text, fraction))

    def clear_status(self):
        self.states.append("cleared")


def run(epochs, interactive=False, total_updates=16, games=None):
    clock, transcript = FakeClock(), FakeTranscript(interactive)
    metrics = Metrics(minutes=clock.minutes, clock=clock)
    limits = Limits(total_updates=total_updates, minutes=clock.minutes)
    progress = Progress(transcript, metrics, limits, clock=clock)
    FakeFit([metrics, progress, limits], clock, games).run(epochs)
    return transcript


@pytest.mark.case("B117")
def test_an_epoch_is_one_line_where_there_is_no_terminal():
    transcript = run(2, games={1: (12.0, 9)})
    assert transcript.lines == [
        "epoch 1: 4 updates, 116 steps, 464 frames, 4 steps/s, epsilon 0.960, loss 0.5, training return 12, 12 s left",
        "epoch 2: 8 updates, 132 steps, 528 frames, 4 steps/s, epsilon 0.920, loss 0.5, training return 12, 8 s left",
    ]
    assert transcript.states == ["cleared"]


def test_a_terminal_has_a_status_line_beside():
    transcript = run(2, interactive=True, games={2: (12.0, 9)})
    assert len(transcript.lines) == 2
    first, second = transcript.states[:2]
    assert first[0].startswith("1 updates, 104 steps, 416 frames, 4 steps/s, epsilon 0.990, loss 0.5")
    assert "return" not in first[0]
    assert "return 12" in second[0]
    assert [one[1] for one in transcript.states[:-1]] == [number / 16 for number in (0, 1, 2, 3, 4, 5, 6, 7)]
    assert transcript.states[-1] == "cleared"


def test_the_status_line_is_not_drawn_at_every_update(monkeypatch):
    monkeypatch.setattr(module, "_REDRAW_SECONDS", 3.0)  # an update takes 1
    transcript = run(2, interactive=True)
    assert len(transcript.states) == 3 + 1  # updates 1, 4, 7, and cleared


def test_an_epoch_that_was_broken_off_has_a_line_that_says_so():
    whole, part = run(3, total_updates=6).lines
    assert whole.startswith("epoch 1: 4 updates, 116 steps")
    assert part.startswith("epoch 2, in its course: 6 updates, 124 steps")
    assert "loss 0.5" in part and "return" not in part  # no game had ended


def test_the_rate_of_an_epoch_in_its_course_is_its_own():
    assert "124 steps, 496 frames, 4 steps/s" in run(3, total_updates=6).lines[1]


def test_a_continued_run_shows_the_last_training_return_and_the_epochs_number():
    clock, transcript = FakeClock(), FakeTranscript(interactive=False)
    metrics = Metrics(minutes=clock.minutes, clock=clock)
    metrics.set_state({"meter": None, "logs": {"train_return_mean": 12.0, "train_length_mean": 9.0}})
    limits = Limits(total_updates=20, minutes=clock.minutes)
    progress = Progress(transcript, metrics, limits, clock=clock)
    FakeFit([metrics, progress, limits], clock).run(5, initial_epoch=4)
    (line,) = transcript.lines
    assert line.startswith("epoch 5: 4 updates")
    assert line.endswith("training return 12, 16 s left")


def test_the_time_left_is_told_by_all_fits_of_a_process():
    clock, transcript = FakeClock(), FakeTranscript(interactive=False)
    metrics = Metrics(minutes=clock.minutes, clock=clock)
    limits = Limits(total_updates=12, minutes=clock.minutes)
    fit = FakeFit([metrics, Progress(transcript, metrics, limits, clock=clock), limits], clock)
    fit.run(1)
    clock.now += 4.0
    fit.run(2, initial_epoch=1)
    assert [line.split(", ")[-1] for line in transcript.lines] == ["8 s left", "6 s left"]


def test_a_run_without_totals_says_nothing_of_the_time_left():
    assert "left" not in run(1, total_updates=float("inf")).lines[0]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(59, "59 s"), (61, "1 min"), (3600, "1.0 h"), (47 * 3600, "47.0 h"), (72 * 3600, "3.0 days")],
)
def test_a_duration_is_told_in_the_unit_that_fits(seconds, text):
    assert module._duration(seconds) == text


def test_the_fill_ends_in_one_line():
    transcript = FakeTranscript(interactive=True)
    show = fill_progress(transcript)
    for done in (4, 8, 1000):
        show(done, 1000)
    assert transcript.lines == ["replay filled with 1,000 random steps"]
    assert transcript.states[0] == ("filling replay: 4 of 1,000 steps", 0.004)
    assert transcript.states[-1] == "cleared"
    assert len(transcript.states) == 2  # the second came too soon to be drawn
