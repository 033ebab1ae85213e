"""Rewards of a rollout attempt by attempt, for its verdicts' errors: PREFACE (Proof2Silicon,
arXiv 2509.06239), whose policy instructs a frozen writer.

Flows in: a judged rollout. Flows out: a ``Reward`` for each turn; a rollout earns their sum. An
empty output is a turn without a candidate, or with a blank body. The paper's timeout is here the
resource limit (``exhausted``), and its exception a body that ended the verifier: a verdict
that judged nothing leaves its group and is never scored. Not handled here: the paper's gate on
whether code still does its task (the statement is ours), its penalty for divergence (``loss.kl``),
its terms for ghost variables, whose size we do not know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from proverrl.lab.preface.words import ErrorKind, StructureKind, count_errors, count_structure
from proverrl.lang import find_language
from proverrl.types import Candidate, Reward, Rollout, Status, Turn, Verdict

AttemptsFn = Callable[[Rollout], list[Reward]]

CONFERENCE_LIMIT = 10.0
ERROR_WEIGHTS: Mapping[ErrorKind, float] = {
    "syntax": 0.2,
    "type": 0.3,
    "invariant": 0.8,
    "postcondition": 1.0,
    "timeout": 1.2,
    "other": 1.0,
}
"""Those of the journal version; ``other`` is ours, since the paper's list has nothing for them."""
STRUCTURE_WEIGHTS: Mapping[StructureKind, float] = {
    "lemma": 0.2,
    "invariant": 0.3,
    "recursion": -1.5,
}
TOKEN_WEIGHT = -0.001
WORST_POTENTIAL = -10.0
"""That of a program whose errors cannot be counted, because the prover never saw it, and of one
that cheats."""


def conference_attempts(rollout: Rollout) -> list[Reward]:
    """+5 for a proof; -7 for an empty output, a resource limit or a verifier that was ended; else
    -5 - 0.2 for each error - 0.5 for each attempt before, and -10 at least."""
    rewards = []
    for index, turn in enumerate(rollout.turns):
        if _is_proved(turn):
            rewards.append(_name("success", 5.0))
            continue
        judged = _judged(turn)
        if judged is None or judged[1].status is Status.EXHAUSTED or judged[1].fatal:
            rewards.append(_name("failure", -7.0))
            continue
        value = -5.0 - 0.2 * sum(_count_errors(*judged).values()) - 0.5 * index
        rewards.append(_name("errors", max(-CONFERENCE_LIMIT, value)))
    return rewards


def journal_attempts(rollout: Rollout) -> list[Reward]:
    """+10 for a proof, -10 for an empty output; else the weighted errors less than in the attempt
    before, what the body has more than that one's of lemmas, invariants and recursion, and -0.001
    for each token of the instruction. The first attempt has none before it, so that errors cost
    nothing there and earn when they go away: ``potential_attempts`` pays for no such detour."""
    rewards = []
    before: tuple[Candidate, Verdict] | None = None
    for turn in rollout.turns:
        judged = _judged(turn)
        if _is_proved(turn):
            rewards.append(_name("success", 10.0))
        elif judged is None:
            rewards.append(_name("failure", -10.0))
        else:
            parts = {"tokens": TOKEN_WEIGHT * len(turn.completion.token_ids)}
            if before is not None:
                parts["progress"] = _weigh(*before) - _weigh(*judged)
                parts["structure"] = _weigh_new(before[0], judged[0])
            rewards.append(Reward(sum(parts.values()), parts))
        before = judged or before
    return rewards


def potential_attempts(rollout: Rollout) -> list[Reward]:
    """+10 for a proof, and for each attempt the gain in potential. The potential is minus the
    weighted errors, 0 for a proof and before the first attempt, -10 at least and where nothing was
    given to the prover (potential-based shaping, Ng, Harada and Russell 1999, undiscounted). The
    gains of a rollout sum to its last potential, whatever came before, so that errors cannot be
    added to be removed, nor hidden behind a worse one. Unlike there the last potential is kept: of
    failures the one with fewer errors earns more, and always less than a proof."""
    rewards = []
    before = 0.0
    for turn in rollout.turns:
        proved = _is_proved(turn)
        potential = 0.0 if proved else _find_potential(turn)
        parts = {"success": 10.0 * proved, "shaping": potential - before}
        rewards.append(Reward(sum(parts.values()), parts))
        before = potential
    return rewards


def conference(rollout: Rollout) -> Reward:
    """The sum of ``conference_attempts``."""
    return sum_attempts(conference_attempts(rollout))


def journal(rollout: Rollout) -> Reward:
    """The sum of ``journal_attempts``."""
    return sum_attempts(journal_attempts(rollout))


def potential(rollout: Rollout) -> Reward:
    """The sum of ``potential_attempts``."""
    return sum_attempts(potential_attempts(rollout))


ATTEMPTS: dict[str, AttemptsFn] = {
    f"{__name__}:conference": conference_attempts,
    f"{__name__}:journal": journal_attempts,
    f"{__name__}:potential": potential_attempts,
}
"""The earnings of each attempt under a reward of this module, by the place that names it."""


def sum_attempts(attempts: list[Reward]) -> Reward:
    """The reward of a rollout for all of its attempts."""
    parts: dict[str, float] = {}
    for attempt in attempts:
        for name, value in attempt.parts.items():
            parts[name] = parts.get(name, 0.0) + value
    return Reward(sum(attempt.total for attempt in attempts), parts)


def _name(part: str, value: float) -> Reward:
    return Reward(value, {part: value})


def _is_proved(turn: Turn) -> bool:
    return turn.verdict is not None and turn.verdict.proved


def _judged(turn: Turn) -> tuple[Candidate, Verdict] | None:
    """The judged candidate and its verdict; None for an empty output."""
    if turn.candidate is None or turn.verdict is None or not turn.candidate.body.strip():
        return None
    return turn.candidate, turn.verdict


def _count_errors(candidate: Candidate, verdict: Verdict) -> Mapping[ErrorKind, int]:
    """All of one kind in languages other than Dafny."""
    if candidate.problem.language != "dafny":
        return {"other": sum(d.severity == "error" for d in verdict.diagnostics)}
    return count_errors(verdict)


def _weigh(candidate: Candidate, verdict: Verdict) -> float:
    return sum(ERROR_WEIGHTS[kind] * n for kind, n in _count_errors(candidate, verdict).items())


def _weigh_new(before: Candidate, now: Candidate) -> float:
    """The weight of what a body has more of than the one before."""
    if now.problem.language != "dafny":
        return 0.0
    name = find_language("dafny").find_name(now.problem)
    new = Counter(count_structure(now.body, name)) - Counter(count_structure(before.body, name))
    return sum(STRUCTURE_WEIGHTS[kind] * n for kind, n in new.items())


def _find_potential(turn: Turn) -> float:
    judged = _judged(turn)
    # What was accepted and is not believed has no obligation left that failed.
    distrusted = (Status.UNSOUND, Status.UNCONFIRMED)
    if judged is None or not judged[1].obligations or judged[1].status in distrusted:
        return WORST_POTENTIAL
    return max(WORST_POTENTIAL, -_weigh(*judged))
