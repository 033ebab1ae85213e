"""What a function with a precondition may read: nothing that depends on what it does not list."""

import pytest

from proverrl.lang.dafny.audit.bodies import audit

CLASS = """class C {{
  var on: bool
  var next: C?
  ghost var Repr: set<C>
  var sub: seq<C>
  var a: array<int>
  constructor (b: array<int>) {{ a := b; }}
  predicate Valid() reads this, Repr {{ this in Repr }}
  function F(o: C, s: seq<C>, b: array<C>, q: set<C>, i: int, f: C ~> int): int
    requires Valid() && 0 <= i < |s|
    reads {}
  {{ 0 }}
}}
function Me(o: C): C {{ o }}
predicate IsOn(o: C) requires o.next == null reads o {{ o.on }}
"""
ADMITTED = """this, Repr
this.Repr, this
`Repr, Repr
o, o.next, o.a
o`next, o.next
this, sub[i], set c | c in sub
s[i], set j | 0 <= j < i :: s[j]
b, b[i]
q, if i > 0 then {o} else {}
Me(o)
f.reads(o), f.reads
set c, x | c in s && x in f.reads(c) :: x
set j, x | 0 <= j < i && x in f.reads(s[j]) :: x"""
REFUSED = """*
Repr
this.Repr
o.next
o, o.next.next
o`on, o.next
if o.on then {o} else {}
b[i]
set c | c in s && c.on
set Repr | Repr in q :: Repr, Repr
if IsOn(o) then {o} else {}
if IsOn.requires(o) then {o} else {}
if o in f.reads(o) then {o} else {}
set x | x in q && x in f.reads(o) :: x
set x: C | x in q && x !in f.reads(o) :: x
var r := o.next; {r}"""


def find_rules(reads: str) -> list[str]:
    found = audit("file", CLASS.format(reads), dafny="4.11.0")
    return sorted({finding.rule for finding in found} - {"stored-function"})


@pytest.mark.parametrize("reads", ADMITTED.split("\n"))
def test_what_is_listed_by_itself_is_admitted(reads: str) -> None:
    assert find_rules(reads) == []


@pytest.mark.parametrize("reads", REFUSED.split("\n"))
def test_what_depends_on_the_heap_elsewhere_is_refused(reads: str) -> None:
    assert find_rules(reads) == ["unread-heap"]


HOLDERS = """predicate Total(f: int --> int) { forall x :: f.requires(x) }
function {:opaque} Map(f: (int ~> int), s: seq<int>): seq<int>
  requires forall i | 0 <= i < |s| :: f.requires(s[i])
  reads set i, o | 0 <= i < |s| && o in f.reads(s[i]) :: o
{ if s == [] then [] else [f(s[0])] + Map(f, s[1..]) }
lemma Keep<T>(x: T) { }
"""


@pytest.mark.parametrize(
    ("lemma", "is_admitted"),
    [
        ("lemma L(f: int -> int) { Keep(f); assert Total(f); }", True),
        ("lemma L(f: int ~> int) { Keep(f); }", False),
        ("lemma L(f: (int ~> int)) { Keep(f); }", False),
        ("lemma L(f: int -> int) { Keep(f); forall f: int ~> int { Keep(f); } }", False),
        ("lemma L(f: int -> int) { var g := (f: int ~> int) => [f]; }", False),
    ],
)
def test_a_parameter_that_reads_nothing_is_no_function_that_reads(
    lemma: str, is_admitted: bool
) -> None:
    found = {finding.rule for finding in audit("file", HOLDERS + lemma)}
    assert found == (set() if is_admitted else {"stored-function"})
