"""Beliefs about solve rates: one Beta distribution for each family or name."""

from __future__ import annotations

Belief = list[float]
"""The two parameters of a Beta distribution, for proofs and failures; [1, 1] knows nothing."""


def update_belief(belief: Belief, solved: int, total: int, discount: float) -> None:
    """Let a belief fade towards [1, 1], then count a group: with discount d, each parameter x
    becomes d x + (1 - d) plus the new proofs or failures (MoPPS, Qu et al. 2025,
    arXiv 2507.04632). d = 1 forgets nothing; below 1 it follows a policy that changes."""
    belief[0] = discount * belief[0] + (1.0 - discount) + solved
    belief[1] = discount * belief[1] + (1.0 - discount) + total - solved


def mean_rate(belief: Belief) -> float:
    """The expected solve rate."""
    return belief[0] / (belief[0] + belief[1])
