"""Counts of answers to questions: right answers, and answers that were proved.

Flows in: attempts at problems of the kind ``answer``. Flows out: a field of each attempt's row, and
two shares with their intervals over problems. An answer is right where it was proved, or where it
is the one of the problem's reference; with that a policy is measured that can answer and not prove.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proverrl.lab.words.answers import ANSWER, EXPECTED, read_given
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
