"""Self-distillation against divergences computed by hand."""

from __future__ import annotations

import math

import pytest
import torch

from proverrl.lab.sdpo import (
    SdpoOptions,
    distillation_loss,
    follow,
    generalised_js,
    pick_with_tail,
)
from tests.loss_builders import leaf, logs

P = [0.5, 0.25, 0.25]
Q = [0.25, 0.5, 0.25]


def test_ends_are_the_two_divergences() -> None:
    student, teacher = leaf(logs([0.8, 0.2])), leaf(logs([0.5, 0.5]))
    # Forward: 0.5 ln(0.5/0.8) + 0.5 ln(0.5/0.2); reverse: 0.8 ln(0.8/0.5) + 0.2 ln(0.2/0.5).
    forward = 0.5 * math.log(0.625) + 0.5 * math.log(2.5)
    reverse = 0.8 * math.log(1.6) + 0.2 * math.log(0.4)
    assert float(generalised_js(student, teacher, 0.0).detach()) == pytest.approx(forward)
    assert float(generalised_js(student, teacher, 1.0).detach()) == pytest.approx(reverse)
    with pytest.raises(ValueError, match="alpha"):
        generalised_js(student, teacher, 1.5)


def test_the_middle_is_the_mean_distance_to_the_mixture() -> None:
    # m = (0.375, 0.375, 0.25): KL(P || m) = 0.5 ln(4/3) + 0.25 ln(2/3), and the same for Q.
    half = 0.5 * math.log(4 / 3) + 0.25 * math.log(2 / 3)
    student = leaf(logs(P))
    assert float(generalised_js(student, leaf(logs(Q)), 0.5).detach()) == pytest.approx(half)
    assert float(generalised_js(student, student, 0.3).detach()) == pytest.approx(0.0, abs=1e-12)


def test_what_is_not_on_top_goes_into_one_bucket() -> None:
    logprobs = torch.tensor([logs([0.5, 0.2, 0.2, 0.1])], dtype=torch.float64)
    picked = pick_with_tail(logprobs, torch.tensor([[0, 3]]))
    assert picked.exp().tolist()[0] == pytest.approx([0.5, 0.1, 0.4])
    # Nothing is left: the tail is tiny, and its logarithm a number.
    whole = pick_with_tail(logprobs, torch.tensor([[0, 1, 2, 3]]))
    assert math.isfinite(float(whole[0, 4]))
    assert float(whole[0, 4].exp()) == pytest.approx(0.0, abs=1e-12)


def test_top_tokens_are_the_students() -> None:
    # The student's likeliest is token 0: buckets (0.5, 0.5) against (0.25, 0.75), alpha 1:
    # 0.5 ln(0.5/0.25) + 0.5 ln(0.5/0.75).
    loss = distillation_loss(
        leaf(logs(P))[None],
        leaf(logs(Q))[None],
        torch.ones(1),
        SdpoOptions(alpha=1.0, top_tokens=1),
    )
    expected = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    assert loss.tolist() == pytest.approx([expected])


def test_the_ratio_is_capped_and_the_teacher_stands_still() -> None:
    student, teacher = leaf(logs(P)), leaf(logs(Q))
    logits = student[None].repeat(3, 1)
    ratio = torch.tensor([0.5, 1.0, 7.0], dtype=torch.float64, requires_grad=True)
    loss = distillation_loss(logits, teacher[None].repeat(3, 1), ratio, SdpoOptions())
    half = 0.5 * math.log(4 / 3) + 0.25 * math.log(2 / 3)
    assert loss.tolist() == pytest.approx([0.5 * half, half, 2.0 * half])
    loss.sum().backward()  # type: ignore[no-untyped-call]
    assert teacher.grad is None
    assert ratio.grad is None
    assert student.grad is not None
    # The student is too sure of token 0, too unsure of token 1; logits that all rise do nothing.
    assert student.grad[0] > 0 > student.grad[1]
    assert float(student.grad.sum()) == pytest.approx(0.0, abs=1e-12)


def test_the_teacher_follows_slowly() -> None:
    teacher, student = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    with torch.no_grad():
        teacher.weight.fill_(1.0)
        student.weight.fill_(3.0)
    follow(teacher, student, 0.25)
    assert float(teacher.weight.detach()) == pytest.approx(1.5)
