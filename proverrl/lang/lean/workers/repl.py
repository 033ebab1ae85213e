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

import secrets
from dataclasses import dataclass, replace
from typing import TypeVar

from proverrl.errors import WorkerError
from proverrl.lang.lean.workers.protocol import (
    Answer,
    AnswerReader,
    CommandAnswer,
    ErrorAnswer,
    LeanMessage,
    Position,
    Sorry,
    StepAnswer,
    TacticStep,
    encode_command,
    encode_tactic,
    parse_answer,
)
from proverrl.lang.lean.workers.toolchain import LeanToolchain
from proverrl.verify.process_group import ProcessGroup

Said = TypeVar("Said", LeanMessage, Sorry, TacticStep)


@dataclass(frozen=True, slots=True)
class Elaboration:
    """What Lean said of one text. ``reached_end`` is False when it did not read all of it (an
    unclosed comment, ``#exit``). ``env`` is None when the imports failed too early for one."""

    env: int | None
    messages: tuple[LeanMessage, ...]
    sorries: tuple[Sorry, ...] = ()
    tactics: tuple[TacticStep, ...] = ()
    reached_end: bool = True

    @property
    def errors(self) -> tuple[LeanMessage, ...]:
        return tuple(m for m in self.messages if m.severity == "error")


class LeanRepl:
    """A started REPL. After any ``WorkerError`` it must be killed. It keeps every environment and
    every proof state for as long as it lives; the counters tell how many there are."""

    def __init__(self, group: ProcessGroup) -> None:
        self.group = group
        self._reader = AnswerReader()
        self._busy = False
        self.num_environments = 0
        self.num_proof_states = 0

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

    async def load_header(self, header: str, options: str) -> Elaboration:
        """Make a fresh environment by a text that may start with imports, and set options."""
        separator = "" if header.endswith("\n") or not header else "\n"
        text = f"{header}{separator}{options}"
        end, last_line = _make_nonce(), text.count("\n") + 1
        answer = await self._ask(encode_command(f'{text}#print "{end}"\n'))
        if isinstance(answer, ErrorAnswer):
            failed = LeanMessage("error", answer.message, Position(1, 0))
            return Elaboration(None, (failed,), reached_end=False)
        done = self._take_command(answer)
        return _strip_end(done, end, last_line)

    async def run(self, text: str, env: int, *, all_tactics: bool = False) -> Elaboration:
        """Run a text without imports in an environment; the positions count in ``text``."""
        begin, end = _make_nonce(), _make_nonce()
        lines = f'#print "{begin}"\n{text}\n#print "{end}"\n'
        answer = await self._ask(encode_command(lines, env, all_tactics=all_tactics))
        if isinstance(answer, ErrorAnswer):
            raise WorkerError(f"the Lean REPL refused a text: {answer.message[:300]!r}")
        done = self._take_command(answer)
        first = done.messages[:1]
        if not first or not _is_nonce(first[0], begin, 1):
            raise WorkerError("the Lean REPL's answer does not start as the question did")
        rest = replace(done, messages=done.messages[1:])
        return _shift_up(_strip_end(rest, end, text.count("\n") + 3))

    async def apply_tactic(self, proof_state: int, tactic: str) -> StepAnswer | ErrorAnswer:
        """Apply a tactic; an ``ErrorAnswer`` says why it could not even be run."""
        return self._take_step(await self._ask(encode_tactic(proof_state, tactic)))

    def _take_command(self, answer: Answer) -> Elaboration:
        if not isinstance(answer, CommandAnswer):
            raise WorkerError("the Lean REPL answered a text as if it were a tactic")
        if answer.env != self.num_environments:
            raise WorkerError(
                f"the Lean REPL answered with environment {answer.env}, "
                f"{self.num_environments} was due"
            )
        self.num_environments += 1
        states = [sorry.proof_state for sorry in answer.sorries]
        self._count_states(states + [step.proof_state for step in answer.tactics])
        return Elaboration(answer.env, answer.messages, answer.sorries, answer.tactics)

    def _take_step(self, answer: Answer) -> StepAnswer | ErrorAnswer:
        if isinstance(answer, ErrorAnswer):
            return answer
        if not isinstance(answer, StepAnswer):
            raise WorkerError("the Lean REPL answered a tactic as if it were a text")
        self._count_states([*(s.proof_state for s in answer.sorries), answer.proof_state])
        return answer

    def _count_states(self, states: list[int | None]) -> None:
        """States are numbered in the order in which an answer names them."""
        for state in states:
            if state is None:
                continue
            if state != self.num_proof_states:
                raise WorkerError(
                    f"the Lean REPL answered with proof state {state}, "
                    f"{self.num_proof_states} was due"
                )
            self.num_proof_states += 1

    async def _ask(self, request: bytes) -> Answer:
        if self._busy:
            raise WorkerError("this Lean REPL still owes an answer to an earlier question")
        self._busy = True
        try:
            await self.group.write(request)
        except OSError as error:
            raise await self.group.explain_end(
                f"the Lean REPL is gone: {error}; {self._last_words()}"
            ) from error
        while (text := self._reader.take()) is None:
            chunk = await self.group.read()
            if not chunk:
                raise await self.group.explain_end(f"the Lean REPL died; {self._last_words()}")
            self._reader.feed(chunk)
        self._busy = False
        return parse_answer(text)

    def _last_words(self) -> str:
        said = self.group.stderr_tail.strip()[-500:]
        return f"it said: {said}" if said else "it said nothing"


def _make_nonce() -> str:
    return f"nonce-{secrets.token_hex(12)}"


def _is_nonce(message: LeanMessage, nonce: str, line: int) -> bool:
    return (
        message.severity == "info" and message.text == nonce and message.start == Position(line, 0)
    )


def _strip_end(done: Elaboration, nonce: str, line: int) -> Elaboration:
    """Take off the message of the closing ``#print``, which may be missing but not misplaced."""
    places = [i for i, message in enumerate(done.messages) if message.text == nonce]
    if not places:
        return replace(done, reached_end=False)
    last = len(done.messages) - 1
    if places != [last] or not _is_nonce(done.messages[last], nonce, line):
        raise WorkerError("the Lean REPL's answer does not end as the question did")
    return replace(done, messages=done.messages[:last])


def _shift_up(done: Elaboration) -> Elaboration:
    """Undo the one line that the opening ``#print`` takes."""

    def shift(said: tuple[Said, ...]) -> tuple[Said, ...]:
        return tuple(
            replace(one, start=one.start and one.start.down(-1), end=one.end and one.end.down(-1))
            for one in said
        )

    return Elaboration(
        done.env, shift(done.messages), shift(done.sorries), shift(done.tactics), done.reached_end
    )
