"""What a rollout earns for its verdicts: a ``Reward`` whose parts add up to its total. Not handled
here: comparison within a group, and rewards of a composer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from proverrl.config import RewardConfig, RewardName
from proverrl.errors import RecordError
from proverrl.lang import find_language
from proverrl.lang.records import ProgramGrade
from proverrl.plugins import bind, refuse
from proverrl.rewards.decide import decide_reward, find_label
from proverrl.types import Problem, Reward, Rollout, Status, Verdict

RewardFn = Callable[[Rollout], Reward]

_PROGRAM_SCORES: Mapping[ProgramGrade, float] = {
    "refused": 0.0,
    "unread": 0.01,
    "unproved": 0.2,
    "verified": 0.6,
    "meant": 1.0,
}
PAYS_FOR_FORM: frozenset[RewardName] = frozenset(("statement", "program"))
"""The rewards that pay for statements and programs which are not right."""
_GATED = (Status.PROVED, Status.REJECTED, Status.EXHAUSTED)


def proved_reward(rollout: Rollout, config: RewardConfig | None = None) -> Reward:
    """1 for PROVED, 0 for every other judged status. Raises ``RecordError`` if the rollout was not
    judged (a timeout is not a wrong proof)."""
    value = float(_proved(rollout))
    return Reward(total=value, parts={"proved": value})


def obligations_reward(rollout: Rollout, config: RewardConfig) -> Reward:
    """1 for PROVED, else ``obligation_share`` times the mean credit of the last verdict's entries.
    The share is below 1, so no failed proof earns as much as a proved one; a verdict that does not
    pass the gate of ``entry_credits`` earns nothing (gated reward accumulation)."""
    if _proved(rollout):
        return Reward(total=1.0, parts={"proved": 1.0, "obligations": 0.0})
    entries = entry_credits(rollout.turns[-1].verdict)
    dense = sum(entries.values()) / len(entries) if entries else 0.0
    value = config.obligation_share * dense
    return Reward(total=value, parts={"proved": 0.0, "obligations": value})


def turn_discounted_reward(rollout: Rollout, config: RewardConfig) -> Reward:
    """``turn_discount`` to the power of the number of turns before the first proof; 0 without
    one."""
    _proved(rollout)
    value = turn_returns(rollout, config.turn_discount)[0]
    return Reward(total=value, parts={"proved": value})


def check_fit(problem: Problem, name: str) -> None:
    """Raise ``RecordError`` where the reward of this name is for problems of another kind."""
    language = find_language(problem.language)
    if name == "decide":
        find_label(problem)
    if name == "statement":
        if language.formalizing is None or problem.kind != language.formalizing.kind:
            raise RecordError(
                f'problem {problem.id!r} asks for no statement; reward.name = "statement" is for '
                "problems that do (problems generate --formalize)"
            )
        if not language.knows_meaning(problem):
            raise RecordError(
                f"problem {problem.id!r} does not say what is meant, so that no statement can be "
                "rewarded; give problems that do, or write statements with `proverrl formalize`"
            )
    is_program = language.programming is not None and problem.kind == language.programming.kind
    if name == "program" and not is_program:
        raise RecordError(
            f'problem {problem.id!r} asks for no program; reward.name = "program" is for problems '
            "that do (problems generate --programs)"
        )


def statement_reward(rollout: Rollout, config: RewardConfig) -> Reward:
    """1 for a statement that is well formed, and 1 more for one that means what is meant: R_ver +
    R_sem of Mathesis (Yu et al. 2025, arXiv 2506.07047), both by the verifier. With
    ``reward.critic`` a critic's judgement stands in where there is no proof of the meaning, and
    earns ``reward.critic_share`` of what a proof would: never more, and nothing for what the
    verifier does not find well formed. With ``reward.score_share`` that share of the opinion's
    score is earned there. What is proved to say nothing earns nothing.
    Raises ``RecordError`` for a problem that asks for no statement, or does not say what is meant.
    """
    is_proved = _proved(rollout)
    check_fit(rollout.problem, "statement")
    opinion = rollout.opinion
    is_read = is_proved or (_is_well_formed(rollout) and not opinion.is_empty)
    means = float(is_proved)
    if config.critic and is_read:
        means = max(means, config.critic_share * opinion.agrees)
    parts = {"means": means, "well_formed": float(is_read)}
    if config.score_share:
        parts["score"] = config.score_share * opinion.score * (is_read and not is_proved)
    return Reward(sum(parts.values()), parts)


def program_reward(rollout: Rollout, config: RewardConfig) -> Reward:
    """The score of Re:Form (Yan et al. 2025, arXiv 2507.16331): 0 without a candidate, where the
    audit refuses it and for a contract that says nothing; 0.01 for what is no program, 0.2 for code
    that is not proved to meet its contract, 0.6 for code that is, and 1 where the contract is also
    proved at least as strong as what is meant; nothing for a contract that is proved to say
    nothing. The published code gives 1.6 for the last, where 1
    was evidently intended, and takes a timeout of that proof for a success, which is 0.6 here.
    Raises ``RecordError`` for a problem that asks for no program."""
    _proved(rollout)
    check_fit(rollout.problem, "program")
    grade = find_grade(rollout)
    value = _PROGRAM_SCORES[grade] if grade and not rollout.opinion.is_empty else 0.0
    return Reward(value, {"program": value})


def find_grade(rollout: Rollout) -> ProgramGrade | None:
    """How far the program of a rollout came; None where none is asked for, written or judged."""
    turn, programming = rollout.turns[-1], find_language(rollout.problem.language).programming
    if programming is None or rollout.problem.kind != programming.kind:
        return None
    if turn.candidate is None or turn.verdict is None or not turn.verdict.status.judged:
        return None
    return programming.grade(turn.candidate, turn.verdict)


def earns_for_form(rollout: Rollout) -> bool:
    """Whether the last turn is a statement or a program that is not right and would earn something
    for being one, unless it says nothing."""
    if not rollout.status.judged or rollout.status is Status.PROVED:
        return False
    if rollout.opinion.is_empty:
        return False
    return _is_well_formed(rollout) or find_grade(rollout) in ("unproved", "verified")


def _is_well_formed(rollout: Rollout) -> bool:
    turn, formalizing = rollout.turns[-1], find_language(rollout.problem.language).formalizing
    if formalizing is None or rollout.problem.kind != formalizing.kind:
        return False
    if turn.candidate is None or turn.verdict is None:
        return False
    return formalizing.is_well_formed(turn.candidate, turn.verdict)


REWARDS: dict[str, Callable[[Rollout, RewardConfig], Reward]] = {
    "proved": proved_reward,
    "obligations": obligations_reward,
    "turn_discounted": turn_discounted_reward,
    "statement": statement_reward,
    "program": program_reward,
    "decide": decide_reward,
}


def build_reward(config: RewardConfig, *, max_new_tokens: int) -> RewardFn:
    """The configured reward, with the penalty for overlong completions if its weight is set.
    ``max_new_tokens`` is the sampler's limit for one completion."""
    earn = _choose(config)

    def reward(rollout: Rollout) -> Reward:
        earned = earn(rollout, config)
        if config.overlong_weight == 0.0:
            return earned
        longest = max(len(turn.completion.token_ids) for turn in rollout.turns)
        buffer = config.overlong_buffer * max_new_tokens
        penalty = config.overlong_weight * overlong_penalty(longest, max_new_tokens, buffer)
        return Reward(earned.total + penalty, {**earned.parts, "overlong": penalty})

    return reward


def _choose(config: RewardConfig) -> Callable[[Rollout, RewardConfig], Reward]:
    """The configured function; one of somebody's own is given judged rollouts alone, and may
    return a number. Raises ``UsageError`` where that is no finite number."""
    if config.name in REWARDS:
        return REWARDS[config.name]
    own = bind("reward", config.name, config.options)

    def earn(rollout: Rollout, settings: RewardConfig) -> Reward:
        _proved(rollout)
        value = own(rollout)
        numbers = (value.total, *value.parts.values()) if isinstance(value, Reward) else (value,)
        try:
            # Unlike float() it takes no text.
            finite = all(map(math.isfinite, numbers))
        except (TypeError, ValueError, OverflowError, RuntimeError):
            # The last is what torch says of a tensor of several numbers.
            finite = False
        if not finite:
            wanted = "a finite number, or a proverrl.types.Reward of finite numbers"
            raise refuse("reward", config.name, value, f"rollout {rollout.id!r}", wanted)
        return value if isinstance(value, Reward) else Reward(float(value), {"own": float(value)})

    return earn


def overlong_penalty(num_tokens: int, max_tokens: int, buffer: float) -> float:
    """0 up to ``max_tokens - buffer`` tokens, then down in a straight line to -1 at ``max_tokens``
    (soft overlong punishment; DAPO, Yu et al. 2025, arXiv 2503.14476, with a buffer of a fifth).
    """
    over = (num_tokens - (max_tokens - buffer)) / buffer
    return -min(1.0, max(0.0, over))


def entry_credits(verdict: Verdict | None) -> dict[str, float]:
    """Per entry of a program 1 / (1 + obligations that failed): 1 where nothing failed. Successes
    do not count, because a policy could add any number of obligations that hold (``assert true;``).
    The gate: nothing is credited unless the program is ours, was resolved and was given to the
    prover."""
    if verdict is None or verdict.status not in _GATED:
        return {}
    return {
        entry.entry: 1.0 / (1.0 + entry.total - entry.proved)
        for entry in verdict.obligations
        if entry.total > 0
    }


def turn_returns(rollout: Rollout, discount: float) -> list[float]:
    """Per turn k the best discounted verdict from there on: max over j >= k of discount^(j - k)
    [turn j proved]. A turn that was not judged adds nothing; one without a candidate is a failure.
    """
    returns = [0.0]
    for turn in reversed(rollout.turns):
        proved = turn.verdict is not None and turn.verdict.proved
        returns.append(1.0 if proved else discount * returns[-1])
    return returns[:0:-1]


def _proved(rollout: Rollout) -> bool:
    if not rollout.status.judged:
        raise RecordError(f"rollout {rollout.id!r} was not judged ({rollout.status})")
    return rollout.status is Status.PROVED
