"""What a search leaves to learn from: bodies with a value and an advantage for each stretch.

Flows in: a search that ended, or a file. Flows out: ``SearchSample`` records, as JSON lines between
programs. DeepSearch says itself which paths to learn from and with what advantages (Wu et al. 2025,
arXiv 2509.25454). Of every other search all judged bodies are samples, and the value of a prefix is
the share of the bodies through its state that were proved: the prefix values of TEMPO (Tran et al.
2025, arXiv 2509.18314) over the states of the tree. A state under two parents is two nodes, as in
the tree. Not handled here: judging again what a file says (``proverrl.loops.reverify``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

from proverrl.errors import RecordError, UsageError
from proverrl.files.lines import write_lines_atomically
from proverrl.files.strict_json import load_json
from proverrl.problems.load import make_row, read_problem
from proverrl.search.base import Judged, Proposal
from proverrl.search.deepsearch import DeepSearch
from proverrl.search.run import Search
from proverrl.search.strategy import text_of
from proverrl.search.tree import steps_of
from proverrl.types import Candidate, Problem, Verdict

FIELDS = ("problem", "body", "proved", "ends", "values", "advantages", "search", "calls")


@dataclass(frozen=True, slots=True)
class SearchSample:
    """A judged body, cut into stretches.

    ``ends`` are where the stretches end, in characters of ``body``; the last is its length.
    ``values`` are those of the states there, between 0 and 1 but for ``deepsearch``, whose values
    are its Q; the last is the body's outcome where no state ends it. ``advantages`` has one a
    stretch. ``search`` is the name of the search, ``calls`` the verifier calls that it made in all.

    Raises:
        RecordError: the fields do not fit together.
    """

    problem: Problem
    body: str
    proved: bool
    ends: tuple[int, ...]
    values: tuple[float, ...]
    advantages: tuple[float, ...]
    search: str
    calls: int

    def __post_init__(self) -> None:
        if not len(self.ends) == len(self.values) == len(self.advantages):
            raise RecordError("'ends', 'values' and 'advantages' differ in length")
        starts = (0, *self.ends)
        rises = all(a < b for a, b in zip(starts, self.ends, strict=False))
        if self.ends[-1:] != (len(self.body),) or not (rises or self.ends == (0,)):
            raise RecordError(
                f"'ends' must rise to the body's length {len(self.body)}, they are "
                f"{list(self.ends)}"
            )
        if not all(math.isfinite(value) for value in (*self.values, *self.advantages)):
            raise RecordError("'values' and 'advantages' must be finite")


def collect_samples(search: Search) -> list[SearchSample]:
    """What a search leaves, in the order in which bodies were judged; of one that has not ended,
    what its finished expansions leave."""
    if isinstance(search.strategy, DeepSearch):
        rows = [
            (path.body, path.proved, path.ends, path.values, path.advantages)
            for path in search.strategy.training_paths()
        ]
    else:
        rows = list(_value_prefixes(search))
    # A body that was written twice is one sample for each time that it was learned from.
    return [SearchSample(search.problem, *row, search.config.name, search.calls) for row in rows]


def write_samples(path: Path, samples: Iterable[SearchSample]) -> None:
    """Write the file anew, whole or not at all; ``RunError`` when it cannot be written."""
    write_lines_atomically(path, (_make_line(sample) for sample in samples))


def read_samples(path: Path) -> list[SearchSample]:
    """The samples of a file, in its order.

    Raises:
        UsageError: the file cannot be read, or names the line that is no sample.
    """
    try:
        lines = path.read_text("utf-8").split("\n")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; check the path") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text: {error.reason}; write it anew") from error
    return [
        _read_line(f"{path}, line {number}", line)
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]


_Row = tuple[str, bool, tuple[int, ...], tuple[float, ...], tuple[float, ...]]


def _value_prefixes(search: Search) -> Iterator[_Row]:
    """The judged bodies with the shares of proofs at their states."""
    ways: list[tuple[str, bool, tuple[tuple[int, str], ...]]] = []
    for body, verdict in search.spent.verdicts.items():
        ways.append((body, verdict.proved, _find_states(search, body, verdict)))
    total: dict[tuple[str, ...], int] = {}
    good: dict[tuple[str, ...], int] = {}
    for _, proved, steps in ways:
        for node in _list_nodes(steps):
            total[node] = total.get(node, 0) + 1
            good[node] = good.get(node, 0) + proved
    for body, proved, steps in ways:
        shares = [good[node] / total[node] for node in _list_nodes(steps)]
        ends = [end for end, _ in steps]
        if not ends or ends[-1] < len(body):
            ends.append(len(body))
            shares.append(float(proved))
        gains = [after - before for before, after in pairwise(shares)]
        yield body, proved, tuple(ends), tuple(shares[1:]), tuple(gains)


def _find_states(search: Search, body: str, verdict: Verdict) -> tuple[tuple[int, str], ...]:
    """Ends and states of a body as the tree would take them: one that changes nothing collapses,
    and a finished proof is no state."""
    segment = search.functions.segment
    if segment is None:
        return ()
    segments = segment(Candidate(search.problem, body), verdict)
    # The text of the last one may go on after the body.
    text = text_of(Judged(Proposal(body, 0, 0.0), verdict, segments))
    steps: list[tuple[int, str]] = []
    end, state = 0, search.strategy.tree.root.state
    whole = len(body.rstrip()) if verdict.proved else len(text) + 1
    for place, key in steps_of(text, segments):
        if end < place < whole and key != state and end < len(body):
            end, state = min(place, len(body)), key
            steps.append((end, key))
    return tuple(steps)


def _list_nodes(steps: Sequence[tuple[int, str]]) -> list[tuple[str, ...]]:
    """The root and the nodes on a way, each named by the states that lead to it."""
    states = tuple(state for _, state in steps)
    return [states[:length] for length in range(len(states) + 1)]


def _make_line(sample: SearchSample) -> dict[str, Any]:
    fields = {name: getattr(sample, name) for name in FIELDS}
    return fields | {"problem": make_row(sample.problem)}


def _read_line(where: str, line: str) -> SearchSample:
    try:
        row = load_json(line)
    except ValueError as error:
        raise UsageError(f"{where}: not JSON ({error}); write one sample a line") from error
    if not isinstance(row, dict) or set(row) != set(FIELDS):
        raise UsageError(f"{where}: not a search sample; it has the fields {', '.join(FIELDS)}")
    problem = row["problem"]
    if not isinstance(problem, dict):
        raise UsageError(f"{where}: field 'problem' must be a problem; write it as a JSON object")
    _check(where, row)
    try:
        return SearchSample(
            read_problem(where, problem),
            row["body"],
            row["proved"],
            tuple(row["ends"]),
            tuple(map(float, row["values"])),
            tuple(map(float, row["advantages"])),
            row["search"],
            row["calls"],
        )
    except (RecordError, OverflowError) as error:
        raise UsageError(f"{where}: {error}; write what --emit-samples writes") from error


def _check(where: str, row: Mapping[str, Any]) -> None:
    """Refuse a field of a wrong type."""
    wants = {
        "body": ("a string", isinstance(row["body"], str)),
        "proved": ("true or false", isinstance(row["proved"], bool)),
        "ends": ("a list of whole numbers", _is_list(row["ends"], int)),
        "values": ("a list of numbers", _is_list(row["values"], int | float)),
        "advantages": ("a list of numbers", _is_list(row["advantages"], int | float)),
        "search": ("a string", isinstance(row["search"], str)),
        "calls": ("a whole number", _is_list([row["calls"]], int)),
    }
    for name, (kind, holds) in wants.items():
        if not holds:
            raise UsageError(f"{where}: field {name!r} must be {kind}, it is {row[name]!r:.60}")


def _is_list(value: object, kind: Any) -> bool:
    kinds = get_args(kind) or (kind,)
    return isinstance(value, list) and all(
        isinstance(item, kinds) and not isinstance(item, bool) for item in value
    )
