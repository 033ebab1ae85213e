"""The optimizer over training samples.

Flows in: ``TrainingSample`` records. Flows out: updated weights of the policy's model and the
metrics of the step. Samples that share a prompt are packed into one row (the prompt once, then
every completion, each seeing the prompt and itself), which saves most of the tokens of a group.
Not handled here: which samples to learn from, and generation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from proverrl.config import LearnerConfig
from proverrl.errors import ProverRLError
from proverrl.losses import LOSSES, LossInputs
from proverrl.optimizers import build_optimizers
from proverrl.types import TrainingSample


@dataclass(frozen=True, slots=True)
class PackedRow:
    """Samples with one prompt, laid end to end: the prompt, then each sample's other tokens."""

    samples: tuple[TrainingSample, ...]

    @property
    def prompt(self) -> tuple[int, ...]:
        first = self.samples[0]
        return first.token_ids[: first.prompt_length]

    @property
    def num_tokens(self) -> int:
        new = sum(len(s.token_ids) - s.prompt_length for s in self.samples)
        return len(self.prompt) + new


class TorchLearner:
    """Updates over packed samples; ``model`` is shared with the policy that samples from it."""

    def __init__(
        self, model: Any, config: LearnerConfig, *, temperature: float, version: int = 0
    ) -> None:
        self.model = model
        self.config = config
        self.temperature = temperature
        self.version = version
        self.optimizers = build_optimizers(
            config.optimizer,
            model,
            learning_rate=config.learning_rate,
            weight_decay=config.weight_decay,
        )

    def step(
        self,
        samples: Sequence[TrainingSample],
        replay: Callable[[], Sequence[TrainingSample]] = tuple,
    ) -> dict[str, float]:
        """``epochs`` passes over the samples, ``groups_per_update`` prompts an update; returns
        metrics averaged over updates (and over tokens where they are per token).

        ``replay()`` is asked once an update for proofs to imitate as well: their mean negative
        log-likelihood times ``replay_weight`` is added to the loss (VAPO, Yue et al. 2025,
        arXiv 2504.05118, on fresh positives; here on all that were found).

        Raises:
            ProverRLError: a loss is not finite; that update is not made.
        """
        rows = pack_rows(samples)
        size = self.config.groups_per_update or len(rows)
        parts = [rows[i : i + size] for i in range(0, len(rows), size)]
        totals: dict[str, float] = {}
        for _ in range(self.config.epochs):
            for part in parts:
                for name, value in self._update(part, pack_rows(replay())).items():
                    totals[name] = totals.get(name, 0.0) + value
        num_updates = self.config.epochs * len(parts)
        return {name: value / num_updates for name, value in totals.items()}

    def _update(self, rows: Sequence[PackedRow], replay: Sequence[PackedRow]) -> dict[str, float]:
        samples = [sample for row in rows for sample in row.samples]
        batch_tokens = sum(sum(sample.loss_mask) for sample in samples)
        values = {"loss": 0.0}
        self.model.zero_grad(set_to_none=True)
        for batch in batch_rows(rows, self.config.micro_batch_tokens):
            loss, metrics = self._backward(batch, batch_tokens, len(samples))
            values["loss"] += loss
            for name, total in metrics.items():
                values[name] = values.get(name, 0.0) + float(total) / batch_tokens
        if replay:
            values["replay_loss"] = self._imitate(replay)
            values["loss"] += self.config.replay_weight * values["replay_loss"]
        if not math.isfinite(values["loss"]):
            raise ProverRLError(f"the loss is {values['loss']} at version {self.version}; stopping")
        values["grad_norm"] = float(
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.max_grad_norm)
        )
        for optimizer in self.optimizers:
            optimizer.step()
        self.version += 1
        return values

    def _imitate(self, rows: Sequence[PackedRow]) -> float:
        num_tokens = sum(sum(s.loss_mask) for row in rows for s in row.samples)
        total = 0.0
        for batch in batch_rows(rows, self.config.micro_batch_tokens):
            logprobs, _ = packed_logprobs(self.model, batch, temperature=self.temperature)
            loss = -logprobs.sum() / num_tokens
            (self.config.replay_weight * loss).backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        return total

    def save(self, path: Path) -> None:
        """Write the optimizer's state; the weights are saved by the policy."""
        states = [optimizer.state_dict() for optimizer in self.optimizers]
        torch.save({"optimizers": states, "version": self.version}, path)

    def load(self, path: Path) -> None:
        """Read what ``save`` wrote."""
        state = torch.load(path, weights_only=True)
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.version = state["version"]

    def _backward(
        self, rows: Sequence[PackedRow], batch_tokens: int, batch_samples: int
    ) -> tuple[float, dict[str, Tensor]]:
        samples = [sample for row in rows for sample in row.samples]
        device = next(self.model.parameters()).device
        logprobs, entropy = packed_logprobs(self.model, rows, temperature=self.temperature)
        new = [slice(s.prompt_length, None) for s in samples]
        keep = _flatten([s.loss_mask[part] for s, part in zip(samples, new, strict=True)]).bool()
        old = _flatten([s.logprobs[part] for s, part in zip(samples, new, strict=True)])
        advantages = _flatten([s.advantages[part] for s, part in zip(samples, new, strict=True)])
        index = _flatten(
            [(i,) * (len(s.token_ids) - s.prompt_length) for i, s in enumerate(samples)]
        ).long()
        keep = keep.to(device)
        inputs = LossInputs(
            logprobs=logprobs[keep],
            old_logprobs=old.to(device)[keep],
            advantages=advantages.to(device)[keep],
            sample=index.to(device)[keep],
            batch_tokens=batch_tokens,
            batch_samples=batch_samples,
            clip_low=self.config.clip_low,
            clip_high=self.config.clip_high,
        )
        loss, metrics = LOSSES[self.config.loss](inputs)
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach()), metrics | {"entropy": entropy[keep].sum().detach()}


def pack_rows(samples: Sequence[TrainingSample]) -> list[PackedRow]:
    """Put samples with the same prompt into one row, in order of first occurrence."""
    by_prompt: dict[tuple[int, ...], list[TrainingSample]] = {}
    for sample in samples:
        by_prompt.setdefault(sample.token_ids[: sample.prompt_length], []).append(sample)
    return [PackedRow(tuple(group)) for group in by_prompt.values()]


def batch_rows(rows: Sequence[PackedRow], max_tokens: int) -> Iterator[list[PackedRow]]:
    """Batches of rows of like length with at most ``max_tokens`` padded tokens each (one row
    that is longer goes alone)."""
    batch: list[PackedRow] = []
    for row in sorted(rows, key=lambda row: row.num_tokens):
        # Rows come sorted, so the newest is the longest and sets the padded size.
        if batch and row.num_tokens * (len(batch) + 1) > max_tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def packed_logprobs(
    model: Any, rows: Sequence[PackedRow], *, temperature: float
) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropies of every completion token, both of shape (tokens,).

    Tokens come in the order of rows, then samples, then positions. The model must accept a
    four-dimensional attention mask (every transformers decoder with sdpa or eager attention).
    """
    device = next(model.parameters()).device
    ids, positions, allowed, sources, targets = _layout(rows)
    hidden = model.get_decoder()(
        input_ids=ids.to(device),
        position_ids=positions.to(device),
        attention_mask=allowed.to(device)[:, None],
        use_cache=False,
    ).last_hidden_state
    picked = hidden.reshape(-1, hidden.shape[-1])[sources.to(device)]
    logits = model.get_output_embeddings()(picked).float() / temperature
    logprobs = torch.log_softmax(logits, dim=-1)
    entropy = -(logprobs.detach().exp() * logprobs.detach()).sum(-1)
    return logprobs.gather(-1, targets.to(device)[:, None]).squeeze(-1), entropy


def _layout(rows: Sequence[PackedRow]) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Ids, positions, attention mask, and per completion token its source index and target."""
    width = max(row.num_tokens for row in rows)
    ids = torch.zeros((len(rows), width), dtype=torch.long)
    positions = torch.zeros((len(rows), width), dtype=torch.long)
    # A padded position attends to itself, so that no softmax is over nothing.
    allowed = torch.eye(width, dtype=torch.bool).repeat(len(rows), 1, 1)
    sources: list[int] = []
    targets: list[int] = []
    for r, row in enumerate(rows):
        p = len(row.prompt)
        ids[r, :p] = torch.tensor(row.prompt)
        positions[r, :p] = torch.arange(p)
        allowed[r, :p, :p] = torch.ones(p, p, dtype=torch.bool).tril()
        start = p
        for sample in row.samples:
            new = sample.token_ids[p:]
            end = start + len(new)
            ids[r, start:end] = torch.tensor(new)
            positions[r, start:end] = torch.arange(p, p + len(new))
            allowed[r, start:end, :p] = True
            causal = torch.ones(len(new), len(new), dtype=torch.bool).tril()
            allowed[r, start:end, start:end] = causal
            base = r * width
            # The prompt's last position predicts each completion's first token.
            sources += [base + p - 1, *range(base + start, base + end - 1)]
            targets += new
            start = end
    return ids, positions, allowed, torch.tensor(sources), torch.tensor(targets)


def _flatten(parts: Sequence[Sequence[float]]) -> Tensor:
    return torch.tensor([value for part in parts for value in part])
