"""What a rollout earns that proves or disproves a claim.

Flows in: judged rollouts on problems of the kind ``decide``. Flows out: a ``Reward``. A proof of
the side that was chosen earns 1. With ``side_share`` the right side alone earns something, as in
DeepTheorem (Zhang et al. 2025, arXiv 2505.23754), whose four guards hold here too. A side that is
proved against the label ends the run: one of the two proofs is false.
Not handled here: groups of variants (``proverrl.evaluation.decisions``).
"""

from __future__ import annotations

from proverrl.config import RewardConfig
from proverrl.errors import CanaryError, RecordError
from proverrl.lang.sides import SIDES, read_side
from proverrl.problems.prompt import BODY_HEADING
from proverrl.types import DECIDE, HOLE, Candidate, Problem, Reward, Rollout, Status

PROMPT_MARKERS = (HOLE, BODY_HEADING.strip(), "<|im_start|>", "<|im_end|>", "<|endoftext|>")
"""What stands in prompts and in no answer."""
BOILERPLATE = "reasoning process"
SHORT_CHARACTERS = 90
LEAST_BLANKS = 0.05
MOST_REPEATS = 300


def find_side(problem: Problem, candidate: Candidate | None) -> str:
    """The side that a candidate chose; empty for none."""
    return "" if candidate is None else read_side(problem, candidate.body)


def find_label(problem: Problem) -> str:
    """The side that holds. Raises ``RecordError`` for a problem that does not say so."""
    holds = problem.metadata.get("holds")
    if problem.kind != DECIDE or not isinstance(holds, bool):
        raise RecordError(
            f"problem {problem.id!r} asks for no decision, or does not say what holds; "
            'reward.name = "decide" is for problems that do (problems generate --decide)'
        )
    return SIDES[0] if holds else SIDES[1]


def find_fault(text: str) -> str:
    """Why an answer earns nothing for its side alone; empty where it may. DeepTheorem's guards are
    markers of the prompt, a short text about the reasoning process (below 90 characters), less than
    0.05 of it white space, and more than 300 times as long as it has distinct characters."""
    if any(marker in text for marker in PROMPT_MARKERS):
        return "prompt"
    if len(text) < SHORT_CHARACTERS and BOILERPLATE in text.lower():
        return "boilerplate"
    if sum(map(str.isspace, text)) < LEAST_BLANKS * len(text):
        return "blanks"
    if len(text) > MOST_REPEATS * len(set(text)):
        return "repetition"
    return ""


def decide_reward(rollout: Rollout, config: RewardConfig) -> Reward:
    """1 for a proof of the right side, ``side_share`` for that side without one, unless a guard or
    the audit objects to the answer. Raises ``RecordError`` if nothing was judged or decided;
    ``CanaryError``: the verifier proved the other side."""
    if not rollout.status.judged:
        raise RecordError(f"rollout {rollout.id!r} was not judged ({rollout.status})")
    turn, label = rollout.turns[-1], find_label(rollout.problem)
    is_right = find_side(rollout.problem, turn.candidate) == label
    if rollout.status is Status.PROVED:
        if not is_right:
            raise CanaryError(
                f"problem {rollout.problem.id!r}: both sides of one claim were proved; trust no "
                "verdict of this verifier before that is explained"
            )
        return Reward(1.0, {"proved": 1.0, "side": 0.0})
    distrusted = rollout.status in (Status.UNSOUND, Status.UNCONFIRMED)
    pays = is_right and not distrusted and not find_fault(turn.completion.text)
    value = config.side_share * pays
    return Reward(value, {"proved": 0.0, "side": value})
