"""One Lean REPL process: questions go in, answers that provably belong to them come out.

Flows in: texts and tactics, one at a time. Flows out: what Lean said of each, with positions in
that text. Every text is sent between two ``#print`` commands, each with a fresh random string; the
answer must carry the first as its first message, the second as its last, both at their own places,
and the next number that the REPL has to give.
Covered: an answer that is late, forged, cut short, of any length or about something else; output
left over; a process that dies or floods stderr. Any of these is a ``WorkerError``, after which the
process must be killed. Not covered: code that reads the strings out of its own source and forges
the whole answer. The audit refuses code that runs while Lean elaborates, and the axioms of a proof
are asked with strings that did not exist while it ran.
"""

from __future__ import annotations

from dataclasses import replace

from proverrl.errors import WorkerError
from proverrl.lang.lean.workers.messages import (
    Elaboration,
    Environment,
    LeanMessage,
    Position,
    is_nonce,
    join_header,
    make_nonce,
    strip_end,
)
from proverrl.lang.lean.workers.protocol import (
    Answer,
    AnswerReader,
    CommandAnswer,
    ErrorAnswer,
    encode_command,
    parse_answer,
)
from proverrl.lang.lean.workers.session import GoalsAt, LeanSession
from proverrl.lang.lean.workers.toolchain import LeanToolchain
from proverrl.verifier.process_group import ProcessGroup

_MAX_ENVIRONMENTS = 2000
_MAX_HEADERS = 4


class LeanRepl(LeanSession):
    """A started REPL. After any ``WorkerError`` it must be killed. It keeps every environment for
    as long as it lives, so that it is spent after a number of them."""

    may_leak = True

    def __init__(self, group: ProcessGroup) -> None:
        self._group = group
        self._reader = AnswerReader()
        self._busy = False
        self.num_environments = 0
        self._num_headers = 0

    @classmethod
    async def start(
        cls, toolchain: LeanToolchain, *, memory_limit_mb: float | None = None
    ) -> LeanRepl:
        """Start the process; raises ``ToolchainError`` when the system cannot."""
        group = await ProcessGroup.start(
            toolchain.repl_command,
            environment=dict(toolchain.environment),
            memory_limit_mb=memory_limit_mb,
        )
        return cls(group)

    @property
    def is_spent(self) -> bool:
        return self.num_environments >= _MAX_ENVIRONMENTS or self._num_headers > _MAX_HEADERS

    @property
    def groups(self) -> tuple[ProcessGroup, ...]:
        return (self._group,)

    async def load_header(self, header: str, options: str) -> Elaboration:
        text = join_header(header, options)
        end, last_line = make_nonce(), text.count("\n") + 1
        answer = await self._ask(encode_command(f'{text}#print "{end}"\n'))
        self._num_headers += 1
        if isinstance(answer, ErrorAnswer):
            failed = LeanMessage("error", answer.message, Position(1, 0))
            return Elaboration(None, (failed,), reached_end=False)
        return strip_end(self._take(answer), end, last_line)

    async def run(
        self, text: str, env: Environment, *, num_shared: int = 0, goals_at: GoalsAt = ""
    ) -> Elaboration:
        assert isinstance(env, int)
        begin, end = make_nonce(), make_nonce()
        lines = f'#print "{begin}"\n{text}\n#print "{end}"\n'
        answer = await self._ask(encode_command(lines, env, all_tactics=bool(goals_at)))
        if isinstance(answer, ErrorAnswer):
            raise WorkerError(f"the Lean REPL refused a text: {answer.message[:300]!r}")
        done = self._take(answer)
        first = done.messages[:1]
        if not first or not is_nonce(first[0], begin, 1):
            raise WorkerError("the Lean REPL's answer does not start as the question did")
        rest = replace(done, messages=done.messages[1:])
        # The opening ``#print`` takes a line.
        return strip_end(rest, end, text.count("\n") + 3).down(-1)

    def _take(self, answer: CommandAnswer) -> Elaboration:
        if answer.env != self.num_environments:
            raise WorkerError(
                f"the Lean REPL answered with environment {answer.env}, "
                f"{self.num_environments} was due"
            )
        self.num_environments += 1
        return Elaboration(answer.env, answer.messages, answer.sorries, answer.tactics)

    async def _ask(self, request: bytes) -> Answer:
        if self._busy:
            raise WorkerError("this Lean REPL still owes an answer to an earlier question")
        self._busy = True
        try:
            await self._group.write(request)
        except OSError as error:
            said = self._group.stderr_tail.strip()[-500:]
            raise await self._group.explain_end(f"the Lean REPL is gone: {error}", said) from error
        while (text := self._reader.take()) is None:
            chunk = await self._group.read()
            if not chunk:
                raise await self._group.explain_end(
                    "the Lean REPL died", self._group.stderr_tail.strip()[-500:]
                )
            self._reader.feed(chunk)
        self._busy = False
        return parse_answer(text)
