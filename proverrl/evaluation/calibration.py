"""How well a policy judges its own attempts: its answers held against the verdicts.

Flows in: the stored attempts of an evaluation, and the policy that wrote them. Flows out: figures
beside pass@k. Each distinct attempt is judged several times; the share of answers that call it
proved is how sure the policy is (RISE, Liu et al. 2025, arXiv 2505.13445, has it say so). Whether
that is honest is told by the Brier score and by the expected calibration error (Guo et al. 2017,
arXiv 1706.04599, ten bins of equal width); what it is worth by the verifier calls up to the first
proof when the surest attempts are verified first. Nothing is proved by an answer, and every attempt
was verified. Not handled here: learning from such answers (``proverrl.loops.self_judging``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proverrl.errors import ProblemError
from proverrl.lang.critique.language import ask_verdict, read_answer
from proverrl.policy.base import Policy
from proverrl.rollout.extract import extract
from proverrl.types import Candidate, Problem, Sampling, Status

_BINS = 10


@dataclass(frozen=True, slots=True)
class Judgement:
    """A distinct attempt, whether it was proved, and the share of answers that call it so."""

    problem_id: str
    is_proved: bool
    confidence: float


async def judge_attempts(
    problems: Sequence[Problem],
    rows: Iterable[Mapping[str, Any]],
    policy: Policy,
    *,
    num: int,
    sampling: Sampling,
) -> tuple[list[Judgement], int]:
    """``num`` answers on each distinct attempt that was judged and holds a body; and how many of
    all answers were no judgement, which call nothing proved. What cannot be shown is left out."""
    by_id = {problem.id: problem for problem in problems}
    asked: dict[str, tuple[Problem, str, bool]] = {}
    for row in rows:
        status = Status(row["status"])
        if not status.judged or not row.get("body") or row["problem_id"] not in by_id:
            continue
        candidate = Candidate(by_id[row["problem_id"]], row["body"])
        try:
            question = ask_verdict(candidate, is_proved=status is Status.PROVED)
        except ProblemError:
            continue
        # Two that differ in comments alone are shown alike.
        key = row["problem_id"] + question.statement
        asked[key] = question, row["problem_id"], status is Status.PROVED
    found: list[Judgement] = []
    num_lost = 0
    prompts = [policy.prompt(question) for question, _, _ in asked.values()]
    written = await policy.generate(prompts, n=num, sampling=sampling) if prompts else []
    for (question, name, is_proved), answers in zip(asked.values(), written, strict=True):
        bodies = [extract(question, answer.text, policy.layout).body for answer in answers]
        said = [None if body is None else read_answer(body).is_correct for body in bodies]
        num_lost += said.count(None)
        found.append(Judgement(name, is_proved, said.count(True) / num))
    return found, num_lost


def describe_calibration(judged: Sequence[Judgement]) -> dict[str, float | int | None]:
    """The figures; None where there is nothing to divide by. ``calls_random`` and ``calls_judged``
    are the mean number of distinct attempts at a problem that are verified up to the first proof,
    in a random order and the surest first (equally sure ones in a random order); all of them where
    none is a proof."""
    sides = {
        truth: [one.confidence for one in judged if one.is_proved is truth]
        for truth in (True, False)
    }
    proved, refused = sides[True], sides[False]
    right = sum(proved) / len(proved) if proved else None
    wrong = sum(1 - sure for sure in refused) / len(refused) if refused else None
    errors = [(one.confidence - one.is_proved) ** 2 for one in judged]
    by_problem: dict[str, list[Judgement]] = {}
    for one in judged:
        by_problem.setdefault(one.problem_id, []).append(one)
    spent = [(_count_calls([each]), _count_calls(_rank(each))) for each in by_problem.values()]
    num = len(spent)
    return {
        "attempts": len(judged),
        "proved": len(proved),
        "right_of_proved": right,
        "right_of_refused": wrong,
        "balanced": None if right is None or wrong is None else (right + wrong) / 2,
        "brier": sum(errors) / len(errors) if errors else None,
        "ece": _calibration_error(judged),
        "calls_random": sum(calls for calls, _ in spent) / num if num else None,
        "calls_judged": sum(calls for _, calls in spent) / num if num else None,
    }


def tell_calibration(title: str, summary: Mapping[str, Any]) -> str:
    """A line for people; empty where the policy was not asked."""
    found = summary.get("calibration")
    if not found or not found["attempts"]:
        return ""

    def write(name: str, factor: float, digits: int) -> str:
        return "-" if found[name] is None else f"{factor * found[name]:.{digits}f}"

    lost = f", {found['no_judgement']:,} answers without a judgement"
    parts = (
        f"{title}: {found['attempts']:,} distinct attempts, {found['proved']:,} of them proved, as "
        f"the policy itself judges them: balanced {write('balanced', 100, 1)} %",
        f" (of proved {write('right_of_proved', 100, 1)}, of refused ",
        f"{write('right_of_refused', 100, 1)}), Brier {write('brier', 1, 3)}, calibration error ",
        f"{write('ece', 1, 3)}; calls to the first proof {write('calls_random', 1, 2)} in a ",
        f"random order, {write('calls_judged', 1, 2)} the surest first",
        lost if found["no_judgement"] else "",
    )
    return "".join(parts)


def _calibration_error(judged: Sequence[Judgement]) -> float | None:
    bins: dict[int, list[Judgement]] = {}
    for one in judged:
        bins.setdefault(min(int(one.confidence * _BINS), _BINS - 1), []).append(one)
    gaps = (
        abs(sum(one.confidence - one.is_proved for one in members)) for members in bins.values()
    )
    return sum(gaps) / len(judged) if judged else None


def _rank(judged: Sequence[Judgement]) -> list[list[Judgement]]:
    """By falling confidence, those equally sure together."""
    levels = sorted({one.confidence for one in judged}, reverse=True)
    return [[one for one in judged if one.confidence == level] for level in levels]


def _count_calls(ranks: Sequence[Sequence[Judgement]]) -> float:
    """The expected number up to the first proof, each rank in a random order."""
    before = 0
    for rank in ranks:
        if num_proved := sum(one.is_proved for one in rank):
            return before + (len(rank) + 1) / (num_proved + 1)
        before += len(rank)
    return before
