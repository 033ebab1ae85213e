"""Routing by language: back ends open when needed, a missing one disturbs no other."""

import asyncio
from pathlib import Path

import pytest

from proverrl.errors import ToolchainError, VerifierError
from proverrl.lang.base import BackendOptions
from proverrl.lang.open import open_router
from proverrl.types import HOLE, Candidate, Problem, Status
from proverrl.verifier.base import LanedVerifier, Limits
from proverrl.verifier.cache import CachedVerifier
from proverrl.verifier.router import Backend, RoutedVerifier
from tests.instant_worker import InstantPool


def ask(language: str, body: str = "") -> Candidate:
    kind = "statements" if language == "dafny" else "tactics"
    return Candidate(Problem("p", language, kind, "", HOLE), body)


def test_each_language_goes_to_its_own_pool_when_it_is_first_needed() -> None:
    async def main() -> None:
        instant = InstantPool()
        opened: list[str] = []

        def open_dafny() -> Backend:
            opened.append("dafny")
            return Backend("dafny-x", "dafny 9", "salt-d", instant.pool)

        def open_lean() -> Backend:
            opened.append("lean")
            raise ToolchainError("Lean is not installed; run: bash scripts/setup_lean.sh")

        router = RoutedVerifier({"dafny": open_dafny, "lean": open_lean})
        assert isinstance(router, LanedVerifier)
        assert (opened, router.stats(), router.opened) == ([], None, ())
        for _ in range(2):
            verdict = await router.verify(ask("dafny"), deadline_seconds=5)
            assert verdict.status is Status.PROVED
        assert opened == ["dafny"]
        for _ in range(2):
            with pytest.raises(ToolchainError, match=r"run: bash scripts/setup_lean\.sh"):
                await router.verify(ask("lean"), deadline_seconds=5)
        assert opened == ["dafny", "lean"]
        assert router.identify(ask("dafny")) == "salt-d"
        stats = router.stats()
        assert stats is not None
        assert stats.judged == 2
        await router.aclose()
        with pytest.raises(VerifierError, match="closed"):
            await router.verify(ask("dafny"), deadline_seconds=5)

    asyncio.run(main())


def test_the_salt_of_the_back_end_is_part_of_the_key() -> None:
    async def main() -> None:
        one, two = InstantPool(), InstantPool()
        router = RoutedVerifier(
            {
                "dafny": lambda: Backend("d", "d", "salt-d", one.pool),
                "lean": lambda: Backend("l", "l", "salt-l", two.pool),
            }
        )
        cached = CachedVerifier(router, None, identify=router.identify)
        keys = {cached.make_key(ask(language)) for language in ("dafny", "lean")}
        other = CachedVerifier(router, None, identify=lambda _: "salt-e")
        assert len({*keys, other.make_key(ask("dafny"))}) == 3
        await cached.aclose()

    asyncio.run(main())


def test_a_language_without_an_opener() -> None:
    router = RoutedVerifier({})
    with pytest.raises(ToolchainError, match="lean is not judged here"):
        router.open_backend("lean")


def test_a_machine_without_lean_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ELAN_HOME", str(tmp_path))
    monkeypatch.delenv("PROVERRL_LEAN", raising=False)
    router = open_router(BackendOptions(workers=1, limits=Limits()))
    with pytest.raises(ToolchainError, match=r"bash scripts/setup_lean\.sh"):
        router.open_backend("lean")
