"""Settings that hold for every test."""

import os
import sys

# Before TensorFlow is imported: its own start-up lines would hide what a failing test printed.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from hypothesis import settings

# The same examples on every machine and no deadline: a slow runner must not fail a right answer.
settings.register_profile("steady", deadline=None, derandomize=True, max_examples=50, database=None)
settings.load_profile("steady")


def pytest_configure(config):
    # Keras copies variables with `np.array(variable)` whenever weights are read or saved. NumPy 2.4
    # warns of that, and only a newer TensorFlow can change it.
    config.addinivalue_line(
        "filterwarnings",
        "ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning",
    )


def pytest_collection_modifyitems(config, items):
    """Leaves out what the system has no means for, instead of skipping it."""
    missing = {"win32": ("posix", "linux"), "darwin": ("affinity", "linux")}.get(sys.platform, ())
    left_out = [item for item in items if any(map(item.get_closest_marker, missing))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
