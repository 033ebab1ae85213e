"""What a policy is given after a prefix, what is read of its answer, batches and seeds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from proverrl.config import EndpointConfig, LayoutName, RolloutConfig
from proverrl.errors import UsageError
from proverrl.lang.records import Prefix
from proverrl.policy.base import Policy
from proverrl.policy.endpoint import EndpointPolicy
from proverrl.policy.transformers import TransformersPolicy
from proverrl.problems.prompt import render_prompt
from proverrl.search.base import Proposal
from proverrl.search.proposals import Corrector, Proposer, StepProposer, render_prefix
from proverrl.types import HOLE, Completion, Diagnostic, Problem, Prompt, Sampling, Status, Verdict
from tests.policy.test_policy import plain_logprobs, tiny_policy
from tests.rollout.test_self_correct import ScriptedPolicy
from tests.tolerance import FLOAT32

LOOP = Problem(
    "loop",
    "dafny",
    "invariants",
    "",
    "method M(count: nat) { var at := 0; while at < count\n"
    f"    {HOLE}\n  {{ at := at + 1; }} }}\n",
)
LEAN = Problem("t", "lean", "tactics", "", f"theorem t : p ∧ q := by\n  {HOLE}\n")
START = Prefix("invariant 0 <= at <= count", "s")
SAMPLING = Sampling(max_new_tokens=6)


class Watched:
    """A tiny policy that remembers its calls; with ``says`` it writes these texts instead."""

    def __init__(self, layout: LayoutName = "plain", says: Sequence[str] = ()) -> None:
        self.policy = tiny_policy()
        self.policy.layout = layout
        self.calls: list[tuple[list[Prompt], int, Sampling]] = []
        self.completions: list[Completion] = []
        self.says = list(says)
        draw = self.policy.generate

        async def generate(
            prompts: Sequence[Prompt], *, n: int, sampling: Sampling
        ) -> list[list[Completion]]:
            self.calls.append((list(prompts), n, sampling))
            if not self.says:
                rows = await draw(prompts, n=n, sampling=sampling)
            else:
                rows = [[self.say(prompt) for _ in range(n)] for prompt in prompts]
            self.completions += [completion for row in rows for completion in row]
            return rows

        self.policy.generate = generate  # type: ignore[method-assign]

    def say(self, prompt: Prompt) -> Completion:
        text = self.says.pop(0)
        return Completion(text, prompt.token_ids, (7, 8), (-0.5, -0.25), "stop", 0)


def ask(policy: Policy, *requests: tuple[Problem, Prefix, int, int]) -> list[list[Proposal]]:
    async def go() -> list[list[Proposal]]:
        propose = Proposer(policy, SAMPLING)
        return list(await asyncio.gather(*(propose(*request) for request in requests)))

    return asyncio.run(go())


def encode(policy: TransformersPolicy, text: str) -> tuple[int, ...]:
    return tuple(policy.tokenizer(text, add_special_tokens=False)["input_ids"])


def test_the_prefix_is_tokens_after_the_prompt() -> None:
    watched = Watched()
    policy = watched.policy
    ((first, second),) = ask(policy, (LOOP, START, 2, 5))
    ((prompt,), n, sampling) = watched.calls[0]
    assert prompt.token_ids == policy.prompt(LOOP).token_ids + encode(policy, START.text)
    assert prompt.text == render_prompt(LOOP, "plain") + START.text
    assert (n, sampling.seed) == (2, 5)
    for proposal, completion in zip((first, second), watched.completions, strict=True):
        assert proposal.body == (START.text + completion.text).strip()
        assert proposal.num_tokens == len(completion.token_ids)
        limit = len(completion.token_ids) * FLOAT32
        assert proposal.logprob == pytest.approx(sum(plain_logprobs(policy, completion)), abs=limit)


def test_at_the_root_nothing_is_given() -> None:
    watched = Watched(says=["invariant at >= 0"])
    assert ask(watched.policy, (LOOP, Prefix("", ""), 1, 0)) == [
        [Proposal("invariant at >= 0", 2, -0.75)]
    ]
    assert watched.calls[0][0][0].token_ids == watched.policy.prompt(LOOP).token_ids


def test_the_canonical_layout_shows_letters_and_gives_names() -> None:
    # Letters by appearance in the statement: M is A, count a, at b.
    watched = Watched("canonical", says=["\ninvariant b <= a"])
    assert render_prefix(watched.policy, LOOP, START) == ("invariant 0 <= b <= a", "")
    assert ask(watched.policy, (LOOP, START, 1, 0)) == [
        [Proposal("invariant 0 <= at <= count\ninvariant at <= count", 2, -0.75)]
    ]


def test_a_name_of_the_body_keeps_its_name_after_one_round() -> None:
    """A new name is a letter to the policy; the next prefix shows the same letter."""
    prefix = Prefix("invariant forall c :: c < at ==> c < count", "s")
    watched = Watched("canonical", says=["\ninvariant at > 0"])
    opening, _ = render_prefix(watched.policy, LOOP, prefix)
    assert opening == "invariant forall c :: c < b ==> c < a"
    ((proposal,),) = ask(watched.policy, (LOOP, prefix, 1, 0))
    assert proposal.body.startswith(prefix.text)


def test_a_lean_prefix_has_its_state_as_a_comment_that_is_taken_out_again() -> None:
    prefix = Prefix("constructor", "⊢ p\n\n⊢ q")
    watched = Watched("kimina", says=["  · exact a\n  · exact b\n```"])
    ((proposal,),) = ask(watched.policy, (LEAN, prefix, 1, 0))
    assert watched.calls[0][0][0].text.endswith(
        "```lean4\ntheorem t : p ∧ q := by\n  constructor\n"
        "  /- tactic state:\n    ⊢ p\n\n    ⊢ q\n  -/\n"
    )
    assert proposal.body == "constructor\n  · exact a\n  · exact b"


def test_words_of_a_state_are_not_words_of_the_body() -> None:
    """In letters the state has names of its own, and the body's new ones count from the prefix."""
    prefix = Prefix("intro d", "y z : Nat\n⊢ ∃ u, Alternative has not been provided")
    watched = Watched("canonical", says=["cases m with\n| inl n => exact n"])
    ((proposal,),) = ask(watched.policy, (LEAN, prefix, 1, 0))
    shown = watched.calls[0][0][0].text
    assert "/- tactic state:" in shown
    assert proposal.body == "intro d\n  cases e with\n  | inl f => exact f"


def test_a_step_goes_on_while_its_line_only_opens_a_block() -> None:
    says = ["cases h with\n  ", "| inl e =>\n", "exact e\n", "exact h\n"]
    watched = Watched("kimina", says=says)

    async def go() -> list[Proposal]:
        return await StepProposer(watched.policy, SAMPLING)(LEAN, Prefix("", ""), 1, 0)

    (proposal,) = asyncio.run(go())
    assert proposal.body == "cases h with\n  | inl e =>\nexact e"
    # Three texts of two tokens each, with all of their log-probability.
    assert (proposal.num_tokens, proposal.logprob) == (6, -2.25)
    prompts = [call[0][0] for call in watched.calls]
    assert len(prompts) == 3
    assert prompts[1].text == prompts[0].text + "cases h with\n  "
    assert prompts[2].token_ids == (*prompts[1].token_ids, 7, 8)


def test_a_prefix_without_room_for_an_answer_costs_nothing() -> None:
    watched = Watched(says=["invariant at >= 0"])
    room = watched.policy.context_tokens
    long = Prefix("invariant at >= 0\n" * room, "s")
    row, other = ask(watched.policy, (LOOP, long, 3, 0), (LOOP, START, 1, 0))
    assert [(each.num_tokens, each.reason) for each in row] == [
        (0, "the model's context has no room for it")
    ]
    assert not other[0].reason


def test_requests_that_arrive_together_are_one_batch() -> None:
    watched = Watched()
    other = Prefix("invariant at >= 0", "t")
    rows = ask(watched.policy, (LOOP, START, 2, 1), (LOOP, other, 2, 2))
    assert [len(row) for row in rows] == [2, 2]
    ((prompts, n, _),) = watched.calls
    assert (len(prompts), n) == (2, 2)
    assert all(p.body.startswith(START.text) for p in rows[0])
    assert all(p.body.startswith(other.text) for p in rows[1])


def test_requests_for_different_numbers_are_one_batch_too() -> None:
    texts = ["A", "B", "C"]
    watched = Watched(says=[f"\ninvariant {text}" for text in texts])
    rows = ask(watched.policy, (LOOP, START, 1, 1), (LOOP, START, 2, 2))
    assert [[p.body.split()[-1] for p in row] for row in rows] == [["A"], ["B", "C"]]
    ((prompts, n, _),) = watched.calls
    assert (len(prompts), n) == (3, 1)


def test_draws_repeat_under_their_seed() -> None:
    policy = tiny_policy()
    one, two, other = (ask(policy, (LOOP, START, 3, seed)) for seed in (4, 4, 5))
    assert one == two
    assert one != other
    pair = [(LOOP, START, 1, 1), (LOOP, START, 1, 2)]
    assert ask(policy, *pair) == ask(policy, *pair)


def test_an_answer_without_a_body_is_left_out_and_counted() -> None:
    watched = Watched("dafny", says=["I cannot.", "```dafny\ninvariant at >= 0\n```"])

    async def go() -> tuple[list[Proposal], int]:
        propose = Proposer(watched.policy, SAMPLING)
        return await propose(LOOP, Prefix("", ""), 2, 0), propose.num_unread

    # The refusal was two tokens: they count, and there is nothing to judge.
    refused = Proposal("", 2, -0.75, reason="no code block in the answer")
    assert asyncio.run(go()) == ([refused, Proposal("invariant at >= 0", 2, -0.75)], 1)


def test_a_proposal_says_that_it_was_cut_off_and_why_it_is_none() -> None:
    watched = Watched("plain", says=["invariant at >= 1"])
    generate = watched.policy.generate

    async def cut(*args: Any, **kwargs: Any) -> list[list[Completion]]:
        rows = await generate(*args, **kwargs)
        return [[replace(one, finish_reason="length") for one in row] for row in rows]

    watched.policy.generate = cut  # type: ignore[method-assign]
    ((proposal,),) = ask(watched.policy, (LOOP, Prefix("", ""), 1, 0))
    assert (proposal.truncated, proposal.is_read) == (True, True)
    # A prefix that ends with a line break asks for another line, and none was written.
    empty = Watched("plain", says=[""])
    ((proposal,),) = ask(empty.policy, (LOOP, Prefix(START.text + "\n", "s"), 1, 0))
    assert proposal.reason == "the answer does not continue its prefix"
    assert not proposal.is_read


def test_a_failure_reaches_all_who_wait_and_a_cancelled_one_takes_nobody_along() -> None:
    watched = Watched()
    generate = watched.policy.generate
    failing = True

    async def maybe(*args: Any, **kwargs: Any) -> list[list[Completion]]:
        if failing:
            raise UsageError("no room")
        return await generate(*args, **kwargs)

    watched.policy.generate = maybe  # type: ignore[method-assign]

    async def go() -> None:
        nonlocal failing
        propose = Proposer(watched.policy, SAMPLING)
        results = await asyncio.gather(
            *(propose(LOOP, START, 1, seed) for seed in (0, 1)), return_exceptions=True
        )
        assert [str(result) for result in results] == ["no room", "no room"]
        failing = False
        tasks = [asyncio.create_task(propose(LOOP, START, 1, seed)) for seed in (0, 1)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        assert len(await tasks[1]) == 1

    asyncio.run(go())


def endpoint(api: str, requests: list[dict[str, Any]]) -> EndpointPolicy:
    def handle(request: httpx2.Request) -> httpx2.Response:
        requests.append(json.loads(request.content))
        logprobs = {"token_logprobs": [-0.5, -1.0]}
        choice = {"index": 0, "text": "\ninvariant at > 0", "logprobs": logprobs}
        return httpx2.Response(200, json={"choices": [{**choice, "finish_reason": "stop"}]})

    config = EndpointConfig.model_validate({"url": "http://server/v1", "model": "m", "api": api})
    return EndpointPolicy(config, layout="plain", transport=httpx2.MockTransport(handle))


def test_a_server_that_continues_text_is_given_the_prefix() -> None:
    requests: list[dict[str, Any]] = []
    rows = ask(endpoint("completions", requests), (LOOP, START, 1, 0))
    assert rows == [[Proposal(f"{START.text}\ninvariant at > 0", 2, -1.5)]]
    assert requests[0]["prompt"] == render_prompt(LOOP, "plain") + START.text


def test_policies_that_cannot_go_on_say_so() -> None:
    with pytest.raises(UsageError, match='set api = "completions"'):
        ask(endpoint("chat", []), (LOOP, START, 1, 0))
    with pytest.raises(UsageError, match="has no tokenizer here"):
        ask(ScriptedPolicy(["x"]), (LOOP, START, 1, 0))


def test_a_correction_is_a_new_answer_after_the_failed_one_and_its_feedback() -> None:
    watched = Watched(says=["invariant at <= count", "x"])
    verdict = Verdict(Status.REJECTED, (Diagnostic("error", "not maintained", 3, 4),))
    correct = Corrector(
        watched.policy, SAMPLING, RolloutConfig(mode="self_correct", feedback="compact")
    )
    proposal = asyncio.run(correct(LOOP, "invariant at < 0", verdict, 9))
    assert proposal == Proposal("invariant at <= count", 2, -0.75)
    ((prompt,), n, sampling) = watched.calls[0]
    assert (n, sampling.seed) == (1, 9)
    assert prompt.text == (
        f"{render_prompt(LOOP, 'plain')}invariant at < 0"
        "verification failed, error at line 3: not maintained"
    )
    policy = watched.policy
    start = (*policy.prompt(LOOP).token_ids, *encode(policy, "invariant at < 0"), policy.end_id)
    assert prompt.token_ids[: len(start)] == start
