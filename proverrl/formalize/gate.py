"""Critics as a gate for statements: well formed by the verifier, then one critic after the other.

Flows in: problems that ask for statements, bodies, policies that judge. Flows out: ``Critique``s,
and whether a body passes (the pipeline of CriticLean, Peng et al. 2025, arXiv 2507.06181). A critic
can only stop a statement or mark the verdict on one: no status of a verdict comes from here. Not
handled here: writing statements, what a critic learns from (``critiques``).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from proverrl.errors import ProblemError
from proverrl.formalize.equivalence import get_formalizing
from proverrl.lang.critique.language import Critique, ask_critique, read_answer
from proverrl.policy.base import Policy
from proverrl.rewards.verdicts import CRITIC_AGREES
from proverrl.rollout.extract import extract
from proverrl.rollout.whole_proof import JudgedDraw
from proverrl.types import Candidate, Problem, Rollout, Sampling
from proverrl.verifier.base import Verifier

_SAMPLING = Sampling(temperature=0.1, max_new_tokens=512)


@dataclass(frozen=True, slots=True)
class Critic:
    """A policy that judges, with one answer for each statement."""

    policy: Policy
    sampling: Sampling = _SAMPLING

    async def criticise_all(self, asked: Sequence[tuple[Problem, str]]) -> list[Critique]:
        """What it says of each body, in their order. What is no statement is not asked about."""
        found: dict[int, Critique] = {}
        problems: dict[int, Problem] = {}
        for place, (problem, body) in enumerate(asked):
            try:
                problems[place] = ask_critique(problem, body)
            except ProblemError as error:
                found[place] = Critique(None, f"it cannot be read: {error}")
        prompts = [self.policy.prompt(problem) for problem in problems.values()]
        written = (
            await self.policy.generate(prompts, n=1, sampling=self.sampling) if prompts else []
        )
        for (place, problem), (completion,) in zip(problems.items(), written, strict=True):
            answer = extract(problem, completion.text, self.policy.layout)
            found[place] = Critique(None, answer.reason)
            if answer.body is not None:
                found[place] = read_answer(answer.body)
        return [found[place] for place in range(len(asked))]


async def criticise(problem: Problem, body: str, critic: Critic) -> Critique:
    """What a critic says of one statement."""
    return (await critic.criticise_all([(problem, body)]))[0]


async def find_fault(
    problem: Problem,
    body: str,
    verifier: Verifier,
    critics: Sequence[Critic] = (),
    *,
    deadline_seconds: float,
) -> str:
    """Why a statement does not pass the gate; empty where it does. The verifier is asked first, and
    of the critics each only about what those before it let through. A critic without a judgement
    lets nothing through. Whether a statement that passes means what is meant is not decided."""
    formalizing = get_formalizing(problem)
    candidate = Candidate(problem, body)
    verdict = await verifier.verify(candidate, deadline_seconds=deadline_seconds)
    if not verdict.status.judged:
        return f"not judged: {verdict.status}"
    if not formalizing.is_well_formed(candidate, verdict):
        return f"not well formed: {verdict.status}"
    for number, critic in enumerate(critics, start=1):
        said = await criticise(problem, body, critic)
        if not said.is_correct:
            return f"critic {number}: {said.reasons}"
    return ""


async def add_critiques(draws: Sequence[JudgedDraw], critic: Critic) -> list[JudgedDraw]:
    """The draws with a mark on the verdict of each well-formed statement that the critic calls
    right, for the reward to read. Nothing else of a verdict changes."""
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
    return rollout.mark(CRITIC_AGREES)
