"""The data loop: statements are composed, graded, disproved or proved, and learned from.

Paper order (Xin et al. 2024, DeepSeek-Prover, arXiv 2405.14333): each round proposes statements,
grades them and drops the worse. It rejects contradictory hypotheses, attacks statement and negation
at the same time, adds what was proved, and trains. The loop ends when gains vanish. Ours are
composed from training problems; rules grade them, and the other filters are asked too.

Flows in: a session. Flows out: what expert iteration leaves, and ``archive.jsonl``.
Not handled here: several processes; later turns of the attack; a composer that learns
(``selfplay``). With real verifiers the filters' calls of a round may differ by those under way when
a first proof ended an attack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from proverrl.compose.archive import Composed
from proverrl.compose.composers import Draft, measure_truncated
from proverrl.compose.filters import (
    Asker,
    FilterTools,
    NotJudgedError,
    Stop,
    make_filters,
    make_negation,
    run_filters,
)
from proverrl.config import Config
from proverrl.config.loops import loop_traits
from proverrl.config.selfplay import FilterName
from proverrl.errors import ProblemError, UsageError
from proverrl.lab.data_loop.grades import GRADES, DataLoopOptions, Grade, grade_statement
from proverrl.lang import find_composing
from proverrl.loops.expert_iteration import run_expert_iteration
from proverrl.loops.selfplay.composer import open_composer
from proverrl.loops.selfplay.composition import ComposedProblems
from proverrl.rollout.whole_proof import Draw
from proverrl.run.pipeline import Order, Pipeline
from proverrl.run.session import Session
from proverrl.run.state import RunState
from proverrl.types import Candidate, Problem

BEFORE_GRADES: tuple[FilterName, ...] = ("duplicate", "leak", "well_formed")
AFTER_GRADES: tuple[FilterName, ...] = ("satisfiable", "trivial", "weak_contract")
ATTACKED: tuple[FilterName, ...] = ("refuted",)
COUNTED = ("written", "malformed", "graded_out", "kept", "proved")


def against_data_loop(config: Config, _: DataLoopOptions) -> str:
    """The reason why the settings of self-play do not fit the data loop; empty when they are."""
    selfplay = config.selfplay
    if selfplay.composer == "policy" and selfplay.weights != "shared":
        return 'the data loop has one policy; set selfplay.weights = "shared"'
    unused = {
        "late_filters": selfplay.late_filters,
        "operator_choice": selfplay.operator_choice != "uniform",
    }
    names = [f"selfplay.{name}" for name, asked in unused.items() if asked]
    return f"the data loop has no use for {', '.join(names)}; drop it" if names else ""


@loop_traits(
    "data loop",
    counts="expert_iteration.rounds",
    takes=frozenset({"selfplay"}),
    against=against_data_loop,
)
async def data_loop(session: Session, *, options: DataLoopOptions) -> None:
    """Run rounds until gains vanish, ``expert_iteration.rounds``, ``max_verifier_calls`` or
    ``max_minutes``; resumes by itself. Raises ``UsageError``: there are several processes."""
    if session.policy.world.size > 1:
        raise UsageError("the data loop runs in one process; start it without a launcher")
    composer = session.config.selfplay.composer
    session.monitor.phase("composer", f"{composer}, {session.config.selfplay.statements} a round")
    await run_expert_iteration(session, partial(Statements, options=options))


@dataclass
class OpenRound:
    """A round under way: its counts, the policy's ``bodies`` by the id of what they may prove, what
    was disproved. ``num_solved`` problems had a proof before it."""

    num_solved: int
    tools: FilterTools
    truncated: Mapping[str, float]
    bodies: dict[str, Sequence[str]]
    disproved: list[Stop] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    grades: Counter[str] = field(default_factory=Counter)
    grade_reasons: Counter[str] = field(default_factory=Counter)
    stops: Counter[str] = field(default_factory=Counter)

    async def find_proof(self, problem: Problem) -> str | None:
        """The first body that proves a statement, in the order of the filter, which has asked most
        of them; one that was not judged is passed over."""
        plain = find_composing(problem.language).list_proofs(problem)
        for body in (*plain, *self.bodies.get(problem.id, ())):
            try:
                verdict = await self.tools.asker.ask("refuted", Candidate(problem, body))
            except NotJudgedError:
                continue
            if verdict.proved:
                return body
        return None


class Statements:
    """The ``Supply`` of the data loop: composes, grades, filters and attacks before each round."""

    def __init__(self, state: RunState, *, options: DataLoopOptions) -> None:
        self._session = session = state.session
        self._state = state
        self._settings = options
        self._composed = ComposedProblems(session)
        self._archive = self._composed.archive
        self._by_id = {problem.id: problem for problem in session.problems.all}
        self._composer = open_composer(session, session.sampler)
        self._num_slow = 0

    def why_done(self) -> str:
        gain, slow = self._settings.min_gain, self._num_slow
        why = f"proved statements grew by less than {gain:.1%} {slow} times"
        return why if slow >= self._settings.patience else ""

    async def bring(self) -> int:
        """See ``Supply.bring``: one round from proposals to proofs."""
        number, proofs = self._state.progress.step, dict(self._state.store.pairs())
        num = self._session.config.selfplay.statements
        pairs = self._composed.draw_parents(proofs, number=number, num=num)
        drafts = await self._composer.write(pairs, round_number=number)
        bodies: dict[str, Sequence[str]] = {}
        tools = replace(self._composed.open_tools(self._composed.seen), attacks=bodies)
        this = OpenRound(len(self._state.store.proofs), tools, measure_truncated(drafts), bodies)
        found = self._take_new(drafts, this)
        kept = await self._filter(this, found, list(found.values()), BEFORE_GRADES)
        kept = await self._grade_all(this, kept)
        kept = await self._filter(this, found, kept, AFTER_GRADES)
        self._tell(f"{len(kept)} of {len(drafts)} statements are attacked")
        await self._write_attack(this, [c.problem for c in kept])
        kept = await self._filter(this, found, kept, ATTACKED)
        for stop in this.disproved:
            await self._keep_negation(this, stop)
        for composed in kept:
            self._archive.add(composed)
            body = await this.find_proof(composed.problem)
            self._archive.note(composed.problem.id, proved=body is not None)
            if body is not None:
                this.counts["proved"] += 1
                self._keep_proof(composed.problem, body)
        self._state.curriculum.add(composed.problem for composed in kept)
        self._composed.join()
        self._composed.num_filter_calls += tools.asker.calls.total()
        this.counts["kept"] = len(kept)
        self._round = this
        proved, disproved = this.counts["proved"], len(this.disproved)
        self._tell(f"{len(kept)} kept, {proved} proved, {disproved} disproved")
        return sum(tools.asker.calls.values())

    def describe(self) -> dict[str, Any]:
        """See ``Supply.describe``; counts the round for or against the end of the loop."""
        this = self._round
        new = len(self._state.store.proofs) - this.num_solved
        gain = new / max(1, this.num_solved)
        self._num_slow = self._num_slow + 1 if gain < self._settings.min_gain else 0
        return {
            **{f"statements_{name}": this.counts[name] for name in COUNTED},
            "statements_reasons": dict(this.reasons),
            **this.truncated,
            "statements_graded": {name: this.grades[name] for name in GRADES},
            "grade_reasons": dict(this.grade_reasons),
            "filter_stops": dict(this.stops),
            "filter_calls": sum(this.tools.asker.calls.values()),
            "filter_calls_total": self._composed.num_filter_calls,
            "attack_tokens": this.counts["tokens"],
            "statements_disproved": len(this.disproved),
            "archive": len(self._archive),
            "newly_proved": new,
            "gain": gain,
            "slow_rounds": self._num_slow,
        }

    def state_dict(self) -> dict[str, Any]:
        return {
            **self._composed.state_dict(),
            "seen": sorted(self._composed.seen),
            "num_slow": self._num_slow,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._composed.load_state_dict(state)
        self._composed.seen = set(state["seen"])
        self._num_slow = state["num_slow"]

    def _tell(self, text: str) -> None:
        number = self._state.progress.step + 1
        self._session.monitor.phase(f"round {number}, statements", text)

    def _take_new(self, drafts: Sequence[Draft], this: OpenRound) -> dict[str, Composed]:
        """The drafts that are problems, by id; one that the archive has already is a duplicate."""
        found: dict[str, Composed] = {}
        this.counts["written"] = len(drafts)
        for draft in drafts:
            if draft.composed is None:
                this.counts["malformed"] += 1
                this.reasons[draft.reason] += 1
            elif draft.composed.problem.id in found or draft.composed.problem.id in self._archive:
                this.stops["duplicate"] += 1
            else:
                found[draft.composed.problem.id] = draft.composed
        return found

    async def _filter(
        self,
        this: OpenRound,
        found: Mapping[str, Composed],
        asked: Iterable[Composed],
        names: Sequence[FilterName],
    ) -> list[Composed]:
        """Those that pass these filters, as far as the configuration has them."""
        self._session.check_stop(f"round {self._state.progress.step} is saved")
        chosen = [name for name in names if name in self._session.config.selfplay.filters]
        run = await run_filters(
            [c.problem for c in asked], make_filters(this.tools, chosen), this.tools
        )
        for stop in run.stops:
            this.stops[stop.filter] += 1
            self._note_stop(found[stop.problem_id], stop.filter, stop.reason)
            if stop.kept is not None:
                this.disproved.append(stop)
        return [found[problem.id] for problem in run.kept]

    async def _grade_all(self, this: OpenRound, asked: Sequence[Composed]) -> list[Composed]:
        """Grade statements; those whose grade is one that is kept."""
        kept = []
        for composed in asked:
            grade = await self._grade(this, composed)
            this.grades[grade.name] += 1
            this.grade_reasons.update(grade.reasons)
            if grade.name in self._settings.keep:
                kept.append(composed)
                continue
            this.counts["graded_out"] += 1
            self._note_stop(composed, "grade", f"{grade.name}: {', '.join(grade.reasons)}")
        return kept

    async def _grade(self, this: OpenRound, composed: Composed) -> Grade:
        parents = [self._by_id[name] for name in composed.parents]
        obligations = await _count_obligations(this.tools.asker, composed.problem)
        return grade_statement(composed.problem, parents, obligations, self._settings)

    def _note_stop(self, composed: Composed, by: str, reason: str) -> None:
        self._archive.add(composed)
        self._archive.note(composed.problem.id, stopped_by=by, reason=reason)

    async def _write_attack(self, this: OpenRound, problems: Sequence[Problem]) -> None:
        """The policy's samples on statements and negations, in one batch."""
        both = [*problems, *filter(None, map(negate, problems))]
        if not both:
            return
        state = self._state
        pipeline = Pipeline(state.session, state.reviewer, self._settings.attack_samples)
        draws, _ = await pipeline.write(Order(state.number_draw(), tuple(both)))
        for draw in draws:
            this.counts["tokens"] += sum(len(c.token_ids) for c in draw.completions)
            this.bodies[draw.problem.id] = list_bodies(draw)

    async def _keep_negation(self, this: OpenRound, stop: Stop) -> None:
        """Archive a proved negation and learn its proof, unless it is known or held out."""
        assert stop.kept is not None
        problem, tools = stop.kept.problem, this.tools
        run = await run_filters([problem], make_filters(tools, ("duplicate", "leak")), tools)
        if run.kept and self._archive.add(stop.kept):
            self._archive.note(problem.id, negation_of=stop.problem_id, proved=True)
            self._keep_proof(problem, stop.body)

    def _keep_proof(self, problem: Problem, body: str) -> None:
        num_tokens = len(self._session.policy.body_ids(problem, body))
        store, number = self._state.store, self._state.progress.step
        store.keep(problem, body, num_tokens=num_tokens, policy_version=number)


def negate(problem: Problem) -> Problem | None:
    """The negation of a statement; None where it has none, or where the program cannot be taken
    apart (the filter says why)."""
    try:
        negation = make_negation(problem)
    except ProblemError:
        return None
    return negation.problem if negation is not None else None


async def _count_obligations(asker: Asker, problem: Problem) -> int | None:
    """The number of obligations with an empty hole; None where the verifier does not count."""
    try:
        asked = find_composing(problem.language).ask_well_formed(problem)
        verdict = await asker.ask("well_formed", asked)
    except NotJudgedError:
        return None
    counted = verdict.failed_in_prover and verdict.obligations
    return sum(entry.total for entry in verdict.obligations) if counted else None


def list_bodies(draw: Draw) -> list[str]:
    """A draw's distinct bodies, in the order of writing; none that needs a prelude, because a
    stored proof has none."""
    candidates = [extraction.candidate(draw.problem) for extraction in draw.extractions]
    return list(dict.fromkeys(c.body for c in candidates if c is not None and not c.prelude))
