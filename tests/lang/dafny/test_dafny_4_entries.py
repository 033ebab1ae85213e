"""Outcomes of Dafny 4's names as entries, by hand and of the real one; its words for errors."""

from __future__ import annotations

import asyncio

from proverrl.lang.dafny.syntax.reply import (
    EntryResult,
    Reply,
    ReplyMessage,
    is_endless,
    is_note,
    is_on_entry,
    is_postcondition,
    is_promise_note,
)
from proverrl.lang.dafny.syntax.text import name_contract, name_entry
from proverrl.lang.dafny.verify.known import KnownProblems
from proverrl.lang.dafny.verify.workers.entries import NamedOutcome, find_misread, name_entries
from proverrl.lang.dafny.verify.workers.language_server import DafnyLanguageServer
from proverrl.lang.dafny.verify.workers.toolchain import DafnyToolchain
from proverrl.verifier.base import Limits

TEXT = """\
function Bad(n: int): int { if n == 0 then 1 else Bad(n - 1) }
method A(n: int) returns (r: int)
  ensures r == n
  ensures r > 5
{
  r := 0;
  var i := 0;
  while i < n
    invariant i <= n
    invariant r == 2 * i
  {
    i := i + 1;
    r := r + 1;
  }
}
method B(a: array<int>, i: int) requires a[i] > 0 { }
lemma C(n: int) ensures n / n == 1 { var k := n; while k != 0 { k := k - 1; } }
lemma D() {}
"""


def test_what_fails_before_a_body_is_an_entry_of_its_own() -> None:
    lines = ("method B(x: int) requires 1 / x > 0 { assert x > 0; }", "lemma C() { }")
    named = [
        NamedOutcome("B", (1, 7), "error"),
        NamedOutcome("C", (2, 6), "out of resource"),
    ]

    def ask(*columns: int) -> list[EntryResult]:
        errors = [ReplyMessage("error", 1, column, "no") for column in columns]
        return list(name_entries(named, errors, "\n".join(lines)))

    limited = EntryResult(name_entry("C"), 1, "out of resource")
    assert ask() == [EntryResult(name_entry("B"), 1, "error", 1), limited]
    contract = EntryResult(name_contract("B"), 1, "error", 1)
    assert ask(28) == [contract, EntryResult(name_entry("B"), 1, "verified"), limited]
    both = [contract, EntryResult(name_entry("B"), 2, "error", 2), limited]
    assert ask(28, 38, 40) == both


def test_real_entries_and_words(real: DafnyToolchain) -> None:
    async def main() -> Reply:
        server = await DafnyLanguageServer.start(real, Limits(), KnownProblems(), analyses=False)
        try:
            return await server.ask(TEXT)
        finally:
            server.kill()
            await server.join()

    reply = asyncio.run(main())
    assert list(reply.entries) == [
        EntryResult(name_entry("Bad"), 1, "error", 1),
        EntryResult(name_entry("A"), 4, "error", 4),
        EntryResult(name_contract("B"), 1, "error", 1),
        EntryResult(name_entry("B"), 1, "verified"),
        EntryResult(name_contract("C"), 1, "error", 1),
        EntryResult(name_entry("C"), 2, "error", 2),
        EntryResult(name_entry("D"), 1, "verified"),
    ]
    told = [message for message in reply.messages if message.kind in ("error", "related")]
    kinds = {
        kind: sorted((m.line, m.column) for m in told if find(m.text))
        for kind, find in (
            ("postcondition", is_postcondition),
            ("promise", is_promise_note),
            ("note", is_note),
            ("endless", is_endless),
            ("entry", is_on_entry),
        )
    }
    assert kinds == {
        "postcondition": [(5, 0), (5, 0), (17, 49)],
        "promise": [(3, 12), (4, 12), (17, 30)],
        "note": [(1, 13), (3, 12), (4, 12), (17, 30)],
        "endless": [(1, 53), (17, 49)],
        "entry": [(9, 16)],
    }


DECLARED = """lemma {:fuel F, 2} F() { }
class C { ghost constructor () { } const c: int := 1 least predicate P() { true } }
type T = x: int | x > 0 witness 1
"""
TOLD = {(1, 19), (2, 16), (2, 41), (2, 69), (3, 5)}


def test_declarations_that_one_of_both_does_not_find_are_seen() -> None:
    assert find_misread(TOLD, DECLARED) is None
    # A constant or a type may have nothing to verify.
    assert find_misread(TOLD - {(2, 41), (3, 5)}, DECLARED) is None
    assert find_misread(TOLD | {(2, 60)}, DECLARED) == (2, 60)
    assert find_misread(TOLD - {(2, 69)}, DECLARED) == (2, 69)
    assert find_misread({(1, 6)}, "lemma L() { } )") == (1, 14)
    assert find_misread({(1, 13)}, "datatype D = A(x: int := 1)") is None
