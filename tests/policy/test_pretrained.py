"""Checkpoints of public families from end to end: what a folder holds is what is trained."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from proverrl.cli.main import cli
from proverrl.config import LayoutName, LoraConfig, PolicyConfig, parse_config
from proverrl.errors import RunError, UsageError
from proverrl.jobs import train as train_module
from proverrl.jobs.train import train
from proverrl.learner.packed_rows import pack_rows, packed_logprobs
from proverrl.policy.base import Exchange
from proverrl.policy.loading import (
    checkpoint_weights,
    choose_precision,
    load_policy,
    merge_policies,
)
from proverrl.policy.lora import adapter_weights, attach_adapter, merge_adapter, save_adapter
from proverrl.policy.probe import score_rows
from proverrl.policy.transformers import TransformersPolicy
from proverrl.rollout.samples import build_replay_sample
from proverrl.run.run_folder import check_resumable, settle, write_resolved
from proverrl.types import Completion, Message, Prompt, Sampling
from tests import ROOT
from tests.builders import build_problem
from tests.checkpoints import FAMILIES, Family, write_checkpoint
from tests.run.test_grpo import StubVerifier, judge, step_lines, write_split
from tests.tolerance import FLOAT32

CURRICULUM = ROOT / "dafny" / "curriculum"
BY_NAME = {family.name: family for family in FAMILIES}
PROBLEMS = [build_problem(f"q{i}", n=3 + i) for i in range(4)]
EVERY = pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])


def opened(folder: Path, layout: LayoutName = "dafny") -> TransformersPolicy:
    return load_policy(folder, PolicyConfig(path=str(folder), layout=layout), device="cpu")


def of(name: str, folder: Path, layout: LayoutName = "dafny", **changes: Any) -> TransformersPolicy:
    return opened(write_checkpoint(BY_NAME[name], folder, **changes), layout)


def ids_of(policy: TransformersPolicy, *words: str) -> list[int]:
    return [policy.tokenizer.get_vocab()[word] for word in words]


def greedy(policy: TransformersPolicy) -> list[Completion]:
    prompts = [policy.prompt(problem) for problem in PROBLEMS]
    sampling = Sampling(temperature=0.0, max_new_tokens=24)
    return [c for [c] in policy.generate_shared(prompts, 1, sampling)]


@EVERY
def test_a_checkpoint_is_trained_saved_and_read_again(
    family: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_module, "open_configured", lambda *_, **__: StubVerifier(judge))
    folder = write_checkpoint(family, tmp_path / "base")
    base = opened(folder)
    rows = [base.prompt(problem).token_ids for problem in PROBLEMS]
    saved: dict[str, Any] = {}

    def save(self: TransformersPolicy, to: Path) -> None:
        # The model that was trained, before anything is written.
        saved["scores"], saved["greedy"] = score_rows(self.model, rows), greedy(self)
        save_as_ever(self, to)

    save_as_ever = TransformersPolicy.save
    monkeypatch.setattr(TransformersPolicy, "save", save)
    table = {
        "loop": "grpo",
        "run": str(tmp_path / "run"),
        "problems": {
            "train": str(write_split(tmp_path / "train.jsonl", range(12))),
            "heldout": str(write_split(tmp_path / "heldout.jsonl", range(60, 63))),
        },
        "policy": {"path": str(folder), "layout": "dafny"},
        "warm_start": {
            "optimizer": "adamw",
            "references_per_level": {"1": 4, "2": 4},
            "steps": 40,
            "batch_size": 8,
            "learning_rate": 5e-3,
        },
        "sampling": {"max_new_tokens": 24},
        "learner": {"learning_rate": 2e-3, "precision": "fp32"},
        "grpo": {"steps": 1, "groups_per_step": 2, "groups_per_draw": 4, "group_size": 4},
        "evaluation": {"samples": 2, "ks": [1, 2]},
    }
    run = asyncio.run(train(parse_config(table, source="test"), live=False))
    [step] = step_lines(run)
    assert step["grad_norm"] > 0
    # What the sampler drew is what the learner scores: probabilities differ by rounding alone.
    assert step["ratio_max"] == pytest.approx(1.0, abs=1e-4)
    assert abs(step["approx_kl"]) < 1e-6
    lines = [json.loads(line) for line in (run / "metrics.jsonl").open()]
    losses = [line["loss"] for line in lines if line["kind"] == "sft"]
    assert losses[-1] < 0.1 * losses[0]
    again = opened(run / "policy")
    assert score_rows(again.model, rows) == saved["scores"]
    assert [c.token_ids for c in greedy(again)] == [c.token_ids for c in saved["greedy"]]
    assert score_rows(base.model, rows) != saved["scores"]
    assert again.end_ids == base.end_ids
    assert [again.prompt(problem).token_ids for problem in PROBLEMS] == rows
    assert set(checkpoint_weights(again.model)) == set(checkpoint_weights(base.model))
    # To everybody else it is a folder of that family.
    tokenizer = AutoTokenizer.from_pretrained(run / "policy")
    model: Any = AutoModelForCausalLM.from_pretrained(run / "policy")
    assert type(model) is type(base.model)
    for row, completion in zip(rows, saved["greedy"], strict=True):
        out = model.generate(torch.tensor([row]), max_new_tokens=24, do_sample=False)
        new = out[0, len(row) :].tolist()
        assert tuple(new) == completion.token_ids
        assert str(tokenizer.decode(new)).startswith(completion.text)


@EVERY
def test_prompts_have_one_beginning_and_answers_end_as_the_template_says(
    family: Family, tmp_path: Path
) -> None:
    chat = opened(write_checkpoint(family, tmp_path / "a"))
    plain = opened(tmp_path / "a", "plain")
    assert list(chat.end_ids) == ids_of(chat, *family.ends)
    # Without a template an answer ends as a text does.
    assert plain.end_id == chat.tokenizer.eos_token_id
    assert set(plain.end_ids) == {plain.end_id, *ids_of(chat, *family.ends)}
    bos = chat.tokenizer.bos_token_id
    assert (bos is None) == family.name.startswith("qwen")
    for policy in (chat, plain):
        ids = policy.prompt(PROBLEMS[0]).token_ids
        assert ids.count(bos) == (0 if bos is None else 1)
        if bos is not None:
            assert ids[0] == bos
            # Their own tokenizer puts it there too: once more would make two.
            text = policy.prompt(PROBLEMS[0]).text.removeprefix(policy.tokenizer.bos_token)
            assert policy.tokenizer(text)["input_ids"] == list(ids)
    assert chat.body_ids(PROBLEMS[0], "invariant k")[-1] == chat.end_id
    text = chat.prompt(PROBLEMS[0]).text
    assert chat.tokenizer.decode(list(chat.prompt(PROBLEMS[0]).token_ids)) == text


@EVERY
def test_a_second_turn_is_what_the_template_writes_of_the_whole(
    family: Family, tmp_path: Path
) -> None:
    policy = opened(write_checkpoint(family, tmp_path / "a"))
    tokenizer = policy.tokenizer
    messages = [Message("user", "prove it"), Message("assistant", "so"), Message("user", "no")]

    def render(count: int) -> str:
        rows = [{"role": m.role, "content": m.content} for m in messages[:count]]
        text = tokenizer.apply_chat_template(rows, tokenize=False, add_generation_prompt=True)
        return str(text)

    def encode(text: str) -> tuple[int, ...]:
        return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])

    first = Prompt("p", render(1), encode(render(1)))
    said = encode("so")
    whole = policy.resume(first, [Exchange(_completion((*said, policy.end_id)), "no")])
    assert tokenizer.decode(list(whole.token_ids)) == render(3)
    cut = policy.resume(first, [Exchange(_completion(said), "no")])
    assert cut.token_ids == whole.token_ids
    # An end of the other kind was drawn: it stays, and no second one follows.
    for other in policy.end_ids[1:]:
        drawn = policy.resume(first, [Exchange(_completion((*said, other)), "no")])
        place = len(first.token_ids) + len(said)
        assert drawn.token_ids[place] == other
        assert drawn.token_ids[place + 1 :] == whole.token_ids[place + 1 :]


def _completion(ids: tuple[int, ...]) -> Completion:
    return Completion("so", (1,), ids, (0.0,) * len(ids), "stop", 0)


def test_every_end_that_a_checkpoint_lists_ends_a_completion(tmp_path: Path) -> None:
    policy = of("llama3", tmp_path / "a")
    own, other = ids_of(policy, "<|eot_id|>", "<|end_of_text|>")
    assert policy.end_ids == (own, other)
    assert policy.tokenizer.pad_token_id is None
    prompt = policy.prompt(PROBLEMS[0])
    made = [
        policy.make_completion(prompt.token_ids, (40, e), None, stopped=True) for e in (own, other)
    ]
    assert {c.text for c in made} == {policy.tokenizer.decode([40])}
    # Every token is as likely as any other.
    with torch.no_grad():
        policy.model.get_input_embeddings().weight.zero_()
    sampling = Sampling(temperature=1.0, max_new_tokens=40, seed=0)
    [drawn] = policy.generate_shared([prompt], 64, sampling)
    lasts = [c.token_ids[-1] for c in drawn if c.finish_reason == "stop"]
    assert {own, other} == set(lasts)
    for c in drawn:
        assert not {own, other} & set(c.token_ids[:-1])
        assert str(policy.tokenizer.decode(list(c.token_ids))).startswith(c.text)


def test_a_template_of_a_text_model_ends_answers_before_its_tokenizer_knows(tmp_path: Path) -> None:
    # Qwen2.5's base models: the end of a text is their tokenizer's end, not that of an answer.
    policy = of("qwen2", tmp_path / "a")
    policy.tokenizer.eos_token = "<|endoftext|>"
    policy.model.generation_config.eos_token_id = None
    again = TransformersPolicy(policy.model, policy.tokenizer, layout="dafny")
    assert list(again.end_ids) == ids_of(policy, "<|im_end|>", "<|endoftext|>")
    plain = TransformersPolicy(policy.model, policy.tokenizer, layout="plain")
    assert list(plain.end_ids) == ids_of(policy, "<|endoftext|>")


@EVERY
def test_files_and_numbers_of_a_folder(family: Family, tmp_path: Path) -> None:
    folder = write_checkpoint(family, tmp_path / "a")
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    assert len(set(index["weight_map"].values())) > 2
    assert json.loads((folder / "config.json").read_text())["dtype"] == "bfloat16"
    policy = opened(folder)
    assert {p.dtype for p in policy.model.parameters()} == {torch.float32}
    # Experts by the names of the family's checkpoints, and nothing of tied weights twice.
    assert set(checkpoint_weights(policy.model)) == set(index["weight_map"])
    half = load_policy(folder, PolicyConfig(path=str(folder)), device="cpu", precision="bf16")
    assert {p.dtype for p in half.model.parameters()} == {torch.bfloat16}
    # Positions keep their float32 frequencies.
    frequencies = [b for name, b in half.model.named_buffers() if name.endswith("inv_freq")]
    assert {b.dtype for b in frequencies} == {torch.float32}
    pairs = zip(policy.model.parameters(), half.model.parameters(), strict=True)
    assert all(torch.equal(a.bfloat16(), b) for a, b in pairs)


@pytest.mark.parametrize("faster", [True, False])
def test_the_number_type_follows_the_checkpoint_and_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faster: bool
) -> None:
    monkeypatch.setattr("proverrl.policy.loading.bfloat16_is_faster", lambda: faster)
    half = write_checkpoint(BY_NAME["qwen2"], tmp_path / "half")
    AutoModelForCausalLM.from_pretrained(half, dtype=torch.float32).save_pretrained(tmp_path / "w")

    def choose(device: str, path: str, asked: str = "auto") -> str:
        tables = {"policy": {"path": path}, "learner": {"precision": asked}}
        return choose_precision(parse_config(tables, source="test"), device)

    assert choose("cpu", str(half)) == ("bf16" if faster else "fp32")
    assert choose("cpu", str(half), "fp32") == "fp32"
    assert choose("cpu", str(tmp_path / "w")) == "fp32"
    assert choose("cpu", "") == "fp32"
    assert choose("cuda:0", str(tmp_path / "w")) == "bf16"
    assert choose("cuda", "") == "fp32"
    assert choose("cpu", "", "bf16") == "bf16"


def test_a_run_goes_on_with_the_number_type_that_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = write_checkpoint(BY_NAME["qwen2"], tmp_path / "half")
    tables = {"policy": {"path": str(half)}, "run": str(tmp_path / "run")}
    config = parse_config(tables, source="test")
    monkeypatch.setattr("proverrl.policy.loading.bfloat16_is_faster", lambda: False)
    begun = settle(config)
    assert begun.learner.precision == "fp32"
    (tmp_path / "run").mkdir()
    write_resolved(tmp_path / "run", begun, toolchain="", engine="")
    monkeypatch.setattr("proverrl.policy.loading.bfloat16_is_faster", lambda: True)
    assert settle(config) == begun
    check_resumable(tmp_path / "run", settle(config))
    other = parse_config(tables | {"run": str(tmp_path / "other")}, source="test")
    assert settle(other).learner.precision == "bf16"
    # Another checkpoint that is evaluated in the same folder has a number type of its own.
    moved = half.rename(tmp_path / "moved")
    tables_of_moved = tables | {"policy": {"path": str(moved)}}
    assert settle(parse_config(tables_of_moved, source="test")).learner.precision == "bf16"
    moved.rename(half)
    # A run of before a key was there goes on with its default.
    stored = json.loads((tmp_path / "run" / "resolved.json").read_text())
    del stored["config"]["policy"]["examples"]
    (tmp_path / "run" / "resolved.json").write_text(json.dumps(stored))
    check_resumable(tmp_path / "run", settle(config))
    more = parse_config(tables | {"policy": {"path": str(half), "examples": 2}}, source="test")
    with pytest.raises(RunError, match=r"was begun with policy.examples = 0, now it is 2"):
        check_resumable(tmp_path / "run", settle(more))


@EVERY
def test_packed_rows_are_padded_rows(family: Family, tmp_path: Path) -> None:
    # Far apart in position, so that scaled rotations show; experts see tokens, not rows.
    policy = opened(write_checkpoint(family, tmp_path / "a"))
    size = len(policy.tokenizer)
    prompt = tuple((7 * i) % size for i in range(300))
    samples = [
        build_replay_sample(prompt, tuple((11 * i + s) % size for i in range(20 + 90 * s)))
        for s in range(3)
    ]
    expected = [score_rows(policy.model, [s.token_ids])[0][len(prompt) - 1 :] for s in samples]
    with torch.no_grad():
        found, _ = packed_logprobs(policy.model, pack_rows(samples), temperature=1.0)
    assert found.tolist() == pytest.approx([v for row in expected for v in row], abs=FLOAT32)


def test_words_that_the_model_does_not_have_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"token number 424, and the model's embedding ends at 421"
    ):
        of("qwen2", tmp_path / "a", spare=-3)


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    """Change the weights of a checkpoint, which become one file."""
    weights = {k: v for file in folder.glob("*.safetensors") for k, v in load_file(file).items()}
    for file in [*folder.glob("*.safetensors"), *folder.glob("*.index.json")]:
        file.unlink()
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def test_weights_that_cannot_be_those_of_a_model_are_refused(tmp_path: Path) -> None:
    def drop(weights: dict[str, torch.Tensor]) -> None:
        del weights["model.layers.1.mlp.up_proj.weight"]

    def spoil(weights: dict[str, torch.Tensor]) -> None:
        weights["model.layers.0.mlp.up_proj.weight"][0, 0] = torch.nan

    def quantise(weights: dict[str, torch.Tensor]) -> None:
        name = "model.layers.0.mlp.up_proj.weight"
        weights[name] = (weights[name] * 1000).round().to(torch.int8)

    def cut(weights: dict[str, torch.Tensor]) -> None:
        name = "model.layers.0.mlp.up_proj.weight"
        weights[name] = weights[name][:-1].clone()

    for number, (change, said) in enumerate(
        (
            (drop, r"lacks weights: model\.layers\.1\.mlp\.up_proj\.weight"),
            (spoil, r"not all numbers: model\.layers\.0\.mlp\.up_proj\.weight"),
            (
                quantise,
                r"all whole numbers: model\.layers\.0\.mlp\.up_proj\.weight; they are",
            ),
            (cut, r"cannot be loaded"),
        )
    ):
        folder = write_checkpoint(FAMILIES[1], tmp_path / str(number))
        rewrite(folder, change)
        with pytest.raises(UsageError, match=rf"policy\.path '.*{number}.*' ?:? ?.*{said}"):
            load_policy(folder, PolicyConfig(), device="cpu")


def test_weights_without_a_place_are_told(tmp_path: Path) -> None:
    folder = write_checkpoint(FAMILIES[1], tmp_path / "more")
    rewrite(folder, lambda weights: weights.update(stray=torch.zeros(2)))
    with pytest.warns(RuntimeWarning, match=r"config\.json has no place for: stray"):
        load_policy(folder, PolicyConfig(), device="cpu")


def test_a_checkpoint_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    folder = write_checkpoint(FAMILIES[1], tmp_path / "mute")
    for file in folder.glob("*token*"):
        file.unlink()
    with pytest.raises(UsageError, match=r"no tokenizer|cannot be loaded"):
        load_policy(folder, PolicyConfig(), device="cpu")


@pytest.mark.parametrize("method", ["bitsandbytes", "gptq", "awq", "compressed-tensors"])
def test_a_quantised_checkpoint_is_refused(method: str, tmp_path: Path) -> None:
    folder = write_checkpoint(FAMILIES[1], tmp_path / "small")
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": method, "load_in_4bit": True, "bits": 4}
    (folder / "config.json").write_text(json.dumps(config))
    said = rf"policy\.path '.*small' is quantised \({method}\), .*; take the unquantised weights"
    with pytest.raises(UsageError, match=said):
        load_policy(folder, PolicyConfig(), device="cpu")


def test_adapters_are_loaded_with_what_they_stand_on(tmp_path: Path) -> None:
    pytest.importorskip("peft", reason='needs peft: pip install "proverrl[lora]"')
    base = write_checkpoint(FAMILIES[1], tmp_path / "base")
    model = load_policy(base, PolicyConfig(), device="cpu").model
    for number, stands_on in enumerate((base, tmp_path / "0")):
        attach_adapter(model, LoraConfig(rank=2), seed=number, base=str(stands_on))
        for weight in adapter_weights(model).values():
            weight.add_(0.01)
        save_adapter(model, tmp_path / str(number))
        merge_adapter(model)
    loaded = load_policy(tmp_path / "1", PolicyConfig(), device="cpu").model
    first = load_policy(base, PolicyConfig(), device="cpu").model
    name = "model.layers.0.mlp.up_proj.weight"
    assert all(weight.requires_grad for weight in loaded.parameters())
    for key, weight in model.state_dict().items():
        assert torch.allclose(loaded.state_dict()[key], weight, atol=FLOAT32)
    assert not torch.allclose(first.state_dict()[name], model.state_dict()[name], atol=FLOAT32)


def test_an_adapter_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("peft", reason='needs peft: pip install "proverrl[lora]"')
    base = write_checkpoint(FAMILIES[1], tmp_path / "base")
    model = load_policy(base, PolicyConfig(), device="cpu").model
    attach_adapter(model, LoraConfig(rank=2), seed=0, base="../base")
    adapter = tmp_path / "adapter"
    save_adapter(model, adapter)
    load_policy(adapter, PolicyConfig(), device="cpu")
    path = adapter / "adapter_model.safetensors"
    weights = load_file(path)
    for changed in (
        weights | {name.replace(".0.", ".7."): w.clone() for name, w in weights.items()},
        {name.replace("model.model.", "model.other."): w for name, w in weights.items()},
        dict(list(weights.items())[2:]),
        {name: torch.cat([w, w]) for name, w in weights.items()},
    ):
        save_file(changed, path)
        with pytest.raises(UsageError, match=r"adapter' cannot be merged into its base: \S"):
            load_policy(adapter, PolicyConfig(), device="cpu")
    save_file(weights, path)
    config = json.loads((adapter / "adapter_config.json").read_text())
    for key, value in (("r", "x"), ("lora_alpha", None), ("target_modules", "((")):
        (adapter / "adapter_config.json").write_text(json.dumps(config | {key: value}))
        with pytest.raises(UsageError, match=r"adapter' cannot be merged into its base: \S"):
            load_policy(adapter, PolicyConfig(), device="cpu")
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    # A name that stands nowhere here would be asked of the hub.
    path.unlink()
    with pytest.raises(UsageError, match=r"it holds no adapter_model\.safetensors"):
        load_policy(adapter, PolicyConfig(), device="cpu")


@pytest.mark.parametrize(
    ("file", "changed", "said"),
    [
        ("config.json", {"hidden_size": "64"}, "cannot be loaded as a checkpoint"),
        ("config.json", {"num_attention_heads": 0}, "cannot be loaded as a checkpoint"),
        ("config.json", {"compression_config": {"quant_method": "packed"}}, "quantised .packed."),
        ("generation_config.json", {"eos_token_id": "x"}, "has the end token 'x'"),
    ],
)
def test_a_setting_that_cannot_be_is_one_sentence(
    tmp_path: Path, file: str, changed: dict[str, Any], said: str
) -> None:
    folder = write_checkpoint(BY_NAME["qwen2"], tmp_path / "a")
    settings = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps(settings | changed))
    with pytest.raises(UsageError, match=said):
        load_policy(folder, PolicyConfig(), device="cpu")


@pytest.mark.filterwarnings("ignore:.*(tied layer|embedding layers found)")
def test_an_adapter_on_a_head_that_is_the_embedding_too_is_refused(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason='needs peft: pip install "proverrl[lora]"')
    base = write_checkpoint(FAMILIES[1], tmp_path / "base")
    model = load_policy(base, PolicyConfig(), device="cpu").model
    for tied in (False, True):
        model.config.tie_word_embeddings = tied
        if tied:
            model.lm_head.weight = model.get_input_embeddings().weight
        model.save_pretrained(base)
        wrapped = AutoModelForCausalLM.from_pretrained(base)
        config = peft.LoraConfig(r=2, target_modules=["lm_head", "q_proj"])
        peft.get_peft_model(wrapped, config).save_pretrained(tmp_path / "adapter")
        if tied:
            with pytest.raises(UsageError, match="lm_head shares its weights with another layer"):
                load_policy(tmp_path / "adapter", PolicyConfig(), device="cpu")
        else:
            load_policy(tmp_path / "adapter", PolicyConfig(), device="cpu")


def test_an_adapter_of_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "adapter_config.json"
    for text, said in (
        ('{"peft_type": "LORA"}', "does not say on which model the adapter stands"),
        ("[]", "does not say on which model the adapter stands"),
        ("{", "is no JSON"),
        (json.dumps({"base_model_name_or_path": "."}), "an adapter that stands on itself"),
    ):
        path.write_text(text)
        with pytest.raises(UsageError, match=said):
            load_policy(tmp_path, PolicyConfig(), device="cpu")
    path.write_text(
        json.dumps({"peft_type": "LORA", "base_model_name_or_path": str(tmp_path / "b")})
    )
    said = r"policy\.path '.*' is an adapter, and its base '.*b': there is no folder"
    with pytest.raises(UsageError, match=said):
        load_policy(tmp_path, PolicyConfig(), device="cpu")


def test_a_gguf_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"small\.gguf' is a GGUF file, .*; name the model that it"
    ):
        load_policy(tmp_path / "small.gguf", PolicyConfig(), device="cpu")


def test_capped_attention_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="Gemma3ForCausalLM caps the logits of its attention at 50"
    ):
        of("gemma3", tmp_path / "a", attn_logit_softcapping=50.0)


def test_a_temperature_without_sampling_is_written_again(tmp_path: Path) -> None:
    folder = write_checkpoint(BY_NAME["qwen3"], tmp_path / "a")
    path = folder / "generation_config.json"
    flawed = {**json.loads(path.read_text()), "do_sample": False, "temperature": 0.6, "top_p": 0.9}
    path.write_text(json.dumps(flawed))
    opened(folder).save(tmp_path / "b")
    merge_policies(folder, tmp_path / "b", alpha=0.5, out=tmp_path / "c")
    for name in "bc":
        written = json.loads((tmp_path / name / "generation_config.json").read_text())
        assert written == {**flawed, "do_sample": True}


@pytest.mark.slow
def test_from_the_command_line_on_real_dafny(tmp_path: Path) -> None:
    folder = write_checkpoint(BY_NAME["gemma3"], tmp_path / "base")
    for split, count in (("train", 10), ("heldout", 2)):
        lines = (CURRICULUM / f"{split}.jsonl").read_text("utf-8").splitlines(keepends=True)
        chosen = [line for line in lines if "l1_acc" in line][:count]
        (tmp_path / f"{split}.jsonl").write_text("".join(chosen), "utf-8")
    words = [f"problems.{name}={tmp_path / name}.jsonl" for name in ("train", "heldout")]
    words += [f"policy.path={folder}", "policy.layout=dafny", f"run={tmp_path / 'run'}"]
    words += ["warm_start.references_per_level={1=8}", "warm_start.steps=40"]
    words += ["warm_start.optimizer=adamw", "warm_start.learning_rate=5e-3"]
    words += ["sampling.max_new_tokens=64", "grpo.steps=1", "grpo.groups_per_step=1"]
    words += ["grpo.groups_per_draw=2", "grpo.group_size=4", "grpo.max_draws_per_step=2"]
    words += ["evaluation.samples=2", "evaluation.ks=[1]", "evaluation.before=false"]
    done = CliRunner().invoke(cli, ["train", "demo", *words, "pool.workers=1"])
    assert done.exit_code == 0, done.output
    run = tmp_path / "run"
    step = step_lines(run)[0]
    assert step["verifier_calls"] > 0
    assert step["unjudged"] == {"timeout": 0, "crashed": 0}
    done = CliRunner().invoke(cli, ["eval", "--run", str(run), "-k", "1"])
    assert done.exit_code == 0, done.output
    first, second = (json.loads((run / f"evals/{n}.json").read_text()) for n in ("after", "eval"))
    assert first["verifier_calls"] > 0
    for key in ("policy", "generated_tokens", "completions", "without_candidate_share"):
        assert first[key] == second[key]
