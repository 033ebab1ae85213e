"""The generated Lean curriculum: what separates its splits, and that real Lean agrees."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Mapping
from itertools import combinations, islice
from typing import NamedTuple

import pytest

from proverrl.errors import ProblemError, ToolchainError
from proverrl.generate.families import CurriculumDraft, Generator
from proverrl.generate.lean.code import GENERATOR as CODE
from proverrl.generate.lean.draft import POOLS
from proverrl.generate.lean.generator import GENERATOR
from proverrl.lang import find_language
from proverrl.lang.lean.verify.workers.toolchain import find_lean_toolchain
from proverrl.problems.drafts import build_problem
from proverrl.problems.load import benchmark_sha256, load_problems, load_references
from proverrl.problems.prompt import render_body
from proverrl.rollout.extract import extract
from proverrl.types import Candidate, Problem, Split, Status
from tests import ROOT

FOLDER = ROOT / "lean" / "curriculum"


class Made(NamedTuple):
    """What a file was made with."""

    split: Split
    size: int
    levels: str
    seed: int = 0
    unseen: bool = False


FILES: Mapping[str, Made] = {
    "train": Made("train", 1800, "123456"),
    "valid": Made("valid", 120, "123456"),
    "heldout": Made("heldout", 240, "123456"),
    "unseen": Made("heldout", 150, "23456", unseen=True),
    "low/train": Made("train", 4500, "1", seed=1),
    "low/valid": Made("valid", 160, "1", seed=1),
    "low/heldout": Made("heldout", 300, "1", seed=1),
    "low/unseen": Made("heldout", 150, "1", seed=1, unseen=True),
}
PROBLEMS = {name: load_problems(FOLDER / f"{name}.jsonl") for name in FILES}
_WORD = re.compile(r"[A-Za-z_][\w']*")
ALL = [(level, name) for level, makers in GENERATOR.families.items() for name in makers]
ALL_CODE = [(level, name) for level, makers in CODE.families.items() for name in makers]
EACH = [(GENERATOR, *known) for known in ALL] + [(CODE, *known) for known in ALL_CODE]


def draw(
    level: int, family: str, split: Split, count: int, generator: Generator = GENERATOR
) -> list[CurriculumDraft]:
    return list(islice(generator.stream_family(level, family, 5, split, set()), count))


def test_there_are_families_for_six_levels_and_ten_are_kept_back() -> None:
    assert len(ALL) == 50
    assert Counter(level for level, _ in ALL).keys() == set(range(1, 7))
    assert len(GENERATOR.unseen) == 10
    assert {name for _, name in ALL} > GENERATOR.unseen
    # A level whose families are all kept back would leave a hole in the training file.
    for makers in GENERATOR.families.values():
        assert makers.keys() - GENERATOR.unseen


def test_code_that_is_asked_for_is_no_constant() -> None:
    # A remainder and an upper bound may hold of one number, or of none.
    statements = [draft.statement for draft in draw(1, "c1_test", "train", 400, CODE)]
    assert any("∨" in text for text in statements)
    bounds = [re.search(r"↔ (.*) ∧ ", text) for text in statements]
    assert {re.sub(r"\w+", "_", found[1]) for found in bounds if found} == {"_ ≤ _"}


def test_code_has_families_for_three_levels_and_three_are_kept_back() -> None:
    assert Counter(level for level, _ in ALL_CODE) == {1: 5, 2: 5, 3: 6}
    assert len(CODE.unseen) == 3
    assert {name for _, name in ALL_CODE} > CODE.unseen
    (draft,) = draw(3, "c3_keep", "train", 1, CODE)
    assert draft.statement == (
        "def law :\n"
        "    { f : List Nat → List Nat //\n"
        "      f [] = [] ∧\n"
        "      (∀ len us, len = 174 → f (len :: us) = f us) ∧\n"
        "      (∀ len us, len ≠ 174 → f (len :: us) = len :: f us) } :=\n"
        "  /*{HOLE}*/\n"
    )
    assert draft.reference == (
        "⟨fun us => us.foldr (fun len cnt => if len = 174 then cnt else len :: cnt) [], by\n"
        "    refine ⟨?_, ?_, ?_⟩\n"
        "    · rfl\n"
        "    · intro len us h6\n"
        "      exact if_pos h6\n"
        "    · intro len us h6\n"
        "      exact if_neg h6⟩"
    )
    heads = [body.partition(",")[0] for body in CODE.list_trivial(draft)]
    assert heads == ["⟨fun x0 => []", "⟨fun x0 => x0"]


FEW = {"l3_compose": 18}
"""All that a family has to give, where that is less than twenty."""


@pytest.mark.parametrize(("generator", "level", "family"), EACH)
def test_a_family_gives_distinct_problems_that_a_policy_can_read_and_write(
    generator: Generator, level: int, family: str
) -> None:
    size = FEW.get(family, 20)
    drafts = draw(level, family, "train", size, generator)
    assert len({generator.normalise(draft.statement) for draft in drafts}) == size
    language = find_language("lean")
    own = {name for train, _ in POOLS.values() for name in train}
    for draft in drafts:
        problem = build_problem(generator, draft, "train")
        assert language.audit(Candidate(problem, draft.reference)) is None
        # The canonical layout writes a letter for each name, and must know the library's.
        declared = own | set(_WORD.findall(draft.statement))
        words = [word for word in _WORD.finditer(draft.reference) if word.group() not in declared]
        assert not [word.group() for word in words if language.owns_name(word)]
        if level >= 4:
            assert 6 <= draft.reference.count("\n") + 1 <= 26
        for layout in ("plain", "canonical"):
            text = render_body(problem, draft.reference, layout)
            body = extract(problem, text, layout).body
            assert body is not None
            # In the canonical layout names that the proof makes up come back as letters.
            assert render_body(problem, body, layout) == text
            assert layout == "canonical" or body == draft.reference


def test_a_stream_is_the_same_on_every_machine() -> None:
    first = draw(4, "l4_append", "train", 3)
    assert [GENERATOR.build_id(draft) for draft in first] == [
        "lean-l4-append-9d462833",
        "lean-l4-append-b757187c",
        "lean-l4-append-b42c2d1a",
    ]


def test_normal_forms_forget_names_but_not_libraries_or_numbers() -> None:
    one = GENERATOR.normalise("theorem goal (p q : Prop) (h : p) : 3 = Nat.succ 2")
    assert one == GENERATOR.normalise("theorem done  (a b : Prop)\n  (w1 : a) : 3 = Nat.succ 2")
    assert one != GENERATOR.normalise("theorem goal (p q : Prop) (h : p) : 3 = Nat.succ 4")
    assert one != GENERATOR.normalise("theorem goal (p q : Prop) (h : p) : 3 = Nat.pred 2")


CHAIN = "theorem main (p q r : Prop) (h1 : p → q) (h2 : q → r) (h3 : p) : r := by"


@pytest.mark.parametrize(
    ("other", "alike"),
    [
        ("theorem law (p q r : Prop) (h3 : p) (h2 : q → r) (h1 : p → q) : r := by", True),
        ("theorem law (s t p : Prop) (h : s) (h7 : s → t) (ha : t → p) : p := by", True),
        ("theorem law (p q r : Prop) (h1 : p → q) (h2 : q → r) (h3 : q) : r := by", False),
        ("theorem law (p q r : Prop) (h1 : p → q) (h2 : p → r) (h3 : p) : r := by", False),
        ("theorem law (p q r : Prop) (h1 : p → q) (h2 : q → r) (h3 : p) : q := by", False),
        ("theorem law {p q r : Prop} (h1 : p → q) (h2 : q → r) (h3 : p) : r := by", False),
    ],
)
def test_normal_forms_forget_the_order_of_what_is_bound(other: str, alike: bool) -> None:
    assert (GENERATOR.normalise(CHAIN) == GENERATOR.normalise(other)) == alike


def test_the_names_of_a_role_are_of_one_split() -> None:
    for role, (train, held) in POOLS.items():
        assert not set(train) & set(held), role
        assert len(set(train)) == len(train)
        assert len(set(held)) == len(held)
    words = find_language("lean").keywords
    assert not {name for pools in POOLS.values() for names in pools for name in names} & words


def test_a_level_without_families_that_are_kept_back_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(type(GENERATOR), "unseen", frozenset())
    with pytest.raises(ProblemError, match="no lean family of level 1 is kept back"):
        next(GENERATOR.stream_level(1, 0, "heldout", unseen=True))


@pytest.mark.parametrize("name", FILES)
def test_a_file_has_its_size_split_levels_and_families(name: str) -> None:
    made = FILES[name]
    problems = PROBLEMS[name]
    assert len(problems) == made.size
    assert {problem.split for problem in problems} == {made.split}
    assert all(GENERATOR.assign_split(problem.statement) == made.split for problem in problems)
    families = {
        family
        for level, family in ALL
        if str(level) in made.levels and (family in GENERATOR.unseen) == made.unseen
    }
    assert {problem.family for problem in problems} == families
    by_level = Counter(str(problem.level) for problem in problems)
    assert by_level == dict.fromkeys(made.levels, made.size // len(made.levels))
    references = load_references(FOLDER / f"{name}.jsonl")
    assert references.keys() == {problem.id for problem in problems}


def test_no_theorem_stands_in_two_splits_or_twice_in_a_file() -> None:
    forms = {
        name: {GENERATOR.normalise(problem.statement) for problem in problems}
        for name, problems in PROBLEMS.items()
    }
    assert {name: len(found) for name, found in forms.items()} == {
        name: made.size for name, made in FILES.items()
    }
    for one, other in combinations(FILES, 2):
        if FILES[one].split != FILES[other].split or FILES[one].unseen != FILES[other].unseen:
            assert not forms[one] & forms[other], (one, other)


def test_checksums_are_those_of_the_files() -> None:
    lines = (FOLDER / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert sums == {f"{name}.jsonl": benchmark_sha256(FOLDER / f"{name}.jsonl") for name in FILES}


@pytest.mark.parametrize("name", FILES)
def test_the_generator_makes_the_shipped_rows_again(name: str) -> None:
    made = FILES[name]
    references = load_references(FOLDER / f"{name}.jsonl")
    rows = {problem.id: problem for problem in PROBLEMS[name]}
    found = 0
    for level in map(int, made.levels):
        stream = GENERATOR.stream_level(level, made.seed, made.split, unseen=made.unseen)
        for draft in islice(stream, 8 // len(made.levels)):
            problem = rows.get(GENERATOR.build_id(draft))
            # One that Lean did not accept is not in the file.
            if problem is not None:
                assert (problem.statement, references[problem.id]) == (
                    draft.statement,
                    draft.reference,
                )
                found += 1
    assert found >= 5


@pytest.mark.lean
@pytest.mark.slow
@pytest.mark.parametrize("generator", [GENERATOR, CODE])
def test_lean_proves_references_and_nothing_trivial_does(generator: Generator) -> None:
    try:
        find_lean_toolchain()
    except ToolchainError as error:
        pytest.skip(str(error))
    chosen: dict[str, tuple[Problem, CurriculumDraft]] = {}
    for level, makers in generator.families.items():
        for family in makers:
            (draft,) = draw(level, family, "heldout", 1, generator)
            chosen[family] = build_problem(generator, draft, "heldout"), draft

    async def judge() -> dict[str, list[Status]]:
        verifier, _ = generator.open_verifier(2)
        try:
            found = {}
            for family, (problem, draft) in chosen.items():
                bodies = [draft.reference, *generator.list_trivial(draft)]
                asked = [
                    verifier.verify(Candidate(problem, b), deadline_seconds=60) for b in bodies
                ]
                found[family] = [verdict.status for verdict in await asyncio.gather(*asked)]
            return found
        finally:
            await verifier.aclose()

    for family, (first, *others) in asyncio.run(judge()).items():
        assert (family, first) == (family, Status.PROVED)
        assert (family, Status.PROVED in others) == (family, False)
