"""Draws hints from a grammar of what Dafny 2.3 and 4 read, for false problems.

Most constructs are those whose well-formedness a Dafny may believe without a check: choices, calc
in all directions, partial functions, comprehensions, lambdas, patterns, labels, statements in
expressions. Names and types fit more often than not, so that many draws are admitted.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from proverrl.types import HOLE, Problem

PREAMBLE = """\
datatype List = Nil | Cons(head: int, tail: List)
function Part(x: int): int requires x > 0 ensures x > 0 { x }
function Sum(n: nat): nat { if n == 0 then 0 else n + Sum(n - 1) }
predicate Odd(x: int) { x % 2 == 1 }
lemma Positive(x: int) requires x > 0 ensures Part(x) > 0 { }
"""
LOOP = """\
method M(n: nat, a: array<int>, l: List) returns (r: int)
  ensures r == 2 * n + 1
{{
  r := 0;
  var i := 0;
  while i < n
    {0}
  {{
    i := i + 1;
    r := r + 2;
  }}
  {1}
}}
"""
INVARIANTS = "invariant 0 <= i <= n\n    invariant r == 2 * i"
FALSE_PROBLEMS = {
    "invariants": Problem("false-loop", "dafny", "invariants", PREAMBLE, LOOP.format(HOLE, "")),
    "statements": Problem(
        "false-end", "dafny", "statements", PREAMBLE, LOOP.format(INVARIANTS, HOLE)
    ),
    "lemma": Problem(
        "false-lemma",
        "dafny",
        "statements",
        PREAMBLE,
        f"lemma L(n: nat, r: int, i: int, l: List)\n  ensures Sum(n) == n\n{{\n  {HOLE}\n}}\n",
    ),
}
_GOALS = {"invariants": "r == 2 * n + 1", "statements": "r == 2 * n + 1", "lemma": "Sum(n) == n"}


class Drawer:
    """Draws hints; the same seed and hole give the same hint."""

    def __init__(self, hole: str, seed: int) -> None:
        self._random = random.Random(f"{hole} {seed}")
        self._hole = hole
        self._goal = _GOALS[hole]
        self._num_names = 0

    def draw(self) -> str:
        """A hint for the hole."""
        if self._hole == "invariants":
            clauses = [self._clause() for _ in range(self._random.randint(1, 4))]
            return "\n".join([*clauses, *([f"invariant {self._goal}"] if self._rarely() else [])])
        return "\n".join(self._statement(3) for _ in range(self._random.randint(1, 3)))

    def _rarely(self) -> bool:
        return self._random.random() < 0.3

    def _pick(self, *choices: str | Callable[[], str]) -> str:
        chosen = self._random.choice(choices)
        return chosen if isinstance(chosen, str) else chosen()

    def _name(self) -> str:
        self._num_names += 1
        return f"v{self._num_names}"

    def _clause(self) -> str:
        return self._pick(
            lambda: f"invariant {self._truth(3)}",
            lambda: f"invariant {self._truth(2)} ==> {self._goal}",
            lambda: f"invariant ({self._proof(1)} {self._truth(1)})",
            lambda: f"decreases {self._number(2)}",
            lambda: f"decreases if {self._truth(1)} then {self._number(1)} else {self._number(1)}",
            "invariant 0 <= i <= n",
            "invariant r == 2 * i",
        )

    def _number(self, depth: int) -> str:
        simple = ("0", "1", "-1", "n", "r", "i", "n - i", "l.head", "|[1, 2]|")
        if depth == 0:
            return self._random.choice(simple)
        name = self._name()
        return self._pick(
            *simple,
            lambda: f"({self._number(depth - 1)} {self._pick('+', '-', '*')} {self._number(0)})",
            lambda: f"({self._number(depth - 1)} {self._pick('/', '%')} {self._number(0)})",
            lambda: f"Part({self._number(depth - 1)})",
            lambda: f"(var {name}: int :| {self._truth(depth - 1)}; {name})",
            lambda: f"(var {name}: nat := {self._number(depth - 1)}; {name})",
            lambda: f"(var Cons({name}, Nil) := {self._list(depth - 1)}; {name})",
            lambda: f"(if {self._truth(depth - 1)} then {self._number(0)} else {self._number(0)})",
            lambda: f"(({name}: int) => {self._number(0)})({self._number(0)})",
            lambda: f"(({name}: int) requires {name} > 0 => Part({name}))({self._number(0)})",
            lambda: f"(match l case Nil => {self._number(0)} case Cons({name}, _) => {name})",
            lambda: f"[1, 2][{self._number(depth - 1)}]",
            lambda: f"(map {name} | 0 < {name} < 3 :: {name} := Part({name}))[{self._number(0)}]",
            lambda: f"(set {name} | 0 < {name} < 3 :: Part({name}), 1).1",
            lambda: f"({self._proof(depth - 1)} {self._number(0)})",
            lambda: f"old({self._number(depth - 1)})",
            lambda: f"((1 as bv4) << {self._number(0)}) as int",
        )

    def _list(self, depth: int) -> str:
        return self._pick(
            "l", "Nil", "l.tail", "Cons(1, Nil)", lambda: f"Cons({self._number(depth)}, l)"
        )

    def _truth(self, depth: int) -> str:
        simple = ("false", "true", self._goal, f"!({self._goal})", "l.Nil?", "i > 0", "Odd(r)")
        if depth == 0:
            return self._random.choice(simple)
        name = self._name()
        join = self._pick("&&", "||", "==>", "<==", "<==>", "==")
        quantifier = self._pick("forall", "exists")
        return self._pick(
            *simple,
            lambda: f"({self._truth(depth - 1)} {join} {self._truth(depth - 1)})",
            lambda: f"!{self._truth(depth - 1)}",
            lambda: f"({self._number(depth - 1)} {self._pick('==', '<', '>=')} {self._number(0)})",
            lambda: f"({quantifier} {name}: int :: {self._truth(depth - 1)})",
            lambda: f"(forall {name} :: {name} == {self._number(0)} ==> Part({name}) > 0)",
            lambda: f"({quantifier} {name} | 0 <= {name} < 3 :: {name} == {self._number(0)})",
            lambda: f"({self._number(depth - 1)} in (set {name} | 0 < {name} < n))",
            lambda: f"({self._number(0)} in (map {name} | 0 < {name} < n :: Part({name}) := 1))",
            lambda: f"(var {name}: int :| {self._truth(depth - 1)}; ({name}, 1).0 == 1)",
            lambda: f"({self._proof(depth - 1)} {self._truth(0)})",
            lambda: f"({self._list(0)} == {self._list(depth - 1)})",
            lambda: f"allocated({self._pick('a', 'l')})",
            lambda: f"(({name}: int) reads * requires {self._truth(0)} => true).requires(1)",
        )

    def _statement(self, depth: int) -> str:
        name = self._name()
        if depth == 0:
            return self._pick(lambda: f"assert {self._truth(1)};", "assert true;")
        return self._pick(
            lambda: f"assert {self._truth(depth)};",
            lambda: f"assert {self._goal} by {{ {self._statement(depth - 1)} }}",
            lambda: f"if {self._truth(1)} {{ {self._statement(depth - 1)} }}",
            lambda: f"if !({self._goal}) {{ {self._statement(depth - 1)} }}",
            lambda: f"if {name}: int :| {self._truth(1)} {{ {self._statement(depth - 1)} }}",
            lambda: self._calc(depth - 1),
            lambda: f"ghost var {name} := {self._number(depth)};",
            lambda: f"ghost var {name}: int :| {self._truth(depth)};",
            lambda: f"ghost var Cons({name}, Nil) := {self._list(depth - 1)};",
            lambda: f"ghost var {name} := map z | 0 < z < 3 :: Part(z) := {self._number(0)};",
            lambda: f"ghost var {name} := (z: int) requires z > 0 => Part(z);",
            lambda: f"ghost var {name} := iset z: object | true;",
            lambda: self._forall(name, depth - 1),
            lambda: (
                f"match l {{ case Nil => {self._statement(depth - 1)} case Cons({name}, _) => }}"
            ),
            lambda: f"Positive({self._number(depth - 1)});",
            lambda: f"label L{name}: assert {self._truth(1)};",
            lambda: f"assert L{name}: {self._truth(1)}; reveal L{name};",
            lambda: f"reveal Sum(); assert {self._truth(0)};",
        )

    def _proof(self, depth: int) -> str:
        """What may stand before an expression."""
        return self._pick(lambda: f"assert {self._truth(0)};", lambda: self._calc(max(0, depth)))

    def _calc(self, depth: int) -> str:
        lines = [self._truth(depth) for _ in range(self._random.randint(2, 3))]
        steps = (
            f"{self._pick('==', '==>', '<==', '<==>')} {{ {self._statement(0)} }} {line};"
            for line in lines[1:]
        )
        return f"calc {{ {lines[0]}; {' '.join(steps)} }}"

    def _forall(self, name: str, depth: int) -> str:
        return self._pick(
            lambda: f"forall {name}: int ensures {self._truth(1)} {{ {self._statement(depth)} }}",
            lambda: f"forall ensures ({self._proof(0)} {self._truth(0)}) {{ }}",
            lambda: f"forall {name} | 0 <= {name} < 3 ensures {self._truth(depth)} {{ }}",
        )
