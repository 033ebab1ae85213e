"""One tactic at a time: what the policy is given, what is read, and best-first search on it."""

from __future__ import annotations

import asyncio
import random
from typing import get_args

import pytest

from proverrl.config.search import SearchConfig, StepName
from proverrl.errors import UsageError
from proverrl.lang.lean.search.states import segment_lean
from proverrl.lang.records import Prefix
from proverrl.problems.prompt import render_prompt
from proverrl.search.base import Functions, Proposal
from proverrl.search.proposals import PROPOSERS, Proposer, StepProposer
from proverrl.search.run import TreeSearch
from proverrl.search.strategy import BestFirst
from proverrl.types import HOLE, Completion, Problem, Prompt, Sampling
from tests.lean_search import build_walk_problem, verify_walk
from tests.search.test_search_proposals import LEAN, LOOP, Watched, encode

SAMPLING = Sampling(max_new_tokens=6)


def ask(watched: Watched, problem: Problem, prefix: Prefix, n: int = 1) -> list[Proposal]:
    proposer = StepProposer(watched.policy, SAMPLING)
    return asyncio.run(proposer(problem, prefix, n, 3))


def test_the_policy_is_given_the_answer_up_to_the_hole_and_stopped_at_the_line() -> None:
    watched = Watched("kimina", says=["intro h\n", "  exact h\n"])
    (first,) = ask(watched, LEAN, Prefix("", ""))
    assert first == Proposal("intro h", 2, -0.75)
    ((prompt,), n, sampling) = watched.calls[0]
    opening = "```lean4\ntheorem t : p ∧ q := by\n  "
    assert prompt.token_ids == watched.policy.prompt(LEAN).token_ids + encode(
        watched.policy, opening
    )
    assert (n, sampling.stop, sampling.seed) == (1, ("\n",), 3)
    (second,) = ask(watched, LEAN, Prefix("intro h", "h : p\n⊢ q"))
    assert second == Proposal("intro h\n  exact h", 2, -0.75)
    shown = "intro h\n  /- tactic state:\n    h : p\n    ⊢ q\n  -/\n"
    assert watched.calls[1][0][0].text == render_prompt(LEAN, "kimina") + opening + shown


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("  exact h  \nnever read", "intro h\n  exact h"),
        # Without indentation it stands in the hole's column; deeper it goes on with its tactic.
        ("exact h", "intro h\n  exact h"),
        ("    at this", "intro h\n    at this"),
        ("\n", None),
        ("  -- a comment\n", None),
        ("```\n", None),
        ("", None),
    ],
)
def test_a_line_is_read(text: str, body: str | None) -> None:
    proposer = StepProposer(Watched("kimina").policy, SAMPLING)
    completion = Completion(text, (1,), (7, 8), (-0.5, -0.25), "stop", 0)
    read = proposer._read(LEAN, Prefix("intro h", "s"), completion)
    assert (read.body if read.is_read else None) == body
    assert proposer.num_unread == (body is None)
    # What was written was paid for, read or not.
    assert (read.num_tokens, read.logprob) == (2, -0.75)


def test_a_line_after_one_that_opens_a_block_stands_deeper() -> None:
    proposer = StepProposer(Watched("kimina").policy, SAMPLING)
    completion = Completion("exact h", (1,), (7, 8), (-0.5, -0.25), "stop", 0)
    read = proposer._read(LEAN, Prefix("have g : p := by", "s"), completion)
    assert read.body == "have g : p := by\n    exact h"


@pytest.mark.parametrize(
    ("before", "line", "body"),
    [
        ("", "intro h", "intro h"),
        ("intro h", "exact h", "intro h\n  exact h"),
        ("constructor\n  · intro h", "  exact h", "constructor\n  · intro h\n    exact h"),
        ("have g : p := by", "  exact h", "have g : p := by\n    exact h"),
    ],
)
def test_a_body_by_itself_begins_at_the_margin(before: str, line: str, body: str) -> None:
    proposer = StepProposer(Watched("plain").policy, SAMPLING)
    completion = Completion(f"{line}\n", (1,), (7, 8), (-0.5, -0.25), "stop", 0)
    assert proposer._read(LEAN, Prefix(before, "⊢ p"), completion).body == body


def test_steps_by_name_and_for_lean_only() -> None:
    assert set(PROPOSERS) == set(get_args(StepName))
    policy = Watched().policy
    assert isinstance(PROPOSERS["tactic"](policy, SAMPLING), StepProposer)
    assert type(PROPOSERS["proof"](policy, SAMPLING)) is Proposer
    with pytest.raises(UsageError, match=r'set search.step = "proof"'):
        ask(Watched(), LOOP, Prefix("", ""))


class LetterPolicy(Watched):
    """Writes one tactic of walks by chance, seeded; what the log-probability says of it is true."""

    CHANCES = (("step a\n", -1.0), ("step b\n", -1.5), ("idle\n", -2.0), ("stray\n", -2.5))

    def __init__(self) -> None:
        super().__init__("kimina", says=["never"])
        self.rng = random.Random(0)

    def say(self, prompt: Prompt) -> Completion:
        text, logprob = self.rng.choices(self.CHANCES, weights=(4, 3, 2, 1))[0]
        return Completion("  " + text, prompt.token_ids, (7, 8), (logprob, 0.0), "stop", 0)


def test_best_first_proves_a_walk_one_tactic_at_a_time() -> None:
    async def main() -> None:
        functions = Functions(
            propose=PROPOSERS["tactic"](LetterPolicy().policy, SAMPLING),
            verify=verify_walk,
            segment=segment_lean,
            confirm=verify_walk,
        )
        config = SearchConfig(name="best_first", step="tactic", calls=200)
        search = TreeSearch(build_walk_problem("abba"), functions, config)
        result = await search.run()
        (proof,) = result.proofs
        assert proof.confirmed
        assert [t for t in proof.body.split("\n  ") if t != "idle"] == [
            "step a",
            "step b",
            "step b",
            "step a",
        ]
        nodes = {node.state: node for node in search.strategy.tree.nodes}
        # BFS-Prover's score: the log-probabilities of the tactics over depth ** 0.5.
        # step a, step b: (-1.0 - 1.5) / sqrt(2) = -1.76777.
        node = nodes["⊢ walk ba"]
        assert node.depth == 2
        assert node.value == pytest.approx(-2.5)
        assert isinstance(search.strategy, BestFirst)
        assert search.strategy.score(node) == pytest.approx(-1.76777, abs=1e-5)
        # Each tactic is one edge: no body is more than one line longer than its node's.
        for one in search.strategy.tree.nodes[1:]:
            body, end = one.prefixes[0]
            assert body[:end].count("\n") == one.depth - 1
        assert HOLE not in proof.body

    asyncio.run(main())
