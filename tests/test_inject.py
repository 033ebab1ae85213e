"""Stored proofs put into groups without one: what is kept, what becomes of a group, its weight."""

from __future__ import annotations

import asyncio
import json
import math
import shutil
from collections.abc import Callable

import pytest

from proverrl.advantages.base import AdvantageInputs
from proverrl.advantages.group import dr_grpo
from proverrl.config import AdvantageConfig, Config, LearnerConfig, LossConfig, parse_config
from proverrl.errors import ConfigError
from proverrl.hint import Hint
from proverrl.learner.learner import TorchLearner
from proverrl.rewards.verdicts import proved_reward
from proverrl.rollout.inject import InjectStore, StoredProof, inject_proof
from proverrl.rollout.samples import build_samples
from proverrl.types import Group, Reward, Rollout, Status
from tests.builders import build_problem, build_turn
from tests.fake_verifier import FakeVerifier
from tests.test_grpo import (  # noqa: F401  (fixtures)
    StubVerifier,
    make_config,
    run,
    same,
    state_of,
    step_lines,
    verifiers,
    weights,
)
from tests.tiny_model import tiny_model, tiny_samples
from tests.tolerance import FLOAT32

PROBLEM = build_problem("p")
P, R = Status.PROVED, Status.REJECTED


def group_of(*statuses: Status, tokens: int = 2, hint: Hint | None = None) -> Group:
    rollouts = tuple(
        Rollout(f"r{i}", PROBLEM, "solver", (build_turn(PROBLEM, s, range(10, 10 + tokens)),), hint)
        for i, s in enumerate(statuses)
    )
    rewards = tuple(Reward(float(s is P)) for s in statuses)
    return Group(rollouts[0].group_key, rollouts, rewards)


def put(group: Group, store: InjectStore, status: Status = P) -> Group | None:
    verifier = FakeVerifier(lambda _: status)
    return asyncio.run(inject_proof(group, store, verifier, proved_reward, deadline_seconds=1.0))


def test_proofs_of_rarely_proved_groups_are_kept_the_shortest_one() -> None:
    store = InjectStore(0.25)
    store.observe(group_of(P, P, R, R))  # 1/2
    store.observe(group_of(R, R, R, R))
    store.observe(group_of(P, R, R, R, hint=Hint("found", 0.5, "x", (7,))))
    assert store.proofs == {}
    store.observe(group_of(P, R, R, R, tokens=5))  # 1/4
    store.observe(group_of(R, R, R, P, tokens=3))
    store.observe(group_of(R, R, R, P, tokens=4))
    assert store.proofs["p"].completion.token_ids == (10, 11, 12)


def test_a_group_without_a_proof_gets_one_in_place_of_a_failure() -> None:
    store = InjectStore(0.25)
    store.observe(group_of(P, R, R, R, tokens=3))
    failed = group_of(R, R, R, R)
    group = put(failed, store)
    assert group is not None
    assert [reward.total for reward in group.rewards] == [0.0, 0.0, 0.0, 1.0]
    assert group.rollouts[:3] == failed.rollouts[:3]
    assert group.rollouts[3].id == "r3-injected"
    assert group.mixed
    # Mean 1/4: -1/4 thrice and 3/4 for the proof, whose tokens are those that were sampled.
    (values,) = dr_grpo(AdvantageInputs([group], AdvantageConfig()))
    assert values == [[-0.25], [-0.25], [-0.25], [0.75]]
    sample = build_samples(group, values)[3]
    assert sample.token_ids == (1, 2, 3, 10, 11, 12)
    assert sample.logprobs == (0.0, 0.0, 0.0, -0.5, -0.5, -0.5)
    assert sample.advantages == (0.0, 0.0, 0.0, 0.75, 0.75, 0.75)


def test_nothing_is_put_where_it_does_not_belong() -> None:
    store = InjectStore(0.25)
    assert put(group_of(R, R), store) is None
    store.observe(group_of(P, R, R, R))
    assert put(group_of(R, P), store) is None
    assert put(group_of(R, R, hint=Hint("found", 0.5, "x", (7,))), store) is None
    # A proof that the verifier does not accept again is none.
    assert put(group_of(R, R), store, status=R) is None
    assert put(group_of(R, R), store, status=Status.TIMEOUT) is None
    assert put(group_of(R, R), store) is not None


def test_the_store_survives_json() -> None:
    store = InjectStore(0.25)
    store.observe(group_of(P, R, R, R, tokens=3))
    again = InjectStore(0.25)
    again.load_state_dict(json.loads(json.dumps(store.state_dict())))
    assert again == store
    assert isinstance(again.proofs["p"], StoredProof)


def test_an_old_proof_weighs_at_most_the_cap() -> None:
    """Its tokens were three times less likely when they were sampled: the weight 3 is cut to 2."""
    model = tiny_model()
    loss = LossConfig.model_validate({"weights": {"name": "token_truncate"}})
    learner = TorchLearner(model, LearnerConfig(), temperature=1.0, loss=loss)
    (sample, *_) = tiny_samples(model, prompts=2, each=1, shift=-math.log(3.0))[1:]
    assert all(sample.loss_mask[sample.prompt_length :])
    metrics = learner.step([sample])
    assert metrics["weight"] == pytest.approx(2.0, abs=2 * FLOAT32)
    assert metrics["sampler_ratio_max"] == pytest.approx(3.0, rel=FLOAT32)
    # The ratio of the update itself starts at 1, so that the loss is -2 A with A = 0.5.
    assert metrics["loss"] == pytest.approx(-2.0 * 0.5, abs=2 * FLOAT32)


@pytest.mark.parametrize(
    ("weights_table", "said"),
    [({"name": "none"}, "token_truncate"), ({"name": "token_truncate", "max_staleness": 3}, "0")],
)
def test_injection_without_a_cap_is_refused(weights_table: dict[str, object], said: str) -> None:
    table = {"grpo": {"inject_proofs": True}, "loss": {"weights": weights_table}}
    with pytest.raises(ConfigError, match=said):
        parse_config(table, source="test")


@pytest.mark.slow
def test_a_run_that_injects_is_counted_apart_and_resumes_bit_for_bit(
    make_config: Callable[..., Config],  # noqa: F811
    verifiers: list[StubVerifier],  # noqa: F811
) -> None:
    def config(name: str, steps: int) -> Config:
        return make_config(
            name,
            grpo={
                "steps": steps,
                "groups_per_step": 4,
                "groups_per_draw": 30,
                "group_size": 4,
                "inject_proofs": True,
            },
            loss={"weights": {"name": "token_truncate"}},
            curriculum={"name": "uniform"},
            evaluation={"before": False, "after": False, "ks": [1]},
        )

    whole = run(config("whole", 4))
    lines = step_lines(whole)
    assert sum(line.get("proofs_injected", 0) for line in lines) > 0
    for line in lines:
        path = whole / "rollouts" / f"step_{line['step']}.jsonl"
        rows = [json.loads(text) for text in path.read_text().splitlines()]
        put_in = [row for row in rows if row["rollout_id"].endswith("-injected")]
        assert len(put_in) == line.get("proofs_injected", 0)
        assert all(row["reward"] == 1.0 and row["advantage"] > 0 for row in put_in)
        own = [row for row in rows if row not in put_in]
        proved = sum(row["status"] == "proved" for row in own)
        assert line["solve_rate"] == pytest.approx(proved / len(own))
    run(config("parts", 2))
    shutil.rmtree(whole.parent / "parts" / "policy")
    again = run(config("parts", 4))
    assert same(weights(whole), weights(again))
    assert step_lines(again) == lines
    assert state_of(again, 4)["injectable"] == state_of(whole, 4)["injectable"]
