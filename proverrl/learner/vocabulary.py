"""The last layer: log-probabilities of tokens without all logits at once.

Flows in: hidden states, and the tokens that follow them. Flows out: log-probabilities and entropies
per token, with gradients. Logits of shape (tokens, vocabulary) are what a training step holds most
of. Here they exist for one chunk of tokens at a time: the backward pass computes a chunk's logits
again and turns them into their own gradient in place (the idea of Liger Kernel, Hsu et al. 2024,
arXiv 2410.10989). Not handled here: which tokens are scored, and losses that need whole
distributions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from proverrl.errors import UsageError
from proverrl.policy.decoding import LOWEST

CHUNK_BYTES = 2**28
"""Logits that exist at once, in float32; tokens of more than that are computed in chunks."""
_BLOCKS = 16
"""A block is this part of what may exist at once: its logits are normalised together, with two
copies in float32."""


def token_logprobs(
    model: Any,
    hidden: Tensor,
    targets: Tensor,
    *,
    temperature: float = 1.0,
    entropy_grad: bool = False,
) -> tuple[Tensor, Tensor]:
    """Log-probabilities of ``targets`` (tokens,) after the decoder's ``hidden`` (tokens, hidden
    size), and the entropies (nats) of their distributions, both of shape (tokens,) and at least
    float32: a softmax over a vocabulary needs more bits than bfloat16 has. The logits are divided
    by ``temperature``. The entropies carry a gradient only under ``entropy_grad``."""

    def score(part: Tensor, tokens: Tensor) -> Any:
        logits = head_logits(model, part)
        return _Scores.apply(logits, tokens, temperature, entropy_grad)  # type: ignore[no-untyped-call]

    size = max(1, CHUNK_BYTES // (4 * model.config.get_text_config(decoder=True).vocab_size))
    chunks = zip(torch.split(hidden, size), torch.split(targets, size), strict=True)
    if len(targets) <= size or not torch.is_grad_enabled():
        parts = [score(*chunk) for chunk in chunks]
    else:
        parts = [checkpoint(score, *chunk, use_reentrant=False) for chunk in chunks]
    logprobs, entropies = zip(*parts, strict=True)
    return torch.cat(logprobs), torch.cat(entropies)


def head_logits(model: Any, hidden: Tensor) -> Tensor:
    """The model's logits (tokens, vocabulary) after its decoder's ``hidden`` (tokens, hidden
    size), with what Gemma 2 (a cap), Cohere and Granite (factors) do to them."""
    config = model.config.get_text_config(decoder=True)
    logits: Tensor = model.get_output_embeddings()(hidden)
    if cap := getattr(config, "final_logit_softcapping", None):
        logits = torch.tanh(logits / cap) * cap
    if scale := getattr(config, "logit_scale", None):
        logits = logits * scale
    if divisor := getattr(config, "logits_scaling", None):
        logits = logits / divisor
    return logits


class _Scores(torch.autograd.Function):
    """Logits (tokens, vocabulary) and tokens to log-probabilities and entropies. The backward pass
    overwrites the logits with their gradient, so that it can run once."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, targets: Tensor, temperature: float, entropy_grad: bool
    ) -> tuple[Tensor, Tensor]:
        wide = torch.promote_types(logits.dtype, torch.float32)
        logprobs, entropy, norms = logits.new_empty((3, len(targets)), dtype=wide)
        for block in _blocks(logits):
            values = logits[block].to(wide, copy=True).div_(temperature)
            norms[block] = values.logsumexp(-1)
            values -= norms[block, None]
            logprobs[block] = values.gather(-1, targets[block, None]).squeeze(-1)
            values.clamp_(min=LOWEST)
            entropy[block] = -values.mul_(values.exp()).sum(-1)
        ctx.save_for_backward(logits, targets, norms, entropy)
        ctx.temperature, ctx.entropy_grad = temperature, entropy_grad
        if not entropy_grad:
            ctx.mark_non_differentiable(entropy)
        return logprobs, entropy

    @staticmethod
    def backward(
        ctx: Any, d_logprobs: Tensor, d_entropy: Tensor
    ) -> tuple[Tensor, None, None, None]:
        logits, targets, norms, entropy = ctx.saved_tensors
        for block in _blocks(logits):
            values = logits[block].to(norms.dtype, copy=True).div_(ctx.temperature)
            values.sub_(norms[block, None]).clamp_(min=LOWEST)
            # d log p_t / d x_j = [j = t] - p_j, and d H / d x_j = -p_j (log p_j + H).
            factor = d_logprobs[block, None].expand(-1, 1)
            if ctx.entropy_grad:
                factor = factor + d_entropy[block, None] * (values + entropy[block, None])
            gradient = values.exp_().mul_(-factor)
            places = targets[block, None]
            gradient.scatter_add_(-1, places, d_logprobs[block, None])
            logits[block] = gradient.div_(ctx.temperature)
        return logits, None, None, None


def _blocks(logits: Tensor) -> Iterator[slice]:
    num_tokens, num_words = logits.shape
    size = max(1, CHUNK_BYTES // (4 * _BLOCKS * num_words))
    for start in range(0, num_tokens, size):
        yield slice(start, start + size)


@torch.no_grad()
def check_head(model: Any, tolerance: float) -> None:
    """Raise ``UsageError`` if the model does more to its logits than ``head_logits``: what learns
    would have another distribution than what samples. ``tolerance`` is the largest difference
    between two ways to the same logits, as a share of the largest."""
    ids = torch.tensor([[0, 1]], device=next(model.parameters()).device)
    own = model(input_ids=ids, use_cache=False).logits
    hidden = model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state
    difference = float((head_logits(model, hidden) - own).abs().max())
    if difference > tolerance * float(own.abs().max()):
        raise UsageError(
            f"{type(model).__name__} changes its logits after the last layer, by up to "
            f"{difference:.2g}, in a way that training does not know; use another model"
        )
