"""The guards of a self-play run, before and after the solver's attempts.

Flows in: a round's drafts, and then what the solver proved of them. Flows out: what the guards
said. ``selfplay.late_guards`` are asked after the attempts, and only of statements that some
attempts proved and others did not: nothing is learned from the others, so that questions about
them would cost verifier calls for nothing.
What was seen is not in the checkpoint: all that was composed is in the archive.
Not handled here: what becomes of what was stopped (``rounds``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from proverrl.benchmarks.open import open_benchmark
from proverrl.compose.guard_checks import make_guards
from proverrl.compose.guards import Asker, GuardRun, GuardTools, run_guards
from proverrl.config.compose import GuardName
from proverrl.loops.selfplay.attack import use_attacks
from proverrl.loops.session import Session
from proverrl.problems.contamination import OverlapIndex, make_skeleton, take_statements
from proverrl.types import Problem


@dataclass(frozen=True, slots=True)
class Checked:
    """What the guards said of a round, and the verifier calls of each guard."""

    run: GuardRun
    calls: Counter[str]


class RoundGuards:
    """Asks the guards about rounds; ``early`` and ``late`` are their names."""

    def __init__(self, session: Session) -> None:
        settings = session.config.selfplay
        names: tuple[GuardName, ...] = get_args(GuardName)
        asked = [name for name in names if name in settings.guards]
        self.early = [name for name in asked if name not in settings.late_guards]
        self.late = [name for name in asked if name in settings.late_guards]
        self._session = session
        self._held_out = OverlapIndex(take_statements(read_held_out(session)))
        self._seen: set[str] = set()

    def see(self, problems: Iterable[Problem]) -> None:
        """Problems that exist: the same again is a duplicate."""
        self._seen |= {make_skeleton(problem) for problem in problems}

    async def ask(
        self,
        names: Sequence[GuardName],
        problems: Sequence[Problem],
        attacks: Mapping[str, Sequence[str]],
    ) -> Checked:
        """What these guards say of statements; ``attacks`` are the bodies that are tried on their
        negations."""
        tools = open_tools(self._session, self._held_out, set(self._seen), attacks)
        run = await run_guards(problems, make_guards(tools, names), tools)
        return Checked(run, tools.asker.calls)


def open_tools(
    session: Session,
    held_out: OverlapIndex,
    seen: set[str],
    attacks: Mapping[str, Sequence[str]],
) -> GuardTools:
    """What the guards of a run work with; of ``attacks`` they try those on a problem's id."""

    config = session.config
    return GuardTools(
        asker=Asker(session.verifier, deadline_seconds=config.pool.deadline_seconds),
        held_out=held_out,
        seen=seen,
        attack=use_attacks(attacks),
        near_share=config.selfplay.near_share,
    )


def read_held_out(session: Session) -> list[Problem]:
    """All problems that the run is measured by."""
    config = session.config
    sources = [str(config.problems.heldout), *config.evaluation.benchmarks]
    if config.problems.valid.exists():
        sources.append(str(config.problems.valid))
    found = [p for source in sources for p in open_benchmark(source).problems]
    session.monitor.phase("guards", f"{len(found)} held-out problems must not leak")
    return found
