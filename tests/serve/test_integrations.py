"""Proofs as rewards inside other trainers: what each is given for which answer."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from proverrl.config import parse_config
from proverrl.errors import ProblemError, UsageError
from proverrl.integrations import answers
from proverrl.integrations.answers import NO_ANSWER, ProofReward, make_rows, parse_problem
from proverrl.integrations.trl import make_reward
from proverrl.problems.load import load_references, make_row
from proverrl.types import Candidate, Status
from proverrl.verifier.cache import CachedVerifier
from tests import ROOT
from tests.builders import build_problem
from tests.fake_verifier import FakeVerifier
from tests.policy.test_policy import tiny_policy

CURRICULUM = ROOT / "dafny" / "curriculum" / "heldout.jsonl"
PROBLEM = json.dumps(make_row(build_problem("p", n=3)))


def judge(candidate: Candidate) -> Status:
    for word, status in (("good", Status.PROVED), ("slow", Status.TIMEOUT)):
        if word in candidate.body:
            return status
    return Status.REJECTED


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeVerifier:
    verifier = FakeVerifier(judge)
    cached = CachedVerifier(verifier, None, identify=verifier.identify)
    monkeypatch.setattr(answers, "open_verifier", lambda **_: cached)
    return verifier


@pytest.fixture
def reward(fake: FakeVerifier) -> Iterator[ProofReward]:
    made = ProofReward()
    yield made
    made.close()


def test_a_fork_after_the_first_answer_is_an_error_and_no_hang(reward: ProofReward) -> None:
    reward.score([PROBLEM], ["good"])
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        status = 1
        try:
            reward.close()
            reward.score([PROBLEM], ["good"])
        except UsageError:
            status = 7
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert reward.score([PROBLEM], ["good"])[0].reward == 1.0


def test_each_answer_has_its_score_and_equal_ones_are_judged_once(
    reward: ProofReward, fake: FakeVerifier
) -> None:
    given = ["good", "bad", "slow", "```python\ngood\n```", "good"]
    scores = reward.score([PROBLEM] * 5, given)
    assert [score.reward for score in scores] == [1.0, 0.0, None, 0.0, 1.0]
    assert [s.status for s in scores] == ["proved", "rejected", "timeout", NO_ANSWER, "proved"]
    assert scores[3].said == "no dafny code block, only python"
    assert sorted(candidate.body for candidate in fake.calls) == ["bad", "good", "slow"]


def test_it_can_be_asked_on_any_loop_and_after_it_was_closed(reward: ProofReward) -> None:
    async def ask() -> list[float | None]:
        many = await asyncio.gather(*(reward.ascore([PROBLEM], ["good"]) for _ in range(5)))
        return [score.reward for (score,) in many]

    assert asyncio.run(ask()) == [1.0] * 5
    assert asyncio.run(ask()) == [1.0] * 5
    messages = [{"role": "assistant", "content": "good"}]
    assert reward.score([PROBLEM], [messages])[0].reward == 1.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"id": "p"}', "language"),
    ],
)
def test_a_column_that_is_no_problem(reward: ProofReward, text: str, said: str) -> None:
    with pytest.raises(ProblemError, match=said):
        reward.score([text], ["good"])


def test_rows_hold_what_the_reward_reads() -> None:
    rows = make_rows(CURRICULUM, "dafny")
    assert [message["role"] for message in rows[0]["prompt"]] == ["system", "user"]
    problem = parse_problem(rows[0]["problem"])
    assert problem.statement in rows[0]["prompt"][1]["content"] + "\n```\n"
    assert make_rows(CURRICULUM, "plain")[0]["prompt"].endswith("// body\n")
    with pytest.raises(ProblemError, match="layout 'goedel' for lean"):
        make_rows(CURRICULUM, "goedel")


def test_trl_leaves_out_what_was_not_judged(reward: ProofReward) -> None:
    logged: dict[str, float] = {}
    given = {"prompts": ["x"] * 4, "completion_ids": [[1]] * 4, "trainer_state": None}
    proved = make_reward(reward)
    scores = asyncio.run(
        proved(
            completions=["good", "slow", "bad", "```python\n```"],
            problem=[PROBLEM] * 4,
            log_metric=logged.__setitem__,
            **given,
        )
    )
    assert scores == [1.0, None, 0.0, 0.0]
    assert logged == {"proofs/proved": 0.25, "proofs/no_answer": 0.25, "proofs/unjudged": 0.25}
    with pytest.raises(ProblemError, match="no column 'problem'"):
        asyncio.run(proved(completions=["good"], **given))


def test_answers_that_are_none_or_endless(reward: ProofReward, fake: FakeVerifier) -> None:
    answers = [None, "good" * 2**17 + "!", "good" * 2**17]
    found = reward.score([PROBLEM] * 3, answers)
    assert [score.reward for score in found] == [0.0, 0.0, 1.0]
    assert found[1].said == "longer than 524288 characters"
    assert fake.num_calls == 2
    for broken in (7, [7], {"role": "assistant"}, [{"content": [7]}]):
        with pytest.raises(UsageError, match="a completion is a text or a list of messages"):
            reward.score([PROBLEM], [broken])


def test_what_is_misspelt_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown layout 'daphny'; known are: plain"):
        make_rows(CURRICULUM, "daphny")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="unknown layout 'foo'"):
        ProofReward(layout="foo")  # type: ignore[arg-type]
    reward = ProofReward(servers="http://127.0.0.1:9")
    with pytest.raises(UsageError, match=r"http://127\.0\.0\.1:9 cannot be asked"):
        reward.score([PROBLEM], ["good"])
    reward.close()
    pool = parse_config({"pool": {"servers": "http://s"}}, source="test").pool
    assert pool.servers == ("http://s",)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("good", "good"),
        ([], ""),
        ([{"role": "assistant", "content": "good"}], "good"),
        (
            [{"role": "assistant", "content": [{"type": "text", "text": "go"}, {"text": "od"}]}],
            "good",
        ),
        # What a tool said is not the policy's answer.
        ([{"role": "assistant", "content": "mine"}, {"role": "tool", "content": "good"}], "mine"),
        ([{"role": "assistant", "tool_calls": []}], ""),
        ([{"role": "assistant", "content": ["go", {"text": "od"}]}], "good"),
        (None, ""),
    ],
)
def test_the_answer_of_a_conversation_is_the_last_that_the_policy_said(
    answer: Any, text: str
) -> None:
    assert answers.read_answer(answer) == text


@pytest.mark.dafny
@pytest.mark.slow
def test_references_earn_1_on_real_dafny() -> None:
    rows = make_rows(CURRICULUM, "dafny")[:3]
    bodies = list(load_references(CURRICULUM).values())[:3]
    fenced = [f"So:\n```dafny\n{body}\n```" for body in (*bodies, "", "assert false;")]
    problems = [row["problem"] for row in (*rows, rows[0], rows[0])]
    reward = ProofReward(layout="dafny", workers=1)
    try:
        assert [s.reward for s in reward.score(problems, fenced)] == [1.0, 1.0, 1.0, 0.0, 0.0]
    finally:
        reward.close()


@pytest.mark.dafny
@pytest.mark.slow
def test_trl_trains_with_it(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    trl = pytest.importorskip("trl")
    tiny_policy().save(tmp_path / "policy")
    rows = make_rows(CURRICULUM, "plain")[:4]
    seen: list[Sequence[float | None]] = []
    reward = ProofReward(layout="plain", workers=1)
    inner = make_reward(reward)

    async def proved(**given: Any) -> list[float | None]:
        seen.append(await inner(**given))
        return list(seen[-1])

    trainer = trl.GRPOTrainer(
        model=str(tmp_path / "policy"),
        reward_funcs=proved,
        args=trl.GRPOConfig(
            output_dir=str(tmp_path / "trl"),
            per_device_train_batch_size=4,
            num_generations=2,
            max_completion_length=8,
            max_steps=2,
            bf16=False,
            use_cpu=True,
            gradient_checkpointing=False,
            model_init_kwargs={"dtype": "float32"},
            report_to=[],
            logging_steps=1,
            save_strategy="no",
            disable_tqdm=True,
        ),
        train_dataset=datasets.Dataset.from_list(rows),
    )
    try:
        trainer.train()
    finally:
        reward.close()
    assert [len(scores) for scores in seen] == [4, 4]
    history = [row for row in trainer.state.log_history if "proofs/unjudged" in row]
    assert [row["proofs/unjudged"] for row in history] == [0.0, 0.0]
    num_proved = sum(score == 1.0 for scores in seen for score in scores)
    assert sum(4 * row["proofs/proved"] for row in history) == num_proved
