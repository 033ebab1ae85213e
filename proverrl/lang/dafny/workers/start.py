"""Which worker drives which Dafny.

Flows in: a toolchain. Flows out: a started worker. Not handled here: finding Dafny
(``proverrl.lang.dafny.workers.toolchain``).
"""

from __future__ import annotations

from proverrl.lang.dafny.known import KnownProblems
from proverrl.lang.dafny.workers.command_line import DafnyCliWorker
from proverrl.lang.dafny.workers.dafny4 import Dafny4Worker
from proverrl.lang.dafny.workers.server import DafnyServerWorker
from proverrl.lang.dafny.workers.toolchain import DafnyToolchain
from proverrl.verify.base import Limits, Worker


async def start_dafny_worker(
    toolchain: DafnyToolchain, limits: Limits, expected: KnownProblems
) -> Worker:
    """Start the worker of this toolchain and see that it tells true from false.

    Raises ``ToolchainError`` when it does not, ``WorkerError`` when it dies meanwhile.
    """
    if toolchain.backend == "dafny-4":
        return await Dafny4Worker.start(toolchain, limits, expected)
    if toolchain.backend == "dafny-cli":
        return await DafnyCliWorker.start(toolchain, limits, expected)
    return await DafnyServerWorker.start(toolchain, limits, expected)
