"""Credit within a rollout: for tokens, from where the rollouts of a group diverge and meet, and for
turns, from their verdicts.

A turn's tree or steps begin at its prompt: the prompt of a later turn contains the earlier turns,
so different histories have different roots. Steps may still have keys that merge them (``goals``).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from proverrl.advantages.base import (
    AdvantageInputs,
    Credit,
    GroupAdvantages,
    ProofStep,
    StepsFn,
    per_group,
    totals,
)
from proverrl.errors import RecordError
from proverrl.rewards.verdicts import entry_credits, turn_returns
from proverrl.statistics import STD_EPSILON, centre, deviation, standardize
from proverrl.types import Completion, Group, Status, Turn


def tempo(inputs: AdvantageInputs) -> list[GroupAdvantages]:
    """A_i + (V(next) - V(here)) / (std + 1e-6) for each token, with GRPO's A_i and V the mean
    reward of all rollouts below a node of the group's prefix tree (TEMPO, Tran et al. 2025, arXiv
    2509.18314): where the tree does not branch, only A_i is left. With ``settings.states`` "goals"
    the nodes are the states between ``inputs.steps``, whatever text led to them, and all tokens of
    a step have its value. Raises ``RecordError`` if the nodes are goals, and there is no
    ``steps``."""
    if inputs.settings.states == "lines":
        return [_tempo(group) for group in inputs.groups]
    if inputs.steps is None:
        raise RecordError("tempo over goals: AdvantageInputs.steps must say what a step is")
    return [_tempo_over_states(group, inputs.steps) for group in inputs.groups]


def _tempo(group: Group) -> GroupAdvantages:
    rewards = totals(group)
    scale = deviation(rewards) + STD_EPSILON
    values = prefix_values(group, rewards)
    return [
        [
            tuple(base + (path[t + 1] - path[t]) / scale for t in range(len(path) - 1))
            for path in paths
        ]
        for base, paths in zip(standardize(rewards), values, strict=True)
    ]


def _tempo_over_states(group: Group, steps_of: StepsFn) -> GroupAdvantages:
    """The keys of the steps are pairs: the state before and the state after."""
    rewards = totals(group)
    scale = deviation(rewards) + STD_EPSILON
    steps = _cut(group, steps_of)
    edges = [[_edge(step) for turn_steps in turns for step in turn_steps] for turns in steps]
    value = _mean_over_visitors([[s for edge in own for s in edge] for own in edges], rewards)
    advantages: GroupAdvantages = []
    for base, turns, own in zip(standardize(rewards), steps, edges, strict=True):
        worth: dict[Hashable, float] = {
            (before, after): base + (value[after] - value[before]) / scale for before, after in own
        }
        advantages.append([_tokens(turn_steps, worth) for turn_steps in turns])
    return advantages


def _edge(step: ProofStep) -> tuple[Hashable, Hashable]:
    if not isinstance(step.key, tuple) or len(step.key) != 2:
        raise RecordError("tempo over goals: a step's key must be its states before and after")
    return step.key


def prefix_values(group: Group, rewards: Sequence[float]) -> list[list[list[float]]]:
    """Per rollout, per turn, the value of the prompt and then of every longer prefix: one more
    than the turn has tokens. Time and memory grow with the number of tokens."""
    children: dict[tuple[int, int], int] = {}
    roots: dict[tuple[int, tuple[int, ...]], int] = {}
    sums: list[float] = []
    counts: list[int] = []
    paths: list[list[list[int]]] = []

    def visit(node: int, reward: float) -> int:
        if node == len(sums):
            sums.append(0.0)
            counts.append(0)
        sums[node] += reward
        counts[node] += 1
        return node

    for rollout, reward in zip(group.rollouts, rewards, strict=True):
        paths.append([])
        for index, turn in enumerate(rollout.turns):
            root = roots.setdefault((index, turn.completion.prompt_ids), len(sums))
            path = [visit(root, reward)]
            for token in turn.completion.token_ids:
                path.append(visit(children.setdefault((path[-1], token), len(sums)), reward))
            paths[-1].append(path)
    return [[[sums[node] / counts[node] for node in path] for path in turns] for turns in paths]


def salt(inputs: AdvantageInputs) -> list[GroupAdvantages]:
    """GRPO's advantage, but a step that several rollouts share gets the mean of their advantages
    (SALT, Li et al. 2025, arXiv 2510.20022). ``inputs.steps`` says which steps are the same: same
    state, same move. Raises ``RecordError`` if there is no ``steps``, or it does not cover a turn's
    tokens."""
    if inputs.steps is None:
        raise RecordError("salt compares steps: AdvantageInputs.steps must say what a step is")
    return [_salt(group, inputs.steps) for group in inputs.groups]


def _salt(group: Group, steps_of: StepsFn) -> GroupAdvantages:
    steps = _cut(group, steps_of)
    keys = [[step.key for turn_steps in turns for step in turn_steps] for turns in steps]
    means = _mean_over_visitors(keys, standardize(totals(group)))
    return [[_tokens(turn_steps, means) for turn_steps in turns] for turns in steps]


def _mean_over_visitors(
    visited: Sequence[Sequence[Hashable]], values: Sequence[float]
) -> dict[Hashable, float]:
    """For each place the mean value of the rollouts that visited it, each counted once."""
    visitors: dict[Hashable, set[int]] = {}
    for i, places in enumerate(visited):
        for place in places:
            visitors.setdefault(place, set()).add(i)
    return {place: sum(values[i] for i in who) / len(who) for place, who in visitors.items()}


def _cut(group: Group, steps_of: StepsFn) -> list[list[Sequence[ProofStep]]]:
    return [
        [_checked(steps_of(turn), turn.completion) for turn in rollout.turns]
        for rollout in group.rollouts
    ]


def _tokens(steps: Sequence[ProofStep], means: dict[Hashable, float]) -> Credit:
    credit: list[float] = []
    for step in steps:
        credit += [means[step.key]] * (step.end - len(credit))
    return tuple(credit)


def _checked(steps: Sequence[ProofStep], completion: Completion) -> Sequence[ProofStep]:
    ends = [0, *(step.end for step in steps)]
    if ends != sorted(ends) or ends[-1] != len(completion.token_ids):
        raise RecordError(
            f"steps end at {ends[1:]} in a turn of {len(completion.token_ids)} tokens"
        )
    return steps


def line_steps(decode: Callable[[list[int]], str]) -> StepsFn:
    """Steps that are lines of the completion; ``decode`` turns token ids into text. The state
    before a line is the prompt and all lines before it, with blanks collapsed and empty lines left
    out, so that proofs that differ only in layout share their steps. A token that ends one line and
    begins another belongs to the first."""

    def steps(turn: Turn) -> list[ProofStep]:
        tokens = turn.completion.token_ids
        before: tuple[str, ...] = ()
        found: list[ProofStep] = []
        start = 0
        for end in range(1, len(tokens) + 1):
            if end < len(tokens) and "\n" not in decode([tokens[end - 1]]):
                continue
            line = " ".join(decode(list(tokens[start:end])).split())
            found.append(ProofStep((turn.completion.prompt_ids, before, line), end))
            before = (*before, line) if line else before
            start = end
        return found

    return steps


def turn_credit(inputs: AdvantageInputs) -> list[GroupAdvantages]:
    """Per turn k the return max over j >= k of discount^(j - k) [turn j proved], minus the mean of
    the returns of all rollouts that have a turn k: first turns are compared with first turns. A
    turn that only one rollout reached gets 0."""
    return [_turn_credit(group, inputs.settings.turn_discount) for group in inputs.groups]


def _turn_credit(group: Group, discount: float) -> GroupAdvantages:
    returns = [turn_returns(rollout, discount) for rollout in group.rollouts]
    advantages: GroupAdvantages = [[] for _ in returns]
    for k in range(max(len(values) for values in returns)):
        there = [i for i, values in enumerate(returns) if len(values) > k]
        for i, value in zip(there, centre([returns[i][k] for i in there]), strict=True):
            advantages[i].append(value)
    return advantages


@per_group
def obligations(group: Group, inputs: AdvantageInputs) -> list[float]:
    """(r - mean) + ``obligation_weight`` (d - mean of d), where d is 1 for a proved rollout and
    else ``obligation_share`` times its weighted credit (after VeRPO, Wang et al. 2026, arXiv
    2601.03525, whose unit tests are a program's entries here). The share is below 1, so a failed
    proof never outranks a proved one unless the rewards themselves say so. If the back end counts
    no obligations, every failure has d = 0."""
    settings = inputs.settings
    earned = weigh_entries(group, settings.obligation_floor)
    dense = [
        1.0 if rollout.status is Status.PROVED else settings.obligation_share * credit
        for rollout, credit in zip(group.rollouts, earned, strict=True)
    ]
    pairs = zip(centre(totals(group)), centre(dense), strict=True)
    return [outcome + settings.obligation_weight * part for outcome, part in pairs]


def weigh_entries(group: Group, floor: float) -> list[float]:
    """Per rollout sum_j w_j c_j in [0, 1], with c_j the credit of entry j in its last verdict. w_j
    is proportional to 1 - (mean credit of j in the group) + floor: entries that few prove weigh
    more. Only entries that all rollouts with counted obligations share are weighted, so a rollout
    gains nothing from declarations that it adds."""
    earned = [entry_credits(rollout.turns[-1].verdict) for rollout in group.rollouts]
    counted = [entries for entries in earned if entries]
    if not counted:
        return [0.0] * len(earned)
    shared = sorted(set.intersection(*(set(entries) for entries in counted)))
    weights = {
        entry: 1.0 - sum(entries.get(entry, 0.0) for entries in earned) / len(earned) + floor
        for entry in shared
    }
    whole = sum(weights.values())
    return [
        sum(weight * entries.get(entry, 0.0) for entry, weight in weights.items()) / whole
        if whole
        else 0.0
        for entries in earned
    ]
