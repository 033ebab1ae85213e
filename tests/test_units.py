"""Units in the English of statements: they change no statement, and each text has one reading."""

from __future__ import annotations

import itertools
import random
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from proverrl.cli.main import cli
from proverrl.errors import ProblemError, UsageError
from proverrl.lang import find_language
from proverrl.lang.dafny.formal.phrases import read_phrase
from proverrl.lang.english import ASIDES, WORDINGS, English, spell, write_digits
from proverrl.lang.formalizing import StatementGenerator
from proverrl.lang.generating import CurriculumDraft
from proverrl.lang.units import MEASURES, UNITS, add_units
from proverrl.problems.drafts import build_problem
from proverrl.problems.load import load_problems
from proverrl.problems.prompt import render_body, use_problem_words
from proverrl.types import Split
from tests.test_statements import First

ROOT = Path(__file__).parent.parent
DAFNY = find_language("dafny")
PLAIN, WITH_UNITS = StatementGenerator(DAFNY), StatementGenerator(DAFNY, units=True)
UNIT = "|".join(UNITS)
LOTS = {"dozen": 12, "score": 20, "gross": 144}


def draw(generator: StatementGenerator, split: Split, per_level: int) -> list[CurriculumDraft]:
    streams = (generator.stream_level(level, 5, split) for level in generator.families)
    return [draft for s in streams for draft in itertools.islice(s, per_level)]


def take_units_away(text: str) -> str:
    """The text as it is without units, its numbers in digits."""

    def count(match: re.Match[str]) -> str:
        return str(int(match[1]) * LOTS[match[2]])

    names = r"`\w+`(?:(?:, `\w+`)* and `\w+`)?"
    text = re.sub(rf"{names} (?:is|are) (?:\w+ )?in (?:{UNIT})s\.", "", text)
    text = re.sub(rf"\((\d+) ({'|'.join(LOTS)})\)", count, write_digits(text))
    text = re.sub(rf"(?<=\d) (?:{UNIT})s?\b", "", text)
    return " ".join(text.split())


@pytest.mark.parametrize("split", ["train", "heldout"])
def test_units_change_no_statement_and_nothing_else_that_is_said(split: Split) -> None:
    pairs = list(zip(draw(PLAIN, split, 40), draw(WITH_UNITS, split, 40), strict=True))
    assert len(pairs) == 200
    for without, with_units in pairs:
        assert with_units.statement == without.statement
        assert with_units.reference == without.reference
        assert take_units_away(with_units.informal) == write_digits(without.informal)
    changed = [one.informal for plain, one in pairs if one.informal != plain.informal]
    measured = [text for text in changed if re.search(rf"` (?:is|are) .*(?:{UNIT})s\.", text)]
    assert len(measured) > 20
    assert sum(bool(re.search(rf"(?:{'|'.join(LOTS)})\)", text)) for text in changed) > 2
    assert any(re.search(rf"\d (?:{UNIT})s?\b", text) for text in measured)


@pytest.mark.parametrize("split", ["train", "valid", "heldout"])
def test_no_two_statements_with_units_share_a_text(split: Split) -> None:
    """Names and what a text speaks of stand in the statement that is shown with it."""
    said: dict[tuple[str, str], set[str]] = {}
    for draft in draw(WITH_UNITS, split, 40):
        shown = draft.statement.partition("/*{HOLE}*/")[0]
        said.setdefault((shown, draft.informal), set()).add(draft.reference)
    assert len(said) > 150
    assert all(len(meant) == 1 for meant in said.values())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("r == (a + 24) + 5", "r == a + 29"),
        ("r == 60 + 10", "r == 70"),
        ("r == 2 * (a + 12)", "r == 2 * a + 12"),
        ("r == 24 * a", "r == 2 * a"),
        ("r - 144 == a", "r - 1 == a"),
    ],
)
def test_what_means_something_else_is_said_otherwise(one: str, other: str) -> None:
    said = []
    for text in (one, other):
        texts = set()
        for seed in range(400):
            units = English(random.Random(f"u{seed}"), "heldout")
            english = English(random.Random(seed), "heldout", units=units)
            phrase = read_phrase(text)
            assert phrase is not None
            phrases, _ = add_units([phrase], ["a", "r"], units)
            texts.add(english.say(phrases[0]))
        said.append(texts)
    assert not said[0] & said[1]


@pytest.mark.parametrize(
    ("clauses", "said"),
    [
        (["r == 3 * n + k", "k > 2"], "`n`, `k` and `r` are given in metres"),
        (["r == n + 1", "k > 2"], "`n` and `r` are given in metres; `k` is given in seconds"),
        (["r == (if n < 3 then k else 5)"], "`n` is given in metres; `k` and `r` are given in"),
        # What is multiplied, divided, counted, computed or bound has none, nor what equals it.
        (["r == n * n", "k > 2"], "`k` is given in metres"),
        (["r == n * k + n"], ""),
        (["r == n / 2"], ""),
        (["r == |s| + n"], ""),
        (["r == F(n)"], ""),
        (["forall r :: r > n"], ""),
        (["b == n"], ""),
    ],
)
def test_what_is_added_or_compared_has_one_unit(clauses: list[str], said: str) -> None:
    phrases = [phrase for text in clauses if (phrase := read_phrase(text)) is not None]
    _, measures = add_units(phrases, ["n", "k", "r"], English(First(), "train"))
    assert "; ".join(measures).startswith(said)
    assert bool(measures) == bool(said)


def test_numbers_have_the_unit_of_what_they_are_added_to_or_compared_with() -> None:
    clauses = ["r == 3 * (n - 1) + 14", "k >= 2 ==> n < (if k != 1 then 5 else r)"]
    phrases = [phrase for text in clauses if (phrase := read_phrase(text)) is not None]
    units = English(First(), "train")
    labelled, _ = add_units(phrases, ["n", "k", "r"], units)
    english = English(First(), "train", units=units)
    assert [english.say_claim(phrase) for phrase in labelled] == [
        "`r` equals the sum of the product of 3 and the difference of `n` and 1 metre and 14 "
        "metres",
        "if `k` is at least 2 seconds, then `n` is less than (5 metres if `k` differs from 1 second"
        ", otherwise `r`)",
    ]


def test_numbers_in_lots() -> None:
    rng = random.Random(0)
    english = English(rng, "train", spelled=0.0, units=English(rng, "train"))
    phrases = {value: read_phrase(str(value)) for value in (0, 12, 25, 60, 240, 288, 5000)}
    said = {
        value: {english.say(phrase) for _ in range(60)}
        for value, phrase in phrases.items()
        if phrase is not None
    }
    assert said == {
        0: {"0"},
        12: {"12", "(one dozen)"},
        25: {"25"},
        60: {"60", "(five dozen)", "(three score)"},
        240: {"240", "(twelve score)"},
        288: {"288", "(two gross)"},
        5000: {"5000"},
    }


def test_without_units_the_texts_are_those_that_are_shipped() -> None:
    shipped = {p.id: p.informal for p in load_problems(ROOT / "dafny/statements/train.jsonl")}
    streams = (PLAIN.stream_level(level, 0, "train") for level in PLAIN.families)
    drafts = [draft for s in streams for draft in itertools.islice(s, 40)]
    drawn = {PLAIN.build_id(draft): draft.informal for draft in drafts}
    both = drawn.keys() & shipped.keys()
    assert len(both) > 150
    assert [name for name in both if drawn[name] != shipped[name]] == []


def test_a_body_is_written_and_read_as_without_units() -> None:
    for draft in draw(WITH_UNITS, "train", 10):
        problem = build_problem(WITH_UNITS, draft, "train")
        written = render_body(problem, draft.reference, "canonical")
        assert use_problem_words(problem, written, "canonical") == draft.reference


def test_held_back_wordings_of_units_are_built_of_words_of_the_others() -> None:
    def list_words(group: int) -> set[str]:
        known = [*WORDINGS.values(), ASIDES, MEASURES]
        return {word.strip("().,;") for f in known for text in f[group] for word in text.split()}

    held = {word for text in MEASURES[1] for word in text.split() if "{" not in word}
    assert held <= list_words(0)
    assert not set(MEASURES[0]) & set(MEASURES[1])
    # No unit and no lot is another word for a number.
    assert not {*UNITS, *LOTS} & {spell(value) for value in range(1000)}


def test_units_are_for_contracts_of_dafny() -> None:
    for language, programs in (("lean", False), ("dafny", True)):
        with pytest.raises(ProblemError, match="leave --units out"):
            StatementGenerator(find_language(language), programs=programs, units=True)
    words = ["problems", "generate", "dafny", "--units", "--out", "x.jsonl"]
    failed = CliRunner().invoke(cli, words, standalone_mode=False)
    assert isinstance(failed.exception, UsageError)
    assert "--units is for --formalize" in str(failed.exception)
