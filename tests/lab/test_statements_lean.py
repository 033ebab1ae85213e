"""Propositions written from words: what is said of a theorem, and what Lean calls equal."""

from __future__ import annotations

import itertools
import random

import pytest

from proverrl.config.base import LeanBackend
from proverrl.errors import ToolchainError
from proverrl.lab.words.drafts import StatementGenerator
from proverrl.lab.words.english import English, Phrase
from proverrl.lab.words.lean.phrases import read_phrase
from proverrl.lab.words.lean.proposition import FORMALIZING
from proverrl.lang import find_language
from proverrl.lang.lean.verify.workers.toolchain import find_lean_toolchain
from proverrl.problems.drafts import build_problem
from proverrl.problems.prompt import render_body, render_messages, render_prompt, use_problem_words
from proverrl.types import HOLE, Candidate, Diagnostic, Problem, Stage, Status, Verdict
from proverrl.verifier.base import refuse_text
from tests.lab.test_statements import First
from tests.lang.lean.test_lean_real import judge_all

LEAN = find_language("lean")
GENERATOR = StatementGenerator(LEAN)
LOGIC = f"theorem t (p q r : Prop) (h : p → q) (k : p ∧ r) (g : q ↔ r) : q ∧ p := by\n  {HOLE}\n"
TREES = (
    "inductive Bag where\n  | put : Bool → Bag → Bag\n  | none0 : Bag\n"
    "def comp : Bag → Bag → Bag\n  | .put o ys, t => .put o (comp ys t)\n  | .none0, t => t\n"
    f"theorem t (ys t : Bag) (h : ys = t) : comp ys t = comp t ys := by\n  {HOLE}\n"
)
AGREE = {
    LOGIC: (
        "∀ (p q r : Prop), (p → q) → p ∧ r → (q ↔ r) → q ∧ p",
        "∀ (a b c : Prop), a ∧ c → (a → b) → (b ↔ c) → b ∧ a",
        "∀ (a b c : Prop), c ∧ a → (a → b) → (c ↔ b) → b ∧ a",
        "∀ a b c : Prop, (h : a ∧ c) → (a → b) → (b ↔ c) → b ∧ a",
    ),
    TREES: (
        "∀ (a b : Bag), a = b → comp a b = comp b a",
        "∀ (a b : Bag), b = a → comp b a = comp a b",
        "∀ a b, b = a → comp a b = comp b a",
    ),
}
DIFFER = {
    LOGIC: (
        "True",
        "False",
        "∀ (p q r : Prop), (p → q) → p ∧ r → q ∧ p",
        "∀ (p q r : Prop), (p → q) → p ∧ r → (q ↔ r) → p ∧ q",
        "∀ (p q r : Prop), (p → q) → p ∧ r → (q ↔ r) → q",
        "∀ (p q r : Prop), (p → q) → p → (q ↔ r) → q ∧ p",
        "∀ (p q r : Prop), q ∧ p → (p → q) → p ∧ r → (q ↔ r) → q ∧ p",
        "∀ (p q r : Prop), (p → q) → p ∧ r → (q ↔ r) → (q ∧ p ∧ True)",
        # It says nothing and carries the proof of what is meant; the audit refuses it as well.
        "∀ (p q r : Prop), optParam ((p → q) → p ∧ r → (q ↔ r) → q ∧ p)\n"
        "  (fun f k _ => ⟨f k.1, k.1⟩) → (p → q) → p ∧ r → (q ↔ r) → q ∧ p",
    ),
    TREES: (
        "∀ (a b : Bag), comp a b = comp b a",
        "∀ (a : Bag), comp a a = comp a a",
        "∀ (a b : Bag), a = b → comp b b = comp b b",
    ),
}
UNREADABLE = ("∀ (p q r : Prop), zork", "∀ (p q r : Prop), p +", "Meant", "agrees", "")
PROOFS = (
    "∀ (p q r : Prop) (h : (p → q) → p ∧ r → (q ↔ r) → q ∧ p := by grind), True",
    "let x := 1; True",
    "have : True := trivial; True",
    "show Prop from True",
    "∀ (p : Prop), ‹p›",
    "x where x := True",
    "∀ (p q r : Prop), optParam (p → p) (fun h => h) → (p → q) → p ∧ r → (q ↔ r) → q ∧ p",
    "∀ (p q r : Prop) (k : _root_.optParam True True.intro), (p → q) → p ∧ r → (q ↔ r) → q ∧ p",
    "∀ (p q r : Prop), @«optParam» True True.intro → (p → q) → p ∧ r → (q ↔ r) → q ∧ p",
    "∀ (p : Prop), autoParam p _auto_1 → p",
    "type_of% (fun (p : Prop) (h : p) => h)",
    "True termination_by 1",
)


def ask(theorem: str) -> Problem:
    problem = Problem("p", "lean", "tactics", "", theorem)
    asked = FORMALIZING.ask_statement(Candidate(problem, ""), English(First(), "train"))
    assert asked is not None
    text = "\n".join(asked.lines) + "\n"
    return Problem("p-s", "lean", asked.kind, "", text, informal=asked.informal)


def settle(candidate: Candidate) -> Candidate:
    """What a worker judges of it."""
    settled = LEAN.settle(candidate)
    assert isinstance(settled, Candidate)
    return settled


def find_toolchain(backend: LeanBackend):  # type: ignore[no-untyped-def]
    try:
        return find_lean_toolchain(backend)
    except ToolchainError as error:
        pytest.skip(f"no real Lean here: {error}")


def test_a_proposition_is_read_as_lean_groups_it() -> None:
    p, q, r = (Phrase("name", text=name) for name in "pqr")
    assert read_phrase("p → q → r") == Phrase("implies", (p, Phrase("implies", (q, r))))
    assert read_phrase("p ∧ q ∨ r") == Phrase("or", (Phrase("and", (p, q)), r))
    assert read_phrase("¬p ∧ q") == Phrase("and", (Phrase("not", (p,)), q))
    call = Phrase("call", (Phrase("call", (p,), "g"), q), "f")
    assert read_phrase("f (g p) q") == call
    assert read_phrase("∃ p q, f (g p) q") == Phrase("some", (call,), "p q")
    bag = Phrase("name", text="Bag")
    assert read_phrase("∀ p : Bag, q") == Phrase("all", (q, bag), "p")
    for odd in ("fun x => x", "p →", "⟨p, q⟩", "∀ x", "(p", "p q) r", "if p then q else r"):
        assert read_phrase(odd) is None


def test_a_theorem_word_for_word() -> None:
    assert ask(LOGIC).informal == (
        "Let `p`, `q` and `r` be each a proposition. Suppose that if `p` is true, then `q` is "
        "true. Suppose that `p` is true, and `r` is true. Suppose that `q` is true exactly when "
        "`r` is true. Then `q` is true, and `p` is true."
    )


def test_the_reference_comes_from_the_binders() -> None:
    (line,) = (row.strip() for row in ask(LOGIC).statement.splitlines() if row.startswith("  ∀"))
    assert line == AGREE[LOGIC][0]


def test_nothing_that_is_meant_is_shown() -> None:
    streams = (GENERATOR.stream_level(level, 3, "train") for level in GENERATOR.families)
    for draft in (draft for s in streams for draft in itertools.islice(s, 20)):
        problem = build_problem(GENERATOR, draft, "train")
        shown = [render_prompt(problem, layout) for layout in ("plain", "canonical")]
        shown += [message.content for message in render_messages(problem, "kimina")]
        for text in shown:
            assert "Meant" not in text
            assert "agrees" not in text
            assert draft.reference not in text
        written = render_body(problem, draft.reference, "canonical")
        assert use_problem_words(problem, written, "canonical") == draft.reference


@pytest.mark.parametrize("body", PROOFS)
def test_a_statement_holds_no_proof(body: str) -> None:
    verdict = LEAN.audit(Candidate(ask(LOGIC), body))
    assert verdict is not None
    assert verdict.status in (Status.UNSOUND, Status.INCOMPLETE)


def test_a_statement_has_no_prelude() -> None:
    verdict = LEAN.audit(Candidate(ask(LOGIC), "True", prelude="def And := Or\n"))
    assert verdict is not None
    assert not verdict.proved
    assert all(LEAN.audit(Candidate(ask(LOGIC), body)) is None for body in AGREE[LOGIC])


def test_form_is_what_lean_says_of_the_body_alone() -> None:
    candidate = Candidate(ask(LOGIC), "True")
    line = candidate.source[: candidate.source.index("theorem agrees")].count("\n") + 1
    assert line == 5
    behind = Diagnostic("error", "apply failed", line, 2)
    inside = Diagnostic("error", "unknown identifier", 2, 2, body_line=1, body_column=0)
    between = Diagnostic("error", "unexpected token 'def'", 3, 0)
    for errors, expected in (((behind,), True), ((behind, inside), False), ((between,), False)):
        verdict = Verdict(Status.REJECTED, errors, stage=Stage.PROVER)
        assert FORMALIZING.is_well_formed(candidate, verdict) is expected
    refused = refuse_text(Status.UNSOUND, "statement", (behind,))
    assert not FORMALIZING.is_well_formed(candidate, refused)


@pytest.mark.lean
@pytest.mark.parametrize("backend", ["lean-server", "lean-file"])
@pytest.mark.parametrize("theorem", [LOGIC, TREES])
def test_lean_decides_what_agrees(theorem: str, backend: LeanBackend) -> None:
    problem = ask(theorem)
    bodies = [*AGREE[theorem], *DIFFER[theorem], *UNREADABLE]
    asked = [Candidate(problem, body) for body in bodies]
    verdicts = judge_all(find_toolchain(backend), [settle(each) for each in asked])
    num, read = len(AGREE[theorem]), len(AGREE[theorem]) + len(DIFFER[theorem])
    statuses = [verdict.status for verdict in verdicts]
    assert statuses == num * [Status.PROVED] + (len(bodies) - num) * [Status.REJECTED]
    formed = [FORMALIZING.is_well_formed(c, v) for c, v in zip(asked, verdicts, strict=True)]
    assert formed == read * [True] + len(UNREADABLE) * [False]


@pytest.mark.lean
def test_lean_agrees_with_a_reference_of_each_family_and_with_no_other() -> None:
    rng = random.Random(0)
    streams = (GENERATOR.stream_level(level, 3, "heldout") for level in GENERATOR.families)
    found = {d.family: d for s in streams for d in itertools.islice(s, 16)}
    drafts = rng.sample(sorted(found.values(), key=lambda draft: draft.family), 12)
    asked = []
    for one, other in itertools.pairwise(drafts):
        problem = build_problem(GENERATOR, one, "heldout")
        asked += [Candidate(problem, one.reference), Candidate(problem, other.reference)]
    verdicts = judge_all(find_toolchain("lean-server"), [settle(each) for each in asked])
    assert [verdict.proved for verdict in verdicts] == 11 * [True, False]
