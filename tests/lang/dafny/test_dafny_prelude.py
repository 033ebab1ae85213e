"""The mended prelude: what it says, and that honest text is proved with it."""

import asyncio
import tempfile
from pathlib import Path

import pytest

from proverrl.errors import ToolchainError
from proverrl.lang.dafny.verify.judge import make_options
from proverrl.lang.dafny.verify.known import KnownProblems
from proverrl.lang.dafny.verify.workers.language_server import DafnyLanguageServer
from proverrl.lang.dafny.verify.workers.prelude import NAME, mend_prelude
from proverrl.lang.dafny.verify.workers.server import DafnyServerWorker
from proverrl.lang.dafny.verify.workers.toolchain import (
    DafnyToolchain,
    find_dafny_toolchain,
)
from proverrl.types import FILE, HOLE, Candidate, Problem, Status
from proverrl.verifier.base import Limits, Worker
from tests.two_dafnys import DAFNY_4

# Not Dafny's own words: what of them decides, for both kinds of maps.
DOMAIN, VALUES = (
    "axiom (K#Domain(K#Glue(a, b)) == a);",
    "axiom (\n  K#Elements(K#Glue(a, b)) == b);",
)
OTHERS = "axiom K#Build == 1;\nfunction K#Glue();\n"
TEXT_4 = f"{OTHERS}{DOMAIN}\n{VALUES}\naxiom (a ==> $Is(K#Glue(a, b), t));\n// Between.\n"
TEXT_2_3 = f"{OTHERS}{DOMAIN}\n{VALUES}\naxiom ($Is(K#Glue(a, b), t));\n// Between.\n"
MENDED_4 = f"""\
{OTHERS}{DOMAIN}
axiom (forall p: KEYS, f: [Box]Box, t: Ty, k: Box ::
  {{ K#Elements(K#Glue(p, f, t))[k] }}
  HAS ==> K#Elements(K#Glue(p, f, t))[k] == f[k]);
axiom (a ==> $Is(K#Glue(a, b), t));
// Between.
"""
MENDED_2_3 = f"""\
{OTHERS}axiom (forall p: [Box]bool, f: [Box]Box, s, t: Ty, k: Box ::
  {{ K#Domain(K#Glue(p, f, TK(s, t)))[k] }}
  K#Domain(K#Glue(p, f, TK(s, t)))[k] <==> p[k] && $IsBox(k, s));
axiom (forall p: [Box]bool, f: [Box]Box, s, t: Ty, k: Box ::
  {{ K#Elements(K#Glue(p, f, TK(s, t)))[k] }}
  p[k] && $IsBox(k, s) ==> K#Elements(K#Glue(p, f, TK(s, t)))[k] == f[k]);
axiom (forall p: [Box]bool, f: [Box]Box, s, t: Ty ::
  {{ K#Glue(p, f, TK(s, t)) }}
  (forall k: Box :: p[k] && $IsBox(k, s) ==> $IsBox(f[k], t)) ==>
  $Is(K#Glue(p, f, TK(s, t)), TK(s, t)));
// Between.
"""


def write_both(text: str) -> str:
    """For maps, and for maps without end."""
    maps = text.replace("K#", "Map#").replace("TK(", "TMap(")
    endless = text.replace("K#", "IMap#").replace("TK(", "TIMap(")
    keys = {"KEYS": "Set", "HAS": "Set#IsMember(p, k)"}, {"KEYS": "[Box]bool", "HAS": "p[k]"}
    for word in ("KEYS", "HAS"):
        maps, endless = maps.replace(word, keys[0][word]), endless.replace(word, keys[1][word])
    return maps + endless


ORDINALS = "axiom ({ ORD#Plus(ORD#Minus(o, ORD#FromNat(m)), p) } n <= ORD#Offset(o) + m ==> a);\n"
MENDED_ORDINALS = (
    "axiom ({ ORD#Plus(ORD#Minus(o, ORD#FromNat(m)), p) } m <= ORD#Offset(o) ==> a);\n"
)
MULTISETS = """\
type MultiSet T = [T]int;
axiom ({ MultiSet#Card(s) } a);
axiom ({ MultiSet#Card(s[x]) } a);
axiom ({ MultiSet#Card(s) } (exists x: T :: a));
"""
MENDED_MULTISETS = """\
type MultiSet T = [T]int;

axiom ({ MultiSet#Card(s[x]) } a);
axiom (forall<T> s: MultiSet T :: { MultiSet#Card(s) }
  (!$IsGoodMultiSet(s) && (exists x: T :: { s[x] } s[x] < 0)) ||
  (0 <= MultiSet#Card(s) &&
  (MultiSet#Card(s) == 0 <==> s == MultiSet#Empty()) &&
  (MultiSet#Card(s) != 0 ==> (exists x: T :: 0 < s[x]))));
"""


HONEST = """\
function Squares(n: nat): map<int, int> { map i | 0 <= i < n :: i * i }
lemma Small(n: nat) requires n > 3
  ensures Squares(n)[2] == 4 && 3 in Squares(n) && -1 !in Squares(n) { }
function Next(n: nat): map<nat, nat> { map i: nat | i < n :: i + 1 }
lemma Above(n: nat) requires n > 3 { var m := Next(n); assert forall k :: k in m ==> m[k] > k; }
function Table<K, V>(s: set<K>, f: K -> V): map<K, V> { map k | k in s :: f(k) }
lemma Sized<K, V>(s: set<K>, f: K -> V) ensures |Table(s, f)| == |s|
{ assert Table(s, f).Keys == s; }
function Less<K, V>(m: map<K, V>, x: K): map<K, V> { map k | k in m && k != x :: m[k] }
lemma Without<K, V>(m: map<K, V>, x: K) ensures x !in Less(m, x)
  ensures x !in m ==> Less(m, x) == m ensures x in m ==> Less(m, x)[x := m[x]] == m { }
lemma Endless() { var m: imap<int, nat> := imap i: int | i > 0 :: i; assert m[4] == 4; }
datatype Colour = Red | Green
lemma Coloured() { var m := map c: Colour | true :: c.Red?; assert m[Red] && !m[Green]; }
lemma Nested(n: nat) requires n > 5
{ var m := map i | 0 <= i < n :: map j | 0 <= j < i :: i - j; assert 1 in m[4] && m[4][1] == 3; }
lemma Back(o: ORDINAL) requires o.Offset > 3
  ensures o - 2 + 2 == o && o - 3 + 1 == o - 2 && o - 1 + 3 == o + 2 && o - 2 < o { }
lemma Bags(a: multiset<int>, b: multiset<int>, s: seq<int>, x: int, n: nat)
  ensures |a + b| == |a| + |b| && |a - b| + |a * b| == |a| && |a| >= 0 && |a * b| >= 0
  ensures |a - b| >= 0 && |a[x := n]| == |a| - a[x] + n && |a[x := n]| >= 0
  ensures |a| == 0 ==> a == multiset{}
  ensures |a| > 0 ==> exists y :: y in a
  ensures |multiset{x, x, 1}| == 3 && |multiset(s)| == |s| && |multiset({x})| == 1
{ }
lemma Empty(a: multiset<int>, b: multiset<int>) requires |a + b| == 0 ensures a == b
{ assert a + b == multiset{}; assert forall y :: a[y] == (a + b)[y] == b[y]; }
"""


@pytest.mark.parametrize(("text", "mended"), [(TEXT_4, MENDED_4), (TEXT_2_3, MENDED_2_3)])
def test_a_map_says_nothing_of_other_keys(text: str, mended: str, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / NAME).write_text(write_both(text) + ORDINALS, encoding="utf-8")
    found = mend_prelude((tmp_path, tmp_path / "lib"))
    assert Path(found).read_text(encoding="utf-8") == write_both(mended) + MENDED_ORDINALS


def test_the_size_of_a_multiset_says_nothing_of_negative_numbers(tmp_path: Path) -> None:
    maps = write_both(TEXT_2_3), write_both(MENDED_2_3)
    (tmp_path / NAME).write_text(maps[0] + ORDINALS + MULTISETS, encoding="utf-8")
    found = Path(mend_prelude([tmp_path])).read_text(encoding="utf-8")
    assert found == maps[1] + MENDED_ORDINALS + MENDED_MULTISETS


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        write_both(MENDED_4) + ORDINALS,
        write_both(MENDED_2_3) + ORDINALS,
        write_both(TEXT_4).partition("// Between.")[0] + ORDINALS,
        write_both(TEXT_4) * 2 + ORDINALS,
        write_both(TEXT_4).replace("== b", "== c(b)") + ORDINALS,
        write_both(TEXT_4),
        write_both(TEXT_4) + ORDINALS * 2,
        write_both(TEXT_4) + ORDINALS.replace("n <=", "k <="),
        write_both(TEXT_4) + ORDINALS + MULTISETS.partition("axiom")[0],
        write_both(TEXT_4) + ORDINALS + MULTISETS.replace("exists", "forall"),
    ],
)
def test_what_is_not_known_is_not_mended(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / NAME).write_text(text, encoding="utf-8")
    assert mend_prelude([tmp_path]) == ""


def test_what_cannot_be_copied_is_a_fault_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / NAME).write_text(write_both(TEXT_4) + ORDINALS + "// New.\n", encoding="utf-8")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(ToolchainError, match="set TMPDIR to one with room"):
        mend_prelude([tmp_path])


def test_dafny_is_told_where_it_is() -> None:
    toolchain = DafnyToolchain("dafny", "2.3.0", None, "z3", "4.8.5", prelude="/a/b.bpl")
    assert "/dprelude:/a/b.bpl" in make_options(toolchain, Limits())


@pytest.mark.slow
@pytest.mark.dafny
def test_honest_text_is_proved() -> None:
    candidate = Candidate(Problem("honest", "dafny", FILE, "", HOLE), HONEST)

    async def judge() -> list[Status]:
        try:
            toolchain = find_dafny_toolchain()
        except ToolchainError as error:
            pytest.skip(str(error))
        workers: list[Worker] = [
            await DafnyServerWorker.start(toolchain, Limits(), KnownProblems())
        ]
        if DAFNY_4 is not None:
            workers += [await DafnyLanguageServer.start(DAFNY_4, Limits(), analyses=False)]
        found = [(await worker.judge(candidate)).status for worker in workers]
        for worker in workers:
            worker.kill()
            await worker.join()
        return found

    assert {*asyncio.run(judge())} == {Status.PROVED}
