"""What is read from an answer: fences, thinking, whole files, missing ends, and always a reason."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proverrl.config import LayoutName
from proverrl.errors import RecordError
from proverrl.lang.lean.syntax.declarations import problem_from_statement
from proverrl.lang.records import Extraction
from proverrl.problems.prompt import LAYOUTS
from proverrl.rollout.extract import (
    CodeBlock,
    extract,
    find_blocks,
    generalise_reason,
    skip_thinking,
)
from proverrl.types import ANNOTATE, HOLE, Problem

LEAN = problem_from_statement(
    "p", "import Mathlib\nopen Nat\n\ntheorem foo (n : ℕ) : n + 0 = n := by sorry"
)
TERM = Problem(
    "t",
    "lean",
    "term",
    "namespace B\n\n",
    f"theorem idd {{p : Prop}} : p → p :=\n  {HOLE}\n\nend B\n",
)
DAFNY = Problem(
    "d",
    "dafny",
    "invariants",
    "",
    f"method Go(n: nat) returns (r: int)\n{{\n  while r < n\n    {HOLE}\n  {{ r := r + 1; }}\n}}\n",
)
PROGRAM = Problem("a", "dafny", ANNOTATE, "", f"method M() {{ }}\n\n{HOLE}")


def lean(code: str) -> str:
    return f"```lean4\n{code}\n```"


def dafny(code: str) -> str:
    return f"```dafny\n{code}\n```"


GO = "method Go(n: nat) returns (r: int)"
HEAD = "theorem foo (n : ℕ) : n + 0 = n := by\n"


@pytest.mark.parametrize(
    ("problem", "text", "body", "prelude"),
    [
        # A body alone, in each kind of fence, with a missing end, with Windows line ends.
        (LEAN, lean("simp"), "simp", ""),
        (LEAN, "So:\n```lean\nsimp\n```\nDone.", "simp", ""),
        (LEAN, "```\nsimp\n```", "simp", ""),
        (LEAN, "```lean4\nintro\n  simp", "intro\n    simp", ""),
        (LEAN, "```lean4\r\nsimp\r\n```", "simp", ""),
        # The last complete block that fits counts.
        (LEAN, lean("one") + "\n" + lean("two"), "two", ""),
        (LEAN, lean("one") + "\n```python\nprint()\n```", "one", ""),
        (LEAN, lean("one") + "\n```lean4\ntw", "one", ""),
        # Thinking is skipped, also when its beginning was in the prompt.
        (LEAN, f"<think>{lean('bad')}</think>\n{lean('good')}", "good", ""),
        (LEAN, f"{lean('bad')}</think>{lean('good')}", "good", ""),
        (LEAN, f"{lean('good')}<think>{lean('bad')}", "good", ""),
        # A whole file: our statement is found, what follows is moved to the hole's column 2.
        (LEAN, lean(f"import Mathlib\nopen Nat\n\n{HEAD}  simp"), "simp", ""),
        (LEAN, lean(f"{HEAD}    induction n\n    · rfl"), "induction n\n  · rfl", ""),
        (LEAN, lean("theorem foo (n : ℕ) :\n    n + 0 = n := by simp"), "simp", ""),
        (LEAN, lean(f"-- a plan\n{HEAD}  simp"), "simp", ""),
        (
            LEAN,
            lean(f"open Nat\nlemma h : True := by\n  trivial\n\n/-- doc -/\n{HEAD}  simp"),
            "simp",
            "lemma h : True := by\n  trivial\n\n",
        ),
        # Without a fence a whole file is still recognised.
        (LEAN, f"Here it is.\n{HEAD}  simp", "simp", ""),
        (
            LEAN,
            f"Here it is.\n\nlemma h : True := trivial\n{HEAD}  simp",
            "simp",
            "lemma h : True := trivial\n\n",
        ),
        # The text after the hole is ours as well.
        (
            TERM,
            lean("namespace B\ntheorem idd {p : Prop} : p → p :=\n  fun h => h\nend B"),
            "fun h => h",
            "",
        ),
        (TERM, lean("theorem idd {p : Prop} : p → p := fun h => h"), "fun h => h", ""),
        (DAFNY, dafny("invariant r <= n"), "invariant r <= n", ""),
        (DAFNY, dafny(""), "", ""),
        (
            DAFNY,
            dafny(
                "method Go(n: nat) returns (r: int) { while r < n\n invariant r <= n // so\n"
                "{ r := r + 1; } }"
            ),
            "invariant r <= n // so",
            "",
        ),
        (PROGRAM, dafny("method M() { }"), "method M() { }\n", ""),
        # An info string may hold anything; what follows is not what stands behind the block.
        *(
            (LEAN, f"So:\n\n{fence}\nsimp\n```\nThis closes it.", "simp", "")
            for fence in (
                "``` lean4",
                "```lean4 (final)",
                "```lean4:Main.lean",
                '```lean title="a b.lean"',
                "  ```{.lean4 .numberLines}\r",
                "```{lean}",
                "</think>```lean4 {1,3}",
            )
        ),
        (LEAN, "Use ```simp``` here, as in\n```lean4\nrfl\n```", "rfl", ""),
        (LEAN, "With ``` at the front:\n```lean4\nrfl\n```\nDone.", "rfl", ""),
        # Output behind a block of the language, and a label that is missing everywhere.
        (LEAN, lean("one") + "\n```\nno goals\n```", "one", ""),
        (LEAN, "```\none\n```\n```\ntwo\n```", "two", ""),
        # Thinking ends before the code, not where a sentence behind it speaks of the tag.
        (LEAN, lean("one") + "\nThe </think> tag above ended my reasoning.", "one", ""),
        (LEAN, lean("one") + "\nI stopped at `</think>`.", "one", ""),
        (LEAN, f"hm</think>\n{lean('one')}\nThe </think> tag is there.", "one", ""),
        (LEAN, f"{lean('one')}\nBetween <think> and </think> I thought.", "one", ""),
        (LEAN, f"{lean('bad')} The </think> tag\n{lean('good')}", "good", ""),
    ],
)
def test_bodies_by_hand(problem: Problem, text: str, body: str, prelude: str) -> None:
    layout: LayoutName = "kimina" if problem.language == "lean" else "dafny"
    found = extract(problem, text, layout)
    assert (found.body, found.prelude, found.reason) == (body, prelude, "")
    assert found.span is not None


@pytest.mark.parametrize(
    ("problem", "text", "reason"),
    [
        (LEAN, "I cannot do it.", "no code block in the answer"),
        (LEAN, "", "the code is empty"),
        (LEAN, lean(""), "the code is empty"),
        (LEAN, "<think>" + lean("simp"), "the thinking span is never closed, so that"),
        (LEAN, f"<think>{lean('simp')}</think> I cannot do it.", "no code block in the answer"),
        (LEAN, f"{lean('simp')}\n</think>\nI cannot do it.", "no code block in the answer"),
        (LEAN, "```python -u\nx\n```\nText.\n", "no lean code block, only python"),
        (LEAN, "```python\nx\n```\n```text\ny\n```", "no lean code block, only python, text"),
        (
            LEAN,
            lean("theorem foo (n : ℕ) : 0 + n = n := by\n  simp"),
            "statement of foo was changed",
        ),
        (LEAN, lean("theorem bar : True := trivial"), "the code declares bar, not foo"),
        (LEAN, lean("theorem foo (n : ℕ) : n + 0 = n := rfl"), "does not begin with ':= by'"),
        (LEAN, lean(HEAD), "no proof follows the statement of foo"),
        (DAFNY, dafny("method Go(n: int) returns (r: int) { }"), "Go was changed before the hole"),
        (
            DAFNY,
            dafny(f"{GO} {{ while r < n\n invariant true\n {{ r := 1; }} }}"),
            "the text of Go after the hole was changed or cut off",
        ),
        (PROGRAM, dafny(" "), "the code is empty"),
    ],
)
def test_reasons_by_hand(problem: Problem, text: str, reason: str) -> None:
    found = extract(problem, text, "kimina" if problem.language == "lean" else "dafny")
    assert found.body is None
    assert reason in found.reason
    # What is counted names no problem.
    general = generalise_reason(found.reason)
    assert not {"foo", "bar", "Go"} & set(general.replace(",", " ").split())
    assert found.candidate(problem) is None


def test_an_empty_answer_in_a_plain_layout_is_an_empty_body() -> None:
    # Many Dafny lemmas need no body at all.
    assert extract(DAFNY, " \n", "plain").body == ""
    assert extract(DAFNY, " invariant r <= n ", "plain").body == "invariant r <= n"


def test_the_span_is_where_the_code_stands() -> None:
    text = "Well:\n```lean4\nsimp\n```\n"
    # "Well:\n" has 6 characters and "```lean4\n" 9.
    assert extract(LEAN, text, "goedel").span == (15, 20)
    assert find_blocks(text) == [CodeBlock("lean4", 15, 20, closed=True)]
    assert skip_thinking("<think>a</think>b<think>c") == (16, 17, "")


def test_a_file_read_back_is_the_candidate_that_it_was() -> None:
    body = "induction n with\n  | zero => rfl\n  | succ m ih =>\n    simp\n\n    done"
    found = extract(LEAN, lean(LEAN.preamble + HEAD + "  " + body), "goedel")
    candidate = found.candidate(LEAN)
    assert candidate is not None
    assert candidate.source == f"import Mathlib\nopen Nat\n{HEAD}  {body}\n"


def test_an_extraction_has_a_body_or_a_reason() -> None:
    with pytest.raises(RecordError, match="either a body or a reason"):
        Extraction(None)
    with pytest.raises(RecordError, match="either a body or a reason"):
        Extraction("x", reason="y")


PIECES = (
    *("```", "```lean4\n", "```dafny\n", "\n```\n", "<think>", "</think>"),
    *(
        "theorem foo (n : ℕ) : n + 0 = n := by",
        "theorem foo",
        "method Go(n: nat)",
        "/*",
        "*/",
        "/-",
    ),
    *(
        "-/",
        "«",
        '"',
        "'",
        "\n",
        "  ",
        "\t",
        "end B",
        ":=",
        "by",
        "simp",
        "{",
        "}",
        "\ud800",
        "\x00",
    ),
)


@given(
    st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=25).map("".join),
    st.sampled_from([LEAN, TERM, DAFNY, PROGRAM]),
    st.sampled_from(get_args(LayoutName)),
)
@settings(max_examples=300, deadline=None)
def test_no_text_raises_and_every_refusal_has_a_reason(
    text: str, problem: Problem, layout: LayoutName
) -> None:
    found = extract(problem, text, layout)
    assert (found.body is None) == bool(found.reason)
    if found.span is not None:
        assert 0 <= found.span[0] <= found.span[1] <= len(text)


def test_layouts_agree_with_their_names() -> None:
    assert set(LAYOUTS) == set(get_args(LayoutName))
