"""Samples to learn from that a search leaves: judged bodies, and the states on their ways.

Flows in: a search that ended, or a file. Flows out: ``SearchSample`` records, as JSON lines between
programs. Not handled here: judging again what a file says (``proverrl.run.reverify``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pydantic import NonNegativeInt, TypeAdapter, with_config
from typing_extensions import TypedDict

from proverrl.errors import RecordError, RunError
from proverrl.files.lines import ROW, find_text_fault, iter_typed_lines, write_lines_atomically
from proverrl.problems.load import make_row, read_problem
from proverrl.search.base import JudgedProposal, Proposal, Search
from proverrl.search.pooled_hints import PooledHints
from proverrl.search.run import TreeSearch
from proverrl.search.strategy import text_of
from proverrl.search.tree import steps_of
from proverrl.types import Candidate, Problem, Verdict

_ANEW = "write it anew with proverrl search --emit-samples"


@with_config({**ROW, "extra": "forbid"})
class _SampleRow(TypedDict):
    problem: dict[str, Any]
    body: str
    proved: bool
    ends: list[int]
    states: list[str]
    search: str
    calls: NonNegativeInt


_SAMPLE = TypeAdapter(_SampleRow)
_LISTS = ("ends", "states")


@dataclass(frozen=True, slots=True)
class SearchSample:
    """A judged body, cut into segments.

    ``ends`` are where the segments end, in characters of ``body``; the last is its length.
    ``states`` are the keys of the states there, the last "" where no state ends the body.
    ``search`` is the name of the search, ``calls`` the verifier calls that it made in all.
    Raises ``RecordError`` if the fields do not fit together.
    """

    problem: Problem
    body: str
    proved: bool
    ends: tuple[int, ...]
    states: tuple[str, ...]
    search: str
    calls: int

    def __post_init__(self) -> None:
        if len(self.ends) != len(self.states):
            raise RecordError("'ends' and 'states' differ in length")
        starts = (0, *self.ends)
        rises = all(a < b for a, b in zip(starts, self.ends, strict=False))
        if self.ends[-1:] != (len(self.body),) or not (rises or self.ends == (0,)):
            raise RecordError(
                f"'ends' must rise to the body's length {len(self.body)}, they are "
                f"{list(self.ends)}"
            )


def collect_samples(search: Search) -> list[SearchSample]:
    """The samples of a search in the order in which bodies were judged, then of the bodies that it
    put together. A search that has not ended gives those of its finished expansions. A body on
    which two verifiers differ, or that no file can hold, is no sample."""
    whole = search.best_of_n if isinstance(search, PooledHints) else search
    if whole is None:
        return []
    assert isinstance(whole, TreeSearch)
    spent = [whole.spent] if whole is search else [whole.spent, search.spent]
    differ = {body for one in spent for body, _ in one.refuted}
    verdicts = {
        body: verdict
        for one in spent
        for body, verdict in one.verdicts.items()
        if verdict.status.judged
        and not (verdict.proved and body in differ)
        and not find_text_fault(body)
    }
    return [_make_sample(whole, body, verdict, search) for body, verdict in verdicts.items()]


def write_samples(path: Path, samples: Iterable[SearchSample]) -> None:
    """Write the file anew, whole or not at all; ``RunError`` when it cannot be written."""
    names = [field.name for field in fields(SearchSample)]
    rows = ({name: getattr(sample, name) for name in names} for sample in samples)
    write_lines_atomically(path, (row | {"problem": make_row(row["problem"])} for row in rows))


def read_samples(path: Path) -> list[SearchSample]:
    """The samples of a file, in its order. Raises ``RunError`` if the file cannot be read or a line
    is not a sample, and ``ProblemError`` if its problem is none; both name the line."""
    return [
        _read_sample(f"{path}, line {number}", row)
        for number, _, row in iter_typed_lines(path, _SAMPLE, _ANEW, _refuse_cut)
    ]


def _make_sample(whole: TreeSearch, body: str, verdict: Verdict, search: Search) -> SearchSample:
    steps = _find_states(whole, body, verdict)
    if not steps or steps[-1][0] < len(body):
        steps = (*steps, (len(body), ""))
    return SearchSample(
        whole.problem,
        body,
        verdict.proved,
        tuple(end for end, _ in steps),
        tuple(state for _, state in steps),
        search=search.config.name,
        calls=search.calls,
    )


def _find_states(search: TreeSearch, body: str, verdict: Verdict) -> tuple[tuple[int, str], ...]:
    """Ends and states of a body as the tree would take them: one that changes nothing collapses,
    and a finished proof is no state."""
    segment = search.functions.segment
    if segment is None:
        return ()
    segments = segment(Candidate(search.problem, body), verdict)
    # The text of the last one may go on after the body.
    text = text_of(JudgedProposal(Proposal(body, 0, 0.0), verdict, segments))
    steps: list[tuple[int, str]] = []
    end, state = 0, search.strategy.tree.root.state
    whole = len(body.rstrip()) if verdict.proved else len(text) + 1
    for place, key in steps_of(text, segments):
        if end < place < whole and key != state and end < len(body):
            end, state = min(place, len(body)), key
            steps.append((end, key))
    return tuple(steps)


def _refuse_cut(told: str) -> None:
    # The file is written whole, so that what is missing was lost afterwards.
    raise RunError(f"{told}; {_ANEW}")


def _read_sample(where: str, row: dict[str, Any]) -> SearchSample:
    problem = read_problem(where, row["problem"])
    lists = {name: tuple(row[name]) for name in _LISTS}
    try:
        return SearchSample(**row | lists | {"problem": problem})
    except RecordError as error:
        raise RunError(f"{where}: {error}; {_ANEW}") from error
