"""What every process does first that an asynchronous run begins."""

import functools
import multiprocessing
import os
import signal
import threading
import traceback
from multiprocessing import connection

from dqn_lab.devices import import_tensorflow


def start_child(process) -> None:
    """Starts a spawned process that no Ctrl-C and no SIGTERM reaches before `prepare_child` has it ignore them.

    Args:
        process: of a context's `Process`, not started yet.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        process.start()
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        process.start()  # it inherits the mask
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def prepare_child() -> None:
    """One thread to compute with, no GPU, and an end of its own: by its parent's word, or by its parent's death.

    Ctrl-C and SIGTERM may reach the whole group of processes; the parent alone says then what is to be done. To be
    called before TensorFlow has computed anything.
    """
    for name in ("SIGINT", "SIGTERM", "SIGBREAK"):  # the last one on Windows only
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), functools.partial(_leave_to_parent, os.getpid()))
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    import_tensorflow(verbose=False)
    import cv2
    import tensorflow as tf

    cv2.setNumThreads(1)
    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def describe_end(process, seconds: float) -> str:
    """How a process ended, for which it has some seconds."""
    process.join(seconds)
    code = process.exitcode
    if code is None:
        return "its process can't be heard any more"
    return f"its process ended by {f'signal {-code}' if code < 0 else f'exit code {code}'}"


def in_a_line(error: BaseException) -> str:
    """An exception's type and text."""
    return " ".join("".join(traceback.format_exception_only(error)).split())


def _leave_to_parent(own: int, number: int, frame) -> None:
    """Not SIG_IGN, which processes that an environment begins would inherit: they must end when they are told to."""
    if os.getpid() != own:  # forked off this one
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)


def _end_with_parent() -> None:
    connection.wait([multiprocessing.parent_process().sentinel])
    os._exit(1)  # whatever it is doing: nobody is left to tell
