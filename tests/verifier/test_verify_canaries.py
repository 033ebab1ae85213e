"""Canaries: false statements among the candidates; one that is accepted stops everything."""

import asyncio

import pytest

from proverrl.errors import CanaryError, ToolchainError, UsageError
from proverrl.lang import OURS, find_language
from proverrl.lang.open import open_verifier
from proverrl.types import Candidate, Status, Verdict
from proverrl.verifier.base import CANARY_LANE, DEFAULT_LANE, Lane, LanedVerifier, PoolStats
from proverrl.verifier.cache import CachedVerifier
from proverrl.verifier.canaries import CanaryVerifier
from tests.builders import build_problem
from tests.fake_verifier import FakeVerifier

ALL = [(language, build) for language in sorted(OURS) for build in find_language(language).canaries]


class LanedFake(FakeVerifier):
    """A fake that notes the lane of every call; ``gate`` holds back all but canaries."""

    def __init__(self, answer: dict[str, Status]) -> None:
        super().__init__(lambda candidate: answer[self.name_of(candidate)])
        self.lanes: list[str] = []
        self.gate: asyncio.Event | None = None

    @staticmethod
    def name_of(candidate: Candidate) -> str:
        return "canary" if candidate.problem.id.startswith("canary-") else "other"

    async def verify(
        self, candidate: Candidate, *, deadline_seconds: float, lane: Lane = DEFAULT_LANE
    ) -> Verdict:
        self.lanes.append(lane.name)
        if self.gate is not None and lane != CANARY_LANE:
            await self.gate.wait()
        return await super().verify(candidate, deadline_seconds=deadline_seconds)

    def stats(self) -> PoolStats:
        return PoolStats(judged=self.num_calls)


def open_fake(rate: float, *, seed: int = 0, **answer: Status) -> tuple[CanaryVerifier, LanedFake]:
    fake = LanedFake({"canary": Status.REJECTED, "other": Status.PROVED} | answer)
    return CanaryVerifier(fake, find_language("dafny").canaries, rate=rate, seed=seed), fake


def candidate(number: int) -> Candidate:
    return Candidate(build_problem(f"p{number}", n=number), "invariant true")


async def ask(verifier: CanaryVerifier | CachedVerifier, number: int = 0) -> Verdict:
    return await verifier.verify(candidate(number), deadline_seconds=5)


def test_a_refused_canary_changes_nothing_and_is_counted_apart() -> None:
    async def main() -> None:
        verifier, fake = open_fake(0.5)
        assert isinstance(verifier, LanedVerifier)
        verdicts = [await ask(verifier, number) for number in range(100)]
        assert [v.status for v in verdicts] == [Status.PROVED] * 100
        assert fake.lanes.count("canaries") == fake.num_calls - 100
        assert 30 <= fake.lanes.count("canaries") <= 70

    asyncio.run(main())


def test_the_draws_depend_on_the_seed_alone() -> None:
    async def draw(seed: int) -> list[str]:
        verifier, fake = open_fake(0.3, seed=seed)
        for number in range(40):
            await ask(verifier, number)
        return [call.source for call in fake.calls]

    assert asyncio.run(draw(1)) == asyncio.run(draw(1))
    assert asyncio.run(draw(1)) != asyncio.run(draw(2))


def test_no_rate_no_canary_and_a_full_rate_every_time() -> None:
    async def main() -> None:
        none, silent = open_fake(0.0)
        every, loud = open_fake(1.0)
        for number in range(10):
            await ask(none, number)
            await ask(every, number)
        assert (silent.num_calls, loud.num_calls) == (10, 20)

    asyncio.run(main())


def test_a_verifier_that_accepts_everything_is_stopped() -> None:
    async def main() -> None:
        verifier, fake = open_fake(1.0, canary=Status.PROVED)
        with pytest.raises(CanaryError, match="false statement was called proved") as caught:
            await ask(verifier)
        assert "ensures" in str(caught.value)
        calls = fake.num_calls
        with pytest.raises(CanaryError):
            await ask(verifier)
        assert fake.num_calls == calls

    asyncio.run(main())


def test_every_caller_at_work_hears_of_it() -> None:
    async def main() -> None:
        verifier, fake = open_fake(0.2, seed=3, canary=Status.PROVED)
        fake.gate = asyncio.Event()
        asyncio.get_running_loop().call_later(0.05, fake.gate.set)
        outcomes = await asyncio.gather(
            *(ask(verifier, number) for number in range(50)), return_exceptions=True
        )
        assert [type(outcome) for outcome in outcomes] == [CanaryError] * 50

    asyncio.run(main())


def test_a_canary_that_was_not_judged_accuses_nobody() -> None:
    async def main() -> None:
        verifier, fake = open_fake(1.0, canary=Status.TIMEOUT)
        assert (await ask(verifier)).status is Status.PROVED
        assert fake.lanes.count("canaries") == 1

    asyncio.run(main())


def test_canaries_are_below_the_cache() -> None:
    async def main() -> None:
        verifier, fake = open_fake(1.0)
        cached = CachedVerifier(verifier, None, identify=lambda _: "t")
        await ask(cached)
        await ask(cached)
        assert (fake.num_calls, cached.num_hits) == (2, 1)
        await cached.verify(candidate(1), deadline_seconds=5, lane=Lane("mine"))
        assert sorted(fake.lanes) == ["", "canaries", "canaries", "mine"]

    asyncio.run(main())


def test_a_rate_that_is_none() -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        open_fake(1.5)


@pytest.mark.parametrize(("language", "build"), ALL)
def test_a_canary_belongs_to_its_language_and_varies(language: str, build: object) -> None:
    assert callable(build)
    one, two, true = build(7, 1), build(8, 2), build(7, 0)
    assert one.problem.language == two.problem.language == language
    assert len({one.source, two.source, true.source}) == 3
    assert one.problem.id.startswith("canary-")


@pytest.mark.dafny
def test_real_dafny_refuses_the_false_ones_and_proves_their_true_twins() -> None:
    try:
        verifier = open_verifier(workers=2)
    except ToolchainError as error:
        pytest.skip(str(error))
    builders = find_language("dafny").canaries

    async def judge(error: int) -> list[Status]:
        asks = (verifier.verify(build(5, error), deadline_seconds=120) for build in builders)
        return [verdict.status for verdict in await asyncio.gather(*asks)]

    async def main() -> None:
        try:
            assert await judge(0) == [Status.PROVED] * 5
            assert await judge(3) == [Status.REJECTED] * 4 + [Status.UNSOUND]
        finally:
            await verifier.aclose()

    asyncio.run(main())


@pytest.mark.dafny
def test_a_pool_of_real_dafny_counts_its_canaries() -> None:
    try:
        verifier = open_verifier(workers=1, canary_rate=1.0, seed=1)
    except ToolchainError as error:
        pytest.skip(str(error))

    async def main() -> None:
        try:
            verdict = await verifier.verify(
                find_language("dafny").canaries[0](5, 0), deadline_seconds=120
            )
            stats = verifier.stats()
            assert stats is not None
            assert (verdict.status, stats.judged, stats.canaries) == (Status.PROVED, 1, 1)
        finally:
            await verifier.aclose()

    asyncio.run(main())
