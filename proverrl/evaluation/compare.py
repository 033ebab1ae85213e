"""Two evaluations on the same problems, compared problem by problem.

Flows in: stored evaluations. Flows out: for all problems and for each group both estimates of
pass@k over the problems with at least k judged attempts on both sides, their paired difference and
McNemar's test; and in words what else differs. Attempts that a summary counts and that are not
stored, or the reverse, are an error unless only what is there is to be compared. Not handled here:
equal cost (``budgets``); correcting p for the number of pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from proverrl.errors import UsageError
from proverrl.evaluation.attempts import AGAIN, read_summary
from proverrl.evaluation.tally import ProblemTally, StoredEvaluation
from proverrl.statistics import Difference, McNemar, compare_paired, estimate, mcnemar

EXPECTED_TO_AGREE = {
    "toolchain": "verifier (toolchain)",
    "rlimit": "resource limit of the verifier",
    "deadline_seconds": "deadline of a verdict",
    "samples_per_problem": "attempts a problem",
    "temperature": "temperature",
    "top_p": "top-p",
    "top_k": "top-k",
    "max_new_tokens": "most tokens of a completion",
    "mode": "mode",
    "search_calls": "verifier calls of a search",
    "rollout": "rollout",
    "layout": "layout",
    "proverrl_version": "version of ProverRL",
}
"""Settings that change a figure besides the policy: their key in a summary, their name for people.
A comparison names those that differ."""

REQUIRED = ("benchmark_sha256", "samples_per_problem", "levels")
"""Keys that a summary must have for its evaluation to be compared."""

Pair = tuple[ProblemTally, ProblemTally]
Problems = Mapping[str, ProblemTally]


@dataclass(frozen=True, slots=True)
class GroupComparison:
    """A group of problems at one k. ``first`` and ``second`` are estimates as they are stored,
    over ``num_paired`` of the group's problems; ``difference`` is second minus first, None where no
    problem is left. Unjudged attempts are those of the whole group."""

    group: str
    k: int
    num_problems: int
    num_paired: int
    first: Mapping[str, float | int | None]
    second: Mapping[str, float | int | None]
    difference: Difference | None
    solved: McNemar
    unjudged: tuple[int, int]


def pair_problems(
    first: Problems, second: Problems, names: Iterable[str], num_judged: int
) -> list[Pair]:
    """The tallies of the problems that have so many judged attempts on both sides, in the order of
    the names."""
    both = ((first[name], second[name]) for name in names if name in first and name in second)
    return [(one, two) for one, two in both if min(one.judged, two.judged) >= num_judged]


def measure_difference(pairs: Sequence[Pair], k: int) -> Difference | None:
    """pass@k of the second less that of the first; None of no pair."""
    first, second = ([_count(pair[side]) for pair in pairs] for side in (0, 1))
    return compare_paired(first, second, k) if pairs else None


def count_solvers(pairs: Sequence[Pair], num_attempts: int | None = None) -> McNemar:
    """McNemar's test on who solved which problem, within the first ``num_attempts`` judged attempts
    or at all."""
    return mcnemar(*([pair[side].solved_within(num_attempts) for pair in pairs] for side in (0, 1)))


def read_evaluation(path: Path, tell: Callable[[str], None] | None = None) -> StoredEvaluation:
    """One evaluation, from its ``NAME.json`` (the attempts lie beside it). ``tell`` is given a
    sentence for everything that is missing, doubled or cut; without it that is an error. Raises
    UsageError: a file is missing, damaged, or not an evaluation's."""
    place = path.with_suffix(".json")
    evaluation = StoredEvaluation(place, read_summary(place))
    for key in REQUIRED:
        if not evaluation.summary.get(key):
            raise UsageError(f"{place} has no {key}; {AGAIN}")
    tally = evaluation.require_attempts(damaged=tell is not None)
    if tell is None and (gaps := tally.describe_gaps(evaluation.summary)):
        raise UsageError(
            f"{tally.path} does not hold what {place.name} counts: {gaps}; {AGAIN}, or compare "
            "what there is with --common"
        )
    if tell is not None:
        for text in tally.list_damage(evaluation.summary):
            tell(text)
    return evaluation


def find_common(evaluations: Sequence[StoredEvaluation], tell: Callable[[str], None]) -> list[str]:
    """The problems that all of them have; ``tell`` is given how many others each has. Raises
    UsageError: they have no problem in common."""
    common = set.intersection(*(set(item.problems) for item in evaluations))
    if not common:
        raise UsageError("the evaluations have no problem in common; evaluate them on one file")
    for item in evaluations:
        if lost := len(item.problems) - len(common):
            tell(f"{item.path}: {lost} problems are left out, since another side has none of them")
    return sorted(common)


def check_comparable(
    first: StoredEvaluation, second: StoredEvaluation, *, common: bool = False
) -> list[str]:
    """The differences of two evaluations besides the policy, one line each with both values.
    Raises UsageError: they are not on the same benchmark or not on the same problems, unless what
    they have in ``common`` by name is compared: files may show the same problems in other ways."""
    one, two = first.summary.get("benchmark_sha256"), second.summary.get("benchmark_sha256")
    if one != two and not common:
        raise UsageError(
            f"{second.path} and {first.path} cannot be compared: benchmark_sha256 is "
            f"{two!r} and {one!r}; evaluate both on one file of problems, or compare the problems "
            "of the same name with --common"
        )
    only = first.problems.keys() ^ second.problems.keys()
    if only and not common:
        raise UsageError(
            f"{second.path} and {first.path} are not on the same problems: {len(only)} of them "
            f"were evaluated on one side only, such as {min(only)!r}; compare those that both "
            "have with --common"
        )
    found = []
    if first.path.resolve() == second.path.resolve():
        found.append(f"{first.path} is compared with itself")
    if one != two:
        found.append(f"the files of problems differ: {first.path} and {second.path}")
    for key in EXPECTED_TO_AGREE:
        one, two = (s.summary.get(key) for s in (first, second))
        if one != two:
            found.append(f"{key} differs: {one!r} in {first.path}, {two!r} in {second.path}")
    return found


def compare_evaluations(
    first: StoredEvaluation,
    second: StoredEvaluation,
    names: Sequence[str],
    *,
    ks: Sequence[int],
) -> list[GroupComparison]:
    """The comparisons of all problems that are named, then of each level where there are several,
    at every k."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(first.problems[name].level, []).append(name)
    parts = [("all", names)]
    if len(groups) > 1:
        parts += [(value or "(none)", groups[value]) for value in sorted(groups, key=_order)]
    return [_compare_group(label, part, first, second, k) for label, part in parts for k in ks]


def choose_ks(evaluations: Sequence[StoredEvaluation]) -> list[int]:
    """The k that all of them have estimates for. Raises UsageError: there is none."""
    common = set.intersection(*(set(item.ks) for item in evaluations))
    if not common:
        told = "; ".join(f"{item.path} has {item.ks}" for item in evaluations)
        raise UsageError(f"the evaluations have no k in common ({told}); name it with -k")
    return sorted(common)


def _count(tally: ProblemTally) -> tuple[int, int]:
    return tally.judged, tally.solved


def _order(value: str) -> tuple[int, str]:
    return (int(value), "") if value.isdecimal() else (0, value)


def _compare_group(
    label: str, names: Sequence[str], first: StoredEvaluation, second: StoredEvaluation, k: int
) -> GroupComparison:
    pairs = pair_problems(first.problems, second.problems, names, k)
    estimates = [estimate([_count(pair[side]) for pair in pairs], k) for side in (0, 1)]
    unjudged = [sum(item.problems[name].unjudged for name in names) for item in (first, second)]
    return GroupComparison(
        group=label,
        k=k,
        num_problems=len(names),
        num_paired=len(pairs),
        first=estimates[0],
        second=estimates[1],
        difference=measure_difference(pairs, k),
        solved=count_solvers(pairs, k),
        unjudged=(unjudged[0], unjudged[1]),
    )
