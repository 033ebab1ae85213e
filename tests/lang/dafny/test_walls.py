"""What an accepted proof has to pass before it counts."""

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from proverrl.errors import Cause
from proverrl.lang.base import BackendOptions
from proverrl.lang.dafny.verify.backend import open_dafny
from proverrl.lang.dafny.verify.walls.second_judge import OlderJudge, SecondJudge
from proverrl.lang.dafny.verify.workers.toolchain import (
    DafnyToolchain,
    find_confirming_toolchain,
)
from proverrl.lang.lean.verify.confirm import FreshProcess
from proverrl.rollout.feedback import compact
from proverrl.types import HOLE, Candidate, Diagnostic, Obligations, Problem, Stage, Status, Verdict
from proverrl.verifier.base import DEFAULT_LANE, Lane, Limits, PoolStats
from proverrl.verifier.confirm import ConfirmingVerifier, Wall
from tests.two_dafnys import DAFNY_2, DAFNY_4

PROBLEM = Problem(
    "p",
    "dafny",
    "invariants",
    "",
    f"method M(n: nat)\n  ensures n >= 0\n{{\n  while n > 0\n    {HOLE}\n  {{ }}\n}}\n",
)
CANDIDATE = Candidate(PROBLEM, "invariant n == n\n    invariant n >= 0")
FIRST = Verdict(
    Status.PROVED,
    obligations=(Obligations("Impl$$_module.__default.M", 3, 3),),
    seconds=1.0,
    stage=Stage.PROVER,
    checks=("audit", "resolve"),
)
SECOND = Verdict(
    Status.PROVED,
    obligations=(Obligations("M", 0, 0),),
    seconds=2.0,
    toolchain="dafny 4.11.0",
    stage=Stage.PROVER,
    checks=("resolve", "obligations"),
)
TOLD = "second-judge: dafny 4.11.0"
WALLED = (Status.UNSOUND, Stage.WALL, "second-judge")
GOAL = "ensures clause proved using contradictory assumptions"


@dataclass
class Judge:
    """Says of each text what it was given for it."""

    answers: dict[str, Verdict]
    asked: list[tuple[str, float, Lane]] = field(default_factory=list)
    closed: bool = False

    async def verify(
        self, candidate: Candidate, *, deadline_seconds: float, lane: Lane = DEFAULT_LANE
    ) -> Verdict:
        self.asked.append((candidate.body, deadline_seconds, lane))
        return self.answers[candidate.body]

    def stats(self) -> PoolStats | None:
        return PoolStats(workers=1)

    async def aclose(self) -> None:
        self.closed = True


def confirm(
    second: Verdict,
    empty: Verdict | None = None,
    candidate: Candidate = CANDIDATE,
    plain: Verdict | None = None,
) -> Verdict:
    judge = Judge({candidate.body: second} | ({"": empty} if empty else {}))
    wall = SecondJudge(judge, Judge({candidate.body: plain or second}))
    verdict = asyncio.run(wall.confirm(candidate, FIRST, deadline_seconds=5, lane=DEFAULT_LANE))
    assert [asked[:2] for asked in judge.asked] == [
        (body, 10) for body in (candidate.body, *([""] if empty else []))
    ]
    return verdict


def warn(line: int, column: int, text: str = GOAL) -> Verdict:
    """The second judge proves it with a warning at this place."""
    return replace(SECOND, diagnostics=(Diagnostic("warning", text, line, column),))


def test_what_both_accept_is_proved_and_says_who_judged() -> None:
    assert confirm(SECOND) == replace(FIRST, seconds=3.0, checks=(*FIRST.checks, TOLD))


@pytest.mark.parametrize(
    ("status", "stage", "cause", "said"),
    [
        (Status.REJECTED, Stage.PROVER, "", "does not confirm the proof: it fails"),
        (Status.REJECTED, Stage.READING, "", "does not confirm the proof (it is not read): it f"),
        (Status.EXHAUSTED, Stage.PROVER, "", "does not confirm the proof: it fails"),
        (Status.TIMEOUT, Stage.NOBODY, "deadline", "does not confirm the proof: it fails"),
    ],
)
def test_what_it_does_not_prove_is_unconfirmed(
    status: Status, stage: Stage, cause: Cause, said: str
) -> None:
    fails = Diagnostic("error", "it fails", 2, 10)
    second = replace(SECOND, status=status, stage=stage, cause=cause, diagnostics=(fails,))
    verdict = confirm(second)
    assert (verdict.status, verdict.cause) == (Status.UNCONFIRMED, cause)
    assert (verdict.stage, verdict.rule) == (Stage.WALL, "second-judge")
    assert verdict.checks == (*FIRST.checks, TOLD, "wall:second-judge")
    assert verdict.diagnostics[0].message.startswith(f"a second Dafny {said}")
    assert verdict.diagnostics[1:] == (fails,)
    assert verdict.obligations == FIRST.obligations


def test_what_is_proved_without_the_analysis_is_confirmed() -> None:
    fails = replace(SECOND, status=Status.REJECTED)
    assert confirm(fails, plain=SECOND).checks == (*FIRST.checks, TOLD)
    # What the analysis told of the goal counts all the same.
    told = replace(warn(2, 12), status=Status.REJECTED)
    empty = replace(warn(7, 2), status=Status.REJECTED)
    assert confirm(told, empty, plain=SECOND).status is Status.UNSOUND


def test_of_a_bare_file_contradictions_are_not_asked() -> None:
    candidate = Candidate(Problem("f", "dafny", "file", "", HOLE), "lemma M() {}")
    judge = Judge({})
    wall = SecondJudge(judge, Judge({candidate.body: SECOND}))
    assert asyncio.run(wall.confirm(candidate, FIRST, deadline_seconds=5, lane=DEFAULT_LANE)).proved
    assert judge.asked == []
    # Only what is not proved without the analysis is asked with it.
    judge.answers[candidate.body] = warn(1, 8)
    fails = replace(SECOND, status=Status.REJECTED)
    wall = SecondJudge(judge, Judge({candidate.body: fails}))
    verdict = asyncio.run(wall.confirm(candidate, FIRST, deadline_seconds=5, lane=DEFAULT_LANE))
    assert (verdict.status, verdict.seconds) == (Status.PROVED, 5.0)
    assert [body for body, *_ in judge.asked] == [candidate.body]


def test_a_judge_that_somebody_else_ended_says_nothing() -> None:
    ended = Verdict(Status.CRASHED, toolchain="dafny 4.11.0", cause="killed")
    assert (confirm(ended).status, confirm(ended).cause) == (Status.CRASHED, "killed")


def test_an_entry_that_it_does_not_name_is_unconfirmed() -> None:
    verdict = confirm(replace(SECOND, obligations=(Obligations("N", 0, 0),)))
    assert verdict.status is Status.UNCONFIRMED
    assert verdict.diagnostics[0].message == "a second Dafny does not verify M"


def test_a_colemma_is_named_once() -> None:
    # The first one verifies its prefix; a name may end like one.
    entries = ("Impl$$_module.__default.M_h", "Impl$$_module.__default.N__h")
    first = replace(FIRST, obligations=tuple(Obligations(name, 1, 1) for name in entries))
    second = replace(SECOND, obligations=(Obligations("M", 0, 0), Obligations("N_h", 0, 0)))
    for named, proved in ((second.obligations, True), (second.obligations[:1], False)):
        judge = Judge({CANDIDATE.body: replace(second, obligations=named)})
        wall = SecondJudge(judge, judge)
        asked = wall.confirm(CANDIDATE, first, deadline_seconds=5, lane=DEFAULT_LANE)
        assert asyncio.run(asked).proved is proved


def test_a_goal_by_contradiction_is_unsound_unless_it_is_so_without_the_body() -> None:
    empty = replace(warn(7, 2), status=Status.REJECTED)
    verdict = confirm(warn(2, 12), empty)
    assert (verdict.status, verdict.stage, verdict.rule) == WALLED
    assert verdict.diagnostics == (Diagnostic("error", GOAL, 2, 12),)
    assert confirm(warn(2, 12), replace(warn(2, 12), status=Status.REJECTED)).proved


def test_our_code_behind_the_hole_is_found_again_by_its_distance_from_the_end() -> None:
    """The body has one line more than an empty one."""
    assert confirm(warn(7, 4), replace(warn(6, 4), status=Status.REJECTED)).proved
    other = replace(warn(6, 2), status=Status.REJECTED)
    assert confirm(warn(7, 4), other).status is Status.UNSOUND


def test_what_the_policy_wrote_may_hold_by_contradiction() -> None:
    assert confirm(warn(6, 14)).proved
    helper = replace(CANDIDATE, prelude="lemma H() requires false ensures 1 == 2 {}\n")
    assert confirm(warn(1, 36), candidate=helper).proved
    goal = confirm(warn(3, 12), replace(warn(2, 12), status=Status.REJECTED), candidate=helper)
    assert goal.proved


def test_an_empty_body_that_is_not_read_leaves_the_proof_unconfirmed() -> None:
    unread = Verdict(Status.REJECTED, (Diagnostic("error", "no"),), stage=Stage.READING)
    assert confirm(warn(2, 12), unread).status is Status.UNCONFIRMED


@pytest.mark.parametrize("clause", ["ensures  n >= 0", "ensures  n>=0 // so", "ensures  n >=/**/0"])
def test_an_annotated_program_answers_for_its_postconditions(clause: str) -> None:
    blank = "method M(n: nat)\n  ensures n >= 0\n{\n}\n"
    problem = Problem("a", "dafny", "annotate", "", blank + HOLE)
    hinted = f"method M(n: nat)\n  {clause}\n{{\n  assert n == n;\n}}\n"
    candidate = Candidate(problem, hinted)

    def ask(second: Verdict, empty: Verdict) -> Status:
        wall = SecondJudge(
            Judge({hinted: second, blank: empty}), Judge({hinted: second, blank: empty})
        )
        work = wall.confirm(candidate, FIRST, deadline_seconds=5, lane=DEFAULT_LANE)
        return asyncio.run(work).status

    assert ask(warn(2, 11), SECOND) is Status.UNSOUND
    assert ask(warn(2, 11), warn(2, 10)) is Status.PROVED
    assert ask(warn(4, 2), SECOND) is Status.PROVED
    assert ask(warn(4, 9, "proved using contradictory assumptions: x"), SECOND) is Status.PROVED


def verify_through(
    *walls: Wall, rate: float = 1.0, first: Verdict = FIRST
) -> tuple[Verdict, PoolStats]:
    async def main() -> tuple[Verdict, PoolStats]:
        verifier = ConfirmingVerifier(Judge({CANDIDATE.body: first}), walls, rate)
        verdict = await verifier.verify(CANDIDATE, deadline_seconds=5)
        stats = verifier.stats()
        await verifier.aclose()
        assert stats is not None
        return verdict, stats

    return asyncio.run(main())


def test_walls_stand_one_behind_another() -> None:
    good, bad = Judge({CANDIDATE.body: SECOND}), Judge({CANDIDATE.body: SECOND})
    verdict, stats = verify_through(SecondJudge(good, good), FreshProcess(bad))
    assert verdict.checks == (*FIRST.checks, TOLD, "obligations", "confirmed")
    assert (stats.confirmed, stats.unconfirmed, verdict.seconds) == (1, 0, 5.0)
    assert good.closed
    assert bad.closed


def test_the_first_wall_that_objects_is_the_last_one_asked() -> None:
    refused = replace(SECOND, status=Status.REJECTED)
    first, second = Judge({CANDIDATE.body: refused}), Judge({})
    verdict, stats = verify_through(SecondJudge(first, first), SecondJudge(second, second))
    assert (verdict.status, stats.unconfirmed) == (Status.UNCONFIRMED, 1)
    assert second.asked == []


@pytest.mark.parametrize(
    ("second", "said", "status"),
    [
        (SECOND, TOLD, Status.PROVED),
        (
            replace(SECOND, status=Status.REJECTED, stage=Stage.READING),
            f"{TOLD}: not read",
            Status.PROVED,
        ),
        (replace(SECOND, status=Status.REJECTED), TOLD, Status.UNCONFIRMED),
        (replace(SECOND, status=Status.UNSOUND, stage=Stage.WALL), TOLD, Status.UNCONFIRMED),
        (replace(SECOND, status=Status.TIMEOUT, stage=Stage.NOBODY), TOLD, Status.UNCONFIRMED),
        (replace(SECOND, status=Status.CRASHED, stage=Stage.NOBODY), TOLD, Status.CRASHED),
    ],
)
def test_an_older_judge_says_nothing_of_what_it_cannot_read(
    second: Verdict, said: str, status: Status
) -> None:
    judge = Judge({CANDIDATE.body: second})
    verdict, _ = verify_through(OlderJudge(judge, "dafny 4.11.0"))
    assert verdict.status is status
    assert verdict.checks[len(FIRST.checks)] == said
    assert judge.asked[0][1] == 10


def test_a_share_meets_the_walls() -> None:
    share = int(CANDIDATE.key[:8], 16) / 16**8
    assert verify_through(SecondJudge(Judge({}), Judge({})), rate=share)[0] == FIRST
    judge = Judge({CANDIDATE.body: SECOND})
    assert verify_through(SecondJudge(judge, judge), rate=share + 1e-6)[0].checks[-1] == "confirmed"


def test_what_a_user_has_believed_is_not_asked_of_another() -> None:
    first = replace(FIRST, believed=(("axiom", 1),))
    judge = Judge({})
    verdict, stats = verify_through(SecondJudge(judge, judge), first=first)
    assert (verdict, stats.confirmed, judge.asked) == (first, 0, [])


def test_the_toolchain_names_the_second_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server's first lines and what it says of itself, and the last line of ``verify``."""
    dafny = tmp_path / "dafny"
    dafny.write_text("#!/bin/sh\necho 4.11.0\n")
    dafny.chmod(0o755)

    def name(**more: Any) -> str:
        return open_dafny(BackendOptions(workers=1, limits=Limits(), **more)).toolchain

    monkeypatch.setenv("PROVERRL_SECOND_DAFNY", "")
    alone = name()
    monkeypatch.setenv("PROVERRL_SECOND_DAFNY", str(dafny))
    judge = find_confirming_toolchain(None)
    assert judge is not None
    second = f"; second judge: {judge.name}"
    assert name() == alone + second
    assert name(allowed=("axiom",)) == f"{alone}, allowing axiom{second}"
    assert name(confirm="off") == alone
    assert name(arguments=("/arith:2",)) == (
        f"{alone}, /arith:2; the second judge is not asked under --dafny-arg"
    )


def test_a_text_that_ends_fresh_processes_is_unconfirmed() -> None:
    fatal = Verdict(Status.REJECTED, (Diagnostic("error", "no"),), cause="died")
    verdict, _ = verify_through(FreshProcess(Judge({CANDIDATE.body: fatal})))
    assert (verdict.status, verdict.cause) == (Status.UNCONFIRMED, "died")
    assert (verdict.stage, verdict.rule) == (Stage.WALL, "fresh-process")


def judge_statements(
    statements: list[str], *, second: DafnyToolchain, first: DafnyToolchain | None = None
) -> list[Verdict]:
    """With empty bodies, by real Dafnys; ``second`` is the one that PROVERRL_SECOND_DAFNY names."""

    async def main() -> list[Verdict]:
        backend = open_dafny(BackendOptions(workers=1, limits=Limits(), toolchain=first))
        assert second.name in backend.salt
        verdicts = [
            await backend.verifier.verify(
                Candidate(Problem("p", "dafny", "statements", "", text), ""), deadline_seconds=60
            )
            for text in statements
        ]
        await backend.verifier.aclose()
        return verdicts

    return asyncio.run(main())


def test_real_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    if DAFNY_4 is None:
        pytest.skip("needs a Dafny 4 (python -m proverrl.lang.dafny.install)")
    monkeypatch.setenv("PROVERRL_SECOND_DAFNY", DAFNY_4.dafny)
    lemma = f"lemma L(x: int)\n  ensures x * x >= 0\n{{{HOLE}}}\n"
    # Dafny 4 has no such word any more.
    words = [lemma, f"protected predicate P() {{ true }}\n{lemma}", lemma.replace("0", "1")]

    proved, unread, wrong = judge_statements(words, second=DAFNY_4)
    told = f"second-judge: {DAFNY_4.name}"
    assert (proved.status, proved.checks[-2:]) == (Status.PROVED, (told, "confirmed"))
    assert (unread.status, unread.checks[-2:]) == (Status.UNCONFIRMED, (told, "wall:second-judge"))
    assert (unread.stage, unread.rule) == (Stage.WALL, "second-judge")
    assert wrong.status is Status.REJECTED
    assert wrong.failed_in_prover
    monkeypatch.setenv("PROVERRL_SECOND_DAFNY", "")
    assert "dafny 4" not in open_dafny(BackendOptions(workers=1, limits=Limits())).salt


@pytest.mark.dafny
def test_dafny_2_3_behind_dafny_4(real: DafnyToolchain, monkeypatch: pytest.MonkeyPatch) -> None:
    older = DAFNY_2
    if older is None:
        pytest.skip("needs a Dafny 2.3")
    monkeypatch.setenv("PROVERRL_SECOND_DAFNY", older.dafny)
    lemma = f"lemma L(x: int)\n  ensures x * x >= 0\n{{{HOLE}}}\n"
    # Dafny 2.3 knows no such loop.
    newer = f"method M(n: nat) {{ for i := 0 to n {{ {HOLE} }} }}\n"

    verdicts = judge_statements([lemma, newer], second=older, first=real)
    told = f"second-judge: {older.name}"
    proved = [(v.status.value, v.checks[-2:]) for v in verdicts]
    assert proved == [
        ("proved", (told, "confirmed")),
        ("proved", (f"{told}: not read", "confirmed")),
    ]


def test_an_unconfirmed_proof_earns_nothing() -> None:
    refused = replace(FIRST, status=Status.UNCONFIRMED)
    assert (refused.status.judged, refused.proved) == (True, False)
    said = compact(CANDIDATE, refused, 3)
    assert said.endswith("the proof is not confirmed by a second verifier")
