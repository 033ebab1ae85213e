"""Log-probabilities in chunks: their numbers, their gradients, and what they hold at once."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, CohereConfig, Gemma2Config

from proverrl.errors import UsageError
from proverrl.learner import vocabulary
from proverrl.learner.vocabulary import check_head, head_logits, token_logprobs
from tests.tiny_model import tiny_model
from tests.tolerance import FLOAT32, FLOAT64


def make_head(vocab_size: int, hidden_size: int, dtype: torch.dtype = torch.float64) -> Any:
    """What ``token_logprobs`` needs of a model: a last layer, and how many words it has."""
    torch.manual_seed(0)
    head = torch.nn.Linear(hidden_size, vocab_size, bias=False, dtype=dtype)
    config = SimpleNamespace(vocab_size=vocab_size)
    return SimpleNamespace(
        get_output_embeddings=lambda: head,
        config=SimpleNamespace(get_text_config=lambda decoder: config),
    )


@pytest.mark.parametrize("entropy_grad", [False, True])
@pytest.mark.parametrize("chunk_tokens", [3, 100])
def test_numbers_and_gradients_are_those_of_all_logits(
    monkeypatch: pytest.MonkeyPatch, chunk_tokens: int, entropy_grad: bool
) -> None:
    monkeypatch.setattr(vocabulary, "CHUNK_BYTES", 4 * 50 * chunk_tokens)
    model = make_head(50, 6)
    weight = model.get_output_embeddings().weight
    hidden = torch.randn(10, 6, dtype=torch.float64, requires_grad=True)
    targets = torch.arange(10) * 3
    up, across = torch.linspace(-1, 1, 10).double(), torch.linspace(2, -3, 10).double()

    def gradients(logprobs: torch.Tensor, entropy: torch.Tensor) -> list[torch.Tensor]:
        loss = (up * logprobs).sum() + (across * entropy).sum() * entropy_grad
        return list(torch.autograd.grad(loss, [hidden, weight]))

    logits = hidden @ weight.T / 0.7
    rows = logits.log_softmax(-1)
    entropy = -(rows.exp() * rows).sum(-1)
    picked = rows.gather(-1, targets[:, None]).squeeze(-1)
    found = token_logprobs(model, hidden, targets, temperature=0.7, entropy_grad=entropy_grad)
    assert torch.allclose(found[0], picked, rtol=0, atol=FLOAT64)
    assert torch.allclose(found[1], entropy, rtol=0, atol=FLOAT64)
    assert found[1].requires_grad == entropy_grad
    wanted = gradients(picked, entropy if entropy_grad else entropy.detach())
    for mine, theirs in zip(gradients(*found), wanted, strict=True):
        assert float(theirs.abs().max()) > 0.1
        assert torch.allclose(mine, theirs, rtol=0, atol=FLOAT64)


def test_two_logits_by_hand() -> None:
    # Logits 0 and log 3: probabilities 1/4 and 3/4, of which the second token is taken. The
    # gradient of its log-probability is (-1/4, 1/4) to the logits, and the hidden state is (1).
    model = make_head(2, 1)
    weight = model.get_output_embeddings().weight
    weight.data = torch.tensor([[0.0], [math.log(3.0)]], dtype=torch.float64)
    found, entropy = token_logprobs(model, torch.ones(1, 1).double(), torch.tensor([1]))
    found.sum().backward()  # type: ignore[no-untyped-call]
    assert found.item() == pytest.approx(math.log(0.75))
    assert entropy.item() == pytest.approx(-0.25 * math.log(0.25) - 0.75 * math.log(0.75))
    assert weight.grad.flatten().tolist() == pytest.approx([-0.25, 0.25])


def peak_bytes(work: Any) -> int:
    """The most bytes of tensors that ``work`` holds at once beside those that were there before."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        work()
    held = most = 0
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most


def test_what_is_held_at_a_vocabulary_of_152_thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    words, size, tokens = 152_000, 4, 48
    monkeypatch.setattr(vocabulary, "CHUNK_BYTES", 4 * words * 16)
    model = make_head(words, size, torch.float32)
    hidden = torch.randn(tokens, size, requires_grad=True)
    targets = torch.arange(tokens)

    def step() -> None:
        logprobs, _ = token_logprobs(model, hidden, targets)
        logprobs.sum().backward()  # type: ignore[no-untyped-call]

    weights = 4 * words * size
    # The weights' gradient, what a chunk adds to it, and the logits of one chunk.
    assert peak_bytes(step) - 2 * weights < 1.3 * 4 * words * 16


def test_a_model_that_changes_its_logits_is_scored_as_it_samples() -> None:
    sizes: dict[str, Any] = {
        "vocab_size": 20,
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 4,
        "intermediate_size": 8,
    }
    torch.manual_seed(0)
    for config in (
        Gemma2Config(**sizes, final_logit_softcapping=0.01),
        CohereConfig(**sizes, logit_scale=0.5),
    ):
        model = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
        model.train(False)
        check_head(model, FLOAT32)
        ids = torch.tensor([[3, 1, 4]])
        with torch.no_grad():
            hidden = model.get_decoder()(input_ids=ids).last_hidden_state
            assert torch.allclose(head_logits(model, hidden), model(input_ids=ids).logits)
            bare = model.get_output_embeddings()(hidden)
        assert not torch.allclose(bare, head_logits(model, hidden), rtol=0.01)


def test_a_model_that_changes_them_in_another_way_is_refused() -> None:
    model = tiny_model()
    check_head(model, FLOAT32)
    model.register_forward_hook(lambda _, __, out: setattr(out, "logits", out.logits * 2))
    with pytest.raises(UsageError, match="LlamaForCausalLM changes its logits after the last"):
        check_head(model, FLOAT32)


def test_a_token_without_probability_adds_nothing() -> None:
    # 1/2, 1/4, 1/4 and 0.
    logits = torch.tensor([[2.0, 1.0, 1.0, 0.0]]).log().requires_grad_()
    scored = vocabulary._Scores.apply(logits.clone(), torch.tensor([0]), 1.0, True)  # type: ignore[no-untyped-call]
    logprobs, entropy = scored
    bit = math.log(2)
    assert float(logprobs.detach()) == pytest.approx(-bit)
    assert float(entropy.detach()) == pytest.approx(1.5 * bit)
    (of_entropy,) = torch.autograd.grad(entropy.sum(), logits)
    # -p (log p + H).
    assert of_entropy[0].tolist() == pytest.approx([-bit / 4, bit / 8, bit / 8, 0.0])
    scored = vocabulary._Scores.apply(logits.clone(), torch.tensor([0]), 1.0, True)  # type: ignore[no-untyped-call]
    (of_logprobs,) = torch.autograd.grad(scored[0].sum(), logits)
    assert of_logprobs[0].tolist() == pytest.approx([0.5, -0.25, -0.25, 0.0])
