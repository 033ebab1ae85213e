"""Statements and programs whose contract says nothing, however it is spelled, earn nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from proverrl.lab.words.emptiness import find_emptiness, mark_empty
from proverrl.lab.words.parts import find_formalizing
from proverrl.lab.words.rewards import program, statement
from proverrl.rollout.whole_proof import JudgedDraw
from proverrl.types import HOLE, Candidate, Problem, Rollout, Stage, Status, Turn, Verdict
from tests.builders import build_rollout
from tests.fake_verifier import FakeVerifier
from tests.lab.test_programs import ask
from tests.lang.dafny.test_code import LOOP
from tests.shared_verifier import ask_verifier, judge

HEAD = "method Add(n: nat, k: int) returns (r: int)"
STATED = Problem(
    "s",
    "dafny",
    "formalize",
    "",
    f"{HEAD}\n  {HOLE}\n  decreases *\n{{\n  r := Meant(n, k);\n}}\n"
    "method Meant(n: nat, k: int) returns (r: int)\n  requires k > 2\n  ensures r == n + k\n"
    "  decreases *\n{\n  r := Add(n, k);\n}\n",
    informal="`r` is `n` plus `k`, which is above 2.",
)
EMPTY_CONTRACTS = (
    "requires false\nensures r == n + k",
    "requires 1 == 2\nensures r == n + k",
    "requires n < 0\nensures r == n + k",
    "requires k > 2 && k < 2\nensures r == n + k",
    "ensures n >= n",
    "requires k > 2\nensures n >= 0",
    "requires k > 2\nensures k > 1",
    "ensures r == r + 0",
    "ensures r > 0 || r <= 0",
    "ensures r == n + k\nensures r != k + n",
    "requires k == 3\nensures k < 4 && n + 1 > 0",
)
DISGUISED = (
    "requires k > 2 && forall x: int :: x > 0\nensures r == n + k",
    "requires k > 2 && forall x: int :: x == 0\nensures r == n + k",
    "requires k > 2 && !(exists x: int :: x <= k)\nensures r == n + k",
    "requires forall f: int -> int :: f(0) == k\nensures r == n + k",
    "requires (k * k) % 4 == 2\nensures r == n + k",
    "requires (k * k * k - k) % 3 == 1\nensures r == n + k",
    "requires (iset x: int | true) == iset{}\nensures r == n + k",
    "requires exists a: nat, b: nat :: a > 0 && b > 0 && a * a == 2 * b * b\nensures r == n + k",
)
"""Dafny does not find the contradiction in what these demand."""
WEAK_CONTRACTS = (
    "ensures r >= k",
    "requires k == 3\nensures r >= 3",
    "ensures r == n + k + 1",
    "ensures r != 7",
    "requires k > 1000\nensures r == n + k",
    "requires n % 7 == 3 && k < -1\nensures r == n",
)

READ = Verdict(Status.REJECTED, stage=Stage.PROVER)
UNREAD = Verdict(Status.REJECTED, stage=Stage.AUDIT)


def roll(problem: Problem, bodies: Sequence[str], verdicts: Sequence[Verdict]) -> JudgedDraw:
    completion = build_rollout(problem, 0, Status.REJECTED).turns[0].completion
    turns = [
        Turn(completion, Candidate(problem, body), verdict)
        for body, verdict in zip(bodies, verdicts, strict=True)
    ]
    rollouts = (Rollout(f"r{i}", problem, "solver", (turn,)) for i, turn in enumerate(turns))
    return JudgedDraw(tuple(rollouts), len(turns))


def mark(problem: Problem, bodies: Sequence[str]) -> JudgedDraw:
    """With real Dafny."""
    draw = roll(problem, bodies, judge(problem, bodies))
    (marked,) = ask_verifier(lambda verifier: mark_empty([draw], verifier, deadline_seconds=60))
    return marked


@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_a_contract_that_says_nothing_earns_nothing_however_it_is_spelled() -> None:
    empty = [*EMPTY_CONTRACTS, *DISGUISED]
    marked = mark(STATED, [*empty, *WEAK_CONTRACTS])
    earned = [statement(rollout).total for rollout in marked.rollouts]
    assert earned == [0.0] * len(empty) + [1.0] * len(WEAK_CONTRACTS)
    assert not any(rollout.status is Status.PROVED for rollout in marked.rollouts)
    # Beside the first call of each: one question for a demand that no call meets, which ends it
    # there; after it one for what promises nothing, else two.
    num_demanding = len(DISGUISED) + 7 + 3
    num_not_met = len(DISGUISED) + 4
    num_idle = len(EMPTY_CONTRACTS) - 4 - 1
    num_all = len(empty) + len(WEAK_CONTRACTS)
    num_asked_twice = num_all - num_not_met - num_idle
    assert marked.num_calls == num_all + num_demanding + num_idle + 2 * num_asked_twice


@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_code_for_a_contract_that_says_nothing_earns_nothing() -> None:
    empty = (
        f"requires k > 2 && k < 2\nensures r == 7 * n + k\n{LOOP}",
        "requires 1 == 2\nensures r == 7 * n + k\n{ }",
        "ensures n >= n\n{ r := 0; }",
        "requires k > 2\nensures k > 1\n{ r := 0; }",
        "requires n < 0\nensures r == 7 * n + k\n{ }",
        "ensures r > 0 || r <= 0\n{ assert 7 * n < r; }",
        "requires forall x: int :: x > 0\nensures r == 0\n{ r := 0; }",
        "requires (k * k) % 4 == 2\nensures r == 0\n{ r := 0; }",
    )
    weak = ("ensures r >= k\n{ r := k; }", f"requires k == 3\nensures r == 7 * n + k\n{LOOP}")
    marked = mark(ask(), [*empty, *weak])
    earned = [program(r).total for r in marked.rollouts]
    assert earned == [0.0] * len(empty) + [0.6, 0.6]


def test_what_could_not_be_judged_is_not_shown_to_say_anything() -> None:
    formalizing = find_formalizing("dafny")
    assert formalizing is not None
    body = WEAK_CONTRACTS[0]
    for status, reason, num_calls in (
        (Status.REJECTED, "", 2),
        (Status.EXHAUSTED, "", 2),
        (Status.PROVED, "promises nothing", 1),
        (Status.CRASHED, "", 1),
        (Status.TIMEOUT, "", 1),
    ):
        verifier = FakeVerifier(lambda _, status=status: status)  # type: ignore[misc]
        found = asyncio.run(find_emptiness(formalizing, STATED, body, verifier, deadline_seconds=1))
        assert (found.reason, found.num_calls) == (reason, num_calls)
        assert (found.unjudged and found.unjudged.status) == (None if status.judged else status)
        draw = roll(STATED, [body], [READ])
        (marked,) = asyncio.run(mark_empty([draw], verifier, deadline_seconds=1))
        (rollout,) = marked.rollouts
        # It leaves its group, as all else that is not judged; it is neither paid nor punished.
        assert rollout.status.judged is status.judged
        assert rollout.turns[-1].verdict == (READ if status.judged else found.unjudged)
        assert bool(rollout.marks) is bool(reason)
        assert marked.num_calls == draw.num_calls + num_calls


def test_only_what_would_earn_something_for_its_form_is_asked_about() -> None:
    verifier = FakeVerifier(lambda candidate: Status.PROVED)
    verdicts = [
        Verdict(Status.PROVED, stage=Stage.PROVER, checks=("entries:2",)),
        UNREAD,
        Verdict(Status.TIMEOUT),
        READ,
        READ,
    ]
    bodies = [WEAK_CONTRACTS[0]] * 3 + [WEAK_CONTRACTS[1]] * 2
    draw = roll(STATED, bodies, verdicts)
    (marked,) = asyncio.run(mark_empty([draw], verifier, deadline_seconds=1))
    found = [bool(rollout.marks) for rollout in marked.rollouts]
    assert found == [False, False, False, True, True]
    # Two rollouts wrote the same, which is asked once.
    assert marked.num_calls == draw.num_calls + 1
    # A verdict is what it was, and so is a rollout of a problem that asks for a proof.
    assert [rollout.turns[-1].verdict for rollout in marked.rollouts] == verdicts
    proof = build_rollout(replace(STATED, kind="statements"), 0, Status.REJECTED)
    other = JudgedDraw((proof,), 1)
    assert asyncio.run(mark_empty([other], verifier, deadline_seconds=1)) == [other]
