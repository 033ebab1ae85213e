"""What a run learns from searches: their proofs, and their paths with prefix advantages.

Flows in: the files of ``[samples]``. Flows out: proofs for the warm start and for the store of a
loop, and updates of ``grpo``'s learner before its first step. A path is used when it is of a
problem that the loop draws from, its statement is this run's, and the run's own verifier says of it
now what the file says; all others are written to ``dropped_proofs.jsonl`` with the reason.

The passes are GRPO's policy loss with one advantage a stretch (DeepSearch, Wu et al. 2025, arXiv
2509.25454): the searches' policy is another one, so that the learner's own log-probabilities before
an update stand for the old policy's. Not handled here: several processes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from proverrl.config import Config
from proverrl.errors import UsageError
from proverrl.learner.learner import TorchLearner
from proverrl.loops.reverify import (
    NO_PROBLEM,
    describe_drop,
    explain_refusal,
    report_drops,
    verify_all,
)
from proverrl.loops.session import Session
from proverrl.parallel import World
from proverrl.rollout.proofs import IMPORTED, ProofStore
from proverrl.rollout.training_sample import TrainingSample
from proverrl.search.samples import SearchSample, build_path_sample, read_samples
from proverrl.seeds import derive_seed
from proverrl.types import Candidate, Problem, Verdict


def check_sample_files(config: Config, world: World) -> None:
    """Refuse the files of ``[samples]`` before anything else is done.

    Raises:
        UsageError: a file cannot be read or a line of it is no sample, or ``samples.passes`` is
            set and there are several processes.
    """
    _read_files(config)
    if config.samples.passes and world.size > 1:
        raise UsageError(
            f"samples.passes is made in one process, and there are {world.size}; start one, or "
            "set it to 0"
        )


async def check_paths(session: Session, *, only_proofs: bool) -> tuple[list[SearchSample], int]:
    """The paths that may be learned from, in the order of the files, and the verifier calls."""
    by_id = {problem.id: problem for problem in session.problems.without_reference}
    dropped: list[dict[str, Any]] = []
    wanted: list[tuple[Candidate, SearchSample]] = []
    for sample in _read_files(session.config):
        name, problem = sample.problem.id, by_id.get(sample.problem.id)
        if only_proofs and not sample.proved:
            continue
        if problem is None:
            dropped.append(describe_drop(name, sample.body, NO_PROBLEM))
        elif Candidate(problem, "").key != Candidate(sample.problem, "").key:
            reason = "the file's problem of this id is not this run's"
            dropped.append(describe_drop(name, sample.body, reason))
        else:
            wanted.append((Candidate(problem, sample.body), sample))
    distinct = {candidate.key: candidate for candidate, _ in wanted}
    verdicts = await verify_all(session, list(distinct.values()), "paths of searches")
    known = dict(zip(distinct, verdicts, strict=True))
    paths = []
    for candidate, sample in wanted:
        if reason := _disagrees(sample, known[candidate.key]):
            dropped.append(describe_drop(sample.problem.id, sample.body, reason))
        else:
            paths.append(sample)
    report_drops(session, "samples of searches", len(distinct), dropped)
    return paths, len(distinct)


async def list_proofs(session: Session) -> list[tuple[Problem, str]]:
    """Problems with distinct proofs of searches, for the warm start; none unless it is to learn
    from them."""
    if not session.config.samples.warm_start:
        return []
    paths, _ = await check_paths(session, only_proofs=True)
    return list({Candidate(p.problem, p.body).key: (p.problem, p.body) for p in paths}.values())


async def keep_sample_proofs(session: Session, store: ProofStore) -> int:
    """Put the proofs of searches into a store; returns the verifier calls."""
    settings = session.config.samples
    if not settings.files or not settings.proofs:
        return 0
    paths, num_calls = await check_paths(session, only_proofs=True)
    for path in paths:
        num_tokens = len(session.policy.body_ids(path.problem, path.body))
        store.keep(path.problem, path.body, num_tokens=num_tokens, policy_version=IMPORTED)
    return num_calls


async def learn_paths(session: Session, learner: TorchLearner) -> int:
    """Make the passes of ``samples.passes``; returns the verifier calls.

    Paths of a problem go into one update. Deterministic under the run's seed.
    """
    settings, monitor = session.config.samples, session.monitor
    if not settings.passes:
        return 0
    paths, num_calls = await check_paths(session, only_proofs=False)
    groups, num_lost = _tokenise(session, paths)
    if num_lost:
        monitor.phase("paths", f"{num_lost} left out: a segment ends within a word of the layout")
    rng = random.Random(derive_seed(session.config.seed, "paths"))
    number = 0
    for _ in range(settings.passes):
        order = list(groups)
        rng.shuffle(order)
        for start in range(0, len(order), settings.problems_per_update):
            chosen = order[start : start + settings.problems_per_update]
            metrics = await asyncio.to_thread(
                _learn, learner, [s for n in chosen for s in groups[n]]
            )
            number += 1
            # Before the first checkpoint these lines are written again, as step 1 is.
            monitor.log("paths", 1, {"update": number, "problems": len(chosen), **metrics})
            monitor.phase("paths", f"update {number}, loss {metrics.get('loss', 0.0):.4f}")
    session.policy.version = learner.version
    await asyncio.to_thread(session.sampler.push, learner.version)
    return num_calls


def rescore(learner: TorchLearner, samples: Sequence[TrainingSample]) -> list[TrainingSample]:
    """The samples as if the learner's present weights had written them."""
    scored = []
    for sample, logprobs in zip(samples, learner.score(samples), strict=True):
        values = (0.0,) * sample.prompt_length + tuple(map(float, logprobs.tolist()))
        scored.append(replace(sample, logprobs=values, policy_version=learner.version))
    return scored


def _learn(learner: TorchLearner, samples: Sequence[TrainingSample]) -> dict[str, float]:
    return learner.step(rescore(learner, samples))


def _tokenise(
    session: Session, paths: Sequence[SearchSample]
) -> tuple[dict[str, list[TrainingSample]], int]:
    """The paths by problem, and how many have no place in the words of the layout."""
    groups: dict[str, list[TrainingSample]] = {}
    num_lost = 0
    for number, path in enumerate(paths):
        sample = build_path_sample(session.policy, path, f"{path.search}/{number}")
        if sample is None:
            num_lost += 1
        else:
            groups.setdefault(path.problem.id, []).append(sample)
    return groups, num_lost


def _disagrees(sample: SearchSample, verdict: Verdict) -> str:
    """Why the verdict is not what the file says; empty when it is."""
    if verdict.status.judged and verdict.proved == sample.proved:
        return ""
    if verdict.proved:
        return "proved, and the file says that it is not"
    return explain_refusal(verdict)


def _read_files(config: Config) -> list[SearchSample]:
    return [sample for name in config.samples.files for sample in read_samples(Path(name))]
