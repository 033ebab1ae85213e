"""Lean run once for each text: slow, and the reference for all that is faster.

Flows in: texts. Flows out: what Lean said of each. A text is compiled by a process of its own, and
a question about it goes to another one that imports the compiled file. Nothing of the question
existed while the text was elaborated, and nothing of the text runs while it is answered but what it
declared. Covered: an answer cut short, a process that dies without a word, output that is no
message. Not covered: what the compiled file holds that the kernel never saw (``replay``).
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter

from proverrl.errors import WorkerError
from proverrl.lang.lean.verify.replay import ReplayOutcome, replay
from proverrl.lang.lean.verify.workers.messages import (
    Elaboration,
    Environment,
    LeanMessage,
    is_nonce,
    join_header,
    make_nonce,
    strip_end,
)
from proverrl.lang.lean.verify.workers.session import LEAN_OPTIONS, GoalsAt, LeanSession
from proverrl.lang.lean.verify.workers.toolchain import LeanToolchain
from proverrl.verifier.process_group import LAST_WORDS, ProcessGroup, find_cause, make_folder

_MAX_OUTPUT_BYTES = 256 * 2**20
_DONE = (0, 1)
_CANDIDATE, _QUESTION = "Candidate", "Question"
_SEVERITIES = {"information": "info", "trace": "info"}
_MESSAGE: TypeAdapter[LeanMessage] = TypeAdapter(LeanMessage)


class LeanFile(LeanSession):
    """The processes of one text and of the questions about it, and their folders."""

    def __init__(self, toolchain: LeanToolchain) -> None:
        self._toolchain = toolchain
        self._groups: list[ProcessGroup] = []

    @property
    def groups(self) -> list[ProcessGroup]:
        return self._groups

    async def load_header(self, header: str, options: str) -> Elaboration:
        before, begin = join_header(header, options), make_nonce()
        text = f'{before}#print "{begin}"\n'
        done = strip_end(await self._run(text, len(header)), begin, before.count("\n") + 1)
        if done.reached_end and not done.errors and done.env is not None:
            # The next text is compiled with it, and not as an import.
            return replace(done, env=replace(done.env, module=""))
        return replace(done, env=None)

    async def run(
        self, text: str, env: Environment, *, num_shared: int = 0, goals_at: GoalsAt = ""
    ) -> Elaboration:
        end = make_nonce()
        if env.module:
            head = f'import {env.module}\n#print "{make_nonce()}"\n'
        else:
            await self._forget()
            head = env.text
        begin = head[head.rindex('"', 0, -2) + 1 : -2]
        whole = f'{head}{text}\n#print "{end}"\n'
        done = await self._run(whole, env.num_header)
        first_line = head.count("\n")
        before = [message for message in done.messages if message.start.line <= first_line]
        if not before or not is_nonce(before[-1], begin, first_line):
            raise WorkerError("Lean's answer does not start as the question did")
        here = replace(done, messages=done.messages[len(before) :]).down(-first_line)
        return strip_end(here, end, text.count("\n") + 2)

    async def replay(
        self,
        env: Environment,
        theorem: str | None,
        allowed_axioms: frozenset[str],
        challenge: bytes = b"",
    ) -> ReplayOutcome | None:
        with tempfile.TemporaryDirectory(prefix="proverrl-challenge-") as folder:
            # Written only now, into a folder that the candidate's text never knew.
            ours = Path(folder) / "Challenge.olean"
            ours.write_bytes(challenge)
            return await replay(
                self._find_compiled(env),
                self._toolchain.lean_command,
                dict(self._toolchain.environment),
                self._groups,
                theorem=theorem,
                challenge=ours if challenge else None,
                allowed_axioms=allowed_axioms,
            )

    def read_compiled(self, env: Environment) -> bytes:
        return self._find_compiled(env).read_bytes()

    def _find_compiled(self, env: Environment) -> Path:
        places = [group.folder / f"{env.module}.olean" for group in self._groups]
        (compiled,) = (place for place in places if place.is_file())
        return compiled

    async def _forget(self) -> None:
        self.kill()
        await self.join()
        self._groups.clear()

    async def _run(self, text: str, num_header: int) -> Elaboration:
        folder = make_folder()
        # Lean makes the module a part of the names that it gives to instances and private names,
        # so that a statement and a proof of it must be compiled under one name.
        module = _QUESTION if self._groups else _CANDIDATE
        (folder / f"{module}.lean").write_text(text, encoding="utf-8")
        files = ("-o", f"{module}.olean", f"{module}.lean")
        group = await ProcessGroup.start(
            (*self._toolchain.lean_command, "--json", *LEAN_OPTIONS, *files),
            folder,
            environment=self._toolchain.add_to_path(group.folder for group in self._groups),
        )
        self._groups.append(group)
        said = await group.read_all(_MAX_OUTPUT_BYTES, "Lean")
        code = await group.wait()
        messages = read_messages(said)
        failed = any(message.severity == "error" for message in messages)
        if code not in _DONE or (code == 1) != failed:
            tail = group.stderr_tail.strip()[-500:]
            raise WorkerError(f"Lean ended with {code}{LAST_WORDS}{tail}", find_cause(code))
        if not failed and not (folder / f"{module}.olean").is_file():
            raise WorkerError(f"Lean compiled nothing and said no error: {messages!r:.300}", "died")
        env = Environment(text, messages, num_header, "" if failed else module)
        return Elaboration(env, messages)


def read_messages(said: bytes) -> tuple[LeanMessage, ...]:
    """The messages that ``lean --json`` printed, in the order of their places, without silent ones
    that are no errors. Raises ``WorkerError`` for anything else in the output."""
    found = []
    for line in said.decode("utf-8", "replace").split("\n"):
        if not line.strip():
            continue
        try:
            raw = json.loads(line)
            raw["severity"] = _SEVERITIES.get(raw["severity"], raw["severity"])
            message = _MESSAGE.validate_python(raw)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise WorkerError(f"Lean printed what is no message ({error}): {line:.200}") from None
        if not (raw.get("isSilent") and message.severity == "info"):
            found.append(message)
    return tuple(sorted(found, key=lambda message: message.start))
