"""Writes those problems of a file whose reference has two or more hints that can be pooled.

    python scripts/choose_poolable.py problems.jsonl chosen.jsonl

These are what a search by pooled hints can be measured on (docs/search.md).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from proverrl.files.disk import refuse_overwriting
from proverrl.lang import find_language
from proverrl.problems.load import load_problems, load_references, make_row, write_problems
from scripts.arguments import telling_errors

LEAST = 2


def choose(path: Path, out: Path) -> str:
    """Write them in the order of the file; returns a line of report."""
    refuse_overwriting(out, path)
    references, rows = load_references(path), []
    problems = load_problems(path)
    for problem in problems:
        pooling = find_language(problem.language).pooling
        reference = references.get(problem.id, "")
        if pooling is not None and len(pooling.list_hints(problem, reference)) >= LEAST:
            rows.append(make_row(problem) | {"reference": reference})
    written = write_problems(out, rows)
    counted = f"{len(references)} of them have a reference"
    return f"{written} of {len(problems)} problems written to {out}; {counted}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, metavar="FILE")
    parser.add_argument("out", type=Path, metavar="OUT")
    given = parser.parse_args()
    with telling_errors():
        print(choose(given.path, given.out))
