"""The vLLM policy on vLLM itself: runs where it is installed (docs/engines.md), else skipped."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
import torch

from proverrl.config import LearnerConfig, LoraConfig, PolicyConfig, VllmConfig, VllmDtype
from proverrl.errors import UsageError, WeightSyncError
from proverrl.learner.learner import TorchLearner
from proverrl.learner.packed_rows import pack_rows, packed_logprobs
from proverrl.policy.engines import ENGINES
from proverrl.policy.loading import build_policy, load_policy, train_tokenizer
from proverrl.policy.lora import attach_adapter, merge_adapter
from proverrl.policy.probe import PushProbe, mean_abs_difference, score_rows
from proverrl.policy.transformers import TransformersPolicy
from proverrl.policy.vllm import VllmPolicy, push_limit
from proverrl.rollout.samples import TrainingSample, build_samples
from proverrl.types import Completion, Group, Reward, Rollout, Sampling, Status, Turn
from tests.builders import build_problem, build_rollout
from tests.checkpoints import FAMILIES, write_checkpoint
from tests.learner.test_parallel import start
from tests.policy.test_policy import TEXTS

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(
        importlib.util.find_spec("vllm") is None,
        reason="vLLM is not installed; docs/engines.md says how to install it",
    ),
]

PROBLEMS = [build_problem(f"p{i}", n=3**i) for i in range(9)]


def small_policy(seed: int = 0) -> TransformersPolicy:
    """Heads of 32, the smallest that vLLM's attention takes on a CPU; embeddings are tied."""
    config = PolicyConfig(num_layers=2, hidden_size=64, num_heads=2, intermediate_size=128)
    tokenizer = train_tokenizer(TEXTS, vocab_size=320)
    policy = build_policy(config, tokenizer, seed=seed, device="cpu")
    with torch.no_grad():
        for parameter in policy.model.parameters():
            # Fresh weights are so small that every token is as likely; a trained model's are not.
            if parameter.ndim == 2:
                parameter *= 4
    return policy


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def sampler(request: pytest.FixtureRequest) -> Iterator[VllmPolicy]:
    dtype: VllmDtype = request.param
    config = VllmConfig(dtype=dtype, kv_cache_gb=0.1)
    opened = ENGINES["vllm"](small_policy(), config, PROBLEMS)
    assert isinstance(opened, VllmPolicy)
    yield opened
    opened.close()


def limit(sampler: VllmPolicy) -> float:
    return sampler._probe.limit


def draw(
    sampler: VllmPolicy, *, n: int = 4, problems: Sequence[int] = (0, 3, 6), **changes: object
) -> list[list[Completion]]:
    settings = {"temperature": 1.0, "max_new_tokens": 24, "seed": 1} | changes
    prompts = [sampler.prompt(PROBLEMS[i]) for i in problems]
    return asyncio.run(sampler.generate(prompts, n=n, sampling=Sampling(**settings)))  # type: ignore[arg-type]


def samples_of(groups: list[list[Completion]]) -> list[TrainingSample]:
    samples = []
    for index, group in enumerate(groups):
        problem = PROBLEMS[index]
        base = build_rollout(problem, 0, Status.PROVED).turns[0]
        rollouts = tuple(
            Rollout(f"r{index}-{i}", problem, "solver", (Turn(c, base.candidate, base.verdict),))
            for i, c in enumerate(group)
        )
        rewards = tuple(Reward(float(i % 2)) for i in range(len(group)))
        advantages = [[1.0 if i % 2 else -1.0] for i in range(len(group))]
        samples += build_samples(Group(("solver", problem.id), rollouts, rewards), advantages)
    return samples


def gap(sampler: VllmPolicy, samples: list[TrainingSample], temperature: float) -> float:
    """Mean |sampler's - learner's log-probability| over the sampled tokens, as trained on."""
    rows = pack_rows(samples)
    drawn = [v for row in rows for s in row.samples for v in s.logprobs[s.prompt_length :]]
    with torch.no_grad():
        scored, _ = packed_logprobs(sampler.trained.model, rows, temperature=temperature)
    return float((scored - torch.tensor(drawn)).abs().mean())


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_sampled_logprobs_are_the_learners_at_the_temperature(
    sampler: VllmPolicy, temperature: float
) -> None:
    samples = samples_of(draw(sampler, temperature=temperature))
    assert gap(sampler, samples, temperature) < limit(sampler)
    # The other temperature's log-probabilities are far away: the check can fail.
    assert gap(sampler, samples, 1.6 - temperature) > 2 * limit(sampler)


def test_training_steps_are_followed(sampler: VllmPolicy) -> None:
    learner = TorchLearner(
        sampler.trained.model,
        LearnerConfig(learning_rate=2e-2),
        temperature=1.0,
        version=sampler.version,
    )
    for _ in range(3):
        groups = draw(sampler, seed=learner.version)
        assert {c.policy_version for group in groups for c in group} == {learner.version}
        samples = samples_of(groups)
        assert gap(sampler, samples, 1.0) < limit(sampler)
        learner.step(samples)
        stale = gap(sampler, samples, 1.0)
        assert stale > 2 * limit(sampler), "the step was too small to tell"
        figures = sampler.push(learner.version)
        assert figures["push_mean_abs_dlogp"] < limit(sampler)
        assert sampler.version == learner.version


def test_the_engine_has_weights_of_its_own(sampler: VllmPolicy) -> None:
    rows = sampler._probe.rows
    before = sampler._engine.score(rows)
    embedding = sampler.trained.model.get_input_embeddings().weight
    kept = embedding.detach().clone()
    with torch.no_grad():
        embedding += 0.05
    # The learner changed its weights in place and nothing was pushed yet.
    assert sampler._engine.score(rows) == before
    with torch.no_grad():
        embedding.copy_(kept)


def test_a_tied_head_that_is_not_repacked_is_seen(
    sampler: VllmPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    if torch.cuda.is_available():
        pytest.skip("only the CPU packs the head")
    model = sampler.trained.model
    assert model.config.tie_word_embeddings
    kept = {k: v.clone() for k, v in model.state_dict().items()}
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(1.5)
    monkeypatch.setattr("proverrl.policy.vllm_engine._pack_heads", lambda model: 0)
    with pytest.raises(WeightSyncError, match="nats off on average"):
        sampler.push(sampler.version + 1)
    monkeypatch.undo()
    assert sampler.push(sampler.version)["push_mean_abs_dlogp"] < limit(sampler)
    model.load_state_dict(kept)
    sampler.push(sampler.version)


def test_the_probe_sees_a_push_that_did_not_happen(sampler: VllmPolicy) -> None:
    probe = PushProbe(
        partial(score_rows, small_policy(seed=1).model),
        sampler._engine.score,
        sampler._probe.rows,
        limit=push_limit("float32", "cpu"),
        dtype="float32",
    )
    with pytest.raises(WeightSyncError, match="nats off on average"):
        probe.check()


def test_seeds_repeat_and_differ(sampler: VllmPolicy) -> None:
    first = draw(sampler, seed=5)
    # Another call between them, which leaves prefixes behind, changes nothing.
    draw(sampler, seed=9, problems=(0, 1))
    assert draw(sampler, seed=5) == first
    assert draw(sampler, seed=6) != first
    assert len({c.token_ids for c in first[0]}) == 4


def test_sampled_frequencies_follow_the_model(sampler: VllmPolicy) -> None:
    [group] = draw(sampler, n=2000, problems=(0,), max_new_tokens=1)
    prompt = sampler.prompt(PROBLEMS[0])
    with torch.no_grad():
        logits = sampler.trained.model(input_ids=torch.tensor([prompt.token_ids])).logits[0, -1]
    expected = torch.softmax(logits, -1)
    best = int(expected.argmax())
    share = sum(c.token_ids[0] == best for c in group) / 2000
    # Four standard errors of a share of 2,000 draws, at most 4 * sqrt(1/4 / 2000).
    assert share == pytest.approx(float(expected[best]), abs=0.045)


def test_temperature_zero_takes_the_likeliest(sampler: VllmPolicy) -> None:
    if limit(sampler) > 1e-3:
        pytest.skip("in bfloat16 two tokens may tie")
    [[completion]] = draw(sampler, n=1, problems=(0,), temperature=0.0)
    ours = asyncio.run(
        sampler.trained.generate(
            [sampler.prompt(PROBLEMS[0])],
            n=1,
            sampling=Sampling(temperature=0.0, max_new_tokens=24),
        )
    )
    assert completion.token_ids == ours[0][0].token_ids
    assert list(completion.logprobs) == pytest.approx(list(ours[0][0].logprobs), abs=1e-4)


def test_a_stop_text_ends_a_completion_with_the_token_that_completes_it(
    sampler: VllmPolicy,
) -> None:
    groups = draw(sampler, n=16, max_new_tokens=60, stop=("in",))
    stopped = 0
    tokenizer = sampler.trained.tokenizer
    for completion in (c for group in groups for c in group):
        ids = list(completion.token_ids)
        ended = ids[-1] == sampler.trained.end_id
        assert sampler.trained.end_id not in ids[:-1]
        assert completion.text == tokenizer.decode(ids[:-1] if ended else ids)
        if "in" in completion.text:
            stopped += 1
            assert "in" not in tokenizer.decode(ids[:-1])
        short = ended or "in" in completion.text
        assert completion.finish_reason == ("stop" if short else "length")
        assert short == (len(ids) < 60) or len(ids) == 60
    assert stopped > 0


def test_the_process_is_left_as_it_was(sampler: VllmPolicy) -> None:
    # vLLM's allocator must not be preloaded into verifiers, and threads can still be set.
    assert "tcmalloc" not in os.environ.get("LD_PRELOAD", "")
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    assert torch.get_num_threads() == threads + 1
    torch.set_num_threads(threads)
    expected = (
        r"vllm \S+ in this process on (cpu|cuda), (float32|bfloat16); trained by transformers"
    )
    assert re.match(expected, sampler.engine)
    assert not list(Path(sampler._engine._folder.name).glob("*.safetensors"))


def test_several_processes_have_an_engine_each(tmp_path: Path) -> None:
    words = ["policy.engine=vllm", "policy.hidden_size=128", "vllm.kv_cache_gb=0.2"]
    words += ["warm_start.steps=40", "grpo.steps=2", "grpo.groups_per_step=4"]
    words += ["grpo.groups_per_draw=4", "evaluation.before=false", "evaluation.after=false"]
    words += ["pool.workers=1", f"run={tmp_path / 'run'}"]
    python = (sys.executable,)
    processes = start(2, "proverrl", "train", "demo", *words, python=python)
    told = [process.communicate(timeout=600)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], told
    steps = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").open()]
    steps = [step for step in steps if step["kind"] == "step"]
    # Rank 0 has compared its own engine; another process that differs ends the run.
    assert [step["push_mean_abs_dlogp"] < 1e-4 for step in steps] == [True, True]


def test_an_engine_samples_the_same_after_a_rest() -> None:
    """A CPU's engine keeps its memory while it sleeps; what is tested is the order of its calls."""
    policy = small_policy()
    sampler = ENGINES["vllm"](policy, VllmConfig(kv_cache_gb=0.1), PROBLEMS)
    assert isinstance(sampler, VllmPolicy)
    sampling = Sampling(temperature=1.0, max_new_tokens=12, seed=3)
    try:
        prompts = [sampler.prompt(problem) for problem in PROBLEMS[:2]]
        before = sampler.generate_shared(prompts, 4, sampling)
        sampler._sleeps = True
        sampler.sleep()
        assert sampler.push(0)["push_mean_abs_dlogp"] < 1e-5
        assert sampler.generate_shared(prompts, 4, sampling) == before
        sampler.sleep()
        assert sampler.generate_shared(prompts, 4, sampling) == before
        with pytest.raises(UsageError, match=r"vllm\.sleep = true is for GPUs"):
            ENGINES["vllm"](policy, VllmConfig(sleep=True), PROBLEMS)
    finally:
        sampler.close()


@pytest.mark.parametrize("name", ["qwen2", "qwen3", "llama3", "gemma3"])
def test_checkpoints_of_public_families_are_pushed(name: str, tmp_path: Path) -> None:
    family = next(family for family in FAMILIES if family.name == name)
    folder = write_checkpoint(family, tmp_path)
    policy = load_policy(folder, PolicyConfig(path=str(folder), layout="dafny"), device="cpu")
    sampler = ENGINES["vllm"](policy, VllmConfig(kv_cache_gb=0.1), PROBLEMS)
    try:
        assert sampler.push(1)["push_mean_abs_dlogp"] < 1e-5
        prompt = sampler.prompt(PROBLEMS[0])
        few = Sampling(temperature=1.0, max_new_tokens=24, seed=1)
        [drawn] = sampler.generate_shared([prompt], 8, few)
        rows = [(*prompt.token_ids, *c.token_ids) for c in drawn]
        expected = [row[len(prompt.token_ids) - 1 :] for row in score_rows(policy.model, rows)]
        found = [list(c.logprobs) for c in drawn]
        assert mean_abs_difference(found, expected) < 1e-4
        # Every end of the checkpoint ends a completion, as with the other engine.
        with torch.no_grad():
            policy.model.get_input_embeddings().weight.zero_()
            policy.model.get_output_embeddings().weight.zero_()
        sampler.push(2)
        more = Sampling(temperature=1.0, max_new_tokens=60, seed=1)
        [drawn] = sampler.generate_shared([prompt], 64, more)
        ended = [c.token_ids for c in drawn if c.finish_reason == "stop"]
        assert {ids[-1] for ids in ended} == set(policy.end_ids)
        assert not any(set(policy.end_ids) & set(c.token_ids[:-1]) for c in drawn)
    finally:
        sampler.close()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_adapters_are_loaded_after_every_step(dtype: VllmDtype, tmp_path: Path) -> None:
    pytest.importorskip("peft", reason='needs peft: pip install "proverrl[lora]"')
    family = next(family for family in FAMILIES if family.name == "qwen3")
    folder = write_checkpoint(family, tmp_path)
    policy = load_policy(folder, PolicyConfig(path=str(folder)), device="cpu")
    lora = LoraConfig(rank=4, alpha=8.0)
    attach_adapter(policy.model, lora, seed=0)
    sampler = ENGINES["vllm"](policy, VllmConfig(kv_cache_gb=0.1, dtype=dtype), PROBLEMS)
    assert isinstance(sampler, VllmPolicy)
    try:
        learner = TorchLearner(policy.model, LearnerConfig(learning_rate=2e-2), temperature=1.0)
        for _ in range(2):
            samples = samples_of(draw(sampler, seed=learner.version))
            assert gap(sampler, samples, 1.0) < limit(sampler)
            learner.step(samples)
            assert gap(sampler, samples, 1.0) > 2 * limit(sampler), "the step was too small to tell"
            assert sampler.push(learner.version)["push_mean_abs_dlogp"] < limit(sampler)
        assert sampler._engine._llm.llm_engine.list_loras() == {3}
        kept = [path.name for path in Path(sampler._engine._folder.name).glob("adapter_*")]
        assert kept == ["adapter_3"]
        # Another adapter on other weights, as after a warm start.
        merge_adapter(policy.model)
        attach_adapter(policy.model, lora, seed=1)
        assert sampler.push(9)["push_mean_abs_dlogp"] < limit(sampler)
        samples = samples_of(draw(sampler))
        assert gap(sampler, samples, 1.0) < limit(sampler)
    finally:
        sampler.close()


def test_experts_that_vllm_cannot_replace_on_a_cpu_are_refused(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("only the CPU build packs experts for good")
    family = next(family for family in FAMILIES if family.name == "deepseek_v2")
    policy = load_policy(write_checkpoint(family, tmp_path), PolicyConfig(path="x"), device="cpu")
    config = VllmConfig(kv_cache_gb=0.1, dtype="bfloat16")
    with pytest.raises(UsageError, match="vLLM cannot take new weights of this model"):
        ENGINES["vllm"](policy, config, PROBLEMS)
