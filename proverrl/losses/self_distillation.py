"""Self-distillation: a policy learns from itself after reading the verifier's message.

Flows in: log-probabilities of the policy on its own tokens, once as it wrote them (student) and
once with feedback in the prompt (teacher). Flows out: one loss per token. Not handled here: the
teacher's forward pass and its weights (``proverrl.learner.distill``), which samples have feedback
(``proverrl.rollout.teaching``).
"""

from __future__ import annotations

import torch
from torch import Tensor

TOP_TOKENS = 100
ALPHA = 0.5
RATIO_CAP = 2.0
TEACHER_RATE = 0.05


def distillation_loss(
    student_logits: Tensor,
    teacher_logits: Tensor,
    ratio: Tensor,
    *,
    alpha: float = ALPHA,
    top_tokens: int = TOP_TOKENS,
    ratio_cap: float = RATIO_CAP,
) -> Tensor:
    """The divergence of student and teacher per token, times min(ratio, ``ratio_cap``), of shape
    (tokens,) (SDPO, self-distillation policy optimization, Huebotter et al. 2026,
    arXiv 2601.20802).

    Logits are (tokens, vocabulary); ``ratio`` is (tokens,), the policy's probability of the token
    over the sampler's. No gradient flows through the teacher or the ratio. The divergence is over
    the student's ``top_tokens`` likeliest tokens and one bucket for all others.
    """
    student = torch.log_softmax(student_logits, -1)
    teacher = torch.log_softmax(teacher_logits.detach(), -1)
    top = student.detach().topk(min(top_tokens, student.shape[-1]), -1).indices
    divergence = generalised_js(pick_with_tail(student, top), pick_with_tail(teacher, top), alpha)
    return divergence * ratio.detach().clamp(max=ratio_cap)


def generalised_js(student: Tensor, teacher: Tensor, alpha: float) -> Tensor:
    """(1 - alpha) KL(student || m) + alpha KL(teacher || m) with m = (1 - alpha) student + alpha
    teacher, over the last dimension of log-probabilities. At the ends, where that is 0, its limits
    in slope: KL(teacher || student) for alpha 0 and KL(student || teacher) for alpha 1.

    Raises:
        ValueError: alpha is outside [0, 1].
    """
    if not 0.0 <= alpha <= 1.0:
        raise ValueError(f"alpha must be within 0 and 1, got {alpha}")
    if alpha == 0.0:
        return _kl(teacher, student)
    if alpha == 1.0:
        return _kl(student, teacher)
    weights = torch.tensor([1.0 - alpha, alpha], dtype=student.dtype, device=student.device).log()
    mixture = torch.logaddexp(student + weights[0], teacher + weights[1])
    return (1.0 - alpha) * _kl(student, mixture) + alpha * _kl(teacher, mixture)


def pick_with_tail(logprobs: Tensor, index: Tensor) -> Tensor:
    """The log-probabilities at ``index`` (tokens, k) and the logarithm of the rest, of shape
    (tokens, k + 1). The rest is at least the smallest positive number, so that its logarithm is
    finite."""
    picked = logprobs.gather(-1, index)
    rest = 1.0 - picked.exp().sum(-1, keepdim=True)
    tail = rest.clamp(min=torch.finfo(logprobs.dtype).tiny).log()
    return torch.cat([picked, tail], -1)


@torch.no_grad()
def follow(teacher: torch.nn.Module, student: torch.nn.Module, rate: float = TEACHER_RATE) -> None:
    """Move the teacher's weights by ``rate`` of the way to the student's."""
    for mine, theirs in zip(teacher.parameters(), student.parameters(), strict=True):
        mine.lerp_(theirs.to(mine.dtype), rate)


def _kl(p: Tensor, q: Tensor) -> Tensor:
    return (p.exp() * (p - q)).sum(-1)
