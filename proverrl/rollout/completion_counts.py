"""Counts completions that failed before any verdict: cut off, or without a candidate.

Flows in: the outcome of each completion; stored figures about them. Flows out: figures under the
same keys everywhere (``metrics.jsonl``, evaluations, searches), a few words for a line, and
warnings that name the key to change. A completion that was cut off may still hold a candidate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from proverrl.errors import name_some
from proverrl.rollout.extract import generalise_reason

LOST = {
    "content_filter": "a filter of the server withheld the answer",
    "no_room": "the prompt leaves the model no room for an answer",
}
"""The reason why a completion that ended so may be empty."""
WARN_ABOVE = 0.5
"""A share of completions above which a figure says more about a setting than about the policy."""


@dataclass(slots=True)
class CompletionCounts:
    """Running counts; ``reasons`` are those for which there was no candidate, without names."""

    num: int = 0
    num_truncated: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, *, truncated: bool, reason: str) -> None:
        """Count a completion; ``reason`` is empty when it holds a candidate."""
        self.num += 1
        self.num_truncated += truncated
        if reason:
            self.reasons[generalise_reason(reason)] += 1

    def figures(self) -> dict[str, Any]:
        """Counts, shares of all completions (None when there was none), the commonest reason."""
        num_without = self.reasons.total()
        commonest = self.reasons.most_common(1)
        return {
            "truncated": self.num_truncated,
            "truncated_share": _share(self.num_truncated, self.num),
            "without_candidate": num_without,
            "without_candidate_share": _share(num_without, self.num),
            "without_candidate_reason": commonest[0][0] if commonest else "",
        }


def sum_figures(rows: Iterable[Mapping[str, Any]], *, num: str) -> CompletionCounts | None:
    """Stored figures together; ``num`` is the key of how many completions there were. The reason is
    the commonest of the rows' commonest. Rows without completions are left out; None when no other
    is there."""
    needed = (num, "truncated", "truncated_share", "without_candidate", "without_candidate_reason")
    known = [row for row in rows if None not in map(row.get, needed)]
    if not known:
        return None
    reasons: Counter[str] = Counter()
    for row in known:
        reasons[row["without_candidate_reason"]] += row["without_candidate"]
    return CompletionCounts(
        sum(row[num] for row in known), sum(row["truncated"] for row in known), reasons
    )


def describe_lost(figures: Mapping[str, Any]) -> str:
    """``97% cut off, 62% without a candidate``, from stored figures; empty when nothing was."""
    parts = [
        f"{round(100 * share) or '<1'}% {words}"
        for name, words in (("truncated", "cut off"), ("without_candidate", "without a candidate"))
        if (share := figures.get(f"{name}_share"))
    ]
    return ", ".join(parts)


def warn_of_lost(
    figures: Mapping[str, Any], *, max_new_tokens: int | None = None, layout: str | None = None
) -> dict[str, str]:
    """A sentence for each kind of which more than half of the completions are, else an empty one;
    from stored figures, with the values of the keys where they are known."""
    limit = "" if max_new_tokens is None else f" (now {max_new_tokens:,})"
    now = "" if layout is None else f" (now {layout!r})"
    reason = str(figures.get("without_candidate_reason") or "not recorded")
    sentences = {
        "truncated": "completions were cut off at the token limit: raise sampling.max_new_tokens"
        + limit,
        "without_candidate": f"completions hold no candidate, most often because: {reason}. "
        + (
            "Take another model or server"
            if reason in LOST.values()
            else f"Set policy.layout to the one that the policy writes{now}"
        ),
        "composer_truncated": "the composer's completions were cut off at the token limit: raise "
        "selfplay.max_new_tokens",
    }
    return {
        name: f"{100 * share:.0f}% of the {sentence.removeprefix('the ')}"
        if (share := figures.get(f"{name}_share") or 0.0) > WARN_ABOVE
        else ""
        for name, sentence in sentences.items()
    }


def warn_of_room(problem_ids: Collection[str]) -> str:
    """Names the problems to which the model has no room to answer; empty without any."""
    if not problem_ids:
        return ""
    return (
        f"{len(problem_ids)} problems are left out, because they leave the model no room for an "
        f"answer: {name_some(sorted(problem_ids), 10)}. Take a model with a longer context, or "
        "where a server counts the answer too, lower sampling.max_new_tokens"
    )


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
