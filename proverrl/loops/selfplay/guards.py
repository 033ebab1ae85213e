"""The guards of a self-play run, before and after the solver's attempts.

Flows in: a round's drafts, and then what the solver proved of them. Flows out: what the guards
said. ``selfplay.late_guards`` are asked after the attempts, and only of statements that some
attempts proved and others did not: nothing is learned from the others, so that questions about
them would cost verifier calls for nothing.
What was seen is not in the checkpoint: all that was composed is in the archive.
Not handled here: what becomes of what was stopped (``ledger``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from proverrl.compose.composers import Draft
from proverrl.compose.guard_checks import make_guards
from proverrl.compose.guards import Asker, GuardRun, GuardTools, run_guards
from proverrl.config.compose import GuardName
from proverrl.loops.selfplay.attack import use_attacks
from proverrl.loops.selfplay.round import Round, solve_rate
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

    def __init__(self, session: Session, held_out: Iterable[Problem]) -> None:
        settings = session.config.selfplay
        names: tuple[GuardName, ...] = get_args(GuardName)
        asked = [name for name in names if name in settings.guards]
        self.early = [name for name in asked if name not in settings.late_guards]
        self.late = [name for name in asked if name in settings.late_guards]
        self._session = session
        self._held_out = OverlapIndex(take_statements(held_out))
        self._seen: set[str] = set()

    def see(self, problems: Iterable[Problem]) -> None:
        """Problems that exist: the same again is a duplicate."""
        self._seen |= {make_skeleton(problem) for problem in problems}

    async def check_drafts(
        self, drafts: Sequence[Draft], attacks: Mapping[str, Sequence[str]]
    ) -> Checked:
        """The early guards on a round's statements."""
        problems = [draft.composed.problem for draft in drafts if draft.composed is not None]
        return await self._run(problems, self.early, attacks)

    async def check_tried(self, this: Round, attacks: Mapping[str, Sequence[str]]) -> Checked:
        """The late guards on what some of the judged attempts proved, but not all."""
        rates = {p.id: solve_rate(this.attempts.get(p.id, ())) for p in this.tried}
        between = [p for p in this.tried if 0.0 < (rates[p.id] or 0.0) < 1.0]
        return await self._run(between, self.late, attacks)

    async def _run(
        self,
        problems: Sequence[Problem],
        names: Sequence[GuardName],
        attacks: Mapping[str, Sequence[str]],
    ) -> Checked:
        config = self._session.config
        tools = GuardTools(
            asker=Asker(self._session.verifier, deadline_seconds=config.pool.deadline_seconds),
            held_out=self._held_out,
            seen=set(self._seen),
            attack=use_attacks(attacks),
            near_share=config.selfplay.near_share,
        )
        run = await run_guards(problems, make_guards(tools, names), tools)
        return Checked(run, tools.asker.calls)
