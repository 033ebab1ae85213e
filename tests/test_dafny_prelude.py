"""The mended prelude: what it says of maps, and that honest text about maps is proved with it."""

import asyncio
from pathlib import Path

import pytest

from proverrl.errors import ToolchainError
from proverrl.lang.dafny.judge import make_options
from proverrl.lang.dafny.known import KnownProblems
from proverrl.lang.dafny.workers.language_server import DafnyLanguageServer
from proverrl.lang.dafny.workers.prelude import NAME, mend_prelude
from proverrl.lang.dafny.workers.server import DafnyServerWorker
from proverrl.lang.dafny.workers.toolchain import (
    DafnyToolchain,
    find_confirming_toolchain,
    find_dafny_toolchain,
)
from proverrl.types import FILE, HOLE, Candidate, Problem, Status
from proverrl.verifier.base import Limits, Worker

IN_4 = """\
axiom (forall a: Set, b: [Box]Box, t: Ty ::
  { Map#Elements(Map#Glue(a, b, t)) }
  Map#Elements(Map#Glue(a, b, t)) == b);
// Between.
axiom (forall a: [Box]bool, b: [Box]Box, t: Ty ::
  { IMap#Elements(IMap#Glue(a, b, t)) }
  IMap#Elements(IMap#Glue(a, b, t)) == b);
"""
MENDED_4 = """\
axiom (forall a: Set, b: [Box]Box, t: Ty, u: Box ::
  { Map#Elements(Map#Glue(a, b, t))[u] }
  Set#IsMember(a, u) ==> Map#Elements(Map#Glue(a, b, t))[u] == b[u]);
// Between.
axiom (forall a: [Box]bool, b: [Box]Box, t: Ty, u: Box ::
  { IMap#Elements(IMap#Glue(a, b, t))[u] }
  a[u] ==> IMap#Elements(IMap#Glue(a, b, t))[u] == b[u]);
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
"""


def test_a_map_says_nothing_of_other_keys(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / NAME).write_text(IN_4, encoding="utf-8")
    mended = mend_prelude((tmp_path, tmp_path / "lib"))
    assert Path(mended).read_text(encoding="utf-8") == MENDED_4


@pytest.mark.parametrize("text", [None, "", MENDED_4, IN_4.partition("//")[0], IN_4 + IN_4])
def test_what_is_not_known_is_not_mended(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / NAME).write_text(text, encoding="utf-8")
    assert mend_prelude([tmp_path]) == ""


def test_dafny_is_told_where_it_is() -> None:
    toolchain = DafnyToolchain("dafny", "2.3.0", None, "z3", "4.8.5", prelude="/a/b.bpl")
    assert "/dprelude:/a/b.bpl" in make_options(toolchain, Limits())


@pytest.mark.slow
@pytest.mark.dafny
def test_honest_maps_are_proved() -> None:
    candidate = Candidate(Problem("maps", "dafny", FILE, "", HOLE), HONEST)

    async def judge() -> list[Status]:
        try:
            toolchain = find_dafny_toolchain()
        except ToolchainError as error:
            pytest.skip(str(error))
        workers: list[Worker] = [
            await DafnyServerWorker.start(toolchain, Limits(), KnownProblems())
        ]
        if (second := find_confirming_toolchain()) is not None:
            workers += [await DafnyLanguageServer.start(second, Limits(), analyses=False)]
        found = [(await worker.judge(candidate)).status for worker in workers]
        for worker in workers:
            worker.kill()
            await worker.join()
        return found

    assert {*asyncio.run(judge())} == {Status.PROVED}
