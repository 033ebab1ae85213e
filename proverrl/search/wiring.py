"""The functions of a search, made of a policy and of verifiers.

Flows in: a policy that samples, a verifier, and what confirms a proof. Flows out: ``Functions`` for
a problem of either language. Not handled here: which search they serve, files, tactic mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from proverrl.config import PoolConfig, RolloutConfig, SearchConfig
from proverrl.config.search import StepName
from proverrl.errors import UsageError
from proverrl.lang import find_language
from proverrl.lang.base import BackendOptions
from proverrl.lang.open import open_router
from proverrl.lang.records import SegmentFn, Verify
from proverrl.policy.base import Policy
from proverrl.policy.transformers import TransformersPolicy
from proverrl.search.base import Functions, ValueFn
from proverrl.search.proposals import Corrector, Proposer, encode, find_tokenizer
from proverrl.search.step_proposals import make_proposer
from proverrl.search.values import load_value
from proverrl.types import Candidate, Problem, Sampling, Verdict
from proverrl.verify.base import Limits, Verifier

WHOLE_BODY_SEARCHES = frozenset({"best_of_n", "self_correct"})
"""Searches that begin every body anew and so need no states."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What all searches of a command share. ``confirm`` judges proofs again, with fresh workers;
    ``value`` is needed by searches with a value model only."""

    propose: Proposer
    correct: Corrector
    verifier: Verifier
    confirm: Verifier
    deadline_seconds: float
    value: ValueFn | None = None


def make_tools(
    policy: Policy,
    verifier: Verifier,
    confirm: Verifier,
    *,
    sampling: Sampling,
    rollout: RolloutConfig,
    deadline_seconds: float,
    value: ValueFn | None = None,
    step: StepName = "proof",
) -> Tools:
    """Tools over one policy, which writes whole proofs or one ``step`` at a time.

    The seed of ``sampling`` is not used: each expansion has its own.
    """
    return Tools(
        propose=make_proposer(policy, sampling, step),
        correct=Corrector(policy, sampling, rollout),
        verifier=verifier,
        confirm=confirm,
        deadline_seconds=deadline_seconds,
        value=value,
    )


def open_confirm(pool: PoolConfig) -> Verifier:
    """A verifier that starts a fresh worker for every candidate and remembers nothing."""
    limits = Limits(rlimit=pool.rlimit)
    options = BackendOptions(workers=1, limits=limits, memory_mb=pool.memory_mb, max_candidates=1)
    return open_router(options)


def open_value(policy: Policy, folder: Path) -> ValueFn:
    """The value model in ``folder``, which was fitted on this policy's hidden states.

    Raises:
        UsageError: the policy's model is not in this process, or there is no value model for it.
    """
    if not isinstance(policy, TransformersPolicy):
        raise UsageError(
            f"a value model reads the hidden states of the policy's own model, which "
            f'{policy.engine} does not give; set policy.engine = "transformers"'
        )
    return load_value(policy, folder)


def make_functions(problem: Problem, tools: Tools, config: SearchConfig) -> Functions:
    """The functions of one problem's search.

    Raises:
        UsageError: the search needs states, and problems of this kind or layout have none.
    """
    return Functions(
        propose=tools.propose,
        verify=_bind(tools.verifier, tools.deadline_seconds),
        segment=choose_states(problem, tools.propose.policy, config),
        value=tools.value,
        correct=tools.correct,
        confirm=_bind(tools.confirm, tools.deadline_seconds),
        count_tokens=_make_count(tools.propose.policy) if config.max_prefix_tokens else None,
    )


def choose_states(problem: Problem, policy: Policy, config: SearchConfig) -> SegmentFn | None:
    """How states are read from verdicts; None for searches that need none."""
    if config.base_name in WHOLE_BODY_SEARCHES:
        return None
    searching = find_language(problem.language).searching
    if searching is None or problem.kind not in searching.kinds:
        kinds = sorted(searching.kinds) if searching else []
        remedy = f"give problems of the kinds {', '.join(kinds)}, or " if kinds else ""
        raise UsageError(
            f"problem {problem.id!r} ({problem.language}, {problem.kind}) has no states for "
            f'search; {remedy}set search.name = "best_of_n"'
        )
    return searching.segment(config.states)


def needs_traces(problems: Iterable[Problem], config: SearchConfig) -> bool:
    """Whether verdicts must carry the goals before each step."""
    if config.base_name in WHOLE_BODY_SEARCHES:
        return False
    found = (find_language(problem.language).searching for problem in problems)
    return any(searching is not None and searching.needs_traces for searching in found)


def _bind(verifier: Verifier, deadline_seconds: float) -> Verify:
    async def verify(candidate: Candidate) -> Verdict:
        return await verifier.verify(candidate, deadline_seconds=deadline_seconds)

    return verify


def _make_count(policy: Policy) -> Callable[[str], int]:
    tokenizer = find_tokenizer(policy)
    return lambda text: len(encode(tokenizer, text))
