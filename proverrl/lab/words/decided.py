"""Counts of decisions on claims and of answers to questions: right ones, and those that are proved.

Flows in: attempts at problems of the kinds ``decide`` and ``answer``. Flows out: a field of each
attempt's row, and shares with their intervals, over theorems or problems. A theorem counts only if
every variant of it is decided rightly (DeepTheorem, Zhang et al. 2025, arXiv 2505.23754): attempts
at different variants are independent, so that its share is the product of theirs. One of which not
every variant was judged is left out and counted. An answer is right where it was proved, or where
it is the one of the problem's reference: a policy is measured that can answer and not prove.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from proverrl.lab.words.answers import ANSWER, EXPECTED, read_given
from proverrl.lab.words.rewards import find_label, find_side
from proverrl.lab.words.sides import DECIDE
from proverrl.statistics import mean_interval
from proverrl.types import Candidate, Problem, Status


def describe_answer(problem: Problem, candidate: Candidate | None) -> dict[str, Any]:
    """The fields of an attempt's row about its answer; nothing for a problem that asks for none."""
    if problem.kind != ANSWER:
        return {}
    given = read_given(problem, candidate.body) if candidate is not None else ""
    return {"answer": {"given": given, "right": given == problem.metadata.get(EXPECTED)}}


def summarise_answers(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of all judged attempts; nothing where none answers a question."""
    found: dict[str, list[tuple[bool, bool]]] = {}
    for row in rows:
        if "answer" in row and Status(row["status"]).judged:
            is_proved = row["status"] == Status.PROVED
            right = is_proved or bool(row["answer"]["right"])
            found.setdefault(row["problem_id"], []).append((right, is_proved))
    if not found:
        return {}
    figures: dict[str, Any] = {"problems": len(found)}
    for place, name in enumerate(("right", "proved")):
        means = [sum(each[place] for each in tries) / len(tries) for tries in found.values()]
        low, high = mean_interval(means)
        figures[name] = {"value": sum(means) / len(means), "low": low, "high": high}
    return {"answers": figures}


def tell_answers(title: str, summary: Mapping[str, Any]) -> str:
    """``After: 80 questions: right answer 40.0 % (30.1-50.6), proved 35.0 % (...)``; empty for an
    evaluation that asks for none."""
    if not (found := summary.get("answers")):
        return ""
    names = {"right": "right answer", "proved": "proved"}
    shares = [
        f"{said} {100 * found[name]['value']:.1f} % "
        f"({100 * found[name]['low']:.1f}-{100 * found[name]['high']:.1f})"
        for name, said in names.items()
    ]
    return f"{title}: {found['problems']:,} questions: {', '.join(shares)}"


Row = Mapping[str, Any]

FIGURES = {
    "side": "right side",
    "all_sides": "right side of every variant",
    "proof": "proved",
    "all_proofs": "every variant proved",
}
"""The figures of a summary, and what they are called."""


@dataclass(slots=True)
class _Counts:
    counts: Counter[str] = field(default_factory=Counter)

    def share(self, name: str) -> float:
        return self.counts[name] / self.counts["judged"]


def describe_decision(problem: Problem, candidate: Candidate | None) -> dict[str, Any]:
    """The fields of an attempt's row about its decision; nothing for a problem that asks for
    none."""
    if problem.kind != DECIDE:
        return {}
    known = {name: problem.metadata.get(name) for name in ("theorem", "variants")}
    side = find_side(problem, candidate)
    return {"decision": {**known, "side": side, "right": side == find_label(problem)}}


def summarise_decisions(rows: Sequence[Row]) -> dict[str, Any]:
    """The figures of all attempts; nothing where none decides a claim. Chance is that of a fair
    coin for the side; no coin proves anything."""
    theorems: dict[str, dict[str, _Counts]] = {}
    sizes: dict[str, int] = {}
    for row in rows:
        if (decision := row.get("decision")) is None:
            continue
        name = decision["theorem"] or row["problem_id"]
        sizes[name] = int(decision["variants"] or 1)
        found = theorems.setdefault(name, {}).setdefault(row["problem_id"], _Counts())
        if Status(row["status"]).judged:
            found.counts["judged"] += 1
            found.counts["side"] += bool(decision["right"])
            found.counts["proof"] += row["status"] == Status.PROVED
    if not theorems:
        return {}
    whole = [
        list(variants.values())
        for name, variants in theorems.items()
        if len(variants) == sizes[name] and all(v.counts["judged"] for v in variants.values())
    ]
    coins = [0.5 ** len(variants) for variants in whole]
    figures: dict[str, Any] = {}
    for one, every, chance in (("side", "all_sides", 0.5), ("proof", "all_proofs", 0.0)):
        shares = [[variant.share(one) for variant in variants] for variants in whole]
        means = [sum(each) / len(each) for each in shares]
        together = _mean(coins) if chance else 0.0
        figures[one] = _figure(means, chance)
        figures[every] = _figure([math.prod(each) for each in shares], together)
    num = sum(map(len, whole))
    counts = {"theorems": len(whole), "variants": num, "left_out": len(theorems) - len(whole)}
    return {"decisions": counts | figures}


def tell_decisions(title: str, summary: Row) -> str:
    """``After: 60 theorems, 178 variants: right side 71.0 % (64.0-77.0; chance 50.0), ...``; empty
    for an evaluation that decides nothing."""
    if not (found := summary.get("decisions")):
        return ""
    parts = [f"{name} {_describe(found[key])}" for key, name in FIGURES.items()]
    left = f", {found['left_out']:,} left out" if found["left_out"] else ""
    counts = f"{found['theorems']:,} theorems, {found['variants']:,} variants{left}"
    return f"{title}: {counts}: {', '.join(parts)}"


def _describe(figure: Mapping[str, float | None]) -> str:
    if figure["value"] is None:
        return "-"
    names = ("value", "low", "high", "chance")
    value, low, high, chance = (100 * float(figure[name] or 0.0) for name in names)
    return f"{value:.1f} % ({low:.1f}-{high:.1f}; chance {chance:.1f})"


def _figure(values: Sequence[float], chance: float | None) -> dict[str, float | None]:
    low, high = mean_interval(values)
    return {"value": _mean(values), "low": low, "high": high, "chance": chance}


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
