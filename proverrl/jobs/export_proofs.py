"""The proofs of a run as lines that ``proverrl verify`` and another run take back.

Flows in: a run folder. Flows out: one JSON object per proof, ``id``, ``problem`` and ``body``.
Not handled here: judging them again, which whoever reads the file does.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from proverrl.benchmarks.open import open_benchmark
from proverrl.compose.archive import ARCHIVE_FILE, ProblemArchive
from proverrl.config import Config
from proverrl.errors import RunError
from proverrl.files.disk import refuse_inside, refuse_overwriting
from proverrl.files.lines import write_lines_atomically
from proverrl.lang import add_languages
from proverrl.rollout.proofs import ProofStore, describe_conditions
from proverrl.run.checkpoint import latest_checkpoint, read_state, restoring


def export_proofs(run: Path, config: Config, out: Path) -> tuple[int, int]:
    """Write the proofs that the newest checkpoint holds; returns how many proofs and problems.
    Raises ``RunError``: there is no checkpoint yet, or a problem of the training file is not the
    one that was proved. Raises ``UsageError``: ``out`` is a file that is read, or may be one
    of the run's."""
    refuse_inside(out, run, but="proofs")
    refuse_overwriting(out, config.problems.train, config.problems.valid, config.problems.heldout)
    checkpoint = latest_checkpoint(run / "checkpoints")
    if checkpoint is None:
        raise RunError(f"{run} has no checkpoint yet, and so no proofs to write")
    add_languages(config.languages)
    by_id = {problem.id: problem for problem in open_benchmark(str(config.problems.train)).problems}
    if (run / ARCHIVE_FILE).exists():
        # A run that composes problems proves them too.
        composed = ProblemArchive.read(run / ARCHIVE_FILE)
        by_id = {one.problem.id: one.problem for one in composed} | by_id
    store = ProofStore(0, lambda problem: describe_conditions(problem, ""))
    state = read_state(checkpoint)
    with restoring(checkpoint):
        store.load_state_dict(state["proofs"])
    rows: list[dict[str, Any]] = []
    for name, proof in store.entries():
        problem = by_id.get(name)
        if problem is None or store.conditions(problem).problem != proof.conditions.problem:
            raise RunError(
                f"{config.problems.train}: problem {name!r} is not the one that this run proved; "
                "bring the file back, or resume the run so that its proofs are verified anew"
            )
        number = sum(row["problem"]["id"] == name for row in rows[-len(store.proofs[name]) :])
        entry = {"id": f"{name}#{number + 1}", "problem": asdict(problem), "body": proof.body}
        rows.append(entry)
    write_lines_atomically(out, rows)
    return len(rows), len(store.proofs)
