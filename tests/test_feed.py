"""The feed: no decision is late, no step depends on a thread's timing, and nothing is lost on the way to the caller."""

import contextlib
import gc
import signal
import threading
import weakref

import feeding_worlds as worlds
import keras
import numpy as np
import pytest
from feeding_worlds import At, Idle, NumberedSequence, StopAfter, echo_agent, wait_for
from worlds import Game

from dqn_lab.agents.dqn import DQN
from dqn_lab.models.networks import mlp
from dqn_lab.sequences import feed as feed_module
from dqn_lab.sequences.atari import AtariSequence
from dqn_lab.sequences.feed import Feed, choose_feeding

MODES = ("alternate", "overlap")
both_modes = pytest.mark.parametrize("feeding", MODES)


# Which way of feeding.


@pytest.mark.parametrize(
    ("changed", "feeding", "reason"),
    [
        ({}, "alternate", "updates use all 2 cores"),
        ({"cores": 7}, "alternate", "updates use all 7 cores"),
        ({"cores": 8}, "overlap", "8 cores"),
        ({"has_gpu": True}, "overlap", "updates run on a GPU"),
        ({"asked": "overlap"}, "overlap", "as asked"),
        ({"asked": "alternate", "has_gpu": True}, "alternate", "as asked"),
        ({"asked": "overlap", "num_envs": 2}, "alternate", "overlap needs num_envs >= train_period_steps = 4"),
        ({"has_gpu": True, "num_envs": 2}, "alternate", "overlap needs num_envs >= train_period_steps = 4"),
        (
            {"asked": "overlap", "drops_rows": True},
            "alternate",
            "the vector environment resets its lanes in steps of their own",
        ),
    ],
)
def test_feeding_is_chosen_by_what_the_machine_and_the_lanes_allow(changed, feeding, reason):
    usual = {"num_envs": 4, "train_period_steps": 4, "drops_rows": False, "has_gpu": False, "cores": 2}
    settings = {"asked": "auto"} | usual | changed
    assert choose_feeding(settings.pop("asked"), **settings) == (feeding, reason)


# Which state an action is taken in, and by which weights.


@both_modes
def test_no_decision_is_late_across_epochs_a_stop_and_a_second_fit(feeding):
    sequence, agent = NumberedSequence(feeding), echo_agent()
    agent.fit(sequence, epochs=2, verbose=0)
    assert sequence.steps == 8 + 10 * 2
    agent.fit(sequence, epochs=2, verbose=0, callbacks=[StopAfter(3)])
    ahead = feeding == "overlap"
    assert sequence.steps == 8 + (13 + ahead) * 2

    agent.fit(sequence, epochs=2, verbose=0)
    assert sequence.steps == 8 + 23 * 2
    assert len(sequence.decisions()) == 23 * 2
    assert sequence.late_decisions() == []
    assert all(world.resets == 1 for world in sequence.worlds)


@both_modes
def test_every_stored_pair_is_of_one_state(feeding):
    sequence, agent = NumberedSequence(feeding, num_envs=4, train_period_steps=4), echo_agent()
    agent.fit(sequence, epochs=2, verbose=0, callbacks=[StopAfter(4)])
    agent.fit(sequence, epochs=1, verbose=0)
    index = sequence.replay.sampler.drawable()
    chosen = sequence.get_transitions(index[index >= sequence.replay_min_steps])
    assert len(chosen["action"]) == sequence.steps - sequence.replay_min_steps
    np.testing.assert_array_equal(chosen["action"], chosen["state"][:, 0])
    np.testing.assert_array_equal(chosen["next_state"][:, 0], chosen["state"][:, 0] + 4)


@pytest.mark.parametrize(("num_envs", "period"), [(1, 1), (2, 2), (4, 4), (8, 4), (8, 2), (4, 1)])
def test_overlap_acts_by_weights_exactly_one_update_older_and_an_epochs_first_step_by_the_newest(num_envs, period):
    updates = _updates_behind_each_decision("overlap", num_envs, period)
    share = max(num_envs // period, 1)
    makers = range(1, 11, share)  # the updates whose minibatches need a step
    assert updates == [number - 1 if number in (1, 6) else max(number - 2, 0) for number in makers]


@pytest.mark.parametrize(("num_envs", "period"), [(1, 1), (1, 4), (2, 4), (4, 4), (8, 4)])
def test_alternate_acts_by_the_newest_weights(num_envs, period):
    updates = _updates_behind_each_decision("alternate", num_envs, period)
    decisions, share = max(period // num_envs, 1), max(num_envs // period, 1)
    assert updates == [number - 1 for number in range(1, 11, share) for _ in range(decisions)]


@pytest.mark.parametrize(
    ("feeding", "num_envs", "period"),
    [(mode, *sizes) for mode in MODES for sizes in [(1, 1), (4, 4), (8, 4), (8, 2)]]
    + [("alternate", 1, 4), ("alternate", 2, 4), ("overlap", 1, 4)],
)
def test_update_k_is_made_when_steps_reach_the_fill_plus_k_periods(feeding, num_envs, period):
    sequence, agent = NumberedSequence(feeding, num_envs=num_envs, train_period_steps=period, fill=16), echo_agent()
    seen = []

    def look(agent):
        seen.append(len(sequence.tape))

    agent.hook = look
    agent.fit(sequence, epochs=2, verbose=0)
    due = [16 + number * period for number in range(1, 11)]
    assert sequence.tape == [-(-steps // num_envs) * num_envs for steps in due]
    ahead = sequence.feeding == "overlap"
    assert all(number <= made <= number + ahead for number, made in enumerate(seen, start=1))


# Who works while an update runs.


def test_in_overlap_the_environment_is_stepped_during_an_update():
    updating, stepped, during = threading.Event(), threading.Event(), []

    def step(world):
        if world.steps > 4 and (world.steps - 4) % 5:  # not the fill, nor an epoch's first step, beside no update
            wait_for(updating)
            updating.clear()
            stepped.set()

    def update(agent):
        if agent.updates % 5 != 4:  # beside an epoch's last update nothing is made
            updating.set()
            wait_for(stepped)
            stepped.clear()
            during.append(agent.updates)

    sequence = NumberedSequence("overlap", num_envs=1, train_period_steps=1, hook=step)
    echo_agent(update).fit(sequence, epochs=2, verbose=0)
    assert during == [0, 1, 2, 3, 5, 6, 7, 8]
    assert sequence.late_decisions() == []


def test_in_alternate_the_environment_is_never_stepped_during_an_update():
    stepped, during, order = threading.Event(), [], []

    def step(world):
        stepped.set()
        order.append("step")

    def update(agent):
        stepped.clear()
        order.append("update")
        agent.network(np.ones((64, 1), np.float32))  # some work, in which a thread gone astray would get its turn
        during.append(stepped.is_set())

    sequence = NumberedSequence("alternate", num_envs=1, train_period_steps=2, hook=step)
    echo_agent(update).fit(sequence, epochs=2, verbose=0)
    assert during == [False] * 10
    assert order == ["step"] * 4 + ["step", "step", "update"] * 10


@both_modes
def test_the_environments_are_stepped_by_the_thread_of_their_mode(feeding):
    fitting, idents = threading.get_ident(), set()
    sequence = NumberedSequence(feeding, hook=lambda world: idents.add(threading.get_ident() == fitting))
    sequence.fill()
    idents.clear()
    echo_agent().fit(sequence, epochs=1, verbose=0)
    assert idents == {feeding == "alternate"}


@both_modes
def test_a_batch_is_placed_by_the_thread_that_made_it_and_a_carried_one_by_the_fitting_thread(feeding):
    sequence, placed = NumberedSequence(feeding), []

    def place(batch):
        placed.append((batch["index"].tolist(), threading.current_thread().name))
        return {"placed": batch["index"]}

    def policy(features):
        return np.zeros((len(features), worlds.NUMBERS))

    main = threading.current_thread().name
    made_by = "feed_0" if feeding == "overlap" else main
    feed = sequence.attach(policy, place)
    taken = [feed.next_batch()["placed"].tolist() for _ in range(2)]
    feed.close()
    ahead = int(feeding == "overlap")
    assert [index for index, _ in placed][:2] == taken
    assert [thread for _, thread in placed] == [made_by] * (2 + ahead)
    placed.clear()
    feed = sequence.attach(policy, place)
    carried = feed.next_batch()["placed"].tolist()
    feed.close()
    assert placed[0] == (carried, main)


# How an epoch ends.


@both_modes
def test_an_epoch_is_complete_when_all_its_updates_are_made(feeding):
    sequence, complete = NumberedSequence(feeding), []

    class Look(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            complete.append(("begin", sequence.epoch_complete))

        def on_train_batch_begin(self, batch, logs=None):
            complete.append((batch, sequence.epoch_complete))

        def on_epoch_end(self, epoch, logs=None):
            complete.append(("end", sequence.epoch_complete))

    echo_agent().fit(sequence, epochs=2, verbose=0, callbacks=[Look(), _StopIn(epoch=1, batch=2)])
    batches = [(batch, False) for batch in range(5)]
    first = [("begin", False), *batches, ("end", True)]
    second = [("begin", True), (0, True), *batches[1:3], ("end", False)]
    assert complete == first + second
    assert sequence.epoch_complete is False


@both_modes
def test_an_epoch_whose_first_update_fails_is_not_complete(feeding):
    def update(agent):
        if agent.updates == 5:
            raise ZeroDivisionError

    sequence = NumberedSequence(feeding)
    with pytest.raises(ZeroDivisionError):
        echo_agent(update).fit(sequence, epochs=2, verbose=0)
    assert not sequence.epoch_complete


@both_modes
def test_a_stop_with_the_last_update_leaves_a_complete_epoch_and_nothing_ahead(feeding):
    sequence = NumberedSequence(feeding)
    echo_agent().fit(sequence, epochs=3, verbose=0, callbacks=[StopAfter(5)])
    assert sequence.epoch_complete
    assert sequence.steps == 8 + 5 * 2
    assert sequence.get_state()["carried"] is None


@both_modes
def test_between_epochs_nothing_moves(feeding):
    sequence, counts = NumberedSequence(feeding), []

    class Look(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            counts.append((sequence.steps, sequence.batches))

    echo_agent().fit(sequence, epochs=3, verbose=0, callbacks=[Look()])
    assert counts == [(8 + 5 * number * 2, 5 * number) for number in (1, 2, 3)]


@both_modes
def test_the_batch_that_no_update_took_is_the_next_fits_first(feeding):
    sequence, agent = NumberedSequence(feeding), echo_agent(cls=Remembering)
    agent.taken = taken = _Tape()
    agent.fit(sequence, epochs=1, verbose=0, callbacks=[StopAfter(2)])
    carried = sequence.get_state()["carried"]
    agent.fit(sequence, epochs=1, verbose=0)
    if feeding == "overlap":
        np.testing.assert_array_equal(taken.entries[2], carried)
    else:
        assert carried is None
    assert len(taken.entries) == sequence.batches == 7


# What goes wrong on the way.


class Remembering(Idle):
    def train_step(self, batch):
        self.taken.entries.append(batch["index"].numpy())
        return super().train_step(batch)


def _raise_at(step, error, reached=None):
    """A hook that raises in one step of lane 0, the first time that it comes there; sets `reached` just before."""
    pending = [error]

    def hook(world):
        if world.lane == 0 and world.steps == step and pending:
            if reached is not None:
                reached.set()
            raise pending.pop()

    return hook


@pytest.mark.case("B089")
@both_modes
def test_an_environment_that_raises_at_step_37_is_heard_by_the_caller_of_fit(feeding):
    sequence = NumberedSequence(
        feeding, num_envs=1, train_period_steps=1, updates_per_epoch=50, hook=_raise_at(37, RuntimeError("boom"))
    )
    with pytest.raises(RuntimeError, match="^boom$"):
        echo_agent().fit(sequence, epochs=1, verbose=0)
    assert sequence.steps == 37


@both_modes
@pytest.mark.parametrize(
    "error",
    [RuntimeError("boom"), StopIteration("boom"), KeyboardInterrupt("boom"), SystemExit("boom")],
    ids=lambda error: type(error).__name__,
)
def test_what_an_environment_raises_arrives_as_the_very_same_object(feeding, error):
    error.__cause__ = cause = OSError("the disk")
    sequence, agent = NumberedSequence(feeding, hook=_raise_at(7, error)), echo_agent()
    with pytest.raises(type(error)) as raised:
        agent.fit(sequence, epochs=2, verbose=0)
    assert raised.value is error
    assert error.__cause__ is cause
    assert error.__context__ is None
    assert not hasattr(error, "__notes__")
    assert agent.updates == 3  # fill of 4 steps a lane; the fourth update's step was the eighth


@both_modes
def test_after_an_environments_error_a_second_fit_begins_new_episodes_and_trains(feeding):
    sequence = NumberedSequence(feeding, hook=_raise_at(7, RuntimeError("boom")))
    agent = echo_agent()
    with pytest.raises(RuntimeError, match="boom"):
        agent.fit(sequence, epochs=2, verbose=0)
    agent.fit(sequence, epochs=2, verbose=0)
    assert agent.updates == 13
    assert sequence.late_decisions() == []
    assert [world.resets for world in sequence.worlds] == [2, 2]
    sequence.replay.ring.check_valid()


def test_an_error_in_a_batch_that_no_update_waits_for_arrives_too():
    error, reached = RuntimeError("boom"), threading.Event()
    sequence, agent = NumberedSequence("overlap", hook=_raise_at(4 + 3, error, reached)), echo_agent()
    with pytest.raises(RuntimeError) as raised:  # the fourth batch is being made when the third update ends the fit
        agent.fit(sequence, epochs=1, verbose=0, callbacks=[StopAfter(3, ready=reached)])
    assert raised.value is error
    assert agent.updates == 3
    agent.fit(sequence, epochs=1, verbose=0)
    assert agent.updates == 8


def test_what_ends_the_fit_comes_before_what_the_environment_raises_then():
    interrupt, reached = KeyboardInterrupt(), threading.Event()
    sequence = NumberedSequence("overlap", hook=_raise_at(4 + 3, RuntimeError("boom"), reached))

    def interrupted():
        wait_for(reached)
        raise interrupt

    with pytest.raises(KeyboardInterrupt) as raised:
        echo_agent().fit(sequence, epochs=1, verbose=0, callbacks=[At(2, interrupted)])
    assert raised.value is interrupt
    assert interrupt.__notes__ == ["The environments raised too, as the fit ended: RuntimeError('boom')"]


@both_modes
def test_a_keyboard_interrupt_in_a_callback_passes_and_the_sequence_stays_usable(feeding):
    before, interrupt = worlds.threads(), KeyboardInterrupt()
    sequence, agent = NumberedSequence(feeding), echo_agent()
    with pytest.raises(KeyboardInterrupt) as raised:
        agent.fit(sequence, epochs=2, verbose=0, callbacks=[At(1, interrupt)])
    assert raised.value is interrupt
    assert not hasattr(interrupt, "__notes__")
    assert sequence.steps == 8 + (2 + (feeding == "overlap")) * 2
    sequence.simulate(2)
    agent.fit(sequence, epochs=1, verbose=0)
    assert agent.updates == 7
    assert worlds.threads() == before


@pytest.fixture
def ctrl_c():
    """Python's own answer to Ctrl-C, which a process in the background starts without."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@both_modes
@pytest.mark.parametrize("step", [6, 7])
def test_ctrl_c_while_the_environment_is_stepped_passes_and_the_sequence_stays_usable(feeding, step, ctrl_c):
    pending, pressed = [signal.SIGINT], threading.Event()

    def press(world):
        if (world.lane, world.steps) == (0, step) and pending:
            signal.raise_signal(pending.pop())  # heard by the fitting thread, wherever that is
            pressed.set()

    def update(agent):
        if feeding == "overlap" and agent.updates == step - 5:  # the update beside which that step is made
            wait_for(pressed)  # not in an eager operation of TensorFlow: it ends the process if Ctrl-C comes there

    sequence, agent = NumberedSequence(feeding, hook=press), echo_agent(update)
    with pytest.raises(KeyboardInterrupt):
        agent.fit(sequence, epochs=2, verbose=0)
    made = agent.updates
    assert made < 10
    assert not pending
    agent.hook = None
    agent.fit(sequence, epochs=2, verbose=0)
    assert agent.updates == made + 10
    assert sequence.late_decisions() == []
    sequence.replay.ring.check_valid()


@pytest.mark.posix
def test_ctrl_c_while_the_ordered_batch_is_waited_for_passes_and_the_batch_is_carried_on(ctrl_c, monkeypatch):
    take, waiting, interrupted = Feed._take, threading.Event(), threading.Event()
    before, fitting, pending = worlds.threads(), threading.get_ident(), [KeyboardInterrupt()]
    signal.signal(signal.SIGINT, lambda *_: interrupt_once())

    def interrupt_once():
        if pending:
            raise pending.pop()

    def press(world):
        if (world.lane, world.steps) == (0, 7) and pending:  # of the fourth update's batch
            wait_for(waiting)
            for _ in range(10 * worlds.GUARD):  # a signal that comes just before the wait does not wake it
                signal.pthread_kill(fitting, signal.SIGINT)
                if interrupted.wait(0.1):  # so the batch is not there before
                    break

    def taken(feed):
        try:
            if agent.updates == 3:
                waiting.set()
            return take(feed)
        except KeyboardInterrupt:
            interrupted.set()
            raise

    monkeypatch.setattr(Feed, "_take", taken)
    sequence, agent = NumberedSequence("overlap", hook=press), echo_agent()
    with pytest.raises(KeyboardInterrupt):
        agent.fit(sequence, epochs=2, verbose=0)
    assert (agent.updates, sequence.batches, sequence.steps) == (3, 4, 8 + 4 * 2)
    assert sequence.get_state()["carried"] is not None
    assert worlds.threads() == before
    agent.fit(sequence, epochs=2, verbose=0)
    assert (agent.updates, sequence.batches) == (13, 13)
    assert sequence.late_decisions() == []
    assert all(world.resets == 1 for world in sequence.worlds)


@both_modes
def test_an_interrupt_while_a_fit_is_prepared_leaves_the_sequence_free(feeding, monkeypatch):
    def interrupted(value):
        raise KeyboardInterrupt

    sequence, agent = NumberedSequence(feeding), echo_agent()
    monkeypatch.setattr(agent.unfinite, "assign", interrupted)  # it may wait for the device
    with pytest.raises(KeyboardInterrupt):
        agent.fit(sequence, verbose=0)
    monkeypatch.undo()
    sequence.simulate(2)
    agent.fit(sequence, verbose=0)
    assert agent.updates == 5


@both_modes
def test_an_error_in_an_update_passes_and_the_sequence_stays_usable(feeding):
    error, sequence = ZeroDivisionError("in train_step"), NumberedSequence(feeding)

    def update(agent):
        if agent.updates == 2:
            raise error

    agent = echo_agent(update)
    with pytest.raises(ZeroDivisionError) as raised:
        agent.fit(sequence, epochs=1, verbose=0)
    assert raised.value is error
    agent.hook = None
    agent.fit(sequence, epochs=1, verbose=0)
    assert agent.updates == 7
    assert sequence.late_decisions() == []


@both_modes
def test_an_error_of_the_policy_passes(feeding, monkeypatch):
    sequence, agent = NumberedSequence(feeding), echo_agent()
    monkeypatch.setattr(agent, "q_values", lambda states: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        agent.fit(sequence, epochs=1, verbose=0)
    monkeypatch.undo()
    agent.fit(sequence, epochs=1, verbose=0)
    assert agent.updates == 5


def test_a_batch_taken_while_the_next_one_cannot_be_ordered_is_the_next_fits_first():
    sequence, agent = NumberedSequence("overlap"), echo_agent(cls=Remembering)
    agent.taken = taken = _Tape()
    values = iter([agent.act_values, agent.act_values, lambda states: 1 / 0])
    feed = sequence.attach(lambda states: next(values)(states))
    feed.next_batch()
    with pytest.raises(ZeroDivisionError):
        feed.next_batch()
    feed.close()
    carried = sequence.get_state()["carried"]
    agent.fit(sequence, epochs=1, verbose=0)
    np.testing.assert_array_equal(taken.entries[0], carried)
    assert sequence.batches == 1 + agent.updates


@pytest.mark.case("B087")
@both_modes
def test_three_epochs_of_20_updates_end_and_leave_no_thread(feeding):
    before = worlds.threads()
    sequence = NumberedSequence(feeding, updates_per_epoch=20)
    agent = DQN(worlds.echo_network(), target_period_updates=None)
    agent.compile(keras.optimizers.SGD(0.0))
    agent.fit(sequence, epochs=3, verbose=0)
    assert agent.optimizer.iterations == 60
    assert worlds.threads() == before


@pytest.mark.case("B090")
@both_modes
def test_early_stopping_leaves_no_thread_and_a_second_fit_works(feeding):
    before, sequence, agent = worlds.threads(), NumberedSequence(feeding), echo_agent()
    stopping = keras.callbacks.EarlyStopping(monitor="loss", patience=1)  # the loss stays 0: ends epoch 2
    history = agent.fit(sequence, epochs=10, verbose=0, callbacks=[stopping])
    assert history.epoch == [0, 1]
    assert worlds.threads() == before
    agent.fit(sequence, epochs=2, verbose=0)
    assert agent.updates == 20


@both_modes
def test_early_stopping_in_mid_epoch_leaves_no_thread_and_a_second_fit_works(feeding):
    before, sequence, agent = worlds.threads(), NumberedSequence(feeding), echo_agent()
    agent.fit(sequence, epochs=10, verbose=0, callbacks=[StopAfter(2)])
    assert worlds.threads() == before
    agent.fit(sequence, epochs=1, verbose=0)
    assert agent.updates == 7
    assert worlds.threads() == before


def _in_update(agent):
    if agent.updates == 2:
        raise ZeroDivisionError


@both_modes
@pytest.mark.parametrize(
    "where", ["nowhere", "environment", "environment, ahead", "policy", "update", "callback", "first epoch's callback"]
)
def test_no_thread_is_left_whatever_ends_the_fit(feeding, where, monkeypatch):
    error, before = ZeroDivisionError(), worlds.threads()
    steps = {"environment": 6, "environment, ahead": 4 + 4}.get(where)
    sequence = NumberedSequence(feeding, hook=None if steps is None else _raise_at(steps, error))
    agent = echo_agent(_in_update if where == "update" else None)
    callbacks = [At(0, error)] if where == "first epoch's callback" else [At(3, error)] if where == "callback" else []
    if where == "policy":
        calls = iter([agent.act_values] * 2)
        monkeypatch.setattr(agent, "act_values", lambda states: next(calls, lambda states: 1 / 0)(states))
    with contextlib.nullcontext() if where == "nowhere" else pytest.raises(ZeroDivisionError):
        agent.fit(sequence, epochs=1, verbose=0, callbacks=callbacks)
    assert worlds.threads() == before


@both_modes
@pytest.mark.parametrize("callbacks", [[], [StopAfter(2)], [At(2, OSError("boom"))]], ids=["whole", "stop", "error"])
def test_a_fit_holds_on_to_neither_sequence_nor_agent(feeding, callbacks):
    sequence, agent = NumberedSequence(feeding), echo_agent()
    parts = [weakref.ref(sequence), weakref.ref(agent)]
    with contextlib.suppress(OSError):
        agent.fit(sequence, epochs=1, verbose=0, callbacks=callbacks)
    for callback in callbacks:
        callback.set_model(None)
        getattr(callback, "act", OSError()).__traceback__ = None
    del sequence, agent
    gc.collect()
    assert [part() for part in parts] == [None, None]


@both_modes
def test_an_epoch_broken_off_leaves_nothing_behind(feeding, monkeypatch):
    close, feeds = Feed.close, []
    monkeypatch.setattr(Feed, "close", lambda feed: feeds.append(weakref.ref(feed)) or close(feed))
    before, sequence, agent = worlds.threads(), NumberedSequence(feeding), echo_agent()
    agent.fit(sequence, epochs=2, verbose=0, callbacks=[StopAfter(2)])
    assert [feed() for feed in feeds] == [None]
    assert worlds.threads() == before
    agent.fit(sequence, epochs=1, verbose=0)
    assert (agent.updates, len(sequence.tape)) == (7, 7)


# What is fed.


class Negative(AtariSequence):
    """A user's own picture of a fake game whose row p of a lane shows p + 1: frames inverted, in every state."""

    def make_game(self, frame_cap):
        return Game(length=12, size=6)  # 13 rows an episode: its final observation has one too

    def get_feature_by_index(self, index):
        return 255 - super().get_feature_by_index(index)


def _negatives(position):
    """Pixels [B, 4] of the inverted stacks that end at these positions of a lane."""
    back = np.minimum(np.arange(3, -1, -1), position[:, None] % 13)  # the episode's first frame is repeated
    return 255 - (position[:, None] + 1 - back)


def _is_negative(batch):
    position = np.asarray(batch["index"]) // 4  # of 4 lanes
    for key, pixels in (("state", _negatives(position)), ("next_state", _negatives(position + 1))):
        assert batch[key].shape == (8, 6, 6, 4) and batch[key].dtype == np.uint8
        np.testing.assert_array_equal(batch[key], np.broadcast_to(pixels[:, None, None], (8, 6, 6, 4)))


@both_modes
@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_a_users_own_features_are_in_every_minibatch_and_every_action(feeding, compression):
    fed, acted = [], []

    class Watching(Idle):
        def train_step(self, batch):
            fed.append({key: value.numpy() for key, value in batch.items()})
            return super().train_step(batch)

        def act_values(self, states):
            acted.append((sequence.replay.ring.newest_index, states.copy()))
            return super().act_values(states)

    sequence = Negative(
        "breakout",
        protocol="nature-2015",
        num_envs=4,
        frame_size=6,
        replay_capacity_steps=800,
        replay_min_steps=120,
        replay_compression=compression,
        updates_per_epoch=20,
        batch_size=8,
        epsilon=0.1,
        feeding=feeding,
    )
    agent = Watching(mlp((6, 6, 4), sequence.num_actions, state_dtype="uint8"), target_period_updates=None)
    agent.compile("sgd", run_eagerly=True)
    agent.fit(sequence, epochs=2, verbose=0)
    looked = sequence[3]
    assert (len(fed), len(acted)) == (40, 40)
    for batch in [*fed, looked]:
        _is_negative(batch)
    for newest, states in acted:
        np.testing.assert_array_equal(states[:, 2, 3], _negatives(newest // 4))
    kinds = {"state": "uint8", "action": "int32", "reward": "float32", "discount": "float32", "next_state": "uint8"}
    kinds |= {"weight": "float32", "index": "int64"}
    for batch in (fed[0], fed[-1], looked):
        assert {key: (str(value.dtype), len(value)) for key, value in batch.items()} == {
            key: (kind, 8) for key, kind in kinds.items()
        }
    plain = AtariSequence.get_feature_by_index(sequence, looked["index"])
    np.testing.assert_array_equal(looked["state"], 255 - plain)


# What is not possible, or changes nothing.


@both_modes
def test_nobody_else_steps_the_sequence_or_attaches_to_it_inside_a_fit(feeding):
    sequence, agent, refused = NumberedSequence(feeding), echo_agent(), []
    other = echo_agent()

    def try_all():
        for attempt in (
            lambda: sequence.simulate(2),
            sequence.simulate_single,
            lambda: other.fit(sequence, verbose=0),
            lambda: agent.fit(NumberedSequence(feeding), verbose=0),
        ):
            with pytest.raises(RuntimeError) as raised:
                attempt()
            refused.append(str(raised.value))

    agent.fit(sequence, epochs=1, verbose=0, callbacks=[At(1, try_all)])
    running = "A fit is running on this sequence; only that fit may step it or attach to it."
    assert refused == [running, running, running, "This agent is being fitted already."]
    assert (agent.updates, other.updates) == (5, 0)
    assert sequence.steps == 8 + 5 * 2
    other.fit(sequence, verbose=0)
    assert other.updates == 5


def test_the_fit_of_another_keras_model_is_refused_in_one_line():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    sequence = NumberedSequence("alternate")
    with pytest.raises(ValueError, match="^A sequence is trained on with `agent.fit[^\n]*$"):
        model.fit(sequence, verbose=0)
    echo_agent().fit(sequence, verbose=0)
    assert sequence.late_decisions() == []


@pytest.mark.parametrize(("name", "value"), [("workers", 2), ("use_multiprocessing", True)])
def test_more_than_one_producer_is_refused_in_one_line(name, value):
    sequence = NumberedSequence("alternate")
    setattr(sequence, name, value)
    with pytest.raises(ValueError, match=f"^Minibatches must come from one thread, in order. [^\n]*{name}={value}"):
        echo_agent().fit(sequence, verbose=0)


# A part of an epoch, and a state taken inside a fit.


@both_modes
def test_a_fit_of_a_part_of_an_epoch_ends_it_and_leaves_nothing_ahead(feeding):
    sequence, agent, steps = NumberedSequence(feeding), echo_agent(), []

    class Look(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            steps.append((self.params["steps"], sequence.epoch_complete))

    agent.fit(sequence, epochs=2, epoch_updates=3, verbose=0, callbacks=[Look()])
    agent.fit(sequence, epochs=1, verbose=0, callbacks=[Look()])
    assert steps == [(3, True), (3, True), (5, True)]
    assert (agent.updates, sequence.batches, sequence.steps) == (11, 11, 8 + 11 * 2)
    assert sequence.get_state()["carried"] is None


@pytest.mark.parametrize(("updates", "error"), [(0, ValueError), (1.5, TypeError)])
def test_a_part_of_an_epoch_is_a_whole_number_of_updates(updates, error):
    sequence, agent = NumberedSequence("alternate"), echo_agent()
    with pytest.raises(error, match=f"epoch_updates.*Received: epoch_updates={updates}"):
        agent.fit(sequence, epoch_updates=updates, verbose=0)
    agent.fit(sequence, verbose=0)
    assert agent.updates == 5


class _StateBefore(keras.callbacks.Callback):
    """Takes the sequence's state before one update; `meanwhile` is called just before."""

    def __init__(self, batch, meanwhile=lambda: None):
        super().__init__()
        self.batch, self.meanwhile, self.state = batch, meanwhile, None

    def on_train_batch_begin(self, batch, logs=None):
        if batch == self.batch:
            self.meanwhile()
            self.state = self.model.sequence.get_state(replay=False)


def test_a_state_inside_a_fit_waits_for_the_batch_in_the_making():
    asked, entered = threading.Event(), threading.Event()

    def step(world):
        if world.lane == 1 and world.steps == 4 + 2:  # of the third batch, beside the second update
            entered.set()
            wait_for(asked)

    sequence = NumberedSequence("overlap", hook=step)
    wait = feed_module.wait

    def waiting(futures):
        asked.set()
        return wait(futures)

    look = _StateBefore(2, lambda: wait_for(entered))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(feed_module, "wait", waiting)
        echo_agent().fit(sequence, epochs=1, verbose=0, callbacks=[look])
    assert (look.state["batches"], look.state["simulation"]["steps"]) == (3, 8 + 3 * 2)
    assert look.state["carried"].shape == (4,)
    assert sequence.late_decisions() == []


@pytest.mark.parametrize("batch", [0, 1, 4])
def test_a_batch_that_an_earlier_fit_left_is_in_the_state_until_an_update_takes_it(batch):
    sequence, agent, look = NumberedSequence("overlap"), echo_agent(cls=Remembering), _StateBefore(batch)
    agent.taken = taken = _Tape()
    agent.fit(sequence, epochs=1, verbose=0, callbacks=[StopAfter(2)])
    agent.fit(sequence, epochs=1, verbose=0, callbacks=[look])
    np.testing.assert_array_equal(look.state["carried"], taken.entries[2 + batch])
    assert look.state["batches"] == 3 + batch


def test_a_state_inside_a_fit_is_as_far_as_a_step_that_failed_got_and_the_error_still_arrives():
    error = RuntimeError("boom")
    sequence = NumberedSequence("overlap", hook=_raise_at(6, error))  # beside the second update
    look = _StateBefore(2)
    with pytest.raises(RuntimeError) as raised:
        echo_agent().fit(sequence, epochs=1, verbose=0, callbacks=[look])
    assert raised.value is error
    assert (look.state["batches"], look.state["simulation"]["steps"], look.state["carried"]) == (2, 8 + 2 * 2, None)


@both_modes
def test_a_feed_that_has_settled_goes_on_as_one_that_has_not(feeding):
    sequence, feed = _scripted_feed(feeding)
    feed.settle()
    assert (sequence.made, feed.in_flight) == (0, None)
    batches = []
    for _ in range(3):
        batches.append(feed.next_batch())
        feed.settle()
    ahead = feeding == "overlap"
    assert (sequence.made, feed.in_flight) == (3 + ahead, "batch 4 by values 3" if ahead else None)
    assert batches == [f"batch {number} by values {number - 1}, placed" for number in (1, 2, 3)]
    feed.close()


# The feed alone.


class Scripted:
    """What a feed needs of a sequence; its batches are texts, and there are none after `last`."""

    epoch_complete = None

    def __init__(self, feeding, last=99):
        self.feeding, self.last, self.made, self.carried = feeding, last, 0, "attached"

    def __len__(self):
        return 5

    def is_step_due(self):
        return True

    def compute_values(self, policy):
        return policy(self.made)

    def produce_batch(self, policy, values=None):
        if self.made == self.last:
            raise RuntimeError("boom")
        values = values if policy is None else policy(self.made)
        self.made += 1
        return f"batch {self.made} by {values}"

    def detach(self, feed, carried):
        self.carried = carried


def _scripted_feed(feeding, carried=None, **settings):
    sequence = Scripted(feeding, **settings)
    return sequence, Feed(sequence, lambda made: f"values {made}", lambda batch: f"{batch}, placed", carried, 5)


@both_modes
def test_batches_come_in_turn_and_one_that_was_carried_comes_first(feeding):
    sequence, feed = _scripted_feed(feeding, "carried")
    batches = [feed.next_batch() for _ in range(4)]
    made = [f"batch {number} by values {number - 1}, placed" for number in (1, 2, 3)]
    assert batches == ["carried, placed", *made]
    assert feed.left == 1
    feed.close()
    assert sequence.carried == (None if feeding == "alternate" else "batch 4 by values 3")


@both_modes
def test_a_feed_that_closes_carries_on_what_was_ordered_and_makes_nothing_more(feeding):
    before = worlds.threads()
    sequence, feed = _scripted_feed(feeding)
    feed.next_batch()
    feed.close()
    overlaps = feeding == "overlap"
    assert (sequence.made, sequence.carried) == (1 + overlaps, "batch 2 by values 1" if overlaps else None)
    assert worlds.threads() == before


@both_modes
def test_a_carried_batch_that_no_update_takes_again_is_carried_on(feeding):
    sequence, feed = _scripted_feed(feeding, "carried")
    feed.close()
    assert (sequence.made, sequence.carried) == (0, "carried")


@both_modes
@pytest.mark.parametrize(("taken", "ahead"), [(4, 1), (5, 0), (7, 1)])
def test_an_epoch_of_the_feed_ends_quiet_and_the_next_one_begins(feeding, taken, ahead):
    sequence, feed = _scripted_feed(feeding)
    complete = []
    for _ in range(taken):
        feed.next_batch()
        complete.append(sequence.epoch_complete)
        feed.end_update()
        complete.append(sequence.epoch_complete)
    feed.close()
    assert sequence.made == taken + (ahead if feeding == "overlap" else 0)
    assert complete == ([False] * 9 + [True] + [False] * 4)[: 2 * taken]


def test_the_dataset_only_counts_the_updates_of_an_epoch():
    sequence, feed = _scripted_feed("alternate")
    dataset = feed.dataset()
    assert [int(number) for number in dataset] == [0, 1, 2, 3, 4]
    assert int(dataset.cardinality()) == 5
    assert sequence.made == 0


@both_modes
def test_what_goes_wrong_is_raised_when_the_batch_is_waited_for_and_left_in_error(feeding):
    sequence, feed = _scripted_feed(feeding, last=2)
    feed.next_batch()
    feed.next_batch()
    with pytest.raises(RuntimeError, match="^The next minibatch could not be made.$") as raised:
        feed.next_batch()
    assert str(feed.error) == "boom"
    assert raised.value.__cause__ is feed.error
    assert (feed.failed, feed.left) == (True, 3)
    feed.close()
    assert sequence.carried is None


def test_what_cannot_be_made_while_the_feed_closes_is_left_in_error():
    sequence, feed = _scripted_feed("overlap", last=1)
    feed.next_batch()
    feed.close()
    assert str(feed.error) == "boom"
    assert not feed.failed
    assert sequence.carried is None


@both_modes
def test_a_batch_that_cannot_be_placed_is_carried_on(feeding):
    sequence = Scripted(feeding)
    feed = Feed(sequence, lambda made: "values", lambda batch: 1 / 0, None, 5)
    with pytest.raises(RuntimeError, match="could not be made"):
        feed.next_batch()
    feed.close()
    assert isinstance(feed.error, ZeroDivisionError)
    assert sequence.carried == "batch 1 by values"


def test_a_second_interrupt_while_the_feed_closes_still_detaches_it(monkeypatch):
    before = worlds.threads()
    sequence, feed = _scripted_feed("overlap")
    feed.next_batch()
    worker = feed._worker

    def interrupted(wait):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(worker, "shutdown", interrupted)
        feed.close()
    assert sequence.carried != "attached"
    worker.shutdown()
    assert worlds.threads() == before


class _Tape:
    """A list that Keras does not turn into one of its own when it becomes an agent's attribute."""

    def __init__(self):
        self.entries = []


class _StopIn(keras.callbacks.Callback):
    def __init__(self, epoch, batch):
        super().__init__()
        self.at, self.epoch = (epoch, batch), None

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (self.epoch, batch) == self.at:
            self.model.stop_training = True


class _Counting(Idle):
    """After k updates its greedy action is k."""

    def train_step(self, batch):
        number = np.arange(worlds.NUMBERS)
        after = self.updates + 1
        self.network.set_weights([np.zeros((1, worlds.NUMBERS)), 2 * after * number - number**2])
        return {"loss": 0.0}


def _updates_behind_each_decision(feeding, num_envs, period):
    sequence = NumberedSequence(feeding, num_envs=num_envs, train_period_steps=period, fill=16)
    agent = echo_agent(cls=_Counting)
    number = np.arange(worlds.NUMBERS)
    agent.network.set_weights([np.zeros((1, worlds.NUMBERS)), -(number**2)])
    agent.fit(sequence, epochs=2, verbose=0)
    assert sequence.feeding == feeding
    lanes = [[action for _, action in world.tape[16 // num_envs :]] for world in sequence.worlds]
    assert all(lane == lanes[0] for lane in lanes)
    return lanes[0]
