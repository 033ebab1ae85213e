"""Filters that a composed problem must pass before training uses it.

Flows in: problems, a verifier. Flows out: the problems that pass, and for each of the others a
``Stop`` that says which filter stopped it and why; and the verifier calls of each filter. A
question that was not judged (time, crash) stops the problem: what is unknown is not good enough to
train on. So does a program that the filters cannot take apart (classes, type parameters). Not
handled here: difficulty (the curriculum's), whether a Lean statement says what was meant; with Lean
nothing of this ran against a real Lean.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from proverrl.compose.archive import Composed
from proverrl.compose.operators import compose
from proverrl.config.selfplay import FilterName
from proverrl.errors import ProblemError
from proverrl.lang import find_composing
from proverrl.lang.records import Parent
from proverrl.problems.contamination import OverlapIndex, make_skeleton, take_statements
from proverrl.types import Candidate, Problem, Verdict
from proverrl.verifier.base import Verifier

DEADLINE_SECONDS = 60.0
_MAX_KNOWN = 10_000
_NUM_IN_FLIGHT = 4


@dataclass(frozen=True, slots=True)
class Stop:
    """The reason why a problem may not be used. ``body`` proved too much; ``kept`` is a problem
    that came of it: the negation of a refuted statement, with ``body`` as its reference."""

    filter: FilterName
    problem_id: str
    reason: str
    body: str = ""
    kept: Composed | None = None


class NotJudgedError(Exception):
    """The verifier gave no verdict on what a filter asked; ``run_filters`` makes it a ``Stop``."""

    def __init__(self, name: FilterName) -> None:
        super().__init__(name)
        self.filter = name


Filter = Callable[[Problem], Awaitable[Stop | None]]
"""Looks at one problem; None lets it pass."""


class Asker:
    """Asks the verifier for the filters, each candidate once, and counts what was asked."""

    def __init__(self, verifier: Verifier, *, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._verifier = verifier
        self._deadline_seconds = deadline_seconds
        self._known: OrderedDict[str, Verdict] = OrderedDict()
        self.calls: Counter[str] = Counter()

    async def ask(self, name: FilterName, candidate: Candidate) -> Verdict:
        """The verdict of a candidate; from memory where it was asked before.

        Raises ``NotJudgedError``, and what the verifier raises.
        """
        known = self._known.get(candidate.key)
        if known is not None:
            return known
        self.calls[name] += 1
        verdict = await self._verifier.verify(candidate, deadline_seconds=self._deadline_seconds)
        if not verdict.status.judged:
            raise NotJudgedError(name)
        self._known[candidate.key] = verdict
        if len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)
        return verdict


@dataclass(frozen=True, slots=True)
class FilterTools:
    """The tools of the filters. ``held_out`` is the index of problems that must not leak; ``seen``
    holds the skeletons of known problems and grows; ``attacks`` are bodies that ``refuted`` tries
    too, by the id of what they may prove."""

    asker: Asker
    held_out: OverlapIndex
    seen: set[str]
    attacks: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FilterRun:
    """The result of a batch: problems kept and stops, each in the order of the input, and the
    verifier calls of each filter (each candidate counts once)."""

    kept: tuple[Problem, ...]
    stops: tuple[Stop, ...]
    calls: Counter[str]


async def run_filters(
    problems: Sequence[Problem],
    filters: Mapping[FilterName, Filter],
    tools: FilterTools,
) -> FilterRun:
    """Every problem through the filters in their order, up to the first that stops it.

    A few problems are in work at once; the result does not depend on which is judged first.
    Raises what the verifier raises, when the work of the others is cancelled.
    """
    before = Counter(tools.asker.calls)
    room = asyncio.Semaphore(_NUM_IN_FLIGHT)
    early: dict[FilterName, Filter] = {
        name: check for name, check in filters.items() if name in ("duplicate", "leak")
    }
    late = {name: check for name, check in filters.items() if name not in early}

    async def judge(problem: Problem, stop: Stop | None) -> Stop | None:
        async with room:
            try:
                return stop or await _run_all(problem, late)
            except NotJudgedError as error:
                return Stop(error.filter, problem.id, "not judged")
            except ProblemError as error:
                return Stop("well_formed", problem.id, "cannot be read", body=str(error))

    # Filters without a verifier take the problems in their order: which of two equals is the
    # duplicate must not depend on the verifier's speed.
    first = [await _run_all(problem, early) for problem in problems]
    async with asyncio.TaskGroup() as tasks:
        running = [
            tasks.create_task(judge(problem, stop))
            for problem, stop in zip(problems, first, strict=True)
        ]
    results = [task.result() for task in running]
    return FilterRun(
        kept=tuple(p for p, stop in zip(problems, results, strict=True) if stop is None),
        stops=tuple(stop for stop in results if stop is not None),
        calls=tools.asker.calls - before,
    )


async def _run_all(problem: Problem, filters: Mapping[FilterName, Filter]) -> Stop | None:
    for check in filters.values():
        stop = await check(problem)
        if stop is not None:
            return stop
    return None


async def filter_duplicate(tools: FilterTools, problem: Problem) -> Stop | None:
    """Stops a problem that differs from a known one in names, comments and layout only."""
    skeleton = make_skeleton(problem)
    if skeleton in tools.seen:
        return Stop("duplicate", problem.id, "the same but for names")
    tools.seen.add(skeleton)
    return None


async def filter_leak(tools: FilterTools, problem: Problem) -> Stop | None:
    """Stops a problem that is a held-out one under other names, or holds one whole (Wang et al.
    2025, Kimina-Prover, arXiv 2504.11354: runs of 13 tokens)."""
    for match in tools.held_out.find(*take_statements([problem])):
        if match.kind != "near" or match.share >= 1.0:
            return Stop("leak", problem.id, f"{match.kind} as {match.benchmark_id}")
    return None


async def filter_well_formed(tools: FilterTools, problem: Problem) -> Stop | None:
    """Stops a problem that the verifier cannot read, or that no body could prove. An audit comes
    first, since a policy may have written the text: nothing may be assumed or switched off."""
    composing = find_composing(problem.language)
    for rule, message in composing.find_cheats(problem):
        return Stop("well_formed", problem.id, f"refused by the audit: {rule}", body=message)
    verdict = await tools.asker.ask("well_formed", composing.ask_well_formed(problem))
    found = composing.explain_malformed(problem, verdict)
    return found and Stop("well_formed", problem.id, found[0], body=found[1])


async def filter_trivial(tools: FilterTools, problem: Problem) -> Stop | None:
    """Stops a problem that an empty body, a body that says nothing, or a fixed portfolio proves."""
    for body in find_composing(problem.language).list_trivial(problem):
        if (await tools.asker.ask("trivial", Candidate(problem, body))).proved:
            reason = f"proved by {body or 'an empty body'}"
            return Stop("trivial", problem.id, reason, body=body)
    return None


async def filter_satisfiable(tools: FilterTools, problem: Problem) -> Stop | None:
    """Stops a problem that assumes a contradiction: ``false`` must not follow from the assumptions
    (hypothesis rejection; Xin et al. 2024, DeepSeek-Prover, arXiv 2405.14333)."""
    composing = find_composing(problem.language)
    for candidate in composing.ask_contradiction(problem):
        verdict = await tools.asker.ask("satisfiable", candidate)
        if reason := composing.explain_contradiction(candidate, verdict):
            return Stop("satisfiable", problem.id, reason, body=candidate.body)
    return None


async def filter_weak_contract(tools: FilterTools, problem: Problem) -> Stop | None:
    """Stops a method whose contract a program that does nothing meets."""
    for candidate in find_composing(problem.language).list_exploits(problem):
        if (await tools.asker.ask("weak_contract", candidate)).proved:
            reason = "a program that does nothing meets its contract"
            return Stop("weak_contract", problem.id, reason, body=candidate.body)
    return None


async def filter_refuted(tools: FilterTools, problem: Problem) -> Stop | None:
    """Stops a false problem. Statement and negation are attacked at the same time, a body of each
    at a turn; a proof ends both (Xin et al. 2024, DeepSeek-Prover, arXiv 2405.14333).

    The negation of a refuted lemma is kept as a problem, with its proof. A method is refuted by a
    run on a small input that breaks its contract.
    """
    composing = find_composing(problem.language)
    runs = composing.ask_run(problem)
    if runs is not None and composing.is_broken(await tools.asker.ask("refuted", runs)):
        return Stop("refuted", problem.id, "a small run breaks it", body=runs.body)
    negation = make_negation(problem)
    if negation is None:
        return None
    found = await _attack_both(tools, problem, negation.problem)
    if found is None:
        return None
    body, reason = found
    kept = replace(negation, reference=body)
    return Stop("refuted", problem.id, reason, body=body, kept=kept)


async def _attack_both(
    tools: FilterTools, problem: Problem, negation: Problem
) -> tuple[str, str] | None:
    """The body that proves the negation and a reason that says whose it is, or None.

    Both bodies of a turn are judged, whichever verdict comes first, so that the calls that a run
    makes do not depend on the verifier's speed.
    """
    composing = find_composing(problem.language)
    for_it = (*composing.list_proofs(problem), *tools.attacks.get(problem.id, ()))
    plain = composing.list_refutations(problem)
    against = (*plain, *tools.attacks.get(negation.id, ()))

    async def judge(attacked: Problem, body: str | None) -> Verdict | None:
        return body if body is None else await tools.asker.ask("refuted", Candidate(attacked, body))

    for turn, (one, other) in enumerate(itertools.zip_longest(for_it, against)):
        answers = await asyncio.gather(
            judge(problem, one), judge(negation, other), return_exceptions=True
        )
        holds, fails = (isinstance(answer, Verdict) and answer.proved for answer in answers)
        if fails:
            whose = "" if turn < len(plain) else " by the solver"
            return other or "", f"its negation is proved{whose}"
        if holds:
            return None
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
    return None


def make_negation(problem: Problem) -> Composed | None:
    """The negation as a problem; None where the language or the form has none."""
    name = find_composing(problem.language).negate(problem)
    if name is None:
        return None
    number = int(problem.metadata.get("round", 0))
    return compose(name, [Parent(problem)], round_number=number, seed=0)


FILTERS: Mapping[FilterName, Callable[[FilterTools, Problem], Awaitable[Stop | None]]] = {
    "duplicate": filter_duplicate,
    "leak": filter_leak,
    "well_formed": filter_well_formed,
    "satisfiable": filter_satisfiable,
    "trivial": filter_trivial,
    "weak_contract": filter_weak_contract,
    "refuted": filter_refuted,
}


def make_filters(
    tools: FilterTools, names: Iterable[FilterName] = tuple(FILTERS)
) -> dict[FilterName, Filter]:
    """The filters of these names, in the order of ``FILTERS``."""
    chosen = set(names)
    return {name: partial(check, tools) for name, check in FILTERS.items() if name in chosen}
