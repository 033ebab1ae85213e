"""The server of ``python -m scripts.bench serve``, in a process of its own, over stand-in workers.

Flows in: what a worker is (``sleep``, with the seconds of each candidate, or ``echo``, a real
process that candidates can crash) and how many. Flows out: the port, as a line, and at the end the
mean seconds that a worker took to start. Run as
``python -m scripts.bench.serve_side sleep|echo SECONDS WORKERS``; ends with its standard input.
"""

from __future__ import annotations

import asyncio
import sys
import time

import uvicorn

from proverrl.lang.base import BackendOptions
from proverrl.serve.app import make_app
from proverrl.serve.kimina import make_kimina_routes
from proverrl.serve.run import configure, listen
from proverrl.serve.settings import ServeSettings
from proverrl.verifier.base import Limits, Worker
from proverrl.verifier.cache import CachedVerifier
from proverrl.verifier.pool import Upkeep, VerifierPool
from proverrl.verifier.remote_server import LanguageAbout
from scripts.bench.faults import EchoWorker
from scripts.bench.pool import SleepingWorker


async def serve(kind: str, seconds: float, workers: int) -> None:
    """Answer until standard input ends."""

    starts: list[float] = []

    async def spawn() -> Worker:
        began = time.perf_counter()
        worker = SleepingWorker(seconds) if kind == "sleep" else await EchoWorker.start()
        starts.append(time.perf_counter() - began)
        return worker

    pool = VerifierPool(
        spawn,
        workers=workers,
        audit=lambda _: None,
        toolchain="bench",
        languages=frozenset({"lean"}),
        upkeep=Upkeep(max_candidates=10**9),
    )
    settings = ServeSettings(BackendOptions(workers=workers, limits=Limits()), port=0)
    about = {"lean": LanguageAbout("bench", "bench", settings.options.limits.rlimit, False)}
    verifier = CachedVerifier(pool, None, identify=lambda _: "bench")
    config = configure(make_app(settings, verifier, about, make_kimina_routes), settings)
    bound = listen(config)
    print(bound.getsockname()[1], flush=True)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    await asyncio.to_thread(sys.stdin.read)
    server.should_exit = True
    await serving
    print(sum(starts) / len(starts), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], float(sys.argv[2]), int(sys.argv[3])))
