"""Signs that composed problems lose their variety, or that a composer games its reward.

Flows in: the problems of a round, how often each was solved, and what the composer earned. Flows
out: figures of the round, and warnings that name the rule that fired. All of it is pure; a caller
keeps the figures of earlier rounds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from proverrl.curriculum.base import entropy, operator_of
from proverrl.errors import RecordError
from proverrl.problems.contamination import make_skeleton
from proverrl.types import Problem

RuleName = Literal[
    "few_skeletons",
    "one_template",
    "operators_fade",
    "overlap",
    "all_solved",
    "none_solved",
    "reward_without_variety",
    "length_drift",
    "unreadable",
]

_NUMBER = re.compile(r"\b\d[\d_.]*\b")
# The limits are ours; docs/selfplay.md says what each means.
_MIN_PROBLEMS = 8
_MIN_VARIETY = 0.5
_MAX_TEMPLATE = 0.5
_MIN_OPERATOR_ENTROPY = 0.5
_MAX_OVERLAP = 0.9
_MAX_ALWAYS = 0.5
_MAX_NEVER = 0.75
_WINDOW = 3
_MIN_RISE = 0.05
_MIN_KEPT = 0.8
_MAX_DRIFT = 2.0
_MAX_MALFORMED = 0.5


@dataclass(frozen=True, slots=True)
class RoundFigures:
    """One round's composed problems. Shares lie in [0, 1]; lengths are tokens of a statement.

    ``skeletons`` counts statements that differ by more than names and layout, ``templates`` those
    that differ by more than numbers as well; ``top_template`` is the share of the commonest.
    ``distinct`` is distinct n-grams over all n-grams (distinct-n, Li et al. 2016, arXiv
    1510.03055), ``overlap`` the mean share of a problem's n-grams that another problem of the
    round has too. ``operator_entropy`` is in nats. ``always`` and ``never`` are the shares of
    problems that every attempt solved, and none; ``reward`` is the composer's mean. Of the
    ``written`` statements ``malformed`` held no problem.
    """

    round: int
    problems: int
    skeletons: int
    templates: int
    top_template: float
    operator_entropy: float
    distinct: float
    overlap: float
    always: float
    never: float
    reward: float
    length: float
    written: int = 0
    malformed: int = 0

    @property
    def variety(self) -> float:
        """Skeletons per problem; 1 when no two are alike."""
        return self.skeletons / self.problems if self.problems else 1.0

    def metrics(self) -> dict[str, Any]:
        values = asdict(self) | {"variety": self.variety}
        logged = set(values) - {"round", "written", "malformed"}
        return {f"compose_{name}": value for name, value in values.items() if name in logged}


@dataclass(frozen=True, slots=True)
class CollapseWarning:
    """A rule that fired on a round, with the numbers that made it fire."""

    rule: RuleName
    round: int
    text: str


def find_ngrams(tokens: Sequence[str], n: int) -> list[tuple[str, ...]]:
    """All runs of ``n`` tokens, in order; none of a shorter text."""
    return [tuple(tokens[start : start + n]) for start in range(len(tokens) - n + 1)]


def distinct_share(texts: Sequence[Sequence[str]], n: int) -> float:
    """Distinct n-grams over all n-grams of all texts; 1 when there is none."""
    grams = [gram for tokens in texts for gram in find_ngrams(tokens, n)]
    return len(set(grams)) / len(grams) if grams else 1.0


def overlap_share(texts: Sequence[Sequence[str]], n: int) -> float:
    """Mean over texts of the share of their distinct n-grams that another text has too; texts
    without n-grams are left out, and of nothing it is 0."""
    sets = [set(find_ngrams(tokens, n)) for tokens in texts]
    holders = Counter(gram for grams in sets for gram in grams)
    shares = [sum(holders[gram] > 1 for gram in grams) / len(grams) for grams in sets if grams]
    return sum(shares) / len(shares) if shares else 0.0


def examine_round(
    number: int,
    problems: Sequence[Problem],
    rates: Sequence[float],
    rewards: Sequence[float],
    *,
    written: int = 0,
    malformed: int = 0,
    n: int = 4,
) -> RoundFigures:
    """The figures of a round: its problems, each one's solve rate, and the composer's rewards,
    which may be of more or other attempts; ``malformed`` of the ``written`` statements held no
    problem. Raises ``RecordError`` if there is not one rate for each problem."""
    if len(rates) != len(problems):
        raise RecordError(f"round {number}: {len(problems)} problems but {len(rates)} solve rates")
    skeletons = [make_skeleton(problem) for problem in problems]
    texts = [skeleton.split(" ") for skeleton in skeletons]
    templates = Counter(_NUMBER.sub("0", skeleton) for skeleton in skeletons)
    num = len(problems)
    return RoundFigures(
        round=number,
        problems=num,
        skeletons=len(set(skeletons)),
        templates=len(templates),
        top_template=max(templates.values(), default=0) / num if num else 0.0,
        operator_entropy=entropy(Counter(operator_of(p) for p in problems).values()),
        distinct=distinct_share(texts, n),
        overlap=overlap_share(texts, n),
        always=sum(rate == 1.0 for rate in rates) / num if num else 0.0,
        never=sum(rate == 0.0 for rate in rates) / num if num else 0.0,
        reward=sum(rewards) / len(rewards) if rewards else 0.0,
        length=sum(len(tokens) for tokens in texts) / num if num else 0.0,
        written=written,
        malformed=malformed,
    )


def find_warnings(rounds: Sequence[RoundFigures]) -> list[CollapseWarning]:
    """The warnings of the newest round; ``rounds`` are oldest first. A round with fewer than eight
    problems says too little: it gives no warning but ``unreadable``, and no comparison uses it."""
    known = [figures for figures in rounds if figures.problems >= _MIN_PROBLEMS]
    if known and known[-1] is not rounds[-1]:
        known = []
    return [
        CollapseWarning(rule, rounds[-1].round, text)
        for rule, check in RULES.items()
        if (given := rounds if rule == "unreadable" else known) and (text := check(given))
    ]


def _few_skeletons(rounds: Sequence[RoundFigures]) -> str:
    last = rounds[-1]
    if last.variety >= _MIN_VARIETY:
        return ""
    return f"{last.problems} problems have {last.skeletons} skeletons, names aside"


def _above(share: float, most: float, text: str) -> str:
    return f"{share:.0%} {text}" if share > most else ""


def _operators_fade(rounds: Sequence[RoundFigures]) -> str:
    first, last = rounds[0].operator_entropy, rounds[-1].operator_entropy
    if last >= _MIN_OPERATOR_ENTROPY * first:
        return ""
    return f"the entropy of operators fell from {first:.2f} to {last:.2f} nats"


def _reward_without_variety(rounds: Sequence[RoundFigures]) -> str:
    if len(rounds) <= _WINDOW:
        return ""
    first, last = rounds[-1 - _WINDOW], rounds[-1]
    rose = last.reward - first.reward >= _MIN_RISE
    if not rose or last.variety > _MIN_KEPT * first.variety:
        return ""
    return (
        f"since round {first.round} the composer's reward rose from {first.reward:.3f} to "
        f"{last.reward:.3f} while skeletons a problem fell from {first.variety:.2f} to "
        f"{last.variety:.2f}"
    )


def _length_drift(rounds: Sequence[RoundFigures]) -> str:
    first, last = rounds[0].length, rounds[-1].length
    if first / _MAX_DRIFT <= last <= first * _MAX_DRIFT:
        return ""
    return f"statements have {last:.1f} tokens, {first:.1f} in the first round"


def _unreadable(rounds: Sequence[RoundFigures]) -> str:
    last = rounds[-1]
    few = last.written < _MIN_PROBLEMS
    if few or last.malformed <= _MAX_MALFORMED * last.written:
        return ""
    return f"{last.malformed} of {last.written} statements hold no problem"


RULES: dict[RuleName, Callable[[Sequence[RoundFigures]], str]] = {
    "few_skeletons": _few_skeletons,
    "one_template": lambda rounds: _above(
        rounds[-1].top_template,
        _MAX_TEMPLATE,
        "of the problems are one template, names and numbers aside",
    ),
    "operators_fade": _operators_fade,
    "overlap": lambda rounds: _above(
        rounds[-1].overlap, _MAX_OVERLAP, "of a problem's n-grams stand in another problem too"
    ),
    "all_solved": lambda rounds: _above(
        rounds[-1].always, _MAX_ALWAYS, "of the problems are solved by every attempt"
    ),
    "none_solved": lambda rounds: _above(
        rounds[-1].never, _MAX_NEVER, "of the problems are solved by no attempt"
    ),
    "reward_without_variety": _reward_without_variety,
    "length_drift": _length_drift,
    "unreadable": _unreadable,
}
