"""What search can keep of a policy's failed proofs: prefixes and states, on real Dafny.

    python scripts/measure_states.py POLICY PROBLEMS.jsonl --num 20 --attempts 16

The problems are the first of levels 4 and 5 in the file, taking their families in turn. Each gets
``--attempts`` whole answers from the root. It prints how many attempts failed, what was kept of
them, and how many states they reached per problem, with one state per attempt and with one for
every step.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections import Counter
from itertools import chain, zip_longest
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from proverrl.config import PolicyConfig, PoolConfig
from proverrl.errors import UsageError
from proverrl.lang.dafny.search.states import segment_dafny, step_segments
from proverrl.lang.open import open_verifier
from proverrl.lang.records import Prefix
from proverrl.policy.loading import load_policy
from proverrl.problems.load import load_problems
from proverrl.search.proposals import Proposer
from proverrl.types import Candidate, Problem, Sampling, Verdict
from proverrl.verifier.base import verify_all
from scripts.arguments import at_least, telling_errors

LEVELS = (4, 5)


def choose_problems(path: Path, count: int) -> list[Problem]:
    """Problems of the levels, one of each family in turn."""
    families: dict[str, list[Problem]] = {}
    for problem in load_problems(path):
        if problem.level in LEVELS:
            families.setdefault(problem.family, []).append(problem)
    turns = chain.from_iterable(zip_longest(*families.values()))
    chosen = [problem for problem in turns if problem is not None][:count]
    if not chosen:
        raise UsageError(f"{path} has no problem of level 4 or 5; give another file")
    return chosen


def name_kept(candidate: Candidate, verdict: Verdict) -> str:
    """What became of a failed attempt."""
    if not verdict.status.judged:
        return "not judged"
    segments = segment_dafny(candidate, verdict)
    if segments:
        whole = segments[-1].text.rstrip() == candidate.body.rstrip()
        return "kept whole" if whole else "kept in part"
    return "first step fails" if verdict.obligations else "does not parse or resolve"


async def measure(policy_folder: Path, problems: list[Problem], attempts: int, seed: int) -> None:
    """Draw, verify, cut, print."""
    policy = load_policy(policy_folder, PolicyConfig(layout="canonical"), device="cpu")
    print(f"policy: {policy.engine}")
    propose = Proposer(policy, Sampling(max_new_tokens=96))
    verifier = open_verifier(workers=2)
    kept: Counter[str] = Counter()
    num_states, num_steps, num_prefixes = [], [], []
    try:
        for problem in problems:
            proposals = await propose(problem, Prefix("", ""), attempts, seed)
            candidates = [Candidate(problem, proposal.body) for proposal in proposals]
            verdicts = await verify_all(
                verifier, candidates, deadline_seconds=PoolConfig().deadline_seconds
            )
            failed = [(c, v) for c, v in zip(candidates, verdicts, strict=True) if not v.proved]
            kept.update(name_kept(c, v) for c, v in failed)
            kept["proved"] += len(candidates) - len(failed)
            one = [segment for c, v in failed for segment in segment_dafny(c, v)]
            every = [segment for c, v in failed for segment in step_segments(c, v)]
            print(f"{problem.id}: {len(failed)} failed, {len(one)} kept, states:")
            for state, number in Counter(segment.state for segment in one).most_common():
                print(f"  {number} x {state!r}")
            if failed:
                num_states.append(len({segment.state for segment in one}))
                num_steps.append(len({segment.state for segment in every}))
                num_prefixes.append(len({segment.text.strip() for segment in one}))
    finally:
        await verifier.aclose()
    print(dict(kept), f"{propose.num_unread} without a body")
    print(f"problems with a failure: {len(num_states)}")
    for name, values in (
        ("states", num_states),
        ("different prefixes", num_prefixes),
        ("states with every step", num_steps),
    ):
        mean = f"{statistics.mean(values):.2f}" if values else "-"
        print(f"{name} a problem: mean {mean}, {sorted(values)}")


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("policy", type=Path, metavar="POLICY")
    parser.add_argument("path", type=Path, metavar="PROBLEMS")
    parser.add_argument("--num", type=at_least(1), default=20, help="problems")
    parser.add_argument("--attempts", type=at_least(1), default=16, help="answers for each")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    problems = choose_problems(given.path, given.num)
    asyncio.run(measure(given.policy, problems, given.attempts, given.seed))


if __name__ == "__main__":
    with telling_errors():
        main()
