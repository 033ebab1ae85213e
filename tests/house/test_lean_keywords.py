"""The table of keywords against the toolchain's own, wherever a Lean is found."""

import os
import re
from pathlib import Path

import pytest

from proverrl.lang.lean.syntax.keywords import LEAN_KEYWORDS, LEAN_RELEASE, PROOF_KEYWORDS
from proverrl.lang.lean.syntax.words import COMMANDS, KEYWORDS
from scripts import lean_keywords as module
from scripts.lean_keywords import find_commands, find_keywords, find_libraries, read_words

CONTINUING = {
    "coinductive_fixpoint", "decreasing_by", "finally", "inductive_fixpoint", "partial_fixpoint",
    "termination_by", "termination_by?", "where",
}  # fmt: skip
"""Words that go on with a finished declaration and start nothing."""


@pytest.fixture(scope="module")
def lean() -> Path:
    named = os.environ.get("PROVERRL_LEAN")
    if not named:
        pytest.skip("no real Lean here: PROVERRL_LEAN names none")
    return Path(named)


@pytest.mark.lean
@pytest.mark.slow
def test_nobody_has_to_judge_a_keyword_of_the_toolchain(lean: Path) -> None:
    asked = read_words(find_libraries(lean)) | KEYWORDS
    found = find_keywords(lean, asked)
    assert found - KEYWORDS == set()
    assert len(asked) >= 5_000


@pytest.mark.lean
@pytest.mark.slow
def test_the_table_is_what_lean_answers(lean: Path) -> None:
    asked = LEAN_KEYWORDS | {"simp", "omega", "proverrl", "idbg?"}
    assert find_keywords(lean, asked) == LEAN_KEYWORDS
    assert LEAN_RELEASE == "4.35.0"


@pytest.mark.lean
@pytest.mark.slow
def test_what_starts_a_command_is_known_as_a_command(lean: Path) -> None:
    found = find_commands(lean, LEAN_KEYWORDS)
    assert found - COMMANDS - CONTINUING == {"in", "open", "set_option"}
    assert {"recall", "recall?", "deprecated_syntax", "init_grind_norm"} <= found


STUB = """#!/usr/bin/env python3
import json, re, sys
for number, line in enumerate(open(sys.argv[-1]), 1):
    said = re.match(r"example \\((by|recall\\\\?)(?= )", line)
    if said:
        text = f"unexpected token '{said[1]}'; expected '_' or identifier"
        print(json.dumps({"pos": {"line": number, "column": 9}, "data": text}))
    elif line.startswith("example (swallow "):
        break
    elif line.startswith("word"):
        text = "unexpected identifier; expected command"
        print(json.dumps({"pos": {"line": number, "column": 0}, "data": text}))
    elif "proverrl_end" in line:
        print(json.dumps({"pos": {"line": number, "column": 7}, "data": "proverrl_end"}))
"""


def test_a_word_after_which_lean_reads_no_further_counts_as_a_keyword(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = tmp_path / "lean"
    stub.write_text(STUB.replace("\\\\", "\\"), "utf-8")
    stub.chmod(0o755)
    monkeypatch.setattr(module, "_CHUNK", 3)
    words = ["by", "byte", "recall", "recall?", "swallow", "word", "x"]
    assert find_keywords(stub, words) == {"by", "recall?", "swallow"}
    assert find_commands(stub, ["word", "recall"]) == {"recall"}


def test_words_are_read_from_the_strings_of_a_library(tmp_path: Path) -> None:
    library = tmp_path / "lib.so"
    library.write_bytes(b"\x7fELF\0idbg \0recall?\0l_Lean_Parser\0a.b\0two words\0\xff\0binop%\0")
    assert read_words([library]) == {"idbg", "recall?", "binop%"}


def test_every_keyword_is_one_word() -> None:
    pattern = re.compile(r"[^\W\d][\w']*[!?]?%?")
    assert [word for word in KEYWORDS | PROOF_KEYWORDS if not pattern.fullmatch(word)] == []
    assert len(LEAN_KEYWORDS) >= 180
