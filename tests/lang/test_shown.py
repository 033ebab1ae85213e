"""A policy sees nothing of the answer that stands behind a hole for a statement."""

import pytest

from proverrl.lang import find_language
from proverrl.types import HOLE, Problem

CLAIM = "method Meant(n: nat)\n  ensures n >= 0\n{\n}\n"


@pytest.mark.parametrize(
    ("language", "kind", "statement", "shown"),
    [
        (
            "dafny",
            "contract",
            f"method M(n: nat)\n  {HOLE}\n{CLAIM}",
            f"method M(n: nat)\n  {HOLE}",
        ),
        ("dafny", "program", f"method M(n: nat)\n  {HOLE}\n{CLAIM}", f"method M(n: nat)\n  {HOLE}"),
        ("lean", "proposition", f"def P : Prop := {HOLE}\n-- Meant", f"def P : Prop := {HOLE}"),
        # A contract that is given is no answer, nor is the rest of a proof.
        ("dafny", "program", f"method M(n: nat)\n  ensures n >= 0\n{HOLE}\n{CLAIM}", ""),
        ("dafny", "statements", f"lemma M(n: nat) {{\n  {HOLE}\n}}\n{CLAIM}", ""),
        ("lean", "proof", f"theorem a : True := by\n  {HOLE}\n-- Meant", ""),
    ],
)
def test_what_is_meant_is_not_shown(language: str, kind: str, statement: str, shown: str) -> None:
    found = find_language(language)
    problem = Problem("p", language, kind, "// before\n", statement)
    assert found.show_text(problem) == "// before\n" + (shown or statement)
    assert found.hides_rest(problem) == bool(shown)
