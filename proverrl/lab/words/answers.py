"""Bodies that answer a question and prove that the answer is right.

Flows in: a candidate of the kind ``answer``, whose problem says that something exists (the
existence form of NL-FL HybridReasoning, 2025, arXiv 2505.23703). Flows out: the candidate that is
audited and verified in its place: what is claimed of it, with the answer put in. An answer is a
number or a truth value as it is written, since ``answer f(x);`` would only repeat the question.
Without one there is a verdict, and nothing is verified.
Not handled here: how an answer is put in (``Answering.put``, a language's own).
"""

from __future__ import annotations

import re
from dataclasses import replace

from proverrl.benchmarks.open import Benchmark
from proverrl.lab.words.kinds import AskingKind
from proverrl.lab.words.parts import Answering, find_answering, refuse_opening
from proverrl.types import Candidate, Problem, Verdict

ANSWER = "answer"
"""The kind of a claim that something exists, which is asked for."""
_ANSWER = re.compile(r"\s*answer\s+(-?(?:0|[1-9][0-9]*)|true|false)(?![\w'?!.])[^\S\n]*;?")
EXPECTED = "answer"
"""The key of a problem's metadata that holds the answer of its reference; no prompt shows it."""
SHOWN = "shown"
"""The key of a problem's metadata that says to show its words alone."""
WORDS_ALONE = "words"


def read_given(problem: Problem, body: str) -> str:
    """The answer that a body gives; empty without one, and for a problem that asks for none."""
    found = _ANSWER.match(body) if problem.kind == ANSWER else None
    return found[1] if found else ""


def settle_answer(answering: Answering, candidate: Candidate) -> Candidate | Verdict:
    """The candidate to verify for an answer; the verdict of one that gives no answer. Raises
    ``ProblemError`` as ``Answering.put``."""
    found = _ANSWER.match(candidate.body)
    if found is None:
        message = "answer: begin with 'answer' and a number, true or false, then a proof of it"
        return refuse_opening(candidate, "answer", message)
    return answering.put(candidate, found[1], found.end())


class AnswerKind(AskingKind[Answering]):
    """The kind ``answer`` of one language."""

    asked = "questions"
    words = frozenset((ANSWER,))
    ask = (
        "Write the word answer, the number or truth value that is asked for and a semicolon, then "
        "proof statements that show that it is right,"
    )

    def find_part(self) -> Answering | None:
        """See ``AskingKind``."""
        return find_answering(self.language)

    def check(self, problem: Problem) -> None:
        """See ``Kind``."""
        self.part.check(problem)

    def settle(self, candidate: Candidate) -> Candidate | Verdict:
        """See ``Kind``."""
        return settle_answer(self.part, candidate)

    def show(self, problem: Problem) -> str:
        """All of it, or no claim where the words say it."""
        if problem.metadata.get(SHOWN) == WORDS_ALONE:
            return self.part.hide_claim(problem)
        return super().show(problem)


DAFNY = AnswerKind("dafny")
LEAN = AnswerKind("lean")


def show_parts(benchmark: Benchmark, show: str) -> Benchmark:
    """A benchmark whose questions show their ``words`` alone, or the ``formal`` claim alone; other
    problems are what they are."""

    def change(problem: Problem) -> Problem:
        if problem.kind != ANSWER:
            return problem
        if show == "formal":
            return replace(problem, informal="")
        return replace(problem, metadata={**problem.metadata, SHOWN: WORDS_ALONE})

    entries = (replace(entry, problem=change(entry.problem)) for entry in benchmark.entries)
    return replace(benchmark, entries=tuple(entries))
