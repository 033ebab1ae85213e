"""Which worker drives which Dafny.

Flows in: a toolchain. Flows out: a started worker. Not handled here: finding Dafny
(``proverrl.verify.toolchain``).
"""

from __future__ import annotations

from proverrl.verify.base import Limits, Worker
from proverrl.verify.dafny import DafnyServerWorker
from proverrl.verify.dafny4 import Dafny4Worker
from proverrl.verify.dafny_cli import DafnyCliWorker
from proverrl.verify.dafny_known import KnownProblems
from proverrl.verify.toolchain import DafnyToolchain


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
