"""The statement and the axioms of a declaration, asked of Lean by its own commands.

Flows in: the full name of a declaration, and Lean's messages about it. Flows out: the text of the
question, and a ``DeclarationReport``: a fingerprint of the type and the axioms.
The fingerprint is the type as Lean prints it with every implicit argument, instance, universe and
full name, and without notation: two types that print alike in this way are made of the same
constants in the same places. It is compared within one Lean version only.
Not handled here: what the report must be (``judge``); environments that code has tampered with, in
which these commands cannot be believed (``deep``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from proverrl.errors import WorkerError
from proverrl.lang.lean.verify.workers.messages import Elaboration, LeanMessage

# An option that was set by name wins over pp.all, so that each one that hides something is set.
_SHOWN = """deepTerms proofs explicit universes fullNames privateNames instances funBinderTypes
    piBinderTypes letVarTypes""".split()
_NOT_USED = "notation coercions fieldNotation structureInstances match beta".split()
# A text may have set these for all that follows it, our question too.
_LIMITS = ("maxRecDepth 10000", "maxHeartbeats 0")
_PRINTING = (
    *("pp.all true", "pp.maxSteps 10000000"),
    *(f"pp.{name} true" for name in _SHOWN),
    *(f"pp.{name} false" for name in _NOT_USED),
)
# Without these an axiom of a namespace that is open is called by a short name, ours perhaps.
_IN_FULL = (*_LIMITS, "pp.fullNames true", "pp.privateNames true")
_TYPE = (*_IN_FULL, *_PRINTING)
# Without these an axiom is printed with its universes.
_NAMES = ("pp.all false", "pp.explicit false", "pp.universes false")
_CHECK_LINE = len(_TYPE) + 1
_AXIOMS_LINE = _CHECK_LINE + len(_NAMES) + 1
_ELISION = "⋯"
# Lean prints the ``@`` only before a first argument that is implicit.
_TYPED = re.compile(r"@?(?:«[^»]*»|[^\s:«»])+(?:\.\{[^}]*\})? :\s")
# Lean puts a part of a name between these signs where it must, in messages not even there.
_PART = re.compile(r"«([^»]*)»|([^.«»]+)")
_NO_AXIOMS = " does not depend on any axioms"
_SOME_AXIOMS = " depends on axioms:"


@dataclass(frozen=True, slots=True)
class DeclarationReport:
    """Lean's answer about one declaration. ``missing`` holds Lean's complaint when there is no
    such declaration, and then the rest is empty."""

    fingerprint: str = ""
    axioms: tuple[str, ...] = ()
    missing: str = ""


def make_report_question(name: str) -> str:
    """A text without imports that makes Lean print the type and the axioms of a declaration. Its
    options hold to its end: with ``in`` after each, Lean takes half as long again."""
    check, axioms = f"#check @_root_.{name}", f"#print axioms _root_.{name}"
    return "\n".join([*_set(_TYPE), check, *_set(_NAMES), axioms])


def read_report(done: Elaboration, name: str) -> DeclarationReport:
    """Read the answer to ``make_report_question``: one message from each command, at its own place,
    and nothing else; otherwise a ``WorkerError``."""
    if not done.reached_end:
        raise WorkerError(f"Lean did not finish the question about {name}")
    if done.errors:
        return DeclarationReport(missing=done.errors[0].text)
    if len(done.messages) != 2:
        raise WorkerError(f"Lean gave {len(done.messages)} messages about {name}, not 2")
    check, axioms = done.messages
    _expect_place(check, _CHECK_LINE)
    _expect_place(axioms, _AXIOMS_LINE)
    if _ELISION in check.text:
        raise WorkerError(f"Lean left out a part of the type of {name}")
    if _TYPED.match(check.text) is None:
        raise WorkerError(f"Lean printed no type of {name}: {check.text[:200]!r}")
    return DeclarationReport(check.text, parse_axioms(axioms.text, name))


def make_axioms_question(names: Sequence[str]) -> str:
    """A text without imports that makes Lean print the axioms of each declaration, in order."""
    return "\n".join([*_set(_IN_FULL), *(f"#print axioms _root_.{name}" for name in names)])


def _set(options: Sequence[str]) -> list[str]:
    return [f"set_option {option}" for option in options]


def read_axioms(done: Elaboration, names: Sequence[str]) -> dict[str, tuple[str, ...] | None]:
    """Read the answer to ``make_axioms_question``; None where Lean knows no such declaration.
    Raises ``WorkerError`` when a message is not of that kind."""
    if not done.reached_end:
        raise WorkerError("Lean did not finish the question about axioms")
    found: dict[str, tuple[str, ...] | None] = {}
    for message in done.messages:
        index = message.start.line - len(_IN_FULL) - 1
        if not 0 <= index < len(names) or names[index] in found:
            raise WorkerError(f"Lean spoke out of place about axioms: {message.text[:200]!r}")
        found[names[index]] = None
        if message.severity != "error":
            _expect_place(message, message.start.line)
            found[names[index]] = parse_axioms(message.text, names[index])
    if len(found) != len(names):
        raise WorkerError("Lean did not speak about the axioms of every declaration")
    return found


def parse_axioms(text: str, name: str) -> tuple[str, ...]:
    """The axioms in an answer to ``#print axioms``, of one line or several. Raises ``WorkerError``
    unless it is one of Lean's two answers, about this declaration."""
    flat = " ".join(text.split())
    for phrase in (_NO_AXIOMS, _SOME_AXIOMS):
        quoted, found, rest = flat.partition(phrase)
        if not found or not _names(quoted, name):
            continue
        if phrase == _NO_AXIOMS and not rest:
            return ()
        listed = re.fullmatch(r" \[([^\[\]]+)\]", rest)
        if phrase == _SOME_AXIOMS and listed:
            axioms = tuple(part.strip() for part in listed.group(1).split(","))
            if all(axioms):
                return axioms
    raise WorkerError(f"Lean's answer about the axioms of {name} is not understood: {flat[:200]!r}")


def _names(quoted: str, name: str) -> bool:
    """``'name'``, also as the mangled ``'_private.Module.0.name'`` of one that a candidate made
    private: its type is printed with that name too, and is not that of our statement."""
    if len(quoted) < 3 or quoted[0] not in "'`" or quoted[-1] not in "'`":
        return False
    said, asked = _split_name(quoted[1:-1]), _split_name(name)
    if said[:1] == ["_private"] and "0" in said:
        # A macro of the file could ask for a private ``X.name`` in place of ``name``.
        said = said[said.index("0") + 1 :]
    return said == asked


def _split_name(name: str) -> list[str]:
    """The parts of a name, without signs that mark their bounds."""
    return [marked or plain for marked, plain in _PART.findall(name)]


def _expect_place(message: LeanMessage, line: int) -> None:
    if message.severity != "info" or (message.start.line, message.start.column) != (line, 0):
        raise WorkerError(f"Lean spoke out of place: {message.text[:200]!r}")
