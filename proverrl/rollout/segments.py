"""Segment rollouts: a long completion is written over several draws (UloRL, Du et al. 2025, arXiv
2507.19766).

Flows in: draws of which nothing or a part is written. Flows out: the same draws, each open
completion longer by at most one segment, and of these the draws that are whole. A completion keeps
the log-probabilities with which each token was drawn, whatever weights write the next segment.
Not handled here: which problems are begun, and how a whole draw is judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from proverrl.hint import Hint
from proverrl.policy.base import Policy, generate_fitting
from proverrl.policy.transformers import TransformersPolicy
from proverrl.rollout.hints import with_hint
from proverrl.rollout.instruct import Writer
from proverrl.rollout.whole_proof import Draw, name_draws, read_draws
from proverrl.types import Completion, Problem, Prompt, Sampling


class OpenDraws:
    """The draws of a run that are not whole yet. A completion has at most ``max_new_tokens``, and
    ``context_tokens`` together with its prompt; ``policy`` makes prompts, and texts of tokens.
    ``last`` are the tokens that each gained in the last draw, and how many completions wait since,
    for themselves or for one of their group."""

    def __init__(
        self, policy: TransformersPolicy, *, max_new_tokens: int, context_tokens: int
    ) -> None:
        self.draws: list[Draw] = []
        self.last: tuple[list[int], int] = ([], 0)
        self._policy = policy
        self._most = max_new_tokens
        self._context = context_tokens

    async def draw_groups(
        self,
        sampler: Policy,
        problems: Sequence[Problem],
        *,
        n: int,
        sampling: Sampling,
        name: str,
        hints: Sequence[Hint | None] | None = None,
        writer: Writer | None = None,
    ) -> list[Draw]:
        """As ``whole_proof.draw_groups``, but what is begun is open, and of all that is open a
        segment of at most ``sampling.max_new_tokens`` is written. Returns the draws that are whole
        now, the oldest first. When this is cancelled nothing has changed."""
        begun = name_draws(problems, hints, name=name)
        draws = [*self.draws, *(self._begin(draw, n) for draw in begun)]
        going = [(d.problem.id, c) for d in draws for c in d.completions if self._is_open(c)]
        prompts = [Prompt(problem_id, "", c.prompt_ids + c.token_ids) for problem_id, c in going]
        rows = await generate_fitting(sampler, prompts, n=1, sampling=sampling)
        written = [row[0] for row in rows]
        longer = iter([self._join(c, new) for (_, c), new in zip(going, written, strict=True)])
        whole: list[Draw] = []
        still_open: list[Draw] = []
        for draw in draws:
            row = tuple(next(longer) if self._is_open(c) else c for c in draw.completions)
            place = still_open if any(map(self._is_open, row)) else whole
            place.append(replace(draw, completions=row))
        read = await read_draws(whole, layout=sampler.layout, seed=sampling.seed, writer=writer)
        self.draws = still_open
        num_waiting = sum(len(draw.completions) for draw in still_open)
        self.last = ([len(completion.token_ids) for completion in written], num_waiting)
        return read

    def _begin(self, draw: Draw, n: int) -> Draw:
        prompt = with_hint(self._policy.prompt(draw.problem), draw.hint)
        blank = Completion("", prompt.token_ids, (), (), "length", self._policy.version)
        return replace(draw, completions=(blank,) * n)

    def _is_open(self, completion: Completion) -> bool:
        num_tokens = len(completion.token_ids)
        # What is begun is open even if its prompt leaves no room: the policy says that.
        has_room = len(completion.prompt_ids) + num_tokens < self._context or not num_tokens
        return completion.finish_reason == "length" and num_tokens < self._most and has_room

    def _join(self, before: Completion, after: Completion) -> Completion:
        """A completion and the segment that was written after it, read as one text."""
        if after.finish_reason == "no_room":
            return after
        whole = self._policy.make_completion(
            before.prompt_ids,
            before.token_ids + after.token_ids,
            before.logprobs + after.logprobs,
            stopped=after.finish_reason == "stop",
        )
        segments = (*before.segments, (after.policy_version, len(after.token_ids)))
        return replace(whole, policy_version=segments[0][0], segments=segments)
