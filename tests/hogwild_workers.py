"""Worker processes that share parameters: for the tests, and as a program that is killed while they learn."""

import multiprocessing
import os
import signal
import sys
from pathlib import Path

import numpy as np

from dqn_lab.asynchronous.shared_optimizers import MomentumSGD, SharedRMSProp
from dqn_lab.asynchronous.shared_parameters import SharedParameters

SPAWN = multiprocessing.get_context("spawn")


def run(target, shared, arguments) -> list:
    """Runs one worker per tuple of arguments, all at once, and returns what each sent."""
    barrier = SPAWN.Barrier(len(arguments))
    pipes = [SPAWN.Pipe(duplex=False) for _ in arguments]
    workers = [
        SPAWN.Process(target=target, args=(shared, barrier, sender, *given), daemon=True)
        for (_, sender), given in zip(pipes, arguments, strict=True)
    ]
    for worker in workers:
        worker.start()
    for _, sender in pipes:
        sender.close()  # so that a worker that fails is an EOFError here
    sent = [receiver.recv() for receiver, _ in pipes]
    for worker in workers:
        worker.join()
    for receiver, _ in pipes:
        receiver.close()
    return sent


def count(shared, barrier, sender, n, times):
    """Adds n steps again and again; sends the counts before."""
    barrier.wait()
    sender.send([shared.add_steps(n) for _ in range(times)])


def add_one(shared, barrier, sender, updates):
    """Adds exactly 1 to every parameter at each update."""
    optimizer = MomentumSGD(shared.parameters, np.zeros_like(shared.parameters), decay=0)
    gradient = np.full_like(shared.parameters, -1)
    barrier.wait()
    for _ in range(updates):
        optimizer.apply(gradient, 1)
        shared.add_steps(1)
    sender.send(None)


def storm(shared, barrier, sender, seed, updates):
    """Applies gradients of every size that float32 has to shared statistics; sends the largest parameter seen."""
    optimizer = SharedRMSProp(shared.parameters, shared.statistics)
    generator = np.random.default_rng(seed)
    size, largest = shared.parameters.size, 0.0
    barrier.wait()
    for _ in range(updates):
        gradient = generator.uniform(-3, 3, size) * 10 ** generator.uniform(-45, 38)
        optimizer.apply(gradient.astype(np.float32), 7e-4)
        shared.add_steps(5)
        largest = np.maximum(largest, np.abs(shared.parameters).max())  # keeps a NaN
    sender.send(float(largest))


def learn_while_the_parent_lives(shared, sender):
    optimizer = SharedRMSProp(shared.parameters, shared.statistics)
    while multiprocessing.parent_process().is_alive():
        optimizer.apply(np.ones_like(shared.parameters), 7e-4)
        shared.add_steps(5)
        if sender is not None:
            sender.send(os.getpid())
            sender = None


def named_files() -> list[str]:
    """Files of shared memory that this process maps and that have a name."""
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    return sorted({line.split()[-1] for line in lines if "/dev/shm/" in line and not line.endswith("(deleted)")})


def main():
    shared = SharedParameters(100_000, SPAWN)
    for _ in range(2):
        receiver, sender = SPAWN.Pipe(duplex=False)
        SPAWN.Process(target=learn_while_the_parent_lives, args=(shared, sender)).start()
        receiver.recv()
    print("named:", *named_files(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
