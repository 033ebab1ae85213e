"""The judgement on the statements that a formaliser wrote for one text in words.

Flows in: a problem that asks for a statement, the bodies that samples wrote, a verifier, perhaps
critics. Flows out: each distinct statement with what was found out about it, and which one to keep.
Whether samples mean the same is proved, as all else: the share that does (self-consistency, Wang et
al. 2022, arXiv 2203.11171) is the score where nobody says what is meant. A critic may drop a
statement, and never makes one right.
Not handled here: sampling (``evaluation``), proofs of what is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from proverrl.concurrency import finish_all
from proverrl.errors import ProblemError
from proverrl.lab.critics.gate import Critic, ask_critics
from proverrl.lab.words.emptiness import find_emptiness
from proverrl.lab.words.equivalence import equivalent
from proverrl.lab.words.kinds import knows_meaning
from proverrl.lab.words.parts import Formalizing, get_formalizing
from proverrl.lang import find_language
from proverrl.types import HOLE, Candidate, Problem, Verdict
from proverrl.verifier.base import Verifier


@dataclass(frozen=True, slots=True)
class JudgedStatement:
    """A distinct statement of a problem. ``count`` samples wrote it, ``agreeing`` samples wrote
    this or one that means the same; these share ``meaning``. ``fault`` says why it is none to keep,
    whatever is meant. ``means`` is three-valued, None also where nobody says what is meant;
    ``critic_says`` is the judgement of the last critic that was asked, None for none, and
    ``critic`` its reasons.
    """

    body: str
    count: int
    fault: str = ""
    agreeing: int = 0
    meaning: int = -1
    means: bool | None = None
    critic: str = ""
    critic_says: bool | None = None


async def judge_statements(
    problem: Problem,
    bodies: Sequence[str],
    verifier: Verifier,
    *,
    deadline_seconds: float,
    critics: Sequence[Critic] = (),
) -> list[JudgedStatement]:
    """Each distinct body, in the order of the samples. Raises ``ProblemError`` for a problem that
    asks for no statement."""
    forms = [_read_form(problem, body) for body in bodies]
    # The first body of each form, the forms in the order of the samples.
    firsts = dict(zip(reversed(forms), reversed(bodies), strict=True))
    judge = _Judge(problem, get_formalizing(problem), verifier, deadline_seconds, critics)
    judging = (judge.judge(firsts[form], count) for form, count in Counter(forms).items())
    return await judge.find_agreeing(await finish_all(judging))


def _read_form(problem: Problem, body: str) -> str:
    try:
        return find_language(problem.language).normal_form(body)
    except ProblemError:
        # The verifier will say what is wrong with it.
        return body


@dataclass(frozen=True, slots=True)
class _Judge:
    problem: Problem
    formalizing: Formalizing
    verifier: Verifier
    deadline_seconds: float
    critics: Sequence[Critic]

    async def judge(self, body: str, count: int) -> JudgedStatement:
        """All about one statement but who agrees with it."""
        found = JudgedStatement(body, count, fault=await self._find_fault(body))
        if found.fault:
            return found
        fault, said = await ask_critics(self.problem, body, self.critics)
        if said is not None:
            found = replace(found, critic=said.reasons, critic_says=said.is_correct, fault=fault)
        if not knows_meaning(self.problem):
            return found
        means = await equivalent(
            self.problem, body, self.verifier, deadline_seconds=self.deadline_seconds
        )
        return replace(found, means=means)

    async def find_agreeing(self, found: list[JudgedStatement]) -> list[JudgedStatement]:
        """The same statements, each with how many samples agree with it: by proof, which holds for
        all that have been found to agree with one of them."""
        firsts: list[JudgedStatement] = []
        meanings: list[int] = []
        for one in found:
            meanings.append(-1)
            if one.fault:
                continue
            for number, first in enumerate(firsts):
                # What is meant decides for those that are proved to mean it.
                known = {one.means, first.means}
                agrees = known == {True} or (
                    known != {True, False} and await self._agree(first.body, one.body)
                )
                if agrees:
                    meanings[-1] = number
                    break
            else:
                meanings[-1] = len(firsts)
                firsts.append(one)
        sizes = Counter[int]()
        for one, meaning in zip(found, meanings, strict=True):
            sizes[meaning] += one.count
        return [
            replace(one, meaning=meaning, agreeing=sizes[meaning]) if meaning >= 0 else one
            for one, meaning in zip(found, meanings, strict=True)
        ]

    async def _find_fault(self, body: str) -> str:
        if HOLE in body:
            return f"not well formed: it holds {HOLE}"
        # No verdict on the bare problem rests on what is meant.
        candidate = Candidate(self.formalizing.state(self.problem, None), body)
        verdict = await self._verify(candidate)
        if not verdict.status.judged:
            return f"not judged: {verdict.status}"
        if not self.formalizing.is_well_formed(candidate, verdict):
            said = next((d.message for d in verdict.diagnostics if d.severity == "error"), "")
            return f"not well formed: {said.splitlines()[0] if said else verdict.status}"
        found = await find_emptiness(
            self.formalizing,
            self.problem,
            body,
            self.verifier,
            deadline_seconds=self.deadline_seconds,
        )
        if found.unjudged is not None:
            return f"it was not judged whether it says anything: {found.unjudged.status}"
        return found.reason

    async def _agree(self, one: str, other: str) -> bool:
        return await self._proves(Candidate(self.formalizing.state(self.problem, one), other))

    async def _proves(self, candidate: Candidate) -> bool:
        return (await self._verify(candidate)).proved

    async def _verify(self, candidate: Candidate) -> Verdict:
        return await self.verifier.verify(candidate, deadline_seconds=self.deadline_seconds)


def count_passed(judged: Iterable[JudgedStatement]) -> Mapping[bool, tuple[int, int]]:
    """Of the samples whose statement is proved to mean what is meant (True) or something else
    (False): how many the critics let pass, and how many they were asked about."""
    counts = {True: [0, 0], False: [0, 0]}
    for one in judged:
        # What has another fault is not asked what it means.
        if one.means is not None:
            counts[one.means][0] += 0 if one.fault else one.count
            counts[one.means][1] += one.count
    return {means: (passed, asked) for means, (passed, asked) in counts.items()}


def choose_statement(
    judged: Sequence[JudgedStatement], num_samples: int, *, least: float, by_meaning: bool
) -> JudgedStatement | None:
    """The statement that most samples agree with, the first of several, if at least the share
    ``least`` of all samples does. With ``by_meaning`` only statements count that are proved to mean
    what is meant, however few."""
    fit = [one for one in judged if not one.fault and (one.means or not by_meaning)]
    best = max(fit, key=lambda one: (one.agreeing, one.count), default=None)
    if best is None or (best.agreeing < least * num_samples and not by_meaning):
        return None
    return best


def explain_dropped(
    judged: Sequence[JudgedStatement],
    kept: JudgedStatement | None,
    num_samples: int,
    *,
    by_meaning: bool,
) -> Mapping[str, str]:
    """Body to the reason why it was not kept."""
    return {
        one.body: _explain(one, kept, num_samples, by_meaning=by_meaning)
        for one in judged
        if one is not kept
    }


def _explain(
    one: JudgedStatement, kept: JudgedStatement | None, num_samples: int, *, by_meaning: bool
) -> str:
    if one.fault:
        return one.fault
    if by_meaning and one.means is False:
        return "means something else, by proof"
    if by_meaning and not one.means:
        return "not proved to mean what is meant"
    if kept is not None and one.meaning == kept.meaning:
        return "means the same as the one that is kept"
    return f"{one.agreeing} of {num_samples} samples are proved to mean this"
