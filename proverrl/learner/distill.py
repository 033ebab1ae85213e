"""Self-distillation from the verifier's messages (SDPO).

Source: Huebotter et al. 2026, "Reinforcement Learning via Self-Distillation", arXiv 2601.20802.
Flows in: failed attempts with the prompt of a teacher that has read the feedback on them. Flows
out: gradients that draw the policy, on its own tokens, to what the teacher would have written. The
teacher is the policy itself, as a slow average of its weights. Not handled here: which attempts
(``proverrl.rollout.teaching``); the divergence (``proverrl.losses.self_distillation``).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from proverrl.config import DistillConfig
from proverrl.learner.packing import PackedRow, batch_rows, packed_logits
from proverrl.losses.self_distillation import distillation_loss, follow
from proverrl.rollout.teaching import TeacherPair
from proverrl.rollout.training_sample import TrainingSample


class SelfDistiller:
    """A teacher that follows the policy; as much memory again as the weights take."""

    def __init__(self, model: Any, settings: DistillConfig, *, temperature: float) -> None:
        self.settings = settings
        self.temperature = temperature
        # In float32 whatever the model is: a slow average moves by less than bfloat16 can hold.
        self.teacher = freeze_copy(model).float()

    def backward(
        self,
        model: Any,
        pairs: Sequence[TeacherPair],
        *,
        max_tokens: int,
        mine: Sequence[TeacherPair] | None = None,
    ) -> float:
        """Add the gradient of ``weight`` times the mean divergence a token to the model's; returns
        the mean. Batches hold at most ``max_tokens`` tokens of the student's. With ``mine``
        only the part of these pairs in that mean."""
        num_tokens = max(1, sum(sum(pair.sample.loss_mask) for pair in pairs))
        pairs = pairs if mine is None else mine
        taught = {id(pair.sample): _teach(pair) for pair in pairs}
        rows = [PackedRow((pair.sample,)) for pair in pairs]
        total = 0.0
        for batch in batch_rows(rows, max_tokens):
            logits, targets = packed_logits(model, batch, temperature=self.temperature)
            with torch.no_grad():
                teachers = [PackedRow((taught[id(row.samples[0])],)) for row in batch]
                wanted, _ = packed_logits(self.teacher, teachers, temperature=self.temperature)
            logprobs = torch.log_softmax(logits.detach(), -1).gather(-1, targets[:, None])
            sampled = _flatten(batch, "logprobs").to(logits)
            per_token = distillation_loss(
                logits,
                wanted,
                (logprobs.squeeze(-1) - sampled).exp(),
                alpha=self.settings.alpha,
                top_tokens=self.settings.top_tokens,
                ratio_cap=self.settings.ratio_cap,
            )
            loss = (per_token * _flatten(batch, "loss_mask").to(logits)).sum() / num_tokens
            (self.settings.weight * loss).backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        return total

    def follow(self, model: Any) -> None:
        """Move the teacher a little towards the policy; called after each update."""
        follow(self.teacher, model, self.settings.teacher_rate)

    def state_dict(self) -> dict[str, Any]:
        """The teacher's weights."""
        weights: dict[str, Any] = self.teacher.state_dict()
        return weights

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up the teacher's weights."""
        self.teacher.load_state_dict(state)


def freeze_copy(model: Any) -> Any:
    """A copy of the model as it is now that no optimizer changes."""
    frozen = copy.deepcopy(model).eval()
    frozen.requires_grad_(False)
    return frozen


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


def _flatten(rows: Sequence[PackedRow], name: str) -> torch.Tensor:
    samples = [sample for row in rows for sample in row.samples]
    return torch.tensor([value for s in samples for value in getattr(s, name)[s.prompt_length :]])
