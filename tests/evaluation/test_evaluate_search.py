"""Evaluation by search: what a search is stored as, what it costs, resuming, errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proverrl.config import Config, RolloutConfig, SearchConfig
from proverrl.errors import ToolchainError, UsageError, VerifierError
from proverrl.evaluation.attempts import read_attempt
from proverrl.evaluation.budgets import BudgetUnit, Spending, measure_spending
from proverrl.evaluation.evaluate import Evaluation
from proverrl.evaluation.tally import tally_rows
from proverrl.files.seal import add_seal
from proverrl.jobs import evaluate as evaluate_run
from proverrl.jobs.evaluate import open_prover
from proverrl.lang.dafny.search.states import statement_segments
from proverrl.lang.records import Prefix
from proverrl.problems.prompt import render_opening
from proverrl.run.evaluation import evaluate_searches, search_row
from proverrl.search.base import CurvePoint, Functions, Proposal, SearchResult
from proverrl.search.proposals import Corrector, Proposer, read_answer
from proverrl.search.spending import FoundProof, SearchTurn
from proverrl.search.wiring import (
    Tools,
    choose_states,
    make_functions,
    make_search,
    open_confirm,
)
from proverrl.types import HOLE, Candidate, Diagnostic, Problem, Sampling, Status, Verdict
from proverrl.verifier.base import DEFAULT_LANE, Lane
from tests.fake_verifier import FakeVerifier
from tests.policy.test_policy import tiny_policy
from tests.run.test_grpo import make_config, run, verifiers
from tests.search.test_search_proposals import LOOP

__all__ = ["make_config", "verifiers"]
PROVED = Verdict(Status.PROVED, seconds=0.25, checks=("replayed",))


def make_result(proofs: tuple[FoundProof, ...] = ()) -> SearchResult:
    turns = (
        SearchTurn("a", 3, is_call=True, seconds=0.5),
        SearchTurn("a", 2, is_call=False),
        SearchTurn("", 1, is_call=False),
        SearchTurn("b", 4, is_call=True, seconds=0.25),
    )
    curve = (CurvePoint(2, 10, len(proofs), 5),)
    return SearchResult(
        "rmax_ts",
        LOOP.id,
        "proved" if proofs else "calls",
        proofs,
        (),
        2,
        10,
        1,
        3,
        curve,
        turns,
        {},
    )


def test_a_search_is_stored_with_what_each_answer_cost() -> None:
    row = search_row(LOOP, 1, make_result((FoundProof("b", PROVED, 2, 10, True),)))
    assert (row["status"], row["body"], row["seconds"], row["attempt"]) == ("proved", "b", 0.25, 1)
    keys = [turn["candidate"] for turn in row["turns"]]
    assert keys == [Candidate(LOOP, "a").key, None, None, Candidate(LOOP, "b").key]
    # 3 + 2 + 1 + 4 tokens in 4 answers, of which 2 went to the verifier.
    problems = tally_rows([(0, read_attempt(add_seal(row), "a row"))]).problems
    spent = {unit: measure_spending(problems, unit) for unit in get_args(BudgetUnit)}
    expected = {"turns": Spending(4, 4), "calls": Spending(2, 2), "tokens": Spending(10, 10)}
    assert spent == {unit: {LOOP.id: found} for unit, found in expected.items()}
    assert row["search"]["verifier_seconds"] == 0.75
    failed = search_row(LOOP, 0, make_result())
    assert (failed["status"], failed["body"], failed["search"]["nodes"]) == ("rejected", "", 5)


def test_a_search_in_which_nothing_was_judged_says_nothing_of_the_problem() -> None:
    old = replace(make_result(), turns=(SearchTurn("a", 3, is_call=True),))
    assert search_row(LOOP, 0, old)["search"]["verifier_seconds"] == 0.0
    ended = SearchTurn("b", 3, is_call=True, seconds=0.5)
    # A proof ended the other call.
    stopped = replace(old, turns=(*old.turns, ended))
    assert search_row(LOOP, 0, stopped)["search"]["verifier_seconds"] == 0.5
    late = (SearchTurn("a", 3, is_call=True, judged=False),)
    assert search_row(LOOP, 0, replace(old, turns=late * 2))["status"] == "timeout"
    assert search_row(LOOP, 0, replace(old, turns=(*late, *old.turns)))["status"] == "rejected"
    # As with whole proofs, no candidate is a failure.
    empty = replace(make_result(), turns=(SearchTurn("", 1, is_call=False),), calls=0)
    assert search_row(LOOP, 0, empty)["status"] == "rejected"


def test_a_call_that_is_asked_again_is_paid_again() -> None:
    written = 0

    async def propose(problem: Problem, prefix: Prefix, num: int, seed: int) -> list[Proposal]:
        nonlocal written
        written += 1
        return [Proposal("good" if written == 6 else "slow", 5, -1.0)] * num

    async def verify(candidate: Candidate) -> Verdict:
        return PROVED if candidate.body == "good" else Verdict(Status.TIMEOUT)

    config = SearchConfig(name="best_of_n", calls=8, width=1)
    result = asyncio.run(make_search(LOOP, Functions(propose, verify), config).run())
    rows = [search_row(LOOP, number, result) for number in range(2)]
    problems = tally_rows([(0, read_attempt(add_seal(row), "a row")) for row in rows]).problems
    # Two such searches, and the first call of the first five is one candidate.
    assert measure_spending(problems, "calls") == {LOOP.id: Spending(6, 12)}


def judge_short(candidate: Candidate) -> Status:
    return Status.PROVED if len(candidate.body) % 5 == 0 else Status.REJECTED


class Breaking(FakeVerifier):
    """Breaks down at a call."""

    def __init__(self, at: int) -> None:
        super().__init__(judge_short)
        self._at = at

    async def verify(
        self, candidate: Candidate, *, deadline_seconds: float, lane: Lane = DEFAULT_LANE
    ) -> Verdict:
        if self.num_calls >= self._at:
            raise VerifierError("out of order")
        return await super().verify(candidate, deadline_seconds=deadline_seconds)


def make_evaluation(folder: Path, calls: int = 4) -> Evaluation:
    problems = [replace(LOOP, id=f"loop-{number}") for number in range(6)]
    config = {"search": {"calls": calls}}
    return Evaluation("e", folder, problems, 1, (1,), 1.0, 6, 0, 5.0, {}, settings=config)


def open_tools(verifier: FakeVerifier) -> Tools:
    policy, sampling = tiny_policy(), Sampling(max_new_tokens=6)
    return Tools(
        propose=Proposer(policy, sampling),
        correct=Corrector(policy, sampling, RolloutConfig()),
        verifier=verifier,
        confirm=FakeVerifier(judge_short),
        deadline_seconds=5.0,
    )


CONFIG = SearchConfig(name="rmax_ts", states="statements", calls=4)


def search_all(folder: Path, verifier: FakeVerifier, searches: int = 1) -> list[str]:
    evaluation = make_evaluation(folder)
    summary = asyncio.run(
        evaluate_searches(evaluation, open_tools(verifier), CONFIG, searches=searches)
    )
    lines = (folder / "e.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert summary["verifier_calls"] == sum(row["search"]["calls"] for row in rows)
    assert summary["search_calls"] == CONFIG.calls
    assert summary["generated_tokens"] == sum(
        turn["num_tokens"] for row in rows for turn in row["turns"]
    )
    return lines


def test_searches_repeat_and_an_interrupted_evaluation_makes_none_again(tmp_path: Path) -> None:
    whole = search_all(tmp_path / "a", FakeVerifier(judge_short))
    assert len(whole) == 6
    rows = [json.loads(line) for line in whole]
    assert max(row["search"]["calls"] for row in rows) <= 4
    assert {row["status"] for row in rows} == {"proved", "rejected"}
    folder = tmp_path / "b"
    ends = [row["search"]["calls"] for row in rows]
    with pytest.raises(VerifierError, match="out of order"):
        # In the middle of the fourth search.
        search_all(folder, Breaking(sum(ends[:3]) + ends[3] - 1))
    stored = (folder / "e.jsonl").read_text().splitlines()
    assert stored == whole[:3]
    with (folder / "e.jsonl").open("a") as file:
        file.write('{"problem_id": "cut o')
    verifier = FakeVerifier(judge_short)
    assert search_all(folder, verifier) == whole
    assert verifier.num_calls == sum(ends[3:])


def test_searches_side_by_side_are_all_made(tmp_path: Path) -> None:
    lines = search_all(tmp_path, FakeVerifier(judge_short), searches=4)
    names = sorted(json.loads(line)["problem_id"] for line in lines)
    assert names == [f"loop-{number}" for number in range(6)]


def test_searches_are_added_and_the_earlier_canaries_stay_counted(tmp_path: Path) -> None:
    def search(samples: int, refused: int) -> dict[str, Any]:
        evaluation = replace(make_evaluation(tmp_path), samples=samples, ks=(samples,))
        tools = open_tools(FakeVerifier(judge_short))
        return asyncio.run(
            evaluate_searches(
                evaluation,
                tools,
                CONFIG,
                searches=1,
                figures=lambda: {"canaries": {"refused": refused}},
            )
        )

    assert search(1, 3)["canaries"] == {"refused": 3}
    summary = search(2, 4)
    assert summary["canaries"] == {"refused": 3 + 4}
    assert list(summary["levels"][0]["pass"]) == ["1", "2"]
    assert summary["levels"][0]["attempts"] == 6 * 2
    # Fewer are asked for than are stored: the figures rest on all of them.
    again = search(1, 0)
    assert again["canaries"] == {"refused": 7}
    assert (again["samples_per_problem"], again["levels"]) == (2, summary["levels"])
    assert json.loads((tmp_path / "e.json").read_text()) == again


def test_searches_under_another_budget_are_not_mixed(tmp_path: Path) -> None:
    search_all(tmp_path, FakeVerifier(judge_short))
    other = make_evaluation(tmp_path, calls=8)
    tools = open_tools(FakeVerifier(judge_short))
    with pytest.raises(UsageError, match=r"search\.calls = 4; now it is 8"):
        asyncio.run(evaluate_searches(other, tools, CONFIG, searches=1))


def test_a_run_does_not_search(
    make_config: Callable[..., Config], verifiers: list[FakeVerifier]
) -> None:
    with pytest.raises(UsageError, match="proverrl eval"):
        run(make_config("run", evaluation={"search": True}))
    assert verifiers == []


def test_kinds_without_states_are_refused_by_searches_that_need_them() -> None:
    whole = replace(LOOP, kind="file", statement=HOLE)
    tools = open_tools(FakeVerifier(judge_short))
    with pytest.raises(UsageError, match="best_of_n"):
        make_functions(whole, tools, CONFIG)
    plain = SearchConfig(name="best_of_n")
    assert choose_states(whole, plain) is None
    assert make_functions(LOOP, tools, CONFIG).segment is statement_segments


def test_statements_before_a_refused_place_are_states_of_their_own() -> None:
    body = "invariant 0 <= at\ninvariant at <= count)\ninvariant at < 7"
    refusal = Diagnostic("error", "grammar: x", body_line=2, body_column=21)
    verdict = Verdict(Status.REJECTED, (refusal,))
    (segment,) = statement_segments(Candidate(LOOP, body), verdict)
    assert segment.text == "invariant 0 <= at"
    assert segment.state == "text: invariant 0 <= at"
    audit = Verdict(Status.UNSOUND, (replace(refusal, body_line=3, body_column=0),))
    texts = [s.text for s in statement_segments(Candidate(LOOP, body), audit)]
    assert texts == ["invariant 0 <= at", "invariant 0 <= at\ninvariant at <= count)"]
    # Without a place in the body nothing is kept.
    nowhere = Verdict(Status.REJECTED, (Diagnostic("error", "parse errors detected"),))
    assert statement_segments(Candidate(LOOP, body), nowhere) == ()


NAMES = st.sampled_from(["at", "count", "k", "i", "zz", "q"])
CLAUSE = st.tuples(NAMES, NAMES).map(lambda p: f"invariant forall {p[0]} :: {p[1]} <= {p[0]}")


@given(st.lists(CLAUSE, min_size=2, max_size=4), st.lists(CLAUSE, min_size=1, max_size=2))
def test_a_prefix_is_read_again_as_it_is_in_the_canonical_layout(
    first: list[str], more: list[str]
) -> None:
    opening = render_opening(LOOP, "\n".join(first), "canonical")
    body, reason = read_answer(LOOP, opening, "canonical")
    assert not reason
    prefix = "\n".join(body.split("\n")[:2])
    opening = render_opening(LOOP, prefix, "canonical")
    again, reason = read_answer(LOOP, "\n".join([opening, *more]), "canonical")
    assert not reason
    assert again.startswith(prefix + "\n")


NESTED = """intro e f
cases e with
| inl h =>
  constructor
  · exact h
  · cases f with
    | intro u v =>
      exact v
| inr h =>
  have w : b := by
    exact h
  exact ⟨f, w⟩"""


def test_a_nested_lean_body_is_read_again_line_for_line_in_the_canonical_layout() -> None:
    """Every prefix, shown to the policy and read again, stays as it is, indentation and all."""
    statement = f"theorem t (a b : Prop) : a → b := by\n  {HOLE}\n"
    problem = Problem("t", "lean", "tactics", "", statement)
    body, reason = read_answer(problem, NESTED, "canonical")
    assert not reason
    lines = body.split("\n")
    # In the file every line but the first stands under the hole, in column 2.
    for shown, line in zip(NESTED.split("\n"), lines, strict=True):
        indent = len(shown) - len(shown.lstrip())
        assert len(line) - len(line.lstrip()) == (indent + 2 if line is not lines[0] else 0)
    for end in range(1, len(lines) + 1):
        prefix = "\n".join(lines[:end])
        opening = render_opening(problem, prefix, "canonical")
        assert read_answer(problem, opening, "canonical") == (prefix, "")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"stop_after": 4}, r"until its first proof; set search\.stop_after to 1"),
    ],
)
def test_what_an_evaluation_by_search_cannot_use_is_refused_first(
    given: dict[str, Any], told: str
) -> None:
    config = Config.model_validate({"evaluation": {"search": True}, "search": given})
    with pytest.raises(UsageError, match=told):
        asyncio.run(evaluate_run.evaluate_benchmarks(config, from_run=None, benchmarks={}))


def test_a_missing_verifier_for_second_verdicts_is_told_before_the_first_call(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PROVERRL_DAFNY")
    monkeypatch.setenv("PATH", str(tmp_path))
    verifier = FakeVerifier(lambda _: PROVED)
    monkeypatch.setattr(evaluate_run, "open_configured", lambda *_, **__: verifier)

    async def go() -> None:
        async with open_prover(tiny_policy(), Config(), [LOOP], searches=True):
            pytest.fail("a search would begin")

    with pytest.raises(ToolchainError, match=r"a second time on this machine: Dafny is not inst"):
        asyncio.run(go())


@pytest.mark.slow
def test_real_dafny_confirms_with_fresh_workers() -> None:
    body = "invariant 0 <= at <= count"
    problem: Problem = LOOP

    async def go() -> tuple[Status, Status]:
        confirm = open_confirm(Config())
        try:
            good = await confirm.verify(Candidate(problem, body), deadline_seconds=60)
            bad = await confirm.verify(
                Candidate(problem, "invariant at == count"), deadline_seconds=60
            )
        finally:
            await confirm.aclose()
        return good.status, bad.status

    assert asyncio.run(go()) == (Status.PROVED, Status.REJECTED)
