"""States of Lean proofs, as searches ask for them: truncate-and-resume (DeepSeek-Prover-V1.5, Xin
et al. 2024, arXiv 2408.08152).

Flows in: a candidate with a verdict whose ``states`` are the goals before every tactic. Flows out:
segments up to the cut; a next attempt continues from the last.

- The cut is the earliest error or ``sorry`` in the body. Lean tells of what a block leaves open
  where the block begins; such an error stands where the block ends, since more tactics could follow
  there.
- A line closes a segment when a tactic ends on it and another begins on a later line at or before
  the cut, whose goals are the state. A line that opens a block (its last word is ``by``, ``=>``,
  ...) ends no tactic. Comments after a line belong to the next segment.
- Where the cut is the end of a block, or of the body, a closing segment has the goals that are open
  in the innermost block there. A proved body gets one with ``no goals``.
- Missing alternatives of ``cases`` or ``induction`` are open as long as the body ends with it: the
  state is the goal before it, with what is missing.

Where Lean read no tactic (a term, a text that was refused) there is no segment. Lean does not list
a tactic that it cannot parse: then the segment before it is the last.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass

from proverrl.config.search import SearchStates
from proverrl.errors import UsageError
from proverrl.lang.lean.audit.text import LEAN_KINDS
from proverrl.lang.lean.search.blocks import Block, find_blocks, find_inmost
from proverrl.lang.lean.syntax.tokens import scan_code, scan_tokens
from proverrl.lang.lean.verify.goals import canonical_goals
from proverrl.lang.parts import Searching
from proverrl.lang.records import NO_GOALS, Prefix, Segment, SegmentFn
from proverrl.types import Candidate, Diagnostic, Problem, Status, Verdict
from proverrl.verifier.body_place import find_offset, hole_column

_UNSOLVED = "unsolved goals"
_MISSING = re.compile(r"[Aa]lternative .* has not been provided")
_BETWEEN = "\n\n"
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
    blocks = find_blocks(problem, candidate.body)
    cut = find_cut(candidate, verdict, blocks)
    segments = _list_segments(candidate.body, verdict, cut.place, blocks)
    text = candidate.body[: cut.place].rstrip()
    if cut.state and (not segments or segments[-1].text != text):
        segments.append(Segment(text, cut.state))
    return tuple(segments)


@dataclass(frozen=True, slots=True)
class Cut:
    """The end of what is kept of a body, in characters, and the state there; "" where there is
    none to go on from."""

    place: int
    state: str = ""


def find_cut(candidate: Candidate, verdict: Verdict, blocks: list[Block]) -> Cut:
    """The place where a body is cut; see the module."""
    body = candidate.body
    length = len(body.rstrip())
    if verdict.proved:
        return Cut(length, NO_GOALS)
    last_line = candidate.head.count("\n") + body.count("\n") + 1
    stops = [t.offset for t in scan_tokens(body) if t.is_code and t.text in _SORRIES]
    left = list[tuple[int, int, str]]()
    is_elsewhere = False
    for error in verdict.diagnostics:
        if error.severity != "error":
            continue
        place = None if error.body_line is None else offset_in(body, error)
        found = _read_open(error, place, verdict, body, blocks)
        if found is not None:
            left.append(found)
        elif place is None:
            # Behind an unfinished body Lean stumbles over what follows it.
            is_elsewhere |= error.line <= last_line
        elif place < length:
            stops.append(place)
    cut = min([*stops, *(end for end, _, _ in left), length])
    ended = [(begin, goal) for end, begin, goal in left if end == cut]
    if cut in stops or is_elsewhere or not ended or not verdict.states:
        return Cut(cut)
    # Before a tactic inside a block Lean names that block's goals alone.
    inmost, _ = max(ended)
    goals = _BETWEEN.join(goal for begin, goal in ended if begin == inmost)
    return Cut(cut, canonical_goals(goals.split(_BETWEEN)))


def offset_in(body: str, diagnostic: Diagnostic) -> int:
    """The place of a diagnostic that has one in the body, in characters."""
    return find_offset(body, diagnostic.body_line or 1, diagnostic.body_column or 0)


def is_unsolved(diagnostic: Diagnostic) -> bool:
    """True if Lean says of a block that goals are left at its end."""
    return diagnostic.message.startswith(_UNSOLVED)


def _read_open(
    error: Diagnostic, place: int | None, verdict: Verdict, body: str, blocks: list[Block]
) -> tuple[int, int, str] | None:
    """End, beginning and goals of the block that an error says is not finished."""
    if is_unsolved(error):
        goals = error.message.partition("\n")[2]
        if place is None:
            return len(body.rstrip()), -1, goals
        ends = [block.end for block in blocks if block.opener == place]
        return (ends[0], place, goals) if ends else None
    block = None if place is None else find_inmost(blocks, place)
    if block is None or place is None or _MISSING.match(error.message) is None:
        return None
    before = (
        state for line, column, state in verdict.states if find_offset(body, line, column) == place
    )
    goal = f"{next(before, '').partition(_BETWEEN)[0]}\n{error.message}"
    return (block.end, place, goal) if _ends_with(body, block, place) else None


def _ends_with(body: str, block: Block, place: int) -> bool:
    """True if the tactic at a place is the last of its block."""
    later = (t for t in scan_code(body[: block.end]) if t.offset > place)
    return all(
        token.text == "|" or token.column > block.column
        for token in later
        if not body[: token.offset].rpartition("\n")[2].strip()
    )


def resume_comment(problem: Problem, prefix: Prefix) -> str:
    """The text between a kept prefix and what is written next: its state in a comment, indented as
    the block that the prefix ends in; "" at the root, a line break where the state is not known.
    The comment does not close itself early."""
    if not prefix.text or not prefix.state:
        return "\n" if prefix.text else ""
    indent = " " * _find_indent(problem, prefix.text)
    state = prefix.state.replace("-/", "- /").replace("/-", "/ -")
    lines = ["/- tactic state:", *(f"  {line}" if line else "" for line in state.split("\n")), "-/"]
    return "\n" + "\n".join(indent + line if line else "" for line in lines) + "\n"


def _list_segments(body: str, verdict: Verdict, cut: int, blocks: list[Block]) -> list[Segment]:
    """Segments that end before a tactic on a line of its own begins."""
    goals: dict[int, tuple[int, str]] = {}
    for line, column, state in verdict.states:
        # Of the tactics of a line the first one's goals are those after the line before.
        goals.setdefault(line, (find_offset(body, line, column), state))
    tokens = scan_code(body)
    offsets = [token.offset for token in tokens]
    segments: list[Segment] = []
    for _, (place, state) in sorted(goals.items()):
        if place > cut:
            break
        before = tokens[: bisect_left(offsets, place)][-1:]
        around = find_inmost(blocks, place)
        if state == NO_GOALS and around is not None and around.opener >= 0:
            # A block that is finished is not the proof.
            continue
        # Only a line break ends a segment, and only where a tactic ended.
        if before and before[0].text not in _OPENERS and "\n" in body[before[0].end : place]:
            segments.append(Segment(body[: before[0].end], state))
    return segments


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

    def opens_block(self, line: str) -> bool:
        tokens = scan_code(line)
        return bool(tokens) and tokens[-1].text in _OPENERS

    def segment(self, states: SearchStates) -> SegmentFn:
        return segment_lean

    def count_open(self, state: str) -> int | None:
        if not state or state.startswith("text: "):
            return None
        return 0 if state == NO_GOALS else state.count("\n\n") + 1

    def resume_comment(self, problem: Problem, prefix: Prefix) -> str:
        return resume_comment(problem, prefix)

    def next_column(self, problem: Problem, text: str) -> int:
        blocks = find_blocks(problem, text)
        is_open = bool(blocks) and blocks[-1].column < 0
        return blocks[-1].indent + 2 if is_open else hole_column(problem)


SEARCHING = LeanSearching()
