"""Critics as a gate for well-formed statements, one after the other.

Flows in: problems that ask for statements, bodies, policies that judge. Flows out: ``Critique``s,
and whether a body passes (the pipeline of CriticLean, Peng et al. 2025, arXiv 2507.06181). A critic
can only stop a statement or mark the verdict on one: no status of a verdict comes from here. Not
handled here: whether a statement is well formed (``judging``), what a critic learns from
(``critiques``).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from proverrl.errors import ProblemError
from proverrl.formalize.equivalence import get_formalizing
from proverrl.lang.critique.language import Critique, ask_critique, read_answer
from proverrl.policy.base import Policy
from proverrl.rollout.extract import extract
from proverrl.rollout.whole_proof import JudgedDraw
from proverrl.types import Completion, Opinion, Problem, Rollout, Sampling

_SAMPLING = Sampling(temperature=0.1, max_new_tokens=512)


@dataclass(frozen=True, slots=True)
class Critic:
    """A policy that judges statements."""

    policy: Policy
    sampling: Sampling = _SAMPLING

    async def criticise_all(self, asked: Sequence[tuple[Problem, str]]) -> list[Critique]:
        """What it says of each body, in their order. What is no statement is not asked about."""
        return [said for (said,) in await self._ask_all(asked, n=1, sampling=self.sampling)]

    async def doubt_all(
        self, asked: Sequence[tuple[Problem, str]], *, n: int
    ) -> list[float | None]:
        """How little it is sure of each body, in [0, 1]: 1 where of ``n`` answers at temperature 1
        as many say right as wrong, 0 where all agree; None where none is a judgement."""
        sampling = replace(self.sampling, temperature=1.0)
        doubts: list[float | None] = []
        for answers in await self._ask_all(asked, n=n, sampling=sampling):
            said = [answer.is_correct for answer in answers if answer.is_correct is not None]
            doubts.append(1.0 - abs(2.0 * sum(said) / len(said) - 1.0) if said else None)
        return doubts

    async def _ask_all(
        self, asked: Sequence[tuple[Problem, str]], *, n: int, sampling: Sampling
    ) -> list[list[Critique]]:
        found: dict[int, list[Critique]] = {}
        problems: dict[int, Problem] = {}
        for place, (problem, body) in enumerate(asked):
            try:
                problems[place] = ask_critique(problem, body)
            except ProblemError as error:
                found[place] = [Critique(None, f"it cannot be read: {error}")] * n
        prompts = [self.policy.prompt(problem) for problem in problems.values()]
        written = await self.policy.generate(prompts, n=n, sampling=sampling) if prompts else []
        for (place, problem), completions in zip(problems.items(), written, strict=True):
            found[place] = [self._read(problem, completion) for completion in completions]
        return [found[place] for place in range(len(asked))]

    def _read(self, problem: Problem, completion: Completion) -> Critique:
        answer = extract(problem, completion.text, self.policy.layout)
        return Critique(None, answer.reason) if answer.body is None else read_answer(answer.body)


async def criticise(problem: Problem, body: str, critic: Critic) -> Critique:
    """What a critic says of one statement."""
    return (await critic.criticise_all([(problem, body)]))[0]


async def ask_critics(
    problem: Problem, body: str, critics: Sequence[Critic]
) -> tuple[str, Critique | None]:
    """Why a well-formed statement does not pass, empty where it does, and what the last critic that
    was asked said of it. Each is asked only about what those before it let through. A critic
    without a judgement lets nothing through. Whether what passes means what is meant is open."""
    said: Critique | None = None
    for number, critic in enumerate(critics, start=1):
        said = await criticise(problem, body, critic)
        if said.is_correct is None:
            return f"critic {number} gives no judgement: {said.reasons}", said
        if not said.is_correct:
            return f"critic {number} does not call it right", said
    return "", said


async def add_critiques(draws: Sequence[JudgedDraw], critic: Critic) -> list[JudgedDraw]:
    """The draws with ``agrees`` in the opinion of each well-formed statement that the critic calls
    right."""
    last = [(r.problem, r.turns[-1]) for draw in draws for r in draw.rollouts]
    asked = {
        (turn.candidate.key, problem.informal): (problem, turn.candidate.body)
        for problem, turn in last
        if turn.candidate is not None
        and turn.verdict is not None
        and get_formalizing(problem).is_well_formed(turn.candidate, turn.verdict)
    }
    said = await critic.criticise_all(list(asked.values()))
    right = {key for key, critique in zip(asked, said, strict=True) if critique.is_correct}
    return [
        replace(draw, rollouts=tuple(_mark(rollout, right) for rollout in draw.rollouts))
        for draw in draws
    ]


def _mark(rollout: Rollout, right: Set[tuple[str, str]]) -> Rollout:
    last = rollout.turns[-1].candidate
    if last is None or (last.key, rollout.problem.informal) not in right:
        return rollout
    return replace(rollout, opinion=rollout.opinion | Opinion(agrees=True))
