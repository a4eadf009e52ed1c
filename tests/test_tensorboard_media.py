"""The media of evaluations in TensorBoard: what real runs write, at which steps, and nothing when it is off."""

import io

import pytest
import tensorflow as tf
import toy_async_rundef
import toy_rundef
from inline_workers import inline
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from dqn_lab import cli
from dqn_lab.environments.catch import Catch

MEDIA = {"eval/game", "eval/initial_action_values", "eval/initial_state_values"}


def events_of(folder):
    events = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    events.Reload()
    return events


def steps_of(events, tag):
    return [one.step for one in events.Tensors(tag)]


def trained(folder, rundef=toy_rundef, **settings):
    rundef.run(**{"media_period_evaluations": 1} | settings).train(folder / "run", rundef="toy")
    return events_of(folder / "run")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Evaluated at 80, 120 and 160 steps."""
    return trained(tmp_path_factory.mktemp("runs"), total_updates=30)


def test_each_evaluation_has_a_game_and_a_histogram_at_its_step(written):
    assert MEDIA & set(written.Tags()["tensors"]) == {"eval/game", "eval/initial_action_values"}
    assert steps_of(written, "eval/game") == steps_of(written, "eval/mean_reward") == [80, 120, 160]
    assert steps_of(written, "eval/initial_action_values") == [80, 120, 160]


def test_the_game_is_an_animated_picture(written):
    about = written.SummaryMetadata("eval/game")
    assert about.plugin_data.plugin_name == "images"
    assert about.summary_description == "The first game of the evaluation; of a long one every 2nd, 4th, ... step."
    for point in written.Tensors("eval/game"):
        width, height, data = point.tensor_proto.string_val
        image = Image.open(io.BytesIO(data))
        assert (image.format, image.size, image.n_frames) == ("GIF", (80, 160), 10)
        assert (width, height) == (b"80", b"160")


def test_the_histogram_is_of_all_actions_in_the_initial_states(written):
    assert written.SummaryMetadata("eval/initial_action_values").plugin_data.plugin_name == "histograms"
    for point in written.Tensors("eval/initial_action_values"):
        assert tf.make_ndarray(point.tensor_proto)[:, 2].sum() == 4 * 3  # states, actions


def test_the_mean_state_value_lies_within_the_histogram(written):
    values = written.Tensors("eval/initial_state_value")
    for point, value in zip(written.Tensors("eval/initial_action_values"), values, strict=True):
        buckets = tf.make_ndarray(point.tensor_proto)
        assert buckets[0, 0] < tf.make_ndarray(value.tensor_proto) <= buckets[-1, 1]


def test_the_period_counts_evaluations_and_the_first_is_shown_too(tmp_path):
    events = trained(tmp_path, total_updates=50, media_period_evaluations=2)
    assert steps_of(events, "eval/mean_reward") == [80, 120, 160, 200, 240]
    assert steps_of(events, "eval/game") == steps_of(events, "eval/initial_action_values") == [80, 120, 200]


def test_an_epoch_without_an_evaluation_shows_nothing_again(tmp_path):
    events = trained(tmp_path, total_updates=45, evaluation_period_epochs=2)
    assert steps_of(events, "eval/game") == [80, 120, 200]


def test_a_continued_run_shows_each_once(tmp_path):
    trained(tmp_path, total_updates=15)
    events = trained(tmp_path, total_updates=30)
    assert steps_of(events, "eval/game") == steps_of(events, "eval/initial_action_values") == [80, 120, 160]


def test_a_period_of_0_shows_and_draws_nothing(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(Catch, "render", lambda environment: drawn.append(1))
    events = trained(tmp_path, total_updates=20, media_period_evaluations=0)
    assert MEDIA.isdisjoint(events.Tags()["tensors"])
    assert drawn == []


def test_without_initial_states_there_is_the_game_alone(tmp_path):
    events = trained(tmp_path, total_updates=10, initial_states=0)
    assert MEDIA & set(events.Tags()["tensors"]) == {"eval/game"}


def test_without_a_film_there_are_the_values_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(Catch, "metadata", {"render_modes": []})
    events = trained(tmp_path, total_updates=10)
    assert MEDIA & set(events.Tags()["tensors"]) == {"eval/initial_action_values"}


def test_without_evaluations_there_is_none(tmp_path):
    assert MEDIA.isdisjoint(trained(tmp_path, total_updates=10, evaluation_period_epochs=0).Tags()["tensors"])


@pytest.mark.parametrize(("method", "values"), [("a3c", "state"), ("n_step_q", "action")])
def test_an_asynchronous_run_shows_them_at_its_epochs_ends(tmp_path, method, values):
    with inline():
        events = trained(tmp_path, toy_async_rundef, method=method)
    assert MEDIA & set(events.Tags()["tensors"]) == {"eval/game", f"eval/initial_{values}_values"}
    assert steps_of(events, "eval/game") == steps_of(events, "eval/mean_reward")
    assert len(steps_of(events, "eval/game")) == 3


def test_an_asynchronous_runs_epoch_without_an_evaluation_shows_nothing_again(tmp_path):
    with inline():
        events = trained(tmp_path, toy_async_rundef, evaluation_period_epochs=2)
    epochs = steps_of(events, "time/epochs")
    assert len(epochs) == 3
    assert steps_of(events, "eval/game") == epochs[:2]


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("-1", "`media_period_evaluations` must be at least 0. Received: media_period_evaluations=-1"),
        ("0.5", "media_period_evaluations must be an integer. Received: media_period_evaluations=0.5"),
        ("often", "media_period_evaluations must be an integer. Received: media_period_evaluations=often"),
        ("none", "media_period_evaluations must be an integer. Received: media_period_evaluations=none"),
        ("true", "media_period_evaluations must be an integer. Received: media_period_evaluations=true"),
        ("inf", "media_period_evaluations must be an integer. Received: media_period_evaluations=inf"),
    ],
)
@pytest.mark.parametrize("rundef", ["catch", "catch_async"])
def test_a_wrong_period_is_one_line_and_leaves_nothing(tmp_path, capsys, monkeypatch, rundef, value, rule):
    monkeypatch.chdir(tmp_path)
    assert cli.train([rundef, "--set", f"media_period_evaluations={value}", "--set", "initial_states_dir=none"]) != 0
    err = capsys.readouterr().err
    assert err.startswith("dqn-train: error: ")
    assert err.count("\n") == 1
    assert rule in err
    assert list(tmp_path.iterdir()) == []
