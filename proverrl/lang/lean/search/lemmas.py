"""Lemmas of Lean proofs: named theorems before the theorem that uses them.

Flows in: text in the style of Seed-Prover (Chen et al. 2025, arXiv 2507.23726), lemmas first; a
pool (``proverrl.search.lemma_search``). Flows out: lemmas, their problems, their negations, and the
prelude of a candidate with the lemmas that it needs. A lemma's ``statement`` is its text up to its
``:=``, its ``body`` tactics for a hole in column 2. What a proof depends on is read from the names
in it, which may count a lemma too often and never too seldom.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from proverrl.errors import ProblemError
from proverrl.lang.lean.search.extract import mentions
from proverrl.lang.lean.syntax.declarations import find_declarations, find_mark, read_theorem
from proverrl.lang.lean.syntax.tokens import scan_code, shift_line
from proverrl.lang.records import Lemma
from proverrl.types import HOLE, Candidate, Problem

_KEYWORDS = frozenset({"theorem", "lemma"})
_HOLE_COLUMN = 2


def read_lemmas(prelude: str) -> list[Lemma]:
    """The theorems and lemmas of a prelude that have a ``:=``, as conjectures with their proofs;
    ``needs`` are those before it that a lemma names."""
    declared = find_declarations(prelude)
    ends = [*(d.start for d in declared[1:]), len(prelude)]
    found: list[Lemma] = []
    for declaration, end in zip(declared, ends, strict=True):
        text = prelude[declaration.offset : end].rstrip()
        value = find_mark(text, ":=")
        if declaration.keyword not in _KEYWORDS or not declaration.name or value is None:
            continue
        statement = text[: value.offset].rstrip()
        body = _read_proof(prelude[:end].rstrip(), declaration.offset + value.end)
        needs = find_used(f"{statement} {body}", [lemma.name for lemma in found])
        found.append(Lemma(declaration.name, statement, body=body, needs=needs))
    return found


def find_used(text: str, names: Collection[str]) -> tuple[str, ...]:
    """Those of the names that a text uses, alone or with something after a dot, in their order."""
    used = mentions(text, names)
    return tuple(name for name in names if name in used)


def lemma_problem(problem: Problem, statement: str) -> Problem:
    """A lemma as a problem with the preamble of the one that it is to serve. Raises
    ``ProblemError`` if the statement is not a theorem or a lemma with a name and a colon."""
    name, _, _ = _split(statement)
    return Problem(
        id=f"{problem.id}/{name}",
        language="lean",
        kind="tactics",
        preamble=problem.preamble,
        statement=f"{statement.strip()} := by\n  {HOLE}\n",
        split=problem.split,
        origin=problem.origin,
        metadata={"parent": problem.id, "lemma": name},
    )


def negate(statement: str) -> str:
    """``theorem NAME_negation : ¬ (∀ BINDERS, TARGET)`` (DeepSeek-Prover, Xin et al. 2024, arXiv
    2405.14333). Raises what ``lemma_problem`` raises."""
    name, binders, target = _split(statement)
    quantified = f"∀ {binders}, {target}" if binders else target
    return f"theorem {name}_negation : ¬ ({quantified})"


def write_prelude(lemmas: Iterable[Lemma]) -> str:
    """Proved lemmas as the text before a theorem, in the order given (``LemmaPool.closure``)."""
    return "".join(f"{one.statement} := by\n  {one.body}\n\n" for one in lemmas)


def prove_with(problem: Problem, body: str, lemmas: Sequence[Lemma]) -> Candidate:
    """A body with those lemmas before it that it depends on, through others or not, and no more."""
    by_name = {lemma.name: lemma for lemma in lemmas}
    wanted, waiting = set[str](), list(find_used(body, by_name))
    while waiting:
        name = waiting.pop()
        if name not in wanted:
            wanted.add(name)
            waiting += [need for need in by_name[name].needs if need in by_name]
    return Candidate(problem, body, write_prelude(one for one in lemmas if one.name in wanted))


def _read_proof(text: str, start: int) -> str:
    """What stands from ``start`` to the end as tactics for a hole in column 2; a term is given by
    ``exact``."""
    code = scan_code(text[start:])
    if len(code) < 2 or code[0].text != "by":
        return f"exact {text[start:].strip()}"
    first = start + code[1].offset
    column = first - (text.rfind("\n", 0, first) + 1)
    head, *rest = text[first:].rstrip().split("\n")
    return "\n".join([head, *(shift_line(line, _HOLE_COLUMN - column) for line in rest)])


def _split(statement: str) -> tuple[str, str, str]:
    """Name, binders and target of a statement without its ``:=``."""
    text = f"{statement.strip()} := {HOLE}"
    parts = read_theorem(Problem("lemma", "lean", "term", "", text))
    if statement.split()[:1] not in (["theorem"], ["lemma"]):
        raise ProblemError(f"a lemma must begin with 'theorem' or 'lemma': {statement[:120]!r}")
    return parts.name, parts.binders, parts.target
