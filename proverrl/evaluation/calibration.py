"""How well a policy judges its own attempts: its answers held against the verdicts.

Flows in: the stored attempts of an evaluation, and the policy that wrote them. Flows out: figures
beside pass@k. Each distinct attempt is judged several times; the share of answers that call it
proved is how sure the policy is (RISE, Liu et al. 2025, arXiv 2505.13445, has it say so). Whether
that is honest is told by the Brier score and by the expected calibration error (Guo et al. 2017,
arXiv 1706.04599, ten bins of equal width); what it is worth by the verifier calls up to the first
proof when the surest attempts are verified first. Nothing is proved by an answer, and every attempt
was verified. Not handled here: learning from such answers (``proverrl.run.self_judging``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proverrl.errors import ProblemError
from proverrl.lang.critique.language import ask_verdict, read_answer
from proverrl.policy.base import Policy
from proverrl.rollout.extract import extract
from proverrl.statistics import compute_calibration
from proverrl.types import Candidate, Problem, Sampling, Status

_ANSWER_TOKENS = 64
"""Room for an answer that is to be read as one."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A distinct attempt, whether it was proved, and the shares of answers that call it proved and
    refused; the rest are no judgement."""

    problem_id: str
    is_proved: bool
    confidence: float
    doubt: float


def ask_about(candidate: Candidate, policy: Policy, *, is_proved: bool) -> Problem | None:
    """The question whether a candidate is proved; None where it cannot be shown: a body with
    quotes, or one that leaves a model no room for an answer."""
    try:
        question = ask_verdict(candidate, is_proved=is_proved)
    except ProblemError:
        return None
    most = getattr(policy, "context_tokens", None)
    if most is None:
        return question  # A server does not say.
    fits = len(policy.prompt(question).token_ids) + _ANSWER_TOKENS <= most
    return question if fits else None


async def judge_attempts(
    problems: Sequence[Problem],
    rows: Iterable[Mapping[str, Any]],
    policy: Policy,
    *,
    num: int,
    sampling: Sampling,
) -> tuple[list[Judgement], int]:
    """``num`` answers on each distinct attempt that was judged and holds a body; and how many of
    these attempts could not be shown (``ask_about``), of which nothing is said."""
    by_id = {problem.id: problem for problem in problems}
    asked: dict[str, tuple[Problem, str, bool]] = {}
    not_shown: set[str] = set()
    for row in rows:
        status = Status(row["status"])
        if not status.judged or not row.get("body") or row["problem_id"] not in by_id:
            continue
        candidate = Candidate(by_id[row["problem_id"]], row["body"], row.get("prelude", ""))
        is_proved = status is Status.PROVED
        question = ask_about(candidate, policy, is_proved=is_proved)
        if question is None:
            not_shown.add(candidate.key)
            continue
        # Two that differ in comments alone are shown alike.
        asked[row["problem_id"] + question.statement] = question, row["problem_id"], is_proved
    found: list[Judgement] = []
    prompts = [policy.prompt(question) for question, _, _ in asked.values()]
    written = await policy.generate(prompts, n=num, sampling=sampling) if prompts else []
    for (question, name, is_proved), answers in zip(asked.values(), written, strict=True):
        bodies = [extract(question, answer.text, policy.layout).body for answer in answers]
        said = [None if body is None else read_answer(body).is_correct for body in bodies]
        found.append(Judgement(name, is_proved, said.count(True) / num, said.count(False) / num))
    return found, len(not_shown)


def describe_calibration(judged: Sequence[Judgement]) -> dict[str, float | int | None]:
    """The figures; None where there is nothing to divide by. ``brier_base`` is that of always
    saying the share of proofs. ``calls_random`` and ``calls_judged`` are the mean number of
    distinct attempts at a problem that are verified up to the first proof, in a random order and
    the surest first (equally sure ones in a random order); all of them where none is a proof."""
    proved = [one.confidence for one in judged if one.is_proved]
    refused = [one.doubt for one in judged if not one.is_proved]
    right = sum(proved) / len(proved) if proved else None
    wrong = sum(refused) / len(refused) if refused else None
    sure = [one.confidence for one in judged]
    share = len(proved) / max(1, len(judged))
    lost = [1.0 - one.confidence - one.doubt for one in judged]
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
        "no_judgement": sum(lost) / len(lost) if lost else None,
        "balanced": None if right is None or wrong is None else (right + wrong) / 2,
        "brier": sum(errors) / len(errors) if errors else None,
        "brier_base": share * (1.0 - share) if judged else None,
        "ece": compute_calibration(sure, [one.is_proved for one in judged]) if judged else None,
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

    lost = f", {write('no_judgement', 100, 1)} % of the answers are no judgement"
    parts = (
        f"{title}: {found['attempts']:,} distinct attempts, {found['proved']:,} of them proved, as "
        f"the policy itself judges them: balanced {write('balanced', 100, 1)} %",
        f" (of proved {write('right_of_proved', 100, 1)}, of refused ",
        f"{write('right_of_refused', 100, 1)}), Brier {write('brier', 1, 3)} (base rate ",
        f"{write('brier_base', 1, 3)}), calibration error ",
        f"{write('ece', 1, 3)}; calls to the first proof {write('calls_random', 1, 2)} in a ",
        f"random order, {write('calls_judged', 1, 2)} the surest first",
        lost if found["no_judgement"] else "",
    )
    return "".join(parts)


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
