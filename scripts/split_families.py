"""Problems of a third of the families to train on, and the held-out problems of all others.

Usage: python scripts/split_families.py THIRD OTHERS

THIRD gets every third family of each level of dafny/curriculum/train.jsonl, 32 problems a level in
turn of its families; OTHERS the problems of dafny/curriculum/heldout.jsonl of the families that are
not in THIRD.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from proverrl.errors import UsageError
from proverrl.files.disk import refuse_overwriting
from proverrl.files.lines import write_whole
from scripts.arguments import telling_errors

CURRICULUM = Path(__file__).resolve().parents[1] / "dafny" / "curriculum"
LEVELS = range(1, 6)
PER_LEVEL = 32


def main(third: Path, others: Path) -> None:
    """See the module."""
    train, heldout = CURRICULUM / "train.jsonl", CURRICULUM / "heldout.jsonl"
    if third.resolve() == others.resolve():
        raise UsageError(f"{third} cannot hold both; name two files")
    for out in (third, others):
        refuse_overwriting(out, train, heldout)
    by_family: dict[tuple[int, str], list[str]] = {}
    for line in train.read_text("utf-8").splitlines(keepends=True):
        known = json.loads(line)["metadata"]
        by_family.setdefault((known["level"], known["family"]), []).append(line)
    chosen = [sorted(key for key in by_family if key[0] == level)[::3] for level in LEVELS]
    drawn = (
        by_family[keys[i % len(keys)]][i // len(keys)] for keys in chosen for i in range(PER_LEVEL)
    )
    write_whole(third, "".join(drawn))
    seen = {family for keys in chosen for _, family in keys}
    lines = heldout.read_text("utf-8").splitlines(keepends=True)
    unseen = (line for line in lines if json.loads(line)["metadata"]["family"] not in seen)
    write_whole(others, "".join(unseen))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with telling_errors():
        main(*map(Path, sys.argv[1:]))
