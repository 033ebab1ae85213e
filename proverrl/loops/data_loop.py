"""The data loop: statements are composed, graded, disproved or proved, and learned from.

Paper order (Xin et al. 2024, DeepSeek-Prover, arXiv 2405.14333): each round proposes statements,
grades them and drops the worse, rejects contradictory hypotheses, attacks statement and negation at
the same time, adds what was proved, and trains; until gains vanish. Ours are composed from training
problems in place of translated, and graded without a model; the other guards are asked too.

Flows in: a session. Flows out: what expert iteration leaves, and ``archive.jsonl`` with a picture.
A round is expert iteration's, before which new statements come in; what it learns from are the
shortest proofs of base problems, statements and disproved statements' negations.
Not handled here: several processes; later turns of the attack; a composer that learns from rewards
(``selfplay``). With real verifiers the guards' calls of a round may differ by those under way when
a first proof ended an attack.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from proverrl.compose.archive import Composed
from proverrl.compose.composers import Draft, measure_truncated
from proverrl.compose.grades import GRADES, Grade, grade_statement
from proverrl.compose.guard_checks import make_guards
from proverrl.compose.guards import (
    Asker,
    GuardLedger,
    GuardTools,
    NotJudgedError,
    Stop,
    run_guards,
)
from proverrl.config.compose import GuardName
from proverrl.errors import UsageError
from proverrl.lang.dafny.compose.attack import list_plain_proofs
from proverrl.loops.expert_iteration import run_expert_iteration
from proverrl.loops.pipeline import Order, Pipeline
from proverrl.loops.selfplay.archive import draw_lineage, open_archive
from proverrl.loops.selfplay.attack import list_bodies, negate
from proverrl.loops.selfplay.composer import open_composer
from proverrl.loops.selfplay.guards import read_held_out
from proverrl.loops.selfplay.parents import draw_pairs
from proverrl.loops.session import Session
from proverrl.loops.state import Progress, RunState
from proverrl.problems.contamination import OverlapIndex, make_skeleton, take_statements
from proverrl.rollout.proofs import ProofStore
from proverrl.seeds import derive_seed
from proverrl.types import Candidate, Problem

BEFORE_GRADES: tuple[GuardName, ...] = ("duplicate", "leak", "well_formed")
AFTER_GRADES: tuple[GuardName, ...] = ("satisfiable", "trivial", "weak_contract")
ATTACKED: tuple[GuardName, ...] = ("refuted",)


async def run_data_loop(session: Session) -> None:
    """Run rounds until gains vanish, ``expert_iteration.rounds``, ``max_verifier_calls`` or
    ``max_minutes``; resumes by itself.

    Raises:
        UsageError: there are several processes.
    """
    if session.policy.world.size > 1:
        raise UsageError('loop = "data_loop" runs in one process; start it without a launcher')
    composer = session.config.selfplay.composer
    session.monitor.phase("composer", f"{composer}, {session.config.selfplay.statements} a round")
    try:
        await run_expert_iteration(session, Statements(session))
    finally:
        draw_lineage(session)


@dataclass
class Round:
    """A round's counts; ``num_solved`` are the problems with a proof before it."""

    num_solved: int
    written: int = 0
    malformed: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    grades: Counter[str] = field(default_factory=Counter)
    grade_reasons: Counter[str] = field(default_factory=Counter)
    graded_out: int = 0
    stops: Counter[str] = field(default_factory=Counter)
    kept: int = 0
    proved: int = 0
    disproved: int = 0
    calls: int = 0
    tokens: int = 0
    truncated: dict[str, float] = field(default_factory=dict)


class Statements:
    """The ``Supply`` of the data loop: composes, grades, guards and attacks before each round."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._settings = session.config.data_loop
        self._base = session.problems
        self._by_id = {problem.id: problem for problem in self._base.all}
        self._composer = open_composer(session, session.sampler)
        self._held_out = OverlapIndex(take_statements(read_held_out(session)))
        self._seen = {make_skeleton(problem) for problem in self._base.all}
        self.archive = open_archive(session)
        self.guards = GuardLedger()
        self.num_slow = 0
        self._round = Round(0)
        self._saved = ""

    def why_done(self) -> str:
        """See ``Supply.why_done``."""
        settings = self._settings
        if self.num_slow < settings.patience:
            return ""
        return f"proved statements grew by less than {settings.min_gain:.1%} {self.num_slow} times"

    async def bring(self, state: RunState) -> int:
        """See ``Supply.bring``: one round from proposals to proofs."""
        session, store, progress = self._session, state.store, state.progress
        self._saved = f"round {progress.step} is saved"
        self._round = this = Round(len(store.proofs))
        settings = session.config.selfplay
        pairs = draw_pairs(
            random.Random(derive_seed(session.config.seed, "parents", progress.step)),
            settings.parents,
            settings.statements,
            base=self._base.all,
            archive=self.archive,
            proofs=dict(store.pairs()),
            references={problem.id: body for problem, body in self._base.references},
        )
        drafts = await self._composer.write(pairs, round_number=progress.step)
        this.truncated = measure_truncated(drafts)
        found = self._take_new(drafts)
        attack = Attack(self._open_tools())
        kept = await self._guard(attack, found, list(found.values()), BEFORE_GRADES)
        kept = [c for c in kept if await self._grade(attack.tools.asker, c)]
        kept = await self._guard(attack, found, kept, AFTER_GRADES)
        self._tell(progress, f"{len(kept)} of {this.written} statements are attacked")
        await self._write_attack(attack, [c.problem for c in kept], state)
        kept = await self._guard(attack, found, kept, ATTACKED)
        for stop in attack.disproved:
            await self._keep_negation(attack.tools, stop, store, progress)
        for composed in kept:
            self.archive.add(composed)
            body = await attack.find_proof(composed.problem)
            self.archive.note(composed.problem.id, proved=body is not None)
            if body is not None:
                this.proved += 1
                self._keep_proof(store, composed.problem, body, progress)
        this.kept = len(kept)
        state.curriculum.add(composed.problem for composed in kept)
        self._join_composed()
        self.guards.num_seen += len(found)
        self.guards.num_kept += len(kept)
        self.guards.calls += attack.tools.asker.calls
        this.calls = sum(attack.tools.asker.calls.values())
        self._tell(progress, f"{this.kept} kept, {this.proved} proved, {this.disproved} disproved")
        return this.calls

    def describe(self, state: RunState) -> dict[str, Any]:
        """See ``Supply.describe``; counts the round for or against the end of the loop."""
        this = self._round
        new = len(state.store.proofs) - this.num_solved
        gain = new / max(1, this.num_solved)
        self.num_slow = self.num_slow + 1 if gain < self._settings.min_gain else 0
        return {
            "statements_written": this.written,
            "statements_malformed": this.malformed,
            "statements_reasons": dict(this.reasons),
            **this.truncated,
            "statements_graded": {name: this.grades[name] for name in GRADES},
            "statements_graded_out": this.graded_out,
            "grade_reasons": dict(this.grade_reasons),
            "guard_stops": dict(this.stops),
            "guard_calls": this.calls,
            "guard_calls_total": sum(self.guards.calls.values()),
            "attack_tokens": this.tokens,
            "statements_kept": this.kept,
            "statements_proved": this.proved,
            "statements_disproved": this.disproved,
            "archive": len(self.archive),
            "newly_proved": new,
            "gain": gain,
            "slow_rounds": self.num_slow,
        }

    def state_dict(self) -> dict[str, Any]:
        """See ``Supply.state_dict``."""
        return {
            "archive": self.archive.state_dict(),
            "guards": self.guards.state_dict(),
            "seen": sorted(self._seen),
            "num_slow": self.num_slow,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Become what ``state_dict`` wrote."""
        self.archive.load_state_dict(state["archive"])
        self.guards.load_state_dict(state["guards"])
        self._seen = set(state["seen"])
        self.num_slow = state["num_slow"]
        self._join_composed()

    def _tell(self, progress: Progress, text: str) -> None:
        self._session.monitor.phase(f"round {progress.step + 1}, statements", text)

    def _open_tools(self) -> GuardTools:
        config = self._session.config
        return GuardTools(
            asker=Asker(self._session.verifier, deadline_seconds=config.pool.deadline_seconds),
            held_out=self._held_out,
            seen=self._seen,
            near_share=config.selfplay.near_share,
        )

    def _take_new(self, drafts: Sequence[Draft]) -> dict[str, Composed]:
        """The drafts that are problems, by id; one that the archive has already is a duplicate."""
        this, found = self._round, dict[str, Composed]()
        for draft in drafts:
            this.written += 1
            if draft.composed is None:
                this.malformed += 1
                this.reasons[draft.reason] += 1
            elif draft.composed.problem.id in found or draft.composed.problem.id in self.archive:
                this.stops["duplicate"] += 1
            else:
                found[draft.composed.problem.id] = draft.composed
        return found

    async def _guard(
        self,
        attack: Attack,
        found: Mapping[str, Composed],
        asked: Iterable[Composed],
        names: Sequence[GuardName],
    ) -> list[Composed]:
        """Those that pass these guards, as far as the configuration has them."""
        self._session.check_stop(self._saved)
        chosen = [name for name in names if name in self._session.config.selfplay.guards]
        tools = attack.tools
        run = await run_guards([c.problem for c in asked], make_guards(tools, chosen), tools)
        for stop in run.stops:
            self._round.stops[stop.guard] += 1
            self.guards.record(found[stop.problem_id].problem, stop)
            self._note_stop(found[stop.problem_id], stop.guard, stop.reason)
            if stop.kept is not None:
                attack.disproved.append(stop)
        return [found[problem.id] for problem in run.kept]

    async def _grade(self, asker: Asker, composed: Composed) -> bool:
        """Grade a statement; whether its grade is one that is kept."""
        parents = [self._by_id[name] for name in composed.parents]
        obligations = await _count_obligations(asker, composed.problem)
        grade: Grade = grade_statement(composed.problem, parents, obligations, self._settings)
        self._round.grades[grade.name] += 1
        self._round.grade_reasons.update(grade.reasons)
        if grade.name in self._settings.keep:
            return True
        self._round.graded_out += 1
        self._note_stop(composed, "grade", f"{grade.name}: {', '.join(grade.reasons)}")
        return False

    def _note_stop(self, composed: Composed, by: str, reason: str) -> None:
        self.archive.add(composed)
        self.archive.note(composed.problem.id, stopped_by=by, reason=reason)

    async def _write_attack(
        self, attack: Attack, problems: Sequence[Problem], state: RunState
    ) -> None:
        """The policy's samples on statements and negations, in one batch."""
        both = [*problems, *filter(None, map(negate, problems))]
        if not both:
            return
        pipeline = Pipeline(self._session, state.auditor, self._settings.attack_samples)
        draws, _ = await pipeline.write(Order(state.number_draw(), tuple(both)))
        for draw in draws:
            self._round.tokens += sum(len(c.token_ids) for c in draw.completions)
            attack.bodies[draw.problem.id] = list_bodies(draw)

    async def _keep_negation(
        self, tools: GuardTools, stop: Stop, store: ProofStore, progress: Progress
    ) -> None:
        """Archive a proved negation and learn its proof, unless it is known or held out."""
        self._round.disproved += 1
        assert stop.kept is not None
        problem = stop.kept.problem
        run = await run_guards([problem], make_guards(tools, ("duplicate", "leak")), tools)
        if run.kept and self.archive.add(stop.kept):
            self.archive.note(problem.id, negation_of=stop.problem_id, proved=True)
            self._keep_proof(store, problem, stop.body, progress)

    def _keep_proof(
        self, store: ProofStore, problem: Problem, body: str, progress: Progress
    ) -> None:
        tokens = self._session.policy.body_ids(problem, body)
        store.keep(problem, body, num_tokens=len(tokens), policy_version=progress.step)

    def _join_composed(self) -> None:
        """Have the session know all problems that the run may have proofs of."""
        self._session.problems = self._base.join([c.problem for c in self.archive])


class Attack:
    """A round's attack: the policy's samples by problem id, and what they and the guards found."""

    def __init__(self, tools: GuardTools) -> None:
        self.bodies: dict[str, Sequence[str]] = {}
        self.disproved: list[Stop] = []
        self.tools = replace(tools, attack=self._list_samples)

    async def find_proof(self, problem: Problem) -> str | None:
        """The first body that proves a statement, in the order in which the guard tries them, so
        that what it asked costs no call; one that was not judged is passed over."""
        plain = list_plain_proofs(problem) if problem.language == "dafny" else []
        for body in (*plain, *self.bodies.get(problem.id, ())):
            try:
                verdict = await self.tools.asker.ask("refuted", Candidate(problem, body))
            except NotJudgedError:
                continue
            if verdict.proved:
                return body
        return None

    async def _list_samples(self, problem: Problem) -> Sequence[str]:
        return self.bodies.get(problem.id, ())


async def _count_obligations(asker: Asker, problem: Problem) -> int | None:
    """What is to prove with an empty hole, which the guard ``well_formed`` has asked; None where
    the verifier does not count."""
    if problem.language != "dafny":
        return None
    try:
        verdict = await asker.ask("well_formed", Candidate(problem, ""))
    except NotJudgedError:
        return None
    if "obligations" not in verdict.checks:
        return None
    return sum(entry.total for entry in verdict.obligations)
