"""The evaluation of a policy: what with, how often, and from which distribution.

Flows in: the table ``[evaluation]``. Flows out: checked values. Not handled here: searches
(``proverrl.config.search``).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from proverrl.config.base import NonNegative, Positive, PositiveFloat, Section


class EvalConfig(Section):
    """Evaluation before and after the loop."""

    split: Literal["train", "valid", "heldout"] = "heldout"
    """``train``, ``valid`` or ``heldout``"""
    benchmarks: tuple[str, ...] = ()
    """problem files that ``proverrl eval`` uses when there is no ``--benchmark``"""
    mixed: bool = False
    """every other attempt is one whole proof, the rest are rollouts of ``rollout.mode =
    "self_correct"``"""
    search: bool = False
    """an attempt is a search as [``[search]``](#search) says (``proverrl eval --mode search``)"""
    searches: Positive = 32
    """searches that run side by side; 1 repeats bit for bit on one machine with one setting"""
    samples: Positive = 8
    """attempts per problem; the largest of ``ks`` if that is more"""
    ks: Annotated[tuple[Positive, ...], Field(min_length=1)] = (1, 8)
    """the k of pass@k"""
    temperature: PositiveFloat = 1.0
    """temperature in evaluation"""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """draw from the likeliest tokens that together have this probability (nucleus sampling); such
    tokens have no log-probabilities and are never learned from. Searches refuse it"""
    top_k: NonNegative = 0
    """draw from so many likeliest tokens; 0 is all. Searches refuse it"""
    max_problems: NonNegative = 0
    """only the first this many problems; 0 is all"""
    before: bool = True
    """evaluate after the warm start, before the loop"""
    after: bool = True
    """evaluate after the loop"""

    @property
    def against_search(self) -> str:
        """The reason why no search could use what is sampled like this; empty where one can."""
        for key, value, all_tokens in (("top_p", self.top_p, 1), ("top_k", self.top_k, 0)):
            if value != all_tokens:
                return (
                    f"evaluation.{key} is for whole proofs and turns: searches compare "
                    f"log-probabilities of the whole distribution; set it to {all_tokens}"
                )
        return ""
