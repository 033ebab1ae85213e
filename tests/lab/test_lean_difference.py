"""Propositions that differ on a reading of their names, and the errors that are made of them."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from proverrl.lab.critics.critiques import PairMaker, Row
from proverrl.lab.critics.language import read_pair
from proverrl.lab.words.english import Phrase
from proverrl.lab.words.equivalence import equivalent
from proverrl.lab.words.lean.closed import Closed, read_closed
from proverrl.lab.words.lean.errors import ERRORS, reword, spoil
from proverrl.lab.words.lean.phrases import read_phrase
from proverrl.lab.words.lean.proposition import FORMALIZING
from proverrl.lang.lean.audit.text import audit_lean_candidate
from proverrl.lang.open import open_verifier
from proverrl.problems.load import load_problems, load_references, read_problem
from proverrl.types import HOLE, Candidate, Problem, Verdict
from tests.lab.test_statements_lean import find_toolchain
from tests.lang.lean.test_lean_real import judge_all

MEANT = "∀ (p q : Prop), (p → q) → p → q"
MODES = "inductive Mode where\n  | on : Mode\n  | off : Mode\n  | idle : Mode\n"
TURN = "def turn : Mode → Mode\n  | .on => .off\n  | .off => .idle\n  | .idle => .on\n"
STATEMENTS = Path(__file__).parents[1] / "lean" / "statements" / "train.jsonl"


def ask(meant: str, given: str = "") -> Problem:
    statement = f"{given}def Asked : Prop :=\n  {HOLE}\n"
    return FORMALIZING.state(Problem("p", "lean", "formalize", "", statement), meant)


def ask_text(meant: str, body: str, given: str = "") -> str:
    asked = FORMALIZING.ask_difference(ask(meant, given), body)
    return asked[0].source if asked else ""


def list_truths(closed: Closed) -> list[bool]:
    """What a proposition of logic alone says, for each way to read its names."""
    phrase = read_phrase(closed.says)
    assert phrase is not None
    names = [name for name, _ in closed.list_names()]
    ways = itertools.product((False, True), repeat=len(names))
    return [is_true(phrase, dict(zip(names, way, strict=True))) for way in ways]


def is_true(phrase: Phrase, known: dict[str, bool]) -> bool:
    if phrase.op == "name":
        return known[phrase.text]
    values = [is_true(arg, known) for arg in phrase.args]
    if phrase.op == "not":
        return not values[0]
    one, other = values
    says = {"and": one and other, "or": one or other, "implies": other or not one}
    return {**says, "iff": one == other}[phrase.op]


def judge_differences(pairs: Sequence[tuple[Problem, str]]) -> list[bool]:
    """Whether Lean proves that each differs; each must be asked."""
    asked = [FORMALIZING.ask_difference(problem, body) for problem, body in pairs]
    assert all(len(candidates) == 1 for candidates in asked)
    verdicts: list[Verdict] = judge_all(
        find_toolchain("lean-server"), [candidate for (candidate,) in asked]
    )
    return [FORMALIZING.shows_difference(verdict) for verdict in verdicts]


def test_both_are_read_with_the_same_bits() -> None:
    text = ask_text(MEANT, "∀ (p q : Prop), (p → q) → q → p")
    assert text.endswith(
        "theorem differ : ∃ bit0 bit1 : Bool,\n"
        "    ¬ (((fun (p q : Prop) => (True → ((p → q) → q → p)))"
        " (bit0 = true) (bit1 = true)) ↔\n"
        "      ((fun (p q : Prop) => (True → ((p → q) → p → q)))"
        " (bit0 = true) (bit1 = true))) := by\n"
        "  decide +kernel\n"
    )


def test_tables_elements_and_numbers_are_chosen_by_bits() -> None:
    about = "(A : Type) (a : A) (Q : A → Prop) (R : A → A → Prop) (f : A → A)"
    text = ask_text(f"∀ {about}, Q (f a) → R a a", f"∀ {about}, Q a → R a a")
    # a, Q's two, R's four; f's two.
    assert "∃ bit0 bit1 bit2 bit3 bit4 bit5 bit6 bit7 bit8 : Bool," in text
    assert (
        " Bool (bit0) (fun bitx0 => (bif bitx0 then bit1 else bit2) = true) "
        "(fun bitx0 bitx1 => (bif bitx0 then (bif bitx1 then bit3 else bit4) else "
        "(bif bitx1 then bit5 else bit6)) = true) (fun bitx0 => (bif bitx0 then bit7 else bit8))"
    ) in text
    text = ask_text("∀ (m : Mode), turn m = m", "∀ (m : Mode), m = m", MODES + TURN)
    assert "deriving instance DecidableEq for Mode\n" in text
    assert (
        "((bif bit0 then (bif bit1 then Mode.on else Mode.off) else "
        "(bif bit1 then Mode.idle else Mode.idle)) : Mode)"
    ) in text
    text = ask_text("∀ (n : Nat), n + 0 = n", "∀ (n : Nat), n + 1 = n")
    assert "(bif bit0 then (bif bit1 then 0 else 1) else (bif bit1 then 2 else 3)) : Nat" in text


def test_a_name_that_neither_says_takes_no_bit() -> None:
    about = "(A : Type) (a : A) (R S T : A → A → Prop)"
    text = ask_text(f"∀ {about}, R a a", f"∀ {about}, ¬(R a a)")
    assert "∃ bit0 bit1 bit2 bit3 bit4 : Bool," in text
    assert "(bif bitx0 then (bif bitx1 then true else true) else" in text


def test_bits_have_names_that_nothing_else_has() -> None:
    assert "∃ bitt0 : Bool," in ask_text("∀ (bit0 : Prop), bit0", "∀ (bit0 : Prop), ¬bit0")


@pytest.mark.parametrize(
    "body",
    [
        "∀ (p r : Prop), (p → r) → p → r",  # other names
        "∀ (q p : Prop), (p → q) → p → q",  # another order
        "∀ (p q r : Prop), (p → q) → p → q",
        "∀ (p : Prop) (q : Nat), p → q = q",
        "∀ p q : Prop, (p → q) → q → p",  # read by Lean, and not here
        "∀ (p q : Prop), (p → q) → p → q) ∨ (True",
        "∀ (p q : Prop), (p → q) → p → q := by decide\ntheorem other : False",
        "∀ (p q : Prop), fun x => x",
        "True ∨ (fun _ => True) sorry",
        "",
    ],
)
def test_of_other_propositions_nothing_is_asked(body: str) -> None:
    assert ask_text(MEANT, body) == ""


def test_nothing_is_asked_without_readings() -> None:
    for about in ("(f : Nat → Nat)", "(s : List Nat)", "(A : Type) (f : A → A → A → A)"):
        assert ask_text(f"∀ {about}, 1 = 1", f"∀ {about}, 1 = 2") == ""
    # Thirteen bits are one too many; twelve are not.
    for num, is_asked in ((12, True), (13, False)):
        names = [f"p{i}" for i in range(num)]
        about, says = f"({' '.join(names)} : Prop)", " → ".join(names)
        assert bool(ask_text(f"∀ {about}, {says}", f"∀ {about}, ¬({says})")) == is_asked


def test_what_is_asked_passes_the_audit() -> None:
    (asked,) = FORMALIZING.ask_difference(ask("∀ (m : Mode), m = m", MODES), "∀ (m : Mode), m ≠ m")
    assert audit_lean_candidate(asked) is None


def test_a_proposition_in_its_parts() -> None:
    text = "∀ (p q : Prop) (A : Type), (p → q) → (∀ x y, x = y) → p ∧ q"
    closed = read_closed(text.replace(" p ∧ q", " -- what is claimed\n  p ∧ q"))
    assert closed is not None
    assert closed.about == ((("p", "q"), "Prop"), (("A",), "Type"))
    assert closed.given == ("(p → q)", "(∀ x y, x = y)")
    assert closed.claim == "p ∧ q"
    assert closed.write() == text
    # An arrow under a quantifier without brackets is part of what is claimed.
    closed = read_closed("∀ (p : Prop), p → ∀ x, x = x → p")
    assert closed is not None
    assert (closed.given, closed.claim) == (("p",), "∀ x, x = x → p")


def test_each_kind_of_error_changes_what_it_says() -> None:
    text = "∀ (p q : Prop) (n : Nat), (n = 4) → (p ∧ q) → q"
    found: dict[str, set[str]] = {kind: set() for kind in (*ERRORS, "syntax")}
    for seed in range(200):
        made = spoil(random.Random(seed), text)
        assert made is not None
        found[made[1]].add(made[0])
    head = "∀ (p q : Prop) (n : Nat), "
    assert found["goal"] == {f"{head}(n = 4) → (p ∧ q) → p"}
    assert found["incomplete"] == {f"{head}(p ∧ q) → q", f"{head}(n = 4) → q"}
    assert found["representation"] == {f"{head}(n = {x}) → (p ∧ q) → q" for x in (3, 5)}
    assert found["premise"] == {
        f"{head}(n ≠ 4) → (p ∧ q) → q",
        *(f"{head}(n = 4) → ({x}) → q" for x in ("p ∨ q", "q ∧ q", "p ∧ p")),
    }
    # Each of eight brackets and the comma can be lost.
    assert len(found["syntax"]) == 9
    assert {len(made) for made in found["syntax"]} == {len(text) - 1}
    assert spoil(random.Random(0), "fun x => x") is None


def test_other_words_are_an_order_and_the_sides_of_equations() -> None:
    text = "∀ (p q : Prop) (a b : Nat), (p ↔ q) → a = b → q"
    head = "∀ (p q : Prop) (a b : Nat), "
    sides = [("(p ↔ q)", "(q ↔ p)"), ("a = b", "b = a")]
    wanted = {
        f"{head}{one} → {other} → q"
        for first in sides[0]
        for second in sides[1]
        for one, other in ((first, second), (second, first))
    }
    assert {reword(random.Random(seed), text) for seed in range(100)} == wanted
    for given, turned in (
        ("(p ↔ a = b)", "(a = b ↔ p)"),
        ("(a = b) ∧ p", "(a = b) ∧ p"),
        ("(a = b) = (b = a)", "(b = a) = (a = b)"),
        ("(∀ x, x = a)", "(∀ x, x = a)"),
    ):
        found = {reword(random.Random(seed), f"{head}{given} → q") for seed in range(20)}
        assert found == {f"{head}{text} → q" for text in (given, turned)}


@pytest.mark.lean
def test_lean_shows_a_difference_exactly_where_there_is_one() -> None:
    about = "(A : Type) (a b : A) (R : A → A → Prop)"
    swap = f"∀ {about}, (∀ x y, R x y → R y x) → R a b → R b a"
    pairs = [
        (MEANT, "∀ (p q : Prop), (p → q) → q → p", True),
        (MEANT, "∀ (p q : Prop), (p → q) → p", True),
        # True as well, so that it says the same of every reading.
        (MEANT, "∀ (p q : Prop), (p → q) → p → p", False),
        (MEANT, MEANT, False),
        (swap, f"∀ {about}, (∀ x y, R x y → R y x) → R a b → R a a", True),
        (swap, f"∀ {about}, (∃ x y, R x y → R y x) → R a b → R b a", True),
        (swap, f"∀ {about}, (∀ x y, R y x → R x y) → R a b → R b a", False),
        ("∀ (n : Nat), n + 0 = n", "∀ (n : Nat), n * 1 = n", False),
        ("∀ (n : Nat), n < n + 1", "∀ (n : Nat), n + 1 < n", True),
        # Exchanged names: the English says which is which.
        (swap, f"∀ {about}, (∀ x y, R x y → R y x) → R a b → R a b", False),
        (f"∀ {about}, R a b → R b a", f"∀ {about}, R b a → R a b", True),
        # True statements of something else.
        (MEANT, "∀ (p q : Prop), q → q", False),
        (MEANT, "∀ (p q : Prop), p → (p → q) → q", False),
        # An inner name hides an outer one.
        (swap, f"∀ {about}, (∀ a b, R a b → R b a) → R a b → R b a", False),
        # First at 4: not among the numbers that are tried.
        ("∀ (n : Nat), n < n + 1", "∀ (n : Nat), n < 4", False),
    ]
    shown = judge_differences([(ask(meant), body) for meant, body, _ in pairs])
    assert shown == [differs for _, _, differs in pairs]
    turned = ask("∀ (m : Mode), turn (turn (turn m)) = m", MODES + TURN)
    bodies = ("∀ (m : Mode), turn (turn m) = m", "∀ (m : Mode), m = turn (turn (turn m))")
    assert judge_differences([(turned, body) for body in bodies]) == [True, False]
    # As a proposition ``m`` is true, as a value it is coerced to a false one.
    coerced = MODES + (
        "instance : CoeSort Mode Prop := ⟨fun _ => True⟩\n"
        "instance : Coe Mode Prop := ⟨fun _ => False⟩\n"
    )
    assert judge_differences([(ask("∀ (m : Mode), m = m", coerced), "∀ (m : Mode), m")]) == [False]


@pytest.mark.lean
def test_lean_certifies_errors_of_nearly_every_family() -> None:
    """One problem of each family: the right one of a pair is proved to mean the same, the wrong one
    to differ, and of logic alone truth tables say so too. No reading is known for predicates on
    natural numbers (``l1_witness``)."""
    find_toolchain("lean-server")  # or skip
    references = load_references(STATEMENTS)
    first = {p.family: p for p in reversed(load_problems(STATEMENTS))}
    asked = [(p, references[p.id]) for p in first.values()]

    async def run() -> tuple[list[Row], list[bool | None], list[tuple[str, str]]]:
        verifier = open_verifier(workers=1, needed=["lean"])
        try:
            rows = await PairMaker(verifier, 0, 60.0).make_rows(asked, num=2 * len(asked))
            means, texts = [], []
            for row in rows:
                kept = {name: value for name, value in row.items() if name != "reference"}
                problem, body = read_pair(read_problem("row", kept))
                means.append(await equivalent(problem, body, verifier, deadline_seconds=60))
                meant = problem.statement.partition("def Meant : Prop :=\n  ")[2]
                texts.append((meant.partition("\n")[0], body))
        finally:
            await verifier.aclose()
        return rows, means, texts

    rows, means, texts = asyncio.run(run())
    labels = [json.loads(row["reference"])["is_correct"] for row in rows]
    assert means == labels
    made = {row["metadata"]["family"] for row in rows}
    assert first.keys() - made <= {"l1_witness"}
    num_logic = 0
    for (meant, body), label in zip(texts, labels, strict=True):
        one, other = read_closed(body), read_closed(meant)
        assert other is not None
        if one is not None and {kind for _, kind in other.list_names()} == {"Prop"}:
            assert list_truths(one) == list_truths(other) or not label
            assert list_truths(one) != list_truths(other) or label
            num_logic += 1
    assert num_logic >= 10


def test_a_difference_is_a_file_of_its_own() -> None:
    problem = ask(MEANT)
    (asked,) = FORMALIZING.ask_difference(problem, "∀ (p q : Prop), (p → q) → q → p")
    assert isinstance(asked, Candidate)
    assert (asked.problem.kind, asked.problem.id) == ("file", "p#differ")
