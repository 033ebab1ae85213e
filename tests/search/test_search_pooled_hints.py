"""Pooled proof hints: hints by hand, the search on a verifier that knows which clauses hold, and on
real Dafny."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from proverrl.config.search import SearchConfig
from proverrl.errors import UsageError
from proverrl.lang.dafny.search.pooled import find_refused, list_hints
from proverrl.lang.records import Prefix, RefusedHints, Verify
from proverrl.problems.load import load_problems, load_references
from proverrl.search.base import Functions, Proposal, Search, SearchResult
from proverrl.search.pooled_hints import PooledHints
from proverrl.search.samples import collect_samples
from proverrl.search.wiring import make_search
from proverrl.types import Candidate, Diagnostic, Obligations, Problem, Stage, Status, Verdict
from proverrl.verifier.base import refuse_text
from scripts.choose_poolable import choose
from tests import ROOT
from tests.dafny_search import CALC, LEM, LOOP, TWO, Dafny, Script, open_dafny, run
from tests.search_world import run_stopped

RANGE, SUM = "invariant 0 <= m <= cap", "invariant b == 10 * m + 54"
NEVER, LOST, ODD = "invariant b > 54", "invariant b <= 64", "invariant b % 2 == 0"
ENTRY = "This loop invariant might not hold on entry."
KEPT = "This loop invariant might not be maintained by the loop."
ENDLESS = "decreases expression might not decrease"


@pytest.fixture(scope="module")
def dafny() -> Iterator[Dafny]:
    yield from open_dafny()


@dataclass
class Loop:
    """Says of ``LOOP`` what Dafny says: ``NEVER`` fails on entry and hides all after it, ``LOST``
    is not maintained, ``ODD`` only beside ``SUM`` is, ``decreases m`` never ends. ``judged`` are
    the bodies. What begins with ``bad`` the audit refuses, and more than ``limit`` lines exhaust
    the prover."""

    judged: list[str] = field(default_factory=list)
    limit: int = 99

    async def verify(self, candidate: Candidate) -> Verdict:
        self.judged.append(candidate.body)
        lines = candidate.body.split("\n")
        if any(line.startswith("bad") for line in lines):
            return refuse_text(Status.REJECTED, "grammar", ())
        if len(lines) > self.limit:
            return Verdict(Status.EXHAUSTED)
        errors = []
        for number, line in enumerate(lines, start=1):
            if line == NEVER:
                errors = [(ENTRY, number)]
                break
            if line == LOST or (line == ODD and SUM not in lines):
                errors.append((KEPT, number))
        if not errors and "decreases m" in lines:
            errors.append((ENDLESS, 0))
        if not errors and RANGE in lines and SUM in lines:
            return Verdict(Status.PROVED, checks=("obligations:4",))
        if not errors:
            errors.append(("A postcondition might not hold on this return path.", 0))
        return refuse(*errors)


def refuse(*errors: tuple[str, int], resolved: bool = True) -> Verdict:
    """Errors at the beginnings of these lines of the body; 0 is a place outside of it."""
    found = tuple(
        Diagnostic("error", text, body_line=line or None, body_column=0) for text, line in errors
    )
    counts = (Obligations("M", 9, 5),) if resolved else ()
    stage = Stage.PROVER if resolved else Stage.READING
    return Verdict(Status.REJECTED, found, obligations=counts, stage=stage)


@dataclass
class Writer:
    """Writes bodies in turn: ``first`` from nothing, ``later`` after an opening (in full)."""

    first: list[str]
    later: list[str]
    openings: list[str] = field(default_factory=list)
    num: int = 0

    async def propose(
        self, problem: Problem, prefix: Prefix, num: int, seed: int
    ) -> list[Proposal]:
        self.openings.append(prefix.text)
        bodies = self.later if prefix.text else self.first
        written = []
        for _ in range(num):
            written.append(Proposal(prefix.text + bodies[self.num % len(bodies)], 2, -1.0))
            self.num += 1
        return written


def search(writer: Writer, loop: Loop, **config: object) -> SearchResult:
    settings = {"name": "pooled_hints", "calls": 8, "width": 2, "whole_share": 0.25, **config}
    functions = Functions(writer.propose, loop.verify, confirm=Loop().verify)
    return asyncio.run(make_search(LOOP, functions, SearchConfig.model_validate(settings)).run())


def test_a_saved_proof_is_judged_once_again_and_by_both_verifiers() -> None:
    ours, fresh = Loop(), Loop()
    writer = Writer([f"{RANGE}\n{SUM}"], [])
    settings = SearchConfig(name="pooled_hints", calls=4, width=1)
    functions = Functions(writer.propose, ours.verify, confirm=fresh.verify)
    one = make_search(LOOP, functions, settings)
    assert isinstance(one, PooledHints)
    (proof,) = asyncio.run(one.run()).proofs
    root = one.best_of_n
    assert root is not None
    assert [p.body for p in root.spent.proofs] == [proof.body]
    ours.judged, fresh.judged = [], []
    # The problem's own search had found another that was not handed on when it was killed.
    root.spent.proofs.append(replace(proof, body=NEVER))
    kept, failed = asyncio.run(one.judge_proofs_again())
    assert kept.proved
    assert failed.diagnostics[0].message == ENTRY
    assert (ours.judged, fresh.judged) == ([proof.body, NEVER], [proof.body])
    assert [p.body for p in one.spent.proofs] == [p.body for p in root.spent.proofs] == [proof.body]
    # One that does not hold any more is kept by neither.
    ours.limit = 1
    (failed,) = asyncio.run(one.judge_proofs_again())
    assert failed.status is Status.EXHAUSTED
    assert not any(sample.proved for sample in collect_samples(one))
    assert (one.spent.proofs, root.spent.proofs) == ([], [])
    assert [body for body, _ in root.spent.refuted] == [NEVER, proof.body]


def test_hints_are_read_from_refused_bodies_and_pooled_without_duplicates() -> None:
    body = f"{RANGE}\ninvariant b==10*m+54;\nassume false;\ndecreases cap - m\ninvariant b == ("
    hints = list_hints(LOOP, body)
    assert [hint.text for hint in hints] == [RANGE, "invariant b==10*m+54;", "decreases cap - m"]
    assert [hint.measure for hint in hints] == ["", "", "loop"]
    # Layout, a last semicolon and the names of bound variables do not count.
    assert hints[1].key == list_hints(LOOP, SUM)[0].key
    # A name that nothing declares is known without a call.
    assert list_hints(LOOP, "invariant z == 1\ninvariant exists z :: z == b") == list_hints(
        LOOP, "invariant exists z :: z == b"
    )
    # What cannot be read on the next line does not take the clause with it.
    assert list_hints(LOOP, f"{SUM}\n) (") == list_hints(LOOP, SUM)
    bound = [list_hints(LOOP, f"invariant forall {x} :: {x} < m ==> {x} < 9")[0] for x in "xy"]
    assert bound[0].key == bound[1].key
    assert [list_hints(LOOP, f"invariant {t}")[0].rank for t in ("m < 9", "[2, 3][m % 2] > 1")] == [
        0,
        1,
    ]
    facts = "if m > 3 { Lem(m - 1); }\nassert m >= 0;\nLem(2);\nvar k := ("
    assert [hint.text for hint in list_hints(LEM, facts)] == [
        "if m > 3 { Lem(m - 1); }",
        "assert m >= 0;",
        "Lem(2);",
    ]
    # Assertions, then calls; what is said of a name of the body's own is left out.
    branches = "if m > 3 { Lem(m - 1); } else { var k := m; assert k > 0;\n assert  m >= 0; }"
    assert [hint.text for hint in list_hints(LEM, branches)] == [
        "if !(m > 3) { assert m >= 0; }",
        "if m > 3 { Lem(m - 1); }",
    ]


def test_what_a_verdict_says_of_hints() -> None:
    candidate = Candidate(LOOP, "\n".join([RANGE, NEVER, LOST]))
    keys = [hint.key for hint in list_hints(LOOP, candidate.body)]
    verdict = refuse((ENTRY, 2), (KEPT, 3), (ENDLESS, 0))
    expected = RefusedHints(frozenset(keys[1:2]), frozenset(keys[2:]), frozenset({"loop"}))
    assert find_refused(candidate, verdict) == expected
    # What cannot be resolved never will be.
    assert find_refused(candidate, refuse(("unresolved", 3), resolved=False)) == RefusedHints(
        frozenset(keys[2:])
    )
    assert find_refused(candidate, refuse_text(Status.REJECTED, "grammar", ())) is None
    assert find_refused(candidate, Verdict(Status.EXHAUSTED)) is None


def test_good_parts_of_failed_bodies_are_a_proof() -> None:
    writer = Writer([f"{RANGE}\n{LOST}", f"{NEVER}\n{SUM}\nbad"], [])
    loop = Loop()
    result = search(writer, loop)
    assert result.proved
    # Two bodies; their hints, of which the entry refutes one and maintenance another; what is left.
    assert loop.judged[2:] == [
        "\n".join([RANGE, LOST, NEVER, SUM]),
        "\n".join([RANGE, LOST, SUM]),
        "\n".join([RANGE, SUM]),
    ]
    assert (result.calls, result.proofs[0].calls, result.confirmations) == (5, 5, 1)
    assert sum(turn.is_call for turn in result.turns) == result.calls
    assert sum(turn.num_tokens for turn in result.turns) == result.tokens == 4
    assert [(hint["bodies"], hint["refuted"]) for hint in result.tree["hints"]] == [
        (1, False),
        (1, False),
        (1, True),
        (1, False),
    ]


def test_bodies_put_together_are_samples_too_but_none_that_two_verifiers_differ_on() -> None:
    def collect(confirm: Verify) -> list[tuple[str, bool, str, int]]:
        writer = Writer([f"{RANGE}\n{LOST}", f"{NEVER}\n{SUM}\nbad"], [])
        settings = SearchConfig(name="pooled_hints", calls=5, width=2)
        functions = Functions(writer.propose, Loop().verify, confirm=confirm)
        one = make_search(LOOP, functions, settings)
        asyncio.run(one.run())
        return [(s.body, s.proved, s.search, s.calls) for s in collect_samples(one)]

    wrong = [
        f"{RANGE}\n{LOST}",
        f"{NEVER}\n{SUM}\nbad",
        "\n".join([RANGE, LOST, NEVER, SUM]),
        "\n".join([RANGE, LOST, SUM]),
    ]
    failed = [(body, False, "pooled_hints", 5) for body in wrong]
    found = (f"{RANGE}\n{SUM}", True, "pooled_hints", 5)
    assert collect(Loop().verify) == [*failed, found]
    assert collect(Loop(limit=1).verify) == failed


def test_bodies_are_continued_after_what_stands() -> None:
    writer = Writer([f"{RANGE}\n{ODD}", f"{RANGE}\n{LOST}"], [SUM, NEVER])
    loop = Loop()
    result = search(writer, loop)
    assert result.proved
    assert writer.openings == ["", f"{RANGE}\n", ""]
    # After the two bodies: all hints, of which one stands; with the two new ones, without the one
    # that does not hold on entry. What is written in a turn is not judged by itself.
    assert loop.judged[2:] == [
        "\n".join([RANGE, ODD, LOST]),
        RANGE,
        "\n".join([RANGE, SUM, NEVER]),
        "\n".join([RANGE, SUM]),
    ]
    assert (result.calls, result.tokens) == (6, 12)
    assert result.tree["turns"][0]["standing"] == [RANGE]


def test_hints_that_failed_are_tried_again_beside_what_comes_later() -> None:
    # The odd clause stands only beside the sum, which a later answer holds.
    loop = Loop()
    result = search(Writer([ODD, SUM], [SUM]), loop, width=1, calls=4)
    assert loop.judged[:2] == [ODD, f"{ODD}\n{SUM}"]
    assert result.tree["turns"][1]["standing"] == [ODD, SUM]


def test_nothing_is_asked_twice_by_the_parts_of_a_search() -> None:
    # The range alone proves nothing, and the odd clause falls beside it.
    loop = Loop()
    result = search(Writer([f"{RANGE}\n{ODD}"], [ODD]), loop, calls=12)
    assert (result.proved, result.stopped) == (False, "exhausted")
    assert loop.judged == [f"{RANGE}\n{ODD}", RANGE]
    assert result.calls == 2


def test_when_a_limit_runs_out_the_hints_of_fewest_bodies_go() -> None:
    writer = Writer([f"{RANGE}\n{ODD}", f"{RANGE}\n{SUM}\n{LOST}", SUM], [])
    loop = Loop(limit=3)
    result = search(writer, loop, width=3, calls=12)
    # Half of four clauses: those that two bodies hold.
    assert loop.judged[3].count("invariant") == 4
    assert loop.judged[4] == result.proofs[0].body == f"{RANGE}\n{SUM}"
    assert result.calls == 5


def test_one_measure_stands() -> None:
    writer = Writer([f"{RANGE}\ndecreases m", f"{SUM}\ndecreases m", "decreases cap - m"], [])
    loop = Loop()
    result = search(writer, loop, width=3, calls=12)
    assert result.proofs[0].body == f"{RANGE}\n{SUM}\ndecreases cap - m"
    assert loop.judged[3:] == [f"{RANGE}\n{SUM}\ndecreases m", result.proofs[0].body]


def test_more_calls_go_on_with_an_unsolved_problem() -> None:
    def build(calls: int, writer: Writer) -> Search:
        config = SearchConfig(name="pooled_hints", calls=calls, width=2, whole_share=0.25)
        return make_search(LOOP, Functions(writer.propose, Loop().verify), config)

    bodies = [f"{RANGE}\n{ODD}", f"{RANGE}\n{LOST}"]
    first = build(3, Writer(bodies, [SUM]))
    stopped = asyncio.run(first.run())
    assert (stopped.proved, stopped.calls) == (False, 3)
    more = build(12, Writer(bodies, [SUM]))
    more.load_state_dict(first.state_dict())
    result = asyncio.run(more.run())
    assert result.proved
    assert result.calls == sum(turn.is_call for turn in result.turns) == 4


@pytest.mark.parametrize("after", [2, 3, 4])
def test_it_goes_on_where_it_was(after: int) -> None:
    async def propose(problem: Problem, prefix: Prefix, num: int, seed: int) -> list[Proposal]:
        later = [SUM, NEVER][seed % 2]
        return [Proposal(prefix.text + (later if prefix.text else f"{RANGE}\n{LOST}"), 2, -1.0)]

    def build(calls: int = 8) -> Search:
        config = SearchConfig(name="pooled_hints", calls=calls, width=1, whole_share=0.1)
        return make_search(LOOP, Functions(propose, Loop().verify), config, seed=4)

    whole = asyncio.run(build().run())
    assert run_stopped(build, asyncio.run, after) == whole
    assert whole.proved


FREE = [f"invariant m <= cap + {number}" for number in range(1, 5)]
HEAVY = "invariant m * m * m <= cap * cap * cap"
POST = ("A postcondition might not hold on this return path.", 0)


def build_slow(asked: list[str], status: Status = Status.EXHAUSTED) -> Search:
    """Clauses that all stand and prove nothing, and after them one that ends without an answer."""

    async def verify(candidate: Candidate) -> Verdict:
        asked.append(candidate.body)
        return Verdict(status) if HEAVY in candidate.body else refuse(POST)

    async def propose(problem: Problem, prefix: Prefix, num: int, seed: int) -> list[Proposal]:
        later = [HEAVY, FREE[2 + seed % 2]][seed % 3 > 0]
        body = prefix.text + later if num > 1 else "\n".join(FREE[:2])
        return [Proposal(body, 2, -1.0)] * num

    config = SearchConfig(name="pooled_hints", calls=12, whole_share=0.25)
    return make_search(LOOP, Functions(propose, verify), config, seed=4)


def test_what_stands_is_kept_when_a_limit_runs_out() -> None:
    asked: list[str] = []
    result = asyncio.run(build_slow(asked).run())
    assert any(HEAVY in body for body in asked)
    standing = [set(turn["standing"]) for turn in result.tree["turns"]]
    assert standing[0] == set(FREE[:2])
    assert standing[-1] == set(FREE)
    # After an answer out of time what is left out is the heavy clause, and no other.
    assert all(one <= other for one, other in itertools.pairwise(standing))


def test_what_was_not_judged_is_not_paid_twice_on_the_way_back() -> None:
    asked: list[str] = []
    whole = asyncio.run(build_slow(asked, Status.TIMEOUT).run())
    assert any(HEAVY in body for body in asked)
    for after in range(1, len(whole.curve)):
        assert run_stopped(lambda: build_slow([], Status.TIMEOUT), asyncio.run, after) == whole


def test_what_was_judged_the_second_time_is_not_known_the_first_time_on_the_way_back() -> None:
    said = [Status.TIMEOUT, Status.EXHAUSTED]

    async def verify(candidate: Candidate) -> Verdict:
        return Verdict(said.pop(0))

    def build() -> PooledHints:
        config = SearchConfig(name="pooled_hints", calls=8)
        search = make_search(LOOP, Functions(Writer([SUM], []).propose, verify), config)
        assert isinstance(search, PooledHints)
        return search

    async def ask(search: PooledHints) -> list[Status]:
        found = [await search.judge(SUM) for _ in range(3)]
        return [verdict.status for verdict in found if verdict is not None]

    first, again = build(), build()
    told = asyncio.run(ask(first))
    assert told == [Status.TIMEOUT, Status.EXHAUSTED, Status.EXHAUSTED]
    again.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert asyncio.run(ask(again)) == told


def test_a_call_that_a_stop_cuts_off_is_not_counted() -> None:
    bodies = [f"{RANGE}\n{LOST}", f"{NEVER}\n{SUM}"]

    async def propose(problem: Problem, prefix: Prefix, num: int, seed: int) -> list[Proposal]:
        return [Proposal(bodies[number % 2], 2, -1.0) for number in range(num)]

    def build(verify: Verify, confirm: Verify) -> Search:
        config = SearchConfig(name="pooled_hints", calls=8, width=2, whole_share=0.25)
        return make_search(LOOP, Functions(propose, verify, confirm=confirm), config)

    whole = asyncio.run(build(Loop().verify, Loop().verify).run())
    assert (whole.proved, whole.calls, whole.confirmations) == (True, 4, 1)

    async def stop(at: int) -> Search:
        """The search, stopped while its call ``at`` (its second verdict is the last) is made."""
        waiting, number = asyncio.Event(), 0

        async def verify(candidate: Candidate) -> Verdict:
            nonlocal number
            number += 1
            if number == at:
                waiting.set()
                await asyncio.Event().wait()
            return await Loop().verify(candidate)

        search = build(verify, verify)
        task = asyncio.create_task(search.run())
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return search

    for at in (3, 4, 5):
        first = asyncio.run(stop(at))
        again = build(Loop().verify, Loop().verify)
        again.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert asyncio.run(again.run()) == whole


def test_a_pooled_proof_that_could_not_be_confirmed_is_neither_proved_nor_refuted() -> None:
    bodies = [f"{RANGE}\n{LOST}", f"{NEVER}\n{SUM}"]

    def build() -> Search:
        async def late(candidate: Candidate) -> Verdict:
            return Verdict(Status.TIMEOUT)

        writer = Writer(bodies, [SUM])
        config = SearchConfig(name="pooled_hints", calls=8, width=2, whole_share=0.25)
        return make_search(LOOP, Functions(writer.propose, Loop().verify, confirm=late), config)

    search = build()
    found = asyncio.run(search.run())
    assert not found.proofs
    assert {verdict.status for _, verdict in found.refuted} == {Status.TIMEOUT}
    assert not any(sample.proved for sample in collect_samples(search))
    unjudged = [turn.body for turn in found.turns if turn.is_call and not turn.judged]
    assert f"{RANGE}\n{SUM}" in unjudged
    again = build()
    again.load_state_dict(json.loads(json.dumps(search.state_dict())))
    assert asyncio.run(again.run()) == found


def test_a_search_that_has_ended_stays_as_it_was() -> None:
    writer = Writer([f"{RANGE}\n{LOST}", f"{NEVER}\n{SUM}"], [])

    def build() -> Search:
        functions = Functions(writer.propose, Loop().verify, confirm=Loop().verify)
        config = SearchConfig(name="pooled_hints", calls=8, width=2, whole_share=0.25)
        return make_search(LOOP, functions, config)

    first, again = build(), build()
    whole = asyncio.run(first.run())
    again.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert asyncio.run(again.run()) == whole
    assert len(whole.tree["hints"]) == 4
    assert collect_samples(again) == collect_samples(first) != []
    assert again.tree is not None
    assert first.tree is not None
    assert len(again.tree) == len(first.tree)
    assert again.state_dict() == first.state_dict()


@pytest.mark.parametrize(
    ("key", "value"),
    [("log", {"round 0": "x"}), ("written", {"#1": None}), ("taken", {"root": -0.5})],
)
def test_a_damaged_state_is_refused_before_the_search_goes_on(key: str, value: object) -> None:
    def build() -> Search:
        functions = Functions(Writer([ODD], [SUM]).propose, Loop().verify)
        return make_search(LOOP, functions, SearchConfig(name="pooled_hints", calls=2))

    first = build()
    asyncio.run(first.run())
    for damaged in (
        first.state_dict() | {key: value},
        first.state_dict() | {"spent": {**first.state_dict()["spent"], "calls": -1000}},
        first.state_dict() | {"spent": {**first.state_dict()["spent"], "tokens": float("nan")}},
    ):
        with pytest.raises(ValueError, match="validation error"):
            build().load_state_dict(damaged)


def test_a_hint_is_tried_behind_what_came_after_it() -> None:
    assertion, call = "assert Val(m) == 18 * m + 22;", "if m > 0 { Lem(m - 1); }"
    judged: list[str] = []

    async def verify(candidate: Candidate) -> Verdict:
        """The assertion holds behind the call alone, and proves the lemma."""
        judged.append(candidate.body)
        lines = candidate.body.split("\n")
        place = lines.index(assertion) + 1 if assertion in lines else 0
        if place and call in lines[: place - 1]:
            return Verdict(Status.PROVED, checks=("obligations:4",))
        return refuse(("assertion violation", place)) if place else refuse(POST)

    writer = Writer([assertion, call], [])
    settings = {"calls": 4, "width": 2, "whole_share": 0.25, "name": "pooled_hints"}
    functions = Functions(writer.propose, verify)
    result = asyncio.run(make_search(LEM, functions, SearchConfig.model_validate(settings)).run())
    both = f"{assertion}\n{call}"
    assert [proof.body for proof in result.proofs] == [f"{call}\n{assertion}"]
    assert judged == [assertion, both, call, f"{call}\n{assertion}"]


def test_answers_of_the_last_turn_are_judged_too() -> None:
    good = "if m == 0 { assert m >= 0; } else { Lem(m - 1); var k := 3; }"
    first = "\n".join(hint.text for hint in list_hints(LEM, good))
    asked: list[str] = []

    async def verify(candidate: Candidate) -> Verdict:
        asked.append(candidate.body)
        if candidate.body == good:
            return Verdict(Status.PROVED, checks=("obligations:4",))
        return refuse(POST)

    async def propose(problem: Problem, prefix: Prefix, num: int, seed: int) -> list[Proposal]:
        return [Proposal(good if num > 1 else first, 2, -1.0)] * num

    def search(max_idle: int) -> SearchResult:
        asked.clear()
        config = SearchConfig(name="pooled_hints", calls=9, whole_share=0.25, max_idle=max_idle)
        return asyncio.run(make_search(LEM, Functions(propose, verify), config).run())

    # A turn of 8 answers holds no new hint, and more than 1 ends the round.
    assert search(1).proved
    assert asked.count(good) == 1


def test_a_round_ends_after_so_many_answers_without_a_new_hint() -> None:
    def count(max_idle: int) -> int:
        writer = Writer([RANGE], [RANGE])
        search(writer, Loop(), calls=2, max_idle=max_idle)
        return writer.openings.count(f"{RANGE}\n")

    # Of two rounds; a turn is of two answers after what stands and two after nothing.
    assert [count(most) for most in (4, 5, 8, 9)] == [2, 4, 4, 6]


def test_rounds_that_were_begun_keep_their_limit_when_a_search_is_continued() -> None:
    settings = {"name": "pooled_hints", "width": 2, "whole_share": 0.25}
    writer, loop = Writer([RANGE], [RANGE]), Loop()
    functions = Functions(writer.propose, loop.verify)

    def build(calls: int, max_idle: int) -> Search:
        config = SearchConfig.model_validate({**settings, "calls": calls, "max_idle": max_idle})
        return make_search(LOOP, functions, config)

    one = build(2, 4)
    asyncio.run(one.run())
    assert (one.calls, len(writer.openings)) == (1, 9)
    state = json.loads(json.dumps(one.state_dict()))
    # The walk is repeated: nothing is written for it again, and nothing more.
    for max_idle in (4, 1):
        writer.openings.clear()
        other = build(2, max_idle)
        other.load_state_dict(state)
        asyncio.run(other.run())
        assert (other.calls, writer.openings) == (1, [])
    # Its last round goes on with a larger limit.
    writer.later = [SUM]
    other = build(4, 64)
    other.load_state_dict(state)
    assert asyncio.run(other.run()).proved
    again = build(4, 4)
    again.load_state_dict(json.loads(json.dumps(other.state_dict())))
    assert again.state_dict() == other.state_dict()


def test_a_policy_that_writes_nothing_ends_the_search() -> None:
    async def propose(problem: Problem, prefix: Prefix, num: int, seed: int) -> list[Proposal]:
        return []

    config = SearchConfig(name="pooled_hints", calls=4)
    result = asyncio.run(make_search(LOOP, Functions(propose, Loop().verify), config).run())
    assert (result.calls, result.stopped) == (0, "exhausted")


def test_bounds_stand_before_what_reads_an_element() -> None:
    reads = "invariant [2, 3][m % 2] > 1"
    loop = Loop()
    search(Writer([reads, RANGE], [RANGE]), loop, calls=3)
    assert loop.judged[1] == f"{RANGE}\n{reads}"


def test_other_problems_are_refused() -> None:
    functions = Functions(Script({}).propose, Loop().verify)
    with pytest.raises(UsageError, match="has no proof hints that bodies share"):
        make_search(CALC, functions, SearchConfig(name="pooled_hints"))


@pytest.mark.slow
@pytest.mark.dafny
def test_good_parts_are_a_proof_on_real_dafny(dafny: Dafny) -> None:
    clauses = [f"{RANGE}\n{NEVER}", f"{SUM}\n{LOST}\ndecreases m", "invariant b == zz"]
    settings = {"name": "pooled_hints", "calls": 12, "width": 3, "whole_share": 0.25}
    result = run(dafny, Script({"": clauses}), LOOP, **settings)
    assert result.proofs[0].body == f"{RANGE}\n{SUM}"
    assert result.proofs[0].confirmed
    # Three bodies; the clauses without those that they refuted, of which one is not maintained.
    assert result.calls == 5
    assert not run(dafny, Script({"": clauses}), LOOP, name="best_of_n", calls=12).proved
    calls = ["ForF(n); assert H(n) == 1;", "ForG(n);"]
    result = run(dafny, Script({"": calls}), TWO, **{**settings, "width": 2})
    assert result.proofs[0].body == "ForF(n);\nForG(n);"


def test_problems_for_pooled_hints_are_chosen_by_their_references(tmp_path: Path) -> None:
    source = ROOT / "dafny" / "curriculum" / "valid.jsonl"
    said = choose(source, tmp_path / "chosen.jsonl")
    references = load_references(source)
    chosen = load_problems(tmp_path / "chosen.jsonl")
    assert load_references(tmp_path / "chosen.jsonl") == {p.id: references[p.id] for p in chosen}
    nums = {p.id: len(list_hints(p, references[p.id])) for p in load_problems(source)}
    assert [p.id for p in chosen] == [name for name, num in nums.items() if num >= 2]
    assert 0 < len(chosen) < len(nums)
    assert said.startswith(f"{len(chosen)} of {len(nums)} problems written to ")
