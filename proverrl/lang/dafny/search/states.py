"""States of Dafny proofs: what is kept of a failed body, and the obligations that are left open.

Flows in: a candidate with its verdict. Flows out: segments, the last of which ends where the first
obligation failed. A verdict on a whole body shows one state, so there is one segment;
``step_segments`` adds the statements before it, with their text as the key. Where the text is cut:

- an obligation of a statement or clause of the body: before that statement, the first in the text;
- a postcondition, or an assertion, invariant or calculation step of the problem's own text: all of
  the body is kept, and a line break is added, since more is to follow. Where Dafny names the branch
  that does not reach the postcondition, that branch is kept open;
- termination of the problem's loop: before the body's ``decreases`` clause;
- a parse or resolution error, a refusal by the audit, exhausted limits, a time-out: no segment.
  Then Dafny verified nothing, so no part of the text is known to be good.

The key has each message about the problem's own text with its place there (lines counted from the
hole) and Dafny's notes. It also has the blocks that are open at the cut and, in a calculation, the
term that was reached. What failed in the body is dropped with its text and does not count. The
dropped text may have hidden more: a key says what is known to be open, at least. Nothing is
believed of a kept prefix: every proof is verified as a whole body. Not handled here: whole programs
(``annotate``, ``file``), which have no text of their own around the body.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, takewhile

from proverrl.config.search import SearchStates
from proverrl.errors import UsageError
from proverrl.lang.dafny.search.places import Cut, find_branch_end, find_cuts, rename_new
from proverrl.lang.dafny.syntax.reply import (
    is_endless,
    is_note,
    is_postcondition,
    is_promise_note,
)
from proverrl.lang.dafny.syntax.text import KEYWORDS, scan_tokens
from proverrl.lang.parts import Searching
from proverrl.lang.records import NO_GOALS, Segment, SegmentFn
from proverrl.types import HOLE, Candidate, Diagnostic, Problem, Status, Verdict
from proverrl.verifier.body_place import end_column, find_offset

KINDS = frozenset({"invariants", "statements", "calc", "assertions"})
"""The kinds of Dafny problems whose bodies have states."""

NOTHING_KNOWN = "nothing else is known to be open"
"""Stands for the obligations where only what was dropped failed."""

_BINDERS = frozenset({"forall", "exists", "set", "iset", "map", "imap", "var"})
_NAME = re.compile(r"[A-Za-z_](?:[\w']*\w)?")
# In a program a prime may end a name; in a message of Dafny it ends a quotation.
_WHOLE_NAME = re.compile(r"[A-Za-z_][\w'?]*")
_RELATIONS = frozenset({"==", "<", "<=", ">", ">=", "!=", "==>", "<==", "<==>"})


def segment_dafny(candidate: Candidate, verdict: Verdict) -> tuple[Segment, ...]:
    """One segment: the body up to its first failing statement, and the obligations left open. A
    proved body is one segment that ends in ``no goals``; empty when nothing is kept. Raises
    ``UsageError`` unless the problem is one of Dafny with a body of its own."""
    _check_kind(candidate)
    last = _find_last(candidate, verdict)
    return () if last is None else (last[0],)


def step_segments(candidate: Candidate, verdict: Verdict) -> tuple[Segment, ...]:
    """As ``segment_dafny``, with a segment for each statement before: its key is the text up to
    there without comments and blanks, in which the body's own names are numbered."""
    _check_kind(candidate)
    last = _find_last(candidate, verdict)
    if last is None:
        return ()
    segment, end = last
    return (*_text_segments(candidate, lambda cut: cut.end < end), segment)


def statement_segments(candidate: Candidate, verdict: Verdict) -> tuple[Segment, ...]:
    """As ``step_segments``, and for a body that was not verified, because the grammar, resolution
    or the audit refuses it, the statements before the place that is named. Nothing is known of
    these but that no error was found in them, so that their keys are their texts."""
    _check_kind(candidate)
    if verdict.status not in (Status.REJECTED, Status.UNSOUND) or verdict.obligations:
        return step_segments(candidate, verdict)
    places = [offset(candidate.body, error) for error in list_errors(verdict)]
    known = [place for place in places if place is not None]
    if not known or None in places:
        return ()
    end = min(known)
    return tuple(_text_segments(candidate, lambda cut: cut.start <= end))


def _find_last(candidate: Candidate, verdict: Verdict) -> tuple[Segment, int] | None:
    """The last segment, and where its last statement ends; None when nothing is kept."""
    if verdict.proved:
        return Segment(candidate.body, NO_GOALS), len(candidate.body.rstrip())
    cut = _find_cut(candidate, verdict)
    if cut is None:
        return None
    text = _kept_text(candidate.body, cut)
    return Segment(text, _make_key(candidate, verdict, cut)), cut.end


def _text_segments(candidate: Candidate, is_kept: Callable[[Cut], bool]) -> Iterator[Segment]:
    """A segment for each statement up to the first cut that is not kept."""
    known = known_words(candidate.problem)
    for cut in takewhile(is_kept, find_cuts(candidate.body)):
        text = candidate.body[: cut.end]
        words = [word for _, word in scan_tokens(text)]
        yield Segment(text, f"text: {rename_new(words, known)}")


def _check_kind(candidate: Candidate) -> None:
    problem = candidate.problem
    if problem.language != "dafny" or problem.kind not in KINDS:
        raise UsageError(
            f"problem {problem.id!r} ({problem.language}, {problem.kind}) has no states for "
            f"search; give problems of the kinds {', '.join(sorted(KINDS))}, or draw whole answers"
        )


def _find_cut(candidate: Candidate, verdict: Verdict) -> Cut | None:
    """The place where the body is cut; None when nothing is kept or nothing was verified."""
    if verdict.status is not Status.REJECTED or not verdict.obligations:
        return None
    errors = list_errors(verdict)
    cuts = find_cuts(candidate.body)
    if not errors or not cuts:
        return None
    place = min(_find_place(candidate, error) for error in errors)
    # A place in a statement keeps the cuts that come before it begins.
    kept = [cut for cut in cuts if cut.start <= place]
    return kept[-1] if kept else None


def list_errors(verdict: Verdict) -> list[Diagnostic]:
    """The failures, without Dafny's notes."""
    return [d for d in verdict.diagnostics if d.severity == "error" and not is_note(d.message)]


def _find_place(candidate: Candidate, error: Diagnostic) -> int:
    """The place in the body, in characters, before which all is kept."""
    body = candidate.body
    inside = offset(body, error)
    if is_postcondition(error.message):
        return len(body) if inside is None else find_branch_end(body, inside)
    if inside is not None:
        return inside
    if candidate.problem.kind == "invariants" and is_endless(error.message):
        # Dafny names the loop; the clause that fails is the body's.
        starts = [0, *(cut.start for cut in find_cuts(body))]
        return next((s for s in starts if body.startswith("decreases", s)), len(body))
    return len(body)


def offset(body: str, diagnostic: Diagnostic) -> int | None:
    """The place in the body, in characters; None for what is outside."""
    if diagnostic.body_line is None:
        return None
    return find_offset(body, diagnostic.body_line, diagnostic.body_column or 0)


def _kept_text(body: str, cut: Cut) -> str:
    """The text before a cut. Blanks before a next statement are left to whoever writes it, since
    tokens begin with them; after the last one, and a comment behind it, a line break asks for one
    more."""
    return body + "\n" if cut.start >= len(body) else body[: cut.end]


def _make_key(candidate: Candidate, verdict: Verdict, cut: Cut) -> str:
    known = known_words(candidate.problem)
    written = set(_NAME.findall(candidate.body)) - known
    places = {
        f"{_clean(d.message, written)} [{_name_place(candidate, d)}]"
        for d in verdict.diagnostics
        if d.severity != "warning" and not _goes_with_the_rest(d)
    }
    parts = sorted(places) or [NOTHING_KNOWN]
    if cut.blocks:
        words = [word for _, word in scan_tokens(" | ".join(cut.blocks))]
        parts.append(f"in: {rename_new(words, known - _find_bound(cut.blocks))}")
    if candidate.problem.kind == "calc":
        parts.append(f"at: {rename_new(_read_term(cut.last), known)}")
    return "\n".join(parts)


def _find_bound(blocks: tuple[str, ...]) -> set[str]:
    """The names that ``case`` patterns bind, which the problem may use elsewhere."""
    patterns = [head.partition("(")[2] for head in blocks if head.startswith("case ")]
    return {name for pattern in patterns for name in _NAME.findall(pattern)}


def _goes_with_the_rest(diagnostic: Diagnostic) -> bool:
    """True if what it tells of is dropped: what fails in the body fails after the cut."""
    is_return = is_postcondition(diagnostic.message)
    return diagnostic.body_line is not None and not is_return


def _clean(message: str, written: set[str]) -> str:
    """A message without numbers and without names that only the body has."""
    text = _NAME.sub(lambda match: "?" if match.group() in written else match.group(), message)
    return re.sub(r"\d+", "#", text)


def _name_place(candidate: Candidate, diagnostic: Diagnostic) -> str:
    """The place in the problem's own text; a return path has none, since it is where the body's
    branches end and not what is open."""
    if is_postcondition(diagnostic.message):
        return "return"
    hole_line = candidate.head.count("\n") + 1
    last_line = hole_line + candidate.body.count("\n")
    if (diagnostic.line, diagnostic.column) < (hole_line, end_column(candidate.head)):
        return f"{diagnostic.line - hole_line}:{diagnostic.column}"
    column = diagnostic.column
    if diagnostic.line == last_line:
        column -= end_column(candidate.head + candidate.body)
    return f"+{diagnostic.line - last_line}:{column}"


def _read_term(step: tuple[str, ...]) -> list[str]:
    """The term of a calculation's step, without relation and hint."""
    words = list(step[:-1] if step[-1:] == (";",) else step)
    if words[:1] and words[0] in _RELATIONS:
        words = words[1:]
    depth = 0
    for i, word in enumerate(words):
        depth += (word == "{") - (word == "}")
        if not depth:
            return words[i + 1 :] if word == "}" else words
    return words


def known_words(problem: Problem) -> frozenset[str]:
    """Names that mean the same in every body of the problem."""
    text = problem.preamble + problem.statement.replace(HOLE, "")
    return frozenset((*_NAME.findall(text), *_WHOLE_NAME.findall(text))) | KEYWORDS


def write_line(text: str) -> str:
    """Dafny on one line, in its layout unless that may mean something: a comment would hide what
    follows, and blanks in a text in quotes are a part of it."""
    is_plain = "//" not in text and "/*" not in text and '"' not in text
    return " ".join(text.split() if is_plain else (word for _, word in scan_tokens(text)))


def find_unknown(words: Sequence[str], problem: Problem) -> set[str]:
    """Names that neither the problem nor a quantifier of the hint gives: Dafny would not resolve
    them, and that is known without a call."""
    bound, unknown = set[str](), set[str]()
    is_binding = False
    known = known_words(problem)
    for before, word in pairwise(["", *words]):
        is_binding = word in _BINDERS or (is_binding and word not in ("::", "|", ":="))
        if word in known or before == "." or not (word[0].isalpha() or word[0] == "_"):
            continue
        (bound if is_binding else unknown).add(word)
    return unknown - bound


class DafnySearching(Searching):
    """States are obligations, and texts before them."""

    kinds = KINDS

    def segment(self, states: SearchStates) -> SegmentFn:
        return segment_dafny if states == "obligations" else statement_segments

    def count_open(self, state: str) -> int | None:
        if not state or state.startswith("text: "):
            return None
        if NO_GOALS in (state, state.partition("\n")[0]):
            return 0
        lines = [line for line in state.split("\n") if not line.startswith(("in: ", "at: "))]
        if lines == [NOTHING_KNOWN]:
            return 0
        failed = [line for line in lines if not is_note(line)]
        returns = [line for line in failed if is_postcondition(line)]
        # A return path has one line, however many postconditions fail on it; each has a note.
        num_post = sum(map(is_promise_note, lines))
        return len(failed) - len(returns) + max(len(returns), num_post)


SEARCHING = DafnySearching()
