"""Rollouts of several turns with exact token ids: nothing is tokenised twice, feedback is masked,
calls are counted, and what was not judged ends a rollout."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proverrl.config import LayoutName, RewardConfig, RolloutConfig
from proverrl.errors import RecordError
from proverrl.policy.base import Exchange, require_room
from proverrl.policy.transformers import TransformersPolicy
from proverrl.problems.prompt import NOTHING_BEFORE
from proverrl.rewards import build_reward
from proverrl.rollout.samples import build_rollout_samples
from proverrl.rollout.self_correct import continue_rollouts, resume_within
from proverrl.rollout.whole_proof import JudgedDraw, build_group, draw_groups, judge
from proverrl.run.tally import Tally
from proverrl.seeds import derive_seed
from proverrl.types import (
    Candidate,
    Completion,
    Diagnostic,
    FinishReason,
    Problem,
    Prompt,
    Rollout,
    Sampling,
    Status,
    Turn,
    Verdict,
)
from tests.builders import build_problem
from tests.fake_verifier import FakeVerifier
from tests.policy.test_policy import tiny_policy

PROBLEM_IDS = (1, 2, 3)
FEEDBACK_IDS = (90, 91)


@dataclass
class ScriptedPolicy:
    """Writes what it was told to, one text a completion; ids are 100, 101, ... and 0 ends."""

    texts: list[str]
    version: int = 4
    engine: str = "scripted"
    layout: LayoutName = "plain"
    before = NOTHING_BEFORE
    prompts: list[tuple[int, ...]] = field(default_factory=list)
    feedback: list[str] = field(default_factory=list)
    samplings: list[Sampling] = field(default_factory=list)
    written: int = 0

    def prompt(self, problem: Problem) -> Prompt:
        return Prompt(problem.id, problem.statement, PROBLEM_IDS)

    def resume(self, prompt: Prompt, history: Sequence[Exchange]) -> Prompt:
        ids = prompt.token_ids
        for exchange in history:
            ids += exchange.completion.token_ids + FEEDBACK_IDS
            self.feedback.append(exchange.feedback)
        return Prompt(prompt.problem_id, prompt.text, ids)

    async def generate(
        self, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        self.samplings.append(sampling)
        self.prompts += [prompt.token_ids for prompt in prompts]
        return [[self._write(prompt) for _ in range(n)] for prompt in prompts]

    def _write(self, prompt: Prompt) -> Completion:
        number = self.written
        self.written += 1
        reason: FinishReason = "stop"
        return Completion(
            self.texts[number],
            prompt.token_ids,
            (100 + number, 0),
            (-0.5 - number, -0.25),
            reason,
            self.version,
        )


def judge_by_text(candidate: Candidate) -> Verdict | Status:
    if candidate.body.startswith("good"):
        return Status.PROVED
    if candidate.body.startswith("slow"):
        return Status.TIMEOUT
    return Verdict(Status.REJECTED, (Diagnostic("error", f"no {candidate.body}", 2, 4),))


def take_turns(
    policy: ScriptedPolicy, n: int = 1, *, verifier: FakeVerifier | None = None, **changes: object
) -> tuple[JudgedDraw, FakeVerifier]:
    config = RolloutConfig.model_validate(
        {"mode": "self_correct", "feedback": "compact", **changes}
    )
    verifier = verifier or FakeVerifier(judge_by_text)
    sampling = Sampling(seed=7)

    async def play() -> list[JudgedDraw]:
        problems = [build_problem("p")]
        draws = await draw_groups(policy, problems, n=n, sampling=sampling, name="0")
        judged = [await judge(draw, verifier, deadline_seconds=1.0) for draw in draws]
        return await continue_rollouts(
            judged,
            policy=policy,
            verifier=verifier,
            settings=config,
            sampling=sampling,
            deadline_seconds=1.0,
        )

    [draw] = asyncio.run(play())
    return draw, verifier


def test_a_problem_that_is_drawn_twice_keeps_the_advantages_of_both_groups() -> None:
    policy = ScriptedPolicy(["good", "bad", "bad", "bad", "bad", "bad"])
    problem, tally = build_problem("p"), Tally()

    async def play() -> list[JudgedDraw]:
        problems = [problem, build_problem("q"), problem]
        draws = await draw_groups(policy, problems, n=2, sampling=Sampling(), name="0")
        verifier = FakeVerifier(judge_by_text)
        return [await judge(draw, verifier, deadline_seconds=1.0) for draw in draws]

    groups = []
    for draw in asyncio.run(play()):
        group = build_group(draw.rollouts, build_reward(RewardConfig(), max_new_tokens=9))
        assert group is not None
        tally.add_group(draw, group, num_appeals=0)
        groups.append(group)
    tally.add_step(groups, [[[0.5], [-0.5]], [[0.0], [0.0]], [[0.25], [-0.25]]])
    rows = list(tally.rows(1))
    assert [(row["rollout_id"], row["advantage"]) for row in rows] == [
        ("0-p-0", 0.5),
        ("0-p-1", -0.5),
        ("0-q-0", 0.0),
        ("0-q-1", 0.0),
        ("0-p-again1-0", 0.25),
        ("0-p-again1-1", -0.25),
    ]


@dataclass
class ShortPolicy(ScriptedPolicy):
    """Has no room for a second turn after an answer that was not "bad"."""

    async def generate(
        self, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        rows = [
            None if 101 in prompt.token_ids else [self._write(prompt) for _ in range(n)]
            for prompt in prompts
        ]
        return require_room(prompts, rows, n=n, why="too long")


def test_an_answer_stays_where_there_is_no_room_for_another() -> None:
    policy = ShortPolicy(["bad", "worse", "bad", "good"])
    draw, verifier = take_turns(policy, n=2)
    texts = [[turn.completion.text for turn in rollout.turns] for rollout in draw.rollouts]
    assert texts == [["bad", "bad", "good"], ["worse"]]
    assert [rollout.status for rollout in draw.rollouts] == [Status.PROVED, Status.REJECTED]
    assert [call.body for call in verifier.calls] == ["bad", "worse", "good"]


def test_three_turns_have_these_ids() -> None:
    policy = ScriptedPolicy(["bad", "worse", "good"])
    draw, verifier = take_turns(policy)
    [rollout] = draw.rollouts
    assert [turn.completion.prompt_ids for turn in rollout.turns] == [
        (1, 2, 3),
        (1, 2, 3, 100, 0, 90, 91),
        (1, 2, 3, 100, 0, 90, 91, 101, 0, 90, 91),
    ]
    assert [turn.verdict and turn.verdict.status for turn in rollout.turns] == [
        Status.REJECTED,
        Status.REJECTED,
        Status.PROVED,
    ]
    told = "verification failed, error at line 2: no {}"
    assert [turn.feedback for turn in rollout.turns] == [
        told.format("bad"),
        told.format("worse"),
        "",
    ]
    assert (draw.num_calls, verifier.num_calls, rollout.status) == (3, 3, Status.PROVED)
    assert [s.seed for s in policy.samplings] == [
        7,
        derive_seed(7, "turn", 1),
        derive_seed(7, "turn", 2),
    ]


def test_one_sample_holds_all_turns_with_feedback_masked() -> None:
    draw, _ = take_turns(ScriptedPolicy(["bad", "worse", "good"]))
    [sample] = build_rollout_samples(draw.rollouts[0], [0.5, (0.1, 0.2), -1.0])
    assert sample.rollout_id == "0-p-0/0"
    assert sample.token_ids == (1, 2, 3, 100, 0, 90, 91, 101, 0, 90, 91, 102, 0)
    assert sample.loss_mask == (0, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1)
    assert sample.logprobs == (0, 0, 0, -0.5, -0.25, 0, 0, -1.5, -0.25, 0, 0, -2.5, -0.25)
    assert sample.advantages == (0, 0, 0, 0.5, 0.5, 0, 0, 0.1, 0.2, 0, 0, -1.0, -1.0)
    assert (sample.prompt_length, sample.policy_version) == (3, 4)


def test_history_is_cut_oldest_first_and_the_problem_stays() -> None:
    # A second prompt has 3 + 4 tokens, a third would have 11 and loses its first exchange.
    draw, _ = take_turns(ScriptedPolicy(["bad", "worse", "good"]), history_tokens=10)
    [rollout] = draw.rollouts
    assert [turn.completion.prompt_ids for turn in rollout.turns][1:] == [
        (1, 2, 3, 100, 0, 90, 91),
        (1, 2, 3, 101, 0, 90, 91),
    ]
    first, second = build_rollout_samples(rollout, [1.0, 2.0, 3.0])
    assert first.token_ids == (1, 2, 3, 100, 0, 90, 91, 101, 0)
    assert first.loss_mask == (0, 0, 0, 1, 1, 0, 0, 1, 1)
    assert second.rollout_id == "0-p-0/2"
    assert second.token_ids == (1, 2, 3, 101, 0, 90, 91, 102, 0)
    assert second.loss_mask == (0, 0, 0, 0, 0, 0, 0, 1, 1)  # 101 was learned in the first
    assert second.advantages == (0, 0, 0, 0, 0, 0, 0, 3.0, 3.0)


def test_a_budget_that_fits_no_exchange_shows_the_problem_afresh() -> None:
    draw, _ = take_turns(ScriptedPolicy(["bad", "good"]), history_tokens=2)
    assert draw.rollouts[0].turns[1].completion.prompt_ids == PROBLEM_IDS
    assert len(build_rollout_samples(draw.rollouts[0], [1.0, 1.0])) == 2


def test_history_that_leaves_no_room_in_the_model_is_cut() -> None:
    policy = tiny_policy()
    problem = build_problem("p")
    prompt = policy.prompt(problem)

    def resume(*lengths: int) -> int:
        """Tokens of the next prompt after answers of such lengths."""
        turns = tuple(
            Turn(
                policy.make_completion(prompt.token_ids, (7,) * n, None, stopped=True),
                None,
                None,
                feedback="it failed",
                reason="no answer",
            )
            for n in lengths
        )
        rollout = Rollout("r", problem, "solver", turns)
        return len(resume_within(policy, prompt, rollout, RolloutConfig()).token_ids)

    alone = resume(1) - 1 - len(prompt.token_ids)
    room = policy.context_tokens - len(prompt.token_ids) - alone
    # One token is left for the answer.
    assert resume(room - 1) == policy.context_tokens - 1
    assert resume(room - 1, 5) == resume(5) == len(prompt.token_ids) + alone + 5
    assert resume(room) == len(prompt.token_ids)


def test_a_proof_ends_its_rollout_and_the_others_go_on() -> None:
    policy = ScriptedPolicy(["good", "bad", "slow", "good again"])
    draw, verifier = take_turns(policy, n=3)
    assert [len(rollout.turns) for rollout in draw.rollouts] == [1, 2, 1]
    assert [r.status for r in draw.rollouts] == [Status.PROVED, Status.PROVED, Status.TIMEOUT]
    assert not draw.rollouts[2].status.judged
    assert (draw.num_calls, verifier.num_calls) == (4, 4)


def test_an_unjudged_later_turn_leaves_the_rollout_unjudged() -> None:
    draw, _ = take_turns(ScriptedPolicy(["bad", "slow", "never"]))
    assert [len(r.turns) for r in draw.rollouts] == [2]
    assert draw.rollouts[0].status is Status.TIMEOUT


def test_turns_end_when_they_are_used() -> None:
    draw, verifier = take_turns(ScriptedPolicy(["a", "b", "c"]), turns=2)
    assert len(draw.rollouts[0].turns) == 2
    assert draw.rollouts[0].turns[-1].feedback == ""
    assert verifier.num_calls == 2
    whole, _ = take_turns(ScriptedPolicy(["a"]), mode="whole_proof")
    assert len(whole.rollouts[0].turns) == 1


def test_a_candidate_that_was_judged_costs_no_second_call() -> None:
    # Two rollouts write the same twice: one call for "a" and one for "b".
    draw, verifier = take_turns(ScriptedPolicy(["a", "a", "a", "b", "b", "b"]), n=2)
    assert [call.body for call in verifier.calls] == ["a", "b"]
    assert draw.num_calls == 2
    assert [len(r.turns) for r in draw.rollouts] == [3, 3]


def test_an_answer_without_a_candidate_is_told_why_and_costs_no_call() -> None:
    policy = ScriptedPolicy(["words", "```dafny\ngood\n```"], layout="dafny")
    draw, verifier = take_turns(policy)
    first, second = draw.rollouts[0].turns
    assert (first.candidate, first.verdict) == (None, None)
    assert first.reason == "no code block in the answer"
    assert first.feedback.startswith("No proof was found in the answer: no code block")
    assert second.verdict is not None
    assert second.verdict.proved
    assert verifier.num_calls == 1


def test_a_whole_proof_without_a_candidate_is_rejected() -> None:
    policy = ScriptedPolicy(["words"], layout="dafny")
    draw, verifier = take_turns(policy, mode="whole_proof")
    assert draw.rollouts[0].status is Status.REJECTED
    assert draw.num_calls == verifier.num_calls == 0


def test_feedback_is_in_the_words_of_the_canonical_layout() -> None:
    verdict = Verdict(Status.REJECTED, (Diagnostic("error", "k is too small", 1, 0),))
    policy = ScriptedPolicy(["bad", "good"], layout="canonical")
    draw, _ = take_turns(policy, verifier=FakeVerifier(lambda _: verdict), turns=2)
    assert draw.rollouts[0].turns[0].feedback.endswith(": a is too small")


def test_a_completion_without_token_ids_is_not_learned_from() -> None:
    completion = Completion("x", (), (), (), "stop", 0, missing=("token_ids", "logprobs"))
    rollout = Rollout("r", build_problem("p"), "solver", (Turn(completion, None, None),))
    with pytest.raises(RecordError, match="did not give its token_ids and logprobs"):
        build_rollout_samples(rollout, [1.0])
    with pytest.raises(RecordError, match="calls them missing"):
        Completion("x", (), (1,), (0.0,), "stop", 0, missing=("token_ids",))


def test_advantages_must_be_as_many_as_the_tokens() -> None:
    draw, _ = take_turns(ScriptedPolicy(["good"]))
    with pytest.raises(RecordError, match="3 advantages for a turn of 2 tokens"):
        build_rollout_samples(draw.rollouts[0], [(1.0, 2.0, 3.0)])


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_every_completion_token_is_learned_once_under_its_own_context(
    lengths: list[int], budget: int
) -> None:
    """A rollout built by hand, its history cut at random places."""
    turns: list[Turn] = []
    history: list[tuple[int, ...]] = []
    fresh = iter(range(1000, 2000))
    for length in lengths:
        kept = list(history)
        while kept and budget and len(PROBLEM_IDS) + sum(map(len, kept)) > budget:
            kept.pop(0)
        prompt = PROBLEM_IDS + tuple(token for part in kept for token in part)
        ids = tuple(next(fresh) for _ in range(length))
        turns.append(Turn(Completion("x", prompt, ids, (-1.0,) * length, "stop", 0), None, None))
        history.append(ids + FEEDBACK_IDS)
    rollout = Rollout("r", build_problem("p"), "solver", tuple(turns))
    samples = build_rollout_samples(rollout, [1.0] * len(turns))
    learned = {}
    for sample in samples:
        for place, token in enumerate(sample.token_ids):
            if sample.loss_mask[place]:
                assert token not in learned
                learned[token] = sample.token_ids[:place]
    for turn in turns:
        done = turn.completion.token_ids
        for i, token in enumerate(done):
            assert learned.pop(token) == turn.completion.prompt_ids + done[:i]
    assert learned == {}


def generate_until(policy: TransformersPolicy, stop: tuple[str, ...]) -> list[Completion]:
    prompt = policy.prompt(build_problem("p"))
    sampling = Sampling(max_new_tokens=24, seed=3, stop=stop)
    [completions] = asyncio.run(policy.generate([prompt], n=8, sampling=sampling))
    return completions


def test_a_stop_text_ends_a_completion_with_its_last_token() -> None:
    policy = tiny_policy()
    free = generate_until(policy, ())
    # The text of three tokens from the middle of a completion, so that it spans tokens.
    stop = str(policy.tokenizer.decode(list(free[0].token_ids[4:7])))
    held = generate_until(policy, (stop,))
    assert held[0].token_ids == free[0].token_ids[: len(held[0].token_ids)]
    assert stop in held[0].text
    assert stop not in str(policy.tokenizer.decode(list(held[0].token_ids[:-1])))
    assert held[0].finish_reason == "stop"
    for completion in held:
        if completion.finish_reason == "length":
            assert stop not in completion.text
            assert len(completion.token_ids) == 24


def test_a_real_policy_resumes_on_the_ids_that_it_sampled() -> None:
    policy = tiny_policy()
    verifier = FakeVerifier(lambda _: Status.REJECTED)
    sampling = Sampling(max_new_tokens=6, seed=1)

    async def play() -> list[JudgedDraw]:
        draws = await draw_groups(policy, [build_problem("p")], n=3, sampling=sampling, name="0")
        judged = [await judge(draw, verifier, deadline_seconds=1.0) for draw in draws]
        return await continue_rollouts(
            judged,
            policy=policy,
            verifier=verifier,
            settings=RolloutConfig(mode="self_correct", turns=3),
            sampling=sampling,
            deadline_seconds=1.0,
        )

    [draw] = asyncio.run(play())
    for rollout in draw.rollouts:
        first, second, third = (turn.completion for turn in rollout.turns)
        assert second.prompt_ids[: len(first.prompt_ids + first.token_ids)] == (
            first.prompt_ids + first.token_ids
        )
        whole = second.prompt_ids + second.token_ids
        assert third.prompt_ids[: len(whole)] == whole
        [sample] = build_rollout_samples(rollout, [1.0, 1.0, 1.0])
        assert sample.token_ids == third.prompt_ids + third.token_ids
        assert sum(sample.loss_mask) == sum(len(t.completion.token_ids) for t in rollout.turns)
