"""Evaluates the agent at the end of epochs, in whole games on an environment of its own."""

import logging
import math
import os
from collections.abc import Callable
from dataclasses import asdict

import keras
import numpy as np

from dqn_lab.arguments import require_fraction, require_integer
from dqn_lab.callbacks.evaluation_media import EvaluationMedia, GameFilm, Gif
from dqn_lab.evaluation import NO_RESULT, EvaluationResult, check_limits, evaluate
from dqn_lab.initial_states import INITIAL_STATES_SEED, InitialStates, held_out, sample_initial_states

# One shape for all calls, so that values are compiled once; small, for memory's sake.
_BATCH_SIZE = 100
_FIGURES = (
    "eval_return_mean",
    "eval_return_best",
    "eval_return_std",
    "eval_length_mean",
    "eval_episodes",
    "eval_episodes_cut",
    "eval_episodes_capped",
    "initial_state_value",
    "td_error",
    "baseline_random_return_mean",
    "baseline_untrained_return_mean",
)
# What stands in the logs for a figure there is none of. A NaN makes ModelCheckpoint save once and
# never again, so it is the worst value there can be.
_WORST = {"td_error": math.inf}
_logger = logging.getLogger("dqn_lab")


class Evaluation(keras.callbacks.Callback):
    """Plays whole games with the agent, scores them raw and undiscounted, and adds to `logs`.

    The first evaluation is at the end of epoch 1, the next ones at every `period_epochs`-th epoch;
    between them `logs` carries the last one on. An epoch that was broken off evaluates nothing. It
    plays on a twin of the training sequence: training goes on as if there had been no evaluation.
    Place it before callbacks that monitor a figure of it (ModelCheckpoint, EarlyStopping).

    Adds to `logs`, as floats:
        `eval_return_mean`, `eval_return_std`, `eval_length_mean` (steps), `eval_episodes`,
        `eval_episodes_cut`, `eval_episodes_capped`: see `dqn_lab.evaluation.EvaluationResult`;
        `eval_return_best`: the largest `eval_return_mean` so far;
        `initial_state_value`: mean over the initial states of their value, such as the largest action value;
        `td_error`: mean absolute one-step TD error over these;
        `baseline_random_return_mean`, `baseline_untrained_return_mean`: the random policy and the
        untrained network under the same limits, once, just before the first evaluation. The random
        policy's episodes have the initial states' seed, since all runs share its score.
    A figure there is none of (no episode was finished, nothing evaluated yet) is -inf, the TD error
    inf, never NaN.

    Args:
        sequence_constructor: the training sequence's `create_validation_instance`, or another
            callable `(epsilon, num_envs=...) -> twin`.
        epsilon: probability of a random action in evaluation.
        num_episodes: episodes of one evaluation, or infinity; see `dqn_lab.evaluation.evaluate`.
        num_max_iter: steps that the counted episodes may take together, or infinity (not both).
        num_initial_states: how many initial states are held out; 0 for none.
        init_state_dir: directory of the file that keeps these and the random policy's score for all
            runs; None keeps no file.
        period_epochs: epochs from one evaluation to the next.
        seed: episode i is seeded by (seed, i), the same in every evaluation.
        num_envs: how many lanes play beside each other. The episodes don't depend on it; which
            initial states are drawn does.
        initial_states_seed: the held-out states' own seed.
        media_period_evaluations: evaluations from one to the next that leaves `media`, the first too; 0 for none. The
            scores don't depend on it.

    Attributes:
        result: of the last evaluation.
        media: what the epoch that ended last left to look at: film of a game, values of the initial states; or None.
        stop_requested: asked at each step whether to break off; the fit is left by `EvaluationStopped` then.

    Raises:
        TypeError: an argument of the wrong type; a model that isn't an agent of this library.
        ValueError: an argument out of its range, or both limits infinite.

    Example:
        >>> evaluation = Evaluation(sequence.create_validation_instance, 0.05, 30, np.inf)
        >>> agent.fit(sequence, epochs=10, callbacks=[evaluation])
    """

    def __init__(
        self,
        sequence_constructor: Callable,
        epsilon: float,
        num_episodes: float,
        num_max_iter: float,
        num_initial_states: int = 1000,
        init_state_dir: str | os.PathLike | None = "runs/initial_states",
        period_epochs: int = 1,
        seed: int = 0,
        num_envs: int = 8,
        initial_states_seed: int = INITIAL_STATES_SEED,
        media_period_evaluations: int = 0,
    ):
        super().__init__()
        if not callable(sequence_constructor):
            raise TypeError(
                "`sequence_constructor` must be callable, as `sequence.create_validation_instance` "
                f"is. Received: sequence_constructor={sequence_constructor!r}"
            )
        check_limits(num_episodes, num_max_iter)
        epsilon = require_fraction("epsilon", epsilon)
        num_envs = require_integer("num_envs", num_envs, least=1)
        self.limits = {"num_episodes": num_episodes, "num_max_iter": num_max_iter}
        self.period_epochs = require_integer("period_epochs", period_epochs, least=1)
        self.seed = seed
        self._media_period = require_integer("media_period_evaluations", media_period_evaluations, least=0)
        self._can_film = True
        self.result = NO_RESULT  # of the last evaluation
        self.media: EvaluationMedia | None = None
        self.stop_requested: Callable[[], bool] = lambda: False  # asked at each step whether to break off
        self.complete_epochs = 0
        self._make_twin = lambda: sequence_constructor(epsilon, num_envs=num_envs)
        self._held_out_arguments = {
            "count": require_integer("num_initial_states", num_initial_states, least=0),
            "directory": init_state_dir,
            "seed": initial_states_seed,
        }
        self._twin = None
        self._rules = {**self.limits, "epsilon": epsilon}  # that the baselines depend on
        self._states: InitialStates | None = None
        self._baselines: dict[str, float] = {}
        self._logs = _to_logs(_figures(NO_RESULT))

    def on_train_begin(self, logs=None):
        """Make the twin now: if its world can't be built, no epoch is lost to that."""
        missing = [n for n in ("lead", "state_values", "td_errors", "sequence") if not hasattr(self.model, n)]
        if missing:
            raise TypeError(
                f"`Evaluation` needs an agent with `{'`, `'.join(missing)}`. Received: model={self.model!r}"
            )
        self._say_monitors_before()
        if self._twin is None:
            self._twin = self._make_twin()

    def on_epoch_end(self, epoch, logs=None):
        """Evaluate if it is time, and put the last evaluation's figures into `logs`."""
        self.media = None
        if self.model.sequence.epoch_complete:
            first = self.complete_epochs == 0
            self.complete_epochs += 1
            if first or self.complete_epochs % self.period_epochs == 0:
                self._evaluate()
        if logs is not None:
            logs.update(self._logs)

    def close(self) -> None:
        """Closes the environments that it plays in; the next fit makes new ones."""
        if self._twin is not None:
            self._twin.close()
            self._twin = None

    def get_state(self) -> dict:
        """What a continued run needs: the epochs counted, the last result and the figures carried on."""
        return {
            "complete_epochs": self.complete_epochs,
            "result": asdict(self.result),
            "rules": dict(self._rules),
            "logs": dict(self._logs),
            "baselines": dict(self._baselines),
        }

    def set_state(self, state: dict) -> None:
        """Take over what `get_state` returned; under other limits or another epsilon the baselines are played anew."""
        self.complete_epochs = state["complete_epochs"]
        result = state["result"]
        self.result = EvaluationResult(
            **{name: tuple(result[name]) for name in ("returns", "lengths", "truncated")}, cut=result["cut"]
        )
        self._logs = self._logs | state["logs"]  # an earlier version has fewer figures
        self._baselines = dict(state["baselines"]) if state["rules"] == self._rules else {}

    def _evaluate(self) -> None:
        if self._states is None:
            self._prepare()
        film = self._begin_film() if self._media_due() else None
        self.result = self._play(watch=film)
        figures = _figures(self.result) | self._judge_initial_states() | self._baselines
        figures["eval_return_best"] = np.fmax(self._logs["eval_return_best"], self.result.return_mean)
        _logger.info("%s", self._line(figures))
        self._logs = _to_logs(figures)
        if self._media_due():
            self.media = EvaluationMedia(self._end_film(film), self._initial_values())

    def _play(self, network=None, watch: Callable[[], None] | None = None) -> EvaluationResult:
        self.model.lead(self._twin, network)
        asked = self.stop_requested
        return evaluate(self._twin, **self.limits, seed=self.seed, stop_requested=asked, watch=watch)

    def _media_due(self) -> bool:
        epochs, period = self.complete_epochs, self._media_period
        return period > 0 and (epochs == 1 or epochs // self.period_epochs % period == 0)

    def _begin_film(self) -> GameFilm | None:
        try:
            return GameFilm(self._twin) if self._can_film else None
        except ValueError as error:
            return self._leave_out_films(error)

    def _end_film(self, film: GameFilm | None) -> Gif | None:
        if film is None or film.failure is not None:
            return None if film is None else self._leave_out_films(film.failure)
        return film.encode()

    def _leave_out_films(self, reason: Exception) -> None:
        self._can_film = False
        _logger.info("evaluations have no film: %s", reason)

    def _initial_values(self) -> np.ndarray:
        """Action values of the initial states, [S, A]; of an actor-critic state values, [S]."""
        model, states = self.model, self._states
        values_of = model.state_values if getattr(model, "actor_critic", False) else model.act_values
        batches = states.batches(model.sequence.gamma, min(_BATCH_SIZE, max(len(states), 1)))
        values = [np.asarray(values_of(batch["state"])) for batch in batches]
        return np.concatenate(values)[: len(states)] if values else np.zeros(0, np.float32)

    def _prepare(self) -> None:
        given = self._held_out_arguments
        if self._baselines and given["directory"] is None:  # of a continued run: the same states, no random play
            self._states = sample_initial_states(self._twin, given["count"], given["seed"])
            return
        found = held_out(self._twin, **given, **self.limits, stop_requested=self.stop_requested)
        self._states = found.states
        if not self._baselines:
            self._baselines = self._measure_baselines(found.random_return_mean)

    def _measure_baselines(self, random_return_mean: float) -> dict[str, float]:
        baselines = {"baseline_random_return_mean": random_return_mean}
        try:
            # Seeded initial weights are part of a network's configuration: the copy begins as the
            # run's network began, also in a run that was continued.
            network = keras.models.clone_model(self.model.network)
        except (ValueError, TypeError, NotImplementedError) as error:
            _logger.warning("the untrained network's score is left out: no copy of it (%s)", error)
            return baselines
        untrained = self._play(network).return_mean
        return baselines | {"baseline_untrained_return_mean": untrained}

    def _judge_initial_states(self) -> dict[str, float]:
        states = self._states
        if not len(states):
            return {}
        values, errors = [], []
        for batch in states.batches(self.model.sequence.gamma, min(_BATCH_SIZE, len(states))):
            values.append(np.asarray(self.model.state_values(batch["state"])))  # [B]
            errors.append(np.abs(np.asarray(self.model.td_errors(batch))))  # [B]
        return {
            "initial_state_value": float(np.concatenate(values)[: len(states)].mean()),
            "td_error": float(np.concatenate(errors)[: len(states)].mean()),
        }

    def _line(self, figures: dict[str, float]) -> str:
        sequence, result = self.model.sequence, self.result
        protocol = getattr(sequence, "protocol", None) or "no protocol"
        scores = (
            f"return {result.return_mean:.4g} +/- {result.return_std:.4g}, "
            f"length {result.length_mean:.4g} steps, {result.episodes} finished"
            if result.episodes
            else "no episode finished"
        )
        compared = [
            f"{words} {figures[name]:.4g}"
            for name, words in (
                ("initial_state_value", "initial-state value"),
                ("baseline_random_return_mean", "random policy"),
                ("baseline_untrained_return_mean", "untrained network"),
            )
            if not math.isnan(figures.get(name, math.nan))
        ]
        return (
            f"evaluation at {sequence.steps:,} steps [{protocol}]: "
            f"{scores}, {result.cut} cut, {result.capped} capped; {', '.join(compared)}"
        )

    def _say_monitors_before(self) -> None:
        for callback in getattr(self.model, "fit_callbacks", ()):
            if callback is self:
                return
            if getattr(callback, "monitor", None) in self._logs:
                _logger.warning(
                    "%s stands before Evaluation and sees `%s` one epoch late: place it after",
                    type(callback).__name__,
                    callback.monitor,
                )


def _figures(result: EvaluationResult) -> dict[str, float]:
    return {
        "eval_return_mean": result.return_mean,
        "eval_return_std": result.return_std,
        "eval_length_mean": result.length_mean,
        "eval_episodes": result.episodes,
        "eval_episodes_cut": result.cut,
        "eval_episodes_capped": result.capped,
    }


def _to_logs(figures: dict[str, float]) -> dict[str, float]:
    """All figures as floats; where there is none, the worst value."""
    given = {name: figures.get(name, math.nan) for name in _FIGURES}
    return {name: _WORST.get(name, -math.inf) if math.isnan(value) else float(value) for name, value in given.items()}
