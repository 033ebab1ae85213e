"""A real process that sleeps, answers, crashes or hangs as it is told; for measurements.

Flows in: candidates whose body says what to do. Flows out: PROVED with the problem's id among
the checks, so that an answer to another question shows. Not handled here: proving anything.
"""

from __future__ import annotations

import secrets
import sys

from proverrl.errors import WorkerError
from proverrl.types import Candidate, Status, Verdict
from proverrl.verify.process_group import GroupWorker, ProcessGroup

_SCRIPT = """
import sys, time
for line in sys.stdin:
    nonce, word, seconds, name = line.split()
    time.sleep(float(seconds))
    if word == "crash":
        sys.exit(3)
    if word == "hang":
        time.sleep(3600)
    print(nonce, name, flush=True)
"""


class EchoWorker(GroupWorker):
    """The body is a word (``answer``, ``crash``, ``hang``) and the seconds before it."""

    @classmethod
    async def start(cls) -> EchoWorker:
        """Start a process and wait for its first answer."""
        worker = cls(await ProcessGroup.start((sys.executable, "-I", "-S", "-c", _SCRIPT)))
        await worker._ask("answer 0", "start")
        return worker

    async def judge(self, candidate: Candidate) -> Verdict:
        name = await self._ask(candidate.body, candidate.problem.id)
        return Verdict(Status.PROVED, checks=(name,))

    async def _ask(self, words: str, name: str) -> str:
        nonce = secrets.token_hex(8)
        try:
            await self._group.write(f"{nonce} {words} {name}\n".encode())
        except OSError as error:
            raise await self._group.explain_end("the process is gone") from error
        said = b""
        while not said.endswith(b"\n"):
            chunk = await self._group.read()
            if not chunk:
                raise await self._group.explain_end("the process died")
            said += chunk
        found, answer = said.decode().split()
        if found != nonce:
            raise WorkerError("the answer belongs to another question")
        return answer
