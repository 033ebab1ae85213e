"""Small records that many tests build."""

from __future__ import annotations

from collections.abc import Sequence

from proverrl.types import (
    HOLE,
    Candidate,
    Completion,
    Group,
    Obligations,
    Problem,
    Reward,
    Role,
    Rollout,
    Status,
    Turn,
    Verdict,
)


def build_problem(problem_id: str, *, level: int = 1, family: str = "f", n: int = 1) -> Problem:
    """A loop problem whose constant is ``n``."""
    return Problem(
        id=problem_id,
        language="dafny",
        kind="invariants",
        preamble="",
        statement=f"method M(k: nat) {{ while k < {n}\n    {HOLE}\n  {{ }} }}\n",
        metadata={"level": level, "family": family},
    )


def build_verdict(status: Status) -> Verdict:
    return Verdict(status=status, checks=("fake",) if status is Status.PROVED else ())


def build_rollout(problem: Problem, index: int, status: Status, *, tokens: int = 2) -> Rollout:
    completion = Completion(
        text=f"body {index}",
        prompt_ids=(1, 2, 3),
        token_ids=tuple(range(10, 10 + tokens)),
        logprobs=(-0.5,) * tokens,
        finish_reason="stop",
        policy_version=0,
    )
    turn = Turn(completion, Candidate(problem, completion.text), build_verdict(status))
    return Rollout(id=f"{problem.id}-{index}", problem=problem, role="solver", turns=(turn,))


def build_turn(
    problem: Problem,
    status: Status,
    tokens: Sequence[int] = (10, 11),
    *,
    prompt: Sequence[int] = (1, 2, 3),
    obligations: Sequence[Obligations] = (),
) -> Turn:
    """A turn with given tokens and verdict."""
    completion = Completion(
        text="body",
        prompt_ids=tuple(prompt),
        token_ids=tuple(tokens),
        logprobs=(-0.5,) * len(tokens),
        finish_reason="stop",
        policy_version=0,
    )
    verdict = Verdict(
        status=status,
        checks=("fake",) if status is Status.PROVED else (),
        obligations=tuple(obligations),
    )
    return Turn(completion, Candidate(problem, completion.text), verdict)


def build_turns_group(
    turns: Sequence[Sequence[Turn]], *, problem_id: str = "p", role: Role = "solver"
) -> Group:
    """A group of rollouts with given turns; 1 for a proof at the end, else 0."""
    problem = build_problem(problem_id)
    rollouts = tuple(
        Rollout(id=f"{problem_id}-{i}", problem=problem, role=role, turns=tuple(rollout))
        for i, rollout in enumerate(turns)
    )
    rewards = tuple(Reward(float(r.status is Status.PROVED)) for r in rollouts)
    return Group(key=(role, problem_id), rollouts=rollouts, rewards=rewards)


def build_test_group(problem_id: str, rewards: Sequence[float], *, family: str = "f") -> Group:
    problem = build_problem(problem_id, family=family)
    rollouts = tuple(
        build_rollout(problem, i, Status.PROVED if r > 0 else Status.REJECTED)
        for i, r in enumerate(rewards)
    )
    return Group(
        key=("solver", problem_id),
        rollouts=rollouts,
        rewards=tuple(Reward(float(r)) for r in rewards),
    )
