"""Dafny problems made one: fused lemmas, loops in sequence and in each other, call chains.

Flows in: parents. Flows out: one program with one hole; names that two parents share are made
apart. A parent's reference fills every hole but one, so most of these operators need it. Loops
that return early or write to the heap are not fused. Call chains have the shape of DafnyComp's
(Re:Form, 2025, arXiv 2507.16331): a caller that knows its callees by their contracts.
Not handled here: preconditions that cannot hold together (the filters ask the verifier).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from proverrl.lang.dafny.compose.declarations import (
    OPEN_BODY,
    FreshNames,
    Program,
    edit_calls,
    list_names,
    make_disjoint,
    read_problem,
    read_program,
    substitute,
)
from proverrl.lang.dafny.syntax.declarations import Declaration, split_at
from proverrl.lang.dafny.syntax.text import fill_hole, scan_places
from proverrl.lang.records import Made, Parent
from proverrl.types import HOLE

_INDENT = "  "
_NO_BODY = "\x00"


@dataclass(frozen=True, slots=True)
class _FusedParent:
    """One parent as it goes into a fusion."""

    program: Program
    reference: str | None

    @property
    def target(self) -> Declaration:
        return self.program.target

    @property
    def names(self) -> set[str]:
        return list_names(self.program.text + (self.reference or ""))


def _read_apart(rng: random.Random, parents: Sequence[Parent]) -> list[_FusedParent]:
    """The parents with no name in common."""
    parts: list[_FusedParent] = []
    texts: list[str] = []
    for parent in parents:
        text = read_problem(parent.problem).text
        reference = parent.reference
        pair = (text, reference or _NO_BODY)
        made, body = make_disjoint(texts, pair, rng) if texts else pair
        parts.append(_FusedParent(read_program(made), None if reference is None else body))
        texts += [made] if reference is None else [made, body]
    return parts


def _words(text: str) -> set[str]:
    return {piece for _, piece, _ in scan_places(text)}


def _is_plain_loop(part: _FusedParent) -> bool:
    """A method with a loop that neither returns early nor touches the heap."""
    target = part.target
    heap = {word for word, _ in target.clauses} & {"modifies", "reads"}
    return (
        target.word == "method"
        and bool(target.returns)
        and not heap
        and not _words(target.body) & {"return", "new", "old"}
    )


def conjoin_lemmas(rng: random.Random, parents: Sequence[Parent]) -> Made | None:
    """One lemma with the parameters, assumptions and conclusions of all parents.

    A parent's recursive calls become calls of the fused lemma that leave the other parameters as
    they are, which decreases lexicographically.
    """
    parts = _read_apart(rng, parents)
    targets = [part.target for part in parts]
    if any(t.word != "lemma" or "calc" in _words(t.body) for t in targets):
        return None
    name = FreshNames(rng, set().union(*(part.names for part in parts))).pick("lemma")
    formals = tuple(formal for target in targets for formal in target.formals)
    fused = targets[0].rewrite(
        name=name,
        formals=formals,
        clauses=_join_clauses(targets),
        body=OPEN_BODY,
    )
    bodies = []
    for part in parts:
        own = [formal for formal, _ in part.target.formals]

        def widen(arguments: list[str], own: list[str] = own) -> list[str]:
            given = dict(zip(own, arguments, strict=False))
            return [given.get(formal, formal) for formal, _ in formals]

        if part.reference is not None:
            bodies.append(edit_calls(part.reference, part.target.name, widen, to=name))
    others = tuple(d for part in parts for d in part.program.others)
    reference = "\n".join(bodies) if len(bodies) == len(parts) else None
    return Made("statements", Program((*others, fused)).text, reference)


def sequence_loops(rng: random.Random, parents: Sequence[Parent]) -> Made | None:
    """One method that runs the loops of all parents one after another, with every contract.

    The hole of one parent stays; the others are filled with their references.
    """
    parts = _read_apart(rng, parents)
    if not all(_is_plain_loop(part) for part in parts):
        return None
    unknown = [place for place, part in enumerate(parts) if part.reference is None]
    if len(unknown) > 1:
        return None
    kept = unknown[0] if unknown else rng.randrange(len(parts))
    bodies = [
        part.target.inner if place == kept else fill_hole(part.target.inner, part.reference or "")
        for place, part in enumerate(parts)
    ]
    targets = [part.target for part in parts]
    fused = targets[0].rewrite(
        formals=tuple(formal for target in targets for formal in target.formals),
        returns=tuple(formal for target in targets for formal in target.returns),
        clauses=_join_clauses(targets),
        body="{\n" + "\n".join(bodies) + "\n}",
    )
    others = tuple(d for part in parts for d in part.program.others)
    text = Program((*others, fused)).text
    return Made(parents[kept].problem.kind, text, parts[kept].reference)


def _join_clauses(targets: Sequence[Declaration]) -> tuple[tuple[str, str], ...]:
    order = {"requires": 0, "modifies": 1, "ensures": 2, "decreases": 3}
    clauses = [clause for target in targets for clause in target.clauses]
    return tuple(sorted(clauses, key=lambda clause: order.get(clause[0], 4)))


def chain_calls(rng: random.Random, parents: Sequence[Parent]) -> Made | None:
    """The last parent's loop, which begins by calling the methods of the others, each on what the
    one before gave back; its contract is said in terms of the first arguments.

    All parents but the last need a reference, and a contract that says what they give back.
    """
    parts = _read_apart(rng, parents)
    if not all(_is_plain_loop(part) for part in parts):
        return None
    callees, caller = parts[:-1], parts[-1].target
    if any(part.reference is None for part in callees):
        return None
    fresh = FreshNames(rng, set().union(*(part.names for part in parts)))
    declared: list[Declaration] = []
    formals: list[tuple[str, str]] = []
    requires: list[str] = []
    lines: list[str] = []
    value = known = ""
    for part in callees:
        target = part.target
        fed = _find_fed(target) if value else None
        given = _find_value(target)
        if given is None or (value and fed is None):
            return None
        proved = target.rewrite(body=fill_hole(target.body, part.reference or ""))
        declared += [*part.program.others, proved]
        own = {name: fresh.pick(name) for name, _ in target.formals if name != fed}
        formals += [(own[name], kind) for name, kind in target.formals if name != fed]
        requires += _feed(target, fed, own, known)
        arguments = ", ".join(value if name == fed else own[name] for name, _ in target.formals)
        known = substitute(given, {**own, **({fed: known} if fed else {})})
        value = fresh.pick("total")
        lines.append(f"{_INDENT}var {value} := {target.name}({arguments});")
    fed = _find_fed(caller)
    if fed is None:
        return None
    requires += _feed(caller, fed, {}, known)
    kind = dict(caller.formals)[fed]
    lines.append(f"{_INDENT}var {fed}: {kind} := {value};")
    fused = caller.rewrite(
        formals=(*formals, *(formal for formal in caller.formals if formal[0] != fed)),
        clauses=(
            *(("requires", text) for text in requires),
            *((w, substitute(t, {fed: known})) for w, t in caller.clauses if w == "ensures"),
        ),
        body="{\n" + "\n".join([*lines, caller.inner]) + "\n}",
    )
    text = Program((*declared, *parts[-1].program.others, fused)).text
    return Made(parents[-1].problem.kind, text, parts[-1].reference)


def _find_fed(target: Declaration) -> str | None:
    """The parameter that takes what another method gives back."""
    return next((name for name, kind in target.formals if kind in ("nat", "int")), None)


def _feed(target: Declaration, fed: str | None, own: dict[str, str], known: str) -> list[str]:
    """The conditions of a call on the value ``known``."""
    values = {**own, **({fed: known} if fed else {})}
    found = [substitute(text, values) for text in target.list_clauses("requires")]
    if fed and dict(target.formals)[fed] == "nat":
        found.append(f"0 <= {known}")
    return found


def _find_value(target: Declaration) -> str | None:
    """The value that the contract gives a method's only, whole-number result."""
    if len(target.returns) != 1 or target.returns[0][1] not in ("int", "nat"):
        return None
    result = target.returns[0][0]
    for text in target.list_clauses("ensures"):
        sides = split_at(text, "==")
        pieces = _words(text)
        if len(sides) != 2 or pieces & {"&&", "||", "==>", "<==>", "forall", "exists", "<=", "<"}:
            continue
        for side, other in (sides, sides[::-1]):
            if side == result and result not in list_names(other):
                return other
    return None


def nest_loop(rng: random.Random, parents: Sequence[Parent]) -> Made | None:
    """A loop that runs the parent's loop a number of times and adds up what it gives back.

    The hole is the outer loop's where the parent has a reference and chance says so, and the
    parent's own otherwise; both then have a reference.
    """
    parts = _read_apart(rng, parents)
    part, target = parts[0], parts[0].target
    given = _find_value(target)
    if not _is_plain_loop(part) or given is None:
        return None
    fresh = FreshNames(rng, part.names)
    total, turn, turns = fresh.pick("total"), fresh.pick("counter"), fresh.pick("bound")
    result, kind = target.returns[0]
    claim = f"({given})" if len(scan_places(given)) > 1 else given
    outer = f"invariant 0 <= {turn} <= {turns}\ninvariant {total} == {turn} * {claim}"
    at_outer = part.reference is not None and rng.random() < 0.5
    inner = fill_hole(target.inner, part.reference or "") if at_outer else target.inner
    lines = [
        f"{_INDENT}{total} := 0;",
        f"{_INDENT}var {turn} := 0;",
        f"{_INDENT}while {turn} < {turns}",
        *(f"{_INDENT * 2}{line}" for line in ([HOLE] if at_outer else outer.split("\n"))),
        f"{_INDENT}{{",
        f"{_INDENT * 2}var {result}: {kind};",
        *(f"{_INDENT}{line}" for line in inner.split("\n")),
        f"{_INDENT * 2}{total} := {total} + {result};",
        f"{_INDENT * 2}{turn} := {turn} + 1;",
        f"{_INDENT}}}",
    ]
    fused = target.rewrite(
        formals=(*target.formals, (turns, "nat")),
        returns=((total, "int"),),
        clauses=(
            *(("requires", text) for text in target.list_clauses("requires")),
            ("ensures", f"{total} == {turns} * {claim}"),
        ),
        body="{\n" + "\n".join(lines) + "\n}",
    )
    text = part.program.with_target(fused).text
    hole_kind = "invariants" if at_outer else parents[0].problem.kind
    return Made(hole_kind, text, outer if at_outer else part.reference)
