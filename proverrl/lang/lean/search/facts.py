"""Facts that failed Lean bodies hold: what may be a lemma for the next body.

Flows in: refused bodies; a problem. Flows out: facts, which are the ``have`` tactics of the
theorem's own block; which of them a verdict leaves standing; problems in which they stand before
the hole; what one says, or that it does not hold, as a theorem. What a fact says of names that only
its own body introduced fails before another body, and so does not stand. Not handled here: lemmas
before the theorem (they are made into ``have`` where an answer is read), terms.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from proverrl.lang.lean.search.blocks import find_blocks, find_tactics
from proverrl.lang.lean.search.extract import mentions
from proverrl.lang.lean.search.states import is_unsolved, offset_in
from proverrl.lang.lean.syntax.declarations import find_mark, read_theorem
from proverrl.lang.lean.syntax.tokens import scan_code, shift_line
from proverrl.types import HOLE, Candidate, Problem, Status, Verdict
from proverrl.verifier.body_place import hole_column

kinds = frozenset({"tactics"})
"""Kinds of problems that have facts."""

ALONE = "_alone"
"""Ends the name of a theorem that stands for a fact."""

_BODY_COLUMN = 2


def list_facts(problem: Problem, verdicts: Mapping[str, Verdict]) -> dict[str, int]:
    """The facts of bodies that Lean read and refused, each with the number of bodies that it stands
    in, in the order in which they were written first."""
    found: Counter[str] = Counter()
    for body, verdict in verdicts.items():
        if verdict.status is Status.REJECTED and "messages" in verdict.checks:
            tactics = find_tactics(problem, body, find_blocks(problem, body)[0])
            found.update(dict.fromkeys((text for text in tactics if _read(text) is not None), 1))
    return dict(found)


def put_together(problem: Problem, facts: Sequence[str], body: str = "") -> str:
    """A body that begins with facts."""
    return f"\n{' ' * hole_column(problem)}".join([*facts, *([body] if body else [])])


def find_standing(candidate: Candidate, verdict: Verdict, facts: Sequence[str]) -> list[str]:
    """The facts in which nothing fails, of a body that ``put_together`` made of them; none when the
    verdict does not tell."""
    if verdict.proved:
        return list(facts)
    if verdict.status is not Status.REJECTED or "messages" not in verdict.checks:
        return []
    errors = [one for one in verdict.diagnostics if one.severity == "error"]
    places = [offset_in(candidate.body, one) for one in errors if one.body_line is not None]
    if any(one.body_line is None and not is_unsolved(one) for one in errors):
        return []
    standing, start = [], 0
    for fact in facts:
        if not any(start <= place <= start + len(fact) for place in places):
            standing.append(fact)
        start += len(fact) + 1 + hole_column(candidate.problem)
    return standing


def show(problem: Problem, facts: Sequence[str]) -> Problem:
    """The problem with facts before its hole."""
    statement = problem.statement.replace(HOLE, put_together(problem, facts, HOLE))
    return replace(problem, id=f"{problem.id}+{len(facts)}", statement=statement)


def negate(problem: Problem, fact: str, *, says_not: bool = True) -> Problem | None:
    """That a fact does not hold (or, without ``says_not``, that it does) for all that the problem
    speaks of, as a theorem in the place of the problem's; the negation is closed (DeepSeek-Prover,
    Xin et al. 2024, arXiv 2405.14333)."""
    said = _read(fact)
    if said is None:
        return None
    parts, (binders, claim) = read_theorem(problem), said
    claim = f"∀ {binders}, {claim}" if binders else claim
    name = f"{parts.name.rpartition('.')[2]}{ALONE}"
    head = f"theorem {name} {parts.binders} : {claim}"
    if says_not:
        claim = f"∀ {parts.binders}, {claim}" if parts.binders else claim
        head = f"theorem {name} : ¬ ({claim})"
    after = parts.ending.partition(HOLE)[2]
    return replace(
        problem,
        id=problem.id + (".not" if says_not else ".alone"),
        statement=f"{parts.before}{head} := by\n{' ' * _BODY_COLUMN}{HOLE}{after}",
    )


def prove_alone(problem: Problem, fact: str, body: str) -> str:
    """A fact with the proof that was found for it alone in place of its own."""
    mark = find_mark(fact, ":=")
    assert mark is not None  # ``negate`` was given it
    column = hole_column(problem)
    first, *rest = body.strip().split("\n")
    lines = [" " * (column + 2) + first, *(shift_line(line, column) for line in rest)]
    return "\n".join([f"{fact[: mark.end]} by", *lines])


def calls_itself(problem: Problem, body: str) -> bool:
    """Whether a proof of a fact alone names the theorem that it was, which a body cannot do."""
    name = f"{read_theorem(problem).name.rpartition('.')[2]}{ALONE}"
    return bool(mentions(body, [name]))


def _read(tactic: str) -> tuple[str, str] | None:
    """Binders and statement of a ``have``; None for other tactics."""
    if re.match(r"have\b", tactic) is None:
        return None
    colon, value = find_mark(tactic, ":"), find_mark(tactic, ":=")
    if colon is None or value is None or colon.offset > value.offset:
        return None
    named = scan_code(tactic[: colon.offset])[1:]
    if named and named[0].kind != "word":
        return None
    binders = tactic[named[0].end : colon.offset].strip() if named else ""
    return binders, tactic[colon.end : value.offset].strip()
