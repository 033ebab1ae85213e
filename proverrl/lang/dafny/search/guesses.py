"""Proof hints that the text of a Dafny program suggests by itself, without a policy.

Flows in: a program whose loops lack hints, and the lines where it fails. Flows out: hints, each
behind the place before which it stands. Most are wrong: whoever asks drops what Dafny refuses
(Houdini, in ``proverrl.search.pooled_hints``). A postcondition becomes an invariant where a
constant is replaced by a variable (Furia and Meyer 2010, arXiv 0909.0884), upwards and downwards.
Not handled here: hints that declare something, inductions, loops over fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import (
    chain,
    combinations,
    count,
    islice,
    pairwise,
    permutations,
    product,
    zip_longest,
)

from proverrl.lang.dafny.compose.declarations import list_names, rename
from proverrl.lang.dafny.compose.declarations import substitute as give
from proverrl.lang.dafny.search.loops import Assignment, LoopText, Member, read_members
from proverrl.lang.dafny.search.terms import (
    clean,
    compare,
    find,
    list_calls,
    plain,
    scan,
    split,
    split_chain,
    strip,
    substitute,
    write_over,
)
from proverrl.lang.dafny.syntax.declarations import split_at
from proverrl.lang.dafny.syntax.parsed import ParsedProgram
from proverrl.lang.dafny.syntax.tokens import Token

_MOST_HINTS = 100
"""Of one kind for one loop; more take longer to check than they find."""
_MOST_JOINED = 24
_MOST_VARIABLES = 4
_MOST_CALLS = 24
"""Of lemmas at one place."""
_FRESH = ("j", "k", "l", "m", "p", "q")
_WHOLE = frozenset(["int", "nat"])
_NUMBERS = frozenset(["array<int>", "array<nat>", "seq<int>", "seq<nat>"])
_TURNED = {"<": "<=", ">": ">=", "<=": "<=", ">=": ">=", "!=": "<=", "==": "=="}
# n is a counter, m another; x is set to one, s is a sequence that grows, a and b begin a slice.
_OF_COUNTER = ("0 <= {n}", "{start} <= {n}", "{n} <= {start}", "{n} <= {limit}", "{n} <= {end} + 1")
_OF_INDEX = ("0 <= {x}", "{x} < {n}", "{x} <= {n}", "{low} <= {x}", "{x} < {length}")
_OF_GROWN = ("|{s}| == {n}", "|{s}| <= {n}")
_OF_ARRAY = (
    "multiset({a}[..]) == multiset(old({a}[..]))",
    "{a}[..] == old({a}[..])",
    "forall k_ :: 0 <= k_ < {n} ==> {a}[k_] == old({a}[k_])",
    "forall k_ :: {n} <= k_ < {a}.Length ==> {a}[k_] == old({a}[k_])",
    "forall k_ :: {n} + 1 <= k_ < {a}.Length ==> {a}[k_] == old({a}[k_])",
    "forall k_ :: {n} <= k_ < {a}.Length - {n} ==> {a}[k_] == old({a}[k_])",
)
_OF_LEAST = (
    "forall k_ :: 0 <= k_ < {n} ==> {s}[k_] <= {x}",
    "forall k_ :: 0 <= k_ < {n} ==> {s}[k_] >= {x}",
)
_OF_SLICE = (
    "{b}[..{n} + 1] == {b}[..{n}] + [{b}[{n}]]",
    "{b}[{n} - 1..] == [{b}[{n} - 1]] + {b}[{n}..]",
    "{b}[{n}..] == [{b}[{n}]] + {b}[{n} + 1..]",
    "{b}[..{n} + 1][..{n}] == {b}[..{n}]",
    "{b}[{n}..][1..] == {b}[{n} + 1..]",
)


def guess_hints(program: ParsedProgram, lines: set[int], endless: set[int]) -> list[list[str]]:
    """Batches of hints for the declarations that hold one of these lines (from 1), as texts that
    begin with ``LINE:COLUMN``: first what gives the others a meaning. Measures are guessed for
    those in which a line of ``endless`` is not shown to end."""
    members = read_members(program)
    failing = [m for m in members if not lines.isdisjoint(_list_lines(program, m))]
    functions = {m.said.name: m for m in members if m.result}
    # What one that fails concludes may be false.
    lemmas = [m for m in members if m.said.word == "lemma" and m not in failing]
    # Where functions are partial, the invariants of a loop are sent as one that nests as deep.
    is_partial = any(
        member.result and (member.list_clauses("requires") or "nat" in member.formals.values())
        for member in members
    )
    most = _MOST_JOINED if is_partial else _MOST_HINTS
    batches: dict[int, list[str]] = {}

    def add(number: int, place: int, form: str, texts: Iterable[str]) -> None:
        at = name_place(program.tokens[place])
        batches.setdefault(number, []).extend(f"{at} {form.format(text)}" for text in texts)

    for member in failing:
        span = _list_lines(program, member)
        ends = endless.isdisjoint(span)
        if not ends and (place := _find_measure_place(program, member)) >= 0:
            add(0, place, "decreases {}", _measure(member))
        body = next((slot for slot in member.element.slots if slot.kind == "statements"), None)
        if body is not None and not member.loops:
            add(0, body.start, "{}", _list_lemma_calls(member, functions, lemmas, member.formals))
        for loop in member.loops:
            guesses = _Guesses(member, loop, functions)
            bounds = list(dict.fromkeys(guesses.list_bounds()))
            facts = _share(guesses.list_facts(), bounds)
            add(0, loop.anchor, "decreases {}", () if ends else guesses.list_measures())
            parts = [*_cut(bounds, most), *_cut(facts, most)]
            for number, part in enumerate(parts):
                add(number, loop.anchor, "invariant {}", part)
            for place, text in guesses.list_assertions():
                add(len(parts), place, "assert {};", [text])
            for place in (loop.begin, loop.after):
                calls = _list_lemma_calls(member, functions, lemmas, loop.types)
                add(len(parts), place, "{}", calls)
    return [batches[number] for number in sorted(batches) if batches[number]]


def _cut(texts: list[str], most: int) -> list[list[str]]:
    return [texts[start : start + most] for start in range(0, len(texts), most)]


def _fill(forms: Iterable[str], **values: Iterable[str]) -> Iterator[str]:
    """Forms with every choice of values for the names in them."""
    for form in forms:
        names = [name for name in values if f"{{{name}}}" in form]
        for chosen in product(*(list(values[name]) for name in names)):
            yield form.format(**dict(zip(names, chosen, strict=True)))


def name_place(token: Token) -> str:
    """A place in a program, as hints begin with it."""
    return f"{token.line}:{token.column + 1}"


def _find_measure_place(program: ParsedProgram, member: Member) -> int:
    """Where a measure of a declaration that calls itself would stand; -1 where it has one."""
    element, clauses = member.element, member.element.slots[0]
    if any(clause.word == "decreases" for clause in clauses.elements):
        return -1
    inside = [token.text for token in program.tokens[clauses.end : element.end]]
    return clauses.end if inside[:1] == ["{"] and member.said.name in inside else -1


def _measure(member: Member) -> Iterator[str]:
    """Measures of the inputs of a declaration that Dafny does not try by itself."""
    whole = [name for name, kind in member.formals.items() if kind in _WHOLE]
    formals = member.formals.items()
    sizes = [f"|{n}|" for n, kind in formals if kind.startswith(("seq", "string", "set"))]
    sizes += [f"{n}.Length" for n, kind in formals if kind.startswith("array<")]
    for left, right in permutations([*whole, *sizes], 2):
        yield f"{left} - {right}"
        if left < right:
            yield f"{left} + {right}"
        yield f"{left} + {right}, {right}"
    yield from [*whole[1:], *sizes, *(n for n in member.formals if n not in whole[:1])]


def _list_lines(program: ParsedProgram, member: Member) -> range:
    tokens = program.tokens[member.element.start : member.element.end]
    return range(tokens[0].line, tokens[-1].line + 1)


def _list_lemma_calls(
    member: Member,
    functions: Mapping[str, Member],
    lemmas: Sequence[Member],
    types: Mapping[str, str],
) -> list[str]:
    """Calls of lemmas that conclude something of a function that the contract speaks of."""
    spoken = functions.keys() & list_names(" ".join(text for _, text in member.clauses))
    calls = list[str]()
    for lemma in lemmas:
        if not spoken & list_names(" ".join(lemma.list_clauses("ensures"))):
            continue
        fitting = [
            [name for name, known in types.items() if _is_alike(known, kind)]
            for kind in lemma.formals.values()
        ]
        calls += (
            f"{lemma.said.name}({', '.join(given)});"
            for given in islice(product(*fitting), _MOST_CALLS)
        )
    return calls[:_MOST_CALLS]


class _Guesses:
    """What may hold at each round of a loop."""

    def __init__(self, member: Member, loop: LoopText, functions: Mapping[str, Member]) -> None:
        self.member, self.loop, self.functions = member, loop, functions
        self.types = loop.types
        self.around = [loop]
        while (outer := self.around[-1].outer) is not None:
            self.around.append(outer)
        self.counters = [name for one in self.around for name in self._list_counters(one)]
        self.sequences = [n for n, t in self.types.items() if t.startswith(("seq", "string"))]
        self.arrays = [n for n, t in self.types.items() if t.startswith("array<")]
        self.slices = [(s, s, f"|{s}|") for s in self.sequences]
        self.slices += [(f"{a}[..]", a, f"{a}.Length") for a in self.arrays]
        self.lengths = [length for _, _, length in self.slices]
        parts = [part for one in self.around for part in split(one.guard, "&&")]
        chains = chain.from_iterable(split_chain(part) or [part] for part in parts)
        self.guards = [found for part in chains if (found := compare(part))]
        self.limits = self._list_limits()
        self.taken = {*self.types, *self.functions}
        self.goals = list(self._list_goals())

    def _list_counters(self, loop: LoopText) -> list[str]:
        """Whole numbers that a loop changes, those of its guard first."""
        if loop.counter:
            return [loop.counter[0]]
        guard = plain(loop.guard)
        found = [
            name
            for name, entries in loop.assigned.items()
            if self.types.get(name) in _WHOLE
            and (name in guard or any(name in _read_step(one.value) for one in entries))
        ]
        return sorted(found, key=lambda name: name not in guard)[:_MOST_VARIABLES]

    def _list_limits(self) -> list[str]:
        """What a counter may run to: the other sides of the guard, lengths, constants."""
        sides = [side for _, left, right in self.guards for side in (right, left)]
        ends = [end for one in self.around if one.counter for end in one.counter[1:3]]
        steady = [
            name
            for name, kind in self.types.items()
            if kind in _WHOLE
            and all(name not in one.assigned and name not in one.inner for one in self.around)
        ]
        counted = {"*", "", *self.counters}
        texts = dict.fromkeys([*sides, *ends, *self.lengths, *steady])
        return [t for t in texts if t not in counted and not t.isdigit()]

    def list_bounds(self) -> Iterator[str]:
        """Bounds of counters, lengths, and preconditions."""
        for sign, left, right in self.guards:
            yield f"{left} {_TURNED[sign]} {right}"
            if sign == "!=":
                yield f"{left} >= {right}"
            elif sign in ("<=", ">="):
                less, more = (left, right) if sign == "<=" else (right, left)
                yield f"{less} <= {more} + 1"
        for around in self.around:
            for part in split(around.guard, "||"):
                if part != strip(around.guard) and "!=" not in part:
                    yield part.replace(" < ", " <= ")
        ends = [limit for limit in self.limits if limit in [right for _, _, right in self.guards]]
        starts = [self._start_of(name) for name in self.counters]
        for name, start in zip(self.counters, starts, strict=True):
            begins = [start] if start else []
            yield from _fill(_OF_COUNTER, n=[name], start=begins, limit=self.limits, end=ends)
        # Whole numbers that are set to a counter.
        indices = [
            name
            for name, entries in self.loop.assigned.items()
            if name not in self.counters and any(one.value in self.counters for one in entries)
        ]
        outer = [n for one in self.around[1:] for n in self._list_counters(one)]
        low = [text for text in dict.fromkeys([*starts, *outer]) if text]
        yield from _fill(_OF_INDEX, x=indices, n=self.counters, low=low, length=self.lengths)
        yield from self._list_linear()
        for one, other in permutations(self.counters, 2):
            yield from (f"{one} <= {other}", f"{one} < {other}")
        grown = [name for name in self.sequences if name in self.loop.assigned]
        yield from _fill(_OF_GROWN, s=grown, n=self.counters)
        for text in self.member.list_clauses("requires"):
            if self._may_change(text):
                yield text
            if (carried := self._carry(text)) != text:
                yield carried
        yield from chain.from_iterable(around.known for around in self.around[1:])
        for array in self.arrays:
            if made := re.fullmatch(r"new [^\[]*\[(.*)\]", self.loop.values.get(array, "")):
                yield f"{array}.Length == {made[1]}"

    def _list_linear(self) -> Iterator[str]:
        """How counters with fixed steps go together."""
        found = []
        for name in self.counters:
            steps = {_read_step(one.value) for one in self.loop.assigned.get(name, ())}
            start = self.loop.values.get(name, "")
            [step] = steps if len(steps) == 1 and start else [()]
            if step[:1] == (name,) and step[1] in "+-" and step[2].isdigit() and int(step[2]):
                found.append((name if start == "0" else f"({name} - {start})", step[1] + step[2]))
        for (left, left_step), (right, right_step) in combinations(found, 2):
            yield f"{_scale(left, int(right_step))} == {_scale(right, int(left_step))}"

    def _carry(self, text: str) -> str:
        """What is said of the values that variables began with, said of these variables."""
        taken = set[str]()
        for one in self.around:
            for name, value in one.values.items():
                is_name = name in one.assigned and value.isidentifier()
                if is_name and value not in taken and value not in one.assigned:
                    taken.add(value)
                    text = substitute(text, value, name)
        return text

    def _start_of(self, name: str) -> str:
        for one in self.around:
            if one.counter and one.counter[0] == name:
                return ""
            if name in one.values and name in one.assigned:
                value = one.values[name]
                return value if list_names(value).isdisjoint(one.assigned) else ""
        return ""

    def _may_change(self, text: str) -> bool:
        names = list_names(text)
        return any(n in names for one in self.around for n in one.assigned) or bool(
            self.member.list_clauses("modifies") and names.intersection(self.arrays)
        )

    def list_facts(self) -> list[Iterator[str]]:
        """What the postconditions become on the way, and what the loop itself says. What comes
        first stays when either of two would do."""
        goals = (chain(self._generalise(goal), self._list_sides(goal)) for goal in self.goals)
        return [*goals, self._list_written(), self._list_accumulated(), self._list_kept()]

    def _list_kept(self) -> Iterator[str]:
        """What of arrays is as it was, what is least or largest so far, and first values."""
        changed = {plain(text)[0] for text in self.member.list_clauses("modifies")}
        yield from _fill(_OF_ARRAY, a=[a for a in self.arrays if a in changed], n=self.counters)
        numbers = [n for n in self.loop.assigned if self.types.get(n) in _WHOLE]
        holders = [n for n, kind in self.types.items() if kind in _NUMBERS]
        least = [number for number in numbers if number not in self.counters]
        yield from _fill(_OF_LEAST, x=least, s=holders, n=self.counters[:2])
        for name, one in product(self.loop.assigned, self.around):
            value = one.values.get(name, "")
            if list_names(value) & one.assigned.keys():
                yield f"{name} == {value}"

    def _list_goals(self) -> Iterator[str]:
        """Postconditions with what is returned in place of results, predicates written out too."""
        for clause in self.member.list_clauses("ensures"):
            goal = _rename_bound(clause, self.taken)
            for array in self.arrays:
                goal = substitute(goal, f"old({array}.Length)", f"{array}.Length")
            returned = {
                name: value
                for name, value in self.loop.returned.items()
                if value != name and name not in self.loop.assigned
            }
            # What has no value before the loop has none in it.
            has_values = not self.loop.values.keys().isdisjoint(returned)
            for given in (returned, {}) if has_values else (returned,):
                found = give(goal, given)
                yield found
                yield from split_chain(found)
                yield from (_rename_bound(one, self.taken) for one in self._unfold(found))

    def _list_sides(self, goal: str) -> Iterator[str]:
        """What each side of an equivalence or implication is on the way, and what a flag says."""
        for sign in ("<==>", "==", "==>"):
            sides = split(goal, sign)
            if len(sides) != 2:
                continue
            for one, other in (sides, sides[::-1]):
                if self._is_claim(one):
                    for form in self._generalise(one):
                        if form != one:
                            yield from (form, f"!({form})")
                if one in self.loop.assigned and self.types.get(one) == "bool":
                    yield f"!{one} ==> !({other})"
                    yield f"{one} ==> ({other})"
                    yield from (f"{one} ==> ({form})" for form in self._generalise(other))
            return

    def _is_claim(self, text: str) -> bool:
        """True for a quantified claim and for a call of a predicate."""
        function = self.functions.get(plain(text)[0])
        is_call = function is not None and function.result == "bool"
        return is_call or not {"forall", "exists"}.isdisjoint(plain(text))

    def _unfold(self, text: str) -> Iterator[str]:
        """The conjuncts of a predicate that is all that is said."""
        function = self.functions.get(plain(text)[0])
        if function is None or function.result != "bool":
            return
        name, body = function.said.name, clean(function.said.inner)
        given = split_at(text[text.index("(") + 1 : -1], ",")
        is_whole = (0, len(text)) in list_calls(text, {name})
        if not body or len(given) != len(function.formals) or not is_whole or name in plain(body):
            return
        body = _rename_bound(body, self.taken | list_names(text))
        yield from split(give(body, dict(zip(function.formals, given, strict=True))), "&&")

    def _generalise(self, goal: str) -> Iterator[str]:
        """A goal, and the goal with its constants replaced by the loop's counters."""
        yield goal
        if (carried := self._carry(goal)) != goal:
            yield carried
        for name in self.counters[:_MOST_VARIABLES]:
            forms = []
            for limit in self.limits:
                forms.append(substitute(goal, limit, name))
                # A range, and not what is said of its elements.
                forms.append(substitute(goal, limit, name, 1))
            forms += [substitute(goal, other, name) for other in self.counters if other != name]
            # From both ends, as where elements are swapped.
            begins = (name, f"{name} + 1", *(f"{end} - {name}" for end in self.lengths))
            forms += [_raise_start(goal, begin) for begin in begins]
            for term, base, _ in self.slices:
                forms += self._cut_sequence(goal, term, base, name)
            for limit, sign in product(self.limits, "+-"):
                forms.append(substitute(goal, limit, f"{name} {sign} 1"))
            changed = [form for form in dict.fromkeys(forms) if form != goal]
            yield from changed
            # A second counter in what is left.
            others = [other for other in self.counters[:2] if other != name]
            raised = ((_raise_start(form, o), form) for form in changed[:4] for o in others)
            yield from (one for one, form in raised if one != form)

    def _cut_sequence(self, goal: str, term: str, base: str, name: str) -> Iterator[str]:
        """The goal about the elements before a counter, and about those from it on."""
        spans = [
            (start, end)
            for start, end in find(goal, term)
            if goal[end : end + 1] not in ("[", ".") and goal[start - 1 : start] != "|"
        ]
        for way in (f"..{name}", f"{name}..", f"..{name} + 1", f"{name} + 1..") if spans else ():
            yield write_over(goal, spans, f"{base}[{way}]")

    def _list_written(self) -> Iterator[str]:
        """What the elements are that the loop has written."""
        for one in self.around:
            for name in self._list_counters(one):
                start = (one.counter[1] if one.counter else one.values.get(name, "")) or "0"
                is_down = one.counter is not None and not one.counter[3]
                for entry in chain.from_iterable(one.assigned.values()):
                    yield from self._describe_entry(entry, name, start, is_down)

    def _describe_entry(
        self, entry: Assignment, name: str, start: str, is_down: bool
    ) -> Iterator[str]:
        array, value = entry.name, entry.value
        if entry.index and value:
            old = list_calls(value, {array}, "[")
            for begin, end in sorted(old, reverse=True):
                value = f"{value[:begin]}old({value[begin:end]}){value[end:]}"
            place, said = (substitute(text, name, "k_") for text in (entry.index, value))
            behind = (name, start) if is_down else (start, name)
            for low, high in (behind, (f"{name} + 1", f"{array}.Length")):
                yield f"forall k_ :: {low} <= k_ < {high} ==> {array}[{place}] == {said}"
        if added := re.fullmatch(rf"{re.escape(array)} \+ \[(.*)\]", value):
            said = substitute(added[1], name, "k_")
            yield f"forall k_ :: 0 <= k_ < |{array}| ==> {array}[k_] == {said}"

    def _list_accumulated(self) -> Iterator[str]:
        """Equalities of accumulators and functions of the program, and what they add up to."""
        terms: dict[str, Member] = {}
        for goal in self.goals:
            for start, end in list_calls(goal, self.functions):
                term = goal[start:end]
                terms |= dict.fromkeys(self._generalise(term), self.functions[plain(term)[0]])
        for name, function in self.functions.items():
            if len(function.formals) == 1 and _WHOLE.issuperset(function.formals.values()):
                forms = _fill(
                    [f"{name}({{n}}{step})" for step in ("", " + 1", " - 1")], n=self.counters
                )
                terms |= dict.fromkeys(forms, function)
        changed = [n for n in self.loop.assigned if not self.loop.assigned[n][0].index]
        for text, function in terms.items():
            for name in changed:
                if _is_alike(self.types.get(name, ""), function.result):
                    yield f"{name} == {text}"
        for goal in self.goals:
            sides = split(goal, "==")
            if len(sides) != 2 or len(plain(sides[0])) != 1:
                continue
            result, whole = sides
            if (rest := self._carry(whole)) != whole:
                yield f"{rest} == {whole}"
                yield from (f"{result} {sign} {rest} == {whole}" for sign in "+*")
                yield f"{rest} + {result} == {whole}"
            for form in self._generalise(whole):
                if form != whole:
                    yield from (f"{result} + {form} == {whole}", f"{form} + {result} == {whole}")

    def list_measures(self) -> Iterator[str]:
        """Measures that Dafny does not try by itself."""
        signs = [sign for sign, _, _ in self.guards]
        if self.loop.counter or (signs[:1] and signs[0] in ("<", "<=", ">", ">=")):
            return
        for sign, left, right in self.guards:
            if sign == "!=":
                yield from (f"{right} - {left}", f"{left} - {right}")
        yield from (" + ".join(pair) for pair in combinations(sorted(self.counters), 2))
        yield from _fill(
            ("{n}", "{n} + 1", "{limit} - {n}"), n=self.counters, limit=self.limits[:3]
        )
        for name, entries in self.loop.assigned.items():
            if name in self.sequences:
                yield f"|{name}|"
            elif any(one.value.startswith(f"{name}.") for one in entries):
                yield name

    def list_assertions(self) -> Iterator[tuple[int, str]]:
        """What Dafny does not see by itself of the parts of sequences, and where to say it."""
        for term, base, length in self.slices:
            if any(any(self._cut_sequence(goal, term, base, "k_")) for goal in self.goals):
                for text in _fill(_OF_SLICE, b=[base], n=self.counters[:2]):
                    yield self.loop.begin, text
                yield self.loop.after, f"{base}[..{length}] == {term}"
                yield self.loop.after, f"{base}[0..] == {term}"


def _share(sources: Sequence[Iterator[str]], known: Sequence[str]) -> list[str]:
    """As many as may be asked, one of each source in turns; all of the first come first."""
    taken, shares = set(known), [list[str]() for _ in sources]
    most = len(taken) + _MOST_HINTS
    for row in zip_longest(*sources):
        for share, text in zip(shares, row, strict=True):
            if text is not None and text not in taken and len(taken) < most:
                taken.add(text)
                share.append(text)
    return [*chain.from_iterable(shares)]


def _read_step(value: str) -> tuple[str, ...]:
    texts = plain(value)
    return texts if len(texts) == 3 and texts[1] in "+-*/" else ()


def _is_alike(one: str, other: str) -> bool:
    return bool(one) and (one == other or {one, other} <= _WHOLE)


def _scale(text: str, by: int) -> str:
    return text if by == 1 else f"-{text}" if by == -1 else f"{by} * {text}"


def _rename_bound(text: str, taken: set[str]) -> str:
    """A formula whose bound variables have names that nothing else has."""
    for found in re.finditer(r"\b(?:forall|exists|set) (.*?)(?=::|\||\bin\b)", text):
        for name in re.findall(r"(?:^|,\s*)(\w[\w'?]*)", found[1]):
            if name in taken:
                fresh = chain(_FRESH, (f"k{number}" for number in count()))
                new = next(n for n in fresh if n not in taken and n not in plain(text))
                text = rename(text, {name: new})
    return text


def _raise_start(goal: str, begin: str) -> str:
    """The goal about elements from a counter on: ``0 <= k`` becomes ``i <= k``."""
    texts, spans = plain(goal), []
    for place, (text, after) in enumerate(pairwise(texts)):
        before = texts[place - 1] if place else ""
        is_low = after in ("<=", "<") and before in ("", "::", "|", "(", "&&")
        is_first = after == ".." and before == "["
        if text == "0" and (is_low or is_first or (before in ("(", ",") and after in (",", ")"))):
            spans.append((scan(goal)[place].column, scan(goal)[place].column + 1))
    return write_over(goal, spans, begin)
