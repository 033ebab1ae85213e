"""Level 4: lemmas by induction on numbers, lists, trees and sequences, and calculations; the hole
holds proof statements.

Flows in: a random source and names. Flows out: programs of thirteen families, and the list words
that level 5 uses too. Not handled here: lemmas that need another lemma (``level5``).
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from proverrl.generate.dafny.draft import (
    Term,
    ask_lemma,
    draw_equation,
    draw_line,
    draw_weight,
    shuffled,
    write_lemma,
)
from proverrl.generate.families import Family, Names, ProgramText
from proverrl.types import HOLE


def write_recursion(
    rng: random.Random, function: str, parameters: str, arg: str, base: str, rule: str
) -> tuple[str, Term]:
    """A function on a natural number, and the matching test that an argument is not the base."""
    forms: list[tuple[str, Term]] = [
        (f"if {arg} == 0 then {base} else {rule}", lambda x: f"{x} != 0"),
        (f"if {arg} > 0 then {rule} else {base}", lambda x: f"{x} > 0"),
        (f"if 0 < {arg} then {rule} else {base}", lambda x: f"0 < {x}"),
        (f"if {arg} < 1 then {base} else {rule}", lambda x: f"{x} >= 1"),
    ]
    body, test = rng.choice(forms)
    return f"function {function}({parameters}): int {{ {body} }}", test


def add_term(rng: random.Random, call: str, amount: str | int) -> str:
    """A sum of a call and an amount, in either order."""
    return f"{call} + {amount}" if rng.random() < 0.6 else f"{amount} + {call}"


def _ask_induction(text: str, lemma: str, bound: str, claim: str, test: Term) -> ProgramText:
    """A claim on a function at ``bound``, proved from the same claim one below."""
    proof = f"if {test(bound)} {{ {lemma}({bound} - 1); }}"
    return ask_lemma([text], f"{lemma}({bound}: nat)", claim, proof)


def make_closed(rng: random.Random, names: Names) -> ProgramText:
    """The closed form of a linear or quadratic recurrence."""
    function, lemma, arg, bound = names.picks("function", "lemma", "arg", "bound")
    slope, base = names.number("slope", 2, 30), names.number("base", 1, 30)
    call, equal = f"{function}({arg} - 1)", draw_equation(rng)
    if rng.random() < 0.5:
        rule = add_term(rng, call, slope)
        line = draw_line(slope, base, rng.choice((0, 1, 3, 4)))
        claim = equal(f"{function}({bound})", line(bound))
    else:
        rule = add_term(rng, call, f"{slope} * {arg}")
        closed = f"{slope} * {bound} * ({bound} + 1) + {2 * base}"
        claim = equal(f"2 * {function}({bound})", closed)
    text, test = write_recursion(rng, function, f"{arg}: nat", arg, str(base), rule)
    return _ask_induction(text, lemma, bound, claim, test)


def make_scaled(rng: random.Random, names: Names) -> ProgramText:
    """The closed form of a recurrence that adds a parameter of the function."""
    function, lemma, arg, step = names.picks("function", "lemma", "arg", "param")
    bound, factor = names.picks("bound", "param")
    base, equal = names.number("base", 1, 40), draw_equation(rng)
    first = rng.random() < 0.5

    def order(number: str, other: str) -> str:
        return f"{number}, {other}" if first else f"{other}, {number}"

    slope = names.number("slope", 2, 20) if rng.random() < 0.4 else 1
    amount = step if slope == 1 else f"{slope} * {step}"
    rule = add_term(rng, f"{function}({order(f'{arg} - 1', step)})", amount)
    parameters = order(f"{arg}: nat", f"{step}: int")
    text, test = write_recursion(rng, function, parameters, arg, str(base), rule)
    product = f"{factor} * {bound}" if slope == 1 else f"{slope} * {factor} * {bound}"
    claim = equal(f"{function}({order(bound, factor)})", f"{product} + {base}")
    head = f"{lemma}({order(f'{bound}: nat', f'{factor}: int')})"
    call = f"{lemma}({order(f'{bound} - 1', factor)});"
    return ask_lemma([text], head, claim, f"if {test(bound)} {{ {call} }}")


def make_bound(rng: random.Random, names: Names) -> ProgramText:
    """A linear bound on a recurrence that grows or falls at least as fast."""
    function, lemma, arg, bound = names.picks("function", "lemma", "arg", "bound")
    base, slope = names.number("base", 4, 30), names.number("slope", 2, 24)
    call, value = f"{function}({arg} - 1)", f"{function}({bound})"
    limit = rng.randrange(0, base + 1)
    style = rng.randrange(3)
    turned = ("<=", ">=") if style == 2 else (">=", "<=")
    low = rng.randrange(1, slope + 1) if style else 0
    if style == 0:
        rule, limit_text = f"{slope} * {call}", f"{bound} + {limit}"
    elif style == 1:
        rule, limit_text = add_term(rng, call, slope), f"{low} * {bound} + {limit}"
    else:
        rule, limit_text = f"{call} - {slope}", f"{base + limit} - {low} * {bound}"
    text, test = write_recursion(rng, function, f"{arg}: nat", arg, str(base), rule)
    claim = f"{value} {turned[0]} {limit_text}"
    if rng.random() < 0.4:
        claim = f"{limit_text} {turned[1]} {value}"
    return _ask_induction(text, lemma, bound, claim, test)


def make_remainder(rng: random.Random, names: Names) -> ProgramText:
    """A remainder that a recurrence keeps."""
    function, lemma, arg, bound = names.picks("function", "lemma", "arg", "bound")
    modulus = names.number("slope", 2, 20)
    rest = rng.randrange(0, modulus)
    base = modulus * rng.randrange(0, 4) + rest
    call, amount = f"{function}({arg} - 1)", modulus * rng.randrange(1, 6)
    rule = f"{call} - {amount}" if rng.random() < 0.3 else add_term(rng, call, amount)
    text, test = write_recursion(rng, function, f"{arg}: nat", arg, str(base), rule)
    claim = draw_equation(rng)(f"{function}({bound}) % {modulus}", str(rest))
    return _ask_induction(text, lemma, bound, claim, test)


def make_skip(rng: random.Random, names: Names) -> ProgramText:
    """The closed form of a recurrence that goes down by more than one."""
    function, lemma, arg, bound = names.picks("function", "lemma", "arg", "bound")
    stride, slope = rng.randrange(2, 8), names.number("slope", 2, 20)
    offset, equal = names.number("offset", 1, 40), draw_equation(rng)
    line = draw_line(slope, offset, rng.choice((0, 1, 3, 4)))
    rule = add_term(rng, f"{function}({arg} - {stride})", stride * slope)
    if rng.random() < 0.5:
        text = f"if {arg} < {stride} then {line(arg)} else {rule}"
    else:
        text = f"if {arg} >= {stride} then {rule} else {line(arg)}"
    claim = equal(f"{function}({bound})", line(bound))
    function = f"function {function}({arg}: nat): int {{ {text} }}"
    proof = f"if {bound} >= {stride} {{ {lemma}({bound} - {stride}); }}"
    return ask_lemma([function], f"{lemma}({bound}: nat)", claim, proof)


def make_tail(rng: random.Random, names: Names) -> ProgramText:
    """The closed form of a function with an accumulator."""
    function, lemma, arg, held = names.picks("function", "lemma", "arg", "total")
    bound, start = names.picks("bound", "total")
    slope, offset = names.number("slope", 2, 40), names.number("offset", 1, 40)
    sign, equal = rng.choice("+-"), draw_equation(rng)
    result = held if rng.random() < 0.5 else f"{held} + {offset}"
    rule = f"{function}({arg} - 1, {held} {sign} {slope})"
    parameters = f"{arg}: nat, {held}: int"
    text, test = write_recursion(rng, function, parameters, arg, result, rule)
    closed = f"{start} {sign} {slope} * {bound}" + (f" + {offset}" if result != held else "")
    claim = equal(f"{function}({bound}, {start})", closed)
    proof = f"if {test(bound)} {{ {lemma}({bound} - 1, {start} {sign} {slope}); }}"
    return ask_lemma([text], f"{lemma}({bound}: nat, {start}: int)", claim, proof)


def make_monotone(rng: random.Random, names: Names) -> ProgramText:
    """A recurrence that grows or falls keeps the order of its arguments."""
    function, lemma, arg, low, high = names.picks("function", "lemma", "arg", "low", "high")
    slope, base = names.number("slope", 1, 30), names.number("base", 0, 30)
    call, falls = f"{function}({arg} - 1)", rng.random() < 0.4
    amount = rng.choice((str(slope), f"{slope} * {arg}"))
    rule = f"{call} - {amount}" if falls else add_term(rng, call, amount)
    text, _ = write_recursion(rng, function, f"{arg}: nat", arg, str(base), rule)
    operator = ">=" if falls else "<="
    test, required = rng.choice(
        (
            (f"{low} < {high}", f"{low} <= {high}"),
            (f"{low} != {high}", f"{low} <= {high}"),
            (f"{high} > {low}", f"{high} >= {low}"),
        )
    )
    return ask_lemma(
        [text],
        f"{lemma}({low}: nat, {high}: nat)",
        f"{function}({low}) {operator} {function}({high})",
        f"if {test} {{ {lemma}({low}, {high} - 1); }}",
        [f"requires {required}"],
    )


def make_related(rng: random.Random, names: Names) -> ProgramText:
    """Two recurrences of one shape, one a linear function of the other."""
    first, second = names.picks("function", "function")
    lemma, arg, bound = names.picks("lemma", "arg", "bound")
    slope, base = names.number("slope", 2, 12), names.number("base", 1, 12)
    amount, equal = rng.randrange(1, 10), draw_equation(rng)
    offset = names.number("offset", 1, 30) if rng.random() < 0.5 else 0
    rule = f"{first}({arg} - 1) + {amount}"
    other = f"{second}({arg} - 1) + {amount * slope}"
    if rng.random() < 0.5:
        rule, other = f"{rule} * {arg}", f"{other} * {arg}"
    text, test = write_recursion(rng, first, f"{arg}: nat", arg, str(base), rule)
    start = str(base * slope + offset)
    twin, _ = write_recursion(rng, second, f"{arg}: nat", arg, start, other)
    line = draw_line(slope, offset, rng.choice((0, 1, 3, 4)))
    claim = equal(f"{second}({bound})", line(f"{first}({bound})"))
    both = "\n".join(shuffled(rng, [text, twin]))
    return _ask_induction(both, lemma, bound, claim, test)


def make_calculation(rng: random.Random, names: Names) -> ProgramText:
    """The steps between both ends of a calculation, with the induction hypothesis as a hint."""
    function, lemma, arg, bound = names.picks("function", "lemma", "arg", "bound")
    slope, base = names.number("slope", 2, 24), names.number("base", 1, 24)
    call = f"{function}({bound} - 1)"
    if rng.random() < 0.5:
        amount, left = str(slope), f"{function}({bound})"
        right = f"{slope} * {bound} + {base}"
        unfolded = f"{call} + {slope}"
        hinted = f"{slope} * ({bound} - 1) + {base} + {slope}"
    else:
        amount, left = f"{slope} * {arg}", f"2 * {function}({bound})"
        right = f"{slope} * {bound} * ({bound} + 1) + {2 * base}"
        unfolded = f"2 * {call} + {2 * slope} * {bound}"
        hinted = f"{slope} * ({bound} - 1) * {bound} + {2 * base} + {2 * slope} * {bound}"
    rule = f"{function}({arg} - 1) + {amount}"
    text, test = write_recursion(rng, function, f"{arg}: nat", arg, str(base), rule)
    steps = ["  calc {", f"    {left};", f"    {HOLE}", f"    {right};", "  }"]
    body = [f"if {test(bound)} {{", *steps, "}"]
    lines = [text, *write_lemma(f"{lemma}({bound}: nat)", [f"ensures {left} == {right}"], body)]
    reference = f"== {unfolded};\n== {{ {lemma}({bound} - 1); }} {hinted};"
    return ProgramText(lines, reference, "calc")


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
        case = f"{self.joined}({first}: int, {second}: {self.name})"
        return f"datatype {self.name} = {self.empty} | {case}"

    @property
    def pattern(self) -> str:
        """The pattern of a list that is not empty."""
        return f"{self.joined}({self.head}, {self.tail})"

    def match(self, base: str, rule: str) -> str:
        """A match on the argument, as an expression."""
        return f"match {self.arg} case {self.empty} => {base} case {self.pattern} => {rule}"

    def prove(self, calls: str) -> str:
        """A case split on the argument, as statements."""
        return write_cases(self.arg, self.empty, self.pattern, calls)

    def append(self, function: str) -> str:
        """The function that joins two lists."""
        rule = f"{self.joined}({self.head}, {function}({self.tail}, {self.other}))"
        head = f"{function}({self.arg}: {self.name}, {self.other}: {self.name}): {self.name}"
        return f"function {head} {{ {self.match(self.other, rule)} }}"

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


def make_append(rng: random.Random, names: Names) -> ProgramText:
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
    return ask_lemma(
        [words.declare(field, rest), *shuffled(rng, functions)],
        f"{lemma}({left}: {words.name}, {right}: {words.name})",
        f"{measure}({append}({left}, {right})) == {total}",
        words.prove(f"{lemma}({words.tail}, {right});"),
    )


def make_mapped(rng: random.Random, names: Names) -> ProgramText:
    """A count of a mapped list is a multiple of the count of the list."""
    words = draw_list(names)
    mapped, measure, lemma = names.picks("function", "function", "lemma")
    field, rest = names.picks("head", "tail")
    slope, offset = names.number("slope", 2, 24), names.number("offset", 1, 40)
    head, tail = words.head, words.tail
    if rng.random() < 0.5:
        image, weight, scale = f"{slope} * {head}", head, f"{slope} * "
    else:
        image, weight, scale = f"{slope} * {head} + {offset}", str(rng.randrange(1, 20)), ""
    rule = words.match(words.empty, f"{words.joined}({image}, {mapped}({tail}))")
    functions = [
        f"function {mapped}({words.arg}: {words.name}): {words.name} {{ {rule} }}",
        words.measure(measure, "0", weight, rng.random() < 0.5),
    ]
    return ask_lemma(
        [words.declare(field, rest), *shuffled(rng, functions)],
        f"{lemma}({words.arg}: {words.name})",
        f"{measure}({mapped}({words.arg})) == {scale}{measure}({words.arg})",
        words.prove(f"{lemma}({tail});"),
    )


def make_mirror(rng: random.Random, names: Names) -> ProgramText:
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
    case = f"{node}({fields[0]}: {tree}, {fields[1]}: int, {fields[2]}: {tree})"
    return ask_lemma(
        [f"datatype {tree} = {leaf} | {case}", *shuffled(rng, functions)],
        f"{lemma}({arg}: {tree})",
        f"{measure}({mirror}({arg})) == {measure}({arg})",
        write_cases(arg, leaf, pattern, f"{lemma}({left}); {lemma}({right});"),
    )


def make_sequence(rng: random.Random, names: Names) -> ProgramText:
    """A measure of a sequence with one more element, at the far end of the recursion."""
    function, lemma, seq, extra = names.picks("function", "lemma", "seq", "param")
    weight, base = draw_weight(rng, names), names.number("base", 1, 30)
    start = base if rng.random() < 0.5 else 0
    if rng.random() < 0.5:
        element, rest, joined = f"{seq}[0]", f"{seq}[1..]", f"{seq} + [{extra}]"
        cut, bridge = f"({joined})[1..]", f"{rest} + [{extra}]"
    else:
        element, rest = f"{seq}[|{seq}| - 1]", f"{seq}[..|{seq}| - 1]"
        joined, bridge = f"[{extra}] + {seq}", f"[{extra}] + {rest}"
        cut = f"({joined})[..|{seq}|]"
    rule = " + ".join(shuffled(rng, [weight(element), f"{function}({rest})"]))
    total = " + ".join(shuffled(rng, [f"{function}({seq})", weight(extra)]))
    test = rng.choice((f"|{seq}| == 0", f"{seq} == []"))
    recursion = f"if {test} then {start} else {rule}"
    return ask_lemma(
        [f"function {function}({seq}: seq<int>): int {{ {recursion} }}"],
        f"{lemma}({seq}: seq<int>, {extra}: int)",
        f"{function}({joined}) == {total}",
        f"if {test} {{\n  assert {joined} == [{extra}];\n}} else {{\n"
        f"  assert {cut} == {bridge};\n  {lemma}({rest}, {extra});\n}}",
    )


FAMILIES: dict[str, Family] = {
    "l4_closed": make_closed,
    "l4_scaled": make_scaled,
    "l4_bound": make_bound,
    "l4_mod": make_remainder,
    "l4_skip": make_skip,
    "l4_tail": make_tail,
    "l4_mono": make_monotone,
    "l4_rel": make_related,
    "l4_calc": make_calculation,
    "l4_app": make_append,
    "l4_map": make_mapped,
    "l4_tree": make_mirror,
    "l4_seq": make_sequence,
}
