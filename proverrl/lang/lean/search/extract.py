"""Goals that Lean printed, as theorems that can be stated (Goedel-Prover-V2's ``extract_goal``, Lin
et al. 2025, arXiv 2508.03613, done on the printed text).

Flows in: a goal as Lean prints it. Flows out: hypotheses and target; the text of a theorem with a
hole. Names that cannot be written (``x✝``) get fresh ones. A hypothesis with a value (``x : T :=
v``) is stated without it: the theorem is more general. What Lean prints it does not always read
back (coercions, implicit arguments): a lifted statement may fail to elaborate, which its verifier
then says. Not handled here: goals with metavariables or omitted proofs (refused).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from proverrl.errors import ProblemError
from proverrl.lang.lean.syntax.declarations import find_mark
from proverrl.lang.lean.syntax.tokens import IDENTIFIER, scan_tokens
from proverrl.types import HOLE

_HIDDEN = re.compile(rf"({IDENTIFIER})(✝[⁰¹²³⁴-⁹]*)")
_NAMES = re.compile(rf"(?:{IDENTIFIER}(?:✝[⁰¹²³⁴-⁹]*)?)(?: +{IDENTIFIER}(?:✝[⁰¹²³⁴-⁹]*)?)*")
_UNSTATABLE = re.compile(rf"(?<![\w\])'!])\?{IDENTIFIER}|⋯|\bsorry\b")
_UNIVERSE = re.compile(r"\bu_\d+\b")


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """Names of one type, as printed."""

    names: tuple[str, ...]
    type: str

    @property
    def binder(self) -> str:
        """As it stands before a theorem's colon; an instance in brackets."""
        text = f"{' '.join(self.names)} : {self.type}"
        is_instance = all(name.startswith("inst_") for name in self.names)
        return f"[{text}]" if is_instance else f"({text})"


@dataclass(frozen=True, slots=True)
class Goal:
    """What is known and what is to be proved. ``renamed`` are the names that stand for ``x✝``, in
    the order of the hypotheses."""

    hypotheses: tuple[Hypothesis, ...]
    target: str
    renamed: tuple[str, ...] = ()


def parse_goal(text: str) -> Goal:
    """Read a goal; raises ``ProblemError`` when it is none, or cannot be stated."""
    if (found := _UNSTATABLE.search(text)) is not None:
        raise ProblemError(f"a goal with {found.group()!r} in it cannot be stated: {text[:200]!r}")
    text, renamed = _rename(text)
    known, mark, target = text.partition("⊢ ")
    if not mark or (known and not known.endswith("\n")):
        raise ProblemError(f"this is no goal of Lean: {text[:200]!r}")
    hypotheses = [
        _parse_hypothesis(entry)
        for entry in re.split(r"\n(?!\s)", known.strip("\n"))
        if entry and not re.match(r"case \S+$", entry)
    ]
    return Goal(tuple(hypotheses), target.strip(), renamed)


def _rename(text: str) -> tuple[str, tuple[str, ...]]:
    taken = set(re.findall(IDENTIFIER, text))
    fresh: dict[str, str] = {}
    for match in _HIDDEN.finditer(text):
        if match.group() in fresh:
            continue
        number = 1
        while (name := f"{match[1]}_{number}") in taken:
            number += 1
        taken.add(name)
        fresh[match.group()] = name
    known = text.partition("⊢ ")[0]
    order = dict.fromkeys(
        fresh[m.group()] for line in known.split("\n") for m in _HIDDEN.finditer(_names_of(line))
    )
    return _HIDDEN.sub(lambda match: fresh[match.group()], text), tuple(order)


def _names_of(line: str) -> str:
    names, colon, _ = line.partition(" : ")
    return names if colon and not line.startswith(" ") else ""


def _parse_hypothesis(entry: str) -> Hypothesis:
    names, colon, kind = entry.partition(" : ")
    if not colon or _NAMES.fullmatch(names) is None:
        raise ProblemError(f"this is no hypothesis of Lean: {entry[:200]!r}")
    value = find_mark(kind, ":=")
    return Hypothesis(
        tuple(names.split()), kind if value is None else kind[: value.offset].rstrip()
    )


def mentions(text: str, names: Collection[str]) -> set[str]:
    """Those of the names that a text uses, alone or with something after a dot."""
    words = {token.text for token in scan_tokens(text) if token.kind == "word"}
    return {name for name in names for word in words if f"{word}.".startswith(f"{name}.")}


def drop_hypotheses(goal: Goal, unwanted: Collection[str]) -> Goal:
    """The goal without the named hypotheses, but for those that the rest speaks of."""
    rest, kept = goal.target, []
    for known in reversed(goal.hypotheses):
        wanted = [name for name in known.names if name not in unwanted or mentions(rest, [name])]
        if wanted:
            kept.append(Hypothesis(tuple(wanted), known.type))
            rest += f"\n{known.type}"
    return Goal(tuple(reversed(kept)), goal.target, goal.renamed)


def write_theorem(name: str, goal: Goal) -> str:
    """The goal as a theorem with a hole for tactics."""
    parts = [*(known.binder for known in goal.hypotheses), goal.target]
    *binders, target = ("\n    " + part.replace("\n", "\n    ") for part in parts)
    text = f"{''.join(binders)} :{target} := by\n  {HOLE}\n"
    own = {name for known in goal.hypotheses for name in known.names}
    levels = [level for level in dict.fromkeys(_UNIVERSE.findall(text)) if level not in own]
    universes = f".{{{', '.join(levels)}}}" if levels else ""
    return f"theorem {name}{universes}{text}"
