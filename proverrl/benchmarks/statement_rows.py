"""Rows that hold one Lean statement each, under the names that their publishers chose.

Flows in: a ``Collector`` with its source. Flows out: its problems. ``ROW_FORMATS`` says for
each form which field holds what.
Not handled here: endings and headers (``proverrl.benchmarks.lean_text``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proverrl.benchmarks.base import (
    BenchmarkFormat,
    Collector,
    RawBenchmark,
    RawRow,
    explain_no_rows,
    read_field,
    read_split,
)
from proverrl.benchmarks.lean_text import LeanText, add_lean
from proverrl.errors import ProblemError
from proverrl.lang.lean.syntax.declarations import split_header

DEFAULT_HEADER = (
    "import Mathlib\nimport Aesop\n\nset_option maxHeartbeats 0\n\n"
    "open BigOperators Real Nat Topology Rat\n\n"
)
"""The header of statements without one, as every row of DeepSeek-Prover's miniF2F has it."""


@dataclass(frozen=True, slots=True)
class RowFormat:
    """Names of fields; of several the first that a row has is read. A row must have one of each of
    ``id``, ``statement`` and all of ``needs``, and none of ``lacks``.

    ``header`` may hold the imports, ``helper`` definitions between them and the statement.
    """

    id: tuple[str, ...]
    statement: tuple[str, ...]
    needs: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    header: str = ""
    helper: str = ""
    informal: tuple[str, ...] = ()
    proof: str = ""
    labels: tuple[str, ...] = ()


ROW_FORMATS: dict[BenchmarkFormat, RowFormat] = {
    # Goedel-Prover-V2's miniF2F and MathOlympiadBench: lean4_code is the whole file, header too.
    "goedel": RowFormat(
        id=("name", "problem_id"),
        statement=("lean4_code",),
        needs=("formal_statement",),
        informal=("informal_prefix",),
        labels=("category", "tags"),
    ),
    # DeepSeek-Prover-V1.5's miniF2F, ProofNet and few-shot file.
    "deepseek": RowFormat(
        id=("name",),
        statement=("formal_statement",),
        needs=("informal_prefix", "split"),
        lacks=("lean4_code",),
        header="header",
        informal=("informal_prefix",),
        proof="formal_proof",
    ),
    # miniF2F-v2s and -v2c (Ospanov et al. 2025, arXiv 2511.03108).
    "minif2f_v2": RowFormat(
        id=("name",),
        statement=("formal_statement",),
        needs=("header", "split", "informal_proof"),
        lacks=("informal_prefix", "lean4_code"),
        header="header",
        informal=("informal statement", "informal_statement"),
    ),
    "proofnet_verified": RowFormat(
        id=("name",),
        statement=("formal_stmt",),
        needs=("header", "helper"),
        header="header",
        helper="helper",
        informal=("informal_stmt",),
        labels=("textbook",),
    ),
    # Anything else with an id and a statement: ProofNet-lean4, PutnamBench as jsonl, ProverBench,
    # Gaokao-Formal.
    "lean_rows": RowFormat(
        id=("name", "id", "problem_id", "theorem_name", "problem_name", "uuid"),
        statement=("formal_statement", "lean4_code", "lean_code", "formal_stmt", "lean4_statement"),
        header="header",
        informal=(
            *("informal_statement", "informal_stmt", "nl_statement", "informal_prefix"),
            *("informal statement", "natural_language", "NL_English", "NL_Chinese", "problem"),
        ),
        labels=("area", "source", "tags"),
    ),
}


def explain_misfit(source: RawBenchmark, format_name: BenchmarkFormat) -> str:
    """The reason why the first row that can be read is not of this format; empty when it is."""
    spec = ROW_FORMATS[format_name]
    needed = (spec.id, spec.statement, *((need,) for need in spec.needs))
    return explain_no_rows(source, needed, spec.lacks)


def read_lean_rows(collector: Collector) -> None:
    """All rows of a source that has this format."""
    spec = ROW_FORMATS[collector.format]
    for row in collector.iter_rows():
        name = _read_first(row.data, spec.id)
        shown = name or row.where.rpartition(", ")[2]
        with collector.reading(shown, row.where):
            if not name:
                raise ProblemError(f"field {spec.id[0]!r} is missing or empty; add it")
            add_lean(collector, _read_row(row, name, spec))


def _read_row(row: RawRow, name: str, spec: RowFormat) -> LeanText:
    statement = next((field for field in spec.statement if row.data.get(field)), spec.statement[0])
    header = read_field(row.data, spec.header, default="") if spec.header else ""
    text = read_field(row.data, statement)
    if not text.strip():
        raise ProblemError(f"field {statement!r} is empty")
    helper = read_field(row.data, spec.helper, default="") if spec.helper else ""
    if helper.strip():
        header = f"{header.rstrip()}\n\n{helper}"
    labels = {key: row.data[key] for key in spec.labels if row.data.get(key)}
    if not header.strip() and not split_header(text)[0]:
        header, labels["header"] = DEFAULT_HEADER, "default"
    return LeanText(
        name=name,
        where=row.where,
        text=text,
        header=f"{header.rstrip()}\n\n" if header.strip() else "",
        informal=_read_first(row.data, spec.informal),
        split=read_split(row.data.get("split", "")),
        proof=read_field(row.data, spec.proof) if spec.proof in row.data else None,
        metadata=labels,
    )


def _read_first(row: Mapping[str, Any], names: tuple[str, ...]) -> str:
    value = next((row[name] for name in names if row.get(name)), "")
    if isinstance(value, list) and value:
        value = value[0]
    return str(value) if isinstance(value, str | int) else ""
