"""What a search leaves to learn from: bodies with a value and an advantage for each segment.

Flows in: a search that ended, or a file. Flows out: ``SearchSample`` records, as JSON lines between
programs. All judged bodies are samples, and the value of a prefix is the share of the bodies
through its state that were proved: the prefix values of TEMPO (Tran et al. 2025, arXiv 2509.18314)
over the states of the tree. A state under two parents is two nodes, as in
the tree. Not handled here: judging again what a file says (``proverrl.run.reverify``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import NonNegativeInt, TypeAdapter, with_config
from typing_extensions import TypedDict

from proverrl.errors import RecordError, RunError, UsageError
from proverrl.files.lines import find_text_fault, write_lines_atomically
from proverrl.files.typed_rows import ROW, iter_typed_lines
from proverrl.lang import find_language
from proverrl.policy.transformers import TransformersPolicy
from proverrl.problems.load import make_row, read_problem
from proverrl.problems.prompt import render_body, render_opening
from proverrl.rollout.samples import TrainingSample
from proverrl.search.base import JudgedProposal, Proposal, Search
from proverrl.search.composite import ROOT, Composite
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
    values: list[float]
    advantages: list[float]
    search: str
    calls: NonNegativeInt


_SAMPLE = TypeAdapter(_SampleRow)
_LISTS = ("ends", "states", "values", "advantages")


@dataclass(frozen=True, slots=True)
class SearchSample:
    """A judged body, cut into segments.

    ``ends`` are where the segments end, in characters of ``body``; the last is its length.
    ``states`` are the keys of the states there, the last "" where no state ends the body.
    ``values`` are those of the states, between 0 and 1; the last is the body's outcome where no
    state ends it. ``advantages`` has one a segment. ``search`` is the name of the search, ``calls``
    the verifier calls that it made in all.
    Raises ``RecordError`` if the fields do not fit together.
    """

    problem: Problem
    body: str
    proved: bool
    ends: tuple[int, ...]
    states: tuple[str, ...]
    values: tuple[float, ...]
    advantages: tuple[float, ...]
    search: str
    calls: int

    def __post_init__(self) -> None:
        if len({len(getattr(self, name)) for name in _LISTS}) > 1:
            raise RecordError("'ends', 'states', 'values' and 'advantages' differ in length")
        starts = (0, *self.ends)
        rises = all(a < b for a, b in zip(starts, self.ends, strict=False))
        if self.ends[-1:] != (len(self.body),) or not (rises or self.ends == (0,)):
            raise RecordError(
                f"'ends' must rise to the body's length {len(self.body)}, they are "
                f"{list(self.ends)}"
            )
        if not all(0 <= value <= 1 for value in self.values):
            raise RecordError("'values' must be from 0 to 1")
        if not all(-1 <= advantage <= 1 for advantage in self.advantages):
            raise RecordError("'advantages' are differences of values: they must be from -1 to 1")


def collect_samples(search: Search) -> list[SearchSample]:
    """What a search leaves, in the order in which bodies were judged, and last the bodies that a
    search of several put together; of one that has not ended, what its finished expansions leave.
    A body on which two verifiers differ, one with holes, or that no file can hold, is no sample."""
    samples: list[SearchSample] = []
    sketching = find_language(search.problem.language).sketching
    parts = search.searches if isinstance(search, Composite) else {ROOT: search}
    for key, part in parts.items():
        assert isinstance(part, TreeSearch)
        spent = [part.spent, search.spent] if key == ROOT else [part.spent]
        differ = {body for one in spent for body, _ in one.refuted}
        verdicts = {
            body: verdict
            for one in spent
            for body, verdict in one.verdicts.items()
            if verdict.status.judged
            and not (verdict.proved and body in differ)
            and not find_text_fault(body)
            and (verdict.proved or sketching is None or not sketching.has_holes(body))
        }
        samples += _value_prefixes(part, verdicts, search)
    return samples


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


def build_path_sample(
    policy: TransformersPolicy, sample: SearchSample, name: str
) -> TrainingSample | None:
    """The sample as tokens of the policy, named ``name``, prompt masked; None where a segment ends
    within a name that the layout replaces. The log-probabilities are 0.

    The body is written in the words of the policy's layout. A token has the advantage of the
    segment in which its first character lies. The end token belongs to the last segment, and what a
    layout writes before the body to the first. Raises ``UsageError`` if the policy's tokenizer does
    not tell where its tokens stand.
    """
    if not policy.tokenizer.is_fast:
        raise UsageError(
            "paths of searches need a tokenizer that tells where its tokens stand, and the "
            "policy's is a slow one; set samples.passes = 0"
        )
    text = render_body(sample.problem, sample.body, policy.layout)
    places = _find_places(sample, text, policy)
    if places is None:
        return None
    encoded = policy.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    new = (*(int(i) for i in encoded["input_ids"]), policy.end_id)
    starts = [start for start, _ in encoded["offset_mapping"]]
    credit = [sample.advantages[bisect_right(places, start)] for start in starts]
    credit.append(sample.advantages[-1])
    prompt = policy.prompt(sample.problem).token_ids
    zeros = (0.0,) * len(prompt)
    return TrainingSample(
        rollout_id=name,
        policy_version=policy.version,
        prompt_length=len(prompt),
        token_ids=prompt + new,
        loss_mask=(0,) * len(prompt) + (1,) * len(new),
        logprobs=zeros + (0.0,) * len(new),
        advantages=(*zeros, *credit),
    )


def _find_places(sample: SearchSample, text: str, policy: TransformersPolicy) -> list[int] | None:
    """Where in ``text``, the body in the words of the layout, its segments but the last end."""
    places = []
    for end in sample.ends[:-1]:
        opening = render_opening(sample.problem, sample.body[:end], policy.layout)
        if not text.startswith(opening):
            return None
        places.append(len(opening))
    return places


def _value_prefixes(
    part: TreeSearch, verdicts: Mapping[str, Verdict], search: Search
) -> Iterator[SearchSample]:
    """The bodies of a part of a search with the shares of proofs at their states."""
    ways = [
        (body, verdict.proved, _find_states(part, body, verdict))
        for body, verdict in verdicts.items()
    ]
    total: Counter[tuple[str, ...]] = Counter()
    good: Counter[tuple[str, ...]] = Counter()
    for _, proved, steps in ways:
        nodes = _list_nodes(steps)
        total.update(nodes)
        if proved:
            good.update(nodes)
    for body, proved, steps in ways:
        shares = [good[node] / total[node] for node in _list_nodes(steps)]
        if not steps or steps[-1][0] < len(body):
            steps = (*steps, (len(body), ""))
            shares.append(float(proved))
        gains = [after - before for before, after in pairwise(shares)]
        yield SearchSample(
            part.problem,
            body,
            proved,
            tuple(end for end, _ in steps),
            tuple(state for _, state in steps),
            tuple(shares[1:]),
            tuple(gains),
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


def _list_nodes(steps: Sequence[tuple[int, str]]) -> list[tuple[str, ...]]:
    """The root and the nodes on a way, each named by the states that lead to it."""
    states = tuple(state for _, state in steps)
    return [states[:length] for length in range(len(states) + 1)]


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
