"""An evaluation as it lies on disk.

Flows in: ``evals/NAME.json`` and, where they were kept, the attempts beside it. Flows out: one
record for `proverrl compare` and the report. Attempts are read when they are first asked for, since
their files are long. Not handled here: what is compared (``proverrl.evaluation.compare``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from proverrl.errors import RunError
from proverrl.evaluation.attempts import AGAIN, NO_TURNS
from proverrl.evaluation.tally import AttemptTally, ProblemTally, tally_attempts


@dataclass(frozen=True)
class StoredEvaluation:
    """One evaluation: the place of its summary, and the summary."""

    path: Path
    summary: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.path.stem

    @cached_property
    def attempts(self) -> AttemptTally:
        """Every attempt that it rests on, counted; none where they were not kept."""
        lines = self.path.with_suffix(".jsonl")
        return tally_attempts(lines) if lines.exists() else AttemptTally()

    def require_attempts(self, *, damaged: bool = False) -> AttemptTally:
        """The attempts, for figures to rest on; ``damaged`` admits lines that were passed over,
        doubled or cut.

        Raises:
            RunError: there are none, their file is damaged, or an earlier version wrote it.
        """
        lines = self.path.with_suffix(".jsonl")
        if not lines.is_file():
            raise RunError(f"{lines}: no such file; give evals/NAME.json of a run")
        tally = self.attempts
        if tally.damage and not damaged:
            raise RunError(f"{tally.damage[0]}; {AGAIN}")
        if not tally.total:
            raise RunError(f"{lines} holds no attempt; {AGAIN}")
        if any(item.turns is None for problem in tally.problems.values() for item in problem.made):
            raise RunError(f"{lines} {NO_TURNS}")
        return tally

    @property
    def problems(self) -> Mapping[str, ProblemTally]:
        return self.attempts.problems

    @property
    def benchmark(self) -> tuple[str, str]:
        """What it was measured on; figures on unlike benchmarks are never set side by side."""
        summary = self.summary
        return (str(summary.get("benchmark_sha256", "")), str(summary.get("benchmark", "")))

    def level(self, level: str) -> dict[str, Any] | None:
        """The figures of one level ("all", "1", ...), or None when it was not evaluated."""
        for row in self.summary.get("levels", ()):
            if str(row.get("level")) == level:
                return dict(row)
        return None

    @property
    def ks(self) -> list[int]:
        """The k that its summary has estimates for."""
        return sorted(int(k) for k in self.summary["levels"][0].get("pass", {}))
