"""Features of a prefix: the policy's own hidden states, and the likelihood that it gives.

Flows in: a policy, problems with prefixes. Flows out: a row of features for each. The policy's
weights are not trained. Not handled here: what is fitted to the features (``fit``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import torch
from torch import Tensor

from proverrl.errors import UsageError
from proverrl.lang.records import Prefix
from proverrl.policy.decoding import LOWEST
from proverrl.policy.engines import find_context
from proverrl.policy.transformers import TransformersPolicy
from proverrl.problems.prompt import render_opening
from proverrl.search.proposals import make_extend, render_prefix
from proverrl.types import Problem

FEATURES = 2
"""The version of what ``compute_features`` computes."""

_MAX_LOGITS = 2**24


def check_layers(policy: TransformersPolicy, layers: int) -> None:
    """Raise ``UsageError`` if the model has fewer than ``layers`` layers."""
    depth = policy.model.config.get_text_config(decoder=True).num_hidden_layers
    if layers > depth:
        raise UsageError(f"layers is {layers} and the policy has {depth} layers; lower it")


def count_features(policy: TransformersPolicy, layers: int) -> int:
    """The length of a row of ``compute_features``."""
    return int(layers * 3 * policy.model.config.get_text_config(decoder=True).hidden_size + 4)


def compute_features(
    policy: TransformersPolicy,
    rows: Sequence[tuple[Problem, Prefix]],
    layers: int = 1,
    batch_size: int = 64,
) -> Tensor:
    """Features of prompt and prefix, shape (rows, layers x 3 x hidden size + 4), in 32 bits,
    without gradients.

    A prefix is shown as a search shows it to the policy, in Lean with its state in a comment, which
    is left out where the model's context has no room for it. For each of the last layers, the last
    one first: the state of the last token, the mean of all, the mean of the prefix's own. Then of
    the prefix's own tokens the log-probabilities' sum, mean and minimum, and the entropy of what
    comes next. What an empty prefix lacks is 0. Raises ``UsageError`` if the model has fewer than
    ``layers`` layers.
    """
    check_layers(policy, layers)
    extend, context = make_extend(policy), find_context(policy)
    tokens: list[tuple[int, ...]] = []
    owned: list[tuple[int, int]] = []
    for problem, prefix in rows:
        prompt = policy.prompt(problem)
        opening, comment = render_prefix(policy, problem, prefix)
        whole = extend(prompt, opening).token_ids
        if comment and len(whole) > context:
            opening, comment = render_prefix(policy, problem, Prefix(prefix.text, ""))
            whole = extend(prompt, opening).token_ids
        end = len(whole)
        if comment:
            bare = extend(prompt, render_opening(problem, prefix.text, policy.layout)).token_ids
            # The policy did not write the comment, and how likely it finds it says nothing. A token
            # at its beginning may be of both.
            same = (one == other for one, other in zip(bare, whole, strict=False))
            end = sum(1 for _ in takewhile(bool, same))
        owned.append((len(prompt.token_ids), end))
        tokens.append(whole)
    order = sorted(range(len(tokens)), key=lambda i: len(tokens[i]))
    found: list[Tensor] = [torch.empty(0)] * len(tokens)
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        features = _embed(policy, [tokens[i] for i in chosen], [owned[i] for i in chosen], layers)
        for index, feature in zip(chosen, features, strict=True):
            found[index] = feature
    return torch.stack(found)


@torch.inference_mode()
def _embed(
    policy: TransformersPolicy,
    rows: Sequence[Sequence[int]],
    owned: Sequence[tuple[int, int]],
    layers: int,
) -> Tensor:
    device = policy.device
    lengths = torch.tensor([len(row) for row in rows], device=device)
    first, end = torch.tensor(owned, device=device).T
    longest = int(lengths.max())
    padded = [[*row, *[policy.end_id] * (longest - len(row))] for row in rows]
    ids = torch.tensor(padded, device=device)
    places = torch.arange(longest, device=device)
    mask = places < lengths[:, None]
    own = (places >= first[:, None]) & (places < end[:, None])
    policy.model.eval()
    out = policy.model(
        input_ids=ids,
        attention_mask=mask.long(),
        output_hidden_states=True,
        logits_to_keep=1,
    )
    numbers = torch.arange(len(rows), device=device)
    parts = []
    for layer in range(1, layers + 1):
        states = out.hidden_states[-layer].float()
        parts.append(states[numbers, lengths - 1])
        for chosen in (mask, own):
            count = chosen.sum(1).clamp(min=1)[:, None]
            parts.append((states * chosen[..., None]).sum(1) / count)
    parts.append(_likelihoods(policy, out.hidden_states[-1], ids, own, lengths))
    return torch.cat(parts, dim=1).cpu()


def _likelihoods(
    policy: TransformersPolicy, states: Tensor, ids: Tensor, own: Tensor, lengths: Tensor
) -> Tensor:
    """Sum, mean and minimum of the log-probabilities of a row's ``own`` tokens, and the entropy
    after its last one; shape (rows, 4)."""
    output = policy.model.get_output_embeddings()
    logprobs = torch.zeros(own.shape, device=own.device)
    row, place = own.nonzero(as_tuple=True)
    size = max(1, _MAX_LOGITS // int(output.weight.shape[0]))
    for start in range(0, len(row), size):
        r, p = row[start : start + size], place[start : start + size]
        spread = torch.log_softmax(output(states[r, p - 1]).float(), -1)
        logprobs[r, p] = spread.gather(-1, ids[r, p][:, None]).squeeze(-1)
    total = logprobs.sum(1)
    numbers = torch.arange(len(lengths), device=own.device)
    last = torch.log_softmax(output(states[numbers, lengths - 1]).float(), -1)
    entropy = measure_entropy(last)
    mean = total / own.sum(1).clamp(min=1)
    return torch.stack([total, mean, logprobs.amin(1), entropy], dim=1)


def measure_entropy(logprobs: Tensor) -> Tensor:
    """The entropies, in nats, of distributions over the last dimension, with 0 log 0 = 0."""
    return -(logprobs.exp() * logprobs.clamp(min=LOWEST)).sum(-1)
