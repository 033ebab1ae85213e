"""The modes of rollouts: a policy that instructs a writer, and the warm start of that writer.

Flows in: configurations, references. Flows out: modes. A writer learns each reference also under
the words that describe it. An instructor learns only that there are such words, after a problem and
after an attempt that failed: which of them help is left to reinforcement learning.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

from proverrl.config import Config, LayoutName
from proverrl.config.base import Fraction, NonNegativeFloat, Positive, Section
from proverrl.config.policy import SMALL_MODEL_TOKENS
from proverrl.errors import UsageError
from proverrl.lab.beside import open_beside
from proverrl.lab.preface.rewards import ATTEMPTS
from proverrl.lab.preface.shown import show_instruction
from proverrl.lab.preface.words import describe
from proverrl.lab.preface.writer import Writer
from proverrl.lang.records import Extraction
from proverrl.policy.engines import name_weights
from proverrl.policy.transformers import TransformersPolicy
from proverrl.rollout.extract import Mode
from proverrl.rollout.feedback import ANALYSE
from proverrl.rollout.self_correct import add_feedback, resume_within
from proverrl.rollout.whole_proof import Draw, judge_all
from proverrl.run.pairs import Pair, PairSource, make_source
from proverrl.run.session import Session
from proverrl.search.proposals import encode
from proverrl.seeds import derive_seed
from proverrl.types import Problem, Rollout, Sampling, Status

_DRAWS = 4
"""Instructions that an instructor learns after each prompt."""


def describe_reference(problem: Problem, body: str) -> str:
    """The instruction that fits a body. Raises ``UsageError``: there are no words for its
    language."""
    if problem.language != "dafny":
        raise UsageError(
            f"problem {problem.id!r}: {problem.language} has no words for instructions, only Dafny "
            "has; set warm_start.references_per_level = {}"
        )
    return describe(body)


class WriterOptions(Section):
    """Of the warm start of a writer."""

    bare_share: Fraction = 1.0
    """the share of the families whose bodies it also learns without an instruction"""


class TeachWriter(Mode):
    """Whole proofs by a policy whose warm start teaches it to follow words."""

    def __init__(self, config: Config, *, options: WriterOptions) -> None:
        self.options = options

    def words(self, references: Sequence[tuple[Problem, str]]) -> list[str]:
        """See ``Mode.words``."""
        return [describe_reference(*pair) for pair in references]

    async def teach(self, session: Session, references: list[PairSource]) -> list[PairSource]:
        """Each reference under its words, and those of some families without."""
        known = session.problems.references
        bare = choose_bare_families(known, self.options.bare_share)
        policy = session.policy
        alone = [make_source(policy, *pair) for pair in known if pair[0].family in bare]
        return alone + [
            _make_instructed(policy, problem, describe_reference(problem, body), body)
            for problem, body in known
        ]


def _make_instructed(
    policy: TransformersPolicy, problem: Problem, instruction: str, body: str
) -> PairSource:
    """A body to learn under an instruction."""
    return cache(
        lambda: Pair(
            show_instruction(policy, problem, instruction).token_ids,
            policy.body_ids(problem, body),
        )
    )


def choose_bare_families(references: Sequence[tuple[Problem, str]], share: float) -> set[str]:
    """Every so many of the sorted names, which begin with the level, so that each level has its
    share; all of them for 1."""
    families = sorted({problem.family for problem, _ in references})
    return {f for i, f in enumerate(families) if int((i + 1) * share) > int(i * share)}


class InstructOptions(Section):
    """The writer, whose weights never change."""

    writer: str = ""
    """a Hugging Face folder or id, of a run that trained it ``RUN/policy``; or ``endpoint:NAME``"""
    layout: LayoutName = "plain"
    """how the writer is shown a problem, and how its answers are read (``policy.layout``)"""
    temperature: NonNegativeFloat = 0.75
    """temperature of the writer"""
    max_new_tokens: Positive = SMALL_MODEL_TOKENS
    """the most tokens of a body by the writer"""
    characters: tuple[Positive, ...] = (1800, 1100, 750, 500)
    """the most characters of an instruction in each turn, the last number for all turns after it"""


class Instruct(Mode):
    """The policy writes instructions, and a frozen writer the bodies."""

    def __init__(self, config: Config, *, options: InstructOptions) -> None:
        self.config, self.options = config, options

    @cached_property
    def writer(self) -> Writer:
        """Loaded where it is first asked for. Raises ``UsageError`` if it cannot be."""
        options = self.options
        key = "rollout.options.writer"
        policy = open_beside(self.config, options.writer, options.layout, key)
        sampling = Sampling(temperature=options.temperature, max_new_tokens=options.max_new_tokens)
        attempts = ATTEMPTS.get(self.config.reward.name)
        return Writer(policy, sampling, options.characters, attempts)

    @property
    def engine(self) -> str:  # type: ignore[override]
        """See ``Mode``."""
        return f"instructions for a writer, {self.writer.policy.engine}"

    def against(self, config: Config) -> str:
        """See ``Mode.against``; most of what is refused has the policy imitate bodies."""
        if not self.options.writer:
            return "needs a writer: set rollout.options.writer"
        if reason := config.against_path(self.options.writer):
            return f"with the writer {self.options.writer!r}: {reason}"
        if not self.options.characters:
            return "needs a budget: set rollout.options.characters, as [1800, 500]"
        if config.loop not in ("grpo", "warm_start"):
            return f'is for loop = "grpo", not {config.loop!r}'
        bodies = {
            "experiments": config.experiments,
            "learner.replay_samples": config.learner.replay_samples,
            "evaluation.search": config.evaluation.search,
        }
        names = [name for name, asked in bodies.items() if asked]
        return f"has no use for {', '.join(names)}, made for bodies; drop it" if names else ""

    def words(self, references: Sequence[tuple[Problem, str]]) -> list[str]:
        """See ``Mode.words``."""
        return [describe_reference(*pair) for pair in references]

    async def read(
        self, answers: Sequence[tuple[Problem, str]], *, layout: LayoutName, turn: int, seed: int
    ) -> list[Extraction]:
        """The writer's bodies, under what the answers instruct."""
        return await self.writer.write(answers, layout=layout, turn=turn, seed=seed)

    def tell(self, rollout: Rollout, told: str, layout: LayoutName) -> str:
        """See ``Writer.tell``."""
        return self.writer.tell(rollout, told.removesuffix(ANALYSE).strip(), layout)

    def describe(self) -> dict[str, Any]:
        """The writer by its weights, whichever folder it was read from; the reward is told to the
        policy."""
        settings = self.options.model_dump(mode="json", exclude={"writer"})
        weights = name_weights(self.writer.policy)
        return {"instruct": {**settings, "writer": weights, "reward": self.config.reward.name}}

    async def teach(self, session: Session, references: list[PairSource]) -> list[PairSource]:
        """No bodies, but the form of instructions."""
        config, policy = session.config, session.policy
        known = session.problems.references if config.warm_start.steps else ()
        words = [describe_reference(*pair) for pair in known]
        rng = random.Random(derive_seed(config.seed, "instructions"))
        sources: list[PairSource] = []
        for number in range(_DRAWS if known else 0):
            # Those of the others, so that a problem says nothing of what fits it.
            drawn = rng.sample(words, len(words))
            asked = [(problem, text) for (problem, _), text in zip(known, drawn, strict=True)]
            sources += [
                _make_source(policy, policy.prompt(problem).token_ids, 0, text)
                for problem, text in asked
            ]
            failed = await self._fail_under(session, asked, number)
            again = rng.sample(words, len(failed))
            sources += [
                _make_source(policy, ids, shown, text)
                for (ids, shown), text in zip(failed, again, strict=True)
            ]
        return sources

    async def _fail_under(
        self, session: Session, asked: Sequence[tuple[Problem, str]], number: int
    ) -> list[tuple[tuple[int, ...], int]]:
        """The prompts of the turns after those in which the writer failed under these instructions,
        and how many of their tokens come after the problem's."""
        config, policy = session.config, session.policy
        if config.rollout.turns < 2:
            return []
        seed = derive_seed(config.seed, "instructions", number)
        written = await self.read(asked, layout=policy.layout, turn=0, seed=seed)
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
                told = add_feedback(rollout, policy, config.rollout, self)
                resumed = resume_within(policy, prompt, told, config.rollout).token_ids
                failed.append((resumed, len(resumed) - len(prompt.token_ids)))
        return failed


def _make_source(
    policy: TransformersPolicy, prompt_ids: tuple[int, ...], num_shown: int, words: str
) -> PairSource:
    """An instruction after a prompt, whose last tokens are shown only; no layout changes it."""
    return cache(lambda: Pair(prompt_ids, _encode(policy, words), num_shown))


def _encode(policy: TransformersPolicy, words: str) -> tuple[int, ...]:
    return (*encode(policy.tokenizer, words), policy.end_id)
