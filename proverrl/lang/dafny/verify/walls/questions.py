"""Questions put into an accepted program.

Flows in: a program, which of its tokens the policy wrote, and edits. Flows out: the claims of ours
that a wall looks at, and the text with questions. A question is a claim at a place, on a path of
its own, so that it lends nothing to what follows. Lines stay. Not handled here: what Dafny says of
them (``answers``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proverrl.lang.dafny.known_bugs.misjudged import list_elements
from proverrl.lang.dafny.syntax.parsed import Element, ElementSlot, SlotKind
from proverrl.lang.dafny.syntax.tokens import find_close, find_outer
from proverrl.lang.dafny.verify.walls.edited import WITH_STATEMENTS, EditedProgram, find_word

Key = tuple[int, str]
"""A claim of ours by the number of its first token among ours, and which of its obligations; or a
place, and which question is asked there."""

CLAIMS = {"invariant": ("on entry", "maintained"), "ensures": ("",), "assert": ("",)}
"""Words that claim something, and their obligations as Dafny tells them apart."""

TERMINATION = "termination"
FALSE = "false"
LOOPS = ("while", "for")
_CODE = ("method", "constructor", "iterator")
_ASKED = " if * {{ assert ({}); assume false; }}"
_ASKED_IN_FUNCTION = " assert true by {{ assert ({}); }}"


class Questions:
    """An edited program with questions.

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
        self.program = edited.program
        self.hints = edited.owned.hints
        self.elements = list(list_elements(edited.program.root))
        self.claims: dict[Key, str] = {
            (self.ranks[element.start], obligation): self.program.cut(element.start, element.end)
            for holder in holders
            for element in list_elements(holder)
            if element.start in self.ranks and self._speaks_of_names(element)
            for obligation in CLAIMS.get(self.word(element), ())
        }
        self.num_claims = len(self.claims)
        self.loops = self._list_loops() if loops is None else loops
        self.claims |= {
            (self.ranks[loop.start], TERMINATION): "the loop ends"
            for loop in self.loops
            # All others end.
            if self.word(loop) == "while" and edited.variables.get(self._find_holder(loop).start)
        }
        self.questions: dict[str, tuple[Key, str]] = {}
        self.begins: dict[Key, Key] = {}
        self.exits: dict[Key, list[Key]] = {}

    def word(self, element: Element) -> str:
        return find_word(self.program, element)

    def _find_holder(self, inside: Element) -> Element:
        return next(h for h in self.holders if h.start <= inside.start < h.end)

    def _speaks_of_names(self, element: Element) -> bool:
        inside = {token.text for token in self.program.tokens[element.start + 1 : element.end]}
        holder = self._find_holder(element)
        return bool(inside & (self.edited.names | self.edited.variables.get(holder.start, set())))

    @property
    def num_questions(self) -> int:
        return len(self.questions)

    def detach_claims(self) -> None:
        """Ask our assertions and invariants as questions, so that those which fail lend nothing."""
        for holder in self.holders:
            for element, inner, kind in _list_parts(holder):
                word, start = self.word(inner), inner.start
                claim = self.program.cut(start + 1, inner.end).rstrip(";")
                key = (self.ranks.get(start, -1), CLAIMS.get(word, ("",))[0])
                if key not in self.claims or claim.startswith("{"):
                    continue
                if word == "invariant":
                    self.edited.blank(start, inner.end)
                    before, behind = self._move_claim(element, claim)
                    self._insert(key, before, element.start)
                    self._insert((key[0], CLAIMS[word][1]), behind, element.slots[-1].end)
                # What has a label or a proof of its own stays.
                elif (
                    kind == "statements"
                    and word == "assert"
                    and not inner.slots
                    and (self.program.tokens[start + 2].text != ":")
                ):
                    self.edited.blank(start, inner.end)
                    self._insert(key, claim, start)

    def _move_claim(self, loop: Element, claim: str) -> tuple[str, str]:
        """What an invariant says before its loop, and at the end of the loop's body. In a ``for``
        loop it speaks of an index that begins before, and that is counted up after the body."""
        tokens = self.program.tokens
        if self.word(loop) != "for":
            return claim, claim
        header = range(loop.start, loop.end)
        index = next(i for i in header if tokens[i].sign == "for") + 1
        while tokens[index].sign == "{":
            index = find_close(tokens, index) + 1
        start = next(i for i in header if tokens[i].sign == ":=") + 1
        end = find_outer(tokens, start, ("to", "downto"))
        name, is_up = tokens[index].text, tokens[end].sign == "to"
        before = f"var {name} := {self.program.cut(start, end)}; {claim}"
        return before, f"var {name} := {name} + 1; {claim}" if is_up else claim

    def _list_loops(self) -> list[Element]:
        return [
            element
            for holder in self.holders
            for element in list_elements(holder)
            if self.word(element) in LOOPS
            and element.start in self.ranks
            and self.edited.owned.holds_hints(element.slots[0].start, element.slots[0].end)
        ]

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
        it declares; ``reached``: only where a call comes by."""
        for element, slot in self._list_reached() if reached else self._list_blocks(theirs=False):
            run: list[Element] = []
            for inner in [*slot.elements, None]:
                if inner is not None and inner.start in self.hints:
                    run.append(inner)
                    continue
                if run:
                    self._question_between(element, run[0].start, run[-1].end)
                    run = []
                if inner is not None and self.word(inner) == "calc" and self._holds_hints(inner):
                    # Its other lines, which are ours, may be assumed where they fail.
                    self._question(FALSE, inner.start, inner.end, 0)
        for holder in [] if reached else self.holders:
            if holder.start in self.hints and holder.slots[-1].kind == "statements":
                self._question_between(holder, holder.slots[-1].start, holder.slots[-1].end)

    def _holds_hints(self, element: Element) -> bool:
        return self.edited.owned.holds_hints(element.start, element.end)

    def _list_demands(self, holder: Element) -> list[Element]:
        """The preconditions of a declaration that were not taken away."""
        kept, places = self.edited.kept, self.program.places
        clauses = holder.slots[0].elements
        return [c for c in clauses if self.word(c) == "requires" and kept[places[c.start]] != " "]

    def _expects_false(self, holder: Element) -> bool:
        """True if ``false`` is what is to be proved, of demands that cannot be met."""
        claimed = {
            self.program.cut(clause.start + 1, clause.end).strip(" ;()")
            for clause in holder.slots[0].elements
            if self.word(clause) == "ensures"
        }
        return FALSE in claimed and bool(self._list_demands(holder))

    def forget_demands(self) -> bool:
        """Take the preconditions of what ensures ``false``; False where nothing does."""
        demands = [
            demand
            for holder in self.holders
            if holder.word in WITH_STATEMENTS and self._expects_false(holder)
            for demand in self._list_demands(holder)
        ]
        return sum(self.edited.blank(demand.start, demand.end) for demand in demands) > 0

    def leave_promises(self) -> None:
        """Ask nothing of what the declarations promise at their ends: where a prover runs out on
        that it tells nothing of the questions."""
        for holder in self.holders:
            if holder.word in WITH_STATEMENTS and holder.slots[-1].kind == "statements":
                end = self.program.end(holder.slots[-1].end - 1)
                self.edited.closings.append((end, " assume false;"))

    def question_exits(self) -> None:
        """Ask for ``false`` wherever a declaration may end: one that can begin and never end is
        either not correct or does not terminate. A lemma may demand what is impossible."""
        for holder in self.holders:
            is_lemma = holder.word not in ("method", "constructor")
            if holder.word not in WITH_STATEMENTS or (is_lemma and self._list_demands(holder)):
                continue
            body = holder.slots[-1]
            if body.kind != "statements":
                continue
            tokens = self.program.tokens
            returns = [i for i in range(body.start, body.end) if tokens[i].text == "return"]
            rank = self.ranks.get(holder.start, -holder.start)
            keys = [(rank, f"exit {number}") for number in range(len(returns) + 1)]
            self.exits[rank, "entry"] = keys
            self._insert((rank, "entry"), FALSE, body.start)
            for key, place in zip(keys, [body.end, *returns], strict=True):
                self._insert(key, FALSE, place)

    def _list_reached(self) -> Iterator[tuple[Element, ElementSlot]]:
        """The blocks of our code, and of our lemmas without demands, which may contradict."""
        for holder in self.holders:
            if holder.word in _CODE or (
                holder.word in WITH_STATEMENTS and not self._list_demands(holder)
            ):
                yield from self._list_code(holder)

    def _list_code(self, element: Element) -> Iterator[tuple[Element, ElementSlot]]:
        for slot in element.slots:
            if slot.kind == "statements":
                yield element, slot
            for inner in slot.elements if slot.kind == "statements" and not slot.ghost else ():
                is_code = self.word(inner) in ("if", "match", "{", *LOOPS)
                if is_code and inner.start not in self.hints:
                    yield from self._list_code(inner)

    def question_steps(self) -> None:
        """Ask before and behind the policy's steps in the body of each function."""
        for slot in (slot for holder in self.holders for slot in holder.slots):
            steps = [e for e in slot.elements if slot.kind == "steps" and e.start in self.hints]
            if steps:
                self._question(FALSE, steps[0].start, steps[-1].end, 0, _ASKED_IN_FUNCTION)

    def _question_between(self, element: Element, start: int, end: int) -> None:
        for number, promise in enumerate(self._list_promises(element)):
            self._question(promise, start, end, number)

    def _question(
        self, promise: str, start: int, end: int, number: int, form: str = _ASKED
    ) -> None:
        first, last = (start, f"start {number}"), (start, f"end {number}")
        self.begins[last] = first
        self._insert(first, promise, start, form)
        self._insert(last, promise, end, form)

    def _list_blocks(self, *, theirs: bool) -> list[tuple[Element, ElementSlot]]:
        """The blocks of the policy's statements, or of ours, that hold anything."""
        return [
            (element, slot)
            for holder in self.holders
            if holder.word in WITH_STATEMENTS
            for element in (holder, *list_elements(holder))
            if (element.start in self.hints) is theirs and not (theirs and element is holder)
            for slot in element.slots
            if slot.kind == "statements" and slot.elements
        ]

    def _list_promises(self, inside: Element) -> list[str]:
        """The questions inside an element."""
        holder = self._find_holder(inside)
        if holder.word not in WITH_STATEMENTS:
            return []
        promises = [
            self.program.cut(clause.start + 1, clause.end).rstrip(";")
            for clause in holder.slots[0].elements
            if self.word(clause) == "ensures"
            and clause.start in self.ranks
            and self._speaks_of_names(clause)
            and self.program.tokens[clause.start + 1].text != "{"
        ]
        # Where false is what is to be proved it is no wonder that it is.
        return promises if self._expects_false(holder) else [FALSE, *promises]

    def _insert(self, key: Key, promise: str, place: int, form: str = _ASKED) -> None:
        question = f"{form.format(promise)} /*{len(self.questions)}*/"
        self.questions[question] = key, promise
        self.edited.add(place, question)


def _list_parts(element: Element) -> Iterator[tuple[Element, Element, SlotKind]]:
    """Each clause and statement inside an element, with what holds it and the kind of its place."""
    for slot in element.slots:
        for inner in slot.elements:
            yield element, inner, slot.kind
            yield from _list_parts(inner)
