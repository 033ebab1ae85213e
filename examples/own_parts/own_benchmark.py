"""A benchmark of somebody's own: Lean statements about small numbers (docs/plugins.md)."""

from __future__ import annotations

from typing import Any

from proverrl.types import HOLE, Problem


def small_sums() -> list[Problem | dict[str, Any]]:
    """Three sums as problems, the last of them held out, and a row as it would stand in a file."""
    sums: list[Problem | dict[str, Any]] = [
        Problem(
            id=f"sum_{one}_{other}",
            language="lean",
            kind="term",
            preamble="",
            statement=f"theorem sum_{one}_{other} : {one} + {other} = {one + other} := {HOLE}\n",
            split="heldout" if one == 3 else "valid",
        )
        for one, other in ((1, 2), (2, 2), (3, 4))
    ]
    row = {
        "id": "product",
        "language": "lean",
        "kind": "term",
        "statement": f"theorem product : 2 * 3 = 6 := {HOLE}\n",
        "split": "heldout",
        "reference": "rfl",
    }
    return [*sums, row]
