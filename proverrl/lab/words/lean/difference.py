"""Looks for a reading on which two propositions disagree, and has Lean prove that they do.

Flows in: a problem of the kind ``formalize`` and a body. Flows out: a theorem: the names can be
read so that one proposition holds of them and the other does not. Types are read as ``Bool``;
constants, predicates, relations and functions on these in every possible way; natural numbers as
those below four; elements of the file's own types as constructors without arguments. The search is
Lean's: ``decide`` goes through all readings.

Two true propositions are equivalent whatever they say, so what is compared is what both say of the
same names, as for contracts what they say of the same call: with two names exchanged a proposition
is another one, although both may be the same up to the order of their binders. Where what is meant
is a theorem, it holds on every reading, and a difference shows that the other one is none. Not
covered, so that nothing is shown: true statements of something else, propositions that bind other
names or in another order, quantifiers over other types than these, more than ``_MAX_BITS`` choices.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import count

from proverrl.lab.words.lean.closed import Closed, read_closed
from proverrl.types import HOLE, Candidate, Problem

_MAX_BITS = 12
_MAX_ARGUMENTS = 2
_NUMBERS = ("0", "1", "2", "3")
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


def ask_difference(problem: Problem, body: str, meant: str) -> list[Candidate]:
    """Candidates to verify; none where no reading is known to try."""
    written, known = read_closed(body), read_closed(meant)
    if written is None or known is None or written.list_names() != known.list_names():
        return []
    given = problem.statement.partition("def Asked : Prop :=")[0]
    text = given + body + meant
    stem = next(s for i in count() if (s := f"bit{'t' * i}") not in text)
    said = set(re.findall(r"\w+", f"{written.says} {known.says}"))
    choices = _Choices(stem, _list_elements(given), dict(known.list_names()))
    found = [choices.read(kind, is_said=name in said) for name, kind in known.list_names()]
    readings = [reading for reading in found if reading is not None]
    if len(readings) < len(found) or len(choices.bits) > _MAX_BITS:
        return []
    chosen = f" ∃ {' '.join(choices.bits)} : Bool," if choices.bits else ""
    derived = () if "deriving" in given else sorted(choices.used)
    lines = [
        *(problem.preamble + given).rstrip().splitlines(),
        *(f"deriving instance DecidableEq for {name}" for name in derived),
        *_DECIDE_ALL.format(stem=stem).splitlines(),
        "set_option synthInstance.maxSize 10000 in",
        "set_option maxRecDepth 10000 in",
        "set_option autoImplicit false in",
        f"theorem differ :{chosen}",
        f"    ¬ ({_read_as(written, readings)} ↔",
        f"      {_read_as(known, readings)}) := by",
        "  decide +kernel",
    ]
    # A bare file: if its definitions clash with what is added, Lean says so and proves nothing.
    file = Problem(f"{problem.id}#differ", problem.language, "file", "", HOLE)
    return [Candidate(file, "\n".join(lines) + "\n")]


def _read_as(closed: Closed, readings: Sequence[str]) -> str:
    """The proposition with its names read so."""
    # Behind an arrow Lean reads it as a proposition, as in a definition, and coerces nothing.
    says = f"(True → ({closed.says}))"
    return f"((fun {closed.groups} => {says}) {' '.join(readings)})" if readings else says


def _list_elements(given: str) -> dict[str, list[str]]:
    """The constructors without arguments of each type that is declared."""
    found = {}
    for match in _TYPE.finditer(given):
        names = [name for name, _ in _CONSTRUCTOR.findall(match.group(2))]
        found[match.group(1)] = [f"{match.group(1)}.{name}" for name in names]
    return found


class _Choices:
    """Terms for names of these types that depend on bits; ``bits`` are those in use, ``used`` the
    types with constructors of their own."""

    def __init__(
        self, stem: str, elements: Mapping[str, Sequence[str]], kinds: Mapping[str, str]
    ) -> None:
        self._stem = stem
        self._elements = elements
        self._kinds = kinds
        self.bits: list[str] = []
        self.used: set[str] = set()

    def read(self, kind: str, *, is_said: bool) -> str | None:
        """A term of a type, or None for a type that has no readings here. A name in neither
        proposition gets one fixed term."""
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
        # The last one fills what is left of a power of two.
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
