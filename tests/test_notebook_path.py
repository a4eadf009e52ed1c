"""The path of a user in a notebook, cell by cell, on the real Breakout: own network, callbacks, stops, train step."""

import warnings

import pytest

CELLS = {
    "imports": """
import keras
import numpy as np
import tensorflow as tf
from dqn_lab import AtariSequence, DQN, LinearSchedule
""",
    "network": """
frames = keras.Input((84, 84, 4), dtype="uint8")
x = keras.layers.Rescaling(1 / 255)(frames)
x = keras.layers.Conv2D(8, 8, 8, activation="relu")(x)
x = keras.layers.Dense(16, activation="relu")(keras.layers.Flatten()(x))
my_keras_network = keras.Model(frames, keras.layers.Dense(4)(x))
""",
    "sequence": """
sequence = AtariSequence(
    "breakout",
    protocol="breakout-v0",
    num_envs=4,
    replay_capacity_steps=400,
    replay_min_steps=64,
    updates_per_epoch=6,
    batch_size=8,
    epsilon=LinearSchedule(1.0, 0.1, decay_steps=200),
    feeding=feeding,
)
agent = DQN(my_keras_network, double=True, target_period_updates=10)
agent.compile(optimizer=keras.optimizers.Adam(1e-3))
""",
    "look": """
batch = sequence[0]
values = agent.q_values(batch["state"]).numpy()
""",
    "fit": """
history = agent.fit(sequence, epochs=2)
""",
    "own callbacks": """
class Stop(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        seen.append(logs["loss"])
        if batch == 2:
            self.model.stop_training = True

seen = []
broken_off = agent.fit(sequence, epochs=5, callbacks=[Stop()], verbose=0)
""",
    "interrupt": """
class Interrupt(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 3:
            raise KeyboardInterrupt

agent.fit(sequence, epochs=5, callbacks=[Interrupt()], verbose=0)
""",
    "fit again": """
agent.fit(sequence, epochs=1, verbose=0)
early = keras.callbacks.EarlyStopping(monitor="loss", min_delta=1e9, patience=0)
stopped_early = agent.fit(sequence, epochs=5, callbacks=[early], verbose=0)
""",
    "own train_step": """
class Mine(DQN):
    def train_step(self, batch):
        with tf.GradientTape() as tape:
            error = self.temporal_differences(batch)
            loss = tf.reduce_mean(tf.abs(error))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"loss": loss}

mine = Mine(my_keras_network, target_period_updates=3)
mine.compile(optimizer="adam")
mine.fit(sequence, epochs=1, verbose=0)
""",
    "play": """
twin = sequence.create_validation_instance(epsilon=0.05, num_envs=2)
twin.policy = agent.q_values
for _ in range(5):
    twin.simulate_single()
sequence.policy = agent.q_values
sequence.simulate(8)
twin.close()
sequence.close()
""",
}


@pytest.mark.parametrize("feeding", ["alternate", "overlap"])
def test_every_cell_runs_and_the_counts_add_up(feeding, capsys):
    notebook = {"feeding": feeding}

    def run(*cells):
        for cell in cells:
            exec(compile(CELLS[cell], f"<{cell}>", "exec"), notebook)

    run("imports", "network", "sequence", "look")
    agent, sequence, batch = notebook["agent"], notebook["sequence"], notebook["batch"]
    ahead = 4 if feeding == "overlap" else 0  # steps made for the update after a stop
    assert sequence.steps == 64
    assert (batch["state"].shape, batch["state"].dtype) == ((8, 84, 84, 4), "uint8")
    assert notebook["values"].shape == (8, 4)

    run("fit")
    assert "6/6" in capsys.readouterr().out
    assert (agent.updates, sequence.steps) == (12, 64 + 12 * 4)
    assert notebook["history"].epoch == [0, 1]

    run("own callbacks")
    assert len(notebook["seen"]) == 3
    assert notebook["broken_off"].epoch == [0]
    assert (agent.updates, sequence.steps) == (15, 64 + 15 * 4 + ahead)

    with pytest.raises(KeyboardInterrupt):
        run("interrupt")
    assert (agent.updates, sequence.steps) == (19, 64 + 19 * 4 + ahead)

    run("fit again")
    assert notebook["stopped_early"].epoch == [0, 1]
    assert (agent.updates, sequence.steps) == (37, 64 + 37 * 4)

    run("own train_step")
    assert (notebook["mine"].updates, agent.updates) == (6, 37)
    assert sequence.steps == 64 + 43 * 4

    run("play")
    assert sequence.steps == 64 + 43 * 4 + 8
    assert capsys.readouterr().err == ""


def test_a_notebook_sees_no_warning_when_it_imports_the_public_names():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        namespace = {}
        exec(CELLS["imports"], namespace)
    assert namespace["DQN"].__module__ == "dqn_lab.agents.dqn"
