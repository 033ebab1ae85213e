"""Lean for composers and filters: operators on statements as text, and tactics to try.

Flows in: problems whose statement is one theorem with a hole, verdicts. Flows out: what
``Composing`` promises. All operators were tested as text only: whether a result elaborates is for
the filters to ask Lean. Not handled here: ``variable``s and ``where``, a statement without a colon,
proofs (no reference is carried along).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from proverrl.config.selfplay import LeanOperator
from proverrl.errors import ProblemError
from proverrl.lang.lean.audit.text import audit_lean_candidate
from proverrl.lang.lean.syntax.declarations import read_theorem
from proverrl.lang.lean.syntax.lexical import find_holes
from proverrl.lang.lean.syntax.tokens import Token, scan_tokens
from proverrl.lang.parts import Composing
from proverrl.lang.records import Made, Operator, Parent
from proverrl.types import FILE, HOLE, Candidate, Problem, Status, Verdict

PORTFOLIO: tuple[str, ...] = (
    *("rfl", "trivial", "decide", "simp", "simp_all", "omega", "norm_num", "tauto", "aesop"),
)
"""Tactics that prove a Lean statement which is not worth a proof of its own."""

_CLOSING = {"(": ")", "[": "]", "{": "}", "⦃": "⦄", "⟨": "⟩"}
_NUMBERS = ("ℕ", "ℤ", "ℚ", "ℝ", "Nat", "Int", "Rat", "Real")


@dataclass(frozen=True, slots=True)
class Binder:
    """One group of parameters, such as ``(x y : ℝ)``; an instance has no names."""

    bracket: str
    names: tuple[str, ...]
    kind: str

    @property
    def text(self) -> str:
        head = f"{' '.join(self.names)} : " if self.names else ""
        return f"{self.bracket}{head}{self.kind}{_CLOSING[self.bracket]}"


@dataclass(frozen=True, slots=True)
class TheoremParts:
    """The parts of a theorem that operators change. ``ending`` is all from its ``:=`` on."""

    name: str
    binders: tuple[Binder, ...]
    goal: str
    ending: str

    @property
    def text(self) -> str:
        parts = [f"theorem {self.name}", *(binder.text for binder in self.binders)]
        return f"{' '.join(parts)} :\n    {self.goal} {self.ending}"

    @property
    def names(self) -> set[str]:
        return {name for binder in self.binders for name in binder.names}

    def map(self, change: Callable[[str], str]) -> TheoremParts:
        """The claim with the texts of its binders and of its goal changed."""
        binders = (
            Binder(b.bracket, tuple(map(change, b.names)), change(b.kind)) for b in self.binders
        )
        return replace(self, binders=tuple(binders), goal=change(self.goal))


def read_claim(problem: Problem) -> TheoremParts | None:
    """The claim of a problem's theorem; None outside this module's forms."""
    try:
        theorem = read_theorem(problem)
    except ProblemError:
        return None
    binders = _read_binders(theorem.binders)
    if theorem.keyword not in ("theorem", "lemma") or binders is None:
        return None
    return TheoremParts(theorem.name, binders, " ".join(theorem.target.split()), theorem.ending)


def _read_binders(text: str) -> tuple[Binder, ...] | None:
    """The groups that a theorem's binders are made of; None when something else stands there."""
    binders: list[Binder] = []
    group: list[Token] = []
    depth = 0
    for token in scan_tokens(text):
        if not token.is_code:
            continue
        group.append(token)
        depth += (token.text in _CLOSING) - (token.text in _CLOSING.values())
        if depth == 0:
            binder = _read_binder(text, group)
            if binder is None:
                return None
            binders.append(binder)
            group = []
    return None if group else tuple(binders)


def _read_binder(text: str, tokens: Sequence[Token]) -> Binder | None:
    inside = tokens[1:-1]
    colon = next((i for i, t in enumerate(inside) if t.text == ":"), None)
    named = colon is not None and all(t.kind == "word" for t in inside[:colon])
    names = tuple(t.text for t in inside[:colon]) if named else ()
    kind = inside[colon + 1 :] if named and colon is not None else inside
    if not kind or tokens[0].text not in ("(", "[", "{", "⦃"):
        return None
    shown = " ".join(text[kind[0].offset : kind[-1].end].split())
    return Binder(tokens[0].text, names, shown)


def replace_words(text: str, values: Mapping[str, str]) -> str:
    """The text with identifiers replaced; of ``h.left`` the part before the dot counts."""
    parts = []
    for token in scan_tokens(text):
        head, dot, rest = token.text.partition(".")
        is_name = token.kind == "word" and head in values
        parts.append(values[head] + dot + rest if is_name else token.text)
    return "".join(parts)


def fuse(rng: random.Random, claims: Sequence[TheoremParts]) -> TheoremParts | None:
    """The conjunction of two statements under the parameters of both; names that clash get a prime.

    Both need the same preamble and the same text after the hole.
    """
    first, second = claims
    if first.ending != second.ending:
        return None
    taken = first.names | second.names
    primes: dict[str, str] = {}
    for name in sorted(first.names & second.names):
        new = name + "'"
        while new in taken:
            new += "'"
        taken.add(new)
        primes[name] = new
    second = second.map(lambda text: replace_words(text, primes))
    return TheoremParts(
        f"{first.name}_and_{second.name}".replace(".", "_"),
        first.binders + second.binders,
        f"({first.goal}) ∧ ({second.goal})",
        first.ending,
    )


def instantiate(rng: random.Random, claims: Sequence[TheoremParts]) -> TheoremParts | None:
    """One explicit parameter of a number type becomes a numeral of that type."""
    (claim,) = claims
    choices = [(b, n) for b in claim.binders if b.kind in _NUMBERS for n in b.names]
    if not choices:
        return None
    binder, name = rng.choice(choices)
    rest = tuple(other for other in binder.names if other != name)
    smaller = (replace(binder, names=rest),) if rest else ()
    place = claim.binders.index(binder)
    binders = claim.binders[:place] + smaller + claim.binders[place + 1 :]
    value = {name: f"({rng.randint(2, 12)} : {binder.kind})"}
    made = replace(claim, name=f"{claim.name}_at", binders=binders)
    return made.map(lambda text: replace_words(text, value))


def generalise(rng: random.Random, claims: Sequence[TheoremParts]) -> TheoremParts | None:
    """A numeral becomes a parameter of the statement's first number type, wherever it stands."""
    (claim,) = claims
    kind = next((b.kind for b in claim.binders if b.kind in _NUMBERS), None)
    numerals = sorted({t.text for t in scan_tokens(claim.goal) if t.kind == "number"})
    if kind is None or not numerals:
        return None
    numeral = rng.choice(numerals)
    used = claim.names | {t.text for t in scan_tokens(claim.goal)}
    name = next(n for n in ("k", "c", "m", "a'", "k'", "c'") if n not in used)
    made = claim.map(
        lambda text: "".join(name if t.text == numeral else t.text for t in scan_tokens(text))
    )
    binders = (Binder("(", (name,), kind), *made.binders)
    return replace(made, name=f"{claim.name}_general", binders=binders)


def negate(rng: random.Random, claims: Sequence[TheoremParts]) -> TheoremParts:
    """The closed negation ``¬ (∀ parameters, goal)`` (Xin et al. 2024, DeepSeek-Prover,
    arXiv 2405.14333)."""
    (claim,) = claims
    binders = " ".join(binder.text for binder in claim.binders)
    closed = f"¬ (∀ {binders}, {claim.goal})" if binders else f"¬ ({claim.goal})"
    return TheoremParts(f"{claim.name}_not", (), closed, claim.ending)


def _make_operator(
    arity: int, change: Callable[[random.Random, Sequence[TheoremParts]], TheoremParts | None]
) -> Operator:
    def compose(rng: random.Random, parents: Sequence[Parent]) -> Made | None:
        problems = [parent.problem for parent in parents[:arity]]
        claims = [claim for problem in problems if (claim := read_claim(problem)) is not None]
        if len(claims) < arity or len({problem.preamble for problem in problems}) > 1:
            return None
        made = change(rng, claims)
        if made is None:
            return None
        return Made(problems[0].kind, made.text, None, problems[0].preamble)

    return Operator(arity, compose)


LEAN_OPERATORS: Mapping[LeanOperator, Operator] = {
    "lean_fuse": _make_operator(2, fuse),
    "lean_instantiate": _make_operator(1, instantiate),
    "lean_generalise": _make_operator(1, generalise),
    "lean_negate": _make_operator(1, negate),
}


class LeanComposing(Composing):
    """Operators on statements as text, and filters that try a portfolio of tactics."""

    operators: Mapping[str, Operator] = {str(name): made for name, made in LEAN_OPERATORS.items()}

    def find_cheats(self, problem: Problem) -> Sequence[tuple[str, str]]:
        # ``stop`` may be a name of the statement's own.
        if {"sorry", "admit"} & set(find_holes(problem.statement).values()):
            return [("holes", "its own text leaves something open")]
        whole = Candidate(Problem("p", "lean", FILE, "", HOLE), Candidate(problem, "sorry").source)
        verdict = audit_lean_candidate(whole)
        if verdict is None or verdict.status is Status.INCOMPLETE:
            return []
        return [(verdict.rule, verdict.diagnostics[0].message)]

    def own_preamble(self, parent: Problem) -> str:
        return parent.preamble

    def ask_well_formed(self, problem: Problem) -> Candidate:
        return Candidate(problem, "sorry")

    def explain_malformed(self, problem: Problem, verdict: Verdict) -> tuple[str, str] | None:
        is_fine = verdict.status in (Status.INCOMPLETE, Status.UNSOUND)
        return None if is_fine else ("does not elaborate", "")

    def list_trivial(self, problem: Problem) -> Sequence[str]:
        if problem.kind == "term":
            return tuple(f"by {tactic}" for tactic in PORTFOLIO)
        return PORTFOLIO

    def ask_contradiction(self, problem: Problem) -> Sequence[Candidate]:
        absurd = make_absurd(problem)
        return () if absurd is None else tuple(Candidate(absurd, tactic) for tactic in PORTFOLIO)

    def explain_contradiction(self, candidate: Candidate, verdict: Verdict) -> str:
        return f"its hypotheses prove False by {candidate.body}" if verdict.proved else ""

    def negate(self, problem: Problem) -> str | None:
        return "lean_negate"

    def list_proofs(self, problem: Problem) -> Sequence[str]:
        return PORTFOLIO

    def list_refutations(self, problem: Problem) -> Sequence[str]:
        return tuple(f"push_neg; {tactic}" for tactic in PORTFOLIO)


def make_absurd(problem: Problem) -> Problem | None:
    """The statement with the same hypotheses and the goal ``False``; None without hypotheses."""
    claim = read_claim(problem)
    if claim is None or not claim.binders:
        return None
    absurd = replace(claim, name=f"{claim.name}_absurd", goal="False")
    return Problem(f"{problem.id}#absurd", "lean", problem.kind, problem.preamble, absurd.text)


COMPOSING = LeanComposing()
