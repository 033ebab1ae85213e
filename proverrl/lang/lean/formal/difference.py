"""Looks for a reading on which two propositions disagree, and has Lean prove that they do.

Flows in: a problem of the kind ``proposition`` and a body. Flows out: a theorem that names are so
readable that what one proposition says of them holds and what the other says does not: types as
``Bool``, constants, properties, relations and functions on these in every possible way, natural
numbers below four, elements of the problem's own types without arguments. Two true propositions are
equivalent whatever they say; what is compared is what they say of the same names, as for contracts
what they say of the same call. The search itself is Lean's: ``decide`` goes through all readings.
Not covered, so that nothing is said: propositions that speak of other names, quantifiers over other
types than these, more than ``_MAX_BITS`` choices, readings that are not tried.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from proverrl.lang.lean.formal.phrases import read_phrase
from proverrl.types import HOLE, Candidate, Problem

Binders = tuple[tuple[tuple[str, ...], str], ...]

_MAX_BITS = 12
_MAX_ARGUMENTS = 2
_NUMBERS = ("0", "1", "2", "3")
_GROUP = re.compile(r"[({]\s*([^:(){}]+?)\s*:\s*([^:(){}]+?)\s*[)}]\s*")
_TYPE = re.compile(r"inductive (\w+)[^\n]*? where\n((?:[ \t]+\|[^\n]*\n)+)")
_CONSTRUCTOR = re.compile(r"\|\s*(\w+)\s*:\s*([^\n→]*)\n")
_DECIDE_ALL = """\
instance {stem}All (P : Bool → Prop) [DecidablePred P] : Decidable (∀ x, P x) :=
  if h : P true ∧ P false then .isTrue fun | true => h.1 | false => h.2
  else .isFalse fun all => h ⟨all true, all false⟩
instance {stem}Some (P : Bool → Prop) [DecidablePred P] : Decidable (∃ x, P x) :=
  if t : P true then .isTrue ⟨true, t⟩
  else if f : P false then .isTrue ⟨false, f⟩
  else .isFalse fun | ⟨true, h⟩ => t h | ⟨false, h⟩ => f h"""


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed proposition: the names that it is about, each group with its type, and what it says
    of them."""

    about: Binders
    says: str

    def list_kinds(self) -> dict[str, str]:
        """The type of each name."""
        return {name: kind for names, kind in self.about for name in names}

    def read_as(self, readings: Mapping[str, str]) -> str:
        """What it says where its names are read so."""
        if not self.about:
            return f"({self.says})"
        groups = " ".join(f"({' '.join(names)} : {kind})" for names, kind in self.about)
        given = " ".join(readings[name] for names, _ in self.about for name in names)
        return f"((fun {groups} => {self.says}) {given})"


def read_closed(text: str) -> Closed | None:
    """A closed proposition of the curriculum's kind, all its names in one quantifier with brackets;
    None for another text."""
    groups, rest = list[tuple[tuple[str, ...], str]](), " ".join(text.split())
    if rest.startswith("∀"):
        place = len(rest) - len(rest[1:].lstrip())
        while match := _GROUP.match(rest, place):
            groups.append((tuple(match.group(1).split()), match.group(2)))
            place = match.end()
        if not groups or rest[place : place + 1] != ",":
            return None
        rest = rest[place + 1 :].strip()
    # Nothing but signs, names and numbers: no text can lead out of the place where it is put.
    return None if read_phrase(rest) is None else Closed(tuple(groups), rest)


def ask_difference(problem: Problem, body: str, meant: str) -> list[Candidate]:
    """What to verify; nothing where no reading is known to try."""
    written, known = read_closed(body), read_closed(meant)
    if (
        written is None
        or known is None
        or [*written.list_kinds().items()] != [*known.list_kinds().items()]
    ):
        return []
    given = problem.statement.partition("def Asked : Prop :=")[0]
    text = given + body + meant
    stem = next(s for i in count() if (s := f"bit{'t' * i}") not in text)
    said = set(re.findall(r"\w+", f"{written.says} {known.says}"))
    reader = _Choices(stem, _list_elements(given), known.list_kinds())
    readings = {
        name: reader.read(kind, is_said=name in said) for name, kind in known.list_kinds().items()
    }
    found = {name: reading for name, reading in readings.items() if reading is not None}
    if len(found) < len(readings) or len(reader.bits) > _MAX_BITS:
        return []
    chosen = f" ∃ {' '.join(reader.bits)} : Bool," if reader.bits else ""
    lines = [
        *(problem.preamble + given).rstrip().splitlines(),
        *(f"deriving instance DecidableEq for {name}" for name in sorted(reader.used)),
        *_DECIDE_ALL.format(stem=stem).splitlines(),
        "set_option synthInstance.maxSize 10000 in",
        "set_option maxRecDepth 10000 in",
        f"theorem differ :{chosen}",
        f"    ¬ ({written.read_as(found)} ↔",
        f"      {known.read_as(found)}) := by",
        "  decide +kernel",
    ]
    # A bare file: definitions of somebody's own may not bear what is added, which proves nothing.
    file = Problem(f"{problem.id}#differ", problem.language, "file", "", HOLE)
    return [Candidate(file, "\n".join(lines) + "\n")]


def _list_elements(given: str) -> dict[str, list[str]]:
    """The elements without arguments of each type that is declared."""
    found = {}
    for match in _TYPE.finditer(given):
        names = [name for name, _ in _CONSTRUCTOR.findall(match.group(2))]
        found[match.group(1)] = [f"{match.group(1)}.{name}" for name in names]
    return found


class _Choices:
    """Reads names of these types as what bits decide; ``bits`` are those that it took, ``used`` the
    types with elements of their own."""

    def __init__(
        self, stem: str, elements: Mapping[str, Sequence[str]], kinds: Mapping[str, str]
    ) -> None:
        self._stem = stem
        self._elements = elements
        self._kinds = kinds
        self.bits: list[str] = []
        self.used: set[str] = set()

    def read(self, kind: str, *, is_said: bool) -> str | None:
        """A term of a type, or None for a type that has no readings here; of a name that neither
        proposition says, one term will do."""
        if kind == "Type":
            return "Bool"
        *takes, gives = (part.strip() for part in kind.split("→"))
        is_claim = gives == "Prop"
        if takes or is_claim or self._is_bit(gives):
            if len(takes) > _MAX_ARGUMENTS or not (
                all(map(self._is_bit, takes)) and (is_claim or self._is_bit(gives))
            ):
                return None
            names = [f"{self._stem}x{i}" for i in range(len(takes))]
            table = self._choose(self._take(2 ** len(takes), is_said=is_said), names)
            head = f"fun {' '.join(names)} => " if names else ""
            return f"({head}{table}{' = true' if is_claim else ''})"
        name, *of = gives.split()
        values = _NUMBERS if gives == "Nat" else self._elements.get(name, ())
        if not values:
            return None
        if gives != "Nat":
            self.used.add(name)
        num_bits = (len(values) - 1).bit_length()
        # Of three values the last stands twice.
        filled = [values[min(i, len(values) - 1)] for i in range(2**num_bits)]
        chosen = self._choose(filled, self._take(num_bits, is_said=is_said))
        return f"({chosen} : {' '.join([name, *map(self._read_type, of)])})"

    def _take(self, num: int, *, is_said: bool) -> list[str]:
        if not is_said:
            return ["true"] * num
        taken = [f"{self._stem}{len(self.bits) + i}" for i in range(num)]
        self.bits += taken
        return taken

    def _choose(self, values: Sequence[str], bits: Sequence[str]) -> str:
        """One of so many values as there are settings of the bits."""
        if not bits:
            return values[0]
        half = len(values) // 2
        yes, no = self._choose(values[:half], bits[1:]), self._choose(values[half:], bits[1:])
        return f"(bif {bits[0]} then {yes} else {no})"

    def _is_bit(self, kind: str) -> bool:
        return kind == "Bool" or self._kinds.get(kind) == "Type"

    def _read_type(self, kind: str) -> str:
        return "Bool" if self._is_bit(kind) else kind
