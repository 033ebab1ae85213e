"""Problems of one's own as parquet, as a saved data set, and from the hub's library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proverrl.benchmarks import open as opening
from proverrl.benchmarks.open import open_benchmark
from proverrl.config import parse_config
from proverrl.errors import ProblemError
from proverrl.problems.load import make_row, write_problems
from proverrl.run.session import load_training
from tests.builders import build_problem

ROWS: list[dict[str, Any]] = [
    make_row(build_problem("a", n=3)) | {"metadata": {"level": 1}, "reference": "invariant true"},
    # Columns that only some rows have are null in the others.
    make_row(build_problem("b", n=4)) | {"metadata": {"level": 2, "family": "f"}},
]
Problems = list[tuple[str, dict[str, Any], str | None]]


def read(source: str | Path) -> Problems:
    found = open_benchmark(str(source))
    return [(e.problem.id, dict(e.problem.metadata), e.reference) for e in found.entries]


@pytest.fixture
def expected(tmp_path: Path) -> Problems:
    write_problems(tmp_path / "p.jsonl", ROWS)
    found = read(tmp_path / "p.jsonl")
    assert found == [
        ("a", {"level": 1}, "invariant true"),
        ("b", {"level": 2, "family": "f"}, None),
    ]
    return found


def test_the_same_rows_in_every_form(
    tmp_path: Path, expected: Problems, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets

    rows = datasets.Dataset.from_list(ROWS)
    rows.to_parquet(tmp_path / "p.parquet")
    rows.save_to_disk(tmp_path / "saved")
    both = datasets.DatasetDict({"train": rows, "test": rows})
    both.save_to_disk(tmp_path / "splits")
    for source in ("p.parquet", "saved", "splits/train"):
        assert read(tmp_path / source) == expected
        config = parse_config(
            {
                "problems": {"train": str(tmp_path / source)},
                "warm_start": {"references_per_level": {"1": 1}},
            },
            source="test",
        )
        training = load_training(config)
        assert [(p.id, body) for p, body in training.references] == [("a", "invariant true")]
        assert [p.id for p in training.without_reference] == ["b"]
    with pytest.raises(
        ProblemError, match=r"holds several splits; name one of them: .*splits/train"
    ):
        read(tmp_path / "splits")
    monkeypatch.setattr(datasets, "load_dataset", lambda name: both)
    assert [name for name, _, _ in read("hf:me/mine:train")] == ["a", "b"]
    assert opening.HUB_PREFIX == "hf:"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": "a"}, "row 2: field 'id': 'a' is already used"),
        ({"kind": "proof"}, "row 2: field 'kind' is 'proof'"),
        ({"metadata": {"level": -1}}, "row 2: field 'metadata.level' is -1"),
        ({"statement": "method M() {}"}, "row 2: .*must hold the marker"),
    ],
)
def test_a_wrong_row_is_named(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    import datasets

    datasets.Dataset.from_list([ROWS[0], ROWS[1] | change]).to_parquet(tmp_path / "p.parquet")
    with pytest.raises(ProblemError, match=said):
        read(tmp_path / "p.parquet")


def test_a_file_that_is_no_parquet(tmp_path: Path) -> None:
    (tmp_path / "p.parquet").write_text("no")
    with pytest.raises(ProblemError, match=r"cannot read .*p\.parquet"):
        read(tmp_path / "p.parquet")
    with pytest.raises(ProblemError, match=r"nowhere\.parquet"):
        read(tmp_path / "nowhere.parquet")
