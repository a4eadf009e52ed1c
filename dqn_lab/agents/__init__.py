"""Agents: Keras models that learn from a sequence's minibatches."""
