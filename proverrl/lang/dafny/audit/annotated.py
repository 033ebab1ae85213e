"""The audit of annotated programs: what is not a hint must be ours, token by token.

Flows in: a problem whose statement is a whole program, and the program that a policy gave back.
Flows out: findings; none means that the second is the first with proof hints added. Both are walked
together. An element that is not the next one of ours must be a hint (``hints``). No name that a
hint adds may occur where it could change what our text means. Not covered: a contract of ours that
is weak. Refused although honest: a hint inside an expression that is not the body of a function.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from proverrl.errors import ProblemError
from proverrl.lang.dafny.audit.files import FILE_ATTRIBUTES, audit_program
from proverrl.lang.dafny.audit.hints import AddedHint, read_hint
from proverrl.lang.dafny.known_bugs.believed import find_bit_measures, has_bit_types
from proverrl.lang.dafny.known_bugs.unallocated import find_empty_types
from proverrl.lang.dafny.syntax.cursor import GrammarError, is_name, list_declared, list_methods
from proverrl.lang.dafny.syntax.parsed import Element, ElementSlot
from proverrl.lang.dafny.syntax.text import mangle
from proverrl.lang.dafny.syntax.tokens import Token, read_file
from proverrl.lang.records import Finding
from proverrl.text_cache import cache_texts
from proverrl.types import HOLE, Problem

# What our text may carry, and so a text that must be ours with hints.
_OUR_ATTRIBUTES = FILE_ATTRIBUTES | {"autocontracts"}
# What claims no more and no less with them.
_STEERING_ATTRIBUTES = frozenset(
    """autocontracts isolate_assertions nowarn split_here tailrecursion test
    vcs_split_on_every_assert verify""".split()
)
# Names that Dafny itself gives a meaning when a program declares them.
_MAGIC_NAMES = frozenset("Valid Repr Main MoveNext".split())
_METHOD_WORDS = ("method", "constructor", "iterator")
_LEMMA_WORDS = ("lemma", "colemma")
_DECLARING_WORDS = (*_METHOD_WORDS, *_LEMMA_WORDS, "function", "predicate", "copredicate")


@dataclass(frozen=True, slots=True)
class OurProgram:
    """The program of a problem, read once: its tokens, elements, names and attributes."""

    tokens: list[Token]
    root: Element
    words: frozenset[str]
    methods: frozenset[str]
    lemmas: frozenset[str]


def get_program_text(problem: Problem) -> str:
    """The hints-removed program of an annotate problem; raises ``ProblemError`` if it has none."""
    before, _, after = problem.statement.partition(HOLE)
    if after.strip():
        raise ProblemError(f"problem {problem.id!r}: text follows the hole of a whole program")
    return problem.preamble + before


def read_our_program(problem: Problem, *, is_asked: bool = False) -> OurProgram:
    """Read a problem's program; raises ``ProblemError`` when nothing could be held to it. If
    ``is_asked``, a newer prover is asked about what only an older one believes."""
    program, findings = _read_program(get_program_text(problem))
    findings = [finding for finding in findings if not (finding.older and is_asked)]
    if findings or program is None:
        found = f"line {findings[0].line}: {findings[0].message}"
        raise ProblemError(f"problem {problem.id!r}: no proof can be held to its program: {found}")
    return program


@cache_texts
def _read_program(text: str) -> tuple[OurProgram | None, list[Finding]]:
    program, findings = audit_program(text, _OUR_ATTRIBUTES)
    findings = [*findings, *(find_empty_types(program) if program else ())]
    if program is None or any(not finding.older for finding in findings):
        return None, [finding for finding in findings if not finding.older]
    tokens, methods = program.tokens, list_methods(program.tokens)
    words = frozenset(token.text for token in tokens if is_name(token))
    lemmas = list_declared(tokens, *_LEMMA_WORDS) - methods
    ours = OurProgram(tokens, program.root, words, frozenset(methods), frozenset(lemmas))
    return ours, findings


def audit_annotated(problem: Problem, body: str) -> list[Finding]:
    """Findings about an annotated program; an empty list admits it. Raises ``ProblemError`` when
    our program assumes or leaves out something or is not in the grammar."""
    read_our_program(problem)
    aligned = _align(get_program_text(problem), body)
    return aligned if isinstance(aligned, list) else aligned.older


def align(problem: Problem, body: str) -> Alignment | list[Finding]:
    """The place of each of our program's tokens in an annotated one, or why it is none. Nothing is
    said of what only an older prover believes. Raises ``ProblemError`` as ``audit_annotated``."""
    read_our_program(problem, is_asked=True)
    aligned = _align(get_program_text(problem), body)
    return [f for f in aligned if not f.older] if isinstance(aligned, list) else aligned


def align_admitted(problem: Problem, body: str) -> Alignment:
    """As ``align``, of a body that the audit admitted; raises ``ProblemError`` if it did not."""
    alignment = align(problem, body)
    if isinstance(alignment, list):
        raise ProblemError(
            f"problem {problem.id!r}: a body that is not its program was not refused"
        )
    return alignment


@cache_texts
def _align(text: str, body: str) -> Alignment | list[Finding]:
    ours, _ = _read_program(text)
    assert ours is not None
    program, findings = audit_program(body, _OUR_ATTRIBUTES)
    older = [finding for finding in findings if finding.older]
    if program is None or older != findings:
        return findings
    alignment = Alignment(ours, program.tokens, older)
    if not alignment.match(ours.root, program.root):
        return [alignment.report(), *older]
    names = list(_check_names(ours, program.tokens, alignment.added))
    return [*names, *older] if names else alignment


def list_entry_names(source: str, *words: str) -> frozenset[str]:
    """Dafny's possible names for the entries of a program's declarations, without their paths.

    ``words`` are the declaring words that count; none means all of them.
    """
    tokens, _ = read_file(source)
    names = frozenset(mangle(name) for name in list_declared(tokens, *(words or _DECLARING_WORDS)))
    return names if words else names | {"__ctor"}


@dataclass(slots=True)
class Alignment:
    """A walk over our program and theirs: the hints, and the places of our tokens in theirs; and
    what in theirs an older prover believes."""

    ours: OurProgram
    theirs: list[Token]
    older: list[Finding] = field(default_factory=list)
    added: list[AddedHint] = field(default_factory=list)
    matched: dict[int, int] = field(default_factory=dict)
    _member: Element | None = None
    _worst: tuple[int, Finding] | None = None

    def report(self) -> Finding:
        """The finding at the last place that was reached."""
        assert self._worst is not None
        return self._worst[1]

    def match(self, ours: Element, theirs: Element) -> bool:
        """True when theirs is ours with hints in its slots."""
        num_added, outer = len(self.added), self._member
        if ours.word in _DECLARING_WORDS:
            self._member = ours
        matched = self._match_inside(ours, theirs)
        self._member = outer
        if not matched:
            del self.added[num_added:]
        return matched

    def _match_inside(self, ours: Element, theirs: Element) -> bool:
        our_place, their_place = ours.start, theirs.start
        for our_slot, their_slot in zip(ours.slots, theirs.slots, strict=False):
            if not self._match_run(our_place, our_slot.start, their_place, their_slot.start):
                return False
            if (our_slot.kind, our_slot.ghost) != (their_slot.kind, their_slot.ghost):
                self._note_change(their_slot.start, our_slot.start)
                return False
            if not self._align(our_slot, their_slot):
                return False
            our_place, their_place = our_slot.end, their_slot.end
        if len(ours.slots) != len(theirs.slots):
            self._note_change(their_place, our_place)
            return False
        return self._match_run(our_place, ours.end, their_place, theirs.end)

    def _match_run(self, our_place: int, our_end: int, their_place: int, their_end: int) -> bool:
        while our_place < our_end and their_place < their_end:
            mine, other = self.ours.tokens[our_place], self.theirs[their_place]
            if (mine.kind, mine.text) != (other.kind, other.text):
                break
            # A match that is given up is written over by the one that holds.
            self.matched[our_place] = their_place
            our_place, their_place = our_place + 1, their_place + 1
        if our_place == our_end and their_place == their_end:
            return True
        self._note_change(their_place, our_place)
        return False

    def _align(self, our_slot: ElementSlot, their_slot: ElementSlot) -> bool:
        """Our elements in their order, with only hints between them.

        Taking the first that matches is enough: what matches one of ours twice is a hint.
        """
        num_matched = 0
        for element in their_slot.elements:
            is_due = num_matched < len(our_slot.elements)
            if is_due and self.match(our_slot.elements[num_matched], element):
                num_matched += 1
                continue
            try:
                hint = read_hint(self.theirs, their_slot, element)
            except GrammarError as error:
                self._note(element.start, error.finding)
                return False
            if refused := self._refuse_names_of_ours(hint):
                self._note(element.start, refused)
                return False
            self._add(hint)
        if num_matched < len(our_slot.elements):
            self._note_change(their_slot.end, our_slot.elements[num_matched].start)
            return False
        return True

    def _refuse_names_of_ours(self, hint: AddedHint) -> Finding | None:
        """A text that declares or assigns a name of ours is no hint, whatever comes after."""
        if hint.added is not None and hint.added.text in self.ours.words | _MAGIC_NAMES:
            why = "is in use: a declaration that is added needs a new name"
            return _refuse_name(hint.added, why)
        taken = next((name for name in hint.assigned if name.text in self.ours.words), None)
        return _refuse_assignment(taken) if taken is not None else None

    def _add(self, hint: AddedHint) -> None:
        member, hint.words = self._member, self.ours.words
        if member is not None:
            inside = self.ours.tokens[member.start : member.end]
            hint.member, hint.words = member.start, frozenset(t.text for t in inside if is_name(t))
        self.added.append(hint)

    def _note_change(self, their_place: int, our_place: int) -> None:
        mine, other = self.ours.tokens[our_place], self.theirs[their_place]
        found = repr(other.text) if other.text else "the end"
        message = (
            f"the program was changed: expected {mine.text or 'the end'!r} "
            f"(line {mine.line} of the problem), found {found}"
        )
        refused = other.refuse("cheat", "changed-program", message)
        if [token.text for token in self.theirs[their_place : their_place + 2]] == ["{", ":"]:
            name = self.theirs[their_place + 2]
            if name.text in _STEERING_ATTRIBUTES:
                message = f"the attribute {name.text!r} may not be added to the program"
                refused = name.refuse("syntax", "attributes", message)
        self._note(their_place, refused)

    def _note(self, place: int, finding: Finding) -> None:
        """Keep the finding at the furthest place; of two at one place, the later is about more."""
        if self._worst is None or place >= self._worst[0]:
            self._worst = (place, finding)


def _check_names(
    ours: OurProgram, theirs: list[Token], added: list[AddedHint]
) -> Iterator[Finding]:
    declared: set[str] = set()
    for hint in added:
        if hint.added is not None:
            if hint.added.text in declared:
                yield _refuse_name(hint.added, "is declared twice")
            declared.add(hint.added.text)
    lemmas = ours.lemmas | list_declared(theirs, *_LEMMA_WORDS) - ours.methods
    is_bits = has_bit_types(ours.tokens)
    ghosts: dict[int, set[str]] = {}
    for hint in added:
        own = ghosts.setdefault(hint.member, set())
        yield from _check_hint(hint, own, lemmas, ours)
        yield from find_bit_measures(theirs[hint.start : hint.end], is_bits=is_bits)
        for place in range(hint.start, hint.end):
            token = theirs[place]
            if token.text in ours.methods and theirs[place + 1].text in ("(", "<"):
                yield _refuse_name(token, "is a method; only lemmas and functions may be called")


def _check_hint(
    hint: AddedHint, ghosts: set[str], lemmas: frozenset[str] | set[str], ours: OurProgram
) -> Iterator[Finding]:
    """``ghosts`` are the variables that earlier hints of the same declaration added."""
    if hint.added is None:
        for name in hint.local:
            if name.text in hint.words | _MAGIC_NAMES:
                yield _refuse_name(name, "would capture a name of the program")
            ghosts.add(name.text)
    for name in hint.assigned:
        if name.text not in ghosts:
            yield _refuse_assignment(name)
    for name in hint.called:
        reveals = name.text.startswith("reveal_") and name.text[7:] in ours.words
        if name.text not in lemmas and not reveals:
            yield _refuse_name(name, "is not a lemma; only lemmas may be called")


def _refuse_assignment(name: Token) -> Finding:
    message = f"{name.text!r} may not be assigned: a hint may only update ghost variables that "
    message += "hints declared, under names that the program does not use"
    return name.refuse("cheat", "assignment", message)


def _refuse_name(name: Token, why: str) -> Finding:
    return name.refuse("cheat", "names", f"{name.text!r} {why}")
