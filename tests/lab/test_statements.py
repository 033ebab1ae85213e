"""Statements written from words: what is said, what is shown, and what Dafny calls equal."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from proverrl.concurrency import finish_all
from proverrl.errors import RecordError
from proverrl.generate.families import CurriculumDraft
from proverrl.lab.words.dafny.errors import ERRORS
from proverrl.lab.words.dafny.phrases import read_phrase
from proverrl.lab.words.drafts import StatementGenerator
from proverrl.lab.words.english import ASIDES, ASKS, CALLS, WORDINGS, English, Phrase, spell
from proverrl.lab.words.equivalence import equivalent, make_wrong
from proverrl.lab.words.parts import find_formalizing
from proverrl.lab.words.rewards import statement
from proverrl.lang import find_language
from proverrl.problems.drafts import build_problem
from proverrl.problems.load import load_problems
from proverrl.problems.prompt import (
    render_body,
    render_messages,
    render_prompt,
    use_problem_words,
)
from proverrl.rollout.feedback import FEEDBACK
from proverrl.types import (
    HOLE,
    Candidate,
    Diagnostic,
    Problem,
    Rollout,
    Split,
    Stage,
    Status,
    Turn,
    Verdict,
)
from proverrl.verifier.base import verify_all
from tests.builders import build_problem as build_loop
from tests.builders import build_rollout
from tests.shared_verifier import ask_verifier, judge

ROOT = Path(__file__).parents[2]
T = TypeVar("T")
GENERATOR = StatementGenerator(find_language("dafny"))
PARAMETERS = ("method {}(n: nat, k: int) returns (r: int)", "r := {}(n, k);")
MEANT = ["requires k > 2", "ensures r == 3 * n + k", "ensures r >= k"]


class First(random.Random):
    """Takes the first of everything, and no chance."""

    def choice(self, seq: Sequence[T]) -> T:  # type: ignore[override]
        return seq[0]

    def random(self) -> float:
        return 0.99

    def sample(self, population: Sequence[T], k: int) -> list[T]:  # type: ignore[override]
        return list(population[:k])


def name(text: str) -> Phrase:
    return Phrase("name", text=text)


def number(value: int) -> Phrase:
    return Phrase("number", text=str(value))


def draw(split: Split, per_level: int) -> list[CurriculumDraft]:
    streams = (GENERATOR.stream_level(level, 3, split) for level in GENERATOR.families)
    return [draft for s in streams for draft in itertools.islice(s, per_level)]


def ask(clauses: Sequence[str]) -> Problem:
    head, call = PARAMETERS
    inner = "".join(f"  {clause}\n" for clause in clauses)
    own = f"{head.format('M')}\n  {HOLE}\n  decreases *\n{{ {call.format('Meant')} }}\n"
    meant = f"{head.format('Meant')}\n{inner}  decreases *\n{{ {call.format('M')} }}\n"
    return Problem("p", "dafny", "formalize", "", own + meant, informal="Words about `n`.")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "zero"),
        (13, "thirteen"),
        (20, "twenty"),
        (21, "twenty-one"),
        (100, "one hundred"),
        (342, "three hundred and forty-two"),
        (919, "nine hundred and nineteen"),
    ],
)
def test_numbers_in_words(value: int, said: str) -> None:
    assert spell(value) == said


def test_a_contract_is_read_as_dafny_groups_it() -> None:
    index = Phrase("index", (name("a"), name("i")))
    span = Phrase("chain", (number(0), name("i"), Phrase("length", (name("a"),))), "<= <")
    line = Phrase("+", (Phrase("*", (number(2), name("i"))), number(1)))
    claim = Phrase("implies", (span, Phrase("=", (index, line))))
    read = read_phrase("forall i :: 0 <= i < a.Length ==> a[i] == 2 * i + 1")
    assert read == Phrase("all", (claim,), "i")
    assert read_phrase("a - b - c") == Phrase("-", (Phrase("-", (name("a"), name("b"))), name("c")))
    arrows = Phrase("implies", (name("a"), Phrase("implies", (name("b"), name("c")))))
    assert read_phrase("a ==> b ==> c") == arrows
    assert read_phrase("-a * b") == Phrase("*", (Phrase("neg", (name("a"),)), name("b")))
    assert read_phrase("|s[..k]|") == Phrase("length", (Phrase("prefix", (name("s"), name("k"))),))
    for odd in ("x => x", "set x | x in s", "match l case Nil => 0", "a ==", "f(", "a b"):
        assert read_phrase(odd) is None


def test_a_sentence_word_for_word() -> None:
    phrase = read_phrase("ok <==> forall i :: 0 <= i < |s| ==> s[i] * 2 != -k + 1")
    assert phrase is not None
    assert English(First(), "train").say(phrase) == (
        "`ok` is true exactly when (for every `i`, (if `i` is at least 0 and less than the length "
        "of `s`, then the product of the element of `s` at position `i` and 2 differs from the "
        "sum of the negative of `k` and 1))"
    )


def test_a_value_inside_another_has_one_reading() -> None:
    said = {}
    for text in ("r == (a + b) * c", "r == a + b * c"):
        phrase = read_phrase(text)
        assert phrase is not None
        said[text] = English(First(), "train").say(phrase)
    assert said["r == (a + b) * c"] == "`r` equals the product of the sum of `a` and `b` and `c`"
    assert said["r == a + b * c"] == "`r` equals `a` plus the product of `b` and `c`"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("r == (x < y && y < z)", "(r == (x < y)) && y < z"),
        ("r == (x < y || y < z)", "(r == (x < y)) || y < z"),
        ("(p ==> x < y) == r", "p ==> ((x < y) == r)"),
        ("r == (forall i :: f(i) < 5)", "forall i :: r == (f(i) < 5)"),
        ("old(x == y)", "old(x) == y"),
        ("old(a <= x < b)", "a <= old(x) < b"),
        ("f(x == y) == c", "(f(x) == y) == c"),
        ("forall i: nat :: f(i) >= 0", "forall i: int :: f(i) >= 0"),
        ("a[..|b[..]|][i..] == s", "a[..|b[i..]|][..] == s"),
        ("(105 - 200) - 6 == x", "(100 - 5) - 206 == x"),
        ("105 + 100 == 6", "100 + 5 == 106"),
    ],
)
def test_what_means_something_else_is_said_otherwise(one: str, other: str) -> None:
    said = []
    for text in (one, other):
        phrase = read_phrase(text)
        assert phrase is not None
        said.append({English(random.Random(n), "heldout").say(phrase) for n in range(1500)})
    assert not said[0] & said[1]


def test_what_is_no_number_in_ascii_has_no_words() -> None:
    for text in ("x == \u00b2", "x == \u0663", f"x == {'9' * 5000}"):
        assert read_phrase(text) is None


def test_training_never_uses_the_wordings_that_are_held_back() -> None:
    for split in ("train", "heldout"):
        english = English(random.Random(0), split)
        for seen, held in WORDINGS.values():
            assert not set(seen) & set(held)
            drawn = {english.choose((seen, held)) for _ in range(300)}
            assert drawn == set(seen) | (set(held) if split == "heldout" else set())


@pytest.mark.parametrize(
    ("folder", "names"),
    [
        ("dafny/statements", ("valid", "heldout", "unseen", "known_words")),
        ("dafny/programs", ("valid", "low/valid", "low/heldout")),
        ("lean/statements", ("heldout", "unseen", "known_words")),
    ],
)
def test_no_file_has_a_word_that_training_never_shows(folder: str, names: Sequence[str]) -> None:
    """A model from scratch cannot know a word that it never read; a wording it can."""
    numbers = {word for value in range(1000) for word in spell(value).replace("-", " ").split()}

    def list_words(name: str) -> set[str]:
        english = " ".join(
            problem.informal for problem in load_problems(ROOT / folder / f"{name}.jsonl")
        )
        return set(re.findall("[a-z]+", re.sub("`[^`]*`", "", english).lower())) - numbers

    known = list_words("train")
    for name in names:
        assert list_words(name) - known == set()


def test_held_back_wordings_are_built_of_words_of_the_others() -> None:
    known = [*WORDINGS.values(), ASKS, ASIDES, CALLS]

    def list_words(group: int) -> set[str]:
        return {word for form in known for text in form[group] for word in text.lower().split()}

    strip = str.maketrans("", "", "().,;?")
    seen, held = ({w.translate(strip) for w in list_words(group)} for group in (0, 1))
    assert {word for word in held - seen if "{" not in word} == set()


def test_nothing_that_is_meant_is_shown() -> None:
    for draft in draw("train", 30):
        problem = build_problem(GENERATOR, draft, "train")
        shown = [render_prompt(problem, layout) for layout in ("plain", "canonical")]
        shown += [message.content for message in render_messages(problem, "dafny")]
        for text in shown:
            assert "Meant" not in text
            assert draft.reference not in text
            assert "ensures" not in text.partition("```dafny")[2] or "```" not in text
        written = render_body(problem, draft.reference, "canonical")
        assert use_problem_words(problem, written, "canonical") == draft.reference


def test_constants_are_numbered_as_they_are_shown_not_as_they_are_meant() -> None:
    problem = ask(["ensures r == 7 * n + 50"])
    shuffled = Problem(
        "p", "dafny", "formalize", "", problem.statement, informal="`r` is 50 plus 7 times `n`."
    )
    assert "// `c` is _1 plus _2 times `a`." in render_prompt(shuffled, "canonical")
    assert render_body(shuffled, "ensures r == 7 * n + 50", "canonical") == (
        "ensures c == _2 * a + _1"
    )


def test_the_texts_are_those_that_are_shipped() -> None:
    generator = StatementGenerator(find_language("dafny"))
    shipped = {p.id: p.informal for p in load_problems(ROOT / "dafny/statements/train.jsonl")}
    streams = (generator.stream_level(level, 0, "train") for level in generator.families)
    drafts = [draft for stream in streams for draft in itertools.islice(stream, 40)]
    drawn = {generator.build_id(draft): draft.informal for draft in drafts}
    both = drawn.keys() & shipped.keys()
    assert len(both) > 150
    assert [name for name in both if drawn[name] != shipped[name]] == []


def test_no_meaning_is_in_two_splits() -> None:
    drawn: dict[Split, set[str]] = {
        split: {GENERATOR.normalise(draft.statement) for draft in draw(split, 60)}
        for split in ("train", "valid", "heldout")
    }
    assert all(len(found) >= 5 * 50 for found in drawn.values())
    for one, other in itertools.combinations(drawn.values(), 2):
        assert not one & other


def test_known_words_are_those_of_training_for_meanings_that_are_held_back() -> None:
    known = StatementGenerator(find_language("dafny"), known_words=True)
    # "the number that is ..." is a wording of values that training never uses.
    for generator, has_new in ((known, False), (GENERATOR, True)):
        streams = (generator.stream_level(level, 3, "heldout") for level in generator.families)
        drafts = [draft for s in streams for draft in itertools.islice(s, 30)]
        assert any("the number that is " in draft.informal for draft in drafts) is has_new
        assert all(GENERATOR.assign_split(draft.statement) == "heldout" for draft in drafts)


def test_unseen_families_are_in_no_other_file() -> None:
    families = {draft.family for draft in draw("train", 80)}
    kept_back = find_formalizing("dafny")
    assert kept_back is not None
    assert not families & kept_back.unseen
    assert len(families) == 46 - len(kept_back.unseen) == 38


def test_feedback_tells_nothing_of_what_is_meant() -> None:
    problem = ask(MEANT)
    candidate = Candidate(problem, "ensures r == m")
    inside = Diagnostic("error", "unresolved identifier: m", 2, 15, body_line=1, body_column=13)
    behind = Diagnostic("error", "not 3 * n + k", 8, 4)
    verdict = Verdict(Status.REJECTED, (behind, inside), goals=("r == 3 * n + k",))
    for render in FEEDBACK.values():
        told = render(candidate, verdict, 8)
        assert "3 * n" not in told
        assert "Meant" not in told
        assert "unresolved identifier" in told


AGREE = (
    "\n".join(MEANT),
    "ensures k + 3 * n == r && k <= r requires 3 <= k",
    "requires k > 2; ensures r - k == n + n + n;",
    "requires !(k < 3)\nensures exists x :: x == n && r == 3 * x + k",
)
DIFFER = (
    "",
    "requires false",
    "ensures false",
    "requires k > 2",
    "requires k > 2 ensures r >= k",
    "ensures r == 3 * n + k",
    "requires k >= 2 ensures r == 3 * n + k",
    "requires k > 3 ensures r == 3 * n + k",
    "requires k > 2 ensures r == 3 * n + k + 1",
    "requires k > 2 ensures r == 3 * n + k ensures n > 0",
    "requires k > 2 ensures k > 2 ==> r > 3 * n",
)
UNREADABLE = (
    "requires k > 2 ensures r == 3 * m + k",
    "requires k > 2 ensures r == true",
    "requires k > 2 ensures r == 3 * n / (k - 3)",
)


@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_dafny_decides_what_agrees() -> None:
    problem = ask(MEANT)
    formalizing = find_formalizing("dafny")
    assert formalizing is not None
    verdicts = judge(problem, [*AGREE, *DIFFER, *UNREADABLE])
    statuses = [verdict.status for verdict in verdicts]
    assert statuses == len(AGREE) * [Status.PROVED] + 14 * [Status.REJECTED]
    read = [
        formalizing.is_well_formed(Candidate(problem, body), verdict)
        for body, verdict in zip([*AGREE, *DIFFER, *UNREADABLE], verdicts, strict=True)
    ]
    assert read == 15 * [True] + 3 * [False]


@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_dafny_agrees_with_a_reference_of_each_family_and_with_no_other() -> None:
    drafts = list({draft.family: draft for draft in draw("heldout", 40)}.values())
    for one, other in itertools.pairwise(drafts[:11]):
        problem = build_problem(GENERATOR, one, "heldout")
        verdicts = judge(problem, [one.reference, other.reference])
        assert verdicts[0].proved, one
        assert not verdicts[1].proved, (one, other)


def test_the_reward_counts_form_and_meaning() -> None:
    problem = ask(MEANT)

    def earn(verdict: Verdict) -> dict[str, float]:
        turn = build_rollout(problem, 0, Status.REJECTED).turns[0]
        judged = Turn(turn.completion, turn.candidate, verdict)
        reward = statement(Rollout("p", problem, "solver", (judged,)))
        assert reward.total == sum(reward.parts.values())
        return dict(reward.parts)

    assert earn(Verdict(Status.PROVED, checks=("entries:2",))) == {"means": 1.0, "well_formed": 1.0}
    read = Verdict(Status.REJECTED, stage=Stage.PROVER)
    assert earn(read) == {"means": 0.0, "well_formed": 1.0}
    unread = Verdict(Status.REJECTED, stage=Stage.READING)
    assert earn(unread) == {"means": 0.0, "well_formed": 0.0}
    with pytest.raises(RecordError, match="asks for no statement"):
        statement(build_rollout(build_loop("q"), 0, Status.PROVED))


@pytest.mark.dafny
@pytest.mark.parametrize(
    ("body", "means"),
    [
        *((body, True) for body in AGREE[:2]),
        # k = 2 is admitted by one alone.
        ("requires k >= 2\nensures r == 3 * n + k\nensures r >= k", False),
        ("requires k > 2\nensures r == 3 * n + k + 1\nensures r >= k", False),
        ("requires k > 2\nensures r <= 3 * n + k\nensures r >= k", False),
        ("requires k > 2 && k != 7\nensures r == 3 * n + k", False),
        ("requires k > 2\nensures r == 3 * m + k", False),
        # They differ at k = 1,000,000 only, which is not tried.
        ("requires k > 2\nensures r == 3 * n + (if k * k == 1000000000000 then 0 else k)", None),
    ],
)
@pytest.mark.usefixtures("recorded_dafny")
def test_equivalence_is_true_false_or_unknown(body: str, means: bool | None) -> None:
    problem = ask(MEANT)
    assert (
        ask_verifier(lambda verifier: equivalent(problem, body, verifier, deadline_seconds=60))
        is means
    )


@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_wrong_statements_are_certified_and_never_right() -> None:
    drafts = [d for d in draw("train", 6) if d.level < 3]
    problems = [build_problem(GENERATOR, draft, "train") for draft in drafts]
    references = [draft.reference for draft in drafts]
    wrong = ask_verifier(
        lambda verifier: finish_all(
            make_wrong(problem, reference, verifier, seed=0, deadline_seconds=60)
            for problem, reference in zip(problems, references, strict=True)
        )
    )
    found = [w for w in wrong if w is not None]
    assert len(found) >= 10
    assert {w.error for w in found} <= set(ERRORS)
    assert {w.error for w in found} >= {"goal", "representation"}
    verdicts = [
        judge(problem, [w.body])[0]
        for problem, w in zip(problems, wrong, strict=True)
        if w is not None
    ]
    assert all(verdict.status is Status.REJECTED for verdict in verdicts)


@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_a_reference_differs_from_itself_nowhere() -> None:
    formalizing = find_formalizing("dafny")
    assert formalizing is not None
    asked: list[Candidate] = []
    for draft in draw("valid", 4):
        problem = build_problem(GENERATOR, draft, "valid")
        asked += formalizing.ask_difference(problem, draft.reference)
    assert len(asked) >= 10
    verdicts = ask_verifier(lambda verifier: verify_all(verifier, asked, deadline_seconds=60))
    assert not any(map(formalizing.shows_difference, verdicts))
