"""Certificates spent first where a critic is least sure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from proverrl.cli.main import cli
from proverrl.errors import UsageError
from proverrl.formalize.critiques import PairMaker, Row, order_by_doubt
from proverrl.formalize.gate import Critic
from proverrl.problems.prompt import render_prompt
from proverrl.types import Completion, Problem, Prompt, Sampling
from proverrl.verifier.base import Verifier
from tests.test_critique import NO, YES
from tests.test_statements import ask, ask_verifier

TALK = "I like it"


class Undecided:
    """Answers by what stands in the prompt, one after the other, and keeps how it was asked."""

    version = 0
    engine = "fake"
    layout = "plain"

    def __init__(self, answers: dict[str, Sequence[str]]) -> None:
        self.answers = answers
        self.sampled: list[Sampling] = []

    def prompt(self, problem: Problem) -> Prompt:
        return Prompt(problem.id, render_prompt(problem, "plain"), (1,))

    async def generate(
        self, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        self.sampled.append(sampling)
        return [
            [Completion(text, (1,), (2,), (-0.1,), "stop", 0) for text in self._choose(prompt, n)]
            for prompt in prompts
        ]

    def _choose(self, prompt: Prompt, n: int) -> list[str]:
        given = next(said for mark, said in self.answers.items() if mark in prompt.text)
        return [given[i % len(given)] for i in range(n)]


def make_critic(answers: dict[str, Sequence[str]]) -> Critic:
    return Critic(Undecided(answers))  # type: ignore[arg-type]


def test_doubt_is_largest_where_half_of_the_answers_say_right() -> None:
    critic = make_critic(
        {
            "21": [YES],
            "22": [YES, NO],
            "23": [YES, YES, YES, NO],
            "24": [YES, NO, TALK, TALK],
            "25": [YES, TALK],
            "26": [TALK],
        }
    )
    bodies = [f"ensures r == {number}" for number in range(21, 27)]
    asked = [(ask(["ensures r == n"]), body) for body in [*bodies, 'ensures r == |"x"|']]
    # 8 of 8, 4 of 8, 6 of 8 (|2 * 3/4 - 1| = 1/2), 2 of the 4 that judge, 4 of 4, none judges; and
    # one that it is not asked about.
    wanted = [0.0, 1.0, 0.5, 1.0, 0.0, None, None]
    assert asyncio.run(critic.doubt_all(asked, n=8)) == wanted
    assert isinstance(critic.policy, Undecided)
    assert [sampling.temperature for sampling in critic.policy.sampled] == [1.0]


def test_what_a_critic_is_least_sure_of_comes_first() -> None:
    critic = make_critic({"21": [YES], "22": [YES, NO], "23": [YES, YES, YES, NO]})
    problems = [replace(ask(["ensures r == n"]), id=name) for name in "abcd"]
    written = {
        "b": ["ensures r == 21"],
        "c": ["ensures r == 21", "ensures r == 23"],
        "d": ["ensures r == 21", "ensures r == 22", "ensures r == 21"],
    }
    said: list[str] = []
    ordered, bodies = asyncio.run(
        order_by_doubt(problems, written, critic, seed=0, show=said.append)
    )
    # Of ``a`` nothing was written: it comes last.
    assert [problem.id for problem in ordered] == ["d", "c", "b", "a"]
    assert bodies["d"] == ["ensures r == 22", "ensures r == 21"]
    assert bodies["c"] == ["ensures r == 23", "ensures r == 21"]
    assert said == [
        "5/5 statements read by the critic",
        "the critic's answers differ on 2 of 5 statements",
    ]
    silent = make_critic({"21": [TALK]})
    ordering = order_by_doubt(problems[1:2], written, silent, seed=0, show=said.append)
    with pytest.raises(UsageError, match="no judgement on any of 1 statements"):
        asyncio.run(ordering)


@pytest.mark.dafny
def test_certificates_go_to_the_first_statements_whatever_the_seed() -> None:
    problem = replace(ask(["ensures r == n + k"]), id="a")
    written = {"a": [f"ensures r == {text}" for text in ("2 * k", "k + n", "n + 2 * k", "n + k")]}

    async def run(verifier: Verifier) -> list[Row]:
        made: list[Row] = []
        for seed in range(3):
            maker = PairMaker(verifier, seed, 60.0, written, in_order=True)
            made += await maker.make_rows([(problem, "ensures r == n + k")], num=2)
        return made

    made = ask_verifier(run)
    assert [row["statement"].splitlines()[0] for row in made] == [
        "ensures r == k + n",
        "ensures r == 2 * k",
    ] * 3


def test_a_critic_with_one_answer_and_one_without_statements_are_refused(tmp_path: Path) -> None:
    problems, statements = tmp_path / "words.jsonl", tmp_path / "all.statements.jsonl"
    problems.write_text("")
    statements.write_text("")
    fitted = tmp_path / "likely"
    fitted.mkdir()
    stored = {"formaliser": "x", "weights": "y", "layout": "canonical", "most": 1.5}
    (fitted / "critic.json").write_text(json.dumps(stored))
    call = ["problems", "critiques", str(problems), "--out", str(tmp_path / "out.jsonl")]
    alone = CliRunner().invoke(cli, [*call, "--unsure", str(fitted)])
    assert isinstance(alone.exception, UsageError)
    assert "give --statements too" in str(alone.exception)
    call += ["--statements", str(statements), "--unsure", str(fitted)]
    single = CliRunner().invoke(cli, call)
    assert isinstance(single.exception, UsageError)
    assert "gives one answer to each statement" in str(single.exception)
    assert not (tmp_path / "out.jsonl").exists()
