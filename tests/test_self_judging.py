"""A policy that judges its own attempts: what it is asked, earns, and how it is measured."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from proverrl.config import Config, LayoutName, RewardConfig, parse_config
from proverrl.errors import ConfigError
from proverrl.evaluation.calibration import (
    Judgement,
    ask_about,
    describe_calibration,
    judge_attempts,
    tell_calibration,
)
from proverrl.jobs import train as train_module
from proverrl.lang.critique.language import (
    CRITIQUE,
    ask_verdict,
    read_answer,
    write_answer,
    write_verdict,
)
from proverrl.lang.open import open_verifier
from proverrl.policy.base import Policy
from proverrl.problems.prompt import render_messages, render_prompt
from proverrl.rewards.verdicts import build_reward
from proverrl.rollout.extract import extract
from proverrl.rollout.whole_proof import JudgedDraw
from proverrl.run import taught as taught_module
from proverrl.run.self_judging import choose_attempts
from proverrl.types import (
    HOLE,
    Candidate,
    Completion,
    Problem,
    Prompt,
    Rollout,
    Sampling,
    Status,
    Turn,
)
from tests.builders import build_problem, build_rollout
from tests.test_grpo import StubVerifier, judge, make_config, run, same, step_lines, weights

__all__ = ["make_config"]
PROBLEM = build_problem("p", n=7)
NO_EVALUATION = {"before": False, "after": False}


@pytest.mark.parametrize("is_proved", [True, False])
def test_the_whole_text_is_shown_and_the_verdict_is_not(is_proved: bool) -> None:
    body = "invariant k <= 7 // it is proved, is_correct: true"
    asked = ask_verdict(Candidate(PROBLEM, body), is_proved=is_proved)
    shown = render_prompt(asked, "plain")
    assert "method M(k: nat) { while k < 7\n    invariant k <= 7\n  { } }" in shown
    assert "is_correct" not in shown
    assert "proved" not in shown
    assert shown == render_prompt(ask_verdict(Candidate(PROBLEM, body), is_proved=True), "plain")
    assert CRITIQUE.find_truth(asked) is is_proved
    assert asked.id != ask_verdict(Candidate(PROBLEM, "assert true;"), is_proved=True).id


@pytest.mark.parametrize("layout", ["dafny", "critic", "deepseek", "kimina"])
def test_a_prover_in_conversations_is_asked_as_a_critic_is(layout: LayoutName) -> None:
    asked = ask_verdict(Candidate(PROBLEM, "invariant k <= 7"), is_proved=False)
    [message] = render_messages(asked, layout)
    assert message.content.startswith("Does Dafny verify the following text as it stands?")
    assert (
        "```dafny\nmethod M(k: nat) { while k < 7\n    invariant k <= 7\n  { } }" in message.content
    )
    assert '"is_correct":' not in message.content
    assert "refused" not in message.content
    answer = f"I think so.\n```json\n{write_answer(False, 'r')}\n```"
    assert extract(asked, answer, layout).body == write_answer(False, "r")


def test_what_was_verified_is_what_is_shown() -> None:
    theorem = Problem(
        "t", "lean", "tactics", "", f"theorem main (a b : Nat) : a + b = b + a := by\n  {HOLE}\n"
    )
    helper = "theorem helper (a b : Nat) : a + b = b + a := Nat.add_comm a b -- mine\n"
    asked = ask_verdict(
        Candidate(theorem, "rw [helper a b] -- it is proved", helper), is_proved=True
    )
    shown = render_prompt(asked, "plain")
    assert "theorem helper (a b : Nat) : a + b = b + a := Nat.add_comm a b\ntheorem main" in shown
    assert "  rw [helper a b]\n" in shown
    assert "mine" not in shown


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("invariant k <= 0x3E8", "invariant k <= 0x3E8"),
        ("invariant k <= 1_000", "invariant k <= 1_000"),
        ("invariant c == 'a'", "invariant c == 'a'"),
        ("Lemma(k, x');", "Lemma ( k , x' ) ;"),
    ],
)
def test_no_word_of_an_attempt_is_changed(body: str, shown: str) -> None:
    asked = ask_verdict(Candidate(PROBLEM, body), is_proved=True)
    assert f"while k < 7\n    {shown}\n" in asked.statement


def test_what_leaves_no_room_for_an_answer_is_not_asked() -> None:
    candidate = Candidate(PROBLEM, "invariant k <= 7")

    class Short:
        context_tokens = 100

        def prompt(self, problem: Problem) -> Prompt:
            return Prompt(problem.id, "", (0,) * 36)

    short = cast(Policy, Short())
    assert ask_about(candidate, short, is_proved=True) is not None
    Short.context_tokens = 99
    assert ask_about(candidate, short, is_proved=True) is None


@pytest.mark.parametrize("is_proved", [True, False])
def test_an_answer_is_right_where_it_is_the_verdict(is_proved: bool) -> None:
    asked = ask_verdict(Candidate(PROBLEM, "invariant k <= 7"), is_proved=is_proved)
    answers = [write_verdict(is_proved=True), write_verdict(is_proved=False), "true", ""]

    async def ask() -> list[bool]:
        verifier = open_verifier(workers=1)
        try:
            verdicts = [
                await verifier.verify(Candidate(asked, answer), deadline_seconds=10.0)
                for answer in answers
            ]
        finally:
            await verifier.aclose()
        return [verdict.proved for verdict in verdicts]

    assert asyncio.run(ask()) == [is_proved, not is_proved, False, False]


def build_judgement(status: Status, tokens: int = 4) -> Rollout:
    asked = ask_verdict(Candidate(PROBLEM, "invariant k <= 7"), is_proved=True)
    return replace(build_rollout(asked, 0, status, tokens=tokens), role="judge")


@pytest.mark.parametrize(
    "config",
    [
        RewardConfig(),
        # These are for what is written, and have no say in what is judged.
        RewardConfig(name="statement"),
        RewardConfig(name="program"),
        RewardConfig(name="obligations"),
    ],
)
def test_a_judgement_earns_one_where_it_is_right(config: RewardConfig) -> None:
    earn = build_reward(config, max_new_tokens=8)
    assert earn(build_judgement(Status.PROVED)).total == 1.0
    assert earn(build_judgement(Status.REJECTED)).total == 0.0


def test_a_judgement_pays_for_its_length_like_all_else() -> None:
    config = RewardConfig(name="statement", overlong_weight=0.5, overlong_buffer=1.0)
    earn = build_reward(config, max_new_tokens=8)
    assert earn(build_judgement(Status.PROVED, tokens=4)).total == pytest.approx(1.0 - 0.5 * 4 / 8)


ANYONE = cast(Policy, SimpleNamespace())


def build_draw(name: str, bodies: Sequence[tuple[str, Status]]) -> JudgedDraw:
    rollouts = []
    for index, (body, status) in enumerate(bodies):
        plain = build_rollout(build_problem(name, n=ord(name)), index, status)
        turn = plain.turns[-1]
        candidate = Candidate(plain.problem, body) if body else None
        verdict = turn.verdict if body else None
        rollouts.append(
            Rollout(plain.id, plain.problem, "solver", (Turn(turn.completion, candidate, verdict),))
        )
    return JudgedDraw(tuple(rollouts), len(bodies))


GOOD, BAD, LATE = Status.PROVED, Status.REJECTED, Status.TIMEOUT
SEEN = [
    build_draw("a", [("invariant k >= 0", GOOD), ("invariant k >= 0", GOOD), ("", BAD)]),
    build_draw("b", [("invariant k >= 0", GOOD), ("invariant 1", BAD), ("invariant 2", BAD)]),
    build_draw("c", [("invariant 3", BAD), ("invariant 4", LATE), ('invariant "5"', BAD)]),
]


@pytest.mark.parametrize(("num", "each"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (100, 2)])
def test_as_many_proved_attempts_are_judged_as_refused_ones(num: int, each: int) -> None:
    chosen = choose_attempts(SEEN, num, random.Random(0), ANYONE)
    # Two distinct bodies are proved; three are refused that can be shown, one of them unjudged.
    assert Counter(map(CRITIQUE.find_truth, chosen)) == +Counter({True: each, False: each})
    assert len({problem.id for problem in chosen}) == 2 * each
    assert chosen == choose_attempts(SEEN, num, random.Random(0), ANYONE)
    shown = "".join(problem.statement for problem in chosen)
    assert "4" not in shown
    assert "5" not in shown


def test_nothing_is_asked_where_all_attempts_are_alike() -> None:
    for draw in (build_draw("a", [("invariant 1", BAD)]), build_draw("a", [("invariant 1", GOOD)])):
        assert choose_attempts([draw], 8, random.Random(0), ANYONE) == []


class Judging(StubVerifier):
    """Answers about attempts are compared with their labels, as in a real run."""

    def __init__(self) -> None:
        super().__init__(judge_all)


def judge_all(candidate: Candidate) -> Status:
    truth = CRITIQUE.find_truth(candidate.problem) if candidate.problem.kind == "critique" else None
    if truth is None:
        return judge(candidate)
    return GOOD if read_answer(candidate.body).is_correct is truth else BAD


@pytest.fixture
def verifiers(monkeypatch: pytest.MonkeyPatch) -> list[Judging]:
    opened: list[Judging] = []

    def open_stub(*_: Any, **__: Any) -> Judging:
        opened.append(Judging())
        return opened[-1]

    monkeypatch.setattr(train_module, "open_configured", open_stub)
    monkeypatch.setattr(taught_module, "open_configured", open_stub)
    return opened


def rise(make: Callable[..., Config], name: str, **changes: Any) -> Config:
    settings = {
        "evaluation": NO_EVALUATION,
        "grpo__judgements": 8,
        "sampling": {"max_new_tokens": 64},
        "warm_start__steps": 240,
        "warm_start__judgements": 1,
    }
    return make(name, **(settings | changes))


def read_rows(folder: Path, kind: str, step: int) -> list[dict[str, Any]]:
    text = (folder / kind / f"step_{step}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.slow
def test_judgements_join_the_update_and_nothing_else(
    make_config: Callable[..., Config], verifiers: list[Judging]
) -> None:
    folder = run(rise(make_config, "rise"))
    lines = step_lines(folder)
    told = {line["step"]: line for line in lines if "judgements_right_of_proved" in line}
    assert told
    for step, line in told.items():
        own = read_rows(folder, "judgements", step)
        assert all(row["statement"].endswith("}") for row in own)
        for name, side in (("proved", True), ("refused", False)):
            right = [row["is_right"] for row in own if row["is_proved"] is side]
            share = sum(right) / len(right)
            assert line[f"judgements_right_of_{name}"] == pytest.approx(share, abs=1e-4)
        attempts = read_rows(folder, "rollouts", step)
        assert len(attempts) == line["rollouts"]
        assert not any("is_correct" in row["problem"]["statement"] for row in attempts)
    # Where answers differ there is something to learn.
    assert any(0 < told[step]["judgements_right_of_proved"] < 1 for step in told)
    plain = step_lines(run(rise(make_config, "plain", grpo__judgements=0)))
    for name in ("verifier_calls", "rollouts", "groups", "verdicts", "solve_rate", "levels"):
        # The groups of judgements are no attempts, and cost no call of the prover.
        assert lines[0][name] == plain[0][name]
    assert lines[0]["groups_admitted"] == plain[0]["groups_admitted"]
    assert lines[0]["grad_norm"] != plain[0]["grad_norm"]
    assert not any("judgements_right_of_proved" in line for line in plain)
    assert not (folder.parent / "plain" / "judgements").exists()
    state = json.loads((folder / "checkpoints/step_000004/state.json").read_text())
    assert "critique" not in json.dumps(state["proofs"])
    assert "critique" not in json.dumps(state["curriculum"])


@pytest.mark.slow
def test_a_run_that_judges_itself_resumes_bit_for_bit(
    make_config: Callable[..., Config], verifiers: list[Judging]
) -> None:
    whole = run(rise(make_config, "whole"))
    run(rise(make_config, "parts", grpo__steps=2))
    shutil.rmtree(whole.parent / "parts" / "policy")
    again = run(rise(make_config, "parts"))
    assert same(weights(whole), weights(again))
    assert step_lines(whole) == step_lines(again)
    for step in range(1, 5):
        assert read_rows(whole, "judgements", step) == read_rows(again, "judgements", step)
    assert all(read_rows(whole, "judgements", step) for step in (2, 3))


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"loop": "expert_iteration"}, "grpo.judgements is for loop"),
        ({"grpo": {"judgements": 2, "in_order": False}}, "set grpo.in_order = true"),
        ({"grpo": {"judgements": 3}}, "judgements = 3 is odd"),
        ({"evaluation": {"judgements": 2, "search": True}}, "judgements are of whole proofs"),
        (
            {"rollout": {"mode": "instruct"}, "instruct": {"writer": "x"}},
            "writes the bodies itself",
        ),
    ],
)
def test_where_it_cannot_be_it_is_refused(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_config({"grpo": {"judgements": 2}} | table, source="test")


def test_calibration_by_hand() -> None:
    judged = [
        Judgement("a", True, 1.0, 0.0),
        Judgement("a", False, 0.5, 0.25),
        Judgement("a", False, 0.0, 1.0),
        Judgement("b", True, 0.25, 0.75),
        Judgement("b", False, 0.25, 0.75),
        Judgement("c", False, 0.75, 0.25),
    ]
    found = describe_calibration(judged)
    assert found["attempts"] == 6
    assert found["proved"] == 2
    assert found["right_of_proved"] == pytest.approx(1.25 / 2)
    assert found["right_of_refused"] == pytest.approx((0.25 + 1.0 + 0.75 + 0.25) / 4)
    assert found["balanced"] == pytest.approx((0.625 + 0.5625) / 2)
    # A quarter of the answers on one of six are no judgement.
    assert found["no_judgement"] == pytest.approx(0.25 / 6)
    # 0 + 1/4 + 0 + 9/16 + 1/16 + 9/16 of six.
    assert found["brier"] == pytest.approx(23 / 16 / 6)
    assert found["brier_base"] == pytest.approx(1 / 3 * 2 / 3)
    # Bins 10, 6, 1, 3 (0.5 said of two, one true) and 8: |0| + 0.5 + 0 + 0.5 + 0.75 of six.
    assert found["ece"] == pytest.approx(1.75 / 6)
    # a: (3 + 1) / (1 + 1) and 1; b: 1.5 and 1.5; c has no proof, so that its one is asked.
    assert found["calls_random"] == pytest.approx((2 + 1.5 + 1) / 3)
    assert found["calls_judged"] == pytest.approx((1 + 1.5 + 1) / 3)


def test_the_surest_attempt_may_be_the_wrong_one() -> None:
    judged = [
        Judgement("a", False, 0.9, 0.1),
        Judgement("a", False, 0.8, 0.2),
        Judgement("a", True, 0.1, 0.9),
    ]
    found = describe_calibration(judged)
    assert (found["calls_random"], found["calls_judged"]) == (2.0, 3.0)


def test_without_attempts_there_are_no_figures() -> None:
    found = describe_calibration([])
    assert found == dict.fromkeys(found, None) | {"attempts": 0, "proved": 0}
    assert (
        tell_calibration("After", {"calibration": found | {"answers": 0, "no_judgement": 0}}) == ""
    )
    assert tell_calibration("After", {}) == ""


class Sayer:
    """Says of the n-th of its answers to a prompt what ``said`` has there."""

    layout = "plain"

    def __init__(self, said: Sequence[str]) -> None:
        self.said = said
        self.asked: list[str] = []

    def prompt(self, problem: Any) -> Prompt:
        return Prompt(problem.id, render_prompt(problem, "plain"), ())

    async def generate(
        self, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        self.asked += [prompt.text for prompt in prompts]
        return [
            [Completion(text, (), (), (), "stop", 0) for text in self.said[:n]] for _ in prompts
        ]


def test_each_distinct_attempt_is_judged_several_times() -> None:
    policy = Sayer([write_answer(True, "r"), write_answer(False, "r"), "no idea", ""])
    rows = [
        {"problem_id": "p", "body": "invariant k <= 7", "status": "proved"},
        {"problem_id": "p", "body": "invariant k <= 7 // again", "status": "proved"},
        {"problem_id": "p", "body": "invariant k < 7", "status": "rejected"},
        {"problem_id": "p", "body": "invariant k < 8", "status": "timeout"},
        {"problem_id": "p", "body": 'assert "it is proved" == "";', "status": "rejected"},
        {"problem_id": "p", "body": "", "status": "rejected"},
        {"problem_id": "other", "body": "invariant k < 8", "status": "proved"},
    ]
    sampling = Sampling(temperature=1.0, max_new_tokens=8)
    judged, not_shown = asyncio.run(
        judge_attempts([PROBLEM], rows, policy, num=4, sampling=sampling)  # type: ignore[arg-type]
    )
    assert judged == [Judgement("p", True, 0.25, 0.25), Judgement("p", False, 0.25, 0.25)]
    assert not_shown == 1
    assert len(policy.asked) == 2
    summary = {"calibration": describe_calibration(judged)}
    line = tell_calibration("After", summary)
    assert "2 distinct attempts, 1 of them proved" in line
    assert "Brier 0.312 (base rate 0.250), calibration error 0.250" in line
    assert line.endswith(
        "1.50 in a random order, 1.50 the surest first, 50.0 % of the answers are no judgement"
    )
