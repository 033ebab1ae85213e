"""Questions put into an accepted program, and what of it fails.

Flows in: a program, which of its tokens the policy wrote, edits and questions. Flows out: the
claims and questions that fail when Dafny verifies it. A question is a claim at a place, on a path
of its own, so that it lends nothing to what follows. Lines stay. Not handled here: what follows
from the answers (``relevance``, ``consequence``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterator, Sequence

from proverrl.errors import WorkerError
from proverrl.lang.dafny.misjudged import list_elements
from proverrl.lang.dafny.syntax.parsed import Element, ElementSlot, SlotKind
from proverrl.lang.dafny.walls.edited import (
    CALLABLES,
    WITH_STATEMENTS,
    EditedProgram,
    OwnedProgram,
    RewrittenText,
    find_word,
)
from proverrl.lang.dafny.workers.reply import LIMIT_OUTCOMES, Reply, ReplyMessage

AskFailures = Callable[[str], Awaitable[Reply]]
"""Has a program verified that may assume and leave out bodies; all that fails is named."""

Key = tuple[int, str]
"""A claim of ours by the number of its first token among ours, and which of its obligations; or a
place, and which question is asked there."""

CLAIMS = {"invariant": ("on entry", "maintained"), "ensures": ("",), "assert": ("",)}
"""What claims something, and its obligations as Dafny tells them apart."""

FALSE = "false"
GAVE_UP = "the prover ran out of its limit"
_OUTCOMES = ("verified", "error", "errors", *LIMIT_OUTCOMES)
_LOOPS = ("while", "for")
_CODE = ("method", "constructor", "iterator")
_ASKED = " if * {{ assert ({}); assume false; }}"
_ASKED_IN_FUNCTION = " assert true by {{ assert ({}); }}"


class Questioned:
    """An edited program with questions, and what of it fails.

    ``claims`` are ours, as they are written, by key: those that hold a name which lost its meaning.
    At a place ``false`` is asked, and what the declaration around it ensures where that lost its
    meaning.
    """

    def __init__(self, edited: EditedProgram, holders: Sequence[Element]) -> None:
        self.edited = edited
        self.holders = holders
        self.ranks = {place: rank for rank, place in enumerate(edited.owned.ours)}
        self.doubt = ""
        self.num_asked = 0
        self._program = edited.program
        self._hints = edited.owned.hints
        self._elements = list(list_elements(edited.program.root))
        self.claims: dict[Key, str] = {
            (self.ranks[element.start], obligation): self._program.cut(element.start, element.end)
            for holder in holders
            for element in list_elements(holder)
            if element.start in self.ranks and self._speaks_of_names(element)
            for obligation in CLAIMS.get(self._word(element), ())
        }
        self._questions: dict[str, tuple[Key, str]] = {}
        self._begins: dict[Key, Key] = {}
        self._failed: set[Key] = set()
        self._failing: list[tuple[Element, int]] = []
        self._apart: set[int] = set()
        self._left_out: set[Key] = set()

    def _word(self, element: Element) -> str:
        return find_word(self._program, element)

    def _find_holder(self, inside: Element) -> Element:
        return next(h for h in self.holders if h.start <= inside.start < h.end)

    def _speaks_of_names(self, element: Element) -> bool:
        inside = {token.text for token in self._program.tokens[element.start + 1 : element.end]}
        holder = self._find_holder(element)
        return bool(inside & (self.edited.names | self.edited.variables.get(holder.start, set())))

    @property
    def num_questions(self) -> int:
        return len(self._questions)

    def detach_claims(self) -> None:
        """Ask our assertions and invariants as questions, so that those which fail lend nothing."""
        for holder in self.holders:
            for element, inner, kind in _list_parts(holder):
                word, start = self._word(inner), inner.start
                claim = self._program.cut(start + 1, inner.end).rstrip(";")
                key = (self.ranks.get(start, -1), CLAIMS.get(word, ("",))[0])
                if key not in self.claims or claim.startswith("{"):
                    continue
                if word == "invariant":
                    self.edited.blank(start, inner.end)
                    self._insert(key, claim, element.start)
                    self._insert((key[0], CLAIMS[word][1]), claim, element.slots[-1].end)
                # What has a label or a proof of its own stays.
                elif (
                    kind == "statements"
                    and word == "assert"
                    and not inner.slots
                    and (self._program.tokens[start + 2].text != ":")
                ):
                    self.edited.blank(start, inner.end)
                    self._insert(key, claim, start)

    def list_loops(self) -> list[Element]:
        """The loops of ours whose clauses the policy wrote, in part."""
        return [
            element
            for holder in self.holders
            for element in list_elements(holder)
            if self._word(element) in _LOOPS
            and element.start in self.ranks
            and self.edited.owned.holds_hints(element.slots[0].start, element.slots[0].end)
        ]

    def open_blank(self, blank: OwnedProgram) -> Questioned:
        """The problem with an empty hole, with the same claims and the same questions at loops."""
        ours = blank.ours
        starts = {ours[self.ranks[h.start]]: h for h in self.holders if h.start in self.ranks}
        loops = {ours[self.ranks[loop.start]] for loop in self.list_loops()}
        elements = list(list_elements(blank.program.root))
        variables = {
            start: self.edited.variables.get(h.start, set()) for start, h in starts.items()
        }
        edited = EditedProgram(blank, names=self.edited.names, variables=variables)
        holders = [e for e in elements if e.start in starts and e.word in CALLABLES]
        found = Questioned(edited, holders)
        found.question_loops(
            [e for e in elements if e.start in loops and find_word(blank.program, e) in _LOOPS]
        )
        return found

    def question_loops(self, loops: Sequence[Element]) -> None:
        """Ask where the bodies of these loops begin, and behind them."""
        for loop in loops:
            for number, promise in enumerate(self._list_promises(loop)):
                rank = self.ranks[loop.start]
                self._insert((rank, f"loop {number}"), promise, loop.slots[-1].start)
                if promise == FALSE:
                    self._insert((rank, f"behind {number}"), promise, loop.end)

    def question_branches(self) -> None:
        """Ask where the policy's branches begin and where they end."""
        for element, slot in self._list_blocks(theirs=True):
            self._question_between(element, slot.start, slot.end)

    def question_runs(self, *, reached: bool = False) -> None:
        """Ask before and behind each run of the policy's statements in a block of ours, and in what
        it declares; ``reached``: only where a call comes by."""
        for element, slot in self._list_reached() if reached else self._list_blocks(theirs=False):
            run: list[Element] = []
            for inner in [*slot.elements, None]:
                if inner is not None and inner.start in self._hints:
                    run.append(inner)
                elif run:
                    self._question_between(element, run[0].start, run[-1].end)
                    run = []
        for holder in [] if reached else self.holders:
            if holder.start in self._hints and holder.slots[-1].kind == "statements":
                self._question_between(holder, holder.slots[-1].start, holder.slots[-1].end)

    def _list_reached(self) -> Iterator[tuple[Element, ElementSlot]]:
        """The blocks of our code, and of our lemmas without demands, which may contradict."""
        for holder in self.holders:
            demands = "requires" in map(self._word, holder.slots[0].elements)
            if holder.word in _CODE or (holder.word in WITH_STATEMENTS and not demands):
                yield from self._list_code(holder)

    def _list_code(self, element: Element) -> Iterator[tuple[Element, ElementSlot]]:
        for slot in element.slots:
            if slot.kind == "statements":
                yield element, slot
            for inner in slot.elements if slot.kind == "statements" and not slot.ghost else ():
                is_code = self._word(inner) in ("if", "match", "{", *_LOOPS)
                if is_code and inner.start not in self._hints:
                    yield from self._list_code(inner)

    def question_steps(self) -> None:
        """Ask before and behind the policy's steps in the body of each function."""
        for slot in (slot for holder in self.holders for slot in holder.slots):
            steps = [e for e in slot.elements if slot.kind == "steps" and e.start in self._hints]
            if steps:
                self._question(FALSE, steps[0].start, steps[-1].end, 0, _ASKED_IN_FUNCTION)

    def _question_between(self, element: Element, start: int, end: int) -> None:
        for number, promise in enumerate(self._list_promises(element)):
            self._question(promise, start, end, number)

    def _question(
        self, promise: str, start: int, end: int, number: int, form: str = _ASKED
    ) -> None:
        first, last = (start, f"start {number}"), (start, f"end {number}")
        self._begins[last] = first
        self._insert(first, promise, start, form)
        self._insert(last, promise, end, form)

    def _list_blocks(self, *, theirs: bool) -> list[tuple[Element, ElementSlot]]:
        """The blocks of the policy's statements, or of ours, that hold anything."""
        return [
            (element, slot)
            for holder in self.holders
            if holder.word in WITH_STATEMENTS
            for element in (holder, *list_elements(holder))
            if (element.start in self._hints) is theirs and not (theirs and element is holder)
            for slot in element.slots
            if slot.kind == "statements" and slot.elements
        ]

    def _list_promises(self, inside: Element) -> list[str]:
        """What is asked inside an element."""
        holder = self._find_holder(inside)
        if holder.word not in WITH_STATEMENTS:
            return []
        promises = [
            self._program.cut(clause.start + 1, clause.end).rstrip(";")
            for clause in holder.slots[0].elements
            if self._word(clause) == "ensures"
            and clause.start in self.ranks
            and self._speaks_of_names(clause)
            and self._program.tokens[clause.start + 1].text != "{"
        ]
        # Where false is what is to be proved it is no wonder that it is.
        claimed = {self._program.cut(c.start + 1, c.end) for c in holder.slots[0].elements}
        return promises if "false" in claimed else [FALSE, *promises]

    def _insert(self, key: Key, promise: str, place: int, form: str = _ASKED) -> None:
        question = f"{form.format(promise)} /*{len(self._questions)}*/"
        self._questions[question] = key, promise
        self.edited.add(place, question)

    async def ask(self, ask: AskFailures) -> None:
        """Ask the text as it stands now, and take what fails."""
        written = self.edited.write()
        reply = await ask(written.text)
        self.num_asked += 1
        self._failed, self._failing = set(self._left_out), []
        if not reply.resolved:
            self.doubt = next(iter(reply.errors), "Dafny says nothing")
            return
        outcomes = {entry.outcome for entry in reply.entries}
        if odd := outcomes.difference(_OUTCOMES):
            raise WorkerError(f"the prover gave no result: {', '.join(sorted(odd))}", "no-result")
        for error, notes in _list_errors(reply):
            self._take(written, error, notes)
        if not self._failing and not outcomes.isdisjoint(LIMIT_OUTCOMES):
            self.doubt = GAVE_UP

    def _take(
        self, written: RewrittenText, error: ReplyMessage, notes: Sequence[ReplyMessage]
    ) -> None:
        place, inserted = written.locate(error.line, error.column)
        # Where a method ends in a question its promises fail there too.
        if inserted in self._questions and "postcondition" not in error.text:
            self._failed.add(self._questions[inserted][0])
            return
        around = None if inserted else self._find_element(place)
        for note in notes:
            noted, inserted = written.locate(note.line, note.column)
            clause = None if inserted else self._find_element(noted)
            if clause is not None and self._word(clause) == "ensures":
                around, place = clause, noted
        if around is None:
            return
        if around.start in self._hints:
            self._failing.append((around, place))
            return
        told = [o for o in CLAIMS["invariant"] if o in error.text]
        for obligation in CLAIMS.get(self._word(around), ()) if around.start in self.ranks else ():
            if not told or obligation in ("", *told):
                self._failed.add((self.ranks[around.start], obligation))

    def _find_element(self, place: int) -> Element | None:
        """The innermost element around a place of the program's text."""
        token = bisect_right(self._program.places, place) - 1
        around = [e for e in self._elements if e.start <= token < e.end]
        return around[-1] if around else None

    def leave_out_failed(self) -> bool:
        """Take the questions away that failed; True where others are left to be asked again: of a
        prover that runs out behind a failure Dafny says nothing, nor of more than 100 failures."""
        is_new, self._left_out = not self._failed <= self._left_out, set(self._failed)
        self.edited.insertions = [
            (place, text)
            for place, text in self.edited.insertions
            if text not in self._questions or self._questions[text][0] not in self._failed
        ]
        return is_new and bool(self._unfailed)

    @property
    def _unfailed(self) -> dict[Key, str]:
        """The claims and questions that do not fail."""
        left = {text for _, text in self.edited.insertions}
        asked = {key: promise for text, (key, promise) in self._questions.items() if text in left}
        return {k: t for k, t in (self.claims | asked).items() if k not in self._failed}

    @property
    def believed(self) -> dict[Key, str]:
        """The claims and questions that do not fail; of two around a text only the second counts,
        where the first fails."""
        begins = set(self._begins.values())
        return {
            key: text
            for key, text in self._unfailed.items()
            if key not in begins and (key not in self._begins or self._begins[key] in self._failed)
        }

    def fails(self, key: Key) -> bool:
        """Whether a claim or a question fails here; one that is not asked here does."""
        asked = {*self.claims, *(key for key, _ in self._questions.values())}
        return key in self._failed or key not in asked

    @property
    def is_bare(self) -> bool:
        """Whether all that the policy wrote was taken away."""
        places, kept = self._program.places, self.edited.kept
        return all(kept[places[token]] == " " for token in self.edited.owned.theirs)

    def drop(self) -> bool:
        """Take away what the policy wrote and what fails; False where nothing was left to take."""
        return sum(self._drop(element, place) for element, place in self._failing) > 0

    def _drop(self, element: Element, place: int) -> bool:
        start, end = element.start, element.end
        words = [token.text for token in self._program.tokens[start:end]]
        if element.word in CALLABLES or element.word == "const":
            return False
        for first, last in self.edited.conjuncts.get(start, ()):
            if first <= place < last:
                return self.edited.cut(first, last)
        if element.word in ("var", "ghost"):
            # What follows may name the variable.
            signs = [start + words.index(sign) for sign in (":=", ":|") if sign in words]
            return bool(signs) and self.edited.blank(min(signs), end - 1)
        if start in self._apart or self._open(element):
            return start not in self._apart
        if not any(slot.elements for slot in element.slots):
            return self.edited.blank(start, end)
        # A bug in its blocks may need what they stand behind, and is asked for there alone.
        self._apart.add(start)
        self.edited.insertions.append((self._program.places[start], "if * { "))
        self.edited.insertions.insert(0, (self._program.end(end - 1), " assume false; }"))
        return True

    def open_heads(self) -> None:
        """Take away what the policy's blocks stand behind, and what they are to prove."""
        for element in reversed(self._elements):
            if element.start in self._hints:
                self._open(element)

    def _open(self, element: Element) -> bool:
        """Leave of a statement its blocks alone, which may hide a bug, each on a path of its own;
        False where there are none, or nothing else is left."""
        tokens = self._program.tokens
        blocks = [(slot.start - 1, slot.end + 1) for slot in element.slots if slot.elements]
        if any(
            slot.kind != "statements" or tokens[slot.start - 1].text != "{"
            for slot in element.slots
        ):
            return False
        if blocks and ":|" in (token.sign for token in tokens[element.start : blocks[0][0]]):
            return False
        promises = [p for p in self._program.promises if element.start < p[0] < element.end]
        if self._word(element) == "forall":
            # The block may name what is bound.
            if not promises or not self.edited.blank(*promises[0]):
                return False
            self.edited.insertions.append((self._program.places[promises[0][0]], " true "))
            return True
        edges = [element.start, *(edge for block in blocks for edge in block), element.end]
        heads = list(zip(edges[::2], edges[1::2], strict=True))
        if not blocks or not sum(self.edited.blank(*head) for head in heads):
            return False
        by = tokens[blocks[0][0] - 1].text == "by"
        for start, _ in [] if by else blocks:
            self.edited.insertions.append((self._program.places[start], "if * "))
        return True


def _list_parts(element: Element) -> Iterator[tuple[Element, Element, SlotKind]]:
    """Each clause and statement inside an element, with what holds it and the kind of its place."""
    for slot in element.slots:
        for inner in slot.elements:
            yield element, inner, slot.kind
            yield from _list_parts(inner)


def _list_errors(reply: Reply) -> Iterator[tuple[ReplyMessage, list[ReplyMessage]]]:
    """Each error with its notes."""
    found: list[tuple[ReplyMessage, list[ReplyMessage]]] = []
    for message in reply.messages:
        if message.kind == "error":
            found.append((message, []))
        elif message.kind == "related" and found:
            found[-1][1].append(message)
    yield from found
