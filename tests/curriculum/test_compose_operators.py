"""Composers of problems: exact texts, lineage, and that the dicts agree with their names."""

from __future__ import annotations

import asyncio
import random
from typing import get_args

import pytest

from proverrl.compose.filters import FILTERS
from proverrl.compose.operators import compose
from proverrl.config.selfplay import DafnyOperator, FilterName, LeanOperator
from proverrl.errors import ProblemError, ToolchainError
from proverrl.generate.dafny.stream import GENERATOR
from proverrl.lang.dafny.audit.bodies import audit
from proverrl.lang.dafny.compose import forms as dafny_forms
from proverrl.lang.dafny.compose import fuse as dafny_fuse
from proverrl.lang.dafny.compose import mutate as dafny_mutate
from proverrl.lang.dafny.compose.composing import OPERATORS
from proverrl.lang.dafny.compose.declarations import edit_calls, read_program, substitute
from proverrl.lang.dafny.syntax.declarations import split_at
from proverrl.lang.dafny.verify.workers.toolchain import find_dafny_toolchain
from proverrl.lang.lean.compose import LEAN_OPERATORS, read_claim
from proverrl.lang.records import Made, Parent
from proverrl.problems.load import load_problems, load_references
from proverrl.types import HOLE, Candidate, Problem
from scripts.measure_operators import draw_composed
from tests.filter_tools import LEMMA, LOOP

TRAIN = "dafny/curriculum/train.jsonl"
LOOP_REFERENCE = "invariant 0 <= i <= n\ninvariant r == 7 * i + 5"
LEMMA_REFERENCE = "if m > 0 { Law(m - 1); }"


def loop(text: str = LOOP, reference: str | None = LOOP_REFERENCE) -> Parent:
    return Parent(Problem("loop", "dafny", "invariants", "", text), reference)


def lemma(text: str = LEMMA, reference: str | None = LEMMA_REFERENCE) -> Parent:
    return Parent(Problem("lemma", "dafny", "statements", "", text), reference)


class First(random.Random):
    """Takes the first of what there is, and the least number."""

    def choice(self, seq):  # type: ignore[no-untyped-def]
        return seq[0]

    def randint(self, a: int, b: int) -> int:
        return a

    def randrange(self, start, stop=None, step=1):  # type: ignore[no-untyped-def]
        return 0

    def random(self) -> float:
        return 0.0


def made(result: Made | None) -> Made:
    assert result is not None
    return result


def test_the_dicts_agree_with_their_names() -> None:
    assert tuple(OPERATORS) == get_args(DafnyOperator)
    assert tuple(LEAN_OPERATORS) == get_args(LeanOperator)
    assert tuple(FILTERS) == get_args(FilterName)


def test_a_program_is_taken_apart_and_written_again() -> None:
    program = read_program(LEMMA)
    assert program.text == LEMMA
    function, target = program.declarations
    assert (function.name, function.formals, function.result) == ("F", (("n", "nat"),), ": int")
    assert (target.prefix, target.clauses) == (
        "lemma {:induction false}",
        (("ensures", "F(m) == 9 * m + 4"),),
    )
    assert target.rewrite().text == target.text
    assert read_program(LOOP).target.returns == (("r", "int"),)


@pytest.mark.parametrize("text", ["lemma L<T>(t: T) { %s }", "lemma L( { %s }", "lemma L() { }"])
def test_a_program_outside_the_forms_is_refused(text: str) -> None:
    with pytest.raises(ProblemError):
        read_program(text.replace("%s", HOLE))


def test_pieces_of_text() -> None:
    assert split_at("f(a, b), c[1, 2], d", ",") == ["f(a, b)", "c[1, 2]", "d"]
    assert split_at("a: map<int, int>, b: nat", ",", is_type=True) == ["a: map<int, int>", "b: nat"]
    assert substitute("n * F(n) + x.n", {"n": "k + 1"}) == "(k + 1) * F(k + 1) + x.n"
    assert edit_calls("L(L(a), b);", "L", lambda a: [*a, "c"]) == "L(L(a, c), b, c);"


def test_one_constant_changes_everywhere() -> None:
    # 4 is not taken: 4 % 7 = 4 is no held-out residue (3, 5, 1, 2), and 3 % 7 = 3 is one.
    result = made(dafny_mutate.change_constant(First(), [loop()]))
    assert result.statement == LOOP.replace("5", "4")
    assert result.reference == LOOP_REFERENCE.replace("5", "4")


def test_a_sign_flips_everywhere() -> None:
    result = made(dafny_mutate.flip_sign(First(), [loop()]))
    assert result.statement == LOOP.replace("* n + 5", "* n - 5").replace(":= 5", ":= -5")
    assert result.reference == LOOP_REFERENCE.replace("+ 5", "- 5")
    back = made(dafny_mutate.flip_sign(First(), [loop(result.statement, result.reference)]))
    assert back.statement == LOOP.replace(":= 5", ":= 5")
    assert back.reference == LOOP_REFERENCE


def test_a_sign_behind_a_word_of_the_language_is_dropped() -> None:
    text = LOOP.replace("r := 5", "if n < 0 { return -5; } r := 5")
    assert "return 5;" in made(dafny_mutate.flip_sign(First(), [loop(text)])).statement


def test_a_bound_changes_with_its_opposite() -> None:
    text = LOOP.replace("ensures r == 7 * n + 5", "ensures r < 12 || r >= 12")
    result = made(dafny_mutate.change_bound(First(), [loop(text)]))
    assert "ensures r <= 12 || r > 12" in result.statement


def test_assumptions_and_conclusions() -> None:
    text = LOOP.replace("  ensures", "  requires n > 1\n  ensures r >= 5\n  ensures")
    parents = [loop(text)]
    dropped = made(dafny_mutate.drop_requires(First(), parents))
    assert dropped.statement == text.replace("  requires n > 1\n", "")
    added = made(dafny_mutate.add_requires(First(), parents))
    assert "  requires n >= 2\n  requires n > 1\n" in added.statement
    fewer = made(dafny_mutate.drop_ensures(First(), parents))
    assert fewer.statement == text.replace("  ensures r >= 5\n", "")
    weaker = made(dafny_mutate.weaken_ensures(First(), [loop()]))
    assert weaker.statement == LOOP.replace("r == 7", "r <= 7")
    stronger = made(dafny_mutate.strengthen_ensures(First(), parents))
    assert "ensures r > 5\n" in stronger.statement
    assert dafny_mutate.drop_ensures(First(), [loop()]) is None
    assert dafny_mutate.drop_requires(First(), [loop()]) is None


def test_a_parameter_becomes_a_number() -> None:
    result = made(dafny_forms.instantiate(First(), [loop()]))
    assert "method Sum() returns (r: int)\n  ensures r == 7 * 2 + 5\n" in result.statement
    assert "while i < 2\n" in result.statement
    assert result.reference == "invariant 0 <= i <= 2\ninvariant r == 7 * i + 5"
    # The induction of the lemma runs over its only parameter.
    assert dafny_forms.instantiate(First(), [lemma()]) is None


def test_a_number_becomes_a_parameter_of_all_that_use_it() -> None:
    # The constants, as text in order: "4", "9"; the first free name for a parameter is "b".
    result = made(dafny_forms.generalise(First(), [lemma()]))
    head, _, rest = result.statement.partition("\n")
    new = head.split("nat, ")[1].split(":")[0]
    assert head == f"function F(n: nat, {new}: int): int {{ if n == 0 then {new} else " + (
        f"F(n - 1, {new}) + 9 }}"
    )
    first, claim, *_ = rest.split("\n")
    assert first == f"lemma {{:induction false}} Law(m: nat, {new}: int)"
    assert claim == f"  ensures F(m, {new}) == 9 * m + {new}"
    assert result.reference == f"if m > 0 {{ Law(m - 1, {new}); }}"


def test_a_lemma_is_applied() -> None:
    result = made(dafny_forms.apply_lemma(First(), [lemma()]))
    assert result.statement == (
        "function F(n: nat): int { if n == 0 then 4 else F(n - 1) + 9 }\n"
        "lemma {:induction false} Law(m: nat)\n  ensures F(m) == 9 * m + 4\n"
        "{\n  if m > 0 { Law(m - 1); }\n}\n"
        "lemma {:induction false} Claim(m: nat)\n  ensures F(m + 2) == 9 * (m + 2) + 4\n"
        f"{{\n  {HOLE}\n}}\n"
    )
    assert result.reference == "Law(m + 2);"


def test_the_negation_of_a_lemma() -> None:
    text = LEMMA.replace("  ensures", "  requires m > 1\n  ensures")
    result = made(dafny_forms.negate(First(), [lemma(text, None)]))
    assert (
        "lemma {:induction false} Claim()\n"
        "  ensures exists m: nat :: (m > 1) && !(F(m) == 9 * m + 4)\n" in result.statement
    )
    assert "Law" not in result.statement
    assert dafny_forms.negate(First(), [lemma()]) is None
    assert dafny_forms.negate(First(), [loop(reference=None)]) is None


def test_two_lemmas_fused() -> None:
    other = LEMMA.replace("m", "k").replace("lekka", "lemma").replace("F(", "G(")
    other = other.replace("Law", "Fact")
    result = made(
        dafny_fuse.conjoin_lemmas(First(), [lemma(), lemma(other, "if k > 0 { Fact(k - 1); }")])
    )
    assert "Claim(m: nat, k: nat)\n  ensures F(m) == 9 * m + 4\n  ensures G(k) == 9 * k + 4\n" in (
        result.statement
    )
    assert result.reference == ("if m > 0 { Claim(m - 1, k); }\nif k > 0 { Claim(m, k - 1); }")
    assert "Law" not in result.statement + (result.reference or "")


def test_two_loops_in_sequence_share_no_name() -> None:
    result = made(dafny_fuse.sequence_loops(First(), [loop(), loop()]))
    target = read_program(result.statement).target
    assert [kind for _, kind in target.formals] == ["nat", "nat"]
    assert len({name for name, _ in (*target.formals, *target.returns)}) == 4
    assert target.clauses[0] == ("ensures", "r == 7 * n + 5")
    assert result.statement.count("while") == 2
    assert result.reference == LOOP_REFERENCE
    assert dafny_fuse.sequence_loops(First(), [loop(reference=None)] * 2) is None


def test_a_chain_of_calls() -> None:
    result = made(dafny_fuse.chain_calls(First(), [loop(), loop()]))
    callee, caller = read_program(result.statement).declarations
    assert callee.text == LOOP.replace(HOLE, LOOP_REFERENCE.replace("\n", "\n    ")).strip()
    ((given, kind),) = caller.formals
    assert kind == "nat"
    result_name = caller.returns[0][0]
    assert caller.clauses == (
        ("requires", f"0 <= 7 * {given} + 5"),
        ("ensures", f"{result_name} == 7 * (7 * {given} + 5) + 5"),
    )
    assert f":= Sum({given});" in caller.body


def test_a_loop_in_a_loop() -> None:
    result = made(dafny_fuse.nest_loop(First(), [loop()]))
    target = read_program(result.statement).target
    (_, (turns, _)), ((total, _),) = target.formals, target.returns
    assert target.clauses == (("ensures", f"{total} == {turns} * (7 * n + 5)"),)
    assert (result.reference or "").endswith(
        f"invariant {total} == {target_turn(result)} * (7 * n + 5)"
    )
    assert "      invariant r == 7 * i + 5\n" in result.statement


def target_turn(result: Made) -> str:
    return (result.reference or "").split(" <= ")[1]


def test_lineage_is_the_same_for_the_same_seed() -> None:
    first = compose("change_constant", [loop()], round_number=3, seed=1)
    again = compose("change_constant", [loop()], round_number=3, seed=1)
    assert first is not None
    assert first == again
    assert (first.parents, first.operator, first.round) == (("loop",), "change_constant", 3)
    assert first.problem.id.startswith("change-constant-")
    assert first.problem.metadata["parents"] == ["loop"]
    others = [compose("change_constant", [loop()], round_number=3, seed=s) for s in range(9)]
    assert len({other.problem.statement for other in others if other}) > 3


def test_only_training_problems_are_composed() -> None:
    parent = Parent(Problem("h", "dafny", "invariants", "", LOOP, split="heldout"))
    with pytest.raises(ProblemError, match="compose from training problems only"):
        compose("change_constant", [parent], round_number=0, seed=0)
    with pytest.raises(ProblemError, match="conjoin_lemmas needs 2 parents, got 1"):
        compose("conjoin_lemmas", [lemma()], round_number=0, seed=0)


def test_a_batch_is_drawn_from_all_operators() -> None:
    parents = [loop(), lemma(), Parent(lemma(LEMMA.replace("9", "8")).problem)]
    names = tuple(OPERATORS)
    made, draws = draw_composed(parents, 20, names=names, round_number=1, seed=0)
    assert len({composed.problem.statement for composed in made}) == 20 <= draws
    assert len({composed.operator for composed in made}) > 5
    assert (made, draws) == draw_composed(parents, 20, names=names, round_number=1, seed=0)
    rare: tuple[DafnyOperator, ...] = ("conjoin_lemmas", "change_constant")
    both, _ = draw_composed(parents, 6, names=rare, round_number=0, seed=0)
    assert {composed.operator for composed in both} == set(rare)
    few, draws = draw_composed(parents[:1], 5, names=("conjoin_lemmas",), round_number=0, seed=0)
    assert (few, draws) == ([], 1000)


@pytest.mark.parametrize("name", OPERATORS)
def test_what_is_made_of_the_curriculum_can_be_read_and_its_references_admitted(
    name: DafnyOperator,
) -> None:
    references = load_references(TRAIN)
    known = name != "negate"
    parents = [Parent(p, references[p.id] if known else None) for p in load_problems(TRAIN)]
    made, _ = draw_composed(parents, 15, names=(name,), round_number=0, seed=5)
    assert len(made) == 15
    for composed in made:
        program = read_program(composed.problem.statement)
        assert program.text == composed.problem.statement
        assert (composed.reference is not None) == known
        if composed.reference is not None:
            kind = composed.problem.kind
            assert audit(kind, composed.reference, problem=composed.problem) == []


def theorem(text: str) -> Parent:
    statement = f"{text} := by\n  {HOLE}\n"
    return Parent(Problem("t", "lean", "tactics", "import Mathlib\n", statement))


LEAN = theorem("theorem sq (x y : ℝ) (h : x > 3) : x * y + 3 > y")


def test_lean_statements_as_text() -> None:
    parts = read_claim(LEAN.problem)
    assert parts is not None
    assert [binder.text for binder in parts.binders] == ["(x y : ℝ)", "(h : x > 3)"]
    ending = f" := by\n  {HOLE}\n"
    texts = {
        name: made(operator.compose(First(), [LEAN] * operator.arity)).statement
        for name, operator in LEAN_OPERATORS.items()
    }
    assert texts == {
        "lean_fuse": "theorem sq_and_sq (x y : ℝ) (h : x > 3) (x' y' : ℝ) (h' : x' > 3) :\n"
        "    (x * y + 3 > y) ∧ (x' * y' + 3 > y')" + ending,
        "lean_instantiate": "theorem sq_at (y : ℝ) (h : (2 : ℝ) > 3) :\n"
        "    (2 : ℝ) * y + 3 > y" + ending,
        "lean_generalise": "theorem sq_general (k : ℝ) (x y : ℝ) (h : x > k) :\n"
        "    x * y + k > y" + ending,
        "lean_negate": "theorem sq_not :\n    ¬ (∀ (x y : ℝ) (h : x > 3), x * y + 3 > y)" + ending,
    }
    assert made(LEAN_OPERATORS["lean_negate"].compose(First(), [LEAN])).preamble == (
        "import Mathlib\n"
    )
    no_colon = Parent(Problem("d", "lean", "term", "", f"def f := {HOLE}"))
    assert read_claim(no_colon.problem) is None


@pytest.mark.slow
@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_real_dafny_proves_what_keeps_a_reference() -> None:
    try:
        find_dafny_toolchain()
    except ToolchainError as error:
        pytest.skip(str(error))
    problems = {p.id: p for p in load_problems(TRAIN)}
    references = load_references(TRAIN)
    tri = Parent(problems["dafny-l1-acc-8e1100c5"], references["dafny-l1-acc-8e1100c5"])
    law = Parent(problems["dafny-l4-closed-5b99f2d7"], references["dafny-l4-closed-5b99f2d7"])
    drawn = {
        "change_constant": [tri],
        "flip_sign": [tri],
        "instantiate": [tri],
        "generalise": [law],
        "apply_lemma": [law],
        "conjoin_lemmas": [law, law],
        "sequence_loops": [tri, tri],
        "chain_calls": [tri, tri],
        "nest_loop": [tri],
    }

    async def main() -> dict[str, bool]:
        verifier, _ = GENERATOR.open_verifier(1)
        try:
            found = {}
            for name, parents in drawn.items():
                made = compose(name, parents, round_number=0, seed=1)
                assert made is not None, name
                assert made.reference is not None, name
                for body in (made.reference, ""):
                    verdict = await verifier.verify(
                        Candidate(made.problem, body), deadline_seconds=120.0
                    )
                    found[f"{name} {bool(body)}"] = verdict.proved
            return found
        finally:
            await verifier.aclose()

    found = asyncio.run(main())
    assert found == {f"{name} {known}": known for name in drawn for known in (True, False)}
