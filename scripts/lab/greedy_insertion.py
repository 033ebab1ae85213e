"""The greedy search of dafny-annotator, as a search of one's own (docs/plugins.md).

With the repository on PYTHONPATH: search.name = "scripts.lab.greedy_insertion:GreedyInsertion", for
problems of the kind ``annotate``. Source: Poesia et al. 2024, arXiv 2411.15143. In each step the
policy writes ``search.width`` answers (0: two, as there). The first hint of each that is not kept
yet is tried at every line of the last declaration with a body, an invariant or a measure at every
loop of it. The first program that is proved is the end; else the first in which nothing but
postconditions fails is kept, and else nothing. At most 100 programs are judged in a step.

One thing differs: there a model is asked for one annotation of the whole program, here it continues
the program behind the hints that are kept, as policies of ours write.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import ClassVar

from proverrl.config.search import SearchConfig
from proverrl.lang.dafny.audit.annotated import get_program_text
from proverrl.lang.dafny.known_bugs.misjudged import list_elements
from proverrl.lang.dafny.search.annotated import begin, list_hints, put_together
from proverrl.lang.dafny.search.guesses import name_place
from proverrl.lang.dafny.syntax.program import read_text
from proverrl.lang.records import Prefix
from proverrl.search.base import Functions, Job, JudgedProposal, Proposal
from proverrl.search.metering import MeteredFunctions
from proverrl.search.strategy import BestOfN, Expansion
from proverrl.types import Problem, Verdict

MOST = 100
CLAUSES = ("invariant ", "decreases ")


def list_places(problem: Problem, hint: str) -> Iterator[str]:
    """Where a hint may stand in the last declaration with a body."""
    program = read_text(get_program_text(problem), admitted=True, trusts=True)
    bodies = [
        (element, slot)
        for element in list_elements(program.root)
        for slot in element.slots
        if slot.kind == "statements" and any(s.kind == "member-clauses" for s in element.slots)
    ]
    if not bodies:
        return
    member, body = bodies[-1]
    if hint.startswith(CLAUSES):
        for element in list_elements(member):
            for slot in element.slots:
                if slot.kind == "loop-clauses":
                    yield name_place(program.tokens[slot.end])
        return
    tokens = program.tokens[body.start - 1 : body.end + 1]
    for before, token in pairwise(tokens):
        if token.line > before.line:
            yield name_place(token)


def fails_at_goals(verdict: Verdict) -> bool:
    """True if a program is read, and only postconditions of it are not proved."""
    said = [d.message.lower() for d in verdict.diagnostics if d.severity == "error"]
    return bool(verdict.obligations and said) and all("postcondition" in text for text in said)


class GreedyInsertion(BestOfN):
    """See the module; ``kept`` are the hints so far."""

    WIDTH: ClassVar[int] = 2

    def __init__(self, config: SearchConfig, functions: Functions) -> None:
        super().__init__(config, functions)
        self.kept: list[str] = []

    async def expand(self, job: Job, functions: MeteredFunctions) -> Expansion:
        """One step."""
        problem = functions.problem
        opening = Prefix(begin(problem, self.kept), "")
        tried: dict[str, list[str]] = {}
        for written in await functions.propose(opening, job.num, job.seed):
            known = set(self.kept)
            hints = [h.text for h in list_hints(problem, written.proposal.body)]
            new = next((hint for hint in hints if hint not in known), None)
            if new is None:
                continue
            text = new.partition(" ")[2]
            for place in list_places(problem, text):
                facts = [*self.kept, f"{place} {text}"]
                tried.setdefault(put_together(problem, facts), facts)
        judged: list[JudgedProposal] = []
        for body in list(tried)[:MOST]:
            own = functions.count(Proposal(body, num_tokens=0, logprob=0.0))
            found = await functions.judge([own])
            judged += found
            if not found or found[0].verdict.proved:
                return Expansion(tuple(judged))
        good = next((one.proposal.body for one in judged if fails_at_goals(one.verdict)), None)
        if good is not None:
            self.kept = tried[good]
        return Expansion(tuple(judged))
