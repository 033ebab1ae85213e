"""Appeals of refused proofs: verdicts, counts, estimate, cache, and both loops."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proverrl.cli.second_look import FACTOR, SecondLook
from proverrl.config import AppealConfig, Config
from proverrl.errors import Cause, UsageError
from proverrl.jobs import train as train_module
from proverrl.lang.open import open_verifier
from proverrl.rewards import FalseNegativeRate
from proverrl.rollout.whole_proof import JudgedDraw
from proverrl.run.pipeline import Reviewer
from proverrl.statistics import clopper_pearson
from proverrl.types import HOLE, Candidate, Diagnostic, Obligations, Problem, Stage, Status, Verdict
from proverrl.verifier.base import DEFAULT_LANE, Lane
from proverrl.verifier.cache import Appeals, CachedVerifier, was_overturned
from tests.builders import build_problem, build_rollout
from tests.fake_verifier import FakeVerifier
from tests.run.test_grpo import (
    StubVerifier,
    judge,
    make_config,  # noqa: F401  (a fixture)
    run,
    same,
    state_of,
    step_lines,
    weights,
)

ALWAYS = AppealConfig(rate=1.0)


def build_draw(name: str, *statuses: Status) -> JudgedDraw:
    """Rollouts ``body 0``, ``body 1`` and so on with these verdicts."""
    problem = build_problem(name)
    rollouts = tuple(build_rollout(problem, i, status) for i, status in enumerate(statuses))
    return JudgedDraw(rollouts, len(rollouts))


P, R, E, U = Status.PROVED, Status.REJECTED, Status.EXHAUSTED, Status.UNSOUND


def test_an_audit_corrects_the_rollout_and_is_counted_by_hand() -> None:
    fake = FakeVerifier(lambda c: R, judge_appeal=lambda c: P if c.body == "body 1" else R)

    async def review() -> tuple[Reviewer, JudgedDraw]:
        reviewer = Reviewer(ALWAYS, seed=0, appeal=lambda c: fake.appeal(c, deadline_seconds=1.0))
        return reviewer, await reviewer.review(build_draw("p", P, R, E, U))

    reviewer, reviewed = asyncio.run(review())
    assert [r.status for r in reviewed.rollouts] == [P, P, E, U]
    # What is unsound by its text is not asked about.
    assert [c.body for c in fake.appeals] == ["body 1", "body 2"]
    assert reviewer.observe(reviewed) == 2
    assert (reviewer.num_calls, reviewer.num_overturned) == (2, 1)
    # First looks, in order: proved, refused, refused; weights 0.95^2, 0.95, 1.
    p = 0.95**2 / (0.95**2 + 0.95 + 1)
    # Appeals, in order: overturned, confirmed.
    q = 0.95 / 1.95
    assert reviewer.rates.rate == pytest.approx(q * (1 - p) / (q * (1 - p) + p))
    figures = reviewer.metrics()
    assert figures["false_negative_rate"] == pytest.approx(reviewer.rates.rate)
    # Two appeals are remembered as (1.95^2) / (0.95^2 + 1) = 1.9987 of them.
    low, high = clopper_pearson(q, 1.95**2 / (0.95**2 + 1))
    assert figures["false_negative_rate_low"] == pytest.approx(low * (1 - p) / (low * (1 - p) + p))
    assert figures["false_negative_rate_high"] == pytest.approx(
        high * (1 - p) / (high * (1 - p) + p)
    )
    # The same draw again: its appeals are known, no call and no count more.
    assert reviewer.observe(reviewed) == 0


def test_draws_that_share_a_candidate_share_its_audit() -> None:
    fake = FakeVerifier(lambda c: R, judge_appeal=lambda c: P)

    async def review() -> None:
        reviewer = Reviewer(ALWAYS, seed=0, appeal=lambda c: fake.appeal(c, deadline_seconds=1.0))
        draws = await asyncio.gather(*(reviewer.review(build_draw("p", R)) for _ in range(3)))
        assert [draw.rollouts[0].status for draw in draws] == [P, P, P]
        assert [reviewer.observe(draw) for draw in draws] == [1, 0, 0]
        assert len(fake.appeals) == 1
        again = Reviewer(ALWAYS, seed=0, appeal=lambda c: fake.appeal(c, deadline_seconds=1.0))
        again.load_state_dict(json.loads(json.dumps(reviewer.state_dict())))
        assert again.metrics() == reviewer.metrics()
        # A proof that only the appeal knows is found again, and not counted again.
        found = await again.review(build_draw("p", R))
        assert found.rollouts[0].status is P
        assert again.observe(found) == 0

    asyncio.run(review())


def test_a_confirmed_failure_is_not_asked_about_again() -> None:
    fake = FakeVerifier(lambda c: R)

    async def review() -> None:
        reviewer = Reviewer(ALWAYS, seed=0, appeal=lambda c: fake.appeal(c, deadline_seconds=1.0))
        reviewer.observe(await reviewer.review(build_draw("p", R)))
        again = Reviewer(ALWAYS, seed=0, appeal=lambda c: fake.appeal(c, deadline_seconds=1.0))
        again.load_state_dict(reviewer.state_dict())
        await again.review(build_draw("p", R))
        assert len(fake.appeals) == 1

    asyncio.run(review())


def test_an_audit_that_judges_nothing_says_nothing() -> None:
    fake = FakeVerifier(lambda c: R, judge_appeal=lambda c: Status.TIMEOUT)

    async def review() -> None:
        reviewer = Reviewer(ALWAYS, seed=0, appeal=lambda c: fake.appeal(c, deadline_seconds=1.0))
        draw = await reviewer.review(build_draw("p", R))
        assert draw.rollouts[0].status is R
        assert reviewer.observe(draw) == 1
        assert reviewer.rates.interval == (0.0, 1.0)

    asyncio.run(review())


def test_a_share_is_audited() -> None:
    fake = FakeVerifier(lambda c: R)

    async def review() -> int:
        settings = AppealConfig(rate=0.25)
        reviewer = Reviewer(settings, seed=0, appeal=lambda c: fake.appeal(c, deadline_seconds=1.0))
        return reviewer.observe(await reviewer.review(build_draw("p", *[R] * 400)))

    # Mean 100, standard deviation sqrt(400 * 0.25 * 0.75) = 8.7.
    assert 65 < asyncio.run(review()) < 135


class Recorder(FakeVerifier):
    """Keeps the deadlines that it was given."""

    deadlines: list[float]

    async def verify(
        self, candidate: Candidate, *, deadline_seconds: float, lane: Lane = DEFAULT_LANE
    ) -> Verdict:
        self.deadlines = [*getattr(self, "deadlines", []), deadline_seconds]
        return await super().verify(candidate, deadline_seconds=deadline_seconds)


def test_a_proof_on_appeal_replaces_the_kept_verdict(tmp_path: Path) -> None:
    right, wrong = (Candidate(build_problem("p"), body) for body in ("right", "wrong"))

    def open_cache(inner: FakeVerifier, second: FakeVerifier | None) -> CachedVerifier:
        return CachedVerifier(
            inner,
            tmp_path / "v.sqlite",
            identify=lambda _: "t",
            appeals=None if second is None else Appeals(second, 3.0),
        )

    async def appeal() -> None:
        inner = FakeVerifier(lambda c: R)
        second = Recorder(lambda c: P if c.body == "right" else R)
        cache = open_cache(inner, second)
        for candidate in (right, wrong):
            assert (await cache.verify(candidate, deadline_seconds=2.0)).status is R
            await cache.appeal(candidate, deadline_seconds=2.0)
        assert second.deadlines == [6.0, 6.0]
        await cache.aclose()
        # Another process: the file has the proof, and says how it was found.
        cache = open_cache(FakeVerifier(lambda c: R), None)
        verdict = await cache.verify(right, deadline_seconds=2.0)
        assert verdict.status is P
        assert verdict.at_limit
        assert was_overturned(verdict)
        assert (await cache.verify(wrong, deadline_seconds=2.0)).status is R
        assert cache.num_hits == 2
        with pytest.raises(UsageError, match="hears no appeals"):
            await cache.appeal(wrong, deadline_seconds=2.0)
        await cache.aclose()

    asyncio.run(appeal())


@pytest.mark.parametrize(
    ("first", "again", "seconds", "status", "at_limit", "said"),
    [
        (P, P, 9.0, P, False, []),
        (E, P, 0.1, P, True, []),
        (
            E,
            E,
            0.1,
            E,
            True,
            ["at the limit: --rlimit 6000000 and twice that do not suffice; raise it"],
        ),
        (E, R, 0.1, R, True, []),
        (E, Status.TIMEOUT, 0.1, E, True, None),
        (R, P, 0.09, R, False, []),
        (R, P, 0.1, P, True, []),
        (R, E, 0.1, E, True, None),
        (R, R, 9.0, R, False, []),
        (U, P, 9.0, U, False, []),
    ],
)
def test_what_may_have_failed_at_the_limit_is_judged_again(
    first: Status,
    again: Status,
    seconds: float,
    status: Status,
    at_limit: bool,
    said: list[str] | None,
) -> None:
    class Fixed(FakeVerifier):
        async def verify(
            self, candidate: Candidate, *, deadline_seconds: float, lane: Lane = DEFAULT_LANE
        ) -> Verdict:
            found = await super().verify(candidate, deadline_seconds=deadline_seconds)
            return replace(
                found, seconds=seconds, stage=Stage.PROVER, obligations=(Obligations("M", 1, 0),)
            )

    async def look() -> Verdict:
        cache = CachedVerifier(
            Fixed(lambda c: first),
            None,
            identify=lambda _: "t",
            appeals=Appeals(Fixed(lambda c: again), FACTOR),
        )
        looking = SecondLook(cache, 6_000_000)
        return await looking.verify(Candidate(build_problem("p"), ""), deadline_seconds=2.0)

    verdict = asyncio.run(look())
    assert (verdict.status, verdict.at_limit) == (status, at_limit)
    if said is not None:
        assert [d.message for d in verdict.diagnostics][: len(said)] == said


@pytest.mark.parametrize("rlimit", [300_000, None])
@pytest.mark.parametrize(
    ("status", "cause", "expected"),
    [
        (R, "stalled", Status.TIMEOUT),
        (Status.TIMEOUT, "deadline", Status.TIMEOUT),
        (R, "out-of-memory", R),
        (Status.UNCONFIRMED, "deadline", Status.UNCONFIRMED),
    ],
)
def test_what_runs_out_of_time_is_no_wrong_proof(
    status: Status, cause: Cause, expected: Status, rlimit: int | None
) -> None:
    """Training calls a text rejected that two workers spend all of their time on."""
    first = Verdict(status, (Diagnostic("error", "said"),), cause=cause, checks=("audit",))

    async def look(first: Verdict | Status, again: Verdict | Status) -> Verdict:
        appeals = Appeals(FakeVerifier(lambda c: again), FACTOR)
        fake = FakeVerifier(lambda c: first)
        cache = CachedVerifier(fake, None, identify=lambda _: "t", appeals=appeals)
        looking = SecondLook(cache, rlimit)
        return await looking.verify(Candidate(build_problem("p"), ""), deadline_seconds=0.5)

    verdict = asyncio.run(look(first, P))
    assert (verdict.status, verdict.cause) == (expected, cause)
    if expected is Status.TIMEOUT:
        assert verdict.diagnostics[0].message == (
            "no answer in 0.5 seconds, nor in twice that; it may be a proof all the same: raise "
            "--timeout"
        )
        assert not verdict.fatal
        # Nor does it hide what the first look said.
        assert asyncio.run(look(E, first)).status is E


def test_a_kind_without_obligations_is_judged_again_only_when_exhausted() -> None:
    """Lean's own words for a limit are told apart from its errors."""

    async def look(first: Status) -> Verdict:
        found = Verdict(first, seconds=9.0, stage=Stage.PROVER)
        inner = Recorder(lambda c: P)
        cache = CachedVerifier(
            FakeVerifier(lambda c: found), None, identify=lambda _: "t", appeals=Appeals(inner, 2.0)
        )
        looking = SecondLook(cache, 300_000)
        return await looking.verify(Candidate(build_problem("p"), ""), deadline_seconds=2.0)

    assert asyncio.run(look(R)).status is R
    again = asyncio.run(look(E))
    assert (again.status, again.at_limit) == (P, True)


def forgetful(candidate: Candidate) -> Status:
    """Refuses right proofs of every second problem at first sight."""
    odd = int(candidate.problem.id[1:]) % 2 == 1
    return R if odd else judge(candidate)


@pytest.fixture
def verifiers(monkeypatch: pytest.MonkeyPatch) -> list[StubVerifier]:
    opened: list[StubVerifier] = []

    def open_stub(*_: Any, **__: Any) -> StubVerifier:
        opened.append(StubVerifier(forgetful, judge_appeal=judge))
        return opened[-1]

    monkeypatch.setattr(train_module, "open_configured", open_stub)
    return opened


APPEALING = {
    "appeal": {"rate": 1.0},
    "evaluation": {"before": False, "after": False},
}


@pytest.mark.slow
def test_a_run_learns_from_the_corrected_verdicts_and_resumes(
    make_config: Callable[..., Config],  # noqa: F811
    verifiers: list[StubVerifier],
) -> None:
    whole = run(make_config("whole", **APPEALING))
    lines = step_lines(whole)
    for step in range(1, 5):
        for row in map(
            json.loads, (whole / f"rollouts/step_{step}.jsonl").read_text().split("\n")[:-1]
        ):
            assert (row["status"] == "proved") == (row["body"] == "invariant k")
    calls, appeals = verifiers[0].calls, verifiers[0].appeals
    assert {c.key for c in appeals} <= {c.key for c in calls}
    assert len(appeals) == len({c.key for c in appeals})
    # All failures are asked about, but for those of the draw that is still in flight at the end.
    counted = lines[-1]["appeal_calls_total"]
    assert 0 < counted == sum(line["appeal_calls"] for line in lines) <= len(appeals)
    assert sum(line["verifier_calls"] for line in lines) == lines[-1]["verifier_calls_total"]
    turned = lines[-1]["appeals_overturned_total"]
    assert 0 < turned <= sum(int(c.problem.id[1:]) % 2 == 1 for c in appeals)
    last = lines[-1]
    assert (
        0.0
        < last["false_negative_rate_low"]
        < last["false_negative_rate"]
        < last["false_negative_rate_high"]
        <= 1.0
    )
    run(make_config("parts", grpo__steps=2, **APPEALING))
    shutil.rmtree(whole.parent / "parts" / "policy")
    again = run(make_config("parts", **APPEALING))
    assert same(weights(whole), weights(again))
    assert step_lines(again) == lines
    assert state_of(again, 4)["appeals"] == state_of(whole, 4)["appeals"]


@pytest.mark.slow
def test_expert_iteration_keeps_what_the_appeals_find(
    make_config: Callable[..., Config],  # noqa: F811
    verifiers: list[StubVerifier],
) -> None:
    changes = {"appeal": {"rate": 1.0}, "evaluation": {"before": False, "after": False}}
    whole = run(make_config("ei", loop="expert_iteration", **changes))
    lines = step_lines(whole)
    proofs = state_of(whole, 2)["proofs"]
    assert any(int(name[1:]) % 2 == 1 for name in proofs)
    assert {proof["body"] for kept in proofs.values() for proof in kept} == {"invariant k"}
    assert sum(line["appeal_calls"] for line in lines) == len(verifiers[0].appeals) > 0
    assert lines[-1]["verifier_calls_total"] == sum(line["verifier_calls"] for line in lines)
    run(make_config("ei2", loop="expert_iteration", expert_iteration__rounds=1, **changes))
    shutil.rmtree(whole.parent / "ei2" / "policy")
    again = run(make_config("ei2", loop="expert_iteration", **changes))
    assert same(weights(whole), weights(again))
    assert step_lines(again) == lines


def test_no_appeals_when_the_rate_is_zero(
    make_config: Callable[..., Config],  # noqa: F811
    verifiers: list[StubVerifier],
) -> None:
    evaluation = {"before": False, "after": False}
    folder = run(make_config("none", grpo__steps=1, appeal={"rate": 0.0}, evaluation=evaluation))
    assert verifiers[0].appeals == []
    (line,) = step_lines(folder)
    assert line["appeal_calls"] == 0
    assert "false_negative_rate" not in line


def test_old_averages_fade() -> None:
    rate = FalseNegativeRate()
    for _ in range(200):
        rate.proved.add(True)
        rate.overturned.add(False)
    low, high = rate.interval
    # 200 appeals, of which the average remembers 0.0975 / 0.0025 = 39: p is 1, so that nothing
    # of the verdicts is left to be wrong.
    assert (low, high) == (0.0, 0.0)
    rate.proved.add(False)
    # p = 0.95 now (weights have settled), and q lies below 1 - 0.025^(1/39) = 0.0903.
    q = 1 - 0.025 ** (1 / 39)
    assert rate.interval[1] == pytest.approx(q * 0.05 / (q * 0.05 + 0.95), rel=1e-3)


@pytest.mark.slow
@pytest.mark.dafny
def test_a_proof_that_ran_out_of_resources_is_found_on_appeal() -> None:
    text = f"lemma Hard(x: nat)\n  ensures x < 40 ==> (x * x * x - x) % 3 == 0\n{{\n  {HOLE}\n}}\n"
    candidate = Candidate(Problem("hard", "dafny", "statements", "", text), "")

    async def appeal() -> None:
        verifier = open_verifier(workers=1, rlimit=300_000, appeal_factor=10.0)
        try:
            assert (await verifier.verify(candidate, deadline_seconds=120.0)).status is E
            found = await verifier.appeal(candidate, deadline_seconds=120.0)
            assert found.status is P
            again = await verifier.verify(candidate, deadline_seconds=120.0)
            assert again == replace(found, queue_seconds=0.0)
        finally:
            await verifier.aclose()

    asyncio.run(appeal())
