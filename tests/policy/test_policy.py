"""The transformers policy and the learner agree on every log-probability."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, MistralConfig

from proverrl.config import LearnerConfig, PolicyConfig
from proverrl.errors import ProverRLError, UsageError
from proverrl.lang.dafny.syntax.text import KEYWORDS
from proverrl.learner.learner import TorchLearner
from proverrl.learner.optimizers import OPTIMIZERS, build_optimizers, scale_rates
from proverrl.learner.packed_rows import batch_rows, pack_rows, packed_logprobs
from proverrl.policy.base import NoRoomError
from proverrl.policy.decoding import draw_tokens
from proverrl.policy.loading import build_policy, choose_device, load_policy, train_tokenizer
from proverrl.policy.transformers import TransformersPolicy
from proverrl.rollout.samples import (
    TrainingSample,
    build_replay_sample,
    build_rollout_samples,
    build_samples,
)
from proverrl.types import Completion, Group, Prompt, Reward, Rollout, Sampling, Status, Turn
from tests.builders import build_problem, build_rollout
from tests.tolerance import FLOAT32, MOVED

TEXTS = [
    "while i < n\n  invariant 0 <= i <= n\n",
    "method M(k: nat) returns (r: int) { r := k + 12; }",
] * 20
TINY = PolicyConfig(num_layers=2, hidden_size=32, num_heads=2, intermediate_size=64)


def tiny_policy(seed: int = 0, max_rows: int = 64) -> TransformersPolicy:
    tokenizer = train_tokenizer(TEXTS, vocab_size=320, keywords=KEYWORDS)
    config = TINY.model_copy(update={"max_rows": max_rows})
    return build_policy(config, tokenizer, seed=seed, device="cpu")


def prompts_of(policy: TransformersPolicy) -> list[Prompt]:
    problems = [build_problem(f"p{i}", n=10**i) for i in range(5)]
    return [policy.prompt(problem) for problem in problems]


def generate(policy: TransformersPolicy, *, n: int = 3, seed: int = 0) -> list[list[Completion]]:
    sampling = Sampling(temperature=1.0, max_new_tokens=12, seed=seed)
    return asyncio.run(policy.generate(prompts_of(policy), n=n, sampling=sampling))


def plain_logprobs(policy: TransformersPolicy, completion: Completion) -> list[float]:
    """One sequence, no padding, no cache: the definition."""
    ids = torch.tensor([completion.prompt_ids + completion.token_ids])
    with torch.no_grad():
        logits = policy.model(input_ids=ids).logits[0].float()
    start = len(completion.prompt_ids) - 1
    rows = torch.log_softmax(logits[start:-1], dim=-1)
    return [float(row[token]) for row, token in zip(rows, completion.token_ids, strict=True)]


def test_tokenizer_round_trips_and_keeps_names_whole() -> None:
    tokenizer = train_tokenizer(TEXTS, vocab_size=400, keywords=KEYWORDS)
    text = "invariant 0 <= kk <= n // é\t\u2200 <|end x\n"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == text
    spaced = tokenizer("while k < n", add_special_tokens=False)["input_ids"]
    tight = tokenizer("(k)", add_special_tokens=False)["input_ids"]
    assert spaced[1] == tight[1]  # `k` is one token with and without a space before it
    digits = tokenizer("12", add_special_tokens=False)["input_ids"]
    assert len(digits) == 2


def test_sampler_logprobs_equal_a_plain_forward_pass() -> None:
    policy = tiny_policy()
    for group in generate(policy):
        for completion in group:
            assert list(completion.logprobs) == pytest.approx(
                plain_logprobs(policy, completion), abs=FLOAT32
            )


def test_generation_is_repeatable_and_seeded() -> None:
    policy = tiny_policy()
    first, second, other = (generate(policy, seed=s) for s in (1, 1, 2))
    assert first == second
    assert first != other


def test_completions_of_one_prompt_differ_and_end_rightly() -> None:
    policy = tiny_policy()
    groups = generate(policy, n=16)
    assert len({c.token_ids for c in groups[0]}) > 8
    for completion in (c for group in groups for c in group):
        ended = completion.token_ids[-1] == policy.end_id
        assert (completion.finish_reason == "stop") == ended
        assert policy.end_id not in completion.token_ids[:-1]
        assert ended or len(completion.token_ids) == 12


def test_sampled_frequencies_follow_the_model() -> None:
    policy = tiny_policy()
    prompt = prompts_of(policy)[0]
    sampling = Sampling(temperature=1.0, max_new_tokens=1, seed=0)
    [group] = asyncio.run(policy.generate([prompt], n=4000, sampling=sampling))
    with torch.no_grad():
        logits = policy.model(input_ids=torch.tensor([prompt.token_ids])).logits[0, -1]
    expected = torch.softmax(logits, -1)
    best = int(expected.argmax())
    share = sum(c.token_ids[0] == best for c in group) / 4000
    assert share == pytest.approx(float(expected[best]), abs=0.02)


def samples_of(policy: TransformersPolicy) -> list[TrainingSample]:
    samples = []
    for index, group in enumerate(generate(policy, n=4)):
        problem = build_problem(f"p{index}", n=10**index)
        base = build_rollout(problem, 0, Status.PROVED).turns[0]
        rollouts = tuple(
            Rollout(f"r{index}-{i}", problem, "solver", (Turn(c, base.candidate, base.verdict),))
            for i, c in enumerate(group)
        )
        rewards = tuple(Reward(float(i % 2)) for i in range(4))
        advantages = [[1.0 if i % 2 else -1.0] for i in range(4)]
        samples += build_samples(Group(("solver", problem.id), rollouts, rewards), advantages)
    return samples


def test_samples_carry_exact_ids_and_masks() -> None:
    policy = tiny_policy()
    [completion, *_] = generate(policy)[0]
    sample = samples_of(policy)[0]
    p = sample.prompt_length
    assert sample.token_ids[:p] == completion.prompt_ids
    assert sum(sample.loss_mask) == len(sample.token_ids) - p
    assert sample.loss_mask[:p] == (0,) * p
    assert set(sample.advantages[p:]) == {-1.0}


def windowed_policy() -> TransformersPolicy:
    """One whose tokens see five tokens, themselves included."""
    tokenizer = tiny_policy().tokenizer
    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        intermediate_size=64,
        sliding_window=5,
        initializer_range=0.3,
    )
    model = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    return TransformersPolicy(model, tokenizer, layout=TINY.layout, device="cpu", max_rows=64)


@pytest.mark.parametrize("make_policy", [tiny_policy, windowed_policy])
def test_packed_rows_give_the_samplers_logprobs(
    make_policy: Callable[[], TransformersPolicy],
) -> None:
    policy = make_policy()
    samples = samples_of(policy)
    rows = pack_rows(samples)
    assert len(rows) == 5
    expected = [v for row in rows for s in row.samples for v in s.logprobs[s.prompt_length :]]
    with torch.no_grad():
        got, entropy = packed_logprobs(policy.model, rows, temperature=1.0)
    assert got.tolist() == pytest.approx(expected, abs=FLOAT32)
    assert float(entropy.min()) > 0


def test_batches_hold_every_row_once_within_the_budget() -> None:
    rows = pack_rows(samples_of(tiny_policy()))
    batches = list(batch_rows(rows, max_tokens=250))
    assert sorted(id(r) for b in batches for r in b) == sorted(map(id, rows))
    assert len(batches) > 1
    for batch in batches:
        assert len(batch) == 1 or sum(r.num_tokens for r in batch) <= 250


def test_a_step_raises_what_was_rewarded_and_lowers_the_rest() -> None:
    policy = tiny_policy()
    samples = samples_of(policy)
    learner = TorchLearner(policy.model, LearnerConfig(learning_rate=1e-3), temperature=1.0)
    before, _ = packed_logprobs(policy.model, pack_rows(samples), temperature=1.0)
    metrics = learner.step(samples)
    after, _ = packed_logprobs(policy.model, pack_rows(samples), temperature=1.0)
    signs = torch.tensor([a for s in samples for a in s.advantages[s.prompt_length :]])
    change = ((after - before) * signs).mean()
    assert float(change.detach()) > 0
    assert learner.version == 1
    # On-policy: every ratio is 1, so that the loss is minus the token mean of the advantages.
    assert metrics["loss"] == pytest.approx(-float(signs.mean()), abs=FLOAT32)
    assert metrics["approx_kl"] == pytest.approx(0.0, abs=1e-6)


def test_micro_batches_do_not_change_the_update() -> None:
    updated = []
    for limit in (200, 100_000):
        policy = tiny_policy()
        samples = samples_of(policy)
        config = LearnerConfig(micro_batch_tokens=limit)
        TorchLearner(policy.model, config, temperature=1.0).step(samples)
        updated.append(torch.cat([p.flatten() for p in policy.model.parameters()]))
    assert float((updated[0] - updated[1]).detach().abs().mean()) < MOVED


def test_batch_size_does_not_change_what_a_row_may_write() -> None:
    wide = generate(tiny_policy(max_rows=64), n=1)
    narrow = tiny_policy(max_rows=1)
    for group in generate(narrow, n=1) + wide:
        assert list(group[0].logprobs) == pytest.approx(
            plain_logprobs(narrow, group[0]), abs=FLOAT32
        )


def test_saved_policy_is_an_ordinary_hugging_face_folder(tmp_path: Path) -> None:
    policy = tiny_policy()
    policy.save(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    for mine, theirs in zip(policy.model.parameters(), model.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert tokenizer("invariant k")["input_ids"] == policy.tokenizer("invariant k")["input_ids"]
    again = load_policy(tmp_path, TINY, device="cpu")
    assert generate(again) == generate(policy)


def test_missing_policy_and_device_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        load_policy(tmp_path / "none", TINY, device="cpu", key="rollout.options.writer")
    assert str(error.value) == (
        f"rollout.options.writer {str(tmp_path / 'none')!r}: there is no folder "
        f"{tmp_path / 'none'}, and a "
        "model on the hub is called OWNER/NAME; check the spelling, or train the run first whose "
        "weights it names"
    )
    with pytest.raises(UsageError, match="holds no weights"):
        load_policy(tmp_path, TINY, device="cpu", key="rollout.options.writer")
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match="no GPU"):
            choose_device("cuda")


def test_replay_is_imitated_in_proportion_to_its_weight() -> None:
    policy = tiny_policy()
    samples = samples_of(policy)
    prompt, target = samples[0].token_ids[: samples[0].prompt_length], (9, 8, 7, policy.end_id)
    proof = build_replay_sample(prompt, target)
    with torch.no_grad():
        before, _ = packed_logprobs(policy.model, pack_rows([proof]), temperature=1.0)
    config = LearnerConfig(learning_rate=1e-3, replay_weight=0.5)
    learner = TorchLearner(policy.model, config, temperature=1.0)
    metrics = learner.step(samples, lambda: [proof])
    signs = [a for s in samples for a in s.advantages[s.prompt_length :]]
    on_policy = -sum(signs) / len(signs)
    nll = -float(before.mean())
    assert metrics["replay_loss"] == pytest.approx(nll, abs=FLOAT32)
    assert metrics["loss"] == pytest.approx(on_policy + 0.5 * nll, abs=2 * FLOAT32)
    with torch.no_grad():
        after, _ = packed_logprobs(policy.model, pack_rows([proof]), temperature=1.0)
    assert float(after.mean()) > float(before.mean())


def test_epochs_and_groups_per_update_count_updates() -> None:
    policy = tiny_policy()
    config = LearnerConfig(epochs=2, groups_per_update=2)
    learner = TorchLearner(policy.model, config, temperature=1.0)
    asked = 0

    def replay() -> list[TrainingSample]:
        nonlocal asked
        asked += 1
        return []

    learner.step(samples_of(policy), replay)
    # Five prompts, two an update: three updates a pass, two passes.
    assert learner.version == asked == 6


def test_a_learner_that_diverges_stops_before_the_update() -> None:
    policy = tiny_policy()
    samples = samples_of(policy)
    learner = TorchLearner(policy.model, LearnerConfig(), temperature=1.0)
    with torch.no_grad():
        policy.model.get_input_embeddings().weight[5] = float("nan")
    with pytest.raises(ProverRLError, match="the loss is nan at version 0"):
        learner.step(samples)
    assert learner.version == 0


def test_optimizers_take_each_parameter_once() -> None:
    model = tiny_policy().model
    for name in OPTIMIZERS:
        optimizers = build_optimizers(name, model, learning_rate=0.1, weight_decay=0.0)
        taken = [id(p) for o in optimizers for g in o.param_groups for p in g["params"]]
        assert sorted(taken) == sorted({id(p) for p in model.parameters()})
        scale_rates(optimizers, 0.5)
        scale_rates(optimizers, 0.25)
        assert optimizers[0].param_groups[0]["lr"] == pytest.approx(0.025)


def test_top_p_draws_from_the_likeliest_tokens_alone() -> None:
    probabilities = torch.tensor([[0.4, 0.1, 0.3, 0.2], [0.25, 0.25, 0.25, 0.25]])
    rows = probabilities.log().repeat_interleave(4000, dim=0)
    generator = torch.Generator().manual_seed(0)
    token, logprob = draw_tokens(rows, 1.0, generator, 0.6)
    # 0.4 + 0.3 is the first sum that reaches 0.6: two tokens, at 4 to 3.
    counts = torch.bincount(token[:4000], minlength=4) / 4000
    assert counts.tolist() == pytest.approx([4 / 7, 0.0, 3 / 7, 0.0], abs=0.03)
    # Of equal ones the first three.
    assert len(set(token[4000:].tolist())) == 3
    # The log-probability stays that of the whole distribution.
    assert logprob.exp().tolist() == pytest.approx(
        [float(probabilities[i // 4000, t]) for i, t in enumerate(token.tolist())]
    )


def test_what_top_p_drew_cannot_be_learned_from() -> None:
    policy = tiny_policy()
    sampling = Sampling(temperature=1.0, max_new_tokens=12, seed=0, top_p=0.5)
    drawn = asyncio.run(policy.generate(prompts_of(policy), n=2, sampling=sampling))
    assert all(c.missing == ("logprobs",) and not c.logprobs for row in drawn for c in row)
    rollout = Rollout("r", build_problem("p"), "solver", (Turn(drawn[0][0], None, None),))
    with pytest.raises(ProverRLError, match="logprobs"):
        build_rollout_samples(rollout, [1.0])
    assert generate(policy)[0][0].missing == ()
    with pytest.raises(ProverRLError, match="top_p must be above 0 and <= 1"):
        Sampling(top_p=0.0)


def test_top_k_draws_and_scores_among_the_likeliest_tokens() -> None:
    probabilities = torch.tensor([[0.4, 0.1, 0.3, 0.2], [0.25, 0.25, 0.25, 0.25]])
    rows = probabilities.log().repeat_interleave(4000, dim=0)
    generator = torch.Generator().manual_seed(0)
    token, logprob = draw_tokens(rows, 1.0, generator, top_k=2)
    counts = torch.bincount(token[:4000], minlength=4) / 4000
    assert counts.tolist() == pytest.approx([4 / 7, 0.0, 3 / 7, 0.0], abs=0.03)
    # Among the two that are kept: 0.4 and 0.3 of 0.7; of equal ones two at one half.
    wanted = [{0: 4 / 7, 2: 3 / 7}[int(t)] for t in token[:4000]]
    assert logprob[:4000].exp().tolist() == pytest.approx(wanted)
    assert len(set(token[4000:].tolist())) == 2
    assert logprob[4000:].exp().tolist() == pytest.approx([0.5] * 4000)
    # The temperature comes first: at 1/2 the squares, 16 and 9 of 25.
    token, logprob = draw_tokens(rows[:100], 0.5, generator, top_k=2)
    wanted = [{0: 16 / 25, 2: 9 / 25}[int(t)] for t in token]
    assert logprob.exp().tolist() == pytest.approx(wanted)
    # Then top_p, of what top_k left: 4 / 7 alone reaches 0.5.
    assert set(draw_tokens(rows[:4000], 1.0, generator, 0.5, 2)[0].tolist()) == {0}
    # More than there are is all of them.
    whole = draw_tokens(rows[:9], 1.0, torch.Generator().manual_seed(1))
    more = draw_tokens(rows[:9], 1.0, torch.Generator().manual_seed(1), top_k=99)
    assert whole[0].tolist() == more[0].tolist()
    assert whole[1].tolist() == more[1].tolist()
    with pytest.raises(ProverRLError, match="top_k must be >= 0"):
        Sampling(top_k=-1)


def test_a_completion_ends_with_the_models_context() -> None:
    policy = tiny_policy()
    prompts = prompts_of(policy)
    lengths = sorted({len(prompt.token_ids) for prompt in prompts})
    assert len(lengths) > 1
    policy.model.config.max_position_embeddings = lengths[-1] + 3
    sampling = Sampling(temperature=1.0, max_new_tokens=500, seed=0)
    drawn = asyncio.run(policy.generate(prompts, n=8, sampling=sampling))
    cut = [c for row in drawn for c in row if c.finish_reason == "length"]
    assert {len(c.prompt_ids) for c in cut} == set(lengths)
    # Each row by its own length, not by that of the longest prompt of its batch.
    assert {len(c.prompt_ids) + len(c.token_ids) for c in cut} == {lengths[-1] + 3}
    policy.model.config.max_position_embeddings = lengths[-1]
    said = rf"^\w.*: a prompt of {lengths[-1]} tokens leaves no room in the"
    with pytest.raises(NoRoomError, match=said) as caught:
        asyncio.run(policy.generate(prompts, n=2, sampling=sampling))
    # Those that have room are written as if they were alone.
    fitting = [prompt for prompt in prompts if len(prompt.token_ids) < lengths[-1]]
    alone = iter(asyncio.run(policy.generate(fitting, n=2, sampling=sampling)))
    blank = Completion("", (), (), (), "no_room", 0)
    assert caught.value.written == [
        [blank] * 2 if len(prompt.token_ids) == lengths[-1] else next(alone) for prompt in prompts
    ]


def test_a_generation_that_is_cancelled_stops_at_its_next_token() -> None:
    policy = tiny_policy()
    begun, go_on = threading.Event(), threading.Event()
    steps = 0
    forward = policy.model.forward

    def hold(*values: object, **named: object) -> object:
        nonlocal steps
        steps += 1
        if steps == 3:
            begun.set()
            go_on.wait()
        return forward(*values, **named)

    policy.model.forward = hold

    async def cancel() -> None:
        sampling = Sampling(temperature=1.0, max_new_tokens=900, seed=0)
        task = asyncio.create_task(policy.generate(prompts_of(policy), n=8, sampling=sampling))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        go_on.set()

    # Ends when the thread has ended.
    asyncio.run(cancel())
    assert steps == 3
