"""The shipped curriculum: reproducible, balanced, its splits apart, and right by real Dafny."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice

import pytest

from proverrl.generate.dafny.stream import GENERATOR
from proverrl.lang.dafny.syntax.names import GLOBAL_POOLS, VARIABLE_POOLS
from proverrl.lang.dafny.syntax.text import normalise, scan_tokens
from proverrl.problems.load import benchmark_sha256, load_problems, load_references
from proverrl.types import Candidate, Problem, Split, Status
from tests import ROOT
from tests.dafny_drafts import generate_drafts

FOLDER = ROOT / "dafny" / "curriculum"
SIZES: Mapping[Split, int] = {"train": 2400, "valid": 160, "heldout": 200}
LEVELS = (1, 2, 3, 4, 5)
PROBLEMS = {split: load_problems(FOLDER / f"{split}.jsonl") for split in SIZES}


def find_leaks(train: Sequence[Problem], other: Sequence[Problem]) -> list[str]:
    """The ids of ``other`` whose program equals one of ``train`` but for names."""
    known = {normalise(problem.statement) for problem in train}
    return [problem.id for problem in other if normalise(problem.statement) in known]


def read_names(problems: Sequence[Problem], pattern: str) -> set[str]:
    text = "\n".join(problem.statement for problem in problems)
    return set(re.findall(pattern, text))


@pytest.mark.parametrize("split", SIZES)
def test_a_file_has_its_size_its_split_and_balanced_levels(split: Split) -> None:
    problems = PROBLEMS[split]
    assert len(problems) == SIZES[split]
    assert Counter(p.level for p in problems) == dict.fromkeys(LEVELS, SIZES[split] // 5)
    assert {p.split for p in problems} == {split}
    assert all(GENERATOR.assign_split(p.statement) == split for p in problems)
    assert {p.family for p in problems} == {
        name for level in LEVELS for name in GENERATOR.families[level]
    }
    assert len({normalise(p.statement) for p in problems}) == SIZES[split]
    assert set(load_references(FOLDER / f"{split}.jsonl")) == {p.id for p in problems}
    assert all(p.metadata["expected_entries"] for p in problems)


@pytest.mark.parametrize("split", SIZES)
def test_the_generator_makes_the_shipped_rows_again(split: Split) -> None:
    references = load_references(FOLDER / f"{split}.jsonl")
    drafts = islice(generate_drafts(LEVELS, SIZES[split], 0, split), 120)
    for draft, problem in zip(drafts, PROBLEMS[split], strict=False):
        assert (GENERATOR.build_id(draft), draft.statement) == (problem.id, problem.statement)
        assert (draft.level, draft.family, draft.kind) == (
            problem.level,
            problem.family,
            problem.kind,
        )
        assert draft.reference == references[problem.id]


def test_checksums_are_those_of_the_files() -> None:
    lines = (FOLDER / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert sums == {f"{s}.jsonl": benchmark_sha256(FOLDER / f"{s}.jsonl") for s in SIZES}


def test_no_program_of_another_split_is_in_train() -> None:
    assert find_leaks(PROBLEMS["train"], PROBLEMS["heldout"]) == []
    assert find_leaks(PROBLEMS["train"], PROBLEMS["valid"]) == []
    assert find_leaks(PROBLEMS["valid"], PROBLEMS["heldout"]) == []


def test_a_planted_leak_is_found_though_its_names_differ() -> None:
    stolen = PROBLEMS["train"][0]
    names = dict.fromkeys(
        piece
        for kind, piece in scan_tokens(stolen.statement)
        if kind == "name" and re.search(rf"\b{piece}\b", stolen.statement)
    )
    (counter,) = re.findall(r"var (\w+) :=", stolen.statement)
    assert counter in names
    text = re.sub(rf"\b{counter}\b", "renamed", stolen.statement)
    planted = Problem("planted", "dafny", stolen.kind, "", text, split="heldout")
    assert planted.statement != stolen.statement
    assert find_leaks(PROBLEMS["train"], [*PROBLEMS["heldout"], planted]) == ["planted"]


@pytest.mark.parametrize(
    ("role", "pattern"),
    [
        ("method", r"^method (\w+)"),
        ("function", r"^function (\w+)"),
        ("lemma", r"^lemma \{:induction false\} (\w+)"),
        ("datatype", r"^datatype (\w+)"),
        ("array", r"(\w+): array<int>"),
        ("seq", r"(\w+): seq<int>"),
        ("index", r"(?:forall|exists) (\w+)"),
    ],
)
def test_held_out_roles_use_names_that_train_never_uses_so(role: str, pattern: str) -> None:
    train_pool, held_pool = {**VARIABLE_POOLS, **GLOBAL_POOLS}[role]
    multiline = f"(?m){pattern}"
    assert read_names(PROBLEMS["train"], multiline) == set(train_pool)
    others = [*PROBLEMS["valid"], *PROBLEMS["heldout"]]
    used = read_names(others, multiline)
    assert used <= set(held_pool)
    assert len(used) >= 3


def test_every_held_out_token_occurs_in_train() -> None:
    def read_words(split: Split) -> set[str]:
        references = load_references(FOLDER / f"{split}.jsonl")
        texts = [*(p.statement for p in PROBLEMS[split]), *references.values()]
        tokens = [token for text in texts for token in scan_tokens(text)]
        # A number is read digit by digit, so its digits must occur, not its value.
        numbers = {digit for kind, piece in tokens if kind == "number" for digit in piece}
        # A tokenizer of parts of words reads the question mark of ``Cons?`` on its own.
        return numbers | {piece.rstrip("?") for kind, piece in tokens if kind != "number"}

    train = read_words("train")
    assert read_words("heldout") - train == set()
    assert read_words("valid") - train == set()


def test_held_out_slopes_are_never_slopes_in_train() -> None:
    def read_slopes(split: Split) -> set[int]:
        found = set()
        for problem in PROBLEMS[split]:
            if problem.family == "l1_dec":
                found |= {int(n) for n in re.findall(r":= \w+ - (\d\d+);", problem.statement)}
        return found

    train, held = read_slopes("train"), read_slopes("heldout")
    assert len(train) >= 10
    assert len(held) >= 3
    assert {slope % 7 for slope in held} == {3}
    assert 3 not in {slope % 7 for slope in train}


def pick_sample() -> list[tuple[Problem, str]]:
    """One problem of each family, in turn from the three files, with its reference."""
    sample = []
    for place, family in enumerate(name for level in LEVELS for name in GENERATOR.families[level]):
        split: Split = ("train", "heldout", "valid")[place % 3]
        problem = next(p for p in PROBLEMS[split] if p.family == family)
        sample.append((problem, load_references(FOLDER / f"{split}.jsonl")[problem.id]))
    return sample


@pytest.mark.slow
@pytest.mark.dafny
@pytest.mark.usefixtures("recorded_dafny")
def test_dafny_proves_references_and_refuses_empty_bodies() -> None:
    sample = pick_sample()
    assert len(sample) == 46

    async def judge() -> list[tuple[Status, Status]]:
        verifier, _ = GENERATOR.open_verifier(2)
        try:
            full = [verifier.verify(Candidate(p, r), deadline_seconds=60) for p, r in sample]
            blank = [verifier.verify(Candidate(p, ""), deadline_seconds=60) for p, _ in sample]
            verdicts = await asyncio.gather(*full, *blank)
        finally:
            await verifier.aclose()
        statuses = [verdict.status for verdict in verdicts]
        return list(zip(statuses[: len(sample)], statuses[len(sample) :], strict=True))

    results = asyncio.run(judge())
    failed = {
        problem.id: statuses
        for (problem, _), statuses in zip(sample, results, strict=True)
        if statuses != (Status.PROVED, Status.REJECTED)
    }
    assert failed == {}
