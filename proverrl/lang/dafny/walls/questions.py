"""Questions put into an accepted program, and what of it fails.

Flows in: a program, which of its tokens the policy wrote, edits and questions. Flows out: the
claims and questions that fail when Dafny verifies it. A question is a claim at a place, on a path
of its own, so that it lends nothing to what follows. Lines stay. Not handled here: what follows
from the answers (``relevance``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import pairwise

from proverrl.errors import WorkerError
from proverrl.lang.dafny.misjudged import list_elements
from proverrl.lang.dafny.syntax.parsed import Element, ElementSlot, SlotKind
from proverrl.lang.dafny.walls.edited import (
    CALLABLES,
    EditedProgram,
    OwnedProgram,
    RewrittenText,
)
from proverrl.lang.dafny.workers.reply import LIMIT_OUTCOMES, Reply, ReplyMessage

AskFailures = Callable[[str], Awaitable[Reply]]
"""Has a program verified that may assume and leave out bodies; all that fails is named."""

Key = tuple[int, str]
"""A claim of ours by the number of its first token among ours, and which of its obligations; or a
place, and which question is asked there."""

CLAIMS = {"invariant": ("on entry", "maintained"), "ensures": ("",), "assert": ("",)}
"""What claims something, and its obligations as Dafny tells them apart."""

TERMINATION = "termination"
_ENDLESS = ("termination", "decrease", "bounded below")
"""How Dafny says that it does not see a loop end."""

FALSE = "false"
GAVE_UP = "the prover ran out of its limit"
_OUTCOMES = ("verified", "error", "errors", *LIMIT_OUTCOMES)
_WITH_STATEMENTS = ("method", "lemma", "colemma", "comethod", "constructor")
_LOOPS = ("while",)


class Questioned:
    """An edited program with questions, and what of it fails.

    ``claims`` are ours, as they are written, by key: those that hold a name which lost its meaning,
    and that a loop ends of which we forgot what it does. ``loops`` are those of ours whose clauses
    the policy wrote in part, where they are not given.
    At a place ``false`` is asked, and what the declaration around it ensures where that lost its
    meaning.
    """

    def __init__(
        self,
        edited: EditedProgram,
        holders: Sequence[Element],
        loops: Sequence[Element] | None = None,
    ) -> None:
        self.edited = edited
        self.holders = holders
        self.ranks = {place: rank for rank, place in enumerate(edited.owned.ours)}
        self.doubt = ""
        self.gave_up = False
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
        self.num_claims = len(self.claims)
        self.loops = self._list_loops() if loops is None else loops
        self.claims |= {
            (self.ranks[loop.start], TERMINATION): "the loop ends"
            for loop in self.loops
            if edited.variables.get(self._find_holder(loop).start)
        }
        self._questions: dict[str, tuple[Key, str]] = {}
        self._begins: dict[Key, Key] = {}
        self._exits: dict[Key, list[Key]] = {}
        self._failed: set[Key] = set()
        self._failing: list[tuple[Element, int]] = []

    def _word(self, element: Element) -> str:
        return self._program.tokens[element.start].text

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

    def _list_loops(self) -> list[Element]:
        return [
            element
            for holder in self.holders
            for element in list_elements(holder)
            if element.word in _LOOPS
            and element.start in self.ranks
            and self.edited.owned.holds_hints(element.slots[0].start, element.slots[0].end)
        ]

    def open_blank(self, blank: OwnedProgram) -> Questioned:
        """The problem with an empty hole, with the same claims and the same questions at loops."""
        ours = blank.ours
        starts = {ours[self.ranks[h.start]]: h for h in self.holders if h.start in self.ranks}
        loops = {ours[self.ranks[loop.start]] for loop in self.loops}
        elements = list(list_elements(blank.program.root))
        variables = {
            start: self.edited.variables.get(h.start, set()) for start, h in starts.items()
        }
        edited = EditedProgram(blank, names=self.edited.names, variables=variables)
        holders = [e for e in elements if e.start in starts and e.word in CALLABLES]
        same = [e for e in elements if e.start in loops and e.word in _LOOPS]
        found = Questioned(edited, holders, same)
        found.question_loops()
        return found

    def question_loops(self) -> None:
        """Ask where the bodies of ``loops`` begin, and behind them."""
        for loop in self.loops:
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
        it declares; ``reached``: only where each call of a declaration without demands comes by."""
        for element, slot in self._list_blocks(theirs=False):
            if reached and not self._is_reached(element):
                continue
            run: list[Element] = []
            for inner in [*slot.elements, None]:
                if inner is not None and inner.start in self._hints:
                    run.append(inner)
                    continue
                if run:
                    self._question_between(element, run[0].start, run[-1].end)
                    run = []
                if inner is not None and inner.word == "calc" and self._holds_hints(inner):
                    # Its other lines, which are ours, may be assumed where they fail.
                    self._question_between(element, inner.start, inner.end, promises=[FALSE])
        for holder in [] if reached else self.holders:
            if holder.start in self._hints and holder.slots[-1].kind == "statements":
                self._question_between(holder, holder.slots[-1].start, holder.slots[-1].end)

    def _holds_hints(self, element: Element) -> bool:
        return self.edited.owned.holds_hints(element.start, element.end)

    def _is_reached(self, element: Element) -> bool:
        return element in self.holders and not self._list_demands(element)

    def _list_demands(self, holder: Element) -> list[Element]:
        """The preconditions of a declaration that were not taken away."""
        kept, places = self.edited.kept, self._program.places
        clauses = holder.slots[0].elements
        return [c for c in clauses if self._word(c) == "requires" and kept[places[c.start]] != " "]

    def _expects_false(self, holder: Element) -> bool:
        """Whether ``false`` is what is to be proved, of demands that cannot be met."""
        claimed = {
            self._program.cut(clause.start + 1, clause.end).strip(" ;()")
            for clause in holder.slots[0].elements
            if self._word(clause) == "ensures"
        }
        return FALSE in claimed and bool(self._list_demands(holder))

    def forget_demands(self) -> bool:
        """Take the preconditions of what ensures ``false``; False where nothing does."""
        demands = [
            demand
            for holder in self.holders
            if holder.word in _WITH_STATEMENTS and self._expects_false(holder)
            for demand in self._list_demands(holder)
        ]
        return sum(self.edited.blank(demand.start, demand.end) for demand in demands) > 0

    def question_exits(self) -> None:
        """Ask for ``false`` wherever a declaration may end: one that can begin and never end is
        either not correct or does not terminate. A lemma may demand what is impossible."""
        for holder in self.holders:
            is_lemma = holder.word not in ("method", "constructor")
            if holder.word not in _WITH_STATEMENTS or (is_lemma and self._list_demands(holder)):
                continue
            body = holder.slots[-1]
            if body.kind != "statements":
                continue
            tokens = self._program.tokens
            returns = [i for i in range(body.start, body.end) if tokens[i].text == "return"]
            rank = self.ranks.get(holder.start, -holder.start)
            keys = [(rank, f"exit {number}") for number in range(len(returns) + 1)]
            self._exits[rank, "entry"] = keys
            self._insert((rank, "entry"), FALSE, body.start)
            for key, place in zip(keys, [body.end, *returns], strict=True):
                self._insert(key, FALSE, place)

    def question_steps(self) -> None:
        """Ask behind the last of the policy's steps in the body of each function."""
        for holder in self.holders:
            steps = [
                inner
                for _, inner, kind in _list_parts(holder)
                if kind == "steps" and inner.start in self._hints
            ]
            if steps and holder.word in ("function", "predicate"):
                question = f" assert false; /*{len(self._questions)}*/"
                self._questions[question] = (steps[-1].start, "step"), FALSE
                self.edited.add(steps[-1].end, question)

    def _question_between(
        self, element: Element, start: int, end: int, *, promises: Sequence[str] = ()
    ) -> None:
        tokens, name = self._program.tokens[start : end + 1], self._find_holder(element).name
        # By induction a call of the declaration itself may give some of what it promises.
        again = any(
            token.text == name and following.text in ("(", "<", "#")
            for token, following in pairwise(tokens)
        )
        for number, promise in enumerate(promises or self._list_promises(element)):
            if again and promise != FALSE:
                continue
            first, last = (start, f"start {number}"), (start, f"end {number}")
            self._begins[last] = first
            self._insert(first, promise, start)
            self._insert(last, promise, end)

    def _list_blocks(self, *, theirs: bool) -> list[tuple[Element, ElementSlot]]:
        """The blocks of the policy's statements, or of ours, that hold anything."""
        return [
            (element, slot)
            for holder in self.holders
            if holder.word in _WITH_STATEMENTS
            for element in (holder, *list_elements(holder))
            if (element.start in self._hints) is theirs and not (theirs and element is holder)
            for slot in element.slots
            if slot.kind == "statements" and slot.elements
        ]

    def _list_promises(self, inside: Element) -> list[str]:
        """What is asked inside an element."""
        holder = self._find_holder(inside)
        if holder.word not in _WITH_STATEMENTS:
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
        return promises if self._expects_false(holder) else [FALSE, *promises]

    def _insert(self, key: Key, promise: str, place: int) -> None:
        question = f" if * {{ assert ({promise}); assume false; }} /*{len(self._questions)}*/"
        self._questions[question] = key, promise
        self.edited.add(place, question)

    async def ask(self, ask: AskFailures) -> None:
        """Ask the text as it stands now, and take what fails."""
        written = self.edited.write()
        reply = await ask(written.text)
        self._failed, self._failing = set(), []
        if not reply.resolved:
            self.doubt = next(iter(reply.errors), "Dafny says nothing")
            return
        outcomes = {entry.outcome for entry in reply.entries}
        if odd := outcomes.difference(_OUTCOMES):
            raise WorkerError(f"the prover gave no result: {', '.join(sorted(odd))}", "no-result")
        for error, notes in _list_errors(reply):
            self._take(written, error, notes)
        self.gave_up = not outcomes.isdisjoint(LIMIT_OUTCOMES)
        if not self._failing and self.gave_up:
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
        if any(word in error.text for word in _ENDLESS):
            loops = [e for e in self.loops if e.start <= around.start < e.slots[0].end]
            if loops:
                self._failed.add((self.ranks[loops[-1].start], TERMINATION))
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

    @property
    def believed(self) -> dict[Key, str]:
        """The claims and questions that do not fail; of two around a text only the second counts,
        where the first fails."""
        left = {text for _, text in self.edited.insertions}
        asked = {key: promise for text, (key, promise) in self._questions.items() if text in left}
        begins = {*self._begins.values(), *self._exits}
        for entry, exits in self._exits.items():
            if entry not in self._failed or not self._failed.isdisjoint(exits):
                begins.update(exits)
        return {
            key: text
            for key, text in (self.claims | asked).items()
            if key not in self._failed
            and key not in begins
            and (key not in self._begins or self._begins[key] in self._failed)
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
        return sum(self.edited.drop(element, place) for element, place in self._failing) > 0

    def open_heads(self) -> None:
        """Take away what the policy's blocks stand behind, and what they are to prove."""
        for element in reversed(self._elements):
            if element.start in self._hints:
                self.edited.open(element)


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
