"""Functions to be written from their specification, with the proof that they meet it.

Flows in: a random source and names. Flows out: definitions of a function with its specification,
``def NAME : { f : A → B // SPECIFICATION } :=`` and the hole, as benchmarks of code have them
(``proverrl.benchmarks``). One function has one specification, up to names, so that its parts stand
in a fixed order. Level 1 is one expression; level 2 has case distinctions; level 3
walks over a list or counts up.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from proverrl.generate.families import CurriculumDraft, Family, Names, ProgramText
from proverrl.generate.lean.draft import bullet, indent, prove_all, wrap
from proverrl.generate.lean.generator import LeanGenerator, number_names
from proverrl.types import HOLE

_PAIR = "Nat × Nat"
_LIST = "List Nat"


@dataclass(frozen=True, slots=True)
class Condition:
    """A statement about a number, and its negation."""

    holds: str
    fails: str
    refute: str
    """Proves ``¬ holds`` from a proof {0} of ``fails``."""


class FunctionTask:
    """A function that is asked for: its name, and names for what it takes."""

    def __init__(self, names: Names, *takes: str) -> None:
        self.names = names
        self.name, self.function = names.picks("task", "function")
        self.takes = takes
        self.args = names.picks(*("term" if t == _LIST else "number" for t in takes))
        self.call = " ".join([self.function, *self.args])

    def ask(
        self, gives: str, claims: Sequence[str], code: str, proofs: Sequence[Sequence[str]]
    ) -> ProgramText:
        """The definition; ``code`` is the function's value for its arguments. Each claim has its
        proof."""
        kind = " → ".join([*self.takes, gives])
        lines = [f"def {self.name} :", f"    {{ {self.function} : {kind} //"]
        lines += [f"      {claim} ∧" for claim in claims[:-1]]
        lines += [f"      {claims[-1]} }} :=", f"  {HOLE}"]
        steps = proofs[0] if len(claims) == 1 else prove_all(*proofs)
        proof = "\n".join(indent(indent(steps)))
        reference = f"⟨fun {' '.join(self.args)} => {code}, by\n{proof}⟩"
        return ProgramText(lines, reference, "term")

    def ask_all(
        self, gives: str, parts: Sequence[str], code: str, steps: Sequence[str]
    ) -> ProgramText:
        """One claim about all arguments: the conjunction of ``parts``."""
        args = " ".join(self.args)
        proof = [f"intro {args}", *steps]
        return self.ask(gives, [f"∀ {args}, {' ∧ '.join(parts)}"], code, [proof])


_ARITHMETIC = ("dsimp <;> omega",)


def scale(slope: int, text: str) -> str:
    """A multiple."""
    return f"{slope} * {text}" if slope != 1 else text


def draw_condition(rng: random.Random, names: Names, x: str, *relations: str) -> Condition:
    """A condition on ``x`` with one of ``relations``."""
    limit = names.number("limit", 2, 199)
    conditions = {
        "<": Condition(f"{x} < {limit}", f"{limit} ≤ {x}", "Nat.not_lt.mpr {0}"),
        "≤": Condition(f"{limit} ≤ {x}", f"{x} < {limit}", "Nat.not_le.mpr {0}"),
        "=": Condition(f"{x} = {limit}", f"{x} ≠ {limit}", "{0}"),
    }
    return conditions[rng.choice(relations)]


def choose(code: str, condition: Condition, other: str) -> str:
    """An ``if``."""
    return f"if {condition.holds} then {code} else {other}"


def prove_cases(names: Names, condition: Condition, *args: str) -> tuple[list[str], list[str]]:
    """Proofs of the claims where the condition holds, and where it fails."""
    h = names.pick("hyp")
    intro = f"intro {' '.join([*args, h])}"
    refuted = wrap(condition.refute.format(h))
    return [intro, f"exact if_pos {h}"], [intro, f"exact if_neg {refuted}"]


def draw_sums(names: Names, asked: FunctionTask) -> list[str]:
    """Each argument and a number."""
    return [f"{arg} + {names.number('offset', 1, 99)}" for arg in asked.args]


def make_formula(rng: random.Random, names: Names) -> ProgramText:
    """A sum that is not given as one."""
    asked = FunctionTask(names, *["Nat"] * rng.randrange(1, 3))
    parts = [scale(names.number("slope", 1, 60), arg) for arg in asked.args]
    offset, more = names.number("offset", 0, 99), names.number("limit", 1, 99)
    whole = " + ".join([*parts, str(offset + more)])
    claim = f"{asked.call} + {more} = {whole}"
    return asked.ask_all("Nat", [claim], " + ".join([*parts, str(offset)]), _ARITHMETIC)


def make_undo(rng: random.Random, names: Names) -> ProgramText:
    """The inverse of a multiplication and an addition."""
    asked = FunctionTask(names, "Nat")
    (x,) = asked.args
    slope, offset = names.number("slope", 1, 60), names.number("offset", 1, 99)
    claim = f"{asked.function} ({scale(slope, x)} + {offset}) = {x}"
    code = f"{x} - {offset}" if slope == 1 else f"({x} - {offset}) / {slope}"
    return asked.ask_all("Nat", [claim], code, _ARITHMETIC)


def make_pair(rng: random.Random, names: Names) -> ProgramText:
    """Two results."""
    asked = FunctionTask(names, "Nat", "Nat")
    parts = rng.sample(draw_sums(names, asked), 2)
    claims = [f"({asked.call}).{i} = {part}" for i, part in enumerate(parts, start=1)]
    return asked.ask_all(_PAIR, claims, f"({', '.join(parts)})", prove_all(["rfl"], ["rfl"]))


_TEST = prove_all(["exact of_decide_eq_true"], ["exact decide_eq_true"])


def make_test(rng: random.Random, names: Names) -> ProgramText:
    """A test of the argument."""
    asked = FunctionTask(names, "Nat")
    (x,) = asked.args
    slope = names.number("slope", 2, 60)
    remainder = f"{x} % {slope} = {names.number('offset', 0, 99) % slope}"
    bound = draw_condition(rng, names, x, "<", "≤", "=").holds
    # Both together hold of infinitely many numbers.
    beyond = draw_condition(rng, names, x, "≤").holds
    text = rng.choice([bound, remainder, f"{beyond} ∧ {remainder}", f"{bound} ∨ {remainder}"])
    claim = f"({asked.call} = true ↔ {text})"
    return asked.ask_all("Bool", [claim], f"decide ({text})", _TEST)


def make_multiple(rng: random.Random, names: Names) -> ProgramText:
    """The nearest multiple that is not above, or not below."""
    asked = FunctionTask(names, "Nat")
    (x,) = asked.args
    slope, result = names.number("slope", 2, 199), asked.call
    below, code = [f"{result} ≤ {x}", f"{x} < {result} + {slope}"], f"{x} - {x} % {slope}"
    if rng.random() < 0.5:
        below, code = [f"{x} < {result}", f"{result} ≤ {x} + {slope}"], f"{code} + {slope}"
    return asked.ask_all("Nat", [f"{result} % {slope} = 0", *below], code, _ARITHMETIC)


def make_larger(rng: random.Random, names: Names) -> ProgramText:
    """The larger of two sums, or the smaller."""
    asked = FunctionTask(names, "Nat", "Nat")
    one, other = draw_sums(names, asked)
    result = asked.call
    is_larger = rng.random() < 0.5
    parts = [f"{s} ≤ {result}" if is_larger else f"{result} ≤ {s}" for s in (one, other)]
    parts.append(f"({result} = {one} ∨ {result} = {other})")
    if_ordered, otherwise = (other, one) if is_larger else (one, other)
    code = f"if {one} ≤ {other} then {if_ordered} else {otherwise}"
    return asked.ask_all("Nat", parts, code, _SPLIT)


_SPLIT = ("dsimp", "split", *bullet(["omega"]), *bullet(["omega"]))


def make_clamp(rng: random.Random, names: Names) -> ProgramText:
    """A number, moved between two bounds."""
    asked = FunctionTask(names, "Nat")
    (x,) = asked.args
    low = names.number("limit", 1, 99)
    high = low + names.number("offset", 1, 99)
    result = asked.call
    parts = [f"{low} ≤ {result}", f"{result} ≤ {high}"]
    parts += [f"({low} ≤ {x} → {x} ≤ {high} → {result} = {x})"]
    code = f"if {x} < {low} then {low} else if {high} < {x} then {high} else {x}"
    steps = ["dsimp", "split", *bullet(["omega"])]
    steps += bullet(["split", *bullet(["omega"]), *bullet(["omega"])])
    return asked.ask_all("Nat", parts, code, steps)


def make_distance(rng: random.Random, names: Names) -> ProgramText:
    """The difference of two sums, whichever is larger."""
    asked = FunctionTask(names, "Nat", "Nat")
    one, other = draw_sums(names, asked)
    claim = f"({asked.call} + {one} = {other} ∨ {asked.call} + {other} = {one})"
    code = f"if {one} ≤ {other} then {other} - ({one}) else {one} - ({other})"
    return asked.ask_all("Nat", [claim], code, _SPLIT)


def make_pieces(rng: random.Random, names: Names) -> ProgramText:
    """A function in two pieces."""
    asked = FunctionTask(names, "Nat")
    (x,) = asked.args
    # A number of an equation may make both pieces the same constant.
    condition = draw_condition(rng, names, x, "<")
    gives = rng.choice(["Nat", "Option Nat"])
    one = f"{scale(names.number('slope', 1, 60), x)} + {names.number('offset', 1, 99)}"
    other = rng.choice([x, str(names.number("base", 0, 60))])
    if gives != "Nat":
        one, other = f"some ({one})", "none"
    if rng.random() < 0.5:
        one, other = other, one
    claims = [
        f"(∀ {x}, {condition.holds} → {asked.call} = {one})",
        f"(∀ {x}, {condition.fails} → {asked.call} = {other})",
    ]
    return asked.ask(gives, claims, choose(one, condition, other), prove_cases(names, condition, x))


def make_order(rng: random.Random, names: Names) -> ProgramText:
    """Two sums in order."""
    asked = FunctionTask(names, "Nat", "Nat")
    one, other = draw_sums(names, asked)
    places = rng.sample([1, 2], 2)
    low, high = (f"({asked.call}).{place}" for place in places)
    parts = [f"{low} ≤ {high}", f"{low} + {high} = {one} + {other}"]
    parts.append(f"({low} = {one} ∨ {low} = {other})")
    pairs = [f"({one}, {other})", f"({other}, {one})"][:: 1 if places[0] == 1 else -1]
    code = f"if {one} ≤ {other} then {pairs[0]} else {pairs[1]}"
    return asked.ask_all(_PAIR, parts, code, ["dsimp", "split", *(2 * bullet(["dsimp <;> omega"]))])


class ListTask(FunctionTask):
    """A function of a list, given by its values for the empty list and for longer lists."""

    def __init__(self, names: Names) -> None:
        super().__init__(names, _LIST)
        self.head, self.rest = names.pick("number"), names.pick("number")
        (self.list,) = self.args
        self.longer = f"{self.function} ({self.head} :: {self.list})"

    def fold(self, step: str, empty: str) -> str:
        """The walk as code; in ``step`` the result for the rest is called ``rest``."""
        return f"{self.list}.foldr (fun {self.head} {self.rest} => {step}) {empty}"

    def say_longer(self, step: str, condition: str = "") -> str:
        """The claim about a longer list."""
        given = f"{condition} → " if condition else ""
        return f"(∀ {self.head} {self.list}, {given}{self.longer} = {step})"

    def ask_walk(self, gives: str, empty: str, step: str, code: str) -> ProgramText:
        """A task with one claim about all longer lists; ``{0}`` is the result for the rest."""
        claims = [f"{self.function} [] = {empty}", self.say_longer(step.format(self.call))]
        walk = [f"intro {self.head} {self.list}", "rfl"]
        return self.ask(gives, claims, code, [["rfl"], walk])

    def ask_cases(
        self, gives: str, empty: str, condition: Condition, one: str, other: str
    ) -> ProgramText:
        """A task with two cases of longer lists; ``{0}`` is the result for the rest."""
        claims = [f"{self.function} [] = {empty}"]
        claims.append(self.say_longer(one.format(self.call), condition.holds))
        claims.append(self.say_longer(other.format(self.call), condition.fails))
        step = choose(one.format(self.rest), condition, other.format(self.rest))
        cases = prove_cases(self.names, condition, self.head, self.list)
        return self.ask(gives, claims, self.fold(step, empty), [["rfl"], *cases])


def make_map(rng: random.Random, names: Names) -> ProgramText:
    """A list, number by number."""
    walk = ListTask(names)
    each = f"{scale(names.number('slope', 1, 60), walk.head)} + {names.number('offset', 1, 99)}"
    code = rng.choice(
        [
            f"{walk.list}.map (fun {walk.head} => {each})",
            walk.fold(f"({each}) :: {walk.rest}", "[]"),
        ]
    )
    return walk.ask_walk(_LIST, "[]", f"({each}) :: {{0}}", code)


def make_total(rng: random.Random, names: Names) -> ProgramText:
    """A number of a list, to which each member adds."""
    walk = ListTask(names)
    each = scale(names.number("slope", 1, 60), walk.head)
    step = rng.choice([f"{each} + {{0}}", f"max ({each}) ({{0}})"])
    empty = str(names.number("base", 0, 60))
    return walk.ask_walk("Nat", empty, step, walk.fold(step.format(walk.rest), empty))


def make_keep(rng: random.Random, names: Names) -> ProgramText:
    """The members that meet a condition, or the others."""
    walk = ListTask(names)
    condition = draw_condition(rng, names, walk.head, "<", "=")
    cases = rng.sample([f"{walk.head} :: {{0}}", "{0}"], 2)
    return walk.ask_cases(_LIST, "[]", condition, *cases)


def make_count(rng: random.Random, names: Names) -> ProgramText:
    """A number for the members that meet a condition."""
    walk = ListTask(names)
    condition = draw_condition(rng, names, walk.head, "<", "=")
    cases = rng.sample([f"{{0}} + {names.number('slope', 1, 60)}", "{0}"], 2)
    return walk.ask_cases("Nat", str(names.number("base", 0, 60)), condition, *cases)


def make_replace(rng: random.Random, names: Names) -> ProgramText:
    """A list in which some members are others."""
    walk = ListTask(names)
    condition = draw_condition(rng, names, walk.head, "<", "=")
    other = rng.choice([str(names.number("base", 0, 60)), f"({walk.head} + 1)"])
    cases = rng.sample([f"{walk.head} :: {{0}}", f"{other} :: {{0}}"], 2)
    return walk.ask_cases(_LIST, "[]", condition, *cases)


def make_steps(rng: random.Random, names: Names) -> ProgramText:
    """A number that grows by the same with each step; the code needs none."""
    asked = FunctionTask(names, "Nat")
    (n,) = asked.args
    slope, empty = names.number("slope", 2, 60), names.number("base", 0, 60)
    f = asked.function
    claims = [f"{f} 0 = {empty}", f"(∀ {n}, {f} ({n} + 1) = {f} {n} + {slope})"]
    steps = [f"intro {n}", *_ARITHMETIC]
    return asked.ask("Nat", claims, f"{slope} * {n} + {empty}", [["rfl"], steps])


FAMILIES: Mapping[int, Mapping[str, Family]] = {
    1: {
        "c1_formula": make_formula,
        "c1_undo": make_undo,
        "c1_pair": make_pair,
        "c1_test": make_test,
        "c1_multiple": make_multiple,
    },
    2: {
        "c2_larger": make_larger,
        "c2_clamp": make_clamp,
        "c2_distance": make_distance,
        "c2_pieces": make_pieces,
        "c2_order": make_order,
    },
    3: {
        "c3_map": make_map,
        "c3_total": make_total,
        "c3_keep": make_keep,
        "c3_count": make_count,
        "c3_replace": make_replace,
        "c3_steps": make_steps,
    },
}

_IDLE: Mapping[str, tuple[str, ...]] = {
    "Nat": ("0",),
    "Bool": ("true", "false"),
    "Option Nat": ("none",),
    _PAIR: ("(0, 0)",),
    _LIST: ("[]",),
}
_TRY = (
    "by (repeat' constructor) <;> intros <;> "
    "first | rfl | (dsimp; omega) | simp_all | (simp; omega)"
)


class CodeGenerator(LeanGenerator):
    """The families above, some of them kept back."""

    families = FAMILIES
    unseen = frozenset(("c1_multiple", "c2_distance", "c3_count"))

    def normalise(self, statement: str) -> str:
        """The tokens, with names of the pools numbered."""
        return number_names(statement)

    def build_id(self, draft: CurriculumDraft) -> str:
        """See ``Generator``; with a mark, since theorems have levels as well."""
        return f"{super().build_id(draft)}-c"

    def list_trivial(self, draft: CurriculumDraft) -> Sequence[str]:
        """A value, or one of the arguments, for all arguments."""
        return list(_list_idle(draft.statement))


def _list_idle(statement: str) -> Iterator[str]:
    found = re.search(r"\{ \w+ : (.*) //", statement)
    assert found is not None
    *takes, gives = found[1].split(" → ")
    args = [f"x{i}" for i in range(len(takes))]
    values = [*_IDLE[gives], *(arg for arg, kind in zip(args, takes, strict=True) if kind == gives)]
    for value in values:
        yield f"⟨fun {' '.join(args)} => {value}, {_TRY}⟩"


GENERATOR = CodeGenerator()
