"""What an update learns from beside its step's groups: proofs to imitate, and a teacher's prompts.

Flows in: references, the run's own proofs, failed attempts. Flows out: samples and pairs for the
learner. Not handled here: the losses (``proverrl.losses``).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from proverrl.learner.distill import TeacherPair, build_pairs
from proverrl.loops.pairs import proof_sources, reference_sources
from proverrl.loops.session import Session
from proverrl.loops.state import GrpoState
from proverrl.rollout.samples import TrainingSample, build_replay_sample
from proverrl.seeds import derive_seed
from proverrl.types import Group


def make_pairs(session: Session, seen: Sequence[Group], version: int) -> list[TeacherPair]:
    """Failed attempts of all groups, with a teacher's prompts; none without self-distillation."""
    settings = session.config.loss.distill
    if settings.weight == 0.0:
        return []
    return build_pairs(
        session.policy,
        [rollout for group in seen for rollout in group.rollouts],
        session.config.rollout,
        max_pairs=settings.max_pairs,
        max_tokens=session.policy.model.config.max_position_embeddings,
        seed=derive_seed(session.config.seed, "distill", version),
    )


def make_replay(
    session: Session, state: GrpoState, version: int
) -> Callable[[], list[TrainingSample]]:
    """Gives proofs to imitate, drawn anew each time: half of them the run's own, as far as there
    are so many, the rest references, so that what is not yet proved again is not forgotten; and of
    another role that the weights have a quarter as many beside them."""
    num = session.config.learner.replay_samples
    references = reference_sources(session) if num else []
    own = proof_sources(session, state.store.pairs()) if num else []
    rng = random.Random(derive_seed(session.config.seed, "replay", version))

    def draw() -> list[TrainingSample]:
        chosen = rng.sample(own, min((num + 1) // 2, len(own)))
        chosen += rng.sample(references, min(num - len(chosen), len(references)))
        chosen += rng.sample(state.other_role, min(num // 4, len(state.other_role)))
        pairs = [source() for source in chosen]
        return [build_replay_sample(pair.prompt_ids, pair.target_ids) for pair in pairs]

    return draw
