"""What depends on itself: types by a class, traits by two ways, measures by an earlier state."""

import pytest

from proverrl.lang.dafny.audit.bodies import audit
from proverrl.types import FILE

HONEST = """class C { var t: seq<nat> var d: Small ghost predicate Valid() reads this { |t| > 0 } }
type Small = x: int | IsSmall(x) witness 0
predicate IsSmall(x: int) { x < 9 }
trait A { const a: int } trait B { const b: int } trait G<T> { const g: T }
trait D extends A { } trait E extends A, G<int> { }
class F extends D, B, G<nat> { constructor() { a, b, g := 0, 1, 2; } }
twostate lemma L(c: C, n: nat) requires c.t == old(c.t) ensures n >= 0 decreases n - 1 + 0, (n)
{ if n > 0 { L(c, n - 1); } }
twostate predicate Same(c: C) reads c { c.t == old(c.t) }
class K { var k: int twostate predicate P() reads this { k == old(k) } }
"""
"""Only ``E`` and ``F`` have two parents, and no generic one in common."""
SPEAKS_OF_C = HONEST.replace("x < 9", "var c: C? := null; x < 9")


IN_A_MODULE = """module M {
  datatype Option<+T> = None | Some(v: T)
  class C { var o: Option<int> constructor() { o := None; } }
  type Known = x: Option<int> | x != None witness Some(0)
}
"""


def find_rules(text: str) -> list[str]:
    return [finding.rule for finding in audit(FILE, text, dafny="4.11.0")]


def test_what_depends_on_nothing_of_its_own_is_admitted() -> None:
    assert find_rules(HONEST) == find_rules(IN_A_MODULE) == []
    older = [finding.rule for finding in audit(FILE, HONEST, dafny="2.3.0")]
    assert older == ["two-parents"] * 3


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (SPEAKS_OF_C, "circular-type"),
        (HONEST.replace("x < 9", "Has<Small>() || x < 9"), "circular-type"),
        (HONEST.replace("x < 9", "Has<nat>() || x < 9"), ""),
        (HONEST.replace("IsSmall(x)", "x < 9 || Has<Small>()"), "circular-type"),
        (SPEAKS_OF_C.replace("var d: Small", "var d: int"), ""),
        (HONEST.replace("extends D, B, G<nat>", "extends D, E, B"), ""),
        (HONEST.replace("extends D, B, G<nat>", "extends D, E, G<nat>"), "two-parents"),
        (f"type S = G<nat>\n{HONEST}".replace("D, B, G<nat>", "S, E"), "two-parents"),
        (HONEST.replace("decreases n -", "decreases |c.t|, n -"), "two-state-measure"),
        (HONEST.replace("decreases n -", "decreases allocated(c), n -"), "two-state-measure"),
        (
            HONEST.replace("decreases n -", "decreases if old(c) == c then n else n -"),
            "two-state-measure",
        ),
        (
            HONEST.replace("predicate Same(c: C) reads c", "predicate Same(c: C) reads c.o"),
            "two-state-measure",
        ),
        (
            HONEST.replace(
                "predicate Same(c: C) reads c", "predicate Same(c: C) reads c.o decreases 0"
            ),
            "",
        ),
    ],
)
def test_what_depends_on_itself_is_refused(text: str, rule: str) -> None:
    assert find_rules(text) == [rule] * bool(rule)
