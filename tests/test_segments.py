"""Completions that are written over several draws: the same texts, the log-probabilities of whoever
wrote each token, a reward when they are whole, and nothing lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from proverrl.config import Config, LossConfig, parse_config
from proverrl.errors import ConfigError, RecordError
from proverrl.hint import Hint
from proverrl.learner.packed_rows import gather_tokens, pack_rows
from proverrl.losses.base import LossInputs
from proverrl.losses.regularisers import select_samples
from proverrl.losses.total import compute_loss
from proverrl.policy.base import Sampler
from proverrl.policy.transformers import TransformersPolicy
from proverrl.rollout.samples import build_rollout_samples
from proverrl.rollout.segments import OpenDraws
from proverrl.rollout.whole_proof import Draw
from proverrl.run.checkpoint import dump_draws, load_draws
from proverrl.run.tally import IdleClock, Tally
from proverrl.types import Completion, Rollout, Sampling, Turn
from tests.builders import build_problem
from tests.test_grpo import (
    KILLED_RUN,
    StubVerifier,
    kill_at,
    make_config,
    run,
    same,
    state_of,
    step_lines,
    verifiers,
    weights,
)
from tests.test_policy import plain_logprobs, tiny_policy
from tests.test_vllm_policy import change, open_fake
from tests.test_vocabulary import peak_bytes
from tests.tolerance import FLOAT32

__all__ = ["make_config", "verifiers"]

ROOT = Path(__file__).resolve().parents[1]
PROBLEMS = [build_problem(f"p{i}", n=10**i) for i in range(5)]
NO_EVALUATION = {"evaluation": {"before": False, "after": False}}


def open_draws(policy: TransformersPolicy, sampler: Sampler, most: int = 12) -> OpenDraws:
    room = sampler.context_tokens
    return OpenDraws(policy, max_new_tokens=most, context_tokens=room)


def write_all(
    draws: OpenDraws, sampler: Sampler, *, n: int, segment: int, **settings: Any
) -> tuple[list[Draw], list[int]]:
    """Draws on all problems until they are whole, and how many were whole after each segment."""
    whole: list[Draw] = []
    counts = []
    for number in range(40):
        sampling = Sampling(max_new_tokens=segment, seed=number, **settings)
        problems = PROBLEMS if number == 0 else []
        whole += asyncio.run(
            draws.draw_groups(sampler, problems, n=n, sampling=sampling, name=f"{number}")
        )
        counts.append(len(whole))
        if not draws.draws:
            break
    return whole, counts


@pytest.mark.parametrize(
    ("engine", "settings"),
    [
        ("transformers", {"temperature": 0.0}),
        ("transformers", {"temperature": 1.0, "top_k": 1}),
        ("fake vllm", {"temperature": 0.0}),
    ],
)
def test_the_likeliest_texts_are_those_that_are_written_at_once(
    engine: str, settings: dict[str, Any]
) -> None:
    policy = tiny_policy()
    sampler: Sampler = policy if engine == "transformers" else open_fake(policy)[0]
    prompts = [policy.prompt(problem) for problem in PROBLEMS]
    sampling = Sampling(max_new_tokens=12, **settings)
    expected = asyncio.run(sampler.generate(prompts, n=2, sampling=sampling))
    whole, counts = write_all(open_draws(policy, sampler), sampler, n=2, segment=4, **settings)
    assert counts[-1] == len(PROBLEMS)
    assert len(counts) == 3
    found = {draw.problem.id: draw for draw in whole}
    for problem, row in zip(PROBLEMS, expected, strict=True):
        for one, other in zip(row, found[problem.id].completions, strict=True):
            assert other.token_ids == one.token_ids
            assert other.text == one.text
            assert other.finish_reason == one.finish_reason
            assert other.prompt_ids == one.prompt_ids
            assert list(other.logprobs) == pytest.approx(list(one.logprobs), abs=FLOAT32)
            sizes = [num for _, num in other.segments]
            assert sum(sizes) == len(one.token_ids)
            assert sizes[:-1] == [4] * (len(sizes) - 1)
        assert len(found[problem.id].extractions) == 2


def test_segments_follow_the_distribution_of_the_model() -> None:
    policy = tiny_policy()
    draws = open_draws(policy, policy, most=2)
    [problem, *_] = PROBLEMS
    whole: list[Draw] = []
    for seed in range(2):
        sampling = Sampling(temperature=1.0, max_new_tokens=1, seed=seed)
        whole += asyncio.run(
            draws.draw_groups(
                policy, [problem] * (1 - seed), n=4000, sampling=sampling, name=str(seed)
            )
        )
    [draw] = whole
    # Exactly: the chance of each first token, and of each second one after it.
    prompt = policy.prompt(problem).token_ids
    vocabulary = len(policy.tokenizer)
    with torch.no_grad():
        rows = torch.tensor([[*prompt, token] for token in range(vocabulary)])
        logits = policy.model(input_ids=rows).logits[..., :vocabulary]
    first, second = torch.softmax(logits[0, -2], -1), torch.softmax(logits[:, -1], -1)
    first = first * (torch.arange(vocabulary) != policy.end_id)
    expected = first @ second
    best = int(expected.argmax())
    found = [c.token_ids[1] for c in draw.completions if len(c.token_ids) == 2]
    assert found.count(best) / 4000 == pytest.approx(float(expected[best]), abs=0.02)
    for completion in draw.completions[:5]:
        assert list(completion.logprobs) == pytest.approx(
            plain_logprobs(policy, completion), abs=FLOAT32
        )


@pytest.mark.parametrize("engine", ["transformers", "fake vllm"])
def test_each_token_keeps_the_probability_of_the_policy_that_wrote_it(engine: str) -> None:
    policy = tiny_policy()
    sampler: Sampler = policy if engine == "transformers" else open_fake(policy)[0]
    draws = open_draws(policy, sampler)
    whole: list[Draw] = []
    scored: dict[tuple[int, ...], list[float]] = {}
    for version in range(3):
        sampling = Sampling(max_new_tokens=4, seed=version)
        problems = PROBLEMS if version == 0 else []
        whole += asyncio.run(draws.draw_groups(sampler, problems, n=2, sampling=sampling, name="0"))
        # What each completion's newest tokens are worth under the weights of now.
        for draw in (*whole, *draws.draws):
            for c in draw.completions:
                start = sum(num for _, num in c.segments[:version])
                before = scored.get(c.token_ids[:start], [])
                scored[c.token_ids] = before + plain_logprobs(policy, c)[start:]
        change(policy, 0.05)
        sampler.push(version + 1)
    assert not draws.draws
    completions = [c for draw in whole for c in draw.completions]
    assert any(c.segments == ((0, 4), (1, 4), (2, 4)) for c in completions)
    for c in completions:
        assert list(c.logprobs) == pytest.approx(scored[c.token_ids], abs=FLOAT32)
        assert c.policy_version == 0
    # The weights did move by more than that.
    long = next(c for c in completions if len(c.segments) == 3)
    now = plain_logprobs(policy, long)
    assert max(abs(a - b) for a, b in zip(now, long.logprobs, strict=True)) > 0.01


def test_a_completion_that_fills_the_context_is_whole() -> None:
    policy = tiny_policy()
    prompts = [policy.prompt(problem) for problem in PROBLEMS]
    longest = max(len(prompt.token_ids) for prompt in prompts)
    # The longest prompt leaves two segments, exactly.
    policy.model.config.max_position_embeddings = longest + 8
    whole, _ = write_all(open_draws(policy, policy, most=400), policy, n=8, segment=4)
    completions = [c for draw in whole for c in draw.completions]
    assert len(completions) == 8 * len(PROBLEMS)
    cut = [c for c in completions if c.finish_reason == "length"]
    assert {len(c.prompt_ids) + len(c.token_ids) for c in cut} == {longest + 8}
    policy.model.config.max_position_embeddings = longest
    whole, _ = write_all(open_draws(policy, policy), policy, n=1, segment=4)
    long = {p.problem_id for p in prompts if len(p.token_ids) == longest}
    assert 0 < len(long) < len(PROBLEMS)
    lost = {d.problem.id for d in whole if d.completions[0].finish_reason == "no_room"}
    assert lost == long


def test_open_draws_survive_a_checkpoint() -> None:
    policy = tiny_policy()
    hint = Hint("found", 0.5, "invariant", tuple(policy.tokenizer("invariant")["input_ids"]))

    def write(draws: OpenDraws, number: int) -> list[Draw]:
        sampling = Sampling(max_new_tokens=3, seed=number)
        problems = PROBLEMS[:2] if number < 2 else []
        hints = [None, hint] if problems else None
        return asyncio.run(
            draws.draw_groups(
                policy, problems, n=3, sampling=sampling, name=str(number), hints=hints
            )
        )

    unbroken, broken = open_draws(policy, policy), open_draws(policy, policy)
    assert write(unbroken, 0) == write(broken, 0)
    resumed = open_draws(policy, policy)
    stored = json.loads(json.dumps(dump_draws(broken.draws)))
    resumed.draws = load_draws(stored, {problem.id: problem for problem in PROBLEMS})
    assert resumed.draws == unbroken.draws
    assert any(draw.hint == hint for draw in resumed.draws)
    rest = [[write(draws, number) for number in range(1, 6)] for draws in (unbroken, resumed)]
    assert rest[0] == rest[1]
    assert not resumed.draws
    begun = {draw.id for draws in rest[0] for draw in draws}
    assert begun | {d.id for d in write(open_draws(policy, policy), 0)} == begun


def test_a_cancelled_draw_changes_nothing() -> None:
    policy = tiny_policy()
    draws = open_draws(policy, policy)
    sampling = Sampling(max_new_tokens=2)

    async def cancel() -> None:
        work = draws.draw_groups(policy, PROBLEMS, n=2, sampling=sampling, name="1")
        task = asyncio.create_task(work)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(draws.draw_groups(policy, PROBLEMS, n=2, sampling=sampling, name="0"))
    before = list(draws.draws)
    assert before
    asyncio.run(cancel())
    assert draws.draws == before


def two_segments(logprobs: Sequence[float], *, stopped: bool = True) -> Rollout:
    """A completion of three tokens, two of them by version 3 and one by version 5."""
    completion = Completion(
        "abc",
        (1, 2),
        (3, 4, 5),
        tuple(logprobs),
        "stop" if stopped else "length",
        3,
        segments=((3, 2), (5, 1)),
    )
    return Rollout("r", PROBLEMS[0], "solver", (Turn(completion, None, None),))


@pytest.mark.parametrize(
    ("advantage", "terms"),
    [
        # Ratios 1.2, 0.75 and 2, clipped to [0.8, 1.28]: the smaller product counts.
        (1.0, [1.2, 0.75, 1.28]),
        (-1.0, [-1.2, -0.8, -2.0]),
    ],
)
def test_loss_of_two_segments_by_hand(advantage: float, terms: list[float]) -> None:
    written = torch.tensor([0.5, 0.4, 0.25]).log()
    now = torch.tensor([0.6, 0.3, 0.5]).log().requires_grad_()
    [sample] = build_rollout_samples(two_segments(written.tolist()), [advantage])
    assert sample.versions == (3, 3, 3, 3, 5)
    assert sample.policy_version == 3
    settings = LossConfig()
    tokens = gather_tokens(pack_rows([sample]), now, torch.zeros(3), {}, {}, version=6)
    inputs = LossInputs(**tokens, batch_tokens=3, batch_samples=1, settings=settings)
    loss, _ = compute_loss(inputs)
    assert float(loss.detach()) == pytest.approx(-sum(terms) / 3, abs=1e-6)
    tally = Tally()
    tally.add_samples([sample], 6)
    figures = tally.staleness()
    # Two tokens three versions old and one that is one version old.
    assert figures["token_staleness_mean"] == pytest.approx(7 / 3)
    assert figures["token_staleness_max"] == 3


def test_tokens_older_than_the_limit_are_context_only() -> None:
    [sample] = build_rollout_samples(two_segments([-1.0, -2.0, -3.0]), [0.5])

    def keep(limit: int) -> tuple[list[tuple[int, ...]], dict[str, float]]:
        settings = LossConfig.model_validate({"weights": {"max_staleness": limit}})
        kept, counts = select_samples([sample], settings, version=6)
        return [s.loss_mask for s in kept], counts

    assert keep(0) == ([(0, 0, 1, 1, 1)], {})
    assert keep(3) == ([(0, 0, 1, 1, 1)], {"samples_too_old": 0, "tokens_too_old": 0})
    assert keep(2) == ([(0, 0, 0, 0, 1)], {"samples_too_old": 0, "tokens_too_old": 2})
    settings = LossConfig.model_validate({"weights": {"max_staleness": 2}})
    kept, counts = select_samples([sample], settings, version=8)
    assert kept == []
    assert counts == {"samples_too_old": 1, "tokens_too_old": 3}


def test_segments_must_add_up() -> None:
    turn = two_segments([-1.0, -2.0, -3.0]).turns[0]
    with pytest.raises(RecordError, match=r"segments \(\(3, 1\),\) of 3 tokens"):
        replace(turn.completion, segments=((3, 1),))


def test_occupancy_by_hand() -> None:
    clock = IdleClock()
    clock.wrote([1, 4])
    clock.wrote([2, 2], waiting=3)
    figures = clock.take_idle()
    # Five tokens in two rows of four steps, four in two rows of two.
    assert figures["row_occupancy"] == pytest.approx(9 / 12)
    assert figures["completions_waiting"] == 3
    assert "row_occupancy" not in clock.take_idle()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({"loop": "expert_iteration"}, "is for loop = \"grpo\", not 'expert_iteration'"),
        ({"rollout": {"mode": "self_correct"}}, 'is for rollout.mode = "whole_proof"'),
        ({"sampling": {"segment_tokens": 5, "max_new_tokens": 12}}, "12 is no multiple of"),
        ({"sampling": {"segment_tokens": 200}}, "max_new_tokens = 96 is no multiple of"),
        (
            {"sampling": {"segment_tokens": 48, "top_k": 4}, "grpo": {"max_staleness": 0}},
            "set sampling.segment_tokens = 0",
        ),
    ],
)
def test_where_segments_are_refused(words: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse_config({"sampling": {"segment_tokens": 48}, **words}, source="test")


def test_forty_thousand_tokens_in_segments_are_a_configuration() -> None:
    sampling = {"max_new_tokens": 40_960, "segment_tokens": 5_120}
    config = parse_config({"sampling": sampling}, source="test")
    assert config.sampling.max_new_tokens == 40_960


# Whole runs.

SEGMENTS = {"sampling": {"max_new_tokens": 8, "segment_tokens": 2}, **NO_EVALUATION}


def read_rows(folder: Path) -> list[dict[str, Any]]:
    files = sorted((folder / "rollouts").glob("step_*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("in_order", [True, False])
def test_a_run_rewards_what_is_whole_and_loses_nothing(
    make_config: Callable[..., Config],
    verifiers: list[StubVerifier],
    in_order: bool,
) -> None:
    sizes = {"steps": 6, "groups_per_step": 3, "groups_per_draw": 4, "group_size": 6}
    order = {} if in_order else {"in_order": False, "max_staleness": 3}
    folder = run(make_config("segments", **SEGMENTS, grpo={**sizes, **order}))
    rows = read_rows(folder)
    lengths = {row["completion"]["num_tokens"] for row in rows}
    assert max(lengths) > 2
    for row in rows:
        completion = row["completion"]
        assert completion["finish_reason"] == "stop" or completion["num_tokens"] == 8
        assert sum(num for _, num in row["turns"][0]["segments"]) == completion["num_tokens"]
    # Every completion of every draw is rewarded once, is on its way, or is open.
    state = state_of(folder, 6)
    flying = state["in_flight"]
    where = [row["rollout_id"] for row in rows]
    for draw in flying["draws"] + flying["open"]:
        where += [f"{draw['id']}-{i}" for i in range(len(draw["completions"]))]
    assert len(where) == len(set(where))
    drawn = state["num_draws"] - (0 if in_order or flying["drawing"] is None else 1)
    assert len(where) == drawn * 4 * 6
    lines = step_lines(folder)
    assert any(line.get("grad_norm", 0.0) > 0.0 for line in lines)
    assert any(line["token_staleness_max"] > line["token_staleness_mean"] > 0 for line in lines)
    if in_order:
        last = lines[-1]["completions_waiting"]
        assert last == sum(len(draw["completions"]) for draw in flying["open"])


@pytest.mark.slow
def test_a_run_with_segments_writes_the_same_texts_at_fixed_weights(
    make_config: Callable[..., Config], verifiers: list[StubVerifier]
) -> None:
    fixed = {"learner": {"learning_rate": 1e-30}, "curriculum": {"name": "uniform"}}
    texts: list[dict[str, set[str]]] = []
    for segment in (0, 2):
        sampling = {"max_new_tokens": 8, "segment_tokens": segment, "temperature": 1e-4}
        config = make_config(f"s{segment}", sampling=sampling, **fixed, **NO_EVALUATION)
        rows = read_rows(run(config))
        found: dict[str, set[str]] = {}
        for row in rows:
            found.setdefault(row["problem"]["id"], set()).add(row["completion"]["text"])
        texts.append(found)
    common = texts[0].keys() & texts[1].keys()
    assert len(common) > 10
    assert all(len(texts[0][name]) == 1 for name in common)
    assert all(texts[0][name] == texts[1][name] for name in common)


@pytest.mark.slow
def test_a_killed_run_with_segments_ends_like_an_unbroken_one(
    make_config: Callable[..., Config], verifiers: list[StubVerifier]
) -> None:
    whole = run(make_config("unbroken", **SEGMENTS, grpo__steps=8))
    config = make_config("killed", **SEGMENTS, grpo__steps=8)
    moments = ("checkpoints/step_000002", "checkpoints/step_000006")
    assert kill_at(moments, KILLED_RUN, config) == 2
    again = run(config)
    assert same(weights(whole), weights(again))
    assert step_lines(whole) == step_lines(again)
    assert state_of(whole, 8)["in_flight"]["open"] == state_of(again, 8)["in_flight"]["open"]
    assert state_of(whole, 8)["in_flight"]["open"]
    turns = [[row["turns"] for row in read_rows(folder)] for folder in (whole, again)]
    assert turns[0] == turns[1]


@pytest.mark.slow
@pytest.mark.dafny
def test_segments_on_real_dafny(tmp_path: Path) -> None:
    lines = (ROOT / "dafny/curriculum/train.jsonl").read_text().splitlines()
    problems = tmp_path / "problems.jsonl"
    first = [line for line in lines if '"level":1' in line][:60]
    problems.write_text("\n".join(first) + "\n")
    table = {
        "run": str(tmp_path / "run"),
        "problems": {"train": str(problems)},
        "pool": {"workers": 1, "rlimit": 1_000_000},
        "policy": {
            "layout": "canonical",
            "num_layers": 2,
            "hidden_size": 64,
            "num_heads": 2,
            "intermediate_size": 160,
        },
        "warm_start": {"references_per_level": {"1": 40}, "steps": 240, "batch_size": 8},
        "sampling": {"max_new_tokens": 96, "segment_tokens": 16},
        "curriculum": {"name": "uniform"},
        "grpo": {"steps": 3, "groups_per_step": 2, "groups_per_draw": 3, "group_size": 4},
        **NO_EVALUATION,
    }
    folder = run(parse_config(table, source="test"))
    rows = read_rows(folder)
    several = [row for row in rows if len(row["turns"][0]["segments"]) > 1]
    statuses = {row["turns"][0]["status"] for row in several}
    # Dafny proves what was written in several segments, and refuses other such texts.
    assert {"proved", "rejected"} <= statuses
    flying = state_of(folder, 3)["in_flight"]
    waiting = sum(len(draw["completions"]) for draw in flying["draws"] + flying["open"])
    assert len(rows) + waiting == state_of(folder, 3)["num_draws"] * 3 * 4


def test_memory_grows_with_what_is_written_and_not_with_the_limit() -> None:
    policy = tiny_policy()
    prompts = [policy.prompt(problem) for problem in PROBLEMS]
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
