"""Kinds of problems, report sections and rewards that plug-ins bring: judged, told, refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from proverrl import plugins
from proverrl.config import RewardConfig
from proverrl.errors import ProblemError, RecordError, UsageError
from proverrl.evaluation import section
from proverrl.evaluation.section import Card, ReportSection, Row, SectionPart, tell_all
from proverrl.evaluation.store import attempt_row
from proverrl.lang import LANGUAGES, add_languages, find_language, kinds, list_own
from proverrl.lang.kinds import Kind
from proverrl.lang.open import open_verifier
from proverrl.problems.inputs import Submission, read_entry, refuse_stranger
from proverrl.problems.load import make_row, read_problem
from proverrl.problems.prompt import render_messages, render_prompt
from proverrl.rewards import build_reward, find_hook
from proverrl.types import Candidate, Problem, Rollout, Status, Verdict
from proverrl.verifier.base import refuse_text, verify_all
from tests.builders import build_problem, build_rollout
from tests.sums import make_sum

HERE = "tests.lang.test_plugin_kinds"


class Guess(Kind):
    """``guess N``, with N as the result."""

    words = frozenset({"guess"})

    def check(self, problem: Problem) -> None:
        if "+" not in problem.statement:
            raise ProblemError(f"problem {problem.id!r}: there is no sum to guess")

    def settle(self, candidate: Candidate) -> Candidate | Verdict:
        word, _, number = candidate.body.partition(" ")
        if word != "guess":
            return refuse_text(Status.REJECTED, "guess", ())
        return Candidate(replace(candidate.problem, kind="result"), number)


class Stray(Guess):
    def settle(self, candidate: Candidate) -> Candidate | Verdict:
        return Candidate(build_problem("p"), "")


class Always(Guess):
    """Another statement for each problem: not its own."""

    def settle(self, candidate: Candidate) -> Candidate | Verdict:
        return Candidate(replace(make_sum("own", 1, 1), metadata={}), "2")


class Worded(Guess):
    """What is verified hangs on the words, and on what stands in the metadata."""

    def settle(self, candidate: Candidate) -> Candidate | Verdict:
        problem = candidate.problem
        said = problem.informal or problem.metadata.get("result") or candidate.body
        return Candidate(replace(problem, kind="result"), str(said))


class Puzzled(Guess):
    def show(self, problem: Problem) -> str:
        raise ProblemError(f"problem {problem.id!r}: this cannot be read")


class Sure(Guess):
    """Proves without the language."""

    def settle(self, candidate: Candidate) -> Candidate | Verdict:
        return Verdict(Status.PROVED, checks=("mine",))


class Silent(Guess):
    def settle(self, candidate: Candidate) -> Candidate | Verdict:
        return None  # type: ignore[return-value]


class Leaving(Guess):
    """Ends the program, with the status that says that all is proved."""

    def check(self, problem: Problem) -> None:
        raise SystemExit(0)

    def settle(self, candidate: Candidate) -> Candidate | Verdict:
        raise SystemExit(0)

    def show(self, problem: Problem) -> str:
        raise SystemExit(0)


class NeverMade(Guess):
    def __init__(self) -> None:
        raise SystemExit(0)


class Figures(ReportSection):
    """Counts long bodies; it may not change a status."""

    title = "Lengths"

    def note(
        self, problem: Problem, candidate: Candidate | None, verdict: Verdict | None
    ) -> Mapping[str, Any]:
        return {"length": len(candidate.body) if candidate else 0, "status": "proved"}

    def summarise(
        self,
        problems: Sequence[Problem],
        rows: Sequence[Row],
        group: Callable[[Sequence[Problem]], Mapping[str, Any]],
    ) -> Mapping[str, Any]:
        return {"longest": max(row["length"] for row in rows)}

    def tell(self, title: str, summary: Row) -> str:
        return f"{title}: longest {summary['longest']}" if "longest" in summary else ""

    def show(self, label: str, run: Path) -> list[SectionPart]:
        return [SectionPart(label, "all", ["a"], [Card("c", "n", "m", "t", [["1"]])])]


class Paid:
    """A reward that is for one kind, and marks what it was shown."""

    def __call__(self, rollout: Rollout) -> float:
        return float("seen" in rollout.marks)

    def check(self, problem: Problem) -> None:
        if problem.kind != "guess":
            raise RecordError(f"problem {problem.id!r} is nothing to guess")


paid = Paid()
no_section = 1


@pytest.fixture(autouse=True)
def sums(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(LANGUAGES, "sums", "tests.sums:SUMS")
    monkeypatch.setattr(kinds, "_PLACES", {})
    yield
    find_language.cache_clear()


def make_guess(name: str) -> Problem:
    return replace(make_sum(name, 2, 3), kind="guess", informal="What is it?")


def test_what_a_kind_makes_of_a_body_is_judged_by_the_language() -> None:
    with pytest.raises(ProblemError, match="use one of file, result"):
        read_problem("a", make_row(make_guess("g")))
    add_languages({"sums.guess": f"{HERE}:Guess"})
    assert list_own().items() >= {"sums.guess": f"{HERE}:Guess"}.items()
    problem = make_guess("g")
    assert read_problem("a", make_row(problem)).kind == "guess"

    async def judge() -> list[Verdict]:
        verifier = open_verifier(workers=1, needed=["sums"])
        asked = [Candidate(problem, body) for body in ("guess 5", "guess 6", "5", "guess 5 ")]
        try:
            return await verify_all(verifier, asked, deadline_seconds=10)
        finally:
            await verifier.aclose()

    found = asyncio.run(judge())
    assert [verdict.proved for verdict in found] == [True, False, False, False]
    assert found[2].rule == "guess"
    language = find_language("sums")
    assert language.find_objection(problem, "guess 5") == ""
    assert language.find_objection(replace(problem, statement="1 = /*{HOLE}*/\n"), None) == (
        "there is no sum to guess"
    )
    assert render_prompt(problem, "plain").startswith("# What is it?\n2 + 3 = ")
    assert "the mark /*{HOLE}*/" in render_messages(make_sum("s", 1, 1), "own")[0].content


@pytest.mark.parametrize(
    ("name", "place", "message"),
    [
        ("nowhere.guess", f"{HERE}:Guess", "there is no language 'nowhere'"),
        ("sums.a.b", f"{HERE}:Guess", r"write LANGUAGE\.KIND = "),
        ("sums.guess", "nothing", r"write LANGUAGE\.KIND = "),
    ],
)
def test_names_and_places_of_kinds_are_checked_at_once(name: str, place: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        add_languages({name: place})


def test_a_kind_that_cannot_be_used_is_an_error_where_it_is_met() -> None:
    add_languages({"sums.guess": f"{HERE}:Guess"})
    with pytest.raises(UsageError, match="is a kind already"):
        add_languages({"sums.guess": f"{HERE}:Stray"})
    add_languages({"sums.result": f"{HERE}:Guess", "sums.one": f"{HERE}:no_section"})
    add_languages({"sums.stray": f"{HERE}:Stray"})
    language, problem = find_language("sums"), make_sum("s", 1, 1)
    with pytest.raises(UsageError, match="sums has such a kind"):
        language.find_kind(problem)
    with pytest.raises(UsageError, match=r"no proverrl\.lang\.kinds\.Kind, but int"):
        language.find_kind(replace(problem, kind="one"))
    with pytest.raises(UsageError, match="must be one of result, file of sums"):
        language.settle(Candidate(replace(problem, kind="stray"), "1"))


def test_a_kept_verdict_is_one_on_what_this_kind_makes(tmp_path: Path) -> None:
    def judge(kind: str, *problems: Problem) -> list[bool]:
        kinds._PLACES["sums.guess"] = f"{HERE}:{kind}"
        kinds._load_kind.cache_clear()

        async def ask() -> list[Verdict]:
            verifier = open_verifier(workers=1, needed=["sums"], cache_path=tmp_path / "kept")
            try:
                asked = [Candidate(problem, "guess 6") for problem in problems]
                return await verify_all(verifier, asked, deadline_seconds=10)
            finally:
                await verifier.aclose()

        return [verdict.proved for verdict in asyncio.run(ask())]

    problem = replace(make_guess("g"), informal="")
    assert judge("Always", problem) == [True]
    # Another kind under the same name: "guess 6" is no proof of 2 + 3.
    assert judge("Guess", problem) == [False]
    assert judge("Always", problem) == [True]
    # Equal keys, so the words and the metadata have no say.
    told = [replace(problem, informal="5"), replace(problem, metadata={"result": "5"})]
    assert judge("Worded", *told, problem) == [False, False, False]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("Sure", "the kind 'odd' gives a proof; it must give a Candidate"),
        ("Silent", "the kind 'odd' gives NoneType; it must give a Candidate"),
        ("Leaving", r"languages\.sums\.odd: Leaving asked the program to end"),
        ("NeverMade", r"languages\.sums\.odd: NeverMade asked the program to end"),
    ],
)
def test_no_kind_proves_by_itself_or_ends_the_program(kind: str, message: str) -> None:
    add_languages({"sums.odd": f"{HERE}:{kind}"})
    language, problem = find_language("sums"), replace(make_sum("s", 1, 1), kind="odd")
    with pytest.raises(UsageError, match=message):
        language.settle(Candidate(problem, "guess 2"))
    if kind == "Leaving":
        with pytest.raises(UsageError, match=message):
            language.show_text(problem)
        with pytest.raises(UsageError, match=message):
            language.find_objection(problem, None)


def test_a_problem_that_a_kind_cannot_read_is_refused_by_itself() -> None:
    add_languages({"sums.odd": f"{HERE}:Puzzled"})
    raw = make_row(replace(make_sum("p", 1, 1), kind="odd"))
    entry = read_entry({"id": "a", "problem": raw, "body": "guess 2"}, "f", 1)
    assert isinstance(entry, Submission)
    refused = refuse_stranger(entry)
    assert refused is not None
    assert (refused.kind, "this cannot be read" in refused.reason) == ("bad-problem", True)


def use_sections(monkeypatch: pytest.MonkeyPatch, **places: str) -> None:
    given = [EntryPoint(name, place, "proverrl.report") for name, place in places.items()]
    monkeypatch.setattr(
        plugins, "entry_points", lambda *, group: given if group == "proverrl.report" else []
    )
    section.list_sections.cache_clear()


def test_a_section_adds_and_changes_nothing_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    use_sections(monkeypatch, lengths=f"{HERE}:Figures", odd=f"{HERE}:no_section")
    with pytest.warns(RuntimeWarning, match="is no proverrl.evaluation.section.ReportSection"):
        row = attempt_row(build_rollout(build_problem("p"), 0, Status.REJECTED), 0)
    assert (row["length"], row["status"]) == (6, "rejected")
    assert json.loads(json.dumps(row)) == row
    (own,) = section.list_sections()
    assert tell_all("After", own.summarise([], [row], lambda problems: {})) == ["After: longest 6"]
    assert tell_all("After", {}) == []
    section.list_sections.cache_clear()


def test_a_reward_brings_a_check_and_a_review() -> None:
    config = RewardConfig(name=f"{HERE}:paid")
    check = find_hook(config, "check")
    assert check is not None
    check(make_guess("g"))
    with pytest.raises(RecordError, match="'p' is nothing to guess"):
        check(build_problem("p"))
    assert find_hook(config, "review") is None
    assert find_hook(RewardConfig(), "check") is None
    rollout = build_rollout(build_problem("p"), 0, Status.REJECTED)
    earn = build_reward(config, max_new_tokens=8)
    marked = replace(rollout, marks=frozenset({"seen"}))
    assert [earn(one).total for one in (rollout, marked)] == [0.0, 1.0]
    with pytest.raises(RecordError, match="not judged"):
        earn(build_rollout(build_problem("p"), 0, Status.TIMEOUT))
