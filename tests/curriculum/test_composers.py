"""Composers and scripts: what a script means, and what becomes of a text that a policy wrote."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proverrl.compose.composers import (
    REPEATED,
    PolicyComposer,
    ProgramComposer,
    build_statement,
    drop_repeats,
    dump_drafts,
    encode_pair,
    load_drafts,
    teach_scripts,
)
from proverrl.compose.script import (
    Script,
    ScriptLine,
    apply_script,
    check_operators,
    read_script,
    write_script,
)
from proverrl.errors import ProblemError
from proverrl.lang.records import Parent
from proverrl.types import HOLE, Problem
from tests.policy.test_policy import tiny_policy as make_policy

ALL = check_operators("dafny", ())


def make_loop(name: str, constant: int) -> Problem:
    statement = (
        f"method {name}(n: nat) returns (r: int)\n  ensures r == {constant} * n\n{{\n  r := 0;\n"
        f"  var i := 0;\n  while i < n\n    {HOLE}\n  {{\n    i := i + 1;\n"
        f"    r := r + {constant};\n  }}\n}}\n"
    )
    metadata = {"level": 1 if name == "Sum" else 3, "family": "f"}
    return Problem(f"p-{name}", "dafny", "invariants", "", statement, metadata=metadata)


PAIR = (
    Parent(make_loop("Sum", 7), "invariant i <= n\ninvariant r == 7 * i"),
    Parent(make_loop("Go", 5)),
)


def test_a_line_says_operator_parents_and_choice() -> None:
    script = read_script("change_constant a 3\nsequence_loops b a 0\n", ALL)
    assert script.lines == (
        ScriptLine("change_constant", ("a",), 3),
        ScriptLine("sequence_loops", ("b", "a"), 0),
    )
    assert str(script) == "change_constant a 3\nsequence_loops b a 0"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a line"),
        ("change_constant a", "not a line"),
        ("change_constant a 8", "not a line"),
        ("change_constant c 1", "not a line"),
        ("invariant i <= n", "not a line"),
        ("no_such_thing a 1", "no such operator"),
        ("lean_fuse a b 1", "no such operator"),
        ("change_constant a b 1", "takes other parents"),
        ("sequence_loops a 1", "takes other parents"),
        ("sequence_loops a a 1", "takes other parents"),
        ("flip_sign a 1\n" * 4, "more than 3 lines"),
    ],
)
def test_what_is_no_script_has_a_reason(text: str, reason: str) -> None:
    script = read_script(text, ALL)
    assert reason in script.reason
    assert script.lines == ()


@given(st.text(max_size=60))
def test_any_text_is_a_script_or_has_a_reason(text: str) -> None:
    script = read_script(text, ALL)
    assert bool(script.lines) != bool(script.reason)


@given(st.integers(0, 10_000))
def test_what_the_program_writes_is_read_as_the_same_and_has_a_hold(seed: int) -> None:
    script = write_script(random.Random(seed), PAIR, ALL, two_lines=0.5)
    assert script is not None
    assert read_script(str(script), ALL) == script
    assert apply_script(script, PAIR, round_number=0) is not None


def test_a_script_changes_its_first_parent_line_by_line() -> None:
    script = Script(
        (ScriptLine("change_constant", ("a",), 3), ScriptLine("sequence_loops", ("a", "b"), 0))
    )
    made = apply_script(script, PAIR, round_number=4)
    assert made is not None
    changed = apply_script(Script(script.lines[:1]), PAIR, round_number=4)
    assert changed is not None
    # Of one method of ours only a constant differs.
    ours, theirs = PAIR[0].problem.statement.split(), changed.problem.statement.split()
    assert len(ours) == len(theirs)
    assert ours != theirs
    assert made.problem.statement.count("while") == 2
    assert made.parents == ("p-Sum", "p-Go")
    assert changed.parents == ("p-Sum",)
    assert (made.operator, made.round) == ("change_constant+sequence_loops", 4)
    assert made.problem.level == 3
    assert made.problem.metadata["family"] == "sequence_loops"
    assert made.problem.metadata["lineage"]["operator"] == "change_constant+sequence_loops"
    # The same whatever the round: a number means the same choice for ever.
    later = apply_script(script, PAIR, round_number=9)
    assert later is not None
    assert later.problem.statement == made.problem.statement


def test_lines_that_undo_each_other_give_no_composed_parent_its_own_id() -> None:
    flip = ScriptLine("flip_sign", ("b",), 6)
    script = Script((flip, replace(flip, variant=3)))
    made = apply_script(script, PAIR, round_number=0)
    assert made is not None
    assert made.problem.statement == PAIR[1].problem.statement
    again = (PAIR[0], Parent(made.problem))
    assert apply_script(script, again, round_number=1) is None


def test_a_script_without_a_hold_makes_nothing() -> None:
    script = read_script("drop_requires a 0", ALL)
    assert not script.reason
    assert apply_script(script, PAIR, round_number=0) is None


def test_operators_of_another_language_are_refused() -> None:
    assert check_operators("dafny", ()) == ALL
    with pytest.raises(ProblemError, match="names none for lean"):
        check_operators("lean", ("flip_sign",))


def test_held_out_problems_are_no_parents() -> None:
    held_out = replace(PAIR[0].problem, split="heldout")
    script = read_script("change_constant a 3", ALL)
    with pytest.raises(ProblemError, match="compose from training problems only"):
        apply_script(script, (Parent(held_out), PAIR[1]), round_number=0)


def test_a_program_writes_the_same_for_the_same_round() -> None:
    def write(seed: int, number: int) -> list[str]:
        pairs = [PAIR] * 6
        drafts = asyncio.run(ProgramComposer((), seed).write(pairs, round_number=number))
        return [d.composed.problem.statement if d.composed else "" for d in drafts]

    assert write(0, 1) == write(0, 1)
    assert write(0, 1) != write(0, 2)
    assert write(0, 1) != write(1, 1)
    assert all(write(0, 1))


def test_a_program_prefers_what_is_believed_to_be_useful() -> None:
    def count(beliefs: dict[str, list[float]]) -> int:
        composer = ProgramComposer(("change_constant", "flip_sign"), 0, weigh=lambda: beliefs)
        drafts = asyncio.run(composer.write([PAIR] * 40, round_number=1))
        made = [draft.composed.operator for draft in drafts if draft.composed is not None]
        assert len(made) == 40
        return made.count("flip_sign")

    # Means of 0.98 and 0.02, with deviations of 0.02: the first is drawn first for certain.
    good, bad = [49.0, 1.0], [1.0, 49.0]
    assert count({"change_constant": bad, "flip_sign": good}) == 40
    assert count({"change_constant": good, "flip_sign": bad}) == 0
    # Nothing is known: a chance of one half; fewer than 8 or more than 32 of 40 are 1 in 5,000.
    assert 8 <= count({}) <= 32


def test_a_statement_that_is_written_twice_in_a_round_counts_once() -> None:
    drafts = asyncio.run(ProgramComposer(("flip_sign",), 0).write([PAIR] * 2, round_number=1))
    other = asyncio.run(ProgramComposer(("change_constant",), 0).write([PAIR], round_number=1))
    twice = drop_repeats([drafts[0], *other, drafts[0], *other])
    assert twice[:2] == [drafts[0], *other]
    assert [(d.composed, d.reason) for d in twice[2:]] == [(None, REPEATED)] * 2


def test_taught_scripts_are_scripts_after_the_prompt_of_the_pair() -> None:
    policy = make_policy()
    taught = teach_scripts(policy, [PAIR] * 8, (), seed=0)
    assert len(taught) == 8
    for prompt_ids, target_ids in taught:
        assert prompt_ids == encode_pair(policy, PAIR).token_ids
        assert target_ids[-1] == policy.end_id
        script = read_script(str(policy.tokenizer.decode(list(target_ids[:-1]))), ALL)
        assert apply_script(script, PAIR, round_number=0) is not None


def test_a_text_of_somebodys_own_is_a_problem_of_the_kind_of_the_first() -> None:
    code = make_loop("New", 9).statement
    composed, reason = build_statement(code, PAIR, 2, operator="mine")
    assert reason == ""
    assert composed is not None
    assert composed.problem.statement == code
    assert composed.problem.kind == "invariants"
    assert (composed.operator, composed.parents, composed.round) == ("mine", ("p-Sum", "p-Go"), 2)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("method M() { }\n", "exactly once"),
        (make_loop("New", 9).statement * 2, "exactly once"),
        (make_loop("New", 9).statement.replace("r := 0;", "assume false;"), "audit"),
        ("lemma L()\n  ensures false\n" + make_loop("New", 9).statement, "audit"),
        (make_loop("New", 9).statement.replace("method", "method {:verify false}"), "audit"),
    ],
)
def test_a_text_that_may_not_be_believed_is_refused(text: str, reason: str) -> None:
    composed, why = build_statement(text, PAIR, 0, operator="mine")
    assert composed is None
    assert reason in why


def test_drafts_survive_a_checkpoint() -> None:
    policy = make_policy()
    composer = PolicyComposer(
        policy,
        policy,
        operators=(),
        temperature=1.0,
        max_new_tokens=6,
        seed=0,
    )
    drafts = asyncio.run(composer.write([PAIR, PAIR], round_number=1))
    assert [draft.composed for draft in drafts] == [None, None]
    assert all(draft.reason and draft.completion is not None for draft in drafts)
    drafts += asyncio.run(ProgramComposer((), 0).write([PAIR], round_number=1))
    rows = json.loads(json.dumps(dump_drafts(drafts)))
    assert load_drafts(rows) == drafts
