"""What a small writer and a small instructor are taught before they meet (``rollout.instruct``).

Flows in: the references of a run. Flows out: pairs of token ids. A writer learns each reference
also under the words that describe it. An instructor learns only that there are such words, after a
problem and after an attempt that failed: which of them help is left to reinforcement learning.
Not handled here: training (``warm_start``). A pretrained model needs none of this.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

from proverrl.policy.transformers import TransformersPolicy
from proverrl.problems.prompt import instruct
from proverrl.rollout.self_correct import add_feedback, resume_within
from proverrl.rollout.whole_proof import Draw, judge_all
from proverrl.run.pairs import Pair, PairSource, make_source
from proverrl.run.session import Session, describe
from proverrl.search.proposals import encode
from proverrl.seeds import derive_seed
from proverrl.types import Problem, Status

_DRAWS = 4
"""Instructions that an instructor learns after each prompt."""


async def teach_instructions(session: Session) -> list[PairSource]:
    """What ``warm_start.instructions`` asks for, beside the references themselves. Raises
    ``UsageError``: a language has no such words."""
    config, policy = session.config, session.policy
    role = config.warm_start.instructions
    references = session.problems.references if config.warm_start.steps else ()
    if role == "none" or not references:
        return []
    words = [describe(problem, body) for problem, body in references]
    if role == "writer":
        pairs = zip(references, words, strict=True)
        return [make_source(policy, instruct(p, text), body) for (p, body), text in pairs]
    rng = random.Random(derive_seed(config.seed, "instructions"))
    sources = []
    for number in range(_DRAWS):
        # Those of the others, so that a problem says nothing of what fits it.
        drawn = rng.sample(words, len(words))
        asked = [(problem, text) for (problem, _), text in zip(references, drawn, strict=True)]
        sources += [
            _make_source(policy, policy.prompt(problem).token_ids, 0, text)
            for problem, text in asked
        ]
        failed = await _fail_under(session, asked, number)
        again = rng.sample(words, len(failed))
        sources += [
            _make_source(policy, ids, shown, text)
            for (ids, shown), text in zip(failed, again, strict=True)
        ]
    return sources


def _make_source(
    policy: TransformersPolicy, prompt_ids: tuple[int, ...], num_shown: int, words: str
) -> PairSource:
    """An instruction after a prompt, whose last tokens are shown only; no layout changes it."""
    return cache(lambda: Pair(prompt_ids, _encode(policy, words), num_shown))


def _encode(policy: TransformersPolicy, words: str) -> tuple[int, ...]:
    return (*encode(policy.tokenizer, words), policy.end_id)


async def _fail_under(
    session: Session, asked: Sequence[tuple[Problem, str]], number: int
) -> list[tuple[tuple[int, ...], int]]:
    """The prompts of the turns after those in which the writer failed under these instructions,
    and how many of their tokens come after the problem's; none in a run without a writer."""
    config, policy, writer = session.config, session.policy, session.writer
    if writer is None or config.rollout.turns < 2:
        return []
    seed = derive_seed(config.seed, "instructions", number)
    written = await writer.write(asked, layout=policy.layout, turn=0, seed=seed)
    prompts = [policy.prompt(problem) for problem, _ in asked]
    draws = []
    for (problem, text), prompt, extraction in zip(asked, prompts, written, strict=True):
        ids = _encode(policy, text)
        completion = policy.make_completion(prompt.token_ids, ids, None, stopped=True)
        draws.append(Draw(f"warm-{problem.id}", problem, (completion,), (extraction,)))
    deadline = config.pool.deadline_seconds
    judged = await judge_all(draws, session.verifier, deadline_seconds=deadline)
    failed = []
    for prompt, draw in zip(prompts, judged, strict=True):
        (rollout,) = draw.rollouts
        if rollout.status.judged and rollout.status is not Status.PROVED:
            told = add_feedback(rollout, policy, config.rollout, writer)
            resumed = resume_within(policy, prompt, told, config.rollout).token_ids
            failed.append((resumed, len(resumed) - len(prompt.token_ids)))
    return failed
