"""What a value model learns from: prefixes of bodies, and whether the whole body was proved.

Flows in: the rollouts of a run, and samples of searches. Flows out: ``ValuePair`` records. A
rollout is cut after each statement, a sample of a search where its states end. Not handled here:
DeepSearch's choice, which leaves out most failures; give its samples beside others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proverrl.errors import ProblemError, UsageError
from proverrl.files.strict_json import load_json
from proverrl.lang import find_language
from proverrl.search.samples import SearchSample
from proverrl.types import Candidate, Problem, Status


@dataclass(frozen=True, slots=True)
class ValuePair:
    """A prefix of a body, and whether the whole body was proved."""

    problem: Problem
    prefix: str
    solved: bool


def read_pairs(files: Iterable[Path], language: str = "dafny") -> list[ValuePair]:
    """The pairs of a run's ``rollouts/*.jsonl``: the empty prefix of each judged body and one for
    every statement that another follows.

    Raises:
        UsageError: a file cannot be read, or a line is no rollout.
    """
    pairs = []
    for file in files:
        try:
            lines = file.read_bytes().splitlines()
        except OSError as error:
            raise UsageError(f"cannot read {file}: {error.strerror}; check the path") from error
        for number, line in enumerate(lines, 1):
            try:
                pairs += _read_row(load_json(line), language)
            except (KeyError, TypeError, ValueError, ProblemError) as error:
                raise UsageError(
                    f"{file}, line {number}: not a rollout ({error!r}); give the files that a run "
                    "wrote into its folder rollouts/"
                ) from error
    return pairs


def list_pairs(samples: Iterable[SearchSample]) -> list[ValuePair]:
    """The pairs of searches: the empty prefix, and the body up to each end but the last."""
    return [
        ValuePair(sample.problem, sample.body[:end], sample.proved)
        for sample in samples
        for end in (0, *sample.ends[:-1])
    ]


def hash_pairs(pairs: Sequence[ValuePair]) -> str:
    """SHA-256 of the pairs in their order."""
    digest = hashlib.sha256()
    for pair in pairs:
        key = Candidate(pair.problem, pair.prefix).key
        digest.update(f"{pair.problem.id}\0{key}\0{pair.solved}\n".encode())
    return digest.hexdigest()


def _read_row(row: dict[str, Any], language: str) -> list[ValuePair]:
    status = Status(row["status"])
    body = row["body"]
    if not status.judged or not isinstance(body, str):
        return []
    given = row["problem"]
    # The kind decides how a body is verified, not how the problem is shown.
    problem = Problem(given["id"], language, "statements", given["preamble"], given["statement"])
    solved = status is Status.PROVED
    searching = find_language(language).searching
    if searching is None:
        raise UsageError(f"proofs in {language} have no states that a value model could judge")
    return [ValuePair(problem, prefix, solved) for prefix in searching.list_prefixes(body)]
