"""Forgets the program of a problem: what is left proves a goal only by what the policy wrote.

Flows in: an accepted candidate's file, parsed, and which of its tokens are the policy's. Flows out:
the same file in which our code is unknown: behind each assignment of ours its left-hand sides are
havocked, our functions and constants lose their bodies, and what our other declarations promise is
taken away. What the policy wrote stays as it is, its conjunctions as one clause each. Lines stay.
Not covered: what is known from types alone, the body of a function that holds the hole, extreme
predicates, the values that a pattern binds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from proverrl.lang.dafny.known_bugs.misjudged import list_elements
from proverrl.lang.dafny.syntax.cursor import is_name, list_methods
from proverrl.lang.dafny.syntax.parsed import Element, ParsedProgram
from proverrl.lang.dafny.verify.walls.edited import (
    CALLABLES,
    FUNCTIONS,
    WITH_STATEMENTS,
    EditedProgram,
    OwnedProgram,
    find_begin,
    list_members,
)
from proverrl.lang.dafny.verify.walls.questions import CLAIMS


def forget_program(
    owned: OwnedProgram, holders: Sequence[Element], *, keep_promises: bool
) -> EditedProgram:
    """The file without its program but for ``holders``; code of the policy's is forgotten as ours
    is. ``keep_promises``: what our other declarations ensure is not taken away, and may be called
    for."""
    found = EditedProgram(owned)
    methods = list_methods(owned.program.tokens)
    for member in list_members(owned.program.root):
        if member not in holders:
            if member.start not in owned.theirs:
                _empty(found, member, keep_promises=keep_promises)
            continue
        if member.start not in owned.theirs:
            _Havoc(found, member, methods).walk(member)
        else:
            _drop_demands(found, member)
        _split_clauses(found, member)
    if not keep_promises:
        _drop_calls(found)
    _drop_reveals(found, {holder.name for holder in holders})
    return found


def _drop_demands(found: EditedProgram, member: Element) -> None:
    """The demands of a policy's declaration may be a fact of the program, without which its
    calls would fall, and a bug inside it with them."""
    for clause in member.slots[0].elements if member.slots else ():
        if clause.word == "requires":
            found.blank(clause.start, clause.end)


def _drop_calls(found: EditedProgram) -> None:
    """Take away where the policy calls what is ours, which may hold hints, for what it ensures."""
    program, theirs = found.program, found.owned.theirs
    members = [m for m in list_members(program.root) if m.word in WITH_STATEMENTS]
    ours = {m.name for m in members if m.start not in theirs}
    for element in list_elements(program.root):
        words = [token.sign for token in program.tokens[element.start : element.end]]
        calls = words[-1] == ";" and words[-2] == ")" and ":=" not in words and ":|" not in words
        is_call = is_name(program.tokens[element.start]) or words[0] == "this"
        if element.start in found.owned.hints and is_call and calls and not ours.isdisjoint(words):
            found.blank(element.start, element.end)


def _drop_reveals(found: EditedProgram, kept: Set[str]) -> None:
    """Take away where a function is revealed that lost its body, but for those ``kept``: Dafny 4
    finds nothing to reveal, and reads no more of the text."""
    tokens, program = found.program.tokens, found.program
    emptied = found.names - kept
    for element in list_elements(program.root):
        inside = tokens[element.start + 1 : element.end]
        if tokens[element.start].text not in ("reveal", "hide") or emptied.isdisjoint(
            token.text for token in inside
        ):
            continue
        left, start = [], element.start + 1
        for place in range(start, element.end):
            if tokens[place].text in (",", ";"):
                names = [token.text for token in tokens[start:place] if is_name(token)]
                left += [program.cut(start, place)] if names and names[-1] not in emptied else []
                start = place + 1
        found.blank(element.start, element.end)
        if left:
            found.add(element.end, f" {tokens[element.start].text} {', '.join(left)};")


def _empty(found: EditedProgram, element: Element, *, keep_promises: bool) -> None:
    """Take the body, and the promises, of a declaration of ours that no hint touches."""
    program = found.program
    words = [token.text for token in program.tokens[element.start : element.end]]
    if element.word == "const":
        if ":=" in words and ":" in words[: words.index(":=")]:
            end = element.end - (words[-1] == ";")
            found.blank(element.start + words.index(":="), end)
            found.names.add(element.name)
        return
    if element.word not in CALLABLES or not element.slots:
        return
    clauses = element.slots[0]
    promises = [clause for clause in clauses.elements if clause.word == "ensures"]
    if element.word in FUNCTIONS and clauses.end == element.end and not promises:
        # Nothing was known of it.
        return
    found.names.add(element.name)
    for clause in [] if keep_promises else promises:
        found.blank(clause.start, clause.end)
    if element.word != "constructor":
        found.blank(clauses.end, element.end)


class _Havoc:
    """Havocs what the code of one declaration assigns."""

    def __init__(self, found: EditedProgram, member: Element, methods: Set[str]) -> None:
        self._found = found
        self._program = found.program
        self._words = [token.text for token in found.program.tokens]
        self._methods = methods
        self._names = found.variables.setdefault(member.start, set())
        clauses = member.slots[0].elements if member.slots else []
        self._returns = self._list_returns(member, clauses[0].start if clauses else member.end)
        frames = (
            found.program.cut(e.start + 1, e.end).rstrip(";")
            for e in clauses
            if e.word == "modifies"
        )
        self._frame = ", ".join(frame for frame in frames if "{:" not in frame)

    def _list_returns(self, member: Element, end: int) -> list[str]:
        words = self._words[member.start : end]
        if "returns" not in words:
            return []
        start = member.start + words.index("returns") + 1
        names, depth = [], 0
        for place in range(start, member.end):
            depth += (self._words[place] in "([{<") - (self._words[place] in ")]}>")
            if depth == 0:
                break
            if depth == 1 and self._words[place + 1] == ":":
                names.append(self._words[place])
        return names

    def walk(self, element: Element) -> None:
        for slot in element.slots:
            for inner in slot.elements:
                forgets = slot.kind == "statements" and inner.start not in self._found.owned.hints
                if forgets:
                    self._forget(inner)
                # The assignments of a forall statement stand for one.
                if not forgets or inner.word != "forall":
                    self.walk(inner)

    def _forget(self, element: Element) -> None:
        start, end = find_begin(self._program, element), element.end
        word = self._words[start]
        if word == "return":
            self._forget_return(start, end)
        elif word == "forall":
            self._forget_elements(start, end)
        elif word in ("if", "while"):
            self._forget_guard(element, start)
        elif word in ("var", "ghost"):
            self._forget_variables(start, end)
        elif self._words[end - 1] == ";" and (
            is_name(self._program.tokens[start]) or word in ("this", "(")
        ):
            self._forget_update(start, end)

    def _forget_guard(self, element: Element, start: int) -> None:
        """A condition in code of the policy's may be what proves our claim. It is evaluated once,
        for what hides in it."""
        end = element.slots[0].start - (element.slots[0].kind == "statements")
        guard = self._program.cut(start + 1, end)
        if element.start in self._found.owned.theirs and guard not in ("", "*"):
            self._found.blank(start + 1, end)
            self._found.add(start + 1, " *")
            name = f"guard_{len(self._found.insertions)}"
            self._found.insertions.append(
                (self._program.places[element.start], f"ghost var {name} := {guard}; ")
            )

    def _forget_return(self, start: int, end: int) -> None:
        if end - start > 2 and self._returns:
            names = ", ".join(self._returns)
            place = self._program.places[start]
            self._found.kept[place : place + len("return")] = " " * len("return")
            self._found.insertions.append((place, f"{names} := "))
            self._found.add(end, f"{_write_havoc(self._returns)} return;")
            self._names.update(self._returns)

    def _forget_elements(self, start: int, end: int) -> None:
        """The arrays whose elements a forall statement assigns; where it assigns those of other
        values, or fields, all that the declaration may modify."""
        frames = set()
        for place in range(start, end):
            before = self._words[place - 2 : place]
            if self._words[place] != ":=" or not (before[1] == "]" or before[0] == "."):
                continue
            depth, at = 0, place - 1
            while before[1] == "]" and at > start:
                depth += (self._words[at] == "]") - (self._words[at] == "[")
                at -= 1
                if depth == 0:
                    break
            root = self._words[at]
            self._names.add(root)
            is_array = is_name(self._program.tokens[at]) and self._words[at - 1] != "."
            frames.add(root if is_array else self._frame)
        for frame in sorted(frames - {""}):
            self._found.add(end, f" modify {frame};")

    def _find_assignment(self, start: int, end: int) -> int | None:
        depth = 0
        for place in range(start, end):
            depth += (self._words[place] in "([{") - (self._words[place] in ")]}")
            if depth == 0 and self._words[place] in (":=", ":|"):
                return place
        return None

    def _forget_variables(self, start: int, end: int) -> None:
        place = self._find_assignment(start, end)
        if place is None:
            return
        start += 2 if self._words[start] == "ghost" else 1
        names = []
        for at in range(start, place):
            is_own = is_name(self._program.tokens[at]) and self._words[at - 1] in ("var", ",", "(")
            if is_own and self._words[at + 1] != "(" and self._words[at] != "_":
                names.append(self._words[at])
        names = [n for n in names if n not in self._program.constructors]
        self._leave(start, end, names)

    def _forget_update(self, start: int, end: int) -> None:
        place = self._find_assignment(start, end)
        sides = [] if place is None else self._list_sides(start, place)
        self._leave(start, end, sides)

    def _list_sides(self, start: int, end: int) -> list[str]:
        sides, depth, first = [], 0, start
        for place in range(start, end + 1):
            if place == end or (depth == 0 and self._words[place] == ","):
                sides.append(self._program.cut(first, place))
                self._names.update(
                    self._words[i]
                    for i in range(first, place)
                    if is_name(self._program.tokens[i])
                    and (i == first or self._words[i - 1] == ".")
                )
                first = place + 1
            depth += (self._words[place] in "([{") - (self._words[place] in ")]}")
        return sides

    def _leave(self, start: int, end: int, sides: list[str]) -> None:
        """The things unknown behind a statement: what it assigns, and what a call may modify."""
        self._names.update(side for side in sides if side.isidentifier())
        text = _write_havoc(sides)
        calls = any(
            self._words[i] in self._methods and self._words[i + 1] in ("(", "<")
            for i in range(start, end - 1)
        )
        if calls and self._frame:
            text += f" modify {self._frame};"
            fields = (e for e in list_members(self._program.root) if e.word == "var")
            self._names.update(field.name for field in fields)
        if text:
            self._found.add(end, text)


def _write_havoc(sides: Iterable[str]) -> str:
    return "".join(f" {side} := *;" for side in sides)


def _split_clauses(found: EditedProgram, holder: Element) -> None:
    """Each conjunct of the policy's clauses as a clause of its own, so that each stands alone."""
    program = found.program
    for element in list_elements(holder):
        word = program.tokens[element.start].text
        if element.start not in found.owned.hints or word not in CLAIMS:
            continue
        end = element.end - (program.tokens[element.end - 1].text == ";")
        edges = [program.places[place] for place in _list_conjunctions(program, element, end)]
        for edge in edges:
            found.kept[edge : edge + 2] = "; " if word == "assert" else "  "
            found.insertions.append((edge + 2, f"{word} "))
        if edges:
            firsts = [program.places[element.start], *(edge + 1 for edge in edges)]
            lasts = [*(edge + 1 for edge in edges), program.end(element.end - 1)]
            found.conjuncts[element.start] = list(zip(firsts, lasts, strict=True))


def _list_conjunctions(program: ParsedProgram, clause: Element, end: int) -> list[int]:
    """The places of ``&&`` between the conjuncts of a clause; a leading one is none of them."""
    for chain in program.chains:
        operators = {operator for _, operator, _ in chain[1:-1]}
        leads = range(clause.start + 1, clause.start + 3)
        if chain[0][0] in leads and chain[-1][0] == end and operators == {"&&"}:
            return [sign for _, _, sign in chain[1:-1]]
    return []
