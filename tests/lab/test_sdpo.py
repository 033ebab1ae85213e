"""Self-distillation in the learner: a teacher that has read the verifier's message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from proverrl.config import Config, LearnerConfig, RolloutConfig, parse_config
from proverrl.errors import UsageError
from proverrl.lab.sdpo import (
    SdpoOptions,
    SelfDistiller,
    TeacherPair,
    build_pairs,
    generalised_js,
    pick_with_tail,
)
from proverrl.learner.learner import TorchLearner
from proverrl.rollout.samples import TrainingSample
from proverrl.run.experiments import open_experiments
from proverrl.types import Candidate, Completion, Diagnostic, Rollout, Status, Turn, Verdict
from tests.builders import build_problem
from tests.rollout.test_self_correct import FEEDBACK_IDS, PROBLEM_IDS, ScriptedPolicy
from tests.tiny_model import VOCABULARY, tiny_model, tiny_samples
from tests.tolerance import FLOAT32


def make_pairs(model: Any, *, told: bool = True) -> list[TeacherPair]:
    """The tiny samples, longest first, with two tokens of feedback in the teacher's prompt."""
    pairs = []
    for sample in reversed(tiny_samples(model)):
        prompt = sample.token_ids[: sample.prompt_length]
        pairs.append(TeacherPair(sample, prompt + ((5, 6) if told else ())))
    return pairs


def logits_after(model: Any, prompt: tuple[int, ...], sample: TrainingSample) -> torch.Tensor:
    """Logits for each new token of a sample after a prompt, by a plain forward pass."""
    new = sample.token_ids[sample.prompt_length :]
    logits = model(input_ids=torch.tensor([prompt + new])).logits[0].float()
    kept: torch.Tensor = logits[len(prompt) - 1 : -1]
    return kept


def expected_loss(model: Any, teacher: Any, pairs: list[TeacherPair], alpha: float) -> float:
    total, count = 0.0, 0
    for pair in pairs:
        sample = pair.sample
        own = logits_after(model, sample.token_ids[: sample.prompt_length], sample)
        student = torch.log_softmax(own, -1)
        wanted = torch.log_softmax(logits_after(teacher, pair.teacher_prompt, sample), -1)
        top = student.topk(4, -1).indices
        js = generalised_js(pick_with_tail(student, top), pick_with_tail(wanted, top), alpha)
        ids = torch.tensor(sample.token_ids[sample.prompt_length :])
        picked = student.gather(-1, ids[:, None]).squeeze(-1)
        sampled = torch.tensor(sample.logprobs[sample.prompt_length :])
        mask = torch.tensor(sample.loss_mask[sample.prompt_length :])
        total += float((js * (picked - sampled).exp().clamp(max=2.0) * mask).sum().detach())
        count += int(mask.sum())
    return total / count


@pytest.mark.parametrize("max_tokens", [1, 30, 10_000])
def test_the_loss_is_the_mean_divergence_whatever_the_batches(max_tokens: int) -> None:
    model, other = tiny_model(), tiny_model(seed=1)
    settings = SdpoOptions(weight=0.3, alpha=0.5, top_tokens=4)
    distiller = SelfDistiller(other, settings, temperature=1.0)
    pairs = make_pairs(model)
    figures = distiller.backward(model, pairs, mine=pairs, max_tokens=max_tokens)
    found = figures["distill_loss"]
    assert figures["loss"] == pytest.approx(0.3 * found)
    assert found == pytest.approx(expected_loss(model, other, pairs, 0.5), abs=FLOAT32)
    assert found > 1e-3
    assert all(p.grad is None for p in distiller.teacher.parameters())


def test_a_teacher_that_was_told_nothing_new_teaches_nothing() -> None:
    model = tiny_model()
    distiller = SelfDistiller(model, SdpoOptions(weight=1.0), temperature=1.0)
    alike, told = make_pairs(model, told=False), make_pairs(model)
    same = distiller.backward(model, alike, mine=alike, max_tokens=100)["distill_loss"]
    gradient = max(float(p.grad.abs().max()) for p in model.parameters() if p.grad is not None)
    assert same == pytest.approx(0.0, abs=1e-6)
    assert gradient < FLOAT32
    model.zero_grad(set_to_none=True)
    assert distiller.backward(model, told, mine=told, max_tokens=100)["distill_loss"] > 1e-3


def build_learner(model: Any, groups_per_update: int = 0) -> TorchLearner:
    distiller = SelfDistiller(model, SdpoOptions(weight=0.5, teacher_rate=0.25), temperature=1.0)
    settings = LearnerConfig(learning_rate=1e-2, groups_per_update=groups_per_update)
    return TorchLearner(model, settings, temperature=1.0, terms={"sdpo": distiller})


def list_teacher(learner: TorchLearner) -> list[torch.Tensor]:
    distiller = learner.terms["sdpo"]
    assert isinstance(distiller, SelfDistiller)
    return list(distiller.teacher.parameters())


@pytest.mark.slow
def test_the_teacher_follows_each_update_and_is_saved(tmp_path: Path) -> None:
    model = tiny_model()
    before = [p.detach().clone() for p in model.parameters()]
    learner = build_learner(model)
    metrics = learner.step(tiny_samples(model), items={"sdpo": make_pairs(model)})
    assert metrics["distill_loss"] > 1e-3
    teacher = list_teacher(learner)
    for old, mine, new in zip(before, teacher, model.parameters(), strict=True):
        assert torch.allclose(mine, 0.75 * old + 0.25 * new.detach(), atol=1e-7)
    learner.save(tmp_path / "learner.pt")
    again = build_learner(tiny_model(seed=3))
    again.load(tmp_path / "learner.pt")
    for saved, mine in zip(teacher, list_teacher(again), strict=True):
        assert torch.equal(saved, mine)


def test_pairs_are_dealt_out_once_and_change_the_update() -> None:
    weights = []
    for given in ({}, {"sdpo": make_pairs(tiny_model())}):
        model = tiny_model()
        metrics = build_learner(model, 1).step(tiny_samples(model), items=given)
        assert ("distill_loss" in metrics) == bool(given)
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert float((weights[0] - weights[1]).abs().max()) > 1e-4
    assert VOCABULARY == 24


def build_rollout(index: int, status: Status, *, said: bool = True) -> Rollout:
    problem = build_problem("p")
    error = (Diagnostic("error", "no", 1, 0, body_line=1, body_column=0),)
    proved = status is Status.PROVED
    verdict = Verdict(status, error if said and not proved else (), checks=("audit",))
    completion = Completion("x", PROBLEM_IDS, (7, 8 + index), (-0.5, -0.25), "stop", 4)
    turn = Turn(completion, Candidate(problem, "x"), verdict)
    return Rollout(f"r{index}", problem, "solver", (turn,))


def test_pairs_are_failed_attempts_that_were_told_why() -> None:
    statuses = [Status.REJECTED, Status.PROVED, Status.TIMEOUT, Status.UNSOUND]
    rollouts = [build_rollout(i, status) for i, status in enumerate(statuses)]
    rollouts.append(build_rollout(4, Status.REJECTED, said=False))
    policy = ScriptedPolicy([])
    pairs = build_pairs(policy, rollouts, RolloutConfig(), max_pairs=9, max_tokens=99, seed=0)
    assert [pair.sample.token_ids for pair in pairs] == [
        (*PROBLEM_IDS, 7, 8),
        (*PROBLEM_IDS, 7, 11),
    ]
    assert pairs[0].teacher_prompt == (*PROBLEM_IDS, 7, 8, *FEEDBACK_IDS)
    assert pairs[0].sample.loss_mask == (0, 0, 0, 1, 1)
    assert all("no" in text for text in policy.feedback)


def test_pairs_are_at_most_so_many_and_so_long() -> None:
    rollouts = [build_rollout(i, Status.REJECTED) for i in range(6)]
    settings, policy = RolloutConfig(), ScriptedPolicy([])
    # The teacher reads 7 tokens, the sample has 5.
    assert build_pairs(policy, rollouts, settings, max_pairs=9, max_tokens=11, seed=0) == []
    some = build_pairs(policy, rollouts, settings, max_pairs=2, max_tokens=12, seed=0)
    again = build_pairs(policy, rollouts, settings, max_pairs=2, max_tokens=12, seed=0)
    assert len(some) == 2
    assert some == again


def test_the_teacher_is_a_float32_average() -> None:
    model = tiny_model().bfloat16()
    distiller = SelfDistiller(model, SdpoOptions(teacher_rate=0.25), temperature=1.0)
    weight = next(model.parameters())
    first = float(weight.detach()[0, 0])
    with torch.no_grad():
        weight[0, 0] = 2.0
    distiller.follow(model)
    teacher = next(distiller.teacher.parameters())
    assert teacher.dtype == torch.float32
    assert float(teacher[0, 0]) == pytest.approx(0.75 * first + 0.25 * 2.0, abs=1e-6)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"learner": {"shard": "fsdp2"}}, 'set learner.shard = "none"'),
        ({"loop": "expert_iteration"}, "set experiments = {}"),
    ],
)
def test_where_it_cannot_be_it_is_refused(table: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        open_experiments(parse_config({"experiments": {"sdpo": {}}, **table}, source="test"))
    assert open_experiments(Config()) == {}
