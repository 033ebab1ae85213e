"""The holes that the author of a Lean file left in its proofs, and tactics that may fill them.

Flows in: the text of a file; the verdict on it with its holes filled. Flows out: each ``sorry``
with its declaration; one-line tactics to try, in order; which of them failed at their places. What
is tried ends in ``done``, so that a tactic that leaves goals fails at its own place. Not handled
here: which fillings are asked in one call (``proverrl.jobs.fill``).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Sequence

from proverrl.lang.lean.syntax.declarations import CLOSING, OPENING, find_declarations
from proverrl.lang.lean.syntax.tokens import Token, scan_code
from proverrl.lang.lean.verify.judge import MAX_DIAGNOSTICS
from proverrl.lang.records import Failure, Hole
from proverrl.types import Verdict

_WORDS = frozenset({"sorry", "admit"})
"""What stands for one proof; ``stop`` leaves out all behind it."""
# Behind these a tactic follows, and behind all else that ends no line a term.
_BEFORE_TACTIC = frozenset({"by", ";", "<;>", "·", "|>", "<|>", "try", "repeat", "all_goals"})
_BEFORE_TERM = frozenset({":=", "=>", ",", "exact", "refine", "apply", "from", "fun", "|", "at"})
_PLAIN = (
    "rfl trivial assumption simp omega decide simp_all grind norm_num ring linarith positivity "
    "aesop tauto nlinarith"
).split()
_PROVED = frozenset({"theorem", "lemma"})
_DEFINED = frozenset({"def", "abbrev"})
_UNREADABLE = re.compile(r"(?:<input>:\d+:\d+: )?(?:unknown tactic|unexpected |expected (?!type))")
_SPLIT = frozenset("∨ ∧ ∃ ↔ \\/ /\\".split())
_MOST = 6


class LeanFilling:
    """``Filling`` for Lean."""

    def find_holes(self, text: str) -> list[Hole]:
        """See ``Filling``."""
        declared = find_declarations(text)
        code, found = scan_code(text), []
        for place, token in enumerate(code):
            if token.text not in _WORDS:
                continue
            start = max((d.offset for d in declared if d.offset < token.offset), default=0)
            is_term = token.text == "sorry" and _is_term(code, place, start)
            holder = self.find_holder(text, token.line)
            found.append(Hole(token.line, token.column, token.text, token.offset, *holder, is_term))
        return found

    def suggest(self, text: str, hole: Hole, unproved: Collection[str]) -> list[str]:
        """See ``Filling``."""
        declared = find_declarations(text)
        before = [d for d in declared if d.offset < hole.offset]
        end = next((d.start for d in declared if d.offset > hole.offset), len(text))
        code = scan_code(text[before[-1].offset : end]) if before else []
        words = {_end(token.text) for token in code if token.kind == "word"}
        own = [d for d in before[:-1] if d.name]
        used = [d.name for d in own if d.keyword in _DEFINED and _end(d.name) in words]
        lemmas = [d.name for d in own if d.keyword in _PROVED and d.name not in unproved]
        bound, claimed = _read_binders(code)
        return list(dict.fromkeys(_list_tactics(used[-_MOST:], lemmas[-_MOST:], bound, claimed)))

    def fill(self, text: str, holes: Sequence[Hole], fillings: Sequence[str]) -> str:
        """See ``Filling``."""
        return _fill(text, holes, fillings, is_last=True)[0]

    def try_out(self, text: str, holes: Sequence[Hole], fillings: Sequence[str]) -> str:
        """See ``Filling``."""
        return _fill(text, holes, fillings, is_last=False)[0]

    def list_failures(
        self, text: str, holes: Sequence[Hole], fillings: Sequence[str], verdict: Verdict
    ) -> list[Failure | None]:
        """See ``Filling``."""
        _, places = _fill(text, holes, fillings, is_last=False)
        errors = [d for d in verdict.diagnostics if d.severity == "error"]
        last = max(((e.line, e.column) for e in errors), default=(0, 0))
        found: list[Failure | None] = []
        for line, start, end in places:
            here = [e for e in errors if e.line == line and start <= e.column < end]
            # Behind the last message that is kept nothing is known.
            is_cut = len(errors) >= MAX_DIAGNOSTICS and (line, start) > last
            if any(_UNREADABLE.match(error.message) for error in here):
                found.append("unreadable")
            else:
                found.append("failed" if here or is_cut else None)
        return found

    def find_holder(self, text: str, line: int) -> tuple[str, int]:
        """See ``Filling``."""
        lines = ((d, text.count("\n", 0, d.offset) + 1) for d in find_declarations(text))
        above = [(d.name or f"line {num}", num) for d, num in lines if num <= line]
        return above[-1] if above else (f"line {line}", line)


def _is_term(code: Sequence[Token], place: int, start: int) -> bool:
    """True if a term is wanted at ``place``, as far as the words before it say. Behind ``=>`` it is
    what the declaration is made of."""
    token, before = code[place], code[place - 1] if place else None
    if before is None or before.text in _BEFORE_TACTIC:
        return False
    if before.text == "=>":
        return not any(t.text == "by" for t in code[:place] if t.offset >= start)
    if before.text in _BEFORE_TERM or before.text in OPENING:
        return True
    return before.line == token.line


def _list_tactics(
    used: Sequence[str],
    lemmas: Sequence[str],
    bound: Sequence[tuple[str, set[str]]],
    target: set[str],
) -> Iterator[str]:
    """Tactics by functions and lemmas of the file, what a declaration binds and what it claims."""
    yield from _PLAIN
    yield from ("intros; simp_all", "intros; omega", "intros; grind")
    known = [*used, *lemmas]
    facts = f" [{', '.join(known)}]" if known else ""
    if used:
        given = f" [{', '.join(used)}]"
        yield from (f"simp{given}", f"simp_all{given}", f"grind{given}", f"simp{given}; omega")
    if lemmas:
        yield from (f"simp_all{facts}", f"grind{facts}")
    ends = ("simp_all{}", "grind{}", "simp_all +arith{}", "simp_all{} <;> omega")
    claimed = [name for name, _ in bound if name in target]
    split = [name for name, said in bound if not said.isdisjoint(_SPLIT)]
    for start in (
        *(f"induction {name}" for name in claimed[:_MOST]),
        *(f"cases {name}" for name in (*split, *claimed)[:_MOST]),
        *(["constructor"] if not target.isdisjoint(_SPLIT) else []),
        *(f"constructor <;> induction {name}" for name in claimed[:2] if "∧" in target),
    ):
        yield from (f"{start} <;> {end.format(facts)}" for end in ends)


def _read_binders(code: Sequence[Token]) -> tuple[list[tuple[str, set[str]]], set[str]]:
    """The names that a declaration binds in brackets before its colon, with the words of their
    types, and those of what it claims."""
    found: list[tuple[str, set[str]]] = []
    depth, is_named, words, num = 0, False, set[str](), 0
    for place, token in enumerate(code):
        if token.text in OPENING:
            depth += 1
            if depth == 1:
                is_named, words, num = token.text in ("(", "{", "⦃"), set(), len(found)
        elif token.text in CLOSING:
            depth -= 1
        elif token.text in (":", ":=") and depth == 0:
            rest = itertools.takewhile(lambda later: later.text != ":=", code[place + 1 :])
            return found, {later.text for later in rest} if token.text == ":" else set()
        elif token.text == ":" and depth == 1 and is_named:
            is_named = False
        elif is_named and token.kind == "word":
            found.append((token.text, words))
        elif depth and len(found) > num:
            words.add(token.text)
    return found, set()


def _end(name: str) -> str:
    return name.rpartition(".")[2]


def _fill(
    text: str, holes: Sequence[Hole], fillings: Sequence[str], *, is_last: bool
) -> tuple[str, list[tuple[int, int, int]]]:
    """The text with each hole filled, and the line and columns from which and to which each filling
    reaches. One that is not the last word must leave no goal."""
    pieces: list[str] = []
    places = []
    end, line, moved = 0, 0, 0
    for hole, filling in zip(holes, fillings, strict=True):
        tactic = filling
        if not is_last:
            # What has a value that matters is no proof.
            tactic = f"(show (_ : Prop); {filling}; done)"
        elif ";" in filling:
            tactic = f"({filling})"
        behind = text[hole.offset + len(hole.word) :].partition("\n")[0]
        is_alone = is_last and not behind.strip() and text[: hole.offset].rstrip().endswith(":=")
        term = f"by {tactic}" if is_alone else f"(by {tactic})"
        written = term if hole.is_term else tactic
        pieces += [text[end : hole.offset], written]
        end = hole.offset + len(hole.word)
        moved = moved if hole.line == line else 0
        line = hole.line
        start = hole.column + moved
        places.append((line, start, start + len(written)))
        moved += len(written) - len(hole.word)
    return "".join([*pieces, text[end:]]), places


FILLING = LeanFilling()
