"""Level 4, second part: lemmas by induction on lists, trees and sequences.

Flows in: a random source and names. Flows out: programs of four families, and the list vocabulary
that level 5 uses too.
Not handled here: lemmas that need another lemma (level 5).
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from proverrl.lang.dafny.generate.draft import (
    Family,
    Program,
    Term,
    draw_test,
    shuffled,
    write_lemma,
)
from proverrl.lang.dafny.generate.names import Names


def draw_weight(rng: random.Random, names: Names) -> Term:
    """What one element adds to a measure: a multiple, a shifted multiple, or a choice."""
    slope, offset = names.number("slope", 2, 24), names.number("offset", 1, 40)
    style = rng.randrange(4)
    if style == 0:
        return lambda x: f"{slope} * {x}"
    if style == 1:
        return lambda x: f"({slope} * {x} + {offset})"
    if style == 2:
        return lambda x: f"({x} + {offset})"
    test = draw_test(rng, names)
    return lambda x: f"(if {test(x)} then {slope} else {offset})"


@dataclass(frozen=True, slots=True)
class ListWords:
    """The datatype of a program's lists, with the names that its patterns use."""

    name: str
    empty: str
    joined: str
    arg: str
    other: str
    head: str
    tail: str

    def declare(self, first: str, second: str) -> str:
        """The declaration of the datatype; the arguments name its fields."""
        return (
            f"datatype {self.name} = {self.empty} | "
            f"{self.joined}({first}: int, {second}: {self.name})"
        )

    @property
    def pattern(self) -> str:
        """The pattern of a list that is not empty."""
        return f"{self.joined}({self.head}, {self.tail})"

    def match(self, base: str, rule: str) -> str:
        """A match on the argument, as an expression."""
        return f"match {self.arg} case {self.empty} => {base} case {self.pattern} => {rule}"

    def append(self, function: str) -> str:
        """The function that joins two lists."""
        rule = f"{self.joined}({self.head}, {function}({self.tail}, {self.other}))"
        return (
            f"function {function}({self.arg}: {self.name}, {self.other}: {self.name}): "
            f"{self.name} {{ {self.match(self.other, rule)} }}"
        )

    def measure(self, function: str, base: str, weight: str, ahead: bool) -> str:
        """A function from lists to integers that adds ``weight`` for each element."""
        call = f"{function}({self.tail})"
        rule = f"{weight} + {call}" if ahead else f"{call} + {weight}"
        return f"function {function}({self.arg}: {self.name}): int {{ {self.match(base, rule)} }}"


def draw_list(names: Names) -> ListWords:
    """Fresh words for the lists of one program."""
    return ListWords(*names.picks("datatype", "empty", "joined", "list", "list", "head", "tail"))


def write_cases(arg: str, empty: str, pattern: str, calls: str) -> str:
    """A case split on ``arg``, ``calls`` in the case that is not empty."""
    return f"match {arg} {{\n  case {empty} =>\n  case {pattern} => {calls}\n}}"


def write_match(words: ListWords, calls: str) -> str:
    """A case split on the list."""
    return write_cases(words.arg, words.empty, words.pattern, calls)


def make_append(rng: random.Random, names: Names) -> Program:
    """A measure of joined lists is the sum of their measures."""
    words = draw_list(names)
    append, measure, lemma = names.picks("function", "function", "lemma")
    field, rest = names.picks("head", "tail")
    weight, base = draw_weight(rng, names), names.number("base", 1, 30)
    start = base if rng.random() < 0.4 else 0
    shift = f" - {start}" if start else ""
    left, right = words.arg, words.other
    total = f"{measure}({left}) + {measure}({right}){shift}"
    functions = [
        words.append(append),
        words.measure(measure, str(start), weight(words.head), rng.random() < 0.5),
    ]
    lines = [
        words.declare(field, rest),
        *shuffled(rng, functions),
        *write_lemma(
            f"{lemma}({left}: {words.name}, {right}: {words.name})",
            [f"ensures {measure}({append}({left}, {right})) == {total}"],
        ),
    ]
    return Program(lines, write_match(words, f"{lemma}({words.tail}, {right});"))


def make_mapped(rng: random.Random, names: Names) -> Program:
    """A count of a mapped list is a multiple of the count of the list."""
    words = draw_list(names)
    mapped, measure, lemma = names.picks("function", "function", "lemma")
    field, rest = names.picks("head", "tail")
    slope, offset = names.number("slope", 2, 24), names.number("offset", 1, 40)
    head, tail = words.head, words.tail
    summed = rng.random() < 0.5
    if summed:
        image, weight, scale = f"{slope} * {head}", head, f"{slope} * "
    else:
        image, weight, scale = f"{slope} * {head} + {offset}", str(rng.randrange(1, 20)), ""
    rule = f"{words.joined}({image}, {mapped}({tail}))"
    text = f"function {mapped}({words.arg}: {words.name}): {words.name} "
    functions = [
        f"{text}{{ {words.match(words.empty, rule)} }}",
        words.measure(measure, "0", weight, rng.random() < 0.5),
    ]
    lines = [
        words.declare(field, rest),
        *shuffled(rng, functions),
        *write_lemma(
            f"{lemma}({words.arg}: {words.name})",
            [f"ensures {measure}({mapped}({words.arg})) == {scale}{measure}({words.arg})"],
        ),
    ]
    return Program(lines, write_match(words, f"{lemma}({tail});"))


def make_mirror(rng: random.Random, names: Names) -> Program:
    """A measure of a tree does not change when the tree is mirrored."""
    tree, leaf, node = names.picks("datatype", "empty", "joined")
    mirror, measure, lemma = names.picks("function", "function", "lemma")
    arg, value, left, right = names.picks("list", "head", "low", "high")
    fields = names.picks("tail", "head", "tail")
    weight, base = draw_weight(rng, names)(value), names.number("base", 0, 30)
    pattern = f"{node}({left}, {value}, {right})"
    total = " + ".join(shuffled(rng, [weight, f"{measure}({left})", f"{measure}({right})"]))

    def match(first: str, second: str) -> str:
        return f"match {arg} case {leaf} => {first} case {pattern} => {second}"

    image = f"{node}({mirror}({right}), {value}, {mirror}({left}))"
    functions = [
        f"function {mirror}({arg}: {tree}): {tree} {{ {match(leaf, image)} }}",
        f"function {measure}({arg}: {tree}): int {{ {match(str(base), total)} }}",
    ]
    lines = [
        f"datatype {tree} = {leaf} | "
        f"{node}({fields[0]}: {tree}, {fields[1]}: int, {fields[2]}: {tree})",
        *shuffled(rng, functions),
        *write_lemma(
            f"{lemma}({arg}: {tree})", [f"ensures {measure}({mirror}({arg})) == {measure}({arg})"]
        ),
    ]
    calls = f"{lemma}({left}); {lemma}({right});"
    return Program(lines, write_cases(arg, leaf, pattern, calls))


def make_sequence(rng: random.Random, names: Names) -> Program:
    """A measure of a sequence with one more element, at the far end of the recursion."""
    function, lemma, seq, extra = names.picks("function", "lemma", "seq", "param")
    weight, base = draw_weight(rng, names), names.number("base", 1, 30)
    start = base if rng.random() < 0.5 else 0
    front = rng.random() < 0.5
    if front:
        element, rest, joined = f"{seq}[0]", f"{seq}[1..]", f"{seq} + [{extra}]"
        cut, bridge = f"({joined})[1..]", f"{rest} + [{extra}]"
    else:
        element, rest = f"{seq}[|{seq}| - 1]", f"{seq}[..|{seq}| - 1]"
        joined, bridge = f"[{extra}] + {seq}", f"[{extra}] + {rest}"
        cut = f"({joined})[..|{seq}|]"
    parts = [weight(element), f"{function}({rest})"]
    rule = " + ".join(shuffled(rng, parts))
    total = " + ".join(shuffled(rng, [f"{function}({seq})", weight(extra)]))
    test = rng.choice((f"|{seq}| == 0", f"{seq} == []"))
    lines = [
        f"function {function}({seq}: seq<int>): int {{ if {test} then {start} else {rule} }}",
        *write_lemma(
            f"{lemma}({seq}: seq<int>, {extra}: int)", [f"ensures {function}({joined}) == {total}"]
        ),
    ]
    reference = (
        f"if {test} {{\n  assert {joined} == [{extra}];\n}} else {{\n"
        f"  assert {cut} == {bridge};\n  {lemma}({rest}, {extra});\n}}"
    )
    return Program(lines, reference)


FAMILIES: dict[str, Family] = {
    "l4_app": make_append,
    "l4_map": make_mapped,
    "l4_tree": make_mirror,
    "l4_seq": make_sequence,
}
