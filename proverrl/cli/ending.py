"""The end of one of several processes; ``proverrl.parallel.close_world`` leaves their group."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable


def run_to_the_end(run: Callable[[], None]) -> None:
    """Call ``run``, whose exit status is 0 or that of its ``SystemExit``.

    One of several processes ends without taking the interpreter down. Gloo's threads let go of a
    message's tensors some time after it is through, and need the interpreter for it; while the
    interpreter goes down, that kills the process by SIGABRT with all its work done ("terminate
    called without an active exception"). torch has no call to wait for these threads; they run as
    long as their group, and DTensor's caches keep that alive.
    """
    status = 1

    def end() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        # Registered before any heavy import, it runs after the handlers of all others; Python's
        # own threads have been joined and an exception that nobody caught has been printed.
        atexit.register(end)
    try:
        run()
        status = 0
    except SystemExit as request:
        status = request.code if isinstance(request.code, int) else int(request.code is not None)
        raise
