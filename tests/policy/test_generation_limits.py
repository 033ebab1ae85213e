"""How often generation waits for the device, and how much it holds at once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import GPT2Config, GPT2LMHeadModel

from proverrl.errors import ProverRLError
from proverrl.parallel import World
from proverrl.policy.decoding import CachedRows, draw_tokens
from proverrl.policy.transformers import TransformersPolicy
from proverrl.types import Prompt, Sampling
from tests.builders import build_problem
from tests.policy.test_policy import plain_logprobs, tiny_policy
from tests.policy.test_vocabulary import peak_bytes

WAITS = {"_local_scalar_dense", "item", "is_nonzero", "equal", "nonzero", "masked_select"}
"""Operators of torch whose result the host needs before it goes on; lists come on top."""


class Waits(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts them, indexing with a mask among them."""

    num = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = func.overloadpacket.__name__
        masks = name.startswith("index") and any(
            index is not None and index.dtype == torch.bool
            for index in (args[1] if isinstance(args[1], list | tuple) else ())
        )
        self.num += masks or name in WAITS
        return func(*args, **(kwargs or {}))


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows were left each time when some were dropped."""
    found: list[int] = []
    keep = CachedRows.keep

    def count(self: CachedRows, rows: torch.Tensor) -> None:
        found.append(len(rows))
        keep(self, rows)

    monkeypatch.setattr(CachedRows, "keep", count)
    return found


def prompts_of(lengths: list[int]) -> list[Prompt]:
    return [
        Prompt(f"p{i}", "", tuple(3 + (5 * i + 7 * j) % 200 for j in range(length)))
        for i, length in enumerate(lengths)
    ]


@pytest.mark.parametrize("lengths", [[5] * 6, [3, 9, 4, 7, 5, 8]])
@pytest.mark.parametrize("stop", [(), ("zzzz",)])
def test_generation_waits_once_a_token(
    monkeypatch: pytest.MonkeyPatch, kept: list[int], lengths: list[int], stop: tuple[str, ...]
) -> None:
    policy = tiny_policy(max_rows=64)
    waits = Waits()  # type: ignore[no-untyped-call]
    to_list = torch.Tensor.tolist

    def tolist(tensor: torch.Tensor) -> Any:
        waits.num += 1
        return to_list(tensor)

    monkeypatch.setattr(torch.Tensor, "tolist", tolist)
    # Which rows go on, and the longest of them; of padded ones also where it begins, and whether it
    # is padded.
    cost = 4 if len(set(lengths)) > 1 else 2
    counts = {}
    for most in (60, 240):
        waits.num = 0
        kept.clear()
        sampling = Sampling(temperature=1.0, max_new_tokens=most, seed=4, stop=stop)
        with waits:
            written = policy.generate_shared(prompts_of(lengths), 8, sampling)
        assert max(len(c.token_ids) for group in written for c in group) == most
        assert waits.num >= most
        counts[most] = waits.num - cost * len(kept)
    # Some rows ended and were dropped, at some waits each time.
    assert kept
    assert counts[240] - counts[60] <= 180


@pytest.mark.parametrize("size", [3, 512, 1300])
def test_a_token_is_drawn_by_the_inverse_of_the_running_sum(size: int) -> None:
    logits = torch.randn(50, size, generator=torch.Generator().manual_seed(1))
    # What has no probability is never drawn, also at the end and in whole blocks.
    logits[:, -size // 3 :] = -torch.inf
    logits[10:20, :-1] = -torch.inf
    logits[10:20, -1] = 5.0
    probabilities = (logits.double() / 0.8).softmax(dim=-1)
    sums = probabilities.cumsum(-1)
    for seed in range(20):
        token, logprob = draw_tokens(logits, 0.8, torch.Generator().manual_seed(seed))
        uniform = torch.rand(
            (50, 1), dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
        )
        wanted = torch.searchsorted(sums, uniform, right=True)
        # Float32 leaves an error of some 1e-7 in a sum, within which two neighbours are both right.
        chosen = token[:, None]
        below = sums.gather(-1, chosen) - probabilities.gather(-1, chosen)
        assert ((below <= uniform + 1e-6) & (uniform <= sums.gather(-1, chosen) + 1e-6)).all()
        assert (wanted == chosen).double().mean() >= 0.98
        assert (probabilities.gather(-1, chosen) > 0).all()
        known = probabilities.gather(-1, chosen).log().squeeze(-1)
        torch.testing.assert_close(logprob.double(), known, atol=1e-5, rtol=0)


@pytest.mark.parametrize("at", [0, 511, 512, 1299])
def test_the_one_possible_token_is_drawn(at: int) -> None:
    logits = torch.full((4, 1300), -torch.inf)
    logits[:, at] = 0.0
    token, logprob = draw_tokens(logits, 1.0, torch.Generator().manual_seed(0))
    assert token.tolist() == [at] * 4
    assert logprob.tolist() == [0.0] * 4


def test_logits_that_are_not_numbers_end_the_generation() -> None:
    policy = tiny_policy()
    with torch.no_grad():
        policy.model.get_output_embeddings().weight[7] = float("nan")
    for temperature in (0.0, 1.0):
        sampling = Sampling(temperature=temperature, max_new_tokens=4, seed=0)
        with pytest.raises(ProverRLError, match=r"not numbers \(NaN\)"):
            policy.generate_shared(prompts_of([3]), 2, sampling)


def test_rows_and_cached_tokens_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = tiny_policy(max_rows=12)
    monkeypatch.setattr("proverrl.policy.transformers.MAX_CACHED_TOKENS", 200)
    begun: list[tuple[list[int], int]] = []
    repeat = CachedRows.repeat

    def note(self: CachedRows, rows: torch.Tensor) -> None:
        begun.append((self._mask.sum(1).tolist(), len(rows) // len(self._mask)))
        repeat(self, rows)

    monkeypatch.setattr(CachedRows, "repeat", note)
    sampling = Sampling(temperature=1.0, max_new_tokens=10, seed=4)
    written = policy.generate_shared(prompts_of([30, 4, 10, 5, 90, 6]), 4, sampling)
    # Of 4, 5 and 6 tokens at most 200 // 16 = 12 rows; of 10 tokens 200 // 20 = 10, which has room
    # for two prompts, of 30 then 200 // 40 = 5; of 90 two rows at a time.
    assert begun == [([4, 5, 6], 4), ([10], 4), ([30], 4), ([90], 2), ([90], 2)]
    assert [[c.prompt_ids for c in group] for group in written] == [
        [prompt.token_ids] * 4 for prompt in prompts_of([30, 4, 10, 5, 90, 6])
    ]
    begun.clear()
    policy.max_rows = 3
    monkeypatch.setattr("proverrl.policy.transformers.MAX_CACHED_TOKENS", 2**20)
    assert [len(group) for group in policy.generate_shared(prompts_of([4, 5]), 7, sampling)] == [
        7
    ] * 2
    assert begun == [([4], 3), ([4], 3), ([4], 1), ([5], 3), ([5], 3), ([5], 1)]
    # What a prompt leaves of the model's context is all that a row can come to.
    policy.max_rows = 64
    monkeypatch.setattr("proverrl.policy.transformers.MAX_CACHED_TOKENS", 2 * policy.context_tokens)
    sampling = Sampling(temperature=1.0, max_new_tokens=10_000, seed=4)
    cut = list(policy._cut_portions(prompts_of([4, 5]), 1, sampling.max_new_tokens))
    assert [tuple(piece)[:3] for piece in cut] == [(0, 1, 2), (1, 1, 2)]


@pytest.mark.parametrize("stop", [(), ("e", "0")])
def test_rows_that_end_make_room_for_further_prompts(
    monkeypatch: pytest.MonkeyPatch, stop: tuple[str, ...]
) -> None:
    policy = tiny_policy(max_rows=8)
    joined: list[int] = []
    join = CachedRows.join

    def note(self: CachedRows, other: CachedRows) -> None:
        join(self, other)
        joined.append(len(self._mask))

    monkeypatch.setattr(CachedRows, "join", note)
    sampling = Sampling(temperature=1.0, max_new_tokens=100, seed=1, stop=stop)
    prompts = prompts_of([9, 30, 4, 17, 22, 9, 5, 60])
    written = policy.generate_shared(prompts, 3, sampling)
    # Never more than max_rows, and each group of three joined those that had not ended.
    assert len(joined) >= 4
    assert max(joined) <= 8
    lengths = set()
    for prompt, group in zip(prompts, written, strict=True):
        assert len(group) == 3
        for completion in group:
            assert completion.prompt_ids == prompt.token_ids
            lengths.add(len(completion.token_ids))
            known = plain_logprobs(policy, completion)
            assert completion.logprobs == pytest.approx(known, abs=1e-4)
            ended = completion.token_ids[-1] == policy.end_id
            stopped = ended or any(text in completion.text for text in stop)
            assert completion.finish_reason == ("stop" if stopped else "length")
            assert stopped == (len(completion.token_ids) < 100)
            for text in stop:
                # Nothing is written behind a stop text.
                last = str(policy.tokenizer.decode(list(completion.token_ids[-1:])))
                assert text not in completion.text.removesuffix(last)
    assert len(lengths) > 6


def test_rows_that_have_ended_take_no_room_beyond_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = tiny_policy(max_rows=8)
    widest: list[tuple[int, int]] = []
    add = CachedRows.add

    def note(self: CachedRows, tokens: torch.Tensor) -> None:
        add(self, tokens)
        widest.append((self.num_places, len(self._mask)))

    monkeypatch.setattr(CachedRows, "add", note)
    for seed in range(4):
        sampling = Sampling(temperature=1.0, max_new_tokens=100, seed=seed)
        policy.generate_shared(prompts_of([10] * 40), 1, sampling)
    assert max(places for places, _ in widest) <= 110
    assert max(rows for _, rows in widest) == 8


@pytest.mark.parametrize("lengths", [[6] * 40, [20, 20, 20, *[6] * 12]])
def test_rows_that_have_ended_stay_within_the_models_context(lengths: list[int]) -> None:
    like = tiny_policy()
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(like.tokenizer), n_positions=32, n_embd=16, n_layer=2, n_head=2
    )
    policy = TransformersPolicy(GPT2LMHeadModel(config), like.tokenizer, max_rows=8)  # type: ignore[no-untyped-call]
    assert policy.context_tokens == 32
    for seed in range(4):
        sampling = Sampling(temperature=1.0, max_new_tokens=60, seed=seed)
        written = policy.generate_shared(prompts_of(lengths), 1, sampling)
        for prompt, [completion] in zip(prompts_of(lengths), written, strict=True):
            assert len(prompt.token_ids) + len(completion.token_ids) <= 32
            known = plain_logprobs(policy, completion)
            assert completion.logprobs == pytest.approx(known, abs=1e-4)


def test_models_whose_rows_cannot_join_write_one_batch_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = tiny_policy(max_rows=4)
    monkeypatch.setattr(CachedRows, "can_join", False)
    sampling = Sampling(temperature=1.0, max_new_tokens=30, seed=0)
    written = policy.generate_shared(prompts_of([5, 9, 7]), 3, sampling)
    for prompt, group in zip(prompts_of([5, 9, 7]), written, strict=True):
        assert [c.prompt_ids for c in group] == [prompt.token_ids] * 3
        for completion in group:
            known = plain_logprobs(policy, completion)
            assert completion.logprobs == pytest.approx(known, abs=1e-4)


def test_nothing_to_write_is_nothing_written() -> None:
    policy = tiny_policy()
    assert policy.generate_shared([], 3, Sampling(max_new_tokens=5)) == []
    # Of three processes two have no prompt.
    for rank in range(3):
        world = Alone(rank)
        policy.world = world
        policy.generate_shared(prompts_of([6]), 2, Sampling(max_new_tokens=5))
        assert [len(group) for group in world.gathered] == ([2] if rank == 0 else [])


class Alone(World):
    """One of three processes that hears nothing of the others."""

    def __init__(self, rank: int) -> None:
        super().__init__(rank=rank, size=3)
        self.gathered: list[Any] = []

    def share(self, value: Any) -> Any:
        return value

    def gather(self, value: Any) -> list[Any]:
        self.gathered = value
        full = value or [[None, None]]
        return [full, [], []]


def test_memory_grows_with_what_is_written_and_not_with_the_limit() -> None:
    policy = tiny_policy()
    prompts = [
        policy.prompt(problem) for problem in (build_problem(f"p{i}", n=10**i) for i in range(5))
    ]
    with torch.no_grad():
        # The end token is likely, so that all completions are short.
        policy.model.get_input_embeddings().weight[policy.end_id] *= 0
        policy.model.lm_head.bias = torch.nn.Parameter(
            20.0 * torch.nn.functional.one_hot(torch.tensor(policy.end_id), len(policy.tokenizer))
        )

    def peak(limit: int) -> int:
        sampling = Sampling(max_new_tokens=limit)
        return peak_bytes(lambda: policy.generate_shared(prompts, 16, sampling))

    peak(64)
    # Token, log-probability: 12 bytes for each of 80 rows and 40,960 places would be 39 MB.
    assert peak(40_960) < 1.1 * peak(64) < 12 * 80 * 40_960 / 4
