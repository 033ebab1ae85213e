"""A curriculum of small Dafny programs, each with one hole, over five levels.

Level 1 has linear accumulators, level 2 closed forms and recurrences, level 3 arrays, level 4
lemmas by induction, level 5 search, sorting steps, nested loops and lemmas used by others. How
drafts are drawn and split: ``proverrl.generate.families``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from proverrl.config.base import DafnyVersion
from proverrl.generate.dafny import level1, level2, level3, level4, level5
from proverrl.generate.families import CurriculumDraft, Family, Generator, LearnMetadata
from proverrl.lang.dafny.audit.bodies import audit_candidate
from proverrl.lang.dafny.syntax.names import GLOBAL_POOLS, VARIABLE_POOLS
from proverrl.lang.dafny.syntax.text import normalise
from proverrl.lang.dafny.verify.backend import make_spawn
from proverrl.lang.dafny.verify.known import KnownProblems
from proverrl.lang.dafny.verify.workers.toolchain import find_dafny_toolchain
from proverrl.lang.pools import Pools
from proverrl.types import Problem
from proverrl.verifier.base import LanedVerifier, Limits
from proverrl.verifier.pool import VerifierPool


class DafnyGenerator(Generator):
    """Forty-six families over five levels."""

    language = "dafny"
    families: Mapping[int, Mapping[str, Family]] = {
        1: level1.FAMILIES,
        2: level2.FAMILIES,
        3: level3.FAMILIES,
        4: level4.FAMILIES,
        5: level5.FAMILIES,
    }
    pools: Pools = MappingProxyType({**VARIABLE_POOLS, **GLOBAL_POOLS})

    def normalise(self, statement: str) -> str:
        return normalise(statement)

    def list_trivial(self, draft: CurriculumDraft) -> Sequence[str]:
        return ("",)

    def open_verifier(
        self, workers: int, dafny_version: DafnyVersion = "auto"
    ) -> tuple[LanedVerifier, LearnMetadata]:
        """The metadata are the entries that Dafny 2.3 printed: later verdicts must have them.
        Dafny 4 tells of fewer, so that none of its own are kept."""
        toolchain = find_dafny_toolchain(dafny_version)
        limits, known = Limits(), KnownProblems()

        def learn(problem: Problem) -> dict[str, Any] | None:
            entries = known.find_entries(problem, by_4=toolchain.is_4)
            if not entries:
                return None
            return {} if toolchain.is_4 else {"expected_entries": sorted(entries)}

        spawn = make_spawn(toolchain, limits, known)
        pool = VerifierPool(spawn, workers=workers, audit=audit_candidate, toolchain=toolchain.name)
        return pool, learn


GENERATOR = DafnyGenerator()
