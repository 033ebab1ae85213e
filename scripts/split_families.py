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

CURRICULUM = Path("dafny/curriculum")
LEVELS = range(1, 6)
PER_LEVEL = 32


def main(third: str, others: str) -> None:
    """See the module."""
    by_family: dict[tuple[int, str], list[str]] = {}
    for line in (CURRICULUM / "train.jsonl").read_text("utf-8").splitlines(keepends=True):
        known = json.loads(line)["metadata"]
        by_family.setdefault((known["level"], known["family"]), []).append(line)
    chosen = [sorted(key for key in by_family if key[0] == level)[::3] for level in LEVELS]
    with open(third, "w", encoding="utf-8") as out:
        for keys in chosen:
            for i in range(PER_LEVEL):
                out.write(by_family[keys[i % len(keys)]][i // len(keys)])
    seen = {family for keys in chosen for _, family in keys}
    with open(others, "w", encoding="utf-8") as out:
        for line in (CURRICULUM / "heldout.jsonl").read_text("utf-8").splitlines(keepends=True):
            if json.loads(line)["metadata"]["family"] not in seen:
                out.write(line)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
