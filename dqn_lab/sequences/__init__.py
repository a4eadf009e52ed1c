"""Sequences: simulation, replay and minibatches behind one `keras.utils.PyDataset`."""
