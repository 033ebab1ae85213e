"""Self-distillation from the verifier's messages (SDPO).

Source: Huebotter et al. 2026, "Reinforcement Learning via Self-Distillation", arXiv 2601.20802.
Flows in: failed attempts with the prompt of a teacher that has read the feedback on them. Flows
out: gradients that draw the policy, on its own tokens, to what the teacher would have written. The
teacher is a slow average of the policy's weights.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from proverrl.config import Config, RolloutConfig
from proverrl.config.base import Fraction, Positive, PositiveFloat, Section
from proverrl.learner.packed_rows import (
    PackedRow,
    batch_rows,
    new_values,
    read_rows,
    samples_of,
)
from proverrl.learner.vocabulary import head_logits
from proverrl.learner.weights import freeze_copy
from proverrl.policy.base import Exchange, Policy
from proverrl.rollout.samples import TrainingSample, build_rollout_samples
from proverrl.rollout.self_correct import tell
from proverrl.rollout.whole_proof import with_hint
from proverrl.run.experiments import Experiment
from proverrl.run.session import Session
from proverrl.seeds import derive_seed
from proverrl.types import Group, Rollout


@dataclass(frozen=True, slots=True)
class TeacherPair:
    """An attempt, and the prompt under which a teacher scores the same tokens."""

    sample: TrainingSample
    teacher_prompt: tuple[int, ...]

    @property
    def num_tokens(self) -> int:
        """Tokens of the student's pass."""
        return len(self.sample.token_ids)


class SdpoOptions(Section):
    """Self-distillation from the verifier's messages (``rollout.feedback``)."""

    weight: PositiveFloat = 1.0
    """weight of the mean divergence per token"""
    alpha: Fraction = 0.5
    """interpolates between KL(teacher to student) at 0 and KL(student to teacher) at 1"""
    top_tokens: Positive = 100
    """how many of the student's likeliest tokens are compared; the others are merged into one"""
    ratio_cap: PositiveFloat = 2.0
    """bound of the policy's probability of a token over the sampler's"""
    teacher_rate: Fraction = 0.05
    """how far the teacher moves towards the policy per update"""
    max_pairs: Positive = 64
    """the most failed attempts per step"""


class Sdpo(Experiment):
    """On failed attempts the policy is drawn to the answer of a slow copy of itself that has read
    the verifier's message."""

    def __init__(self, config: Config, *, options: SdpoOptions) -> None:
        self.options = options

    def against(self, config: Config) -> str:
        """See ``Experiment.against``."""
        if config.learner.shard != "none":
            return 'has a teacher with whole weights; set learner.shard = "none"'
        return ""

    def make_term(self, model: Any, config: Config) -> SelfDistiller:
        """See ``Experiment.make_term``."""
        return SelfDistiller(model, self.options, temperature=config.sampling.temperature)

    def list_items(
        self, session: Session, seen: Sequence[Group], version: int
    ) -> list[TeacherPair]:
        """Failed attempts of all groups, with a teacher's prompts."""
        return build_pairs(
            session.policy,
            [rollout for group in seen for rollout in group.rollouts],
            session.config.rollout,
            max_pairs=self.options.max_pairs,
            max_tokens=session.policy.model.config.max_position_embeddings,
            seed=derive_seed(session.config.seed, "distill", version),
        )


def build_pairs(
    policy: Policy,
    rollouts: Sequence[Rollout],
    settings: RolloutConfig,
    *,
    max_pairs: int,
    max_tokens: int,
    seed: int,
) -> list[TeacherPair]:
    """At most ``max_pairs`` pairs of first attempts that failed with a message, drawn under
    ``seed``; those whose teacher would read more than ``max_tokens`` tokens are left out."""
    built = (_build_pair(policy, rollout, settings) for rollout in rollouts)
    pairs = [
        pair
        for pair in built
        if pair and len(pair.teacher_prompt) + len(pair.sample.token_ids) <= max_tokens
    ]
    return pairs if len(pairs) <= max_pairs else random.Random(seed).sample(pairs, max_pairs)


def _build_pair(policy: Policy, rollout: Rollout, settings: RolloutConfig) -> TeacherPair | None:
    turn = rollout.turns[0]
    if turn.candidate is None or turn.verdict is None or turn.verdict.proved:
        return None
    if not turn.verdict.status.judged or not turn.verdict.diagnostics:
        return None
    prompt = with_hint(policy.prompt(rollout.problem), rollout.hint)
    read = policy.resume(prompt, [Exchange(turn.completion, tell(turn, policy, settings))])
    [sample] = build_rollout_samples(replace(rollout, turns=(turn,)), [0.0])
    return TeacherPair(sample, read.token_ids)


class SelfDistiller:
    """A teacher that follows the policy; as much memory again as the weights take."""

    def __init__(self, model: Any, settings: SdpoOptions, *, temperature: float) -> None:
        self.settings = settings
        self.temperature = temperature
        # In float32 whatever the model is: a slow average moves by less than bfloat16 can hold.
        self.teacher = freeze_copy(model).float()

    def backward(
        self,
        model: Any,
        items: Sequence[TeacherPair],
        *,
        mine: Sequence[TeacherPair],
        max_tokens: int,
    ) -> dict[str, float]:
        """See ``LossTerm.backward``: the gradient of ``weight`` times the mean divergence per
        token, ``distill_loss``. Batches hold at most ``max_tokens`` tokens of the student's."""
        num_tokens = max(1, sum(sum(pair.sample.loss_mask) for pair in items))
        taught = {id(pair.sample): PackedRow((_teach(pair),)) for pair in mine}
        total = 0.0
        for batch in batch_rows([PackedRow((pair.sample,)) for pair in mine], max_tokens):
            samples = samples_of(batch)
            logits, targets = packed_logits(model, batch, temperature=self.temperature)
            with torch.no_grad():
                teachers = [taught[id(sample)] for sample in samples]
                wanted, _ = packed_logits(self.teacher, teachers, temperature=self.temperature)
            logprobs = torch.log_softmax(logits.detach(), -1).gather(-1, targets[:, None])
            sampled = new_values(samples, "logprobs").to(logits)
            ratio = (logprobs.squeeze(-1) - sampled).exp()
            per_token = distillation_loss(logits, wanted, ratio, self.settings)
            loss = (per_token * new_values(samples, "loss_mask").to(logits)).sum() / num_tokens
            (self.settings.weight * loss).backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        return {"distill_loss": total, "loss": self.settings.weight * total}

    def follow(self, model: Any) -> None:
        """Move the teacher a little towards the policy; called after each update."""
        follow(self.teacher, model, self.settings.teacher_rate)

    def state_dict(self) -> dict[str, Any]:
        weights: dict[str, Any] = self.teacher.state_dict()
        return weights

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.teacher.load_state_dict(state)


def packed_logits(
    model: Any, rows: Sequence[PackedRow], *, temperature: float
) -> tuple[Tensor, Tensor]:
    """Logits over the vocabulary, divided by ``temperature``, of shape (tokens, vocabulary), and
    the tokens themselves, of shape (tokens,), in the order of ``packed_logprobs``."""
    hidden, targets = read_rows(model, rows)
    logits = head_logits(model, hidden)
    return logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature, targets


def _teach(pair: TeacherPair) -> TrainingSample:
    """The same tokens after the teacher's prompt."""
    sample, prompt = pair.sample, pair.teacher_prompt
    cut, before = sample.prompt_length, len(prompt)
    return replace(
        sample,
        prompt_length=before,
        token_ids=prompt + sample.token_ids[cut:],
        loss_mask=(0,) * before + sample.loss_mask[cut:],
        logprobs=(0.0,) * before + sample.logprobs[cut:],
        advantages=(0.0,) * before + sample.advantages[cut:],
    )


def distillation_loss(
    student_logits: Tensor, teacher_logits: Tensor, ratio: Tensor, settings: SdpoOptions
) -> Tensor:
    """The divergence of student and teacher per token, times min(ratio, ``ratio_cap``), of shape
    (tokens,).

    Logits are (tokens, vocabulary); ``ratio`` is (tokens,), the policy's probability of the token
    over the sampler's. No gradient flows through the teacher or the ratio. The divergence is over
    the student's ``top_tokens`` likeliest tokens and one bucket for all others.
    """
    student = torch.log_softmax(student_logits, -1)
    teacher = torch.log_softmax(teacher_logits.detach(), -1)
    top = student.detach().topk(min(settings.top_tokens, student.shape[-1]), -1).indices
    picked = (pick_with_tail(student, top), pick_with_tail(teacher, top))
    return generalised_js(*picked, settings.alpha) * ratio.detach().clamp(max=settings.ratio_cap)


def generalised_js(student: Tensor, teacher: Tensor, alpha: float) -> Tensor:
    """(1 - alpha) KL(student || m) + alpha KL(teacher || m) with m = (1 - alpha) student + alpha
    teacher, over the last dimension of log-probabilities. At the ends, where that is 0, its limits
    in slope: KL(teacher || student) for alpha 0 and KL(student || teacher) for alpha 1. Raises
    ``ValueError`` if alpha is outside [0, 1]."""
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
def follow(teacher: torch.nn.Module, student: torch.nn.Module, rate: float) -> None:
    """Move the teacher's weights by ``rate`` of the way to the student's."""
    for mine, theirs in zip(teacher.parameters(), student.parameters(), strict=True):
        mine.lerp_(theirs.to(mine.dtype), rate)


def _kl(p: Tensor, q: Tensor) -> Tensor:
    return (p.exp() * (p - q)).sum(-1)
