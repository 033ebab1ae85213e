"""States of Lean proofs, as searches ask for them: truncate-and-resume (DeepSeek-Prover-V1.5, Xin
et al. 2024, arXiv 2408.08152).

Flows in: a candidate with a verdict whose ``states`` are the goals before every tactic. Flows out:
segments up to the cut; a next attempt continues from the last.

- The cut is the earliest error or ``sorry`` in the body; errors that begin with "unsolved goals" do
  not count, since Lean reports them where a block begins and not where its proof breaks.
- A line closes a segment when a tactic ends on it and another begins on a later line at or before
  the cut, whose goals are the state. A line that opens a block (its last word is ``by``, ``=>``,
  ...) ends no tactic. Comments after a line belong to the next segment.
- A proved body gets a closing segment with ``no goals``; one that only leaves goals of the theorem
  itself open, a closing segment with these.

Where Lean read no tactic (a term, a text that was refused) there is no segment. Lean does not list
a tactic that it cannot parse: then the segment before it is the last.
"""

from __future__ import annotations

import re
from bisect import bisect_left

from proverrl.config.search import SearchStates
from proverrl.errors import UsageError
from proverrl.lang.base import Searching
from proverrl.lang.lean.audit import LEAN_KINDS
from proverrl.lang.lean.goals import canonical_goals
from proverrl.lang.lean.syntax.tokens import scan_code, scan_tokens
from proverrl.lang.records import NO_GOALS, Prefix, Segment, SegmentFn
from proverrl.types import Candidate, Diagnostic, Problem, Status, Verdict
from proverrl.verify.body_place import hole_column

_UNSOLVED = "unsolved goals"
_SORRIES = frozenset({"sorry", "admit"})
_OPENERS = frozenset("by => := <;> with · . calc then else do from at ; , ( ⟨ [ {".split())


def segment_lean(candidate: Candidate, verdict: Verdict) -> tuple[Segment, ...]:
    """The segments of a body up to its first error; see the module. Raises ``UsageError`` if the
    problem is not one of Lean, or a proof by tactics came without states."""
    problem = candidate.problem
    if problem.language != "lean":
        raise UsageError(
            f"problem {problem.id!r} is in {problem.language}; take the states of that language"
        )
    if verdict.proved and problem.kind == "tactics" and not verdict.states:
        raise UsageError(
            f"the verdict on a proof of {problem.id!r} has no states; open the verifier with "
            "trace_states = True"
        )
    if verdict.status not in (Status.PROVED, Status.REJECTED, Status.INCOMPLETE):
        return ()
    cut = find_cut(candidate, verdict)
    segments = _list_segments(candidate.body, verdict, cut)
    ending = _find_ending(candidate, verdict, cut)
    if ending is not None and (not segments or segments[-1].text != candidate.body.rstrip()):
        segments.append(Segment(candidate.body.rstrip(), ending))
    return tuple(segments)


def find_cut(candidate: Candidate, verdict: Verdict) -> int:
    """The place, in characters of the body, of its earliest error or ``sorry``, but for errors of
    unsolved goals; the body's length without one."""
    body = candidate.body
    errors = [
        _offset(body, d.body_line, d.body_column or 0)
        for d in verdict.diagnostics
        if d.severity == "error" and d.body_line is not None and not _is_unsolved(d)
    ]
    sorries = [t.offset for t in scan_tokens(body) if t.is_code and t.text in _SORRIES]
    return min([*errors, *sorries, len(body)])


def resume_comment(problem: Problem, prefix: Prefix) -> str:
    """The text between a kept prefix and what is written next: its state in a comment, indented as
    the block that the prefix ends in; "" at the root. The comment does not close itself early."""
    if not prefix.text:
        return ""
    indent = " " * _find_indent(problem, prefix.text)
    state = prefix.state.replace("-/", "- /").replace("/-", "/ -")
    lines = ["/- tactic state:", *(f"  {line}" if line else "" for line in state.split("\n")), "-/"]
    return "\n" + "\n".join(indent + line if line else "" for line in lines) + "\n"


def _list_segments(body: str, verdict: Verdict, cut: int) -> list[Segment]:
    """Segments that end before a tactic on a line of its own begins."""
    goals: dict[int, tuple[int, str]] = {}
    for line, column, state in verdict.states:
        # Of the tactics of a line the first one's goals are those after the line before.
        goals.setdefault(line, (_offset(body, line, column), state))
    tokens = scan_code(body)
    offsets = [token.offset for token in tokens]
    segments: list[Segment] = []
    for _, (place, state) in sorted(goals.items()):
        if place > cut:
            break
        before = tokens[: bisect_left(offsets, place)][-1:]
        # Only a line break ends a segment, and only where a tactic ended.
        if before and before[0].text not in _OPENERS and "\n" in body[before[0].end : place]:
            segments.append(Segment(body[: before[0].end], state))
    return segments


def _find_ending(candidate: Candidate, verdict: Verdict, cut: int) -> str | None:
    """The state after the whole body; None when it was cut, or when it is not known."""
    if verdict.proved:
        return NO_GOALS
    errors = [d for d in verdict.diagnostics if d.severity == "error"]
    if cut < len(candidate.body) or not verdict.states or not errors:
        return None
    if any(not _is_unsolved(d) or d.body_line is not None for d in errors):
        # Goals of a block within the body: more text after its end is no way to close them.
        return None
    return canonical_goals(errors[0].message.partition("\n")[2].split("\n\n"))


def _is_unsolved(diagnostic: Diagnostic) -> bool:
    return diagnostic.message.startswith(_UNSOLVED)


def _offset(body: str, line: int, column: int) -> int:
    return sum(len(text) + 1 for text in body.split("\n")[: line - 1]) + column


def _find_indent(problem: Problem, text: str) -> int:
    """The column in which the prefix's last line begins; its first line begins at the hole."""
    lines = text.rstrip().split("\n")
    if len(lines) == 1:
        return hole_column(problem)
    column = re.match(r" *(?:· *)*", lines[-1])
    return len(column.group()) if column else 0


class LeanSearching(Searching):
    """States are goals, as Lean prints them before each tactic."""

    kinds = frozenset(LEAN_KINDS)
    has_steps = True
    needs_traces = True

    def segment(self, states: SearchStates) -> SegmentFn:
        return segment_lean

    def list_prefixes(self, body: str) -> list[str]:
        raise UsageError("prefixes of Lean proofs are read from their states, not from their text")

    def count_open(self, state: str) -> int | None:
        if not state or state.startswith("text: "):
            return None
        return 0 if state == NO_GOALS else state.count("\n\n") + 1

    def resume_comment(self, problem: Problem, prefix: Prefix) -> str:
        return resume_comment(problem, prefix)


SEARCHING = LeanSearching()
