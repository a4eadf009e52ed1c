"""CUSTOM SCALARS and HPARAMS: what real runs write for them, as TensorBoard's own code reads it back."""

import math
import re

import pytest
import toy_async_rundef
import toy_rundef
from fake_run import FakeClock, FakeFit
from inline_workers import inline
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.hparams import api_pb2, backend_context, get_experiment, list_session_groups

from dqn_lab.callbacks.metrics import Metrics
from dqn_lab.callbacks.tensorboard import TensorBoardScalars
from dqn_lab.callbacks.tensorboard_dashboards import TensorBoardDashboards
from dqn_lab.rundef_keys import ASYNCHRONOUS_KEYS, COMMON_KEYS

LAYOUT = "custom_scalars__config__"
ANY_STATUS = [api_pb2.STATUS_UNKNOWN, api_pb2.STATUS_SUCCESS, api_pb2.STATUS_FAILURE, api_pb2.STATUS_RUNNING]


class Seen:
    """A folder of runs as TensorBoard shows it."""

    def __init__(self, folder):
        self.multiplexer = EventMultiplexer(tensor_size_guidance={"tensors": 0}).AddRunsFromDirectory(str(folder))
        self.multiplexer.Reload()
        provider = MultiplexerDataProvider(self.multiplexer, str(folder))
        self._context = TBContext(logdir=str(folder), multiplexer=self.multiplexer, data_provider=provider)
        self._hparams = backend_context.Context(self._context)

    def charts(self):
        """Of CUSTOM SCALARS: category -> title -> patterns of tags. All runs have the same, which TensorBoard joins."""
        found = self.multiplexer.PluginRunToTagToContent("custom_scalars")
        (layout,) = {self.multiplexer.Tensors(run, LAYOUT)[0].tensor_proto.string_val[0] for run in found}
        return {
            category.title: {chart.title: list(chart.multiline.tag) for chart in category.chart}
            for category in layout_pb2.Layout.FromString(layout).category
        }

    def columns(self):
        """Of HPARAMS: key -> (type, whether it is shown from the first)."""
        infos = self._experiment().hparam_infos
        return {info.name: (api_pb2.DataType.Name(info.type), info.differs) for info in infos}

    def metrics(self):
        """Of HPARAMS: title -> tag."""
        return {info.display_name: info.name.tag for info in self._experiment().metric_infos}

    def rows(self, key=None, order=api_pb2.ORDER_ASC, **filters):
        """Of HPARAMS, sorted by a key: (name of the run, its settings, its metrics by tag)."""
        column = api_pb2.ColParams(hparam=key, order=order, exclude_missing_values=bool(filters), **filters)
        request = api_pb2.ListSessionGroupsRequest(
            start_index=0, slice_size=100, allowed_statuses=ANY_STATUS, col_params=[column] if key else []
        )
        found = list_session_groups.Handler(RequestContext(), self._hparams, "", request).run().session_groups
        return [
            (
                row.name,
                {name: getattr(value, value.WhichOneof("kind")) for name, value in row.hparams.items()},
                {value.name.tag: value.value for value in row.metric_values},
            )
            for row in found
        ]

    def _experiment(self):
        request = api_pb2.GetExperimentRequest(experiment_name="")
        return get_experiment.Handler(RequestContext(), self._hparams, "", request).run()


def trained(folder, rundef=toy_rundef, **settings):
    run = rundef.run(**settings)
    run.train(folder, rundef="toy")
    return run


def scalar_tags(folder):
    events = EventAccumulator(str(folder))
    events.Reload()
    tags = events.Tags()["tensors"]
    return [tag for tag in tags if events.SummaryMetadata(tag).plugin_data.plugin_name == "scalars"]


def written(folder, *hparams, keys=()):
    """What is seen of runs with such settings."""
    for number, each in enumerate(hparams):
        directory, clock = folder / f"run{number}", FakeClock()
        metrics = Metrics(minutes=clock.minutes, clock=clock)
        tensorboard = TensorBoardScalars(directory, metrics, clock=clock)
        dashboards = TensorBoardDashboards(tensorboard, each, f"runs/run{number}", keys)
        FakeFit([metrics, tensorboard, dashboards], clock).run(1)
    return Seen(folder)


# Custom scalars.


@pytest.mark.parametrize("rundef", [toy_rundef, toy_async_rundef], ids=["replay", "asynchronous"])
def test_every_curve_of_the_layout_is_written_by_a_real_run(tmp_path, rundef):
    with inline():
        trained(tmp_path / "run", rundef, **({"total_updates": 30} if rundef is toy_rundef else {}))
    tags = scalar_tags(tmp_path / "run")
    ((category, charts),) = Seen(tmp_path).charts().items()
    assert category == "main curves"
    patterns = [pattern for each in charts.values() for pattern in each]
    assert len(patterns) == 9
    for pattern in patterns:
        assert len([tag for tag in tags if re.match(pattern, tag)]) == 1


def test_the_main_curves_come_first_and_scores_have_the_random_policys_beside_them(tmp_path):
    charts = written(tmp_path, {}).charts()["main curves"]
    assert list(charts.items()) == [
        ("score in evaluation", ["^eval/mean_reward$", "^eval/best_mean_reward$", "^baseline/random_return$"]),
        ("score of the training games", ["^rollout/ep_rew_mean$"]),
        ("loss", ["^train/loss$"]),
        ("values: trained on, of the initial states", ["^train/q_mean$", "^eval/initial_state_value$"]),
        ("epsilon", ["^rollout/exploration_rate$"]),
        ("steps per second", ["^time/fps$"]),
    ]


def test_of_several_runs_there_is_one_layout(tmp_path):
    one, several = written(tmp_path / "one", {}), written(tmp_path / "several", {}, {}, {})
    assert several.charts() == one.charts()


# Hparams.


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two seeds and an asynchronous run, as TensorBoard shows them, and their figures at the end."""
    folder, ends = tmp_path_factory.mktemp("runs"), {}
    for name, settings in (("a", {"seed": 0}), ("b", {"seed": 1, "learning_rate": 0.002})):
        ends[name] = trained(folder / name, total_updates=20, **settings).evaluation.get_state()["logs"]
    with inline():
        trained(folder / "c", toy_async_rundef, seed=2)
    return Seen(folder), ends, folder.name


def test_each_run_is_a_row_under_its_name_with_all_its_settings(runs):
    seen, _, folder = runs
    rows = {name: hparams for name, hparams, _ in seen.rows()}
    assert list(rows) == [f"{folder}/{name}" for name in "abc"]
    settings = {**toy_rundef.run.__kwdefaults__, "rundef": "toy", "total_updates": 20, "seed": "1"}
    settings |= {"learning_rate": 0.002}
    given = {key: value for key, value in settings.items() if value not in (None, math.inf)}
    assert rows[f"{folder}/b"] == given | {"game": "-", "method": "-"}
    assert rows[f"{folder}/c"]["method"] == toy_async_rundef.run.__kwdefaults__["method"]


def test_the_scores_stand_beside_them(runs):
    seen, ends, folder = runs
    assert seen.metrics() == {
        "score in evaluation": "eval/mean_reward",
        "best of them": "eval/best_mean_reward",
        "training games": "rollout/ep_rew_mean",
    }
    metrics = {name: values for name, _, values in seen.rows()}
    for name, logs in ends.items():
        assert metrics[f"{folder}/{name}"]["eval/mean_reward"] == pytest.approx(logs["eval_return_mean"])
        assert metrics[f"{folder}/{name}"]["eval/best_mean_reward"] == pytest.approx(logs["eval_return_best"])
    assert all(set(values) == set(seen.metrics().values()) for values in metrics.values())


def test_there_is_a_column_for_every_key_that_any_run_has_and_a_few_are_shown_at_first(runs):
    columns = runs[0].columns()
    assert set(columns) >= {"rundef", *COMMON_KEYS, *ASYNCHRONOUS_KEYS}
    shown = {key for key, (_, differs) in columns.items() if differs}
    assert shown == {"rundef", "game", "method", "seed", "learning_rate"}


def test_no_row_has_an_empty_cell_among_the_columns_shown_at_first(runs):
    seen, _, folder = runs
    shown = ("rundef", "game", "method", "seed", "learning_rate")
    cells = {name: [hparams[key] for key in shown] for name, hparams, _ in seen.rows()}
    assert cells == {
        f"{folder}/a": ["toy", "-", "-", "0", 0.001],
        f"{folder}/b": ["toy", "-", "-", "1", 0.002],
        f"{folder}/c": ["toy", "-", toy_async_rundef.run.__kwdefaults__["method"], "2", 0.001],
    }


def test_rows_can_be_sorted_by_every_column(runs):
    seen = runs[0]
    for key in seen.columns():
        for order in (api_pb2.ORDER_ASC, api_pb2.ORDER_DESC):
            assert len(seen.rows(key, order)) == 3
    assert [hparams["learning_rate"] for _, hparams, _ in seen.rows("learning_rate")] == [0.001, 0.001, 0.002]


@pytest.mark.parametrize(
    ("value", "shown", "type"),
    [
        (True, True, "DATA_TYPE_BOOL"),
        (3, 3.0, "DATA_TYPE_FLOAT64"),
        (2.5e-4, 2.5e-4, "DATA_TYPE_FLOAT64"),
        ("nature-2015", "nature-2015", "DATA_TYPE_STRING"),
        ((64, 64), "(64, 64)", "DATA_TYPE_STRING"),
        (None, None, "DATA_TYPE_UNSET"),
        (math.inf, None, "DATA_TYPE_FLOAT64"),
        (-math.inf, None, "DATA_TYPE_FLOAT64"),
        (math.nan, None, "DATA_TYPE_FLOAT64"),
    ],
)
def test_a_value_is_shown_as_what_it_is_and_none_and_infinity_leave_the_cell_empty(tmp_path, value, shown, type):
    seen = written(tmp_path, {"key": value})
    ((name, hparams, _),) = seen.rows()
    assert name == "runs/run0"
    assert hparams == ({} if shown is None else {"key": shown})
    assert seen.columns()["key"] == (type, False)


def test_a_column_of_numbers_with_infinity_and_none_is_sorted_and_filtered(tmp_path):
    seen = written(tmp_path, *({"total_steps": value} for value in (300, math.inf, 100, None, 200)))
    for order, expected in ((api_pb2.ORDER_ASC, "24013"), (api_pb2.ORDER_DESC, "04213")):
        assert [name[-1] for name, _, _ in seen.rows("total_steps", order)] == list(expected)
    interval = api_pb2.Interval(min_value=150, max_value=300)
    assert [name[-1] for name, _, _ in seen.rows("total_steps", filter_interval=interval)] == ["4", "0"]


def test_seeds_and_frame_skips_are_texts_whatever_they_are(tmp_path):
    seen = written(tmp_path, {"seed": 10, "frame_skip": (2, 5)}, {"seed": 9, "frame_skip": 4}, {"frame_skip": None})
    assert [hparams for _, hparams, _ in seen.rows("frame_skip")] == [
        {"seed": "10", "frame_skip": "(2, 5)"},
        {"seed": "9", "frame_skip": "4"},
        {},
    ]
    assert seen.columns()["seed"] == ("DATA_TYPE_STRING", True)


def test_keys_that_only_other_runs_have_are_columns_too(tmp_path):
    seen = written(tmp_path, {"method": "a3c", "seed": 1}, keys=["game", "seed", "device"])
    assert seen.columns() == {
        "device": ("DATA_TYPE_UNSET", False),
        "game": ("DATA_TYPE_STRING", True),
        "method": ("DATA_TYPE_STRING", True),
        "seed": ("DATA_TYPE_STRING", True),
    }


# Once.


def test_they_are_written_by_the_first_fit_alone(tmp_path):
    clock = FakeClock()
    metrics = Metrics(minutes=clock.minutes, clock=clock)
    tensorboard = TensorBoardScalars(tmp_path, metrics, clock=clock)
    fit = FakeFit([metrics, tensorboard, TensorBoardDashboards(tensorboard, {"seed": 1}, "runs/a")], clock)
    fit.run(1)
    fit.run(2, initial_epoch=1)
    events = EventAccumulator(str(tmp_path), size_guidance={"tensors": 0})
    events.Reload()
    for tag in (LAYOUT, "_hparams_/experiment", "_hparams_/session_start_info"):
        assert len(events.Tensors(tag)) == 1


def test_a_continued_run_is_one_row_and_has_one_layout(tmp_path):
    trained(tmp_path / "runs" / "toy", total_updates=15)
    before = Seen(tmp_path)
    trained(tmp_path / "runs" / "toy", total_updates=30)
    after = Seen(tmp_path)
    assert after.charts() == before.charts()
    assert after.columns() == before.columns()
    ((name, hparams, metrics),) = after.rows()
    assert name == "runs/toy"
    assert hparams["total_updates"] == 15  # as the run began
    assert before.rows()[0][2].keys() == metrics.keys()


def test_they_are_at_step_0_so_that_no_curve_begins_elsewhere(tmp_path):
    trained(tmp_path / "run", total_updates=10)
    events = EventAccumulator(str(tmp_path / "run"), size_guidance={"tensors": 0})
    events.Reload()
    assert [one.step for one in events.Tensors(LAYOUT)] == [0]
