"""Critics as a gate for well-formed statements, one after the other.

Flows in: problems that ask for statements, bodies, policies that judge. Flows out: ``Critique``s,
and whether a body passes (the pipeline of CriticLean, Peng et al. 2025, arXiv 2507.06181). A critic
can only stop a statement: no status of a verdict comes from here. Not
handled here: whether a statement is well formed (``judging``), what a critic learns from
(``critiques``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proverrl.errors import ProblemError
from proverrl.lab.critics.language import Critique, ask_critique, read_answer
from proverrl.policy.base import Policy
from proverrl.rollout.extract import extract
from proverrl.types import Completion, Problem, Sampling

_SAMPLING = Sampling(temperature=0.1, max_new_tokens=512)


@dataclass(frozen=True, slots=True)
class Critic:
    """A policy that judges statements."""

    policy: Policy
    sampling: Sampling = _SAMPLING

    async def criticise_all(self, asked: Sequence[tuple[Problem, str]]) -> list[Critique]:
        """Its critique of each body, in their order. Bodies that are no statements are not asked
        about."""
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
            found[place] = self._read(problem, completion)
        return [found[place] for place in range(len(asked))]

    def _read(self, problem: Problem, completion: Completion) -> Critique:
        answer = extract(problem, completion.text, self.policy.layout)
        return Critique(None, answer.reason) if answer.body is None else read_answer(answer.body)


async def criticise(problem: Problem, body: str, critic: Critic) -> Critique:
    """The critique of one statement by a critic."""
    return (await critic.criticise_all([(problem, body)]))[0]


async def ask_critics(
    problem: Problem, body: str, critics: Sequence[Critic]
) -> tuple[str, Critique | None]:
    """The reason why a well-formed statement does not pass, empty if it does, and what the last
    critic that was asked said of it. Each is asked only about what those before it let through. A
    critic without a judgement lets nothing through. Whether what passes means what is meant is
    open."""
    said: Critique | None = None
    for number, critic in enumerate(critics, start=1):
        said = await criticise(problem, body, critic)
        if said.is_correct is None:
            return f"critic {number} gives no judgement: {said.reasons}", said
        if not said.is_correct:
            return f"critic {number} does not call it right", said
    return "", said
