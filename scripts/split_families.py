"""Problems of a third of the families to train on, and the held-out problems of all others.

Usage: python scripts/split_families.py [--all] THIRD OTHERS

THIRD gets every third family of each level of dafny/curriculum/train.jsonl, 32 problems a level in
turn of its families. With --all it gets every problem, and every third of all families keeps its
references. OTHERS gets the problems of dafny/curriculum/heldout.jsonl of the other families.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from proverrl.errors import UsageError
from proverrl.files.disk import refuse_overwriting
from proverrl.files.lines import write_lines_atomically, write_whole
from scripts.arguments import telling_errors

CURRICULUM = Path(__file__).resolve().parents[1] / "dafny" / "curriculum"
LEVELS = range(1, 6)
PER_LEVEL = 32


def main(third: Path, others: Path, *, whole: bool = False) -> None:
    """See the module; ``whole`` is --all."""
    train, heldout = CURRICULUM / "train.jsonl", CURRICULUM / "heldout.jsonl"
    if third.resolve() == others.resolve():
        raise UsageError(f"{third} cannot hold both; name two files")
    for out in (third, others):
        refuse_overwriting(out, train, heldout)
    lines = train.read_text("utf-8").splitlines(keepends=True)
    seen = _keep_references(third, lines) if whole else _draw_third(third, lines)
    lines = heldout.read_text("utf-8").splitlines(keepends=True)
    unseen = (line for line in lines if json.loads(line)["metadata"]["family"] not in seen)
    write_whole(others, "".join(unseen))


def _draw_third(out: Path, lines: Sequence[str]) -> set[str]:
    """The families that were drawn, of each level."""
    by_family: dict[tuple[int, str], list[str]] = {}
    for line in lines:
        known = json.loads(line)["metadata"]
        by_family.setdefault((known["level"], known["family"]), []).append(line)
    chosen = [sorted(key for key in by_family if key[0] == level)[::3] for level in LEVELS]
    drawn = (
        by_family[keys[i % len(keys)]][i // len(keys)] for keys in chosen for i in range(PER_LEVEL)
    )
    write_whole(out, "".join(drawn))
    return {family for keys in chosen for _, family in keys}


def _keep_references(out: Path, lines: Sequence[str]) -> set[str]:
    """The families that keep their references, of all levels together."""
    rows = [json.loads(line) for line in lines]
    kept = set(sorted({row["metadata"]["family"] for row in rows})[::3])
    for row in rows:
        if row["metadata"]["family"] not in kept:
            del row["reference"]
    write_lines_atomically(out, rows)
    return kept


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--all"]
    if len(words) != 2:
        sys.exit(__doc__)
    with telling_errors():
        main(*map(Path, words), whole="--all" in sys.argv)
