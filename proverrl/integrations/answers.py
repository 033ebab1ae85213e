"""Scores the answers of a policy that another trainer trains.

Flows in: problems as JSON text, which is how they travel through a trainer's columns, and answers.
Flows out: rows for a trainer's dataset; rewards. The verifier runs on an event loop in a thread of
its own, so that it can be asked from any loop and any thread. A proof earns 1, anything else that
was judged 0, and what could not be judged has no reward.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proverrl.concurrency import LoopThread
from proverrl.config import LayoutName
from proverrl.errors import ProblemError, UsageError
from proverrl.files.strict_json import load_json
from proverrl.lang.open import open_verifier
from proverrl.problems.load import load_problems, make_row, read_problem
from proverrl.problems.prompt import (
    LAYOUTS,
    join_parts,
    render_messages,
    render_prompt,
    require_layout,
)
from proverrl.rollout.extract import extract
from proverrl.types import Candidate, Problem, Verdict
from proverrl.verifier.base import Verifier, verify_all

NO_ANSWER = "no answer"
"""Stands for a status where no candidate was found in an answer."""
MOST_CHARACTERS = 2**19
"""The longest answer: it is searched for code while others wait."""


@dataclass(frozen=True, slots=True)
class Score:
    """``reward`` is 1.0 or 0.0, and None where nothing was judged. ``status`` is the verdict's, or
    ``NO_ANSWER``; ``said`` is why there is none, the first error, or the cause."""

    reward: float | None
    status: str
    said: str = ""


def make_rows(path: str | Path, layout: LayoutName) -> list[dict[str, Any]]:
    """The problems of a file for a trainer's dataset: ``prompt``, a text or the messages of a
    conversation as the layout asks for, and ``problem``, which the reward reads. Raises
    ``ProblemError`` as ``load_problems``, or when the layout is for another language;
    ``UsageError`` for an unknown layout."""
    require_layout(layout)
    return [
        {"prompt": show_problem(problem, layout), "problem": json.dumps(make_row(problem))}
        for problem in load_problems(path)
    ]


def show_problem(problem: Problem, layout: LayoutName) -> str | list[dict[str, str]]:
    """The policy's input: messages where the layout answers with a code block, else a text."""
    if not LAYOUTS[layout].in_block:
        return render_prompt(problem, layout)
    messages = render_messages(problem, layout)
    return [{"role": message.role, "content": message.content} for message in messages]


def parse_problem(text: str | Mapping[str, Any]) -> Problem:
    """A problem from a trainer's column. Raises ``ProblemError`` naming what is wrong."""
    try:
        row = load_json(text, unique_keys=True) if isinstance(text, str) else text
    except (ValueError, RecursionError) as error:
        raise ProblemError(f"the column 'problem' is not JSON ({error}); use make_rows") from None
    if not isinstance(row, Mapping):
        raise ProblemError("the column 'problem' is not a JSON object; use make_rows")
    return read_problem("the column 'problem'", row)


def read_answer(answer: str | Sequence[Mapping[str, Any]] | None) -> str:
    """The text of a completion; empty for none. A conversational trainer gives messages, of which
    the policy's last one counts; its content is a text, or parts that are texts or may hold one.
    Raises ``UsageError`` for anything else."""
    if answer is None or isinstance(answer, str):
        return answer or ""
    try:
        own = [message for message in answer if message.get("role", "assistant") == "assistant"]
        return join_parts(own[-1].get("content") if own else None)
    except (AttributeError, TypeError) as error:
        raise UsageError(
            f"a completion is a text or a list of messages, not {str(answer)[:80]!r}"
        ) from error


def find_candidate(problem: Problem, answer: str, layout: LayoutName) -> Candidate | Score:
    """The candidate in an answer, or the score of an answer without one, or of one that is longer
    than ``MOST_CHARACTERS``."""
    if len(answer) > MOST_CHARACTERS:
        return Score(0.0, NO_ANSWER, f"longer than {MOST_CHARACTERS} characters")
    found = extract(problem, answer, layout)
    return found.candidate(problem) or Score(0.0, NO_ANSWER, found.reason)


def rate(verdict: Verdict) -> Score:
    """The score of a verdict."""
    errors = [d.message for d in verdict.diagnostics if d.severity == "error"]
    said = errors[0] if errors else verdict.cause
    if not verdict.status.judged:
        return Score(None, verdict.status.value, said)
    return Score(float(verdict.proved), verdict.status.value, said)


class ProofReward:
    """Rewards for answers, from verifiers here or from ``servers`` (``proverrl serve``): with
    several training processes use servers, else each process starts workers of its own.

    ``servers`` are their URLs, or one. ``deadline_seconds`` is wall time for one candidate; see
    ``open_verifier`` for the rest of ``options``. Nothing is started before the first answer.
    Raises ``ToolchainError`` then, when the language's verifier is missing.
    """

    def __init__(
        self,
        *,
        layout: LayoutName = "plain",
        servers: str | Sequence[str] = (),
        workers: int = 2,
        deadline_seconds: float = 60.0,
        **options: Any,
    ) -> None:
        require_layout(layout)
        self.layout: LayoutName = layout
        self._deadline_seconds = deadline_seconds
        self._open: Callable[[], Verifier] = lambda: open_verifier(
            workers=workers, servers=servers, needed=(), **options
        )
        self._verifier: Verifier | None = None
        self._loop = LoopThread(
            "verifiers stay with their process; make a ProofReward in each process, or use servers"
        )

    def score(self, problems: Sequence[str], answers: Sequence[Any]) -> list[Score]:
        """The scores, in order; from any thread that does not run an event loop."""
        return self._loop.submit(self._score(problems, answers)).result()

    async def ascore(self, problems: Sequence[str], answers: Sequence[Any]) -> list[Score]:
        """``score`` for a caller on an event loop."""
        return await asyncio.wrap_future(self._loop.submit(self._score(problems, answers)))

    def close(self) -> None:
        """End the workers; the next answer starts others. In a fork nothing is ended: they are
        those of the process that started them."""
        self._loop.close(self._close_verifier)

    async def _close_verifier(self) -> None:
        """End all work that is under way with an error."""
        verifier, self._verifier = self._verifier, None
        if verifier is not None:
            await verifier.aclose()

    async def _score(self, problems: Sequence[str], answers: Sequence[Any]) -> list[Score]:
        if self._verifier is None:
            self._verifier = self._open()
        found = [
            find_candidate(parse_problem(problem), read_answer(answer), self.layout)
            for problem, answer in zip(problems, answers, strict=True)
        ]
        asked = [one for one in found if isinstance(one, Candidate)]
        seconds = self._deadline_seconds
        verdicts = iter(await verify_all(self._verifier, asked, deadline_seconds=seconds))
        return [one if isinstance(one, Score) else rate(next(verdicts)) for one in found]
