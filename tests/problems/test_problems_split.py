"""Two halves of problems that share nothing."""

import re
import shutil
from pathlib import Path

from click.testing import CliRunner

from proverrl.cli.main import cli
from proverrl.problems.load import load_problems, make_row, write_problems
from proverrl.problems.split import divide, find_groups
from proverrl.types import HOLE, Problem

LOOP = "method M(k: nat) {{ var {0} := k; while {0} > 0 {hole} {{ {0} := {0} - 1; }} }}\n"


def make(name: str, text: str, family: str = "f") -> Problem:
    return Problem(name, "dafny", "invariants", "", text, metadata={"family": family})


def write_lemma(number: int) -> str:
    """No two numbers below 16 have a run of 13 tokens in common."""
    terms = " ".join(f"{sign} x" for sign in f"{number:04b}".translate({48: "+", 49: "*"}) * 4)
    return f"lemma L(x: int) ensures x {terms} >= 0 {{ {HOLE} }}\n"


def test_what_is_nearly_the_same_or_of_one_project_is_one_group() -> None:
    problems = [
        make("p1_a", LOOP.format("i", hole=HOLE)),
        make("p2_b", LOOP.format("counter", hole=HOLE)),
        make("p1_c", write_lemma(1)),
        make("q", write_lemma(2)),
    ]
    assert find_groups(problems, None) == [[0, 1], [2], [3]]
    assert find_groups(problems, re.compile("^p[0-9]")) == [[0, 1, 2], [3]]
    held = divide(problems, 0.5, seed=0, project=re.compile("^p[0-9]"))
    assert held[:3] in ([True] * 3, [False] * 3)
    assert held[3] is not held[0]


def test_each_family_gives_its_share() -> None:
    problems = [
        make(f"{family}{n}", write_lemma(n + first), family)
        for family, first in (("f", 0), ("g", 4))
        for n in range(4)
    ]
    groups = find_groups(problems, None)
    assert len(groups) == 8
    for share, number in ((0.0, 0), (0.25, 1), (0.5, 2), (1.0, 4)):
        for seed in range(3):
            held = divide(problems, share, seed=seed)
            assert [sum(held[:4]), sum(held[4:])] == [number, number]
    assert len({tuple(divide(problems, 0.5, seed=seed)) for seed in range(8)}) > 1


def test_small_families_give_their_share_together() -> None:
    problems = [make("same id", write_lemma(n), f"f{n // 2}") for n in range(16)]
    assert len(find_groups(problems, None)) == 16
    for share, number in ((0.5, 8), (0.25, 4)):
        held = divide(problems, share, seed=0)
        assert sum(held) == number
        assert sum(divide(problems[::2], share, seed=0)) == number // 2


def test_the_command_writes_both_sides(tmp_path: Path) -> None:
    for name in ("one", "two"):
        rows = [make_row(make(f"{name}{n}", write_lemma(n))) for n in range(4)]
        write_problems(tmp_path / f"{name}.jsonl", rows)
    given = [str(tmp_path / f"{name}.jsonl") for name in ("one", "two")]
    run = ["problems", "split", *given, "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(cli, run)
    assert result.exit_code == 0, result.output
    sides = {
        (name, side): {p.id[-1] for p in load_problems(tmp_path / "out" / f"{name}.{side}.jsonl")}
        for name in ("one", "two")
        for side in ("train", "heldout")
    }
    # The same number stands for the same statement.
    for side, other in (("train", "heldout"), ("heldout", "train")):
        assert sides["one", side] == sides["two", side]
        assert not sides["one", side] & sides["two", other]
    assert sum(map(len, sides.values())) == 8
    wrong = CliRunner().invoke(cli, [*run, "--project", "("])
    assert "--project '(' is no regular expression" in str(wrong.exception)
    for pattern, said in (("^zzz", "matches no problem's id"), ("z*", "matches nothing at all")):
        wrong = CliRunner().invoke(cli, [*run, "--project", pattern])
        assert said in str(wrong.exception)
    for share in ("nan", "1", "-1"):
        wrong = CliRunner().invoke(cli, [*run, f"--heldout={share}"])
        assert "a share lies between 0 and 1" in str(wrong.exception)
    wrong = CliRunner().invoke(cli, [*run, "--heldout=0.01"])
    assert "one: nothing is left for heldout" in str(wrong.exception)
    own = tmp_path / "one.train.jsonl"
    shutil.copy(given[0], own)
    line = ["problems", "split", given[0], str(own), "--out", str(tmp_path)]
    assert "is read by this command" in str(CliRunner().invoke(cli, line).exception)
    assert own.read_bytes() == Path(given[0]).read_bytes()
    twice = CliRunner().invoke(cli, ["problems", "split", given[0], given[0], "--out", "x"])
    assert "two sources have one name (one, one)" in str(twice.exception)
