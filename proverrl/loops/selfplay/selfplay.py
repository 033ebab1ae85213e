"""Self-play: a composer writes statements that a solver learns to prove, both in one run.

Paper order (GAR, 2025, arXiv 2510.11769): draw pairs of base problems, have a composer write a
statement for each, keep those that pass the guards, sample a group of proofs on each, verify,
reward both, update both. With shared weights there is one update over the samples of both roles;
otherwise the composer has a copy of the solver's first weights, with a learner and a checkpoint of
its own, or stays as it is.

Flows in: a session. Flows out: what a GRPO run leaves, and ``archive.jsonl`` with a picture. It is
the loop of ``grpo`` with draws from another source, whose rounds are part of the state. Not handled
here: several processes.
"""

from __future__ import annotations

from functools import partial

from proverrl.errors import UsageError
from proverrl.loops.grpo import make_reward, run_steps
from proverrl.loops.selfplay.composed import draw_lineage
from proverrl.loops.selfplay.composer import OwnComposer, open_composer, teach_composer
from proverrl.loops.selfplay.parents import weigh_operators
from proverrl.loops.selfplay.rounds import Rounds
from proverrl.loops.selfplay.source import SelfplaySource
from proverrl.loops.session import Session
from proverrl.loops.state import GrpoState
from proverrl.rewards.composer import is_modified, penalise_modified
from proverrl.types import Reward, Rollout


async def run_selfplay(session: Session) -> None:
    """Play until ``grpo.steps``, ``max_verifier_calls`` or ``max_minutes``; resumes by itself.

    Raises:
        UsageError: there are several processes.
    """
    if session.policy.world.size > 1:
        raise UsageError('loop = "selfplay" runs in one process; start it without a launcher')
    _say_who_composes(session)
    settings = session.config.selfplay
    state = GrpoState(session)
    writes = settings.composer == "policy"
    own = OwnComposer(session) if writes and not settings.shared else None
    if own is None and session.config.learner.replay_samples:
        # Weights that learn proofs alone forget how to write scripts within a few steps.
        state.other_role = teach_composer(session)
    rounds = state.extension = Rounds(state, own)
    plain = make_reward(state)

    def reward(rollout: Rollout) -> Reward:
        return penalise_modified(plain(rollout), is_modified(rollout), settings.modified_weight)

    try:
        await run_steps(state, reward, partial(_open_source, state, rounds), rounds.is_within)
    finally:
        draw_lineage(session)


def _open_source(state: GrpoState, rounds: Rounds) -> SelfplaySource:
    settings, own = rounds.settings, rounds.own
    weigh = None
    if settings.operator_choice == "useful":
        low, high = settings.solver_low, settings.solver_high
        weigh = partial(weigh_operators, rounds.archive, low, high)
    writer = state.session.sampler if own is None else own.policy
    composer = open_composer(state.session, writer, weigh=weigh)
    return SelfplaySource(state, rounds, composer)


def _say_who_composes(session: Session) -> None:
    settings = session.config.selfplay
    if settings.composer == "program":
        text = "a program, one operator a statement"
    else:
        whose = "the solver's weights" if settings.shared else "weights of its own"
        trained = f"reward {settings.reward}" if settings.train_composer else "not trained"
        text = f"a policy with {whose}, form {settings.format}, {trained}"
    session.monitor.phase("composer", text)
