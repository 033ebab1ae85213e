"""The composer of a run: a program, or the solver's own policy.

Flows in: a session. Flows out: a ``Composer``; what warm start teaches it.
Not handled here: pairs of parents (``composition``), filters.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial

from proverrl.compose.composers import (
    Composer,
    FunctionComposer,
    PolicyComposer,
    ProgramComposer,
    teach_scripts,
)
from proverrl.config.loops import find_traits
from proverrl.curriculum.base import Belief
from proverrl.loops.selfplay.composition import draw_pair
from proverrl.plugins import bind
from proverrl.run.pairs import Pair, PairSource
from proverrl.run.session import Session
from proverrl.seeds import derive_seed

TAUGHT_SCRIPTS = 400
"""Scripts that the warm start teaches: with these a small model writes readable ones."""


def teach_composer(session: Session) -> list[PairSource]:
    """Scripts on pairs of training problems for the warm start, if a policy is to write scripts."""
    settings = session.config.selfplay
    composes = "selfplay" in find_traits(session.config.loop).takes
    asked = composes and settings.composer == "policy"
    if not asked:
        return []
    rng = random.Random(derive_seed(session.config.seed, "warm_pairs"))
    problems = sorted(session.problems.all, key=lambda problem: problem.id)
    pairs = [draw_pair(rng, problems, problems, {}) for _ in range(TAUGHT_SCRIPTS)]
    taught = teach_scripts(session.policy, pairs, settings.operators, seed=session.config.seed)
    return [partial(Pair, prompt_ids, target_ids) for prompt_ids, target_ids in taught]


def open_composer(
    session: Session, *, weigh: Callable[[], Mapping[str, Belief]] | None = None
) -> Composer:
    """The composer of the configuration; ``weigh`` says how useful each operator is where a program
    chooses among them."""
    config, settings = session.config, session.config.selfplay
    if settings.composer == "program":
        return ProgramComposer(settings.operators, config.seed, weigh=weigh)
    if settings.composer != "policy":
        compose = bind("composer", settings.composer, settings.options)
        return FunctionComposer(settings.composer, compose, config.seed)
    return PolicyComposer(
        session.sampler,
        session.policy,
        operators=settings.operators,
        temperature=config.sampling.temperature,
        max_new_tokens=settings.max_new_tokens,
        seed=config.seed,
    )
