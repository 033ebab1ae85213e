"""Grades of composed statements, with reasons (Xin et al. 2024, DeepSeek-Prover, arXiv 2405.14333,
has a language model grade on the same five steps and drops fair and poor).

Flows in: a statement, its parents, how much the verifier finds to prove in it. Flows out: a
``Grade``, by rules, without a model or a call: a statement begins as excellent and loses steps for
what speaks against it. Not handled here: whether a statement is true, false or trivial
(``filters``), likeness to other composed statements of the run (exact copies are the filter
``duplicate``'s).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from pydantic import model_validator

from proverrl.config.base import Fraction, NonNegative, Positive, Section
from proverrl.errors import ProblemError
from proverrl.lang import find_language
from proverrl.lang.dafny.compose.declarations import list_names
from proverrl.lang.dafny.compose.declarations import read_problem as read_program
from proverrl.lang.dafny.syntax.text import KEYWORDS, scan_tokens
from proverrl.types import HOLE, Problem

GradeName = Literal["excellent", "good", "above_average", "fair", "poor"]


class DataLoopOptions(Section):
    """Grades, attack and end of the data loop.

    A statement is excellent, and one step worse for each limit that it misses, two where it misses
    it by half: ``min_obligations``, ``min_tokens`` to ``max_tokens``, ``min_novelty``.
    """

    keep: tuple[GradeName, ...] = ("excellent", "good", "above_average")
    """grades to keep; the others are ``fair`` and ``poor``"""
    min_obligations: NonNegative = 2
    """the fewest obligations that the verifier finds in a statement with an empty hole"""
    min_tokens: Positive = 20
    """the fewest tokens of a statement"""
    max_tokens: Positive = 300
    """and at most"""
    min_novelty: Fraction = 0.1
    """the smallest share of a statement's runs of four tokens that its nearest parent lacks"""
    attack_samples: Positive = 8
    """the policy's samples on a new statement, and the same number on its negation"""
    min_gain: Fraction = 0.02
    """growth of the number of proved statements in a round that counts as a gain; 0 never ends the
    loop"""
    patience: Positive = 2
    """rounds in a row without a gain that end the loop"""

    @model_validator(mode="after")
    def _something_is_kept(self) -> DataLoopOptions:
        if not self.keep:
            raise ValueError('keep names no grade; every statement would be dropped, set ["good"]')
        if self.min_tokens > self.max_tokens:
            raise ValueError("min_tokens is above max_tokens: no statement would be excellent")
        return self


GRADES: tuple[GradeName, ...] = get_args(GradeName)
"""From the best to the worst."""

RUN = 4
"""Tokens in a run, for novelty."""


@dataclass(frozen=True, slots=True)
class Grade:
    """A grade, and what cost the steps below excellent."""

    name: GradeName
    reasons: tuple[str, ...]


def grade_statement(
    problem: Problem,
    parents: Sequence[Problem],
    obligations: int | None,
    settings: DataLoopOptions,
) -> Grade:
    """The grade of a statement. ``obligations`` is None where the verifier counts none, and is left
    out then. What cannot be read is poor; a program that cannot be taken apart is not asked about
    its conclusions."""
    try:
        size, novelty = len(read_shape(problem)), measure_novelty(problem, parents)
    except ProblemError:
        return Grade(GRADES[-1], ("cannot be read",))
    steps = {
        "few obligations": _miss(obligations, settings.min_obligations),
        "short": _miss(size, settings.min_tokens),
        "long": _miss(settings.max_tokens, size),
        "near a parent": _miss(novelty, settings.min_novelty),
        **examine_conclusions(problem),
    }
    lost = min(sum(steps.values()), len(GRADES) - 1)
    return Grade(GRADES[lost], tuple(reason for reason, cost in steps.items() if cost))


def measure_novelty(problem: Problem, parents: Sequence[Problem]) -> float:
    """The share of a statement's distinct runs of ``RUN`` tokens that its nearest parent has not,
    names set aside; 1 without parents, 0 for a statement shorter than a run."""
    runs = _find_runs(problem)
    if not runs:
        return 0.0
    return min((len(runs - _find_runs(p)) / len(runs) for p in parents), default=1.0)


def read_shape(problem: Problem) -> list[str]:
    """The statement's tokens without its hole, names set aside. Of Dafny all names are one:
    numbered in their order, a parameter that is gone would make every later name a new one."""
    text = problem.preamble + problem.statement
    if problem.language == "dafny":
        return [
            "_" if kind == "name" and piece not in KEYWORDS else piece
            for kind, piece in scan_tokens(text.replace(HOLE, " "))
        ]
    return find_language(problem.language).read_skeletons(text)[1].split(" ")


def examine_conclusions(problem: Problem) -> dict[str, int]:
    """Faults of a statement's conclusions, and the steps by which each lowers its grade. Of Dafny
    two steps where nothing is concluded, one where the conclusions leave out all that is given and
    returned."""
    if problem.language != "dafny":
        return {}
    try:
        target = read_program(problem).target
    except ProblemError:
        return {}
    claims = target.list_clauses("ensures")
    if not claims:
        return {"concludes nothing": 2}
    names = {name for name, _ in (*target.formals, *target.returns)}
    if names and not names & list_names(" ".join(claims)):
        return {"concludes nothing about its parameters": 1}
    return {}


def _miss(value: float | None, least: float) -> int:
    """0 for a value that reaches the limit, 1 below it, 2 below half of it."""
    if value is None or value >= least:
        return 0
    return 1 if 2 * value >= least else 2


def _find_runs(problem: Problem) -> set[tuple[str, ...]]:
    tokens = read_shape(problem)
    return {tuple(tokens[i : i + RUN]) for i in range(len(tokens) - RUN + 1)}
