"""What a warm start teaches besides whole proofs: the texts of its pairs, by hand."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from proverrl.config import Config, RolloutConfig
from proverrl.lang.records import Prefix
from proverrl.policy.transformers import TransformersPolicy
from proverrl.run import taught
from proverrl.run.pairs import Pair
from proverrl.run.taught import break_body, correct_source, resume_source
from proverrl.types import (
    HOLE,
    Candidate,
    Diagnostic,
    Problem,
    Status,
    Verdict,
)
from tests.policy.test_policy import tiny_policy

SWAP = Problem(
    "swap",
    "lean",
    "tactics",
    "",
    f"theorem law (p q : Prop) (hp : p ∧ q) (h7 : 17 = 5) : q ∧ p := by\n  {HOLE}\n",
)
PROOF = "constructor\n  · exact hp.right\n  · have kept := hp.left\n    exact kept"


def canonical_policy() -> TransformersPolicy:
    policy = tiny_policy()
    policy.layout = "canonical"
    return policy


def read_pair(policy: TransformersPolicy, pair: Pair) -> tuple[str, str]:
    assert pair.target_ids[-1] == policy.end_id
    decode = policy.tokenizer.decode
    return str(decode(list(pair.prompt_ids))), str(decode(list(pair.target_ids[:-1])))


def test_the_rest_of_a_proof_follows_its_beginning_and_the_goals_there() -> None:
    policy = canonical_policy()
    prefix = Prefix("constructor\n  · exact hp.right", "p q : Prop\nhp : p ∧ q\n⊢ p")
    prompt, rest = read_pair(policy, resume_source(policy, Candidate(SWAP, PROOF), prefix)())
    assert prompt.endswith(
        "theorem a (b c : Prop) (d : b ∧ c) (e : _1 = _2) : c ∧ b := by\n"
        f"  {HOLE}\n// body\n"
        "constructor\n· exact d.right\n"
        "  /- tactic state:\n    b c : Prop\n    d : b ∧ c\n    ⊢ b\n  -/\n"
    )
    assert rest == "· have f := d.left\n  exact f"


def test_what_a_search_would_keep_of_some_lines_is_what_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two of the three places: the verifier judges the lines before them, as in a search."""
    policy = canonical_policy()
    asked: list[str] = []

    async def judge(session: Any, candidates: Sequence[Candidate], **_: Any) -> list[Verdict]:
        asked.extend(candidate.body for candidate in candidates)
        said = Diagnostic("error", "unsolved goals\n⊢ p", line=1)
        open_goal = Verdict(Status.REJECTED, (said,), states=((1, 0, "⊢ q ∧ p"),))
        return [open_goal if "exact" in c.body else Verdict(Status.TIMEOUT) for c in candidates]

    monkeypatch.setattr(taught, "_judge", judge)
    config = Config.model_validate({"warm_start": {"resume_places": 3}})
    problems = SimpleNamespace(references=[(SWAP, PROOF)])
    monitor = SimpleNamespace(phase=lambda *_: None)
    session: Any = SimpleNamespace(policy=policy, config=config, problems=problems, monitor=monitor)
    sources = asyncio.run(taught.teach_resuming(session))
    lines = PROOF.split("\n")
    assert sorted(asked) == sorted("\n".join(lines[:end]) for end in (1, 2, 3))
    # One was not judged; of the other two all lines were kept.
    rests = {read_pair(policy, source())[1] for source in sources}
    assert rests == {"· have f := d.left\n  exact f", "  exact f"}
    for source in sources:
        pair = source()
        shown = policy.tokenizer.decode(
            list(pair.prompt_ids[len(pair.prompt_ids) - pair.num_shown :])
        )
        assert str(shown).startswith("constructor\n· exact d.right")
        assert policy.prompt(SWAP).token_ids == pair.prompt_ids[: -pair.num_shown]


def test_a_proof_follows_a_failed_one_and_what_was_said_of_it() -> None:
    policy = canonical_policy()
    failed = Candidate(SWAP, PROOF.replace("hp.right", "hp.left"))
    said = Diagnostic("error", "type mismatch: hp.left has type p", line=3, body_line=2)
    verdict = Verdict(Status.REJECTED, (said,))
    source = correct_source(policy, failed, verdict, PROOF, RolloutConfig())
    pair = source()
    prompt, proof = read_pair(policy, pair)
    assert policy.prompt(SWAP).token_ids == pair.prompt_ids[: -pair.num_shown]
    assert "constructor\n· exact d.left\n· have f := d.left\n  exact f" in prompt
    assert prompt.index("d.left has type b") > prompt.index("· exact d.left")
    assert proof == "constructor\n· exact d.right\n· have f := d.left\n  exact f"


def test_a_broken_body_has_one_thing_wrong() -> None:
    rng = random.Random(0)
    lines = PROOF.split("\n")
    made = {break_body(SWAP, PROOF, rng) for _ in range(2000)} - {PROOF}
    shorter = {body for body in made if body.count("\n") == 2}
    assert shorter == {"\n".join(lines[:i] + lines[i + 1 :]) for i in range(3)}
    exchanged = {body for body in made if sorted(body.split("\n")) == sorted(lines)}
    assert len(exchanged) == 3
    changed = made - shorter - exchanged
    # Lean's own names stay: tactics, members. The others are replaced by one another.
    assert all(body.startswith("constructor\n") for body in changed)
    assert "constructor\n  · exact h7.right\n  · have kept := hp.left\n    exact kept" in changed
    assert not any(".kept" in body or ".hp" in body for body in changed)


def test_a_number_becomes_its_neighbour_or_another_of_the_problem() -> None:
    problem = Problem("n", "dafny", "statements", "", f"lemma L()\n  ensures 5 > 3\n{{ {HOLE} }}\n")
    rng = random.Random(0)
    made = {break_body(problem, "assert 7 > 2;", rng) for _ in range(500)}
    swaps = {f"assert {a} > 2;" for a in (2, 3, 5, 6, 7, 8)}
    swaps |= {f"assert 7 > {b};" for b in (1, 2, 3, 5, 7)}
    assert made == swaps
