"""The proposition of a theorem, to be written from words and judged by Lean.

Flows in: problems. Flows out: a problem of the kind ``formalize``, whose hole takes a closed
proposition, its reference, and its English. Behind the hole, where no policy sees it, stands the
proposition that is meant, and a proof of ours that both are equivalent. Two true propositions
always are, so that this proof may only take one apart and put the other together (the idea of BEq,
Liu et al. 2025, ICLR): it names what both are about in the same order, and finds each hypothesis of
one among those of the other, as it stands or with its two sides exchanged. Not handled here:
whether propositions agree (the verdict says so), and agreement that takes more than that.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace

from proverrl.errors import ProblemError
from proverrl.generate.families import ProgramText
from proverrl.lab.words.english import English, Forms, forms, list_names, sentence
from proverrl.lab.words.kinds import FORMALIZE
from proverrl.lab.words.lean.closed import Closed, read_binders, split_binders
from proverrl.lab.words.lean.difference import ask_difference
from proverrl.lab.words.lean.errors import reword, spoil
from proverrl.lab.words.lean.phrases import read_phrase
from proverrl.lang.lean.syntax.declarations import read_theorem
from proverrl.types import HOLE, Candidate, Problem, Stage, Verdict

_KINDS: dict[str, Forms] = {
    "Prop": forms("a proposition | a statement || a statement that is true or false"),
    "Type": forms("a type | a set of things || a type of things"),
    "Nat": forms("a natural number | a whole number that is not negative || a natural"),
    "Bool": forms("a truth value | a boolean || a value that is true or false"),
}
_OF = forms("an element of {0} | a member of {0} || an element in {0}")
_PROPERTY = forms("a property of {0} | a predicate on {0} || a property on {0}")
_RELATION = forms(
    "a relation between {0} and {1} | a binary predicate on {0} and {1} || a predicate between {0}"
    " and {1}"
)
_FUNCTION = forms("a function from {0} to {1} | a map from {0} to {1} || a map on {0} to {1}")
_DECLARES = forms("let {0} be {1} | {0} {is_} {1} | take {0}, {1} || take {0} to be {1}")
_SUPPOSES = forms(
    "suppose that {0} | assume that {0} | it is known that {0} | {0} || it is true that {0}"
)
_CLAIMS = forms(
    "then {0} | show that {0} | it follows that {0} | prove that {0} || then show that {0}"
)
_ARROW = "→"
_AGREES = "theorem agrees"
_LOOSE = frozenset(("iff", "implies", "all", "some"))
# Each is tried on a hypothesis, and on what is claimed.
_SAME = (
    "assumption",
    "(apply Eq.symm; assumption)",
    "(apply And.symm; assumption)",
    "(apply Or.symm; assumption)",
    "(apply Iff.symm; assumption)",
)


class LeanFormalizing:
    """``Formalizing`` in Lean."""

    kind = FORMALIZE
    unseen = frozenset("l1_deliver l1_derive l2_choice l2_negate l3_order l4_mono l5_meet".split())

    def ask_statement(self, known: Candidate, english: English) -> ProgramText | None:
        """See ``Formalizing``."""
        try:
            theorem = read_theorem(known.problem)
            parts = _read_parts(theorem.binders, theorem.target)
        except ProblemError:
            return None
        said = None if parts is None else _describe(parts, english)
        if parts is None or said is None:
            return None
        reference = replace(parts, given=tuple(map(_close, parts.given))).write()
        names = [name for group, _ in parts.about for name in group]
        lines = [
            *theorem.before.rstrip().splitlines(),
            "def Asked : Prop :=",
            f"  {HOLE}",
            "def Meant : Prop :=",
            f"  {reference}",
            *_prove(names),
        ]
        return ProgramText(lines, reference, self.kind, said)

    def list_empty(self, problem: Problem) -> Sequence[str]:
        """See ``Formalizing``."""
        return ("True", "False")

    def ask_empty(self, problem: Problem, body: str) -> Sequence[tuple[str, Candidate]]:
        """See ``Asking``: what is false in other words is refuted, which takes a proof."""
        stated = self.state(problem, body)
        empty = self.list_empty(problem)
        return [(f"says no more than {text!r}", Candidate(stated, text)) for text in empty]

    def ask_admitted(self, problem: Problem, body: str) -> Candidate | None:
        """Nothing is asked: a proposition demands nothing."""
        return None

    def shows_admitted(self, verdict: Verdict) -> bool:
        """Nothing does."""
        return False

    def ask_difference(self, problem: Problem, body: str) -> Sequence[Candidate]:
        """See ``Formalizing``."""
        return ask_difference(problem, body, _read_meant(problem))

    def shows_difference(self, verdict: Verdict) -> bool:
        """See ``Formalizing``: there is one theorem."""
        return verdict.proved

    def spoil(self, problem: Problem, body: str, rng: random.Random) -> tuple[str, str] | None:
        """See ``Formalizing``."""
        return spoil(rng, body)

    def reword(self, problem: Problem, body: str, rng: random.Random) -> str | None:
        """See ``Formalizing``."""
        return reword(rng, body)

    def ask_words(self, text: str, kind: str, words: str) -> Problem:
        """See ``Formalizing``. ``text`` holds definitions, if any; there is no program."""
        lines = [*text.rstrip().splitlines(), "def Asked : Prop :=", f"  {HOLE}"]
        statement = "\n".join(lines) + "\n"
        return Problem("words", "lean", FORMALIZE, "", statement, informal=words)

    def state(self, problem: Problem, meant: str | None) -> Problem:
        """See ``Formalizing``."""
        asked = problem.statement.partition(HOLE)[0] + HOLE
        if meant is None:
            lines = [f"{_AGREES} : Asked ↔ (Asked ∧ False) := by", "  exact Iff.rfl"]
        else:
            lines = ["def Meant : Prop :=", f"  {meant}", *_prove(_list_bound(meant))]
        return replace(problem, statement="\n".join([asked, *lines]) + "\n")

    def ask_proof(self, problem: Problem, body: str) -> Problem | None:
        """See ``Formalizing``: every proposition can be proved by itself."""
        before = problem.statement.partition(HOLE)[0].rstrip()
        given = before.removesuffix("def Asked : Prop :=")
        metadata = {k: problem.metadata[k] for k in ("level", "family") if k in problem.metadata}
        return replace(
            problem,
            id=f"{problem.id}-proof",
            kind="tactics",
            statement=f"{given}theorem stated :\n  {body} := by\n  {HOLE}\n",
            metadata=metadata,
        )

    def is_well_formed(self, candidate: Candidate, verdict: Verdict) -> bool:
        """All that Lean finds wrong is our proof that both are equivalent."""
        if verdict.proved:
            return True
        line = candidate.source.rpartition(_AGREES)[0].count("\n") + 1
        errors = [d for d in verdict.diagnostics if d.severity == "error"]
        return verdict.stage is Stage.PROVER and all(d.line >= line for d in errors)


def _read_meant(problem: Problem) -> str:
    """The meant proposition; empty where nobody says it."""
    return problem.statement.partition("\ndef Meant : Prop :=\n")[2].partition(f"\n{_AGREES}")[0]


def describe_theorem(problem: Problem, english: English) -> str:
    """The proposition of a theorem, in words; empty where there are none."""
    try:
        theorem = read_theorem(problem)
        parts = _read_parts(theorem.binders, theorem.target)
    except ProblemError:
        return ""
    return "" if parts is None else _describe(parts, english) or ""


def _read_parts(binders: str, target: str) -> Closed | None:
    about, given = [], []
    for names, kind in read_binders(binders):
        if _is_about(kind):
            about.append((names, kind))
        else:
            given += [kind] * len(names)
    return Closed(tuple(about), tuple(given), " ".join(target.split()))


def _list_bound(text: str) -> list[str]:
    """The names that a closed proposition is about: those of its first quantifier."""
    if not text.startswith("∀"):
        return []
    return [name for names, _ in split_binders(text[1:].lstrip())[0] for name in names]


def _is_about(kind: str) -> bool:
    """True if a type is that of what a theorem is about, and no hypothesis."""
    return all(re.fullmatch(r"[A-Z]\w*(?: [A-Z]\w*)*", part) for part in _split_arrows(kind))


def _split_arrows(kind: str) -> list[str]:
    return [part.strip() for part in kind.split(_ARROW)]


def _describe(parts: Closed, english: English) -> str | None:
    declared = [_declare(names, kind, english) for names, kind in parts.about]
    claims = [read_phrase(text) for text in (*parts.given, parts.claim)]
    if any(phrase is None for phrase in claims):
        return None
    said = [english.say_claim(phrase) for phrase in claims if phrase is not None]
    given = [sentence(english.choose(_SUPPOSES).format(text)) for text in said[:-1]]
    shown = sentence(english.choose(_CLAIMS).format(said[-1]))
    return " ".join([*declared, *([english.arrange(given)] if given else []), shown])


def _declare(names: Sequence[str], kind: str, english: English) -> str:
    said = english.choose(_DECLARES).format(
        list_names(names),
        _say_kind(kind, names, english),
        is_="is" if len(names) == 1 else "are",
    )
    return sentence(said)


def _say_kind(kind: str, names: Sequence[str], english: English) -> str:
    *takes, gives = _split_arrows(kind)
    each = "each " if len(names) > 1 else ""
    if not takes:
        own = (
            english.choose(_KINDS[kind])
            if kind in _KINDS
            else english.choose(_OF).format(f"`{kind}`")
        )
        return each + own
    quoted = [f"`{part}`" for part in takes]
    if gives != "Prop":
        return each + english.choose(_FUNCTION).format(" and ".join(quoted), f"`{gives}`")
    if len(quoted) == 2:
        return each + english.choose(_RELATION).format(*quoted)
    return each + english.choose(_PROPERTY).format(" and ".join(quoted))


def _close(text: str) -> str:
    phrase = read_phrase(text)
    return f"({text})" if phrase is None or phrase.op in _LOOSE else text


def _prove(names: Sequence[str]) -> list[str]:
    listed = "".join(f" {name}" for name in names)
    each = " | ".join(_SAME)
    # The @ keeps Lean from filling in an argument that a type brings along with its default.
    turned = [f"(apply {way}; apply @agreed <;> first | {each})" for way in ("Eq.symm", "Iff.symm")]
    ways = ["exact @agreed", f"(apply @agreed <;> first | {each})", *turned]
    steps = [f"intro agreed{listed}", f"have agreed := @agreed{listed}", "intros"]
    return [
        f"{_AGREES} : Asked ↔ Meant := by",
        "  delta Asked Meant",
        "  first",
        "  | exact Iff.rfl",
        f"  | constructor <;> {' <;> '.join(steps)} <;> first | {' | '.join(ways)}",
    ]


FORMALIZING = LeanFormalizing()
