"""Writes a benchmark as a file of our own problems, with what it came from beside it.

Flows in: a ``Benchmark``. Flows out: ``NAME.jsonl``, and beside it ``NAME.refused.jsonl`` with what
was refused and why, and ``NAME.source.json`` with place, licence, SHA-256 of the source and of the
file, and counts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from proverrl.benchmarks.open import Benchmark
from proverrl.files.disk import refuse_overwriting, saving
from proverrl.problems.load import benchmark_sha256, check_problems_name, make_row, write_problems


def write_benchmark(benchmark: Benchmark, out: Path) -> list[Path]:
    """Write all that loaded and all that was refused; existing files are replaced. The files that
    are there then, the problems first. Raises
    ``UsageError`` if ``out`` is not called ``.jsonl``, or is the source itself."""
    check_problems_name(out)
    refuse_overwriting(out, benchmark.place)
    refused = out.with_suffix(".refused.jsonl")
    source = out.with_suffix(".source.json")
    write_problems(out, _iter_rows(benchmark))
    if benchmark.refused:
        write_problems(refused, (asdict(entry) for entry in benchmark.refused))
    else:
        refused.unlink(missing_ok=True)
    with saving(source):
        source.write_text(json.dumps(_describe(benchmark, out), indent=2) + "\n", "utf-8")
    return [out, *([refused] if benchmark.refused else []), source]


def _iter_rows(benchmark: Benchmark) -> Iterator[dict[str, Any]]:
    for entry in benchmark.entries:
        row = make_row(entry.problem)
        row["metadata"]["licence"] = benchmark.find_licence(entry.problem)
        if entry.reference is not None:
            row["reference"] = entry.reference
        yield row


def _describe(benchmark: Benchmark, out: Path) -> dict[str, Any]:
    return {
        "source": benchmark.place,
        "source_sha256": benchmark.sha256,
        "layout": benchmark.format,
        "selection": benchmark.selection,
        "licence": benchmark.licence,
        "problems": len(benchmark.entries),
        "problems_sha256": benchmark_sha256(out),
        "with_reference": len(benchmark.references),
        "splits": dict(sorted(Counter(p.split for p in benchmark.problems).items())),
        "refused": len(benchmark.refused),
        "reasons": dict(Counter(entry.reason for entry in benchmark.refused).most_common(20)),
    }
