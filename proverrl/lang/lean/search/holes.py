"""The holes that the author of a Lean file left in its proofs, and tactics that may fill them.

Flows in: the text of a file; the verdict on it with its holes filled. Flows out: each ``sorry``
with its declaration; one-line tactics to try, in order; which of them failed at their places. What
is tried ends in ``done``, so that a tactic that leaves goals fails at its own place. Not handled
here: which fillings are asked in one call (``proverrl.jobs.fill``).
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterator, Sequence

from proverrl.lang.lean.syntax.declarations import CLOSING, OPENING, find_declarations
from proverrl.lang.lean.syntax.tokens import Token, scan_code
from proverrl.lang.lean.syntax.words import COMMANDS
from proverrl.lang.lean.verify.judge import MAX_DIAGNOSTICS
from proverrl.lang.records import Failure, Hole
from proverrl.types import Verdict

_WORDS = frozenset({"sorry", "admit"})
"""What stands for one proof; ``stop`` leaves out all behind it."""
# Behind these a tactic follows, and behind all else that ends no line a term.
_BEFORE_TACTIC = frozenset({"by", ";", "<;>", "·"})
_BEFORE_TERM = frozenset({":=", "=>", ",", "exact", "refine", "apply", "from", "fun", "|", "at"})
_PLAIN = (
    "rfl trivial assumption simp omega decide simp_all grind norm_num ring linarith positivity "
    "aesop tauto nlinarith"
).split()
# Behind these a failure is not told.
_SILENT = frozenset("try first | <|> fail_if_success any_goals all_goals repeat repeat'".split())
_PROVED = frozenset({"theorem", "lemma"})
_DEFINED = frozenset({"def", "abbrev"})
_FIELDS = frozenset({"structure", "class", "inductive", "coinductive"})
_UNREADABLE = re.compile(r"(?:<input>:\d+:\d+: )?(?:unknown tactic|unexpected |expected (?!type))")
_SORRY = "declaration uses `sorry`"
_SPLIT = frozenset("∨ ∧ ∃ ↔ \\/ /\\".split())
_MOST = 6


class LeanFilling:
    """``Filling`` for Lean."""

    def find_holes(self, text: str) -> list[Hole]:
        """See ``Filling``. Left out are those of no declaration, those in what a declaration states
        or sets by default, and those whose failure is not told, is told elsewhere, or chooses what
        happens; outside theorems also those that may change what is defined."""
        declared, code = find_declarations(text), scan_code(text)
        starts = [d.offset for d in declared]
        has_variables = any(token.text == "variable" for token in code)
        found = []
        for place, token in enumerate(code):
            number = bisect_right(starts, token.offset) - 1
            if token.text not in _WORDS or number < 0:
                continue
            holder = declared[number]
            before = [t for t in code[:place] if t.offset > holder.offset]
            is_stated = holder.keyword in _FIELDS or not _is_in_body(before)
            if is_stated or before[-1].text in _SILENT or _is_mutual(code[:place]):
                continue
            is_theorem = holder.keyword in _PROVED or holder.keyword == "example"
            if not is_theorem and (has_variables or any(t.text == "by" for t in before[:-1])):
                continue
            line = text.count("\n", 0, holder.offset) + 1
            name = holder.name or f"line {line}"
            is_term = token.text == "sorry" and _is_term(token, before)
            found.append(
                Hole(token.line, token.column, token.text, token.offset, name, line, is_term)
            )
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
        declared = find_declarations(text)
        above = [d for d in declared if text.count("\n", 0, d.start) < line]
        if not above:
            return f"line {line}", line
        own = text.count("\n", 0, above[-1].offset) + 1
        return above[-1].name or f"line {own}", own

    def list_open(self, text: str, verdict: Verdict) -> dict[str, int]:
        """See ``Filling``."""
        said = [d for d in verdict.diagnostics if d.severity == "warning" and _SORRY in d.message]
        return dict(self.find_holder(text, warning.line) for warning in said)


def _is_mutual(before: Sequence[Token]) -> bool:
    """True behind these tokens of a file if declarations fail together there."""
    edges = (t.text for t in before if t.text == "mutual" or (t.text == "end" and t.column == 0))
    return next(iter(deque(edges, maxlen=1)), "") == "mutual"


def _is_in_body(before: Sequence[Token]) -> bool:
    """True if all of a declaration's head is among these tokens of it, and no other command."""
    if any(token.column == 0 and token.text in COMMANDS for token in before):
        return False
    depth = 0
    for token in before:
        if token.text in OPENING:
            depth += 1
        elif token.text in CLOSING:
            depth -= 1
        elif token.text in (":=", "|") and depth == 0:
            return True
    return False


def _is_term(token: Token, before: Sequence[Token]) -> bool:
    """True if a term is wanted behind these tokens of a declaration, as far as they say. Behind
    ``=>`` it is what the declaration is made of."""
    last = before[-1]
    if last.text in _BEFORE_TACTIC:
        return False
    if last.text == "=>":
        return not any(t.text == "by" for t in before)
    return last.text in _BEFORE_TERM or last.text in OPENING or last.line == token.line


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
            # One goal alone, which is no value that matters.
            focus = "" if text[: hole.offset].rstrip().endswith("<;>") else "· "
            tactic = f"{focus}(show (_ : Prop); {filling}; done)"
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
