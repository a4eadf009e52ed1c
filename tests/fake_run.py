"""An agent and a sequence that only count, and a fit that calls callbacks as Keras does."""

import math

EPOCH = 4  # updates


class FakeClock:
    """Seconds that pass when they are told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def minutes(self):
        return self.now / 60


class FakeSequence:
    """The counters of a sequence; an update stands for 4 steps of 4 frames."""

    def __init__(self):
        self.steps, self.frames, self.episodes = 100, 400, 3
        self.episode_return_sum, self.episode_length_sum = 30.0, 60
        self.epsilon = 1.0
        self.epoch_complete = False
        self.seconds = {"acting": 0.0, "environment": 0.0, "sampling": 0.0, "update": 0.0}
        self.state_shape, self.num_actions = (2,), 2

    def __len__(self):
        return EPOCH

    def settle(self):
        pass


class FakeAgent:
    """Counts updates and writes files as if it were saved."""

    def __init__(self):
        self.sequence = FakeSequence()
        self.updates = 0
        self.losses = []  # of the epoch so far
        self.stop_training = False

    def save(self, path):
        path.write_text(f"agent after {self.updates} updates")


class FakeFit:
    """Calls callbacks in Keras's order, a second per update.

    Args:
        callbacks: in their order.
        clock: that the callbacks read.
        games: update number -> (return, length) of a game that ends in it.
        agent: that has made updates already; None for a new one.
    """

    def __init__(self, callbacks, clock, games=None, agent=None):
        self.agent, self.clock = agent or FakeAgent(), clock
        self.callbacks, self.games = callbacks, games or {}
        self.logs = []  # of each epoch, as the last callback left them
        for callback in callbacks:
            callback.set_model(self.agent)

    def run(self, epochs, losses=None, initial_epoch=0, epoch_updates=EPOCH):
        """As `Agent.fit`; with fewer updates an epoch they are the last ones of an epoch broken off."""
        self.agent.stop_training = False
        self._all("on_train_begin")
        for epoch in range(initial_epoch, epochs):
            self._epoch(epoch, losses, epoch_updates)
            if self.agent.stop_training:
                break
        self._all("on_train_end")
        return self.logs

    def finish_epoch(self, epoch):
        """As `Agent.finish_epoch`."""
        self.agent.sequence.epoch_complete = True
        self._all("on_train_begin")
        self._all("on_epoch_begin", epoch)
        self._end(epoch)
        self._all("on_train_end")

    def _epoch(self, epoch, losses, updates):
        agent = self.agent
        agent.sequence.epoch_complete = False
        if updates == EPOCH:
            agent.losses = []
        self._all("on_epoch_begin", epoch)
        for batch in range(updates):
            self._all("on_train_batch_begin", batch)
            self._update()
            agent.losses.append(losses[agent.updates - 1] if losses else 0.5)
            agent.sequence.epoch_complete = batch + 1 == updates
            self._all("on_train_batch_end", batch, {"loss": self._loss()})
            if agent.stop_training:
                break
        self._end(epoch)

    def _end(self, epoch):
        logs = {"loss": self._loss(), "q_mean": 2.0}
        self._all("on_epoch_end", epoch, logs)
        self.logs.append(logs)

    def _loss(self):
        return math.fsum(self.agent.losses) / len(self.agent.losses)

    def _update(self):
        agent, sequence = self.agent, self.agent.sequence
        agent.updates += 1
        sequence.steps, sequence.frames = sequence.steps + 4, sequence.frames + 16
        sequence.epsilon = 1.0 - agent.updates / 100
        self.clock.now += 1.0
        sequence.seconds["update"] += 0.5
        sequence.seconds["acting"] += 0.25
        if agent.updates in self.games:
            score, length = self.games[agent.updates]
            sequence.episodes += 1
            sequence.episode_return_sum += score
            sequence.episode_length_sum += length

    def _all(self, name, *arguments):
        for callback in self.callbacks:
            getattr(callback, name)(*arguments)


class FakeCallback:
    """Does nothing at any time, unless a subclass says otherwise."""

    def set_model(self, model):
        self.model = model

    def __getattr__(self, name):
        if name.startswith("on_"):
            return lambda *arguments: None
        raise AttributeError(name)


class FakeEvaluation(FakeCallback):
    """Stands where `Evaluation` stands: figures into the logs, the last ones carried on."""

    def __init__(self, scores, period_epochs=1):
        self.scores, self.period_epochs, self.complete_epochs = list(scores), period_epochs, 0
        self.clock = None
        self.last = {"eval_return_mean": -math.inf, "td_error": math.inf}

    def on_epoch_end(self, epoch, logs):
        if self.model.sequence.epoch_complete:
            self.complete_epochs += 1
            if self.complete_epochs == 1 or self.complete_epochs % self.period_epochs == 0:
                self.last = {"eval_return_mean": self.scores.pop(0), "td_error": 0.25}
                self.last["baseline_random_return_mean"] = 1.0
                if self.clock is not None:
                    self.clock.now += 1000.0
        logs.update(self.last)

    def get_state(self):
        return {"scores": list(self.scores), "complete_epochs": self.complete_epochs, "last": dict(self.last)}

    def set_state(self, state):
        self.scores, self.complete_epochs = list(state["scores"]), state["complete_epochs"]
        self.last = dict(state["last"])
