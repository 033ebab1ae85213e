"""A path of a search as tokens of a policy: the advantage of a stretch for each of its tokens.

Flows in: a ``SearchSample`` and the policy that is to learn from it. Flows out: a
``TrainingSample`` whose log-probabilities are 0 until the learner has scored it (``rescore``).
The body is written in the words of the policy's layout, as the policy would have written it, and a
token has the advantage of the stretch in which its first character lies: a token over a border
belongs to what stands before it. The end token belongs to the last stretch, and what a layout
writes before the body to the first. Not handled here: whether the path is proved.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from torch import Tensor

from proverrl.errors import UsageError
from proverrl.policy.transformers import TransformersPolicy
from proverrl.problems.prompt import render_body, render_opening
from proverrl.rollout.samples import TrainingSample
from proverrl.search.samples import SearchSample


class Learner(Protocol):
    """What scores samples with its weights; ``proverrl.learner.learner.TorchLearner`` does."""

    version: int

    def score(self, samples: Sequence[TrainingSample]) -> list[Tensor]:
        """Log-probabilities of each sample's tokens after the prompt."""
        ...


def find_places(sample: SearchSample, text: str, policy: TransformersPolicy) -> list[int] | None:
    """Where in ``text``, the body in the words of the layout, its stretches but the last end; None
    where one cannot be found, as when it ends within a name that the layout replaces."""
    places = []
    for end in sample.ends[:-1]:
        opening = render_opening(sample.problem, sample.body[:end], policy.layout)
        if not text.startswith(opening):
            return None
        places.append(len(opening))
    return places


def build_path_sample(
    policy: TransformersPolicy, sample: SearchSample, name: str
) -> TrainingSample | None:
    """The sample named ``name``, prompt masked; None where ``find_places`` finds none.

    Raises:
        UsageError: the policy's tokenizer does not tell where its tokens stand.
    """
    if not policy.tokenizer.is_fast:
        raise UsageError(
            "paths of searches need a tokenizer that tells where its tokens stand, and the "
            "policy's is a slow one; set samples.passes = 0"
        )
    text = render_body(sample.problem, sample.body, policy.layout)
    places = find_places(sample, text, policy)
    if places is None:
        return None
    encoded = policy.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    new = (*(int(i) for i in encoded["input_ids"]), policy.end_id)
    starts = [start for start, _ in encoded["offset_mapping"]]
    credit = [sample.advantages[bisect_right(places, start)] for start in starts]
    credit.append(sample.advantages[-1])
    prompt = policy.prompt(sample.problem).token_ids
    zeros = (0.0,) * len(prompt)
    return TrainingSample(
        rollout_id=name,
        policy_version=policy.version,
        prompt_length=len(prompt),
        token_ids=prompt + new,
        loss_mask=(0,) * len(prompt) + (1,) * len(new),
        logprobs=zeros + (0.0,) * len(new),
        advantages=(*zeros, *credit),
    )


def rescore(learner: Learner, samples: Sequence[TrainingSample]) -> list[TrainingSample]:
    """The samples as if the learner's present weights had written them."""
    scored = []
    for sample, logprobs in zip(samples, learner.score(samples), strict=True):
        values = (0.0,) * sample.prompt_length + tuple(map(float, logprobs.tolist()))
        scored.append(replace(sample, logprobs=values, policy_version=learner.version))
    return scored
