"""Programs of Dafny benchmarks as problems: what their texts need before they can be statements.

Flows in: a program. Flows out: a ``Problem``, and a reference where one can be cut from the text.
Whole programs with hints to be added are problems of the kind ``annotate``. HumanEval-Dafny
(JetBrains Research) marks invariants and assertions by comments: one such place is a hole, several
make an ``annotate`` problem. miniF2F-Dafny (dafny-lang/miniF2F) has lemmas with empty bodies, which
are the holes. The definitions that it includes are inconsistent (``log`` of any argument, ``pos``
of any number: each alone proves false). A proof which may use them is worth nothing, so a lemma
that names one is refused. Two things stand between DafnyBench's text and a statement that can be
kept to the token. The shim that made ``for`` loops readable for Dafny 2.3 numbered its variables
anew in each text. And in two programs the removal of hints took the only line of a function's body
with it; it is restored. The code of a method with a contract can be cut out, to be written again
(the kind ``program``). Not covered: code of several methods at once, code of a class.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proverrl.errors import ProblemError
from proverrl.files.lines import read_text
from proverrl.lang.dafny.audit.strip import DAFNY_4, cut_lines, explain_dafny_4, read_whole
from proverrl.lang.dafny.known_bugs.misjudged import list_elements
from proverrl.lang.dafny.syntax.declarations import parse_text
from proverrl.lang.dafny.syntax.text import scan_tokens
from proverrl.types import ANNOTATE, HOLE, Problem

_LOST_BODY = "{if (n == 0) then 1 else a * power(a, n - 1)}"
# The last line that is left of the function, for each program whose body was lost.
_BODY_WAS_LOST = {
    "cs245-verification_tmp_tmp0h_nxhqp_A8_Q1": "  requires 0 <= n;\n",
    "cs245-verification_tmp_tmp0h_nxhqp_power": "  requires 0 <= a && 0 <= n;\n",
}
_PLACE = re.compile(
    r"^[ \t]*//[ ]?(invariants|assert)-start[^\n]*\n(.*?)^[ \t]*//[ ]?\1-end[^\n]*$"
    r"|^[^\n]*//[ ]?assert-line[^\n]*$",
    re.MULTILINE | re.DOTALL,
)
_INCLUDE = re.compile(r'^[ \t]*include[ \t]+"([^"]*)"[ \t]*\n?', re.MULTILINE)
_EMPTY_BODY = re.compile(r"\{\s*\}\s*\Z")


def make_annotate(
    problem_id: str, blank: str, *, origin: str, metadata: Mapping[str, Any] | None = None
) -> Problem:
    """A program to be given back with hints."""
    return Problem(
        id=problem_id,
        language="dafny",
        kind=ANNOTATE,
        preamble="",
        statement=f"{blank}\n{HOLE}",
        split="heldout",
        origin=origin,
        metadata={**({"dialect": DAFNY_4} if explain_dafny_4(blank) else {}), **(metadata or {})},
    )


def restore_body(name: str, blank: str, truth: str) -> str:
    """The program ``blank`` with the body that it lost, if it is one of the two."""
    head = _BODY_WAS_LOST.get(name)
    if head is None or _LOST_BODY in blank or _LOST_BODY not in truth or blank.count(head) != 1:
        return blank
    return blank.replace(head, f"{head}{_LOST_BODY}\n")


def number_in_order(text: str) -> str:
    """The text with the shim's variables numbered in order of first occurrence."""
    seen: dict[str, int] = {}
    return re.sub(r"\b(st|lim)\d+\b", lambda m: f"{m[1]}{seen.setdefault(m[0], len(seen))}_", text)


def cut_marked(problem_id: str, truth: str, origin: str) -> tuple[Problem, str]:
    """The problem of a marked program, and its reference body. Raises ``ProblemError`` if nothing
    is marked."""
    places = list(_PLACE.finditer(truth))
    if not places:
        raise ProblemError("no invariants or assertions are marked: nothing is to be written")
    if len(places) > 1:
        blank = truth
        for place in reversed(places):
            blank = cut_lines(blank, place.start(), place.end())
        return make_annotate(problem_id, blank, origin=origin), truth
    place = places[0]
    is_loop = place[1] == "invariants"
    body = place[2] if place[2] is not None else place[0].rpartition("//")[0]
    indent = place[0][: len(place[0]) - len(place[0].lstrip())]
    problem = Problem(
        id=problem_id,
        language="dafny",
        kind="invariants" if is_loop else "statements",
        preamble="",
        statement=f"{truth[: place.start()]}{indent}{HOLE}{truth[place.end() :]}",
        split="heldout",
        origin=origin,
        metadata={"dialect": DAFNY_4} if explain_dafny_4(truth) else {},
    )
    return problem, body.strip()


def list_coded(truth: str) -> list[tuple[str, str, str]]:
    """The methods of a program that promise something: name, the program with a hole in the place
    of the code, and the code. Raises ``ProblemError`` when it cannot be read or has none."""
    program = read_whole(truth)
    found = []
    for element in program.root.slots[0].elements:
        kinds = [slot.kind for slot in element.slots]
        if element.word != "method" or kinds != ["member-clauses", "statements"]:
            continue
        clauses, code = element.slots
        if any(program.tokens[clause.start].text == "ensures" for clause in clauses.elements):
            # The slot is what stands between the braces.
            start, end = program.places[code.start - 1], program.end(code.end)
            statement = f"{truth[:start]}\n{HOLE}\n{truth[end:]}"
            found.append((element.name, statement, truth[start:end]))
    names = Counter(name for name, _, _ in found)
    if repeated := [name for name, num in names.items() if num > 1]:
        raise ProblemError(f"{repeated[0]!r} is declared more than once")
    if not found:
        raise ProblemError("no method outside classes has a contract and code")
    return found


def cut_lemma(path: Path, text: str) -> str:
    """The statement of a lemma with an empty body, without the files that it includes. Raises
    ``ProblemError`` if it needs what they define, or has no empty body."""
    declared = _list_included(path, text)
    statement = _INCLUDE.sub("", text).strip() + "\n"
    words = {word for kind, word in scan_tokens(statement) if kind == "name"} - {path.stem}
    if used := sorted(words & declared):
        raise ProblemError(
            f"it leans on {', '.join(used[:5])} of the definitions that it includes; their "
            "axioms prove false, so that no proof with them counts"
        )
    body = _EMPTY_BODY.search(statement)
    if body is None:
        raise ProblemError("it does not end in an empty body {}")
    return f"{statement[: body.start()]}{{\n  {HOLE}\n}}\n"


def _list_included(path: Path, text: str, seen: frozenset[Path] = frozenset()) -> set[str]:
    """The names that included files declare, and those that they include."""
    names: set[str] = set()
    for match in _INCLUDE.finditer(text):
        place = (path.parent / match[1]).resolve()
        if place in seen:
            continue
        included = read_text(place)
        program = parse_text(included, admitted=True, trusts=True)
        names |= {e.name for e in list_elements(program.root)} | program.constructors
        names |= _list_included(place, included, seen | {place})
    return names
