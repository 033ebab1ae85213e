"""Makes a critic of a run's formaliser: fits the bound between right and wrong on judged pairs.

Flows in: a configuration, a run, a file of critiques with labels. Flows out: a folder that gates,
rewards and evaluations take for a critic. It holds the largest gap of a right statement, the bound
with the best balanced accuracy. Not handled here: the gaps (``proverrl.lab.critics.likelihood``),
and evaluating the critic, which ``proverrl eval`` does as for any critic, on other pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from proverrl.benchmarks.open import open_benchmark
from proverrl.config import Config
from proverrl.errors import ProblemError, UsageError
from proverrl.jobs.evaluate import find_weights
from proverrl.lab.critics.language import find_truth
from proverrl.lab.critics.likelihood import FILE, LikelihoodPolicy, StoredCritic, write_critic
from proverrl.policy.engines import name_weights
from proverrl.run.session import load_weights


def fit_most(gaps: Sequence[float], truths: Sequence[bool]) -> tuple[float, float]:
    """The bound with the best balanced accuracy where what is not above it is called right, halfway
    between two gaps, the smallest of several; and that accuracy. Raises ``ProblemError`` unless
    some are right and some wrong."""
    num_right = sum(truths)
    num_wrong = len(truths) - num_right
    if not num_right or not num_wrong:
        raise ProblemError(
            "a bound needs right and wrong statements; make pairs with `proverrl words critiques`"
        )
    bounds = [(low + high) / 2 for low, high in pairwise(sorted({0.0, *gaps, max(gaps) + 2.0}))]

    def accuracy(bound: float) -> float:
        said = [(gap <= bound, truth) for gap, truth in zip(gaps, truths, strict=True)]
        right = sum(says and truth for says, truth in said) / num_right
        wrong = sum(not says and not truth for says, truth in said) / num_wrong
        return (right + wrong) / 2

    best = max(bounds, key=lambda bound: (accuracy(bound), -bound))
    return best, accuracy(best)


def fit_critic(config: Config, run: Path, source: str, out: Path) -> str:
    """Measure every pair of ``source`` with the run's policy, and write the critic to ``out``;
    returns a line of report. Raises ``UsageError``: ``out`` holds something else;
    ``ProblemError``: ``source`` holds a problem without a label, or labels of one kind."""
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / FILE).exists())):
        raise UsageError(f"--out {out} holds something else; name a new folder")
    benchmark = open_benchmark(source)
    labels = [find_truth(p) for p in benchmark.problems]
    truths = [truth for truth in labels if truth is not None]
    if not truths or len(truths) < len(labels):
        raise ProblemError(
            f"{source}: not every problem asks for a judgement; write pairs with `proverrl "
            "words critiques`"
        )
    weights = find_weights(run)
    formaliser = load_weights(config, weights)
    policy = LikelihoodPolicy(formaliser, 0.0)
    gaps = [policy.measure(policy.prompt(problem)).size for problem in benchmark.problems]
    most, accuracy = fit_most(gaps, truths)
    critic = StoredCritic(str(weights.resolve()), name_weights(formaliser), formaliser.layout, most)
    about = {"fitted_on": benchmark.place, "sha256": benchmark.sha256, "balanced": accuracy}
    write_critic(out, critic, about)
    return (
        f"a statement is right where no other word is e^{most:.2f} times as likely as what is "
        f"written: {100 * accuracy:.1f} % balanced accuracy on the {len(gaps)} it was fitted on"
    )
