"""GRPO on verified proofs, in one file: read this before the package.

    python grpo_in_one_file.py                         a quarter of an hour on two cores
    python grpo_in_one_file.py --warm 20 --steps 1     to see it run

A small transformer from scratch imitates some references (the warm start) and then learns from
verdicts alone. It is given a Dafny method with a hole where the loop's invariants belong:

    problem ─► policy ─► completions ─► verifier pool ─► rewards ─► advantages ─► update
                 ▲                                                                   │
                 └───────────────────────────────────────────────────────────────────┘

From ``proverrl`` come the problems, the policy with its sampler, and the verifier, which judges a
text and cannot be cheated by it. All of the learning stands here, in plain torch. What
``proverrl train`` does beside: several turns, other advantages and losses, replay, curricula,
overlapping of the writing and the judging, checkpoints, several processes, and reports.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import pad

from proverrl import Candidate, Problem, load_problems, load_references, open_verifier
from proverrl.config import LayoutName, PolicyConfig
from proverrl.lang import find_language
from proverrl.policy.loading import build_policy, train_tokenizer
from proverrl.policy.transformers import TransformersPolicy
from proverrl.problems.prompt import render_body, render_prompt
from proverrl.rollout.extract import extract
from proverrl.types import Completion, Sampling
from proverrl.verifier.base import Verifier, verify_all

CURRICULUM = "dafny/curriculum"
"""Comes with the package."""
LAYOUT: LayoutName = "canonical"
"""How a problem is shown: names and constants as letters and numbers, so that a small model spends
nothing on copying them. A pretrained model reads ``plain``."""
CLIP = 0.2
"""How far the probability of a token may move, as a share, before its gradient ends (PPO)."""


@dataclass(frozen=True)
class Attempt:
    """One completion, and what the verifier made of it: 1 for a proof, 0 for none, None where it
    judged nothing (a timeout is no wrong proof)."""

    completion: Completion
    reward: float | None


def open_fresh_policy(
    problems: Sequence[Problem], references: dict[str, str], seed: int
) -> TransformersPolicy:
    """A model of 1 M parameters, with a tokenizer that is trained on the problems."""
    texts = [render_prompt(p, LAYOUT) + render_body(p, references[p.id], LAYOUT) for p in problems]
    keywords = find_language("dafny").keywords
    tokenizer = train_tokenizer(texts, vocab_size=512, keywords=keywords)
    shape = PolicyConfig(
        layout=LAYOUT,
        num_layers=4,
        hidden_size=144,
        num_heads=4,
        intermediate_size=384,
        vocab_size=512,
    )
    return build_policy(shape, tokenizer, seed=seed, device="cpu")


def token_logprobs(
    policy: TransformersPolicy, rows: Sequence[tuple[Sequence[int], Sequence[int]]]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities of what follows each prompt, and which of them count; both of shape
    (rows, longest row - 1). A row is the tokens of a prompt and those that follow it."""
    longest = max(len(prompt) + len(answer) for prompt, answer in rows)
    ids = torch.tensor([[*p, *a, *[0] * (longest - len(p) - len(a))] for p, a in rows])
    places = torch.arange(1, longest)
    starts = torch.tensor([[len(p)] for p, _ in rows])
    ends = torch.tensor([[len(p) + len(a)] for p, a in rows])
    # Padding stands behind all else, where a causal model does not look.
    logits = policy.model(input_ids=ids).logits[:, :-1].float()
    logprobs = logits.log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)
    return logprobs, (places >= starts) & (places < ends)


def warm_start(
    policy: TransformersPolicy,
    optimizer: torch.optim.Optimizer,
    pairs: Sequence[tuple[Problem, str]],
    steps: int,
    rng: random.Random,
) -> None:
    """Imitate references: the mean negative log-likelihood of their tokens."""
    rows = [(policy.prompt(p).token_ids, policy.body_ids(p, body)) for p, body in pairs]
    policy.model.train()
    for step in range(1, steps + 1):
        logprobs, counts = token_logprobs(policy, rng.sample(rows, min(16, len(rows))))
        loss = -(logprobs * counts).sum() / counts.sum()
        update(policy, optimizer, loss)
        if step % 50 == 0 or step == steps:
            print(f"warm start {step}/{steps}  loss {loss.item():.3f}", flush=True)


async def attempt(
    policy: TransformersPolicy,
    verifier: Verifier,
    problems: Sequence[Problem],
    n: int,
    seed: int,
) -> list[list[Attempt]]:
    """``n`` attempts on each problem: written, put into the problem's hole, and judged."""
    policy.model.eval()
    prompts = [policy.prompt(problem) for problem in problems]
    written = await policy.generate(prompts, n=n, sampling=Sampling(max_new_tokens=96, seed=seed))
    found = [
        [extract(problem, completion.text, LAYOUT).candidate(problem) for completion in row]
        for problem, row in zip(problems, written, strict=True)
    ]
    # Equal candidates are asked once.
    distinct = {c.key: c for row in found for c in row if c is not None}
    verdicts = await verify_all(verifier, distinct.values(), deadline_seconds=30)
    rewards: dict[str, float | None] = {
        key: float(verdict.proved) if verdict.status.judged else None
        for key, verdict in zip(distinct, verdicts, strict=True)
    }

    def reward(candidate: Candidate | None) -> float | None:
        return 0.0 if candidate is None else rewards[candidate.key]

    return [
        [Attempt(completion, reward(c)) for completion, c in zip(row, candidates, strict=True)]
        for row, candidates in zip(written, found, strict=True)
    ]


def compare(group: Sequence[Attempt]) -> list[tuple[Completion, float]]:
    """Each judged attempt with its advantage: its reward less the group's mean (Dr. GRPO, Liu et
    al. 2025, arXiv 2503.20783; GRPO itself also divides by the standard deviation). Nothing where
    all earned the same: there is nothing to learn from."""
    judged = [(a.completion, a.reward) for a in group if a.reward is not None]
    if len({reward for _, reward in judged}) < 2:
        return []
    mean = sum(reward for _, reward in judged) / len(judged)
    return [(completion, reward - mean) for completion, reward in judged]


def grpo_loss(
    logprobs: torch.Tensor, old: torch.Tensor, advantages: torch.Tensor, counts: torch.Tensor
) -> torch.Tensor:
    """The clipped surrogate of PPO (Schulman et al. 2017, arXiv 1707.06347), a mean over all tokens
    of the step. GRPO takes the mean of each completion first, so that a token of a long one counts
    less, and subtracts a KL divergence to the first policy; neither is needed here.

    ``logprobs`` are those of the policy now, ``old`` those that it drew each token with; both of
    shape (rows, tokens), as ``counts``; ``advantages`` of shape (rows, 1)."""
    ratio = (logprobs - old).exp()
    clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
    gain = torch.minimum(ratio * advantages, clipped * advantages)
    return -(gain * counts).sum() / counts.sum()


def learn(
    policy: TransformersPolicy,
    optimizer: torch.optim.Optimizer,
    samples: Sequence[tuple[Completion, float]],
    epochs: int,
) -> None:
    """``epochs`` updates on a step's samples."""
    policy.model.train()
    rows = [(c.prompt_ids, c.token_ids) for c, _ in samples]
    advantages = torch.tensor([[advantage] for _, advantage in samples])
    longest = max(len(p) + len(a) for p, a in rows) - 1
    # The sampler's own log-probabilities, at the places of the tokens that they are of.
    old = torch.stack(
        [
            pad(torch.tensor(c.logprobs), (len(c.prompt_ids) - 1, longest + 1 - len(p) - len(a)))
            for (c, _), (p, a) in zip(samples, rows, strict=True)
        ]
    )
    for _ in range(epochs):
        logprobs, counts = token_logprobs(policy, rows)
        update(policy, optimizer, grpo_loss(logprobs, old, advantages, counts))


def update(
    policy: TransformersPolicy, optimizer: torch.optim.Optimizer, loss: torch.Tensor
) -> None:
    """One step against the gradient, whose length is at most 1."""
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(policy.model.parameters(), 1.0)
    optimizer.step()


async def measure(
    policy: TransformersPolicy, verifier: Verifier, problems: Sequence[Problem]
) -> float:
    """The share of held-out problems' attempts that are proofs (pass@1)."""
    groups = await attempt(policy, verifier, problems, n=4, seed=1_000_000)
    rewards = [a.reward for group in groups for a in group if a.reward is not None]
    return sum(rewards) / max(1, len(rewards))


async def main() -> None:
    """The whole loop."""
    parser = argparse.ArgumentParser(description="GRPO on verified proofs, in one file.")
    parser.add_argument("--warm", type=int, default=250, help="steps of the warm start")
    parser.add_argument("--steps", type=int, default=20, help="steps of GRPO")
    parser.add_argument("--problems", type=int, default=16, help="problems a step")
    parser.add_argument("--group", type=int, default=8, help="attempts on a problem")
    parser.add_argument("--heldout", type=int, default=40, help="problems to measure on")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    torch.manual_seed(given.seed)

    problems, heldout = (
        [p for p in load_problems(f"{CURRICULUM}/{split}.jsonl") if p.metadata["level"] <= 2]
        for split in ("train", "heldout")
    )
    references = load_references(f"{CURRICULUM}/train.jsonl")
    heldout = rng.sample(heldout, min(given.heldout, len(heldout)))

    policy = open_fresh_policy(problems, references, given.seed)
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=2e-3)
    shown = [(p, references[p.id]) for p in rng.sample(problems, 80)]
    warm_start(policy, optimizer, shown, given.warm, rng)

    verifier = open_verifier(workers=2)
    try:
        print(f"held out: {await measure(policy, verifier, heldout):.1%} proved", flush=True)
        for group in optimizer.param_groups:
            group["lr"] = 3e-4
        for step in range(1, given.steps + 1):
            started = time.monotonic()
            drawn = rng.sample(problems, given.problems)
            groups = await attempt(policy, verifier, drawn, given.group, seed=step)
            samples = [sample for group in groups for sample in compare(group)]
            if samples:
                learn(policy, optimizer, samples, epochs=2)
            judged = [a.reward for group in groups for a in group if a.reward is not None]
            print(
                f"step {step}/{given.steps}  proved {sum(judged) / max(1, len(judged)):.1%}  "
                f"learned from {len(samples)}  {time.monotonic() - started:.0f} s",
                flush=True,
            )
        print(f"held out: {await measure(policy, verifier, heldout):.1%} proved", flush=True)
    finally:
        await verifier.aclose()


if __name__ == "__main__":
    asyncio.run(main())
