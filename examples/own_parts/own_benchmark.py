"""A benchmark of somebody's own: loops that multiply, in Dafny (docs/plugins.md)."""

from __future__ import annotations

from typing import Any

from proverrl.types import HOLE, Problem


def loops() -> list[Problem | dict[str, Any]]:
    """Two problems, the second held out, and a row as it would stand in a file, with its proof."""
    row = {
        "id": "times_5",
        "language": "dafny",
        "kind": "invariants",
        "statement": write_loop(5),
        "split": "heldout",
        "reference": "invariant i <= n\ninvariant r == 5 * i",
    }
    return [make_problem(3, "valid"), make_problem(4, "heldout"), row]


def make_problem(factor: int, split: Any) -> Problem:
    """The loop for one factor as a problem."""
    return Problem(f"times_{factor}", "dafny", "invariants", "", write_loop(factor), split=split)


def write_loop(factor: int) -> str:
    """A program whose loop needs invariants."""
    return (
        f"method Times{factor}(n: nat) returns (r: int)\n  ensures r == {factor} * n\n{{\n"
        f"  r := 0;\n  var i := 0;\n  while i < n\n    {HOLE}\n  {{\n    i := i + 1;\n"
        f"    r := r + {factor};\n  }}\n}}\n"
    )
