"""What meets in one expression of a bare file or of a hint: its types are asked of Dafny 4."""

import pytest

from proverrl.lang.dafny.audit.bodies import PROGRAM
from proverrl.lang.dafny.syntax.cursor import COLLECTIONS
from proverrl.lang.dafny.syntax.program import read_text
from proverrl.lang.dafny.verify.walls.mixed_types import (
    _are_apart,
    _is_of_one_type,
    _list_generic_calls,
    _resolve_synonyms,
    _sort_types,
    _TypeNames,
)
from proverrl.lang.dafny.verify.workers.toolchain import DafnyToolchain
from proverrl.types import FILE, HOLE, Candidate, Status
from tests.lang.dafny.test_dafny_4_first import judge, make

DECLARED = """module Other { datatype D<+T> = D(v: T) }
type Count = Natural
type Natural = nat
class C { var z: int }
datatype D<T> = D(v: T)
datatype Dp<+T> = Dp(v: T)
datatype E<T> = E(d: D<T>)
datatype Op<T> = No | So(v: T)
function Id<T>(x: T): T { x }
function Fs<T>(d: D<T>): T { d.v }
function Pick<T>(kk: bool, xx: T, yy: T): T { if kk then xx else yy }
function gC(c: C): D<C> { D(c) }
function gQ(c: C?): D<C?> { D(c) }
lemma nc(x: C) ensures var y: C? := x; y != null { }
lemma nf(x: int -> int) ensures x.requires(0) { }
lemma na(x: array<int>) ensures var y: array?<int> := x; y != null { }
lemma nn(x: nat) ensures x >= 0 { }
lemma False(c: C, n: C?, f: int -> int, p: int --> int, k: bool, ar: array<int>, an: array?<int>,
    h: nat, i: int)
  requires !k && n == null && !p.requires(0) && an == null && i == -1
  ensures false
"""
BELIEVED = """nc((if k then E(D(c)) else E(D(n))).d.v);
var a: D<C>, b: D<C?> := D(c), D(n); nc((match k case true => a case false => b).v);
var s := (var q, r := E(D(f)), E(D(p)); if k then q else r); nf(s.d.v);
var s := (if k then Fs(D((D(h), 0))) else Fs(D((D(i), 0)))); nn(s.0.v);
nn(old(if k then E(D(h)) else E(D(i))).d.v);
var s := (imap[0 := E(D(ar))] + imap[0 := E(D(an))])[0]; na(s.d.v);
nn((match (k, [(x: int) => i]) case (true, _) => [(x: int) => h] case (_, q) => q)[0](0));
var a: Op<C>, b: Op<C?> := So(c), So(n); nc(([a] + [b])[1].v);
var s := (map i: int | 0 <= i < 2 :: if i == 1 then E(D(ar)) else E(D(an)))[0]; na(s.d.v);
nf((if k then (Dp(D(f)), 0) else (Dp(D(p)), 0)).0.v.v);
var s := (assert true; if k then E(D(f)) else E(D(p))); nf(s.d.v);
var a: D<nat>, b: D<int> := D(h), D(i); nn((if k then a else if k then a else b).v);
nf((map[0 := E(D(f))] + map[0 := E(D(p))])[0].d.v);
nn((if k then [((x: int) => h)] else [((x: int) => i)])[0](0));
var a := Dp(D(f)); var b := Dp(D(p)); nf((if k then Id(a) else Id(b)).v.v);
var a: Op<C>, b: Op<C?> := So(c), So(n); nc((if k then ((x: int) => a) else ((x: int) => b))(0).v);
nn(([((x: int) => h)][..0] + [((x: int) => i)])[0](0));
var a: (int -> int, int), b: (int --> int, int) := (f, 0), (p, 0); nf(Pick(k, a, b).0);
var a := D(c); var b := D(n); nc(([gC(c)] + [gQ(n)])[1].v);
var a: D<C> := D(c); var s: D<C> := (if k then gC(c) else gQ(n)); nc(s.v);
var a: Count, b: int := h, i; nn((if k then E(D(a)) else E(D(b))).d.v);
"""
"""Each of these proofs of false is believed by Dafny 4.11."""
HONEST = """type Version = nat
datatype Option<+T> = None | Some(value: T)
datatype Package = Package(name: string, v: Version)
class C { }
function Range(n: nat): seq<nat> { if n == 0 then [] else Range(n - 1) + [n - 1] }
function First(s: seq<nat>): Option<nat> { if s == [] then None else Some(s[0]) }
function Map(s: seq<nat>, f: nat -> nat): seq<nat> {
  if s == [] then [] else [f(s[0])] + Map(s[1..], f)
}
function Versions(s: set<Package>, o: Option<nat>): set<Version> {
  match o
  case None => (set p | p in s :: p.v)
  case Some(v) => (set p | p in s :: p.v) + {v}
}
function All(k: int): set<Package> {
  if k <= 0 then {} else All(k - 1) + {Package("a", k)} + {Package("b", 0)}
}
function Chosen(k: bool, c: C, n: C?): seq<C?> { if k then [n] else [n] + [n] }
function Both(s: seq<nat>, t: seq<int>): seq<int> { s + t }
function Objects(s: set<object>, c: C): set<object> { if c in s then s else s + {c} }
predicate Less(a: int, b: int, c: nat) { a < b + c <= b + c + 1 && a + b + c < 2 ==> a + b < 3 }
method M(k: bool, s: seq<C>, o: Option<nat>) returns (t: seq<C>) {
  match o { case None => t := s + s; case Some(_) => t := if k then s else s[..0]; }
}
"""


def test_no_proof_of_false_is_believed(real: DafnyToolchain) -> None:
    bodies = BELIEVED.splitlines()
    texts = [f"{DECLARED}{{ {body} }}\n" for body in bodies]
    verdicts = judge(real, *(make(FILE, HOLE, text) for text in texts))
    found = [(v.status, v.rule, v.diagnostics[0].line) for v in verdicts]
    # Some are refused by their words.
    assert found == [(Status.UNSOUND, "narrow-type", 22)] * 21


def test_everyday_files_are_proved(real: DafnyToolchain) -> None:
    (verdict,) = judge(real, make(FILE, HOLE, HONEST))
    assert (verdict.status, verdict.rule) == (Status.PROVED, "")


NODES = """class Node {
  ghost var Repr: set<object>
  ghost var all: set<Node>
  const next: Node?
  constructor(n: Node, m: Node?) { next := n; Repr := {this} + n.Repr; all := n.all + {this}; }
  constructor Second(n: Node) { Repr := {this} + n.Repr; new; Repr := {this} + Repr; }
  constructor Last(n: Node) { Repr := {this} + n.Repr; all := {}; next := n; }
}
"""


def test_sums_in_constructors_are_asked(real: DafnyToolchain) -> None:
    # In the last one what is asked for would be behind the only place of its constant.
    last = NODES.index("  constructor Last")
    verdicts = judge(real, *(make(FILE, HOLE, text) for text in (f"{NODES[:last]}}}\n", NODES)))
    assert [(v.status, v.rule) for v in verdicts] == [
        (Status.PROVED, ""),
        (Status.UNSOUND, "narrow-type"),
    ]
    begun = DECLARED.replace(
        "lemma False(", "class W { ghost var all: set<object> constructor Make("
    )
    false = [
        f"{begun}{{ {body} all := {{this}} + {{c}}; }} }}\n"
        for body in BELIEVED.splitlines()
        if "old(" not in body
    ]
    found = judge(real, *(make(FILE, HOLE, text) for text in false))
    assert [(v.status, v.rule) for v in found] == [(Status.UNSOUND, "narrow-type")] * 20


SELECTED = """lemma nn(x: nat) ensures x >= 0 {{ }}
datatype Two<+A, B> = Two(x: A, y: B)
function Id<T>(x: T): T {{ x }}
function Pair(n: nat): (nat, int) {{ (n, -1) }}
method M(a: (nat, int), b: ({0}, int)) {{
  var t := a;
  t := b;
  assert t.0 >= 0 by {{ nn(t.0); }}
  nn(Id(b).0);
  nn(Id(Two(b, 1)).x.0);
  nn(Pair(3).0);
  var f := (p: ({0}, int)) => p.0 + 1;
  nn(f(b));
}}
"""


def test_members_of_inferred_types_are_proved_once_more(real: DafnyToolchain) -> None:
    honest, false = (make(FILE, HOLE, SELECTED.format(kind)) for kind in ("nat", "int"))
    hint = "var t := a; t := b; assert nn(t.0) == 1;"
    problem = (
        "function nn(x: nat): int ensures x >= 0 { 1 }\nlemma L(a: (nat, int), b: (int, int))\n"
        f"  ensures b.0 >= 0\n{{ {HOLE} }}\n"
    )
    verdicts = judge(real, honest, false, make("statements", problem, hint))
    assert [v.status for v in verdicts] == [Status.PROVED, Status.REJECTED, Status.UNSOUND]
    assert verdicts[2].diagnostics[0].message.startswith("narrow-type: Dafny 4 takes the type of")
    assert (verdicts[2].rule, verdicts[2].diagnostics[0].body_line) == ("narrow-type", 1)


MODULES = """module M {
  datatype D<+T> = D(v: T)
  function Mk(x: nat): D<nat> { D(x) }
}
module N {
  import M
  lemma L(a: nat) { assert M.Mk(a).v == a; var t := M.Mk(a); assert t.v >= 0; }
}
module O {
  import opened M
  lemma L(a: nat) { match Mk(a) { case D(t) => assert t == a; } var t := Mk(a); assert t.v >= 0; }
}
lemma L(a: nat) { var t := M.Mk(a); var (u, v) := (t, 0); assert t.v == u.v == a; }
"""


def test_types_of_other_modules_are_written_with_these(real: DafnyToolchain) -> None:
    (verdict,) = judge(real, make(FILE, HOLE, MODULES))
    assert (verdict.status, verdict.rule) == (Status.PROVED, "")


def test_only_own_lines_are_asked(real: DafnyToolchain) -> None:
    text = f"lemma L(n: nat) ensures n + 1 > 0 {{ }}\n{DECLARED}{{ {BELIEVED.splitlines()[0]} }}\n"
    whole = make(FILE, HOLE, text)
    own = Candidate(whole.problem, text, own_lines=1)
    assert [v.status for v in judge(real, whole, own)] == [Status.UNSOUND, Status.PROVED]


def test_hints_are_asked_and_code_of_dafny_2_as_ghost(real: DafnyToolchain) -> None:
    (body,) = (line for line in BELIEVED.splitlines() if "Pick" in line)
    lemma = f"{DECLARED}{{ /*{{HOLE}}*/ }}\n"
    code = (
        "function Pick<T>(k: bool, x: T, y: T): T { if k then x else y }\n"
        "method M(s: seq<nat>) returns (r: int) ensures r > 0 /*{HOLE}*/\n"
    )
    ghost = "{ var t := Pick(forall i: int :: i > 0, s, s[..0]); r := |s| + 1; }"
    (mixed, proved) = judge(real, make("statements", lemma, body), make(PROGRAM, code, ghost))
    (told,) = mixed.diagnostics
    assert (mixed.status, mixed.rule, told.body_line) == (Status.UNSOUND, "narrow-type", 1)
    assert told.body_column == body.index("(k")
    assert (proved.status, proved.rule) == (Status.PROVED, "")


def test_values_of_one_type_with_their_expression() -> None:
    text = (
        "function F(s: seq<nat>, o: bool): seq<nat> {\n"
        "  if o then s * t - [1] + u + v * w else match o case true => [2] case false => s }\n"
    )
    program = read_text(text, admitted=True)

    def cut(span: tuple[int, int]) -> str:
        return program.cut(*span)

    found = [
        (program.tokens[place].text, cut(mixed.whole), [*map(cut, mixed.values)])
        for place, mixed in sorted(program.mixed.items())
    ]
    match = "match o case true => [2] case false => s"
    total = "s * t - [1] + u + v * w"
    assert found == [
        ("then", f"if o then {total} else {match}", [total, match]),
        ("+", "s * t - [1] + u", ["u"]),
        ("+", "s * t - [1] + u + v", ["u", "v"]),
        ("case", match, ["[2]", "s"]),
        ("case", match, ["[2]", "s"]),
    ]


def test_failures_meet_what_stands_behind_them() -> None:
    text = "function F(e: R, f: R): R { (:- e; var (x, y) :- G((var z :- e; z)); f) }\n"
    program = read_text(text, admitted=True)
    found = [program.cut(*mixed.whole) for _, mixed in sorted(program.mixed.items())]
    rest = "var (x, y) :- G((var z :- e; z)); f"
    assert found == [f":- e; {rest}", rest, "var z :- e; z"]
    assert all(mixed.values == [] for mixed in program.mixed.values())


def test_calls_for_which_types_are_chosen() -> None:
    text = (
        "datatype D<T> = D(x: T, y: T) | One(z: nat)\nfunction F<T>(x: T, y: T): T { x }\n"
        "function G(x: nat, y: nat): nat { x }\n"
        "function H(): D<nat> { F(D(1, y := 2), F<D<nat>>(One(3), D(G(1, 2), 4))) }\n"
    )
    program = read_text(text, admitted=True)
    calls = _list_generic_calls(program)
    found = [[program.cut(*span) for span in spans] for _, spans in sorted(calls.items())]
    assert found == [
        ["D(1, y := 2)", "F<D<nat>>(One(3), D(G(1, 2), 4))"],
        ["1", "2"],
        ["One(3)", "D(G(1, 2), 4)"],
        ["G(1, 2)", "4"],
    ]


@pytest.fixture
def names() -> _TypeNames:
    text = (
        "class C {}\nclass G<T> {}\ntrait T {}\n"
        "datatype Op<+T> = No | So(v: T)\ndatatype D<T> = D(v: T)\n"
        "datatype A<T> = A(a: array<T>)\ndatatype F<T> = F(f: T -> nat)\n"
        "datatype H<T> = H(d: D<T>) | Hg(g: A<T>)\n"
        "datatype P = P\ntype S = nat\ntype Q = x: int | x > 0 witness 1\n"
    )
    return _sort_types(read_text(text))


@pytest.mark.parametrize(
    ("whole", "types", "right"),
    [
        ("", ["seq<P>", ""], True),
        ("", ["D<Op<P>>", ""], True),
        ("", ["int", "nat"], True),
        ("", ["seq<nat>", "seq<nat>"], True),
        ("", ["Op<nat>", "Op<nat>"], True),
        ("seq<int>", ["seq<nat>", "seq<int>"], True),
        ("", ["seq<nat>", "seq<int>"], False),
        ("", ["seq<nat>", ""], False),
        ("", ["seq<nat>"], False),
        ("", ["D<nat>", "D<nat>"], False),
        ("", ["seq<Q>", "seq<int>"], False),
        ("seq<Q>", ["seq<Q>", "seq<int>"], False),
        ("seq<C?>", ["seq<C>", "seq<C?>"], True),
        ("seq<C>", ["seq<C>", "seq<C?>"], False),
        ("set<object>", ["set<object>", "set<C>"], True),
        ("set<object>", ["set<object>", "set<C?>"], False),
        ("Op<seq<C?>>", ["Op<seq<C>>", "Op<seq<C?>>"], True),
        ("D<C?>", ["D<C>", "D<C?>"], False),
        ("set<G<P>>", ["set<G<P>>", "set<G<P>>"], True),
        ("set<G<nat>>", ["set<G<nat>>", "set<G<nat>>"], False),
        ("(G<P>, G<seq<C>>)", ["(G<P>, G<seq<C>>)", "(G<P>, G<seq<C>>)"], False),
        ("array<int>", ["array<nat>", "array<int>"], False),
        ("array<C>", ["array<C>", "array<C>"], True),
        ("int -> int", ["nat -> int", "int -> int"], False),
        ("nat -> C", ["nat -> C", "nat -> C"], True),
        ("", ["int -> int", "int --> int"], False),
        ("D<int>", ["D<nat>", "D<int>"], True),
        ("seq<D<(int,int)>>", ["seq<D<(int, nat)>>", ""], True),
        ("D<nat>", ["D<nat>", "D<int>"], False),
        ("A<int>", ["A<int>", "A<int>"], False),
        ("A<bool>", ["A<bool>", "A<bool>"], True),
        ("F<int>", ["F<int>", "F<nat>"], False),
        ("D<F<int>>", ["D<F<int>>", "D<F<int>>"], False),
        ("H<int>", ["H<int>", "H<int>"], False),
        ("D<int>", [], True),
        ("F<int>", [], False),
        ("", ["", ""], False),
        ("", [], False),
    ],
)
def test_types_of_one_expression(
    names: _TypeNames, whole: str, types: list[str], right: bool
) -> None:
    assert _is_of_one_type(whole, types, names) is right


@pytest.mark.parametrize(
    ("types", "right"),
    [
        (["seq<P>", "D<P>"], True),
        (["Op<C>", "seq<Op<C?>>", "bool"], True),
        (["Op<C>", "Op<C?>"], False),
        (["(int -> int, int)", "(int --> int, int)"], False),
        (["seq<P>", ""], False),
    ],
)
def test_types_of_arguments(names: _TypeNames, types: list[str], right: bool) -> None:
    assert _are_apart(types, names) is right


def test_only_names_of_one_meaning_are_covariant() -> None:
    text = (
        "module M { datatype D<+T> = D(v: T) datatype E<+T> = E(v: T) }\n"
        "datatype D<T> = D(v: T)\ndatatype {:F F} F<T> = F(v: T)\nclass E<T> {}\n"
        "codatatype G<+T, +U> = G(v: T, w: U)\ndatatype H<+T, U> = H(v: T, w: U)\n"
    )
    names = _sort_types(read_text(text, admitted=True))
    assert names.covariant == {*COLLECTIONS, "G"}


def test_synonyms_are_resolved() -> None:
    pairs = "".join(f"type T{i} = (T{i + 1}, T{i + 1})\n" for i in range(99))
    names = _sort_types(read_text(f"module M {{ type R = S type S = nat }}\n{pairs}"))
    assert names.synonyms["R"] == "S"
    assert _resolve_synonyms("D<M.R, seq<S>>", names) == "D<nat,seq<nat>>"
    assert _resolve_synonyms("T97", names) == "((T99,T99),(T99,T99))"
    assert _resolve_synonyms("T0", names) == ""


AMBIGUOUS = """module M { type S = x: int | x > 5 witness 6 datatype D<+T> = D(v: T) }
type S = x: M.S | x > 9 witness 10
datatype D<+T> = D(v: T)
datatype C<S> = C(v: S)
"""


def test_types_of_several_modules_are_not_told_by_their_name() -> None:
    names = _sort_types(read_text(AMBIGUOUS))
    assert _resolve_synonyms("D<int>", names) == "D<int>"
    assert _resolve_synonyms("D<M.S>", names) == _resolve_synonyms("seq<S>", names) == ""
    library = _sort_types(read_text("import Std.Unicode\ntype T = nat\n"))
    assert _resolve_synonyms("seq<T>", library) == "seq<nat>"
    assert _resolve_synonyms("seq<CodePoint>", library) == ""
