"""Rollouts of several turns: the verifier's answer is shown, and the policy tries again.

Flows in: judged draws of first attempts. Flows out: the same draws with the turns that followed. A
rollout continues until it is proved, until a verdict judged nothing (then it is unjudged as a
whole), until the model has no room for another turn, or until its turns are used. All rollouts of
all draws take a turn together.

Each attempt is a separate answer after a message with the feedback (Goedel-Prover-V2, Lin et al.
2025, arXiv 2508.03613).

A turn's prompt is the ids of the problem's prompt, then of each earlier completion and its
feedback; what does not fit ``history_tokens``, or the model, is left out oldest first.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from proverrl.config import RolloutConfig
from proverrl.lang.records import Extraction
from proverrl.policy.base import Exchange, Policy, generate_fitting
from proverrl.policy.engines import find_context
from proverrl.problems.prompt import use_layout_words
from proverrl.rollout.extract import PLAIN, Mode
from proverrl.rollout.feedback import FEEDBACK, render_missing
from proverrl.rollout.whole_proof import JudgedDraw, explain_lost, with_hint
from proverrl.seeds import derive_seed
from proverrl.types import Candidate, Completion, Prompt, Rollout, Sampling, Turn, Verdict
from proverrl.verifier.base import Verifier, verify_all


@dataclass
class _Chain:
    """A rollout in progress; ``draw`` is the index of its draw."""

    draw: int
    rollout: Rollout
    prompt: Prompt
    has_room: bool = True


async def continue_rollouts(
    judged: Sequence[JudgedDraw],
    *,
    policy: Policy,
    verifier: Verifier,
    settings: RolloutConfig,
    sampling: Sampling,
    deadline_seconds: float,
    mode: Mode = PLAIN,
) -> list[JudgedDraw]:
    """Take turns until every rollout is over; unchanged when ``settings`` ask for one turn.
    ``sampling.seed`` seeds the first of these turns, and the others through it. Feedback goes into
    the turn that it answers; the last turn has none. ``mode`` finds the bodies."""
    if not settings.takes_turns or not judged:
        return list(judged)
    firsts = [draw.rollouts[0] for draw in judged]
    prompts = [with_hint(policy.prompt(first.problem), first.hint) for first in firsts]
    chains = [
        _Chain(index, rollout, prompts[index])
        for index, draw in enumerate(judged)
        for rollout in draw.rollouts
    ]
    known = {
        (chain.draw, turn.candidate.key): turn.verdict
        for chain in chains
        for turn in chain.rollout.turns
        if turn.candidate is not None and turn.verdict is not None and turn.verdict.status.judged
    }
    calls = Counter({index: draw.num_calls for index, draw in enumerate(judged)})
    seconds = 0.0
    for number in range(1, settings.turns):
        going = [c for c in chains if c.has_room and _goes_on(c.rollout)]
        if not going:
            break
        for chain in going:
            chain.rollout = add_feedback(chain.rollout, policy, settings, mode)
        started = time.monotonic()
        seed = derive_seed(sampling.seed, "turn", number)
        written = await generate_fitting(
            policy,
            [resume_within(policy, c.prompt, c.rollout, settings) for c in going],
            n=1,
            sampling=replace(sampling, seed=seed),
        )
        for chain, row in zip(going, written, strict=True):
            chain.has_room = row[0].finish_reason != "no_room"
        completions = [row[0] for row in written if row[0].finish_reason != "no_room"]
        going = [chain for chain in going if chain.has_room]
        read = await mode.read(
            [(c.rollout.problem, row.text) for c, row in zip(going, completions, strict=True)],
            layout=policy.layout,
            turn=number,
            seed=seed,
        )
        seconds += time.monotonic() - started
        await _judge_turn(going, completions, read, verifier, known, calls, deadline_seconds)
    return [
        JudgedDraw(
            rollouts=tuple(c.rollout for c in chains if c.draw == index),
            num_calls=calls[index],
            generation_seconds=draw.generation_seconds + seconds / len(judged),
        )
        for index, draw in enumerate(judged)
    ]


def resume_within(
    policy: Policy, prompt: Prompt, rollout: Rollout, settings: RolloutConfig
) -> Prompt:
    """The prompt of a rollout's next turn, its oldest turns left out as the budget and the model's
    context want. If not even the last exchange fits, only the problem is shown."""
    history = [Exchange(t.completion, t.feedback) for t in rollout.turns]
    most = min(settings.history_tokens or sys.maxsize, find_context(policy) - 1)
    for first in range(len(history) + 1):
        resumed = policy.resume(prompt, history[first:])
        if len(resumed.token_ids) <= most:
            break
    return resumed


async def _judge_turn(
    chains: Sequence[_Chain],
    completions: Sequence[Completion],
    extractions: Sequence[Extraction],
    verifier: Verifier,
    known: dict[tuple[int, str], Verdict],
    calls: Counter[int],
    deadline_seconds: float,
) -> None:
    """Append a turn to every chain; a candidate that its draw has judged before costs no call."""
    turns = []
    new: dict[tuple[int, str], Candidate] = {}
    for chain, completion, extraction in zip(chains, completions, extractions, strict=True):
        found = explain_lost(completion, extraction)
        candidate = found.candidate(chain.rollout.problem)
        turns.append(Turn(completion, candidate, None, reason=found.reason))
        if candidate is not None and (chain.draw, candidate.key) not in known:
            new[chain.draw, candidate.key] = candidate
    verdicts = await verify_all(verifier, new.values(), deadline_seconds=deadline_seconds)
    judged = dict(zip(new, verdicts, strict=True))
    calls.update(draw for draw, _ in new)
    for chain, turn in zip(chains, turns, strict=True):
        if turn.candidate is not None:
            place = (chain.draw, turn.candidate.key)
            turn = replace(turn, verdict=judged.get(place) or known[place])
        chain.rollout = replace(chain.rollout, turns=(*chain.rollout.turns, turn))
    known |= {place: verdict for place, verdict in judged.items() if verdict.status.judged}


def _goes_on(rollout: Rollout) -> bool:
    verdict = rollout.turns[-1].verdict
    return verdict is None or (verdict.status.judged and not verdict.proved)


def add_feedback(rollout: Rollout, policy: Policy, settings: RolloutConfig, mode: Mode) -> Rollout:
    """The rollout with feedback in its last turn, in the words of the policy's layout."""
    *earlier, last = rollout.turns
    text = mode.tell(rollout, tell(last, policy, settings), policy.layout)
    return replace(rollout, turns=(*earlier, replace(last, feedback=text)))


def tell(turn: Turn, policy: Policy, settings: RolloutConfig) -> str:
    """The feedback on a turn, in the words of its layout."""
    if turn.candidate is None or turn.verdict is None:
        return render_missing(turn.reason)
    text = FEEDBACK[settings.feedback](turn.candidate, turn.verdict, settings.max_errors)
    return use_layout_words(turn.candidate.problem, text, policy.layout)
