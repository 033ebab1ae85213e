"""Scaffolds of a self-play run: statements made from what the solver has just solved or failed.

Flows in: the judged attempts of a step, proofs of the run. Flows out: drafts in place of some of a
round's fusions. The parts of failed proofs are cut out when a step ends and are in the checkpoint
with the names of the problems that it failed, so that a resumed run makes the same drafts.
A round is written while its step's proofs are judged: it builds on the step before.
Not handled here: guards, which look at these drafts as at all others; parts of failed Lean proofs,
which need a Lean at hand.
"""

from __future__ import annotations

import random
from collections.abc import Container, Mapping, Sequence
from typing import Any, Literal

from proverrl.compose.archive import Composed, dump_composed, load_composed
from proverrl.compose.composers import Draft
from proverrl.compose.operators import build_scaffold, collect_subgoals
from proverrl.config.compose import SelfplayScaffold
from proverrl.errors import ProblemError
from proverrl.lang import find_language
from proverrl.lang.records import Parent
from proverrl.seeds import derive_seed
from proverrl.types import Candidate, Problem, Rollout, Status, Verdict

MAX_TRIES = 25
"""Draws of scaffold and parents for one statement, before it is left to the composer."""

Pool = Literal["parts", "solved", "failed", "both", "pairs"]

POOLS: Mapping[SelfplayScaffold, Pool] = {
    "show_hints": "both",
    "mask_hint": "both",
    "easier": "failed",
    "harder": "solved",
    "extract_lemma": "solved",
    "chain_solved": "pairs",
    "subgoals": "parts",
}
"""What each scaffold is built on: parts of failed proofs; problems that the run has a proof of;
those that no attempt of the last step proved; either; two that it has proofs of."""


class Scaffolder:
    """Draws scaffolds by name, each name as likely; ``num`` drafts a round at most."""

    def __init__(self, names: Sequence[SelfplayScaffold], num: int, *, seed: int) -> None:
        self._names = tuple(names)
        self._num = num if names else 0
        self._seed = seed
        self._attempts: list[Rollout] = []
        self._failed: list[str] = []
        self._parts: list[Composed] = []

    def see(self, rollouts: Sequence[Rollout]) -> None:
        """Note judged attempts of the step."""
        if self._num:
            self._attempts += rollouts

    def end_step(self, number: int) -> None:
        """The step of round ``number`` is judged: what it failed takes the place of what the step
        before failed."""
        attempts, self._attempts = self._attempts, []
        judged = [rollout for rollout in attempts if rollout.status.judged]
        solved = {r.problem.id for r in judged if r.status is Status.PROVED}
        self._failed = sorted({r.problem.id for r in judged} - solved)
        if "subgoals" in self._names:
            failed = [r for r in judged if r.problem.id not in solved]
            self._parts = self._cut_parts(failed, number)

    def draw(
        self,
        number: int,
        problems: Mapping[str, Problem],
        proofs: Mapping[str, str],
        references: Mapping[str, str],
        taken: Container[str],
    ) -> list[Draft]:
        """The drafts of round ``number``: fewer where there is nothing to build on.

        ``proofs`` are the run's, by problem; ``references`` of composed problems may prove them.
        Problems whose ids are ``taken`` are not made again.
        """
        rng = random.Random(derive_seed(self._seed, "scaffolds", number))
        given = {
            "solved": [Parent(problems[n], proofs[n]) for n in sorted(proofs) if n in problems],
            "failed": [Parent(problems[n], references.get(n)) for n in self._failed],
        }
        given["both"] = [*given["solved"], *given["failed"]]
        drafts: dict[str, Draft] = {}
        for _ in range(self._num):
            for _ in range(MAX_TRIES):
                name = rng.choice(self._names)
                made = self._make(rng, name, given, number)
                fresh = [
                    c for c in made if c.problem.id not in drafts and c.problem.id not in taken
                ]
                if fresh:
                    composed = rng.choice(fresh)
                    task = composed.problem.kind
                    draft = Draft(composed.parents, task, composed, scaffold=name)
                    drafts[composed.problem.id] = draft
                    break
        return list(drafts.values())

    def _make(
        self,
        rng: random.Random,
        name: SelfplayScaffold,
        given: Mapping[str, Sequence[Parent]],
        number: int,
    ) -> list[Composed]:
        if name == "subgoals":
            return self._parts
        pool = POOLS[name]
        parents = given["solved" if pool == "pairs" else pool]
        if not parents:
            return []
        chosen = [rng.choice(parents)]
        if pool == "pairs":
            first = chosen[0].problem
            others = [
                p
                for p in parents
                if p.problem.id != first.id and p.problem.language == first.language
            ]
            if not others:
                return []
            chosen.append(rng.choice(others))
        try:
            return build_scaffold(name, chosen, round_number=number, seed=self._seed)
        except ProblemError:
            # A program that cannot be taken apart (a class, a proof with a form we do not read).
            return []

    def _cut_parts(self, failed: Sequence[Rollout], number: int) -> list[Composed]:
        """Parts of failed proofs, one proof after the other in random order, until there are as
        many as statements in a round."""
        rng = random.Random(derive_seed(self._seed, "parts", number))
        tried: dict[str, tuple[Candidate, Verdict]] = {}
        for rollout in failed:
            turn = rollout.turns[-1]
            candidate, verdict = turn.candidate, turn.verdict
            if candidate is not None and verdict is not None and not candidate.prelude:
                tried.setdefault(candidate.key, (candidate, verdict))
        found: dict[str, Composed] = {}
        for key in rng.sample(sorted(tried), len(tried)):
            if len(found) >= self._num:
                break
            for composed in lift_failed(*tried[key], round_number=number, seed=self._seed):
                found.setdefault(composed.problem.id, composed)
        return list(found.values())

    def state_dict(self) -> dict[str, Any]:
        """What the last step left to build on, as JSON values."""
        return {"failed": self._failed, "parts": [dump_composed(part) for part in self._parts]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Become what ``state_dict`` wrote."""
        self._failed = list(state["failed"])
        self._parts = [load_composed(row) for row in state["parts"]]


def lift_failed(
    candidate: Candidate, verdict: Verdict, *, round_number: int, seed: int
) -> list[Composed]:
    """The open parts of a failed body in both forms (Ren et al. 2025, DeepSeek-Prover-V2,
    arXiv 2504.21801; Lin et al. 2025, Goedel-Prover-V2, arXiv 2508.03613, build on failed proofs in
    the same way). None where nothing of the body is worth keeping."""
    sketching = find_language(candidate.problem.language).sketching
    if sketching is None:
        return []

    def lift_parts(problem: Problem, body: str) -> list[tuple[Problem | None, Problem | None]]:
        sketch = sketching.make_sketch(candidate, verdict)
        if sketch is None:
            return []
        return [
            (
                sketching.lift(problem, sketch, part, ()),
                sketching.lift(problem, sketch, part, part.needs),
            )
            for part in sketch.subgoals
        ]

    try:
        return collect_subgoals(
            candidate.problem, candidate.body, lift_parts, round_number=round_number, seed=seed
        )
    except ProblemError:
        # What was written cannot be taken apart; there is more where it came from.
        return []
