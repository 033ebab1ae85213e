"""The claims of an accepted program that fail, and the questions in it that fail.

Flows in: a program with questions, and a Dafny to ask. Flows out: the claims and questions that do
not fail. What fails of the policy's text can be taken away, and the rest asked again. Not handled
here: what follows (``relevance``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterator, Sequence

from proverrl.errors import WorkerError
from proverrl.lang.dafny.known_bugs.misjudged import list_elements
from proverrl.lang.dafny.syntax.parsed import Element
from proverrl.lang.dafny.syntax.reply import LIMIT_OUTCOMES, Reply, ReplyMessage
from proverrl.lang.dafny.verify.walls.edited import (
    CALLABLES,
    EditedProgram,
    OwnedProgram,
    RewrittenText,
    find_word,
)
from proverrl.lang.dafny.verify.walls.questions import CLAIMS, LOOPS, TERMINATION, Key, Questions

AskFailures = Callable[[str], Awaitable[Reply]]
"""Has a program verified that may assume and leave out bodies; all that fails is named."""

GAVE_UP = "the prover ran out of its limit"
_OUTCOMES = ("verified", "error", "errors", *LIMIT_OUTCOMES)
_FORALL = "possible violation of postcondition of forall statement"
_ENDLESS = ("termination", "decrease", "bounded below")
"""Words by which Dafny says that it does not see a loop end."""


class Questioned(Questions):
    """Questions, and what of them and of the claims fails. ``doubt`` says why nothing is known,
    ``gave_up`` that a prover ran out on something, ``unplaced`` what fails at a place that Dafny
    does not name."""

    def __init__(
        self,
        edited: EditedProgram,
        holders: Sequence[Element],
        loops: Sequence[Element] | None = None,
    ) -> None:
        super().__init__(edited, holders, loops)
        self.doubt = ""
        self.gave_up = False
        self.unplaced = ""
        self._failed: set[Key] = set()
        self._failing: list[tuple[Element, int]] = []
        self._left_out: set[Key] = set()

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
        same = [e for e in elements if e.start in loops and find_word(blank.program, e) in LOOPS]
        found = Questioned(edited, holders, same)
        found.question_loops()
        return found

    async def ask(self, ask: AskFailures) -> None:
        """Ask the text as it stands now, and take what fails."""
        written = self.edited.write()
        reply = await ask(written.text)
        self._failed, self._failing = set(self._left_out), []
        if not reply.resolved:
            self.doubt = next(iter(reply.errors), "Dafny says nothing")
            return
        outcomes = {entry.outcome for entry in reply.entries}
        if odd := outcomes.difference(_OUTCOMES):
            raise WorkerError(f"the prover gave no result: {', '.join(sorted(odd))}", "no-result")
        for error, notes in _list_errors(reply):
            self._take(written, error, notes)
        self.unplaced = next((line for line in reply.unknown if _FORALL not in line), "")
        if any(_FORALL in line for line in reply.unknown):
            # Dafny does not say which, so all of them count as failing.
            self._failing += [
                (element, self.program.places[element.start])
                for element in self.elements
                if element.start in self.hints and self.word(element) == "forall"
            ]
        self.gave_up = not outcomes.isdisjoint(LIMIT_OUTCOMES)
        if not self._failing and self.gave_up:
            self.doubt = GAVE_UP

    def _take(
        self, written: RewrittenText, error: ReplyMessage, notes: Sequence[ReplyMessage]
    ) -> None:
        place, inserted = written.locate(error.line, error.column)
        if inserted.strip() in CLAIMS:
            # Dafny 4 may name the word that was put before a conjunct.
            inserted = ""
        # Where a method ends in a question its promises fail there too.
        if inserted in self.questions and "postcondition" not in error.text:
            self._failed.add(self.questions[inserted][0])
            return
        around = None if inserted else self._find_element(place)
        for note in notes:
            noted, inserted = written.locate(note.line, note.column)
            clause = None if inserted else self._find_element(noted)
            if clause is not None and self.word(clause) == "ensures":
                around, place = clause, noted
        if around is None:
            return
        if any(word in error.text for word in _ENDLESS):
            loops = [e for e in self.loops if e.start <= around.start < e.slots[0].end]
            if loops:
                self._failed.add((self.ranks[loops[-1].start], TERMINATION))
                return
        if around.start in self.hints:
            self._failing.append((around, place))
            return
        told = [o for o in CLAIMS["invariant"] if o in error.text]
        for obligation in CLAIMS.get(self.word(around), ()) if around.start in self.ranks else ():
            if not told or obligation in ("", *told):
                self._failed.add((self.ranks[around.start], obligation))

    def _find_element(self, place: int) -> Element | None:
        """The innermost element around a place of the program's text."""
        token = bisect_right(self.program.places, place) - 1
        around = [e for e in self.elements if e.start <= token < e.end]
        return around[-1] if around else None

    def leave_out_failed(self) -> bool:
        """Take the questions away that failed; True where others are to be asked again without
        them: Dafny is silent on what a prover ran out on behind a failure, and after 100."""
        is_new, self._left_out = not self._failed <= self._left_out, set(self._failed)
        self.edited.insertions = [
            (place, text)
            for place, text in self.edited.insertions
            if text not in self.questions or self.questions[text][0] not in self._failed
        ]
        return is_new and bool(self._unfailed)

    @property
    def _unfailed(self) -> dict[Key, str]:
        """The claims and questions that do not fail."""
        left = {text for _, text in self.edited.insertions}
        asked = {key: promise for text, (key, promise) in self.questions.items() if text in left}
        return {k: t for k, t in (self.claims | asked).items() if k not in self._failed}

    @property
    def believed(self) -> dict[Key, str]:
        """The claims and questions that do not fail; of two around a text only the second counts,
        where the first fails."""
        begins = {*self.begins.values(), *self.exits}
        for entry, exits in self.exits.items():
            if entry not in self._failed or not self._failed.isdisjoint(exits):
                begins.update(exits)
        return {
            key: text
            for key, text in self._unfailed.items()
            if key not in begins and (key not in self.begins or self.begins[key] in self._failed)
        }

    def fails(self, key: Key) -> bool:
        """True if a claim or a question fails here; one that is not asked here does."""
        asked = {*self.claims, *(key for key, _ in self.questions.values())}
        return key in self._failed or key not in asked

    @property
    def is_bare(self) -> bool:
        """True if all that the policy wrote was taken away."""
        places, kept = self.program.places, self.edited.kept
        return all(kept[places[token]] == " " for token in self.edited.owned.theirs)

    def drop(self) -> bool:
        """Take away what the policy wrote and what fails; False where nothing was left to take."""
        return sum(self.edited.drop(element, place) for element, place in self._failing) > 0

    def open_heads(self) -> None:
        """Take away what the policy's blocks stand behind, and what they are to prove but for what
        forall statements ensure, which may hide a bug."""
        for element in reversed(self.elements):
            if element.start in self.hints and self.word(element) != "forall":
                self.edited.open(element)


def _list_errors(reply: Reply) -> Iterator[tuple[ReplyMessage, list[ReplyMessage]]]:
    """Each error with its notes."""
    found: list[tuple[ReplyMessage, list[ReplyMessage]]] = []
    for message in reply.messages:
        if message.kind == "error":
            found.append((message, []))
        elif message.kind == "related" and found:
            found[-1][1].append(message)
    yield from found
