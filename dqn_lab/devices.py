"""Devices: what the run computes on, chosen before TensorFlow's first operation."""

import contextlib
import importlib
import importlib.util
import os
import subprocess
import sys
import warnings
from dataclasses import dataclass

from dqn_lab.arguments import require_choice

DEVICES = ("auto", "cpu", "gpu")


@dataclass(frozen=True)
class DeviceChoice:
    """What the run computes on.

    Args:
        name: "cpu" or "gpu".
        reason: why, and what would help if a GPU lies idle; one line.
    """

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name} ({self.reason})"


def import_tensorflow(verbose: bool) -> None:
    """Imports TensorFlow without what it writes of its own accord, unless that is asked for."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    if verbose:
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if "tensorflow" in sys.modules:
        return
    # Some of its lines come before that level is read, and not through Python's streams.
    with open(os.devnull, "wb") as nowhere:
        sys.stderr.flush()
        stderr = os.dup(2)
        os.dup2(nowhere.fileno(), 2)
        try:
            importlib.import_module("tensorflow")
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def select_device(device: str = "auto") -> DeviceChoice:
    """Chooses the device and sets TensorFlow up for it, before anything else uses TensorFlow.

    On a GPU TensorFlow takes memory as it needs it (memory growth) instead of all at the start, so
    that other programs can work beside it. Under "cpu" the GPUs are hidden from TensorFlow.

    Args:
        device: "auto" takes a GPU that TensorFlow can use, else the CPU; "cpu"; "gpu".

    Raises:
        ValueError: `device` is unknown, or is "gpu" and TensorFlow can use none; the text says why
            and what helps.

    Warns:
        RuntimeWarning: TensorFlow was in use already, so its settings can't be changed any more.
    """
    require_choice("device", device, DEVICES)
    if device == "cpu":
        _hide_gpus()
        _share_cores()
        return DeviceChoice("cpu", "as asked")
    gpus = _visible_gpus()
    if gpus:
        _set_memory_growth(gpus)
        return DeviceChoice("gpu", ", ".join(_gpu_name(gpu) for gpu in gpus))
    reason = _why_no_gpu()
    if device == "gpu":
        raise ValueError(
            f"`device` may be gpu only where TensorFlow can use one: {reason}. Received: device={device!r}"
        )
    _share_cores()
    return DeviceChoice("cpu", reason)


def usable_cores() -> int:
    """Returns the number of CPU cores this process may use, which can be fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _share_cores() -> None:
    """On two cores runs operations side by side with a thread each, unless the program has set threads itself.

    An update has two operations to do at nearly any time (online and target network; the gradients of a layer's
    weights and of its input). Side by side they wait for nothing; shared out over both cores each one's second half
    is waited for. Measured on Breakout in float32: 2 to 13% less time per update.
    """
    import tensorflow as tf

    threading = tf.config.threading
    given = threading.get_intra_op_parallelism_threads() or threading.get_inter_op_parallelism_threads()
    if given or usable_cores() != 2:
        return
    with contextlib.suppress(RuntimeError):  # TensorFlow is in use already
        threading.set_intra_op_parallelism_threads(1)
        threading.set_inter_op_parallelism_threads(2)


def _visible_gpus() -> list:
    import tensorflow as tf

    return tf.config.get_visible_devices("GPU")  # without those that the program has hidden


def _gpu_name(gpu) -> str:
    import tensorflow as tf

    return tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name)


def _hide_gpus() -> None:
    import tensorflow as tf

    try:
        tf.config.set_visible_devices([], "GPU")
    except RuntimeError as error:
        _warn_too_late("GPUs stay visible", error)


def _set_memory_growth(gpus: list) -> None:
    import tensorflow as tf

    errors = []
    for gpu in gpus:
        try:
            tf.config.experimental.set_memory_growth(gpu, True)
        except RuntimeError as error:
            errors.append(error)
    if errors:
        _warn_too_late("GPU memory growth stays as it is", errors[0])


def _warn_too_late(consequence: str, error: RuntimeError) -> None:
    warnings.warn(
        f"{consequence}, because TensorFlow is in use already: {error}",
        RuntimeWarning,
        stacklevel=4,
    )


def _why_no_gpu() -> str:
    """Says in one line why TensorFlow shows no GPU, and what helps where the machine has one."""
    import tensorflow as tf

    if tf.config.list_physical_devices("GPU"):
        return "the program has hidden its GPUs from TensorFlow"
    name = _nvidia_gpu()
    if name is None:
        return "no GPU found"
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return f"{name} is hidden: unset CUDA_VISIBLE_DEVICES to use it"
    if sys.platform == "win32":
        return f"{name} is unusable: TensorFlow has no GPU support on Windows, run inside WSL2"
    if importlib.util.find_spec("nvidia") is None:
        return f"{name} is unusable: the plain tensorflow wheel has no CUDA libraries, run pip install 'dqn_lab[gpu]'"
    return (
        f"{name} is unusable: TensorFlow could not open it with the CUDA libraries installed, "
        "update the NVIDIA driver and run pip install --upgrade 'dqn_lab[gpu]'"
    )


def _nvidia_gpu() -> str | None:
    """Returns the name of this machine's first NVIDIA GPU, whether TensorFlow sees it or not."""
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return next(iter(answer.stdout.splitlines()), None)
