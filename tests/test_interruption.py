"""Ctrl-C and SIGTERM, sent as real signals to real processes, which tell by lines how far they are."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from dqn_lab.interruption import Interruption

posix = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])

# The main thread sits in a call that gives Python no chance to run a handler, as in TensorFlow or in
# an environment that hangs: a read from a pipe through ctypes, which the signal does not end.
BUSY = """
import ctypes, os, sys
from dqn_lab import interruption as module
from dqn_lab.interruption import Interruption

module._ONE_REQUEST_SECONDS = float(sys.argv[1])
libc = ctypes.CDLL(None)
with Interruption(on_first=lambda: print("first", flush=True)) as interruption:
    print("ready", flush=True)
    inside, outside = os.pipe()
    while True:
        libc.read(inside, ctypes.create_string_buffer(1), 1)
"""

LOOP = """
import sys
from dqn_lab.interruption import EXIT_CODE, Interruption

with Interruption() as interruption:
    print("ready", flush=True)
    updates = 0
    while not interruption.requested:
        updates += 1
print("saved", flush=True)
sys.exit(EXIT_CODE)
"""


def start(code, one_request_seconds=0):
    return subprocess.Popen([sys.executable, "-c", code, str(one_request_seconds)], stdout=subprocess.PIPE, text=True)


@posix
@pytest.mark.posix
def test_the_first_signal_asks_and_the_program_ends_as_it_likes(number):
    with start(LOOP) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.stdout.read() == "saved\n"
        assert process.wait() == 130


@posix
@pytest.mark.posix
def test_the_second_signal_ends_a_process_whose_main_thread_is_busy(number):
    with start(BUSY) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.stdout.readline() == "first\n"  # said while the main thread is busy
        process.send_signal(number)
        assert process.wait() == 130
        assert process.stdout.read() == ""


@pytest.mark.posix
def test_a_sigterm_right_behind_a_signal_is_the_same_request():
    for first in (signal.SIGINT, signal.SIGTERM):
        with start(BUSY, one_request_seconds=3600) as process:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(first)
            assert process.stdout.readline() == "first\n"
            for _ in range(3):
                process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGINT)  # read behind these
            assert process.wait() == 130
            assert process.stdout.read() == ""


@pytest.mark.posix
def test_the_two_signals_may_be_different_ones():
    with start(BUSY) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "first\n"
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130


@pytest.mark.posix
def test_in_a_notebook_the_second_signal_interrupts_and_the_process_lives():
    said = threading.Event()
    with pytest.raises(KeyboardInterrupt):
        with Interruption(end_process=False, on_first=said.set) as interruption:
            signal.raise_signal(signal.SIGINT)
            assert said.wait(30)
            assert interruption.requested
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_handlers_wakeup_and_thread_are_as_before_afterwards():
    def mine(number, frame):
        raise AssertionError("not asked")

    before = signal.signal(signal.SIGTERM, mine)
    descriptors = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else None
    threads = threading.active_count()
    try:
        with Interruption() as interruption:
            assert signal.getsignal(signal.SIGTERM) is not mine
            assert threading.active_count() == threads + 1
        assert not interruption.requested
        assert signal.getsignal(signal.SIGTERM) is mine
        assert signal.set_wakeup_fd(-1) == -1
        assert threading.active_count() == threads
        if descriptors is not None:
            assert os.listdir("/proc/self/fd") == descriptors
    finally:
        signal.signal(signal.SIGTERM, before)


def test_the_wakeup_of_somebody_else_is_put_back():
    inside, outside = os.pipe()
    os.set_blocking(outside, False)
    before = signal.set_wakeup_fd(outside)
    try:
        with Interruption():
            assert signal.set_wakeup_fd(-1) not in (-1, outside)
        assert signal.set_wakeup_fd(-1) == outside
    finally:
        signal.set_wakeup_fd(before)
        os.close(inside)
        os.close(outside)


def test_outside_the_main_thread_it_does_nothing():
    requested = []

    def work():
        with Interruption() as interruption:
            requested.append(interruption.requested)

    handler = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert requested == [False]
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.posix
def test_another_signal_asks_for_nothing():
    seen = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    try:
        with Interruption() as interruption:
            signal.raise_signal(signal.SIGUSR1)
        assert seen == [signal.SIGUSR1]
        assert not interruption.requested
    finally:
        signal.signal(signal.SIGUSR1, before)
