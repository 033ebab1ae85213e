"""The generator: the same text everywhere, splits that differ in programs, names and numbers."""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterable
from itertools import islice

import pytest

from proverrl.errors import ProblemError
from proverrl.generate.dafny.stream import GENERATOR
from proverrl.generate.families import CurriculumDraft, Names, NamesExhaustedError, ProgramText
from proverrl.lang.dafny.syntax.names import GLOBAL_POOLS, VARIABLE_POOLS
from proverrl.lang.dafny.syntax.text import normalise, scan_tokens
from proverrl.lang.pools import NUMBER_PERIOD, NUMBER_RESIDUES, is_train_number
from proverrl.types import HOLE, Split
from tests.dafny_drafts import generate_drafts

LEVELS = (1, 2, 3, 4, 5)
ALL_FAMILIES = [
    (level, family) for level, makers in GENERATOR.families.items() for family in makers
]
GOLDEN = {
    "train": "553126d84810f5cc",
    "valid": "151540a8d2a21d79",
    "heldout": "f1c935f23791c546",
}


def hash_drafts(drafts: Iterable[CurriculumDraft]) -> str:
    digest = hashlib.sha256()
    for draft in drafts:
        for part in (draft.family, draft.kind, draft.statement, draft.reference):
            digest.update(part.encode() + b"\x00")
    return digest.hexdigest()[:16]


@pytest.mark.parametrize("split", ["train", "valid", "heldout"])
def test_drafts_are_the_same_on_every_machine(split: Split) -> None:
    assert hash_drafts(generate_drafts(LEVELS, 100, 0, split)) == GOLDEN[split]


def test_seed_changes_the_drafts_and_num_only_cuts_them() -> None:
    long = list(generate_drafts(LEVELS, 40, 1, "train"))
    assert list(generate_drafts(LEVELS, 15, 1, "train")) == long[:15]
    other = {draft.statement for draft in generate_drafts(LEVELS, 40, 2, "train")}
    assert len(other & {draft.statement for draft in long}) == 0


def test_levels_take_turns_and_then_families() -> None:
    drafts = list(generate_drafts(LEVELS, 300, 0, "train"))
    assert Counter(draft.level for draft in drafts) == dict.fromkeys(LEVELS, 60)
    for level in LEVELS:
        counts = Counter(draft.family for draft in drafts if draft.level == level)
        assert set(counts) == set(GENERATOR.families[level])
        assert max(counts.values()) - min(counts.values()) <= 1


def test_there_are_at_least_thirty_families_over_five_levels() -> None:
    assert tuple(GENERATOR.families) == LEVELS
    assert len(ALL_FAMILIES) == len({family for _, family in ALL_FAMILIES}) == 46


@pytest.mark.parametrize(("level", "family"), ALL_FAMILIES)
def test_a_family_gives_sixty_different_programs(level: int, family: str) -> None:
    stream = GENERATOR.stream_family(level, family, 0, "train", set())
    drafts = list(islice(stream, 60))
    assert len({normalise(draft.statement) for draft in drafts}) == 60
    for draft in drafts:
        assert (draft.level, draft.family) == (level, family)
        assert draft.statement.count(HOLE) == 1
        assert draft.reference == draft.reference.strip()
        assert 8 <= len(scan_tokens(draft.reference)) <= 70
        assert len(scan_tokens(draft.statement)) <= 220
        assert GENERATOR.assign_split(draft.statement) == "train"


def test_a_family_that_is_used_up_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(rng: random.Random, names: Names) -> ProgramText:
        return ProgramText([f"{HOLE} {rng.randrange(9)}"], "", "calc")

    monkeypatch.setitem(GENERATOR.families, 1, {"tiny": make})
    found = list(GENERATOR.stream_family(1, "tiny", 0, "train", set()))
    assert {(draft.kind, draft.statement) for draft in found} == {
        ("calc", f"{HOLE} {number}\n")
        for number in range(9)
        if GENERATOR.assign_split(f"{HOLE} {number}\n") == "train"
    }
    assert len(found) in range(3, 9)


def test_splits_take_seven_one_and_two_of_ten() -> None:
    counts = Counter(
        GENERATOR.assign_split(f"method M() ensures {n} == {n} {{}}") for n in range(4000)
    )
    assert 2700 < counts["train"] < 2900
    assert 330 < counts["valid"] < 470
    assert 700 < counts["heldout"] < 900


def test_a_program_has_one_split_whatever_its_names() -> None:
    for draft in generate_drafts(LEVELS, 50, 3, "heldout"):
        names = dict.fromkeys(re.findall(r"\b[a-z]\b", draft.statement))
        renamed = draft.statement
        for name in names:
            renamed = re.sub(rf"\b{name}\b", f"long_{name}", renamed)
        assert GENERATOR.assign_split(renamed) == "heldout"


@pytest.mark.parametrize("pools", [VARIABLE_POOLS, GLOBAL_POOLS])
def test_name_pools_are_disjoint_and_held_names_occur_in_train_elsewhere(
    pools: dict[str, tuple[tuple[str, ...], tuple[str, ...]]],
) -> None:
    assert len(pools) in (15, 6)
    for role, (train, held) in pools.items():
        assert not set(train) & set(held), role
        assert len(set(train)) == len(train) >= 5
        assert len(set(held)) == len(held) >= 4
        elsewhere = {name for other, (names, _) in pools.items() if other != role for name in names}
        assert set(held) <= elsewhere, (role, set(held) - elsewhere)


@pytest.mark.parametrize("split", ["train", "valid", "heldout"])
def test_names_and_numbers_come_from_the_pools_of_their_split(split: Split) -> None:
    place = 0 if split == "train" else 1
    for role in (*VARIABLE_POOLS, *GLOBAL_POOLS):
        pool = {**VARIABLE_POOLS, **GLOBAL_POOLS}[role][place]
        names = Names(random.Random(0), split, GENERATOR.pools)
        assert sorted(names.pick(role) for _ in pool) == sorted(pool)
        with pytest.raises(NamesExhaustedError):
            names.pick(role)
    for role in NUMBER_RESIDUES:
        names = Names(random.Random(0), split, GENERATOR.pools)
        drawn = {names.number(role, 1, 21) for _ in range(400)}
        wanted = {n for n in range(1, 22) if is_train_number(role, n) == (split == "train")}
        assert drawn == wanted
        assert len(wanted) == (18 if split == "train" else 3)


def test_a_range_too_narrow_for_all_splits_is_refused() -> None:
    with pytest.raises(ValueError, match="too narrow"):
        Names(random.Random(0), "train", GENERATOR.pools).number("slope", 1, NUMBER_PERIOD - 1)


def test_ids_name_level_family_and_text() -> None:
    draft = next(GENERATOR.stream_level(3, 0, "train"))
    digest = hashlib.sha256(draft.statement.encode()).hexdigest()
    assert GENERATOR.build_id(draft) == f"dafny-l3-fill-{digest[:8]}"


def test_wrong_requests_are_refused() -> None:
    with pytest.raises(ProblemError, match="no level 6; choose among 1, 2, 3, 4, 5"):
        next(GENERATOR.stream_level(6, 0, "train"))
