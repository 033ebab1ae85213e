"""Takes the hints out of single declarations of somebody's verified Dafny files.

    python scripts/lab/hide_hints.py TREE OUT.jsonl --num 40 --seed 0

TREE holds .dfy files that verify. Each problem of OUT.jsonl, of the kind ``annotate``, is a file
with what it includes, in which one method, function or lemma has lost its loop invariants and
measures, assertions and calculations, and is not proved without them. At most ``--per-file`` are of
one file. They are for ``scripts/measure_annotate.py``.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from proverrl.cli.second_look import RLIMIT
from proverrl.errors import ProblemError
from proverrl.files.lines import write_lines_atomically
from proverrl.lang import find_language
from proverrl.lang.dafny.audit.strip import cut_lines, find_hints, read_whole
from proverrl.lang.dafny.known_bugs.misjudged import list_elements
from proverrl.lang.dafny.search.annotated import pose
from proverrl.lang.open import open_verifier
from proverrl.problems.inputs import Submission, make_file_candidate, read_inputs
from proverrl.problems.load import make_row
from proverrl.types import Problem
from proverrl.verifier.base import Verifier
from scripts.arguments import at_least, telling_errors

_SECONDS = 60


def hide_hints(text: str) -> Iterator[tuple[str, str]]:
    """The name of each declaration with hints, and the text without those."""
    hints, program = find_hints(text), read_whole(text)
    named = [element for element in list_elements(program.root) if element.named >= 0]
    for element in named:
        start, end = program.places[element.start], program.end(element.end - 1)
        inside = [hint for hint in hints if start <= hint[0] < end]
        is_member = any(slot.kind == "member-clauses" for slot in element.slots)
        if is_member and inside:
            bare = text
            for place in reversed(inside):
                bare = cut_lines(bare, *place)
            around = [e for e in named if e.start <= element.start < e.end]
            yield ".".join(program.find_name(e) or e.word for e in around), bare


async def choose(
    submission: Submission, verifier: Verifier, num: int, rng: random.Random
) -> list[Problem]:
    """At most so many problems of a file; none if it does not verify as it is."""
    text = submission.candidate.body
    name = "/".join(Path(submission.file).with_suffix("").parts[-2:])
    found: list[Problem] = []
    try:
        verdict = await verifier.verify(submission.candidate, deadline_seconds=_SECONDS)
        hidden = list(hide_hints(text)) if verdict.proved else []
    except ProblemError as error:
        print(f"{name}: {error}", flush=True)
        return []
    for holder, bare in rng.sample(hidden, len(hidden)):
        if len(found) < num:
            asked = make_file_candidate(f"{name}.{holder}", bare)
            verdict = await verifier.verify(asked, deadline_seconds=_SECONDS)
            if verdict.failed_in_prover:
                found += _pose(f"{name}.{holder}", bare)
    print(f"{name}: {len(hidden)} with hints, {len(found)} chosen", flush=True)
    return found


def _pose(name: str, text: str) -> list[Problem]:
    try:
        problem = pose(name, text)
        find_language("dafny").check_problem(problem)
    except ProblemError as error:
        print(error, flush=True)
        return []
    return [problem]


async def work(options: argparse.Namespace) -> list[Problem]:
    """The problems of a tree, in an order drawn by the seed."""
    rng, found = random.Random(options.seed), list[Problem]()
    entries = list(read_inputs([str(options.tree)], sys.stdin.buffer))
    verifier = open_verifier(workers=1, rlimit=RLIMIT)
    try:
        for entry in rng.sample(entries, len(entries)):
            if isinstance(entry, Submission) and len(entry.candidate.body) <= options.longest:
                num = min(options.per_file, options.num - len(found))
                found += await choose(entry, verifier, num, rng) if num else []
    finally:
        await verifier.aclose()
    return found


def main() -> None:
    """Read the arguments, choose, and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tree", type=Path, help="a folder of verified .dfy files")
    parser.add_argument("out", type=Path, help="the problems are written here")
    parser.add_argument("--num", type=at_least(1), default=40)
    parser.add_argument("--per-file", type=at_least(1), default=3)
    parser.add_argument("--longest", type=at_least(1), default=40_000, help="characters of a file")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with telling_errors():
        problems = asyncio.run(work(options))
        write_lines_atomically(options.out, [make_row(problem) for problem in problems])


if __name__ == "__main__":
    main()
