"""Networks, as plain Keras functional models."""
