"""Finds constructs of which Dafny checks less than it believes, one rule for each bug.

Flows in: what was read of a program or of a body, and what is known of the program around it.
Flows out: findings. The rules do not depend on each other: one that is needless can be dropped
from ``_RULES`` with its function. Each refuses more than the bug needs.
Not handled here: bugs that the grammars refuse (``reversed-calc``, ``guarded-choice``,
``labelled-assertion``), and references from nowhere (``unallocated``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import networkx as nx

from proverrl.lang.dafny.known_bugs.loop_measures import list_clauses
from proverrl.lang.dafny.known_bugs.misjudged import Surroundings, find_selections, list_elements
from proverrl.lang.dafny.known_bugs.read_frames import find_unframed
from proverrl.lang.dafny.known_bugs.untyped_calls import find_untyped
from proverrl.lang.dafny.syntax.cursor import is_name, list_declared
from proverrl.lang.dafny.syntax.parsed import ParsedProgram
from proverrl.lang.dafny.syntax.tokens import Token, find_close, find_outer
from proverrl.lang.records import Finding

_STEPS = frozenset("assert assume calc reveal expect".split())
_TWO_STATE = ("old", "unchanged", "allocated", "fresh")
_REBINDING = frozenset("|| ==> <== <==> ; :: => := :| if match old set iset".split())
_STATEMENT_STARTS = frozenset([";", "}", ":=", "=>", "else"])
_BINDING = ("=>", ":|")
_UNCHECKED_BASES = re.compile(r"seq|string|bool|bv[0-9]+")

Rule = Callable[[ParsedProgram, Surroundings], Iterator[int]]


def find_unchecked(program: ParsedProgram, around: Surroundings) -> Iterator[Finding]:
    """Claims that Dafny would believe without a check, in a program or a body."""
    for name, find, remedy in _RULES:
        for place in find(program, around):
            message = f"Dafny believes this without a check; {remedy}"
            yield program.tokens[place].refuse("cheat", name, message, older=name in _OLDER)


def _find_unpacked(program: ParsedProgram, around: Surroundings) -> Iterator[int]:
    """``var Cons(x, Nil) := e``, after which e is believed to be of that form (168)."""
    constructors = {name for p in around.programs for name in p.constructors}
    return (place for place in program.unpacked if program.tokens[place].text in constructors)


def _find_promised_steps(program: ParsedProgram, around: Surroundings) -> Iterator[int]:
    """``forall ensures (assert P; Q) { }``: P is never proved."""
    for start, end in program.promises:
        yield from (i for i in range(start, end) if program.tokens[i].sign in _STEPS)


def _list_unchecked(program: ParsedProgram, around: Surroundings) -> Iterator[tuple[int, int]]:
    """Places where Dafny 2.3 checks nothing: in what a forall statement ensures, in the frames of
    loops and of ``modify``, and in what stands before the name of a method that is called."""
    tokens = program.tokens
    yield from program.promises
    yield from ((s, e) for s, e, is_loop in list_clauses(program, "modifies") if is_loop)
    yield from ((s, e) for s, e, _ in list_clauses(program, "modify"))
    words = ("method", "lemma", "colemma")
    called = {n for p in around.programs for n in list_declared(p.tokens, *words)} | {"MoveNext"}
    for dot in range(1, len(tokens) - 2):
        if tokens[dot].sign == "." and tokens[dot + 1].text in called:
            yield find_outer(tokens, dot - 1, _STATEMENT_STARTS, -1) + 1, dot


def _find_selected(program: ParsedProgram, around: Surroundings) -> Iterator[int]:
    """A key outside a map, and -1 occurrences in a multiset, where Dafny 2.3 checks neither (2375,
    2605). ``|m[1 := -1]|`` is believed to be less by one."""
    if not around.has_word("map", "imap", "multiset"):
        return
    tokens = program.tokens
    for start, end in _list_unchecked(program, around):
        known = _list_known_keys(program, start, end)
        for place in find_selections(program, start, end, around):
            inside = tuple(token.text for token in tokens[place - 1 : place + 3])
            if inside not in known or tokens[place - 2].text == ".":
                yield place


def _find_unread_lambdas(program: ParsedProgram, around: Surroundings) -> Iterator[int]:
    """A lambda that may read what it does not say: ``((x: int) => a[x])(0)`` is believed to be what
    it was in the earlier state."""
    for start, end in _list_unchecked(program, around):
        yield from (first for first, _ in program.lambdas if start <= first < end)


def _list_known_keys(
    program: ParsedProgram, start: int, end: int
) -> set[tuple[str, str, str, str]]:
    """``m[k]``, as its tokens, for each ``k in m`` among the conjuncts of the range of the forall
    statement that promises what stands from ``start`` to ``end``; nothing where either of them
    may bind or mean other values."""
    tokens = program.tokens
    starts = [statement for statement, last in program.foralls if statement < start < last]
    bar = find_outer(tokens, max(starts, default=start), ("|", "ensures"))
    if not starts or not _REBINDING.isdisjoint(token.text for token in tokens[bar:end]):
        return set()
    known = set()
    while tokens[bar].text != "ensures":
        conjunct = tokens[bar + 1 : (bar := find_outer(tokens, bar + 1, ("&&", "ensures")))]
        words = [token.text for token in conjunct]
        if len(words) == 3 and words[1] == "in" and is_name(conjunct[0]) and is_name(conjunct[2]):
            known.add((words[2], "[", words[0], "]"))
    return known


def _find_two_state(program: ParsedProgram, around: Surroundings) -> Iterator[int]:
    """A two-state lemma in a forall statement, whose earlier state is the wrong one."""
    names = {
        element.name
        for p in around.programs
        for element in list_elements(p.root)
        if "twostate" in [token.text for token in p.tokens[element.start : element.start + 4]]
    }
    for start, end in program.foralls:
        yield from (i for i in range(start, end) if program.tokens[i].text in names)


def _find_reading_lambdas(program: ParsedProgram, around: Surroundings) -> Iterator[int]:
    """The ``requires`` of such a lambda is believed of every heap, and with ``reads *`` or
    ``reads f.reads(x)`` its value, whatever is assigned."""
    for start, clauses, end in program.reading_lambdas:
        words = [token.sign for token in program.tokens[clauses:end]]
        is_kept = program.arguments.get(start) != ("new", 0)
        if "*" in words or words.count("reads") > 1 or ("requires" in words and is_kept):
            yield start


def _find_keys(program: ParsedProgram, around: Surroundings) -> Iterator[int]:
    """``map x | P(x) :: f(x) := y`` lets f be called of every x, and of all values of the other
    names in it, such as s in ``map i | 0 <= i < |s| :: s[i] := i``, says that a key has one x."""
    for start, bar, key, end in program.keys:
        is_single = "," not in (token.text for token in program.tokens[start:bar])
        if [t.text for t in program.tokens[key:end]] != [program.tokens[start].text] * is_single:
            yield key


def _list_calls(program: ParsedProgram, start: int, end: int) -> Iterator[int]:
    """The last token before the brackets of each call, and each choice."""
    for place in range(start + 1, end):
        if program.tokens[place].sign == ":|":
            yield place
        before = program.tokens[place - 1]
        if program.tokens[place].sign == "(" and (
            is_name(before) or before.sign in (")", "]", ">")
        ):
            yield place - 1


def _find_bases(program: ParsedProgram, around: Surroundings) -> Iterator[int]:
    """Subset types of which the values are not checked: of sequences (921, 922: the empty one and
    sums; Dafny 4: ``Same(s)[0 := -1]``), and of truth values and bits (``!e``)."""
    bases: dict[str, tuple[ParsedProgram, int, bool]] = {}
    for p in around.programs:
        for element in list_elements(p.root):
            words = [token.sign for token in p.tokens[element.start : element.end]]
            if element.word == "type" and "=" in words:
                place = element.start + words.index("=") + 1
                is_subset = p.tokens[place + 1].sign in (":", "|")
                bases[element.name] = (p, place + 2 if is_subset else place, is_subset)
    for name, (p, place, is_subset) in bases.items():
        if is_subset and p is program and _is_unchecked(name, bases):
            yield place - 2


def _is_unchecked(name: str, bases: dict[str, tuple[ParsedProgram, int, bool]]) -> bool:
    seen: set[str] = set()
    while name in bases and name not in seen:
        seen.add(name)
        program, place, is_subset = bases[name]
        if is_subset and program.tokens[place - 1].sign == "|":
            # Its base is inferred; only characters have such literals.
            return program.tokens[place].kind != "char"
        parameters = program.parameters.get(name, ())
        while program.tokens[place].sign == "(" or program.tokens[place + 1].sign == ".":
            place += 1 if program.tokens[place].sign == "(" else 2
        name = program.tokens[place].text
        if name in parameters:
            return True
    return bool(_UNCHECKED_BASES.fullmatch(name))


def _find_labelled_states(program: ParsedProgram, around: Surroundings) -> Iterator[int]:
    """``old@L(f(x))`` and Dafny 4's ``f@L(x)``, where it is checked in another state that f may be
    called (1112)."""
    tokens = program.tokens
    yield from sorted(program.labelled)
    for place in range(len(tokens) - 3):
        if tokens[place].text in _TWO_STATE and tokens[place + 1].text == "@":
            end = find_close(tokens, place + 3)
            yield from _list_calls(program, place + 3, end)


def _find_captured(program: ParsedProgram, around: Surroundings) -> Iterator[int]:
    """``match (a[0], 0) case (y, z) => old(y)``: what was matched stands for ``y`` there, and is
    read in the earlier state; in a lambda in whatever state that is called in."""
    tokens = program.tokens
    ranges = list(program.lambdas)
    for place in range(len(tokens) - 3):
        if tokens[place].sign in _TWO_STATE:
            opened = place + (3 if tokens[place + 1].sign == "@" else 1)
            if tokens[opened].sign == "(":
                ranges.append((opened, find_close(tokens, opened)))
    for names, start, end in program.cases:
        for first, last in ranges:
            if start <= first and last <= end:
                yield from (i for i in range(first, last) if tokens[i].text in names)


def _find_lambda_updates(program: ParsedProgram, around: Surroundings) -> Iterator[int]:
    """``(z: nat) => m[x := z]`` passes for a function of all numbers: some x occurs -1 times."""
    words = {token.text for p in around.programs for token in p.tokens}
    for place in program.updates if "multiset" in words else ():
        if any(start <= place < end for start, end in program.lambdas):
            yield place - 1


def _find_measures(program: ParsedProgram, around: Surroundings) -> Iterator[int]:
    """Calls in ``decreases`` and ``modifies`` of what may not be called with everything: Dafny 4
    believes that they are well-formed before it checks the invariants or the precondition."""
    functions = {element.name for _, element in around.functions}
    demanding = around.find_partial(around.datatypes)
    known = functions | {name for p in around.programs for name in p.constructors}
    for start, end, _ in list_clauses(program, "decreases", "modifies"):
        for place in _list_calls(program, start, end):
            name = program.tokens[place].text
            if name in demanding or name not in known:
                yield place


def _find_co_calls(program: ParsedProgram, around: Surroundings) -> Iterator[int]:
    """``Cons(0, match F() ...)`` in F: Dafny 4 takes a call of F in the source of a match for one
    that is no deeper than what it gives."""
    if not around.has_word("codatatype"):
        return
    tokens = program.tokens
    recursive = _list_recursive(around)
    for owner, element in around.functions:
        own = recursive.get(element.name, set()) if owner is program else set()
        for place in range(element.start, element.end) if own else ():
            if tokens[place].sign == "match":
                end = find_outer(tokens, place + 1, ("case", "{"))
                yield from (i for i in range(place, end) if tokens[i].text in own)


def _list_recursive(around: Surroundings, *, contracts: bool = False) -> dict[str, set[str]]:
    """The functions that may call themselves, and all that call each other with each; with
    ``contracts`` also what they call in those."""
    names = {element.name for _, element in around.functions}
    calls = nx.DiGraph()
    for p, element in around.functions:
        start = element.slots[0].start if contracts else element.slots[0].end
        called = names & {token.text for token in p.tokens[start : element.end]}
        calls.add_edges_from((element.name, name) for name in called)
    groups = nx.strongly_connected_components(calls)
    return {
        name: group
        for group in groups
        for name in group
        if len(group) > 1 or calls.has_edge(name, name)
    }


def _find_own_promises(program: ParsedProgram, around: Surroundings) -> Iterator[int]:
    """``function F(): int ensures seq(1, i => F()) == [0]``: behind such a word, behind ``var x :=
    0;`` and in ``d.(x := F())`` Dafny 4 takes what F ensures for granted while it proves it."""
    tokens = program.tokens
    recursive = _list_recursive(around, contracts=True)
    for owner, element in around.functions:
        own = recursive.get(element.name, set()) if owner is program else set()
        for clause in element.slots[0].elements if own else ():
            if tokens[clause.start].sign == "ensures":
                hidden = _list_hidden(tokens, range(clause.start, clause.end))
                yield from (i for i in sorted(hidden) if tokens[i].text in own)


def _list_hidden(tokens: Sequence[Token], clause: range) -> set[int]:
    """The places of a clause behind a word that binds, and in updates of datatypes."""
    if any(tokens[i].sign in _BINDING for i in clause):
        return set(clause)
    hidden: set[int] = set()
    for place in clause:
        if tokens[place].sign == "var":
            hidden.update(range(find_outer(tokens, place + 1, (";",)), clause.stop))
        if tokens[place].sign == "." and tokens[place + 1].sign == "(":
            hidden.update(range(place, find_close(tokens, place + 1)))
    return hidden


# What Dafny 4 checks in a bare file.
_OLDER = frozenset(["captured-pattern", "unchecked-key"])
_RULES: tuple[tuple[str, Rule, str], ...] = (
    ("constructor-pattern", _find_unpacked, "ask with '==' or a match of what form a value is"),
    ("promised-step", _find_promised_steps, "put the step into the body of the forall statement"),
    ("two-state-forall", _find_two_state, "call it outside of forall statements"),
    ("untyped-forall", find_untyped, "write what it ensures"),
    ("unread-heap", find_unframed, "list by itself what it is read from: 'reads this, Repr'"),
    ("reading-lambda", _find_reading_lambdas, "declare a function instead of this lambda"),
    ("called-key", _find_keys, "let the variable itself be the key"),
    (
        "subset-base",
        _find_bases,
        "use a predicate, or a base without truth values, bits, sequences",
    ),
    ("labelled-state", _find_labelled_states, "keep the value in a variable at the label"),
    ("captured-pattern", _find_captured, "keep the value in a variable, or match in a statement"),
    ("lambda-update", _find_lambda_updates, "declare a function instead of this lambda"),
    ("unread-lambda", _find_unread_lambdas, "name the lambda before, where what it reads is seen"),
    ("co-call", _find_co_calls, "name what is called by 'var' before the match"),
    ("own-promise", _find_own_promises, "state it in a lemma, or of the result's name"),
    ("believed-measure", _find_measures, "measure by numbers, or by functions that are total"),
    (
        "unchecked-key",
        _find_selected,
        "write 'k in m' in its range for 'm[k]', or name what is selected",
    ),
)
