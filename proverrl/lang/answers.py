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

from proverrl.lang.parts import Answering
from proverrl.types import ANSWER, Candidate, Problem, Verdict
from proverrl.verifier.body_place import refuse_opening

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
    """What is verified of a candidate; the verdict of one that gives no answer. Raises
    ``ProblemError`` as ``Answering.put``."""
    found = _ANSWER.match(candidate.body)
    if found is None:
        message = "answer: begin with 'answer' and a number, true or false, then a proof of it"
        return refuse_opening(candidate, "answer", message)
    return answering.put(candidate, found[1], found.end())
