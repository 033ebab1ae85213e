"""Hints as exact tokens: where they are cut, what is masked, what is judged; with real Dafny."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proverrl.config import LayoutName, RolloutConfig
from proverrl.errors import RecordError, ToolchainError
from proverrl.lab.restarts.hints import (
    Failure,
    RestartSource,
    RestartUnit,
    cut_opening,
    failed_attempt,
    find_verified,
    read_failure,
    verified_opening,
)
from proverrl.lab.restarts.steps import find_steps
from proverrl.lang.open import open_verifier
from proverrl.policy.loading import train_tokenizer
from proverrl.problems.prompt import render_body, render_opening
from proverrl.rewards import proved_reward
from proverrl.rollout.samples import build_rollout_samples
from proverrl.rollout.self_correct import continue_rollouts
from proverrl.rollout.whole_proof import build_group, draw_groups, judge, judge_all, with_hint
from proverrl.types import (
    HOLE,
    Candidate,
    Diagnostic,
    Group,
    Hint,
    Problem,
    Reward,
    Rollout,
    Sampling,
    Status,
    Verdict,
)
from tests.builders import build_problem, build_turn
from tests.fake_verifier import FakeVerifier
from tests.policy.test_policy import tiny_policy
from tests.rollout.test_proofs import make_store
from tests.rollout.test_self_correct import FEEDBACK_IDS, PROBLEM_IDS, ScriptedPolicy

LOOP = Problem(
    id="loop",
    language="dafny",
    kind="invariants",
    preamble="",
    statement=(
        "method Sum(n: nat) returns (s: nat)\n  ensures s == 2 * n\n{\n  s := 0;\n  var i := 0;\n"
        f"  while i < n\n    {HOLE}\n  {{ i := i + 1; s := s + 2; }}\n}}\n"
    ),
)
REFERENCE = "invariant 0 <= i <= n\ninvariant s == 2 * i"
LEAN = Problem("t", "lean", "tactic", "", f"theorem t : True ∧ True := by\n  {HOLE}\n")
TOKENIZER = train_tokenizer([LOOP.statement, REFERENCE] * 20, vocab_size=400)


def cut(ratio: float, layout: LayoutName = "plain", unit: RestartUnit = "steps") -> Hint:
    hint = cut_opening(
        TOKENIZER, LOOP, REFERENCE, layout, ratio=ratio, unit=unit, source="reference"
    )
    assert hint is not None
    return hint


def ids_of(text: str) -> tuple[int, ...]:
    return tuple(TOKENIZER(text, add_special_tokens=False)["input_ids"])


def test_steps_of_dafny_and_lean_by_hand() -> None:
    assert find_steps("dafny", REFERENCE) == [22]
    assert REFERENCE[22:] == "invariant s == 2 * i"
    body = "if m >= 1 { L(m - 1); }\nassert x;"
    # After "{", after ";", after "}"; a comment or a bracket never closed has no steps.
    assert [body[place] for place in find_steps("dafny", body)] == ["L", "}", "a"]
    assert find_steps("dafny", "assert x; /* open") == []
    assert find_steps("lean", "constructor\n\n  · trivial\n  · trivial") == [13, 25]


def test_a_hint_is_the_first_tokens_of_the_whole_answer() -> None:
    hint = cut(0.25)
    whole = ids_of(REFERENCE)
    num = len(hint.token_ids)
    assert hint.token_ids == whole[:num]
    assert hint.text == TOKENIZER.decode(list(whole[:num]))
    assert REFERENCE.startswith(hint.text)
    # It ends where the second clause begins: no token of that clause is given.
    assert hint.text.rstrip() == "invariant 0 <= i <= n"
    assert hint.ratio == num / len(whole)
    # There is one cut only, so that any share gives it, and never the whole proof.
    assert cut(0.75) == hint


def test_tokens_are_cut_anywhere() -> None:
    whole = ids_of(REFERENCE)
    for ratio in (0.25, 0.5, 0.75, 1.0):
        hint = cut(ratio, unit="tokens")
        assert len(hint.token_ids) == min(len(whole) - 1, round(ratio * len(whole)))
        assert hint.token_ids == whole[: len(hint.token_ids)]


def test_a_body_of_one_step_has_no_hint() -> None:
    assert (
        cut_opening(
            TOKENIZER, LOOP, "invariant x", "plain", ratio=0.5, unit="steps", source="found"
        )
        is None
    )


@pytest.mark.parametrize("layout", ["plain", "canonical", "dafny"])
def test_the_opening_begins_the_answer_in_every_layout(layout: LayoutName) -> None:
    hint = cut(0.5, layout)
    whole = render_body(LOOP, REFERENCE, layout)
    assert whole.startswith(hint.opening)
    assert hint.opening.rstrip() == render_opening(LOOP, REFERENCE[:21], layout)
    if layout == "dafny":
        assert hint.opening.startswith("```dafny\ninvariant 0")


def test_the_opening_of_a_lean_answer_holds_the_statement() -> None:
    opening = render_opening(LEAN, "constructor\n", "kimina")
    assert opening == "```lean4\ntheorem t : True ∧ True := by\n  constructor\n"
    assert render_body(LEAN, "constructor\n  · trivial", "kimina").startswith(opening)


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="ab {};\né∀", max_size=40), st.floats(0.0, 1.0))
def test_a_hint_is_always_a_proper_beginning(body: str, ratio: float) -> None:
    for unit in get_args(RestartUnit):
        hint = cut_opening(TOKENIZER, LOOP, body, "plain", ratio=ratio, unit=unit, source="found")
        if hint is not None:
            assert body.startswith(hint.text)
            assert hint.token_ids == ids_of(body)[: len(hint.token_ids)]
            assert 0 < len(hint.token_ids) < len(ids_of(body))


def draw_hinted(texts: list[str], hint: Hint, problem: Problem = LOOP) -> list[Rollout]:
    policy = ScriptedPolicy(texts)
    sampling = Sampling(max_new_tokens=8, seed=0)

    def verdict(candidate: Candidate) -> Status:
        return Status.PROVED if candidate.body == REFERENCE else Status.REJECTED

    async def go() -> list[Rollout]:
        draws = await draw_groups(
            policy, [problem], n=len(texts), sampling=sampling, name="0", hints=[hint]
        )
        assert policy.prompts == [PROBLEM_IDS + hint.token_ids]
        judged = await judge(draws[0], FakeVerifier(verdict), deadline_seconds=1.0)
        return list(judged.rollouts)

    return asyncio.run(go())


def test_the_whole_body_is_judged_and_the_hint_is_masked() -> None:
    hint = Hint("reference", 0.5, REFERENCE[:22], (50, 51, 52))
    right, wrong = draw_hinted([REFERENCE[22:], "invariant false"], hint)
    assert right.id == "0-loop-hint-0"
    assert right.turns[0].candidate == Candidate(LOOP, REFERENCE)
    assert right.status is Status.PROVED
    assert wrong.turns[0].candidate == Candidate(LOOP, REFERENCE[:22] + "invariant false")
    assert wrong.status is Status.REJECTED
    (sample,) = build_rollout_samples(right, [1.0])
    assert sample.token_ids == (*PROBLEM_IDS, 50, 51, 52, 100, 0)
    assert sample.loss_mask == (0, 0, 0, 0, 0, 0, 1, 1)
    assert sample.advantages == (0.0,) * 6 + (1.0, 1.0)
    assert sample.logprobs == (0.0,) * 6 + (-0.5, -0.25)
    assert sample.prompt_length == 6


def test_a_group_is_a_problem_and_a_length() -> None:
    short, long = (Hint("found", n / 4, "x", (7,) * n) for n in (1, 2))
    turn = build_turn(LOOP, Status.PROVED)
    bare, one, two = (Rollout("r", LOOP, "solver", (turn,), h) for h in (None, short, long))
    assert [r.group_key for r in (bare, one, two)] == [
        ("solver", "loop"),
        ("solver", "loop + found 1"),
        ("solver", "loop + found 2"),
    ]
    with pytest.raises(RecordError, match="does not belong"):
        Group(bare.group_key, (bare, one), (Reward(1.0), Reward(1.0)))
    group = build_group([one, one], proved_reward)
    assert group is not None
    assert group.key == one.group_key


def test_a_second_turn_follows_the_hint_and_what_was_written_after_it() -> None:
    hint = Hint("reference", 0.5, "a\n", (50, 51))
    policy = ScriptedPolicy(["bad", "good"])

    async def go() -> Rollout:
        draws = await draw_groups(policy, [LOOP], n=1, sampling=Sampling(), name="0", hints=[hint])
        verifier = FakeVerifier(lambda c: Status.PROVED if c.body == "good" else Status.REJECTED)
        judged = await judge_all(draws, verifier, deadline_seconds=1.0)
        (done,) = await continue_rollouts(
            judged,
            policy=policy,
            verifier=verifier,
            settings=RolloutConfig(mode="self_correct", turns=2),
            sampling=Sampling(),
            deadline_seconds=1.0,
        )
        return done.rollouts[0]

    rollout = asyncio.run(go())
    assert policy.prompts[1] == (*PROBLEM_IDS, 50, 51, 100, 0, *FEEDBACK_IDS)
    first, second = rollout.turns
    assert first.candidate == Candidate(LOOP, "a\nbad")
    # The second answer is a new one.
    assert second.candidate == Candidate(LOOP, "good")
    (sample,) = build_rollout_samples(rollout, [1.0, 1.0])
    assert sample.loss_mask == (0,) * 5 + (1, 1) + (0,) * 2 + (1, 1)


def test_a_proof_with_help_is_kept_marked_until_it_is_found_without() -> None:
    turn = build_turn(LOOP, Status.PROVED, (10, 11))
    hint = Hint("reference", 0.5, "bo", (7, 8, 9))
    helped = Rollout("a", LOOP, "solver", (turn,), hint)
    store = make_store()
    store.add(helped)
    (proof,) = store.proofs["loop"]
    assert (proof.num_tokens, proof.hinted) == (5, True)
    again = make_store()
    again.load_state_dict(store.state_dict())
    assert again.proofs == store.proofs
    store.add(replace(helped, hint=None))
    (proof,) = store.proofs["loop"]
    assert (proof.num_tokens, proof.hinted) == (2, False)
    store.add(helped)
    assert store.proofs["loop"] == [proof]


def failing(line: int | None, column: int = 0) -> Verdict:
    error = Diagnostic("error", "no", body_line=line, body_column=column)
    return Verdict(Status.REJECTED, (error,))


def test_a_failed_answer_is_verified_up_to_the_step_of_its_first_error() -> None:
    body = "A();\nB(); C();\nD();"
    # Steps begin at 5 (B), 10 (C) and 15 (D).
    assert find_verified(LOOP, body, failing(2, 6)) == 10
    assert find_verified(LOOP, body, failing(2, 5)) == 10
    assert find_verified(LOOP, body, failing(2, 4)) == 5
    assert find_verified(LOOP, body, failing(1, 2)) == 0
    assert find_verified(LOOP, body, failing(None)) == 0


def test_a_failure_holds_the_whole_answer() -> None:
    turn = build_turn(LOOP, Status.REJECTED, (10, 11))
    hint = Hint("found", 0.5, "bo", (7, 8, 9))
    failure = read_failure(Rollout("a", LOOP, "solver", (turn,), hint), "told")
    assert failure == Failure("body", 0, "bobody", (7, 8, 9, 10, 11), "told")
    # After a failed attempt the answer is a new one.
    other = replace(hint, source="failed_attempt")
    failure = read_failure(Rollout("a", LOOP, "solver", (turn,), other), "told")
    assert failure == Failure("body", 0, "body", (10, 11), "told")
    for status in (Status.PROVED, Status.TIMEOUT, Status.UNSOUND):
        unfit = Rollout("a", LOOP, "solver", (build_turn(LOOP, status),))
        assert read_failure(unfit, "told") is None


def test_a_failed_attempt_is_followed_by_its_feedback_and_a_new_answer() -> None:
    policy = tiny_policy()
    problem = build_problem("p")
    end = policy.end_id
    ids = tuple(policy.tokenizer("invariant x", add_special_tokens=False)["input_ids"])
    failure = Failure("invariant x", 0, "invariant x", (*ids, end), "it does not hold")
    hint = failed_attempt(policy, problem, failure)
    assert hint.opening == ""
    assert hint.token_ids[: len(ids) + 1] == (*ids, end)
    said = policy.tokenizer.decode(list(hint.token_ids[len(ids) + 1 :]))
    assert said == "\n// verifier\nit does not hold\n// body\n"
    prompt = with_hint(policy.prompt(problem), hint)
    assert prompt.token_ids == policy.prompt(problem).token_ids + hint.token_ids
    assert with_hint(prompt, None) is prompt


def test_the_sources_are_those_of_the_configuration() -> None:
    assert set(get_args(RestartSource)) == {
        "found",
        "reference",
        "failed_prefix",
        "failed_attempt",
    }


@pytest.mark.slow
@pytest.mark.usefixtures("recorded_dafny")
def test_real_dafny_proves_a_hint_and_the_right_rest() -> None:
    """Nothing is believed of a hint: with a wrong rest it is refused, and what it lacks too."""
    hint = cut(0.25)
    rest = REFERENCE[len(hint.text) :]
    wrong = "invariant s == 3 * i"

    async def verdicts() -> tuple[list[Rollout], Verdict]:
        try:
            verifier = open_verifier(workers=1)
        except ToolchainError as error:
            pytest.skip(str(error))
        try:
            policy = ScriptedPolicy([rest, wrong, ""])
            draws = await draw_groups(
                policy, [LOOP], n=3, sampling=Sampling(), name="0", hints=[hint]
            )
            (judged,) = await judge_all(draws, verifier, deadline_seconds=60.0)
            bad = Candidate(LOOP, f"{hint.text.rstrip()}\n{wrong}")
            return list(judged.rollouts), await verifier.verify(bad, deadline_seconds=60.0)
        finally:
            await verifier.aclose()

    rollouts, bad = asyncio.run(verdicts())
    assert [r.status for r in rollouts] == [Status.PROVED, Status.REJECTED, Status.REJECTED]
    assert rollouts[0].turns[0].candidate == Candidate(LOOP, REFERENCE)
    # The error stands in the second clause: the first is the verified beginning.
    body = f"{hint.text.rstrip()}\n{wrong}"
    assert find_verified(LOOP, body, bad) == 22
    failure = Failure(body, find_verified(LOOP, body, bad), body, ids_of(body), "")
    opening = verified_opening(TOKENIZER, LOOP, failure, "plain")
    assert opening is not None
    assert (opening.source, opening.opening.rstrip()) == ("failed_prefix", REFERENCE[:21])
