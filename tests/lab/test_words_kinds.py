"""The kinds ``formalize`` and ``implement``: what they refuse, show and have judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proverrl.errors import ProblemError
from proverrl.lab.words.answers import AnswerKind
from proverrl.lab.words.sides import DecideKind
from proverrl.lang import find_language
from proverrl.problems.load import load_problems
from proverrl.problems.prompt import render_messages
from proverrl.types import HOLE, Candidate, Problem

DAFNY, LEAN = find_language("dafny"), find_language("lean")
HEAD = f"method Triple(n: nat) returns (r: int)\n  {HOLE}\n"
PAIR = "method Meant(n: nat) returns (r: int)\n  ensures r == 3 * n\n{\n  r := Triple(n);\n}\n"
WRITTEN = Problem("p", "dafny", "implement", "", HEAD + PAIR, informal="`r` is 3 times `n`.")


def test_shipped_problems_are_judged_as_holes_of_their_language() -> None:
    shipped = {
        "dafny/statements/valid.jsonl": "contract",
        "dafny/programs/valid.jsonl": "program",
        "lean/statements/valid.jsonl": "proposition",
    }
    for path, kind in shipped.items():
        for problem in load_problems(path)[:3]:
            language = find_language(problem.language)
            settled = language.settle(Candidate(problem, "body"))
            assert isinstance(settled, Candidate)
            assert (settled.problem.kind, settled.body) == (kind, "body")
            assert settled.source == Candidate(problem, "body").source
            assert language.find_objection(problem, None) == language.find_cheat(problem) == ""
            assert language.hides_rest(problem)
            assert language.shows_words(problem)
            shown = render_messages(problem, "plain")[0].content
            assert problem.informal.split("`")[0] in shown
            assert "Meant" not in shown


def test_a_problem_without_words_is_refused() -> None:
    told = "it asks for a statement from words and has none; fill 'informal'"
    assert DAFNY.find_objection(replace(WRITTEN, informal=" "), None) == told
    assert DAFNY.find_objection(WRITTEN, None) == ""


def test_a_program_that_has_its_contract_is_refused() -> None:
    given = replace(WRITTEN, statement=HEAD.replace(")\n", ")\n  ensures r == 3 * n\n") + PAIR)
    assert "its head gives a contract" in DAFNY.find_objection(given, None)
    with pytest.raises(ProblemError, match="its head gives a contract"):
        DAFNY.settle(Candidate(given, "{ }"))


def test_what_is_believed_behind_the_hole_is_found() -> None:
    believed = replace(WRITTEN, statement=WRITTEN.statement + "lemma L() ensures false\n")
    assert "no body" in DAFNY.find_cheat(believed)


def test_other_languages_have_no_such_kinds() -> None:
    for kind, told in ((DecideKind, "claims to be decided"), (AnswerKind, "questions")):
        with pytest.raises(ProblemError, match=f"there are no {told} in sums"):
            kind("sums").check(WRITTEN)
