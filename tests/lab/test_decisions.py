"""Claims that are proved or disproved: what is verified of a body, what the verifier says, what is
earned, what is shown, and how variants of a theorem are counted."""

from __future__ import annotations

import asyncio
import itertools
import random
from dataclasses import replace
from typing import Any

import pytest

from proverrl.errors import CanaryError, ProblemError, RecordError
from proverrl.lab.words import sides
from proverrl.lab.words.decided import describe_decision, summarise_decisions, tell_decisions
from proverrl.lab.words.drafts import TheoremGenerator
from proverrl.lab.words.english import English
from proverrl.lab.words.rewards import decide
from proverrl.lab.words.sides import DECIDE, SIDES
from proverrl.lab.words.variants import DecisionChecker
from proverrl.lang import find_language
from proverrl.problems.load import read_problem
from proverrl.problems.prompt import (
    LAYOUTS,
    render_body,
    render_messages,
    render_prompt,
    use_problem_words,
)
from proverrl.types import HOLE, Candidate, Completion, Problem, Rollout, Status, Turn, Verdict
from tests.shared_verifier import judge

DAFNY, LEAN = find_language("dafny"), find_language("lean")
VALUE = "function Val(p: nat): int { if p < 1 then 22 else Val(p - 1) + 18 }\n"


def ask(claim: str, requires: str = "", holds: bool = True) -> Problem:
    head = "lemma {:induction false} Lem(m: nat)\n"
    given = f"  requires {requires}\n" if requires else ""
    text = f"{VALUE}{head}{given}  ensures {claim}\n{{\n  {HOLE}\n}}\n"
    known = {"theorem": "t", "variants": 2, "holds": holds}
    return Problem("p", "dafny", DECIDE, "", text, metadata=known)


def ask_lean(target: str = "f n = n + 3", preamble: str = "") -> Problem:
    text = f"def f : Nat → Nat\n  | n => n + 3\ntheorem t (n : Nat) : {target} := by\n  {HOLE}\n"
    return Problem("p", "lean", DECIDE, preamble, text, metadata={"holds": True})


TRUE = ask("Val(m) == 18 * m + 22")
LOOSE = ask("Val(m) > 18 * m + 20")
# It fails for 4 alone.
MISSED = ask("Val(m) != 94", "m > 2", holds=False)
INDUCTION = "if m >= 1 { Lem(m - 1); }"


def test_what_is_verified_is_the_claim_or_its_closed_negation() -> None:
    problem = ask("Val(m) == 3", "m > 2")
    proved = DAFNY.settle(Candidate(problem, "prove assert true;"))
    assert isinstance(proved, Candidate)
    assert proved.problem.kind == "statements"
    assert proved.problem.statement == problem.statement
    assert proved.problem.metadata == {}
    # The word is blank, so that every place in the body stays where it is.
    assert proved.body == "      assert true;"
    refuted = DAFNY.settle(Candidate(problem, "\n disprove\nassert Fails(3);"))
    assert isinstance(refuted, Candidate)
    assert refuted.source == (
        f"{VALUE}predicate Fails(m: nat) {{ (m > 2) && !(Val(m) == 3) }}\n"
        "lemma {:induction false} Lem()\n  ensures exists m: nat :: Fails(m)\n"
        "{\n  \n         \nassert Fails(3);\n}\n"
    )


def test_a_predicate_of_that_name_and_several_claims() -> None:
    claims = "  ensures k > 1\n  ensures Fails(n)\n"
    text = f"predicate Fails(n: nat) {{ n > 1 }}\nlemma L(k: int, n: nat)\n{claims}{{\n{HOLE}\n}}\n"
    settled = DAFNY.settle(Candidate(Problem("p", "dafny", DECIDE, "", text), "disprove"))
    assert isinstance(settled, Candidate)
    assert "predicate Fails1(k: int, n: nat) { !((k > 1) && (Fails(n))) }" in settled.source
    assert "ensures exists k: int, n: nat :: Fails1(k, n)" in settled.source
    assert "ensures k > 1\n" not in settled.source


def test_lean_states_the_theorem_or_its_closed_negation() -> None:
    problem = ask_lean()
    head = "def f : Nat → Nat\n  | n => n + 3\n"
    proved = LEAN.settle(Candidate(problem, "prove\n  rfl"))
    refuted = LEAN.settle(Candidate(problem, "disprove\n  intro h", "def g := 1\n"))
    assert isinstance(proved, Candidate)
    assert isinstance(refuted, Candidate)
    assert proved.source == f"{head}theorem t (n : Nat) : f n = n + 3 := by\n       \n  rfl\n"
    assert refuted.problem.kind == "tactics"
    assert refuted.source == (
        f"def g := 1\n{head}theorem t : ¬ (∀ (n : Nat), f n = n + 3) := by\n          \n  intro h\n"
    )


@pytest.mark.parametrize(
    "preamble", ["variable (k : Nat)\n", "universe u\n", "set_option autoImplicit true\n"]
)
def test_a_lean_theorem_that_may_bind_more_than_it_names_is_refused(preamble: str) -> None:
    with pytest.raises(ProblemError, match="names all"):
        sides.LEAN.check(ask_lean(preamble=preamble))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"method M(n: nat) ensures n > 1 {{ {HOLE} }}", "is a lemma"),
        (f"lemma L(n: nat) returns (k: nat) ensures k > n {{ {HOLE} }}", "without"),
        (f"lemma L(n: nat) {{ {HOLE} }}", "with 'ensures'"),
        (f"lemma {{:axiom}} L(n: nat) ensures n > 1 {{ {HOLE} }}", "attributes"),
        (f"lemma L(a: array<int>) ensures a.Length > 1 {{ {HOLE} }}", "no object"),
        (f"class C {{ }} lemma L(c: C) ensures c == c {{ {HOLE} }}", "no object"),
        (f"lemma L<T>(n: T) ensures n == n {{ {HOLE} }}", "type parameters"),
    ],
)
def test_lemmas_without_a_closed_negation_are_refused(text: str, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        sides.DAFNY.check(Problem("p", "dafny", DECIDE, "", text))


PROVED = [
    (TRUE, f"prove\n{INDUCTION}"),
    (TRUE, f"  prove {INDUCTION}"),
    (LOOSE, f"prove {INDUCTION}"),
    (MISSED, "disprove assert Fails(4);"),
    (ask("Val(m) == 18 * m + 21", holds=False), "disprove\nassert Fails(0);"),
    (ask("m * m < 30", holds=False), "disprove assert 6 * 6 == 36; assert Fails(6);"),
]
REJECTED = [
    (TRUE, INDUCTION),
    (TRUE, "prove"),
    (TRUE, "disprove assert Fails(0);"),
    (TRUE, "disprove Lem(0);"),
    (TRUE, f"disprove {INDUCTION}"),
    (MISSED, "disprove assert Fails(3);"),
    (MISSED, "disprove assert Fails(2);"),
    (MISSED, "prove"),
    (MISSED, "prove assert Fails(4);"),
    (TRUE, f"prove disprove {INDUCTION}"),
    (TRUE, f"prove {INDUCTION} disprove assert Fails(0);"),
]


@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_dafny_proves_the_side_that_was_chosen_and_no_other() -> None:
    for problem, body in PROVED:
        (verdict,) = judge(problem, [body])
        assert verdict.proved, (body, verdict)
    for problem, body in REJECTED:
        (verdict,) = judge(problem, [body])
        assert verdict.status is Status.REJECTED, (body, verdict)


def test_without_a_side_nothing_is_verified_and_the_place_is_the_beginning() -> None:
    for body in (
        "",
        INDUCTION,
        "Prove",
        "provewith",
        "prove'",
        "prove.x();",
        "// prove",
        "/**/prove",
    ):
        settled = DAFNY.settle(Candidate(TRUE, body))
        assert isinstance(settled, Verdict), body
        assert settled.status is Status.REJECTED
        assert settled.rule == "side"
        found = settled.diagnostics[0]
        assert (found.line, found.column, found.body_line, found.body_column) == (5, 2, 1, 0)
    refused = DAFNY.audit(Candidate(TRUE, "disprove assume false;"))
    assert refused is not None
    assert refused.status is Status.UNSOUND
    assert (refused.diagnostics[0].body_line, refused.diagnostics[0].body_column) == (1, 9)


LEAN_HEAD = "def f : Nat → Nat\n  | 0 => 3\n  | n + 1 => f n + 2\n"
LEAN_PROOF = "\n".join(
    ["induction n with", "  | zero => rfl", "  | succ n h =>", "    rw [f, h]", "    omega"]
)


@pytest.mark.lean
def test_lean_proves_the_side_that_was_chosen_and_no_other() -> None:
    def claim(target: str) -> Problem:
        text = f"{LEAN_HEAD}theorem t (n : Nat) : {target} := by\n  {HOLE}\n"
        return Problem("p", "lean", DECIDE, "", text, metadata={"holds": True})

    true, false = claim("f n = 2 * n + 3"), claim("f n = 2 * n + 4")
    refuted = "disprove\n  exact fun h => absurd (h 1) (by decide)"
    cases = [
        (true, f"prove\n  {LEAN_PROOF}", Status.PROVED),
        (false, refuted, Status.PROVED),
        (true, refuted, Status.REJECTED),
        (false, f"prove\n  {LEAN_PROOF}", Status.REJECTED),
        (true, LEAN_PROOF, Status.REJECTED),
        (true, f"prove disprove\n  {LEAN_PROOF}", Status.REJECTED),
        (true, f"prove\n  {LEAN_PROOF}\n  disprove", Status.REJECTED),
        (false, "disprove\n  exact t", Status.REJECTED),
        (
            false,
            "disprove\n  intro h\n  cases Classical.em (f 0 = 4) <;> contradiction",
            Status.REJECTED,
        ),
        (false, "disprove\n  sorry", Status.INCOMPLETE),
        (false, "prove\n  native_decide", Status.UNSOUND),
    ]
    for problem, body, status in cases:
        (verdict,) = judge(problem, [body])
        assert verdict.status is status, (body, verdict)


def earn(problem: Problem, body: str | None, status: Status) -> float:
    candidate = None if body is None else Candidate(problem, body)
    checks = ("fake",) if status is Status.PROVED else ()
    completion = Completion(body or "", (1,), (2,), (-0.5,), "stop", 0)
    reason = "none" if body is None else ""
    verdict = None if body is None else Verdict(status, checks=checks)
    turn = Turn(completion, candidate, verdict, reason=reason)
    return decide(Rollout("r", problem, "solver", (turn,))).total


def test_a_proof_of_the_right_side_earns_one_and_nothing_else_does() -> None:
    right, wrong = f"prove\n{INDUCTION}", "disprove\nassert Fails(3);"
    assert earn(TRUE, right, Status.PROVED) == 1.0
    assert earn(TRUE, right, Status.REJECTED) == 0.0
    assert earn(MISSED, wrong, Status.PROVED) == 1.0
    assert earn(TRUE, f"{right} {{:axiom}}", Status.UNSOUND) == 0.0
    assert earn(TRUE, None, Status.REJECTED) == 0.0


def test_a_proof_of_the_other_side_ends_the_run() -> None:
    with pytest.raises(CanaryError, match="both sides"):
        earn(TRUE, "disprove assert Fails(3);", Status.PROVED)
    with pytest.raises(RecordError, match="does not say what holds"):
        earn(replace(TRUE, metadata={}), "prove", Status.PROVED)


def row(theorem: str, variant: str, status: str, right: bool, variants: int = 2) -> dict[str, Any]:
    known = {"theorem": theorem, "variants": variants, "side": "prove", "right": right}
    return {"problem_id": variant, "status": status, "decision": known}


def test_a_theorem_counts_by_the_product_over_its_variants() -> None:
    rows = [
        # Theorem a: sides 1 and 1/2, proofs 1/2 and 1/2.
        row("a", "a1", "proved", True),
        row("a", "a1", "rejected", True),
        row("a", "a2", "proved", True),
        row("a", "a2", "rejected", False),
        # Theorem b has three variants: sides 1, 1, 0; what was not judged does not count.
        row("b", "b1", "proved", True, 3),
        row("b", "b1", "timeout", False, 3),
        row("b", "b2", "rejected", True, 3),
        row("b", "b3", "rejected", False, 3),
        # Of theorem c one variant is missing, of d one was never judged.
        row("c", "c1", "proved", True),
        row("d", "d1", "proved", True),
        row("d", "d2", "crashed", True),
        {"problem_id": "other", "status": "proved"},
    ]
    found = summarise_decisions(rows)["decisions"]
    assert (found["theorems"], found["variants"], found["left_out"]) == (2, 5, 2)
    assert found["side"]["value"] == pytest.approx((3 / 4 + 2 / 3) / 2)
    assert found["all_sides"]["value"] == pytest.approx((1 / 2 + 0) / 2)
    assert found["proof"]["value"] == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert found["all_proofs"]["value"] == pytest.approx((1 / 4 + 0) / 2)
    assert found["side"]["chance"] == 0.5
    assert found["all_sides"]["chance"] == pytest.approx((1 / 4 + 1 / 8) / 2)
    assert found["proof"]["chance"] == found["all_proofs"]["chance"] == 0.0
    line = tell_decisions("After", {"decisions": found})
    assert line.startswith("After: 2 theorems, 5 variants, 2 left out: right side 70.8 % (")
    assert line.count("chance 50.0)") == 1
    assert line.count("chance 18.8)") == 1
    assert line.count("chance 0.0)") == 2
    assert summarise_decisions(rows[-1:]) == {}
    assert tell_decisions("After", {}) == ""


def test_an_attempt_is_stored_with_its_decision() -> None:
    said = describe_decision(MISSED, Candidate(MISSED, "disprove"))
    known = {"theorem": "t", "variants": 2}
    assert said == {"decision": {**known, "side": "disprove", "right": True}}
    assert describe_decision(MISSED, None)["decision"] == {**known, "side": "", "right": False}
    assert describe_decision(replace(MISSED, kind="statements"), None) == {}


GENERATOR = TheoremGenerator(DAFNY)


def test_variants_are_of_one_theorem_and_of_its_split() -> None:
    drafts = list(itertools.islice(GENERATOR.stream_level(4, 3, "heldout"), 13))
    assert len({draft.family for draft in drafts}) == 13
    for draft in drafts:
        problem = Problem("t", "dafny", draft.kind, "", draft.statement)
        known = Candidate(problem, draft.reference)
        variants = list(
            itertools.islice(GENERATOR.deciding.list_variants(known, random.Random(0)), 6)
        )
        assert variants[0].problem.statement == draft.statement
        assert len({v.problem.statement for v in variants}) > 2
        for variant in variants:
            asked = replace(variant.problem, kind=DECIDE)
            body = GENERATOR.deciding.write(SIDES[0], variant.proofs[0])
            assert DAFNY.find_objection(asked, body) == ""
            assert GENERATOR.deciding.describe(asked, English(random.Random(0), "train"))


@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_rows_are_certified_and_no_prompt_tells_the_label() -> None:
    async def generate() -> list[dict[str, Any]]:
        verifier, learn = GENERATOR.open_verifier(2)
        checker = DecisionChecker(GENERATOR, verifier, learn, "train")
        try:
            drafts = itertools.islice(GENERATOR.stream_level(4, 3, "train"), 1)
            return [line async for _, rows in checker.check_all(drafts) for line in rows]
        finally:
            await verifier.aclose()

    rows = asyncio.run(generate())
    own = [line["metadata"] for line in rows]
    assert len({known["theorem"] for known in own}) == 1
    assert {known["holds"] for known in own} == {True, False}
    assert {known["variants"] for known in own} == {len(own)}
    for line in rows:
        problem = read_problem("here", line)
        holds = problem.metadata["holds"]
        assert line["reference"].split()[0] == SIDES[not holds]
        # All that any layout shows is the same under the other label.
        other = replace(problem, metadata={**problem.metadata, "holds": not holds})
        for layout in LAYOUTS:
            if LAYOUTS[layout].language in (None, "dafny"):
                assert render_messages(problem, layout) == render_messages(other, layout)
        assert problem.informal in render_prompt(problem, "plain")
        shown = render_prompt(problem, "canonical")
        assert line["reference"] not in shown
        written = render_body(problem, line["reference"], "canonical")
        assert written.split()[0] == SIDES[not holds]
        assert DAFNY.normal_form(use_problem_words(problem, written, "canonical")) == (
            DAFNY.normal_form(line["reference"])
        )
