"""Units for what a statement in words is about: ``n`` is given in metres, ``k`` exceeds 2 metres.

Flows in: a statement as ``Phrase``s, its names that stand for whole numbers, a source of words.
Flows out: the same statement, where numbers carry a unit, and sentences that give names their unit.
What is added to or compared with each other has one unit, so that nothing is ever converted and the
numbers stay what they are: a unit never changes what is meant. Not handled here: values that are
multiplied, divided, counted or computed by a function, nor what is compared with such; they, and
names with which nothing is compared, have no unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from proverrl.lang.english import CLAIMS, RELATIONS, English, Forms, Phrase, forms, list_names

UNITS = tuple("metre second gram litre coin page".split())
MEASURES: Forms = forms(
    "{0} {is_} given in {1} | {0} {is_} measured in {1} | {0} {is_} counted in {1}"
    "|| {0} {is_} in {1}"
)
_OPAQUE = "?"
"""Stands for whatever has no unit here; no name is written so."""


def add_units(
    phrases: Sequence[Phrase], amounts: Sequence[str], english: English
) -> tuple[list[Phrase], list[str]]:
    """The claims with units at their numbers, and what gives the names their units; ``amounts`` are
    the names that may have one."""
    found = _Kinds()
    for phrase in phrases:
        found.read(phrase)
    groups: dict[str, list[str]] = {}
    for name in amounts:
        if name in found.links:
            groups.setdefault(found.find(name), []).append(name)
    # All of a group, bound names too, must be amounts.
    members = {kind: {n for n in found.links if found.find(n) == kind} for kind in groups}
    fit = {kind: names for kind, names in groups.items() if members[kind] == set(names)}
    units = dict(zip(fit, english.draw(UNITS, len(UNITS)), strict=False))
    said = []
    for kind, unit in units.items():
        is_ = "is" if len(fit[kind]) == 1 else "are"
        said.append(english.choose(MEASURES).format(list_names(fit[kind]), f"{unit}s", is_=is_))
    return [found.label(phrase, units) for phrase in phrases], said


@dataclass
class _Kinds:
    """Which names are of one kind; ``links`` lead to the name that stands for the kind."""

    links: dict[str, str] = field(default_factory=lambda: {_OPAQUE: _OPAQUE})

    def find(self, name: str) -> str:
        while self.links.setdefault(name, name) != name:
            name = self.links[name]
        return name

    def join(self, names: Iterable[str]) -> str:
        """Make these one kind; a number, which is of any kind, is an empty text."""
        given = [self.find(name) for name in names if name]
        if not given:
            return ""
        kind = _OPAQUE if _OPAQUE in given else given[0]
        self.links |= dict.fromkeys(given, kind)
        return kind

    def read(self, phrase: Phrase) -> str:
        """The kind of a value, with all that it tells of others; a claim has none."""
        if phrase.op == "name":
            return self.find(phrase.text)
        if phrase.op == "number":
            return ""
        kinds = [self.read(arg) for arg in phrase.args]
        if phrase.op == "if":
            return self.join(kinds[1:])
        if phrase.op in ("+", "-", "neg"):
            return self.join(kinds)
        if phrase.op == "*" and kinds.count("") == 1:
            return "".join(kinds)
        if phrase.op in RELATIONS or phrase.op == "chain":
            self.join(kinds)
        elif phrase.op in ("all", "some"):
            self.join([*phrase.text.split(), _OPAQUE])
        elif phrase.op not in CLAIMS:
            self.join([*kinds, _OPAQUE])
        return _OPAQUE

    def label(self, phrase: Phrase, units: dict[str, str], unit: str = "") -> Phrase:
        """The same with a unit at each number that has one; ``unit`` is that of what holds it."""
        if phrase.op == "number":
            return replace(phrase, text=f"{phrase.text} {unit}") if unit else phrase
        if phrase.op == "name":
            return phrase
        kinds = [self.read(arg) for arg in phrase.args]
        inner = [""] * len(kinds)
        if phrase.op in RELATIONS or phrase.op in ("chain", "+", "-", "neg"):
            unit = next((units[k] for k in kinds if k in units), unit)
            inner = [unit] * len(kinds)
        elif phrase.op == "if":
            unit = next((units[k] for k in kinds[1:] if k in units), unit)
            inner = ["", unit, unit]
        elif phrase.op == "*":
            # Three times so many metres: the number has no unit.
            inner = [unit if kind else "" for kind in kinds]
        args = zip(phrase.args, inner, strict=True)
        return replace(phrase, args=tuple(self.label(arg, units, own) for arg, own in args))
