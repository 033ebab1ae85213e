"""The audit of Lean text, and every known cheat against every layer that must stop it.

A case of tests/attacks/lean names the layer that catches it. ``text:<rule>`` is the audit of the
text; what passes it is stopped by what Lean answers: ``elaboration`` (its messages), ``axioms``,
or ``type-identity`` (another declaration than ours, or none). ``lean_answer`` is that answer,
played to the judge here; where ``source`` says "derived" nobody has seen Lean
give it. ``then`` is the layer behind the text, ``deep`` where only a second kernel would see it.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from proverrl.errors import ProblemError
from proverrl.lang.lean.audit.text import (
    LEAN_KINDS,
    MAX_BODY_CHARACTERS,
    MAX_FILE_CHARACTERS,
    audit_lean_candidate,
    audit_text,
    check_lean_problem,
)
from proverrl.lang.lean.syntax.declarations import find_target, problem_from_statement
from proverrl.lang.lean.syntax.keywords import PROOF_KEYWORDS
from proverrl.lang.lean.syntax.tokens import scan_tokens
from proverrl.lang.lean.syntax.words import COMMANDS, KEYWORDS, judge_word
from proverrl.lang.lean.verify.identity import make_report_question, read_report
from proverrl.lang.lean.verify.judge import (
    STANDARD_AXIOMS,
    judge_declaration,
    judge_messages,
)
from proverrl.lang.lean.verify.workers.messages import Elaboration, LeanMessage
from proverrl.types import HOLE, Candidate, Diagnostic, Problem, Status, Verdict
from tests import ROOT
from tests.lang.lean.test_problems_lean import texts

HERE = ROOT / "tests"
SHARED = HERE.resolve().parents[1] / "shared"
CASES = [
    json.loads(path.read_text("ascii"))
    for path in sorted((HERE / "attacks" / "lean").glob("*.json"))
]
ANSWERED = [case for case in CASES if "lean_answer" in case]
HONEST = [
    json.loads(line)
    for line in (HERE / "honest" / "lean_bodies.jsonl").read_text("utf-8").splitlines()
]
RULES = {
    "attributes", "brackets", "characters", "commands", "comments", "holes", "keywords",
    "leftovers", "meta",
    "names", "native", "open", "options", "prelude", "resources", "scope", "size", "strings",
}  # fmt: skip
MESSAGES = TypeAdapter(tuple[LeanMessage, ...])
LATER_LAYERS = {"elaboration", "axioms", "type-identity"}
LAYER_CHECKS = {
    "elaboration": ("audit", "messages"),
    "axioms": ("audit", "no-errors", "no-sorry", "target", "type"),
}


def make_candidate(case: dict[str, Any]) -> Candidate:
    problem = Problem(case["name"], "lean", case["kind"], case["preamble"], case["statement"])
    return Candidate(problem, case["body"], case.get("prelude", ""))


def elaborate(raw: dict[str, Any], *, reached_end: bool = True) -> Elaboration:
    messages = MESSAGES.validate_python(raw.get("messages", []))
    return Elaboration(None, messages, reached_end=reached_end)


def place_report(raw: dict[str, Any], target: str) -> Elaboration:
    """The answer to our question about a declaration, with its messages on the asked lines."""
    lines = make_report_question(target).split("\n")
    places = [i for i, line in enumerate(lines, 1) if line.startswith(("#check", "#print"))]
    messages = [
        {**message, "pos": {"line": line, "column": 0}}
        for message, line in zip(raw["messages"], places, strict=False)
    ]
    return elaborate({"messages": messages})


def judge_answer(case: dict[str, Any]) -> Verdict:
    """What the rule of verdicts makes of the recorded answer, as if there were no audit."""
    answer = case["lean_answer"]
    candidate = make_candidate(case)
    done = elaborate(answer["candidate"], reached_end=answer.get("reached_end", True))
    judgement = judge_messages(done, candidate, 0)
    if judgement is not None:
        return judgement
    target = find_target(candidate.problem)
    report = read_report(place_report(answer["check"], target), target)
    ours = "@target : our own type"
    if "statement" in answer:
        ours = read_report(place_report(answer["statement"], target), target).fingerprint
    elif case.get("then", case["caught_by"]) != "type-identity":
        ours = report.fingerprint
    return judge_declaration(report, ours, STANDARD_AXIOMS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_named_layer_stops_it(case: dict[str, Any]) -> None:
    verdict = audit_lean_candidate(make_candidate(case))
    if case["caught_by"].startswith("text:"):
        assert verdict is not None
        assert verdict.rule == case["caught_by"].removeprefix("text:")
        assert verdict.status is Status(case["status"])
        assert verdict.diagnostics[0].severity == "error"
    else:
        assert verdict is None
        judgement = judge_answer(case)
        assert judgement.status is Status(case["status"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_holes_in_front_hide_nothing(case: dict[str, Any]) -> None:
    """A text whose only fault are holes may go to Lean."""
    candidate = make_candidate(case)
    verdict = audit_lean_candidate(candidate)
    holes = "\n  ".join(["sorry"] * 12)
    holed = audit_lean_candidate(replace(candidate, body=f"{holes}\n  {candidate.body}"))
    assert holed is not None
    is_open = verdict is None or verdict.status is Status.INCOMPLETE
    assert (holed.status is Status.INCOMPLETE) is is_open


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_it_is_never_proved(case: dict[str, Any]) -> None:
    verdict = audit_lean_candidate(make_candidate(case))
    status = judge_answer(case).status if verdict is None else verdict.status
    assert status in (Status.UNSOUND, Status.REJECTED, Status.INCOMPLETE, Status.EXHAUSTED)


@pytest.mark.parametrize("case", ANSWERED, ids=lambda case: case["name"])
def test_the_layer_behind_the_text_stops_it_too(case: dict[str, Any]) -> None:
    layer = case.get("then", case["caught_by"])
    judgement = judge_answer(case)
    assert judgement.status is not Status.PROVED
    if layer == "type-identity":
        assert judgement.status is Status.UNSOUND
        assert judgement.checks[:3] == ("audit", "no-errors", "no-sorry")
        assert "type" not in judgement.checks
    else:
        assert judgement.checks == LAYER_CHECKS[layer]


def test_the_cases_are_many_and_every_layer_stops_something() -> None:
    layers = Counter(case["caught_by"] for case in CASES)
    assert {f"text:{rule}" for rule in RULES} | LATER_LAYERS == layers.keys()
    assert len({case["name"] for case in CASES}) == len(CASES) >= 285
    texts_seen = {
        (case["statement"], case["body"], case.get("prelude", ""), case.get("preamble"))
        for case in CASES
    }
    # One cheat may stand twice: with the answer of an old Lean and that of a new one.
    assert len(texts_seen) >= len(CASES) - 2
    assert all(case["source"] for case in CASES)
    assert len(ANSWERED) >= 100


@pytest.mark.parametrize("case", HONEST, ids=lambda case: case["id"])
def test_honest_text_is_admitted(case: dict[str, Any]) -> None:
    assert audit_lean_candidate(make_candidate({**case, "name": case["id"]})) is None


def test_there_is_enough_honest_text() -> None:
    kinds = Counter(case["kind"] for case in HONEST)
    assert len({case["id"] for case in HONEST}) == len(HONEST) >= 145
    assert kinds["term"] >= 15
    assert sum("prelude" in case for case in HONEST) >= 10


def read_lines(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    lines = path.read_text("utf-8").splitlines()
    return [json.loads(line, strict=False) for line in lines if line.strip()]


def test_recorded_proofs_over_mathlib_are_admitted() -> None:
    refused = {}
    rows = read_lines(SHARED / "fixtures" / "lean_proof_verdicts.jsonl")
    for row in rows:
        before, _, body = row["code"].partition(":= by")
        problem = problem_from_statement(row["id"], before + ":= by")
        whole = Problem(row["id"], "lean", "file", "", f"{HOLE}\n")
        for candidate in (Candidate(problem, body), Candidate(whole, row["code"])):
            verdict = audit_lean_candidate(candidate)
            if verdict is not None:
                refused[row["id"]] = verdict.diagnostics
    assert refused == {}
    assert len(rows) >= 60


def test_recorded_few_shot_proofs_are_admitted() -> None:
    rows = read_lines(SHARED / "data" / "minif2f_deepseek" / "minif2f_valid_few_shot.jsonl")
    refused = {}
    for row in rows:
        problem = problem_from_statement(row["name"], row["formal_statement"])
        verdict = audit_lean_candidate(Candidate(problem, row["formal_proof"]))
        if verdict is not None:
            refused[row["name"]] = verdict.diagnostics
    assert refused == {}
    assert len(rows) >= 60


STATEMENT = f"theorem target (n : Nat) : n = n := by\n  {HOLE}\n"


def make(body: str, prelude: str = "", preamble: str = "") -> Candidate:
    return Candidate(Problem("p", "lean", "tactics", preamble, STATEMENT), body, prelude)


def test_a_finding_is_placed_in_the_body_and_in_the_file() -> None:
    verdict = audit_lean_candidate(make("skip\n  sorry", preamble="open Nat\n\n"))
    assert verdict is not None
    assert verdict.status is Status.INCOMPLETE
    message = "holes: 'sorry' leaves the goal open"
    assert verdict.diagnostics == (
        Diagnostic("error", message, line=5, column=2, body_line=2, body_column=2),
    )
    first = audit_lean_candidate(make("sorry", preamble="open Nat\n\n"))
    assert first is not None
    assert first.diagnostics == (
        Diagnostic("error", message, line=4, column=2, body_line=1, body_column=0),
    )


def test_a_finding_in_a_prelude_has_no_place_in_the_body() -> None:
    verdict = audit_lean_candidate(
        make("rfl", "theorem a : True := trivial\naxiom b : False\n", "\n")
    )
    assert verdict is not None
    message = "commands: 'axiom' belongs to a command, not to a proof"
    assert verdict.diagnostics == (Diagnostic("error", message, line=3, column=0),)


def test_the_worst_finding_decides() -> None:
    for body, status, rule in (
        ("sorry", Status.INCOMPLETE, "holes"),
        ("sorry (", Status.REJECTED, "brackets"),
        ("sorry (\nnative_decide", Status.UNSOUND, "native"),
    ):
        verdict = audit_lean_candidate(make(body))
        assert verdict is not None
        assert (verdict.status, verdict.rule) == (status, rule)


@pytest.mark.parametrize(
    ("text", "part", "limit"),
    [("x ", "body", MAX_BODY_CHARACTERS), ("x ", "file", MAX_FILE_CHARACTERS)],
)
def test_size_is_bounded(text: str, part: Any, limit: int) -> None:
    found = audit_text(text * (limit // 2) + "x", part)
    assert [(f.category, f.rule) for f in found] == [("syntax", "size")]
    assert found[0].message == f"longer than {limit} characters"


def test_tokens_and_nesting_are_bounded() -> None:
    assert [f.message for f in audit_text("x " * 60_000, "body")] == ["more than 60000 tokens"]
    assert audit_text("(" * 200 + ")" * 200, "body") == []
    assert [f.rule for f in audit_text("(" * 201 + ")" * 201, "body")] == ["size"]


def test_words_of_the_problem_are_free_to_use() -> None:
    statement = f"theorem target (start stop : Nat) : start = start := by\n  {HOLE}\n"
    problem = Problem("p", "lean", "tactics", "", statement)
    assert audit_lean_candidate(Candidate(problem, "exact rfl (a := stop)")) is None
    verdict = audit_lean_candidate(make("stop"))
    assert verdict is not None
    assert verdict.status is Status.INCOMPLETE


def test_a_character_of_the_problem_is_free_to_use() -> None:
    statement = f"theorem target (Α : Nat) : Α = Α := by\n  {HOLE}\n"
    problem = Problem("p", "lean", "tactics", "", statement)
    assert audit_lean_candidate(Candidate(problem, "exact Eq.refl Α")) is None
    verdict = audit_lean_candidate(make("exact Eq.refl Α"))
    assert verdict is not None
    assert verdict.rule == "characters"


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ("rfl\n#print axioms target", "rejected", "commands: '#print' starts a command"),
        ("rfl\n#print axioms target #eval 1", "unsound", "commands: '#print' starts a command"),
        ('rfl\n#print "x"', "unsound", "commands: '#print' starts a command"),
        (
            "rfl\nset_option maxHeartbeats 400000",
            "rejected",
            "options: 'set_option maxHeartbeats' without 'in' reaches over the rest of the file",
        ),
        (
            "rfl\nset_option pp.all true",
            "unsound",
            "options: 'set_option pp.all' without 'in' reaches over the rest of the file",
        ),
    ],
)
def test_a_habit_at_the_end_of_a_file_is_no_cheat(body: str, status: str, message: str) -> None:
    verdict = audit_lean_candidate(make(body))
    assert verdict is not None
    assert verdict.status == status
    assert verdict.diagnostics[0].message == message


@pytest.mark.parametrize(
    ("option", "rule"),
    [
        ("maxHeartbeats 1000000", None),
        ("maxHeartbeats 1000001", "options"),
        ("maxHeartbeats 0", "options"),
        ("maxHeartbeats true", "options"),
        ("maxRecDepth 100000", None),
        ("maxRecDepth 100001", "options"),
        ("pp.all true", None),
        ("linter.unusedVariables false", None),
        ("trace.Meta.synthInstance true", "options"),
        ("pp true", "options"),
    ],
)
def test_options_are_on_a_list(option: str, rule: str | None) -> None:
    verdict = audit_lean_candidate(make(f"set_option {option} in\n  rfl"))
    assert (verdict and verdict.rule) == rule


# Among them: what Lean checks, how it says so, what it runs, and how much of it it says.
REFUSED_OPTIONS = """debug.skipKernelTC debug.byAsSorry debug.terminalTacticsAsSorry
    debug.proofAsSorry Elab.async Elab.inServer internal.cmdlineSnapshots
    stderrAsMessages printMessageEndPos maxErrors warn.sorry warningAsError server.reportDelayMs
    compiler.extract_closed compiler.check interpreter.prefer_native trace.Meta.synthInstance
    trace.profiler profiler autoImplicit relaxedAutoImplicit autoLift hygiene quotPrecheck
    experimental.module smartUnfolding bootstrap.inductiveCheckResultingUniverse doc.verso
    showPartialSyntaxErrors backward.isDefEq.lazyProjDelta structureDiamondWarning
    genInjectivity inductive.autoPromoteIndices an.option.of.the.future""".split()


@pytest.mark.parametrize("name", REFUSED_OPTIONS)
def test_an_option_that_is_on_no_list_is_refused_in_every_part(name: str) -> None:
    first, _, rest = name.partition(".")
    quoted = ".".join([f"«{first}»", *([rest] if rest else [])])
    for spelling in (name, quoted, f"\n   {name}\n  ", f"/- x -/ {name} --x\n "):
        option = f"set_option {spelling} true in"
        for body in (
            f"{option}\n  rfl",
            f"exact ({option} rfl)",
            f"conv =>\n    {option}\n    skip",
            f"simp (config := {{}})\n  {option} rfl",
            f"set_option pp.all true in {option} rfl",
        ):
            verdict = audit_lean_candidate(make(body))
            assert verdict is not None
            assert verdict.rule == "options"
        lemma = f"{option}\ntheorem own : True := trivial\n"
        verdict = audit_lean_candidate(make("rfl", lemma))
        assert verdict is not None
        assert verdict.rule == "options"
        if name not in ("autoImplicit", "relaxedAutoImplicit"):
            assert [f.rule for f in audit_text(lemma, "file")][:1] == ["options"]


def test_every_keyword_is_allowed_or_refused() -> None:
    assert not PROOF_KEYWORDS - KEYWORDS
    refused = {word for word in KEYWORDS if judge_word(word) is not None}
    assert refused | PROOF_KEYWORDS == KEYWORDS
    assert not refused & PROOF_KEYWORDS
    for word in ("idbg", "by?", "partial_fixpoint", "binop%", "leading_parser", "max_prec"):
        for body in (word, f"exact {word} 1", f"rfl\n{word}", f"simp [{word}]"):
            verdict = audit_lean_candidate(make(body))
            assert verdict is not None
            assert verdict.rule == "keywords"
    assert audit_lean_candidate(make("exact (a%b, type_of% x)")) is None


def test_a_word_of_a_term_is_free_where_the_problem_uses_it() -> None:
    statement = f"theorem target (max_prec : Nat) : max_prec = max_prec := by\n  {HOLE}\n"
    problem = Problem("p", "lean", "tactics", "", statement)
    assert audit_lean_candidate(Candidate(problem, "exact Eq.refl max_prec")) is None


@pytest.mark.parametrize(
    ("honest", "stalling"),
    [
        ("exact f " + "9" * 2000, "exact f " + "9" * 2001),
        ("norm_num [2 ^ 100000]", "norm_num [2 ^ 100001]"),
        ("exact 1 <<< 100_000", "exact 1 <<< 100_001"),
        ("exact Nat.pow 2 0x186A0", "exact Nat.pow 2 0x186A1"),
        ("exact Nat.shiftLeft 1 1e5", "exact Nat.shiftLeft 1 1e11"),
        ("exact (x ^ 300) ^ 300", "exact (x ^ 400) ^ 300"),
        ("decide (Nat.factorial 1000)", "decide (Nat.factorial 1000000)"),
        ("exact 1000! = 0", "exact 1000000! = 0"),
        ("exact " + "1 + " * 500 + "1", "exact " + "1 + " * 501 + "1"),
        ("exact h" + ".symm" * 500, "exact h" + ".symm" * 501),
        ("exact (h)" + ".1" * 500, "exact (h)" + ".symm" * 501),
        ("exact (" + "¬" * 500 + "p)", "exact (" + "¬" * 501 + "p)"),
        ("have := h\n  " * 1000 + "rfl", "have := h\n  " * 1001 + "rfl"),
    ],
)  # fmt: skip
def test_what_stalls_lean_is_refused(honest: str, stalling: str) -> None:
    assert audit_lean_candidate(make(honest)) is None
    verdict = audit_lean_candidate(make(stalling))
    assert verdict is not None
    assert (verdict.status, verdict.rule) == (Status.REJECTED, "resources")


@pytest.mark.parametrize(
    ("body", "admitted"),
    [
        ("have h : 5 ^ 999999 % 7 = 6 := by norm_num\n  exact h", True),
        ("show (5^999999) % 7 = 6\n  rfl", True),
        ("have := 1 <<< 200000\n  rfl", True),
        ("have h : 6 ^ 999999 % 7 = 6 := by norm_num\n  exact h", False),
        ("have h : 15 ^ 999999 % 7 = 6 := by norm_num\n  exact h", False),
        ("have h : n ^ 999999 % 7 = 6 := by norm_num\n  exact h", False),
        ("have h : 5 ^ 9999990 % 7 = 6 := by norm_num\n  exact h", False),
        # A part of what is larger.
        ("have := 2 ^ 5 ^ 999999\n  rfl", False),
        ("have := 2 <<< 5 ^ 999999\n  rfl", False),
        ("have := 5 ^ 999999 ^ 9\n  rfl", False),
        ("have := 5 ^ 999999 <<< 9\n  rfl", False),
        ("have := Nat.pow 5 999999\n  rfl", False),
        ("have := Nat.pow 2 5 ^ 999999\n  rfl", False),
        ("have := 999999!\n  rfl", False),
    ],
)
def test_a_power_that_the_problem_states_may_be_written_again(body: str, admitted: bool) -> None:
    statement = f"theorem target (n : Nat) : 5 ^ 999999 % 7 = 1<<<200000 % 2 + 6 := by\n  {HOLE}\n"
    problem = Problem("p", "lean", "tactics", "", statement)
    verdict = audit_lean_candidate(Candidate(problem, body))
    assert (verdict is None) == admitted
    assert verdict is None or verdict.rule == "resources"
    # Elsewhere, and in a bare file, the power is the policy's own.
    file = Problem("p", "lean", "file", "", HOLE)
    for other in (make(body), Candidate(file, f"theorem t : True := by\n  {body}\n")):
        refused = audit_lean_candidate(other)
        assert refused is not None
        assert refused.rule == "resources"


@pytest.mark.parametrize(
    ("kind", "statement", "message"),
    [
        ("calc", STATEMENT, "unknown kind 'calc'; use tactics, term, proposition, file"),
        ("tactics", f"theorem t : True := by{HOLE}\n", "its hole touches 'y'"),
        ("tactics", f"theorem t : True := by\n  {HOLE} done\n", "follows its hole on the same"),
        ("tactics", f"theorem t : True := by\n  -- {HOLE}\n", "inside a comment"),
        ("tactics", f"theorem t : True := by\n  /- {HOLE}\n-/\n", "inside a comment"),
        ("tactics", f"example : True := by\n  {HOLE}\n", "'example', which cannot be asked for"),
    ],
)  # fmt: skip
def test_a_problem_that_could_not_hold_a_body_is_refused(
    kind: str, statement: str, message: str
) -> None:
    with pytest.raises(ProblemError) as caught:
        check_lean_problem(Problem("p", "lean", kind, "", statement))
    assert message in str(caught.value)


def test_a_preamble_ends_with_a_line_break() -> None:
    with pytest.raises(ProblemError, match="preamble must end with a line break"):
        check_lean_problem(Problem("p", "lean", "tactics", "open Nat", STATEMENT))


def test_kinds_are_those_of_the_words_page() -> None:
    assert LEAN_KINDS == ("tactics", "term", "proposition", "file")


@given(texts(), texts())
def test_the_audit_never_raises_and_admits_no_command(body: str, prelude: str) -> None:
    for kind, statement in (("tactics", STATEMENT), ("file", f"{HOLE}\n")):
        problem = Problem("p", "lean", kind, "", statement)
        verdict = audit_lean_candidate(Candidate(problem, body, prelude))
        assert verdict is None or verdict.status is not Status.PROVED
        if verdict is None and kind == "tactics":
            tokens = scan_tokens(body)
            words = {token.text for token in tokens if token.kind == "word"}
            assert not words & (COMMANDS | {"sorry", "admit", "stop"})
            assert all(token.kind not in ("broken", "name") for token in tokens)


@given(st.sampled_from(sorted(COMMANDS - {"scoped"})), st.sampled_from([" ", "\n", "\n  "]))
def test_no_command_word_passes_wherever_it_stands(word: str, gap: str) -> None:
    for body in (word, f"rfl{gap}{word}", f"exact ({word} x)", f"simp{gap}{word} x : True"):
        verdict = audit_lean_candidate(make(body))
        assert verdict is not None
        assert verdict.rule == "commands"
