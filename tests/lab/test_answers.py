"""Questions for a number: what Dafny proves of an answer, what is shown, what may not leak."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from click.testing import CliRunner

from proverrl.cli.main import cli
from proverrl.errors import ProblemError
from proverrl.lab.words import answers
from proverrl.lab.words.answers import ANSWER, EXPECTED, SHOWN, WORDS_ALONE, read_given
from proverrl.lab.words.dafny.answer import find_leak
from proverrl.lab.words.decided import describe_answer, summarise_answers, tell_answers
from proverrl.lab.words.drafts import QuestionGenerator
from proverrl.lab.words.english import English
from proverrl.lab.words.parts import find_answering
from proverrl.lang import find_language
from proverrl.problems.drafts import build_problem
from proverrl.problems.load import load_problems, load_references
from proverrl.problems.prompt import render_prompt
from proverrl.types import HOLE, Candidate, Problem, Status, Verdict
from proverrl.verifier.base import Verifier
from tests.shared_verifier import ask_verifier

DAFNY, LEAN = find_language("dafny"), find_language("lean")
VAL = "function Val(p: nat): int { if p < 1 then 22 else Val(p - 1) + 18 }\n"
IND = "if m >= 1 { Lem(m - 1); }"
WORDS = "Which number `c` makes it true that `Val` of `m` is 18 times `m` plus `c`?"


def ask(claim: str = "exists c: int :: Val(m) == 18 * m + c", head: str = "m: nat") -> Problem:
    text = f"{VAL}lemma {{:induction false}} Lem({head})\n  ensures {claim}\n{{\n  {HOLE}\n}}\n"
    return Problem("q", "dafny", ANSWER, "", text, informal=WORDS, metadata={EXPECTED: "22"})


def judge(problem: Problem, bodies: Sequence[str]) -> list[Verdict]:
    async def run(verifier: Verifier) -> list[Verdict]:
        asked = (verifier.verify(Candidate(problem, body), deadline_seconds=60) for body in bodies)
        return list(await asyncio.gather(*asked))

    return ask_verifier(run)


@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_dafny_decides_which_answers_are_right() -> None:
    bodies = [
        f"answer 22;\n{IND}",
        f"  answer   22\n{IND}",
        f"answer 22 ; {IND} assert Val(0) == 22;",
        f"answer 21;\n{IND}",
        f"answer -22;\n{IND}",
        f"answer true;\n{IND}",
        "answer 22;",
        f"answer Val(0);\n{IND}",
        IND,
    ]
    found = [verdict.proved for verdict in judge(ask(), bodies)]
    assert found == [True, True, True, False, False, False, False, False, False]


@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_negative_answers_truth_values_and_names_that_could_be_caught() -> None:
    negative = ask("exists c: int :: Val(m) + c == 18 * m")
    assert [v.proved for v in judge(negative, [f"answer -22; {IND}", f"answer 22; {IND}"])] == [
        True,
        False,
    ]
    # A natural number is not below zero, whatever is claimed of it.
    natural = ask("exists c: nat :: Val(m) == Val(m) + 0 * c")
    assert [v.proved for v in judge(natural, ["answer 0;", "answer -1;"])] == [True, False]
    truth = ask("exists b: bool :: b <==> Val(m) == 18 * m + 22")
    bodies = [f"answer true; {IND}", f"answer false; {IND}", f"answer 1; {IND}"]
    assert [v.proved for v in judge(truth, bodies)] == [True, False, False]
    # The inner c is another one: nothing is replaced in it.
    caught = ask("exists c: int :: c == 3 && (forall c: int :: c * 0 == 0) && c < 4")
    assert [v.proved for v in judge(caught, ["answer 3;", "answer 2;"])] == [True, False]


@pytest.mark.parametrize(
    "claim",
    [
        "Val(m) == 18 * m + 22",
        "exists c: int, d: int :: c + d == 3",
        "exists c: int | c > 2 :: c == 3",
        "exists c :: Val(m) == 18 * m + c",
        "exists c: seq<int> :: c == [3]",
        "(exists c: int :: c == 3)",
        "true\n  ensures exists c: int :: c == 3",
    ],
)
def test_what_asks_for_nothing_is_refused(claim: str) -> None:
    with pytest.raises(ProblemError, match="what is asked for is 'ensures exists x: int"):
        answers.DAFNY.check(ask(claim))


def test_a_question_stands_in_a_file_that_leaves_nothing_unproved() -> None:
    text = ask().statement + "lemma {:axiom} Any() ensures false\n"
    with pytest.raises(ProblemError, match="leaves nothing unproved"):
        answers.DAFNY.check(replace(ask(), statement=text))


@pytest.mark.parametrize(
    ("body", "given"),
    [
        ("answer 22; x", "22"),
        ("answer -7\nx", "-7"),
        ("answer 0;", "0"),
        ("answer true;", "true"),
        ("answer 007;", ""),
        ("answer 22x;", ""),
        ("answer;", ""),
        ("x; answer 22;", ""),
        ("", ""),
    ],
)
def test_an_answer_is_a_number_or_a_truth_value_as_it_is_written(body: str, given: str) -> None:
    assert read_given(ask(), body) == given
    assert read_given(replace(ask(), kind="statements"), body) == ""


def test_three_ways_to_ask() -> None:
    both = render_prompt(ask(), "canonical")
    formal = render_prompt(replace(ask(), informal=""), "canonical")
    words = render_prompt(
        replace(ask(), metadata={EXPECTED: "22", SHOWN: WORDS_ALONE}), "canonical"
    )
    assert ("exists c: int" in both, "Which number" in both) == (True, True)
    assert ("exists c: int" in formal, "Which number" in formal) == (True, False)
    assert ("exists" in words, "Which number" in words) == (False, True)
    # What is given stays, and so does the place of the proof.
    assert "function A(a: nat): int" in words
    assert HOLE in words


def test_no_question_holds_its_answer() -> None:
    """Neither the lemma nor the words do; what is given may."""
    assert find_leak("22", "lemma L(m: nat) ensures Val(m) == m + 22", "")
    assert find_leak("22", "lemma L(m: nat)", "It is twenty-two.")
    assert find_leak("22", "lemma L(m: nat)", "It is 22.")
    assert not find_leak("22", "lemma L(m: nat) ensures Val(m) == 220 * m", "It is 220.")
    generator = QuestionGenerator(DAFNY)
    for level in (4, 5):
        for draft in islice(generator.stream_level(level, 7, "heldout"), 25):
            answer = draft.metadata[EXPECTED]
            lemma = draft.statement.rpartition("lemma")[2]
            assert re.search(r"ensures exists \w+: int ::", lemma)
            assert not find_leak(answer, lemma, draft.informal)
            assert draft.reference.startswith(f"answer {answer};")
            problem = build_problem(generator, draft, "heldout", {})
            assert DAFNY.find_objection(problem, draft.reference) == ""
            assert draft.informal[0].isupper()
            assert draft.informal[-1] in ".?"


@pytest.mark.dafny
@pytest.mark.slow
def test_questions_are_generated_checked_and_shown(tmp_path: Path) -> None:
    out = tmp_path / "q.jsonl"
    words = ["words", "generate", "dafny", "--ask", "answers", "--levels", "4", "--num", "3"]
    done = CliRunner().invoke(cli, [*words, "--workers", "1", "--out", str(out)])
    assert done.exit_code == 0, done.output
    problems, references = load_problems(out), load_references(out)
    assert [read_given(p, references[p.id]) for p in problems] == [
        p.metadata[EXPECTED] for p in problems
    ]
    for show, has_words, has_claim in (("words", True, False), ("formal", False, True)):
        shown = tmp_path / f"{show}.jsonl"
        args = ["words", "convert", str(out), "--show", show, "--out", str(shown)]
        assert CliRunner().invoke(cli, args).exit_code == 0
        for problem in load_problems(shown):
            text = DAFNY.show_text(problem)
            assert (bool(problem.informal), "exists" in text) == (has_words, has_claim)


def test_shares_of_answers_and_of_proofs() -> None:
    def row(name: str, body: str, status: Status) -> dict[str, object]:
        told = describe_answer(ask(), Candidate(ask(), body))
        return {"problem_id": name, "status": status.value, **told}

    rows = [
        row("a", "answer 22; x", Status.PROVED),
        row("a", "answer 22;", Status.REJECTED),
        row("a", "answer 3;", Status.REJECTED),
        row("a", "answer 22;", Status.TIMEOUT),
        # Another answer that is proved is right.
        row("b", "answer 5; x", Status.PROVED),
        {"problem_id": "c", "status": "rejected", **describe_answer(ask(), None)},
    ]
    found = summarise_answers(rows)["answers"]
    assert found["problems"] == 3
    assert found["right"]["value"] == pytest.approx((2 / 3 + 1 + 0) / 3, rel=1e-12)
    assert found["proved"]["value"] == pytest.approx((1 / 3 + 1 + 0) / 3, rel=1e-12)
    line = tell_answers("After", {"answers": json.loads(json.dumps(found))})
    assert line.startswith("After: 3 questions: right answer 55.6 % (")
    assert "proved 44.4 % (" in line
    assert summarise_answers([{"problem_id": "a", "status": "proved"}]) == {}
    assert tell_answers("After", {}) == ""


def test_lean_begins_its_proof_with_the_answer() -> None:
    text = "def f : Nat → Nat\n  | 0 => 7\n  | n + 1 => f n + 2\n"
    text += "theorem t (n : Nat) : {} := by\n  /*{{HOLE}}*/\n"
    asked = Problem("l", "lean", ANSWER, "", text.format("∃ c : Nat, f n = 2 * n + c"))
    answers.LEAN.check(asked)
    settled = LEAN.settle(Candidate(asked, "answer 7\n  induction n with\n  | zero => rfl"))
    assert isinstance(settled, Candidate)
    assert settled.problem.kind == "tactics"
    assert settled.problem.statement == asked.statement
    assert settled.body == "refine ⟨7, ?_⟩\n  induction n with\n  | zero => rfl"
    missing = LEAN.settle(Candidate(asked, "exact ⟨7, sorry⟩"))
    assert isinstance(missing, Verdict)
    assert missing.rule == "answer"
    with pytest.raises(ProblemError, match="what is asked for is a theorem"):
        answers.LEAN.check(replace(asked, statement=text.format("f n = 2 * n + 7")))
    assert "∃" not in LEAN.show_text(replace(asked, metadata={SHOWN: WORDS_ALONE}))
    known = Candidate(
        Problem("k", "lean", "tactics", "", text.format("f n = 2 * n + 7")), "exact foo"
    )
    answering = find_answering("lean")
    assert answering is not None
    references = set()
    for seed in range(8):
        english = English(random.Random(seed), "train")
        made = answering.ask(known, random.Random(seed), english)
        assert made is not None
        references.add(made.reference)
    assert references == {"answer 2\n  exact foo", "answer 7\n  exact foo"}
