"""Two processes, of which the second ends when threads of gloo have just got messages.

``python -m tests.ending_worker`` runs in each of the processes that the environment names. The
second says ``ready`` as the last thing before its interpreter goes down, and then keeps the
interpreter to itself until the messages are there and gloo's threads ask for it. The first sends
them when its standard input is closed.
"""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any

from proverrl.cli.main import run_to_the_end

SPINS = 10_000_000
"""Some tenths of a second, in which gloo's threads get from a message to their next step."""


def main() -> None:
    """Open a group of processes; the second ends with status 3."""
    seen: list[Any] = []

    def wait_alone() -> None:
        if not seen:
            return
        sys.setswitchinterval(1e6)
        os.write(1, b"ready\n")
        while not all(array[0] for array in seen):
            pass
        for _ in range(SPINS):
            pass

    # Handlers run in reverse order; those of torch let other threads have the interpreter.
    atexit.register(wait_alone)
    import torch

    from proverrl.parallel import open_world

    world = open_world()
    # One for each of the two threads that a group has.
    messages = [torch.zeros(1) for _ in range(2)]
    if world.leads:
        sys.stdin.read()
        for message in messages:
            message += 1
            torch.distributed.broadcast(message, src=0)
        return
    for message in messages:
        # An array is read without letting another thread have the interpreter.
        seen.append(message.numpy())
        torch.distributed.broadcast(message, src=0, async_op=True)
    sys.exit(3)


if __name__ == "__main__":
    run_to_the_end(main)
