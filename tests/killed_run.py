"""`dqn-train`, killed by SIGKILL when it calls a function for the n-th time: a program for the tests of resumes.

python killed_run.py dqn_lab.callbacks.limits:Limits.on_train_batch_end 17 RUNDEF --run-dir DIR ...
"""

import functools
import importlib
import itertools
import os
import signal
import subprocess
import sys

from dqn_lab import cli


def begin(moment: str, number: int, words) -> subprocess.Popen:
    """Starts the program."""
    words = [sys.executable, __file__, moment, number, *words]
    return subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def kill_at(moment: str, number: int) -> None:
    """Puts the end of this process in place of a function's n-th call."""
    module, _, path = moment.partition(":")
    *owners, name = path.split(".")
    owner = functools.reduce(getattr, owners, importlib.import_module(module))
    function, calls = getattr(owner, name), itertools.count(1)

    def call(*args, **kwargs):
        if next(calls) == number:
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)

    setattr(owner, name, call)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    kill_at(sys.argv[1], int(sys.argv[2]))
    sys.exit(cli.train(sys.argv[3:]))
