"""What a small writer and a small instructor are taught before they meet (``rollout.instruct``).

Flows in: the references of a run. Flows out: pairs of token ids. A writer learns each reference
also under the words that describe it, and bodies that differ from it under theirs, right or wrong:
where a problem has one body, its words say nothing that the problem does not, and a writer passes
over them. An instructor learns only that there are such words, after a problem and after an attempt
that failed: which of them help is left to reinforcement learning.
Not handled here: training (``warm_start``). A pretrained model needs none of this.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

from proverrl.lang import find_language
from proverrl.loops.pairs import Pair, PairSource, make_source
from proverrl.loops.session import Session, describe
from proverrl.policy.transformers import TransformersPolicy
from proverrl.problems.prompt import instruct
from proverrl.rollout.self_correct import add_feedback, resume_within
from proverrl.rollout.whole_proof import Draw, judge_all
from proverrl.search.proposals import encode
from proverrl.seeds import derive_seed
from proverrl.types import Problem, Status

_DRAWS = 4
"""Instructions that an instructor learns after each prompt."""
_VARIANTS = 2
"""Bodies beside each reference that a writer learns under their words."""


async def teach_instructions(session: Session) -> list[PairSource]:
    """What ``warm_start.instructions`` asks for, beside the references themselves. Raises
    ``UsageError``: a language has no such words."""
    config, policy = session.config, session.policy
    role = config.warm_start.instructions
    references = session.problems.references if config.warm_start.steps else ()
    if role == "none" or not references:
        return []
    rng = random.Random(derive_seed(config.seed, "instructions"))
    if role == "writer":
        return [
            make_source(policy, instruct(problem, describe(problem, text)), text)
            for problem, body in references
            for text in (body, *_vary(problem, body, rng))
        ]
    words: dict[str, list[str]] = {}
    for problem, body in references:
        words.setdefault(problem.family, []).append(describe(problem, body))
    sources = []
    for number in range(_DRAWS):
        # Any of the family's, so that a problem does not say which of them fits it.
        asked = [(problem, rng.choice(words[problem.family])) for problem, _ in references]
        sources += [
            _make_source(policy, policy.prompt(problem).token_ids, 0, text)
            for problem, text in asked
        ]
        sources += [
            _make_source(policy, ids, shown, rng.choice(words[family]))
            for ids, shown, family in await _fail_under(session, asked, number)
        ]
    return sources


def _vary(problem: Problem, body: str, rng: random.Random) -> list[str]:
    """Without those that no word describes: without words a writer is to write references."""
    instructing = find_language(problem.language).instructing
    varied = [instructing.vary(body, rng) for _ in range(_VARIANTS)] if instructing else []
    return [text for text in varied if describe(problem, text)]


def _make_source(
    policy: TransformersPolicy, prompt_ids: tuple[int, ...], num_shown: int, words: str
) -> PairSource:
    """An instruction after a prompt, whose last tokens are shown only; no layout changes it."""
    return cache(lambda: Pair(prompt_ids, _encode(policy, words), num_shown))


def _encode(policy: TransformersPolicy, words: str) -> tuple[int, ...]:
    return (*encode(policy.tokenizer, words), policy.end_id)


async def _fail_under(
    session: Session, asked: Sequence[tuple[Problem, str]], number: int
) -> list[tuple[tuple[int, ...], int, str]]:
    """The prompts of the turns after those in which the writer failed under these instructions, how
    many of their tokens come after the problem's, and its family; none in a run without a
    writer."""
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
            shown = len(resumed) - len(prompt.token_ids)
            failed.append((resumed, shown, rollout.problem.family))
    return failed
