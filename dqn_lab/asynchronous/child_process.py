"""What every process does first that an asynchronous run begins."""

import multiprocessing
import os
import signal
import threading
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
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    import_tensorflow(verbose=False)
    import cv2
    import tensorflow as tf

    cv2.setNumThreads(1)
    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def _end_with_parent() -> None:
    connection.wait([multiprocessing.parent_process().sentinel])
    os._exit(1)  # whatever it is doing: nobody is left to tell
