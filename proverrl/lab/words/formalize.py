"""Statements for a file of words: sampled and judged as an evaluation, then compared and chosen.

Flows in: a configuration, a file of problems that ask for statements. Flows out: the files of an
evaluation, and beside them ``evals/NAME.statements.jsonl`` with a line for each distinct statement,
what was found out about it, and why it was dropped. Interrupted, the same call continues: attempts
are stored, and further verdicts are in the cache. Not handled here: how a statement is judged
(``proverrl.lab.words.judging``), proofs (``proverrl.lab.words.prove``).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from proverrl.benchmarks.open import Benchmark
from proverrl.concurrency import finish_all
from proverrl.config import Config
from proverrl.errors import UsageError
from proverrl.evaluation.attempts import AttemptFile
from proverrl.evaluation.evaluate import Evaluation
from proverrl.files.lines import write_atomically
from proverrl.jobs.evaluate import evaluate_benchmarks
from proverrl.lab.critics.gate import Critic
from proverrl.lab.critics.likelihood import open_critic
from proverrl.lab.words.judging import (
    JudgedStatement,
    choose_statement,
    explain_dropped,
    judge_statements,
)
from proverrl.lab.words.kinds import knows_meaning
from proverrl.lab.words.parts import Formalizing, find_formalizing, get_formalizing
from proverrl.problems.load import make_row, write_problems
from proverrl.types import Problem
from proverrl.verifier.cache import CachedVerifier

ORIGIN = "formalized"
"""The origin of problems whose statement a policy wrote."""


@dataclass(frozen=True, slots=True)
class FormalizeOptions:
    """A statement is kept that at least the share ``least`` of the samples agrees with. With
    ``by_meaning``, where the meaning is known, one that is proved to have it is kept instead.
    ``critics`` are folders of weights; what one of them does not call right is dropped."""

    name: str
    least: float
    by_meaning: bool
    critics: Sequence[Path] = ()


@dataclass(frozen=True, slots=True)
class Formalized:
    """The result for a problem: all distinct statements of its ``num_samples``, the one that is
    kept, and for each other body the reason why not. ``lost`` are samples that hold no statement,
    by reason; ``meant`` is the reference, where there is one."""

    problem: Problem
    num_samples: int
    judged: Sequence[JudgedStatement]
    kept: JudgedStatement | None
    dropped: Mapping[str, str]
    lost: Mapping[str, int]
    meant: str = ""

    @property
    def knows_meaning(self) -> bool:
        """True if the problem says what is meant."""
        return knows_meaning(self.problem)


async def formalize(
    config: Config, source: str, *, from_run: Path | None, options: FormalizeOptions
) -> list[Formalized]:
    """Sample, judge, choose and store. Raises ``UsageError``: a problem of ``source`` asks for no
    statement, or a critic cannot be loaded; and as ``evaluate_benchmarks`` does, as all else."""
    asked: dict[str, Problem] = {}
    meant: dict[str, str] = {}
    found: list[Formalized] = []

    def prepare(benchmark: Benchmark) -> Benchmark:
        asked.update((problem.id, problem) for problem in benchmark.problems)
        meant.update(benchmark.references)
        entries = tuple(
            replace(entry, problem=_make_judgeable(entry.problem, source))
            for entry in benchmark.entries
        )
        return replace(benchmark, entries=entries)

    critics = [open_critic(config, str(path)) for path in options.critics]

    async def judge(
        evaluation: Evaluation, verifier: CachedVerifier, show: Callable[[str, str], None]
    ) -> None:
        written = _read_bodies(evaluation)
        num, num_judged = len(evaluation.problems), 0

        async def judge_one(problem: Problem) -> Formalized:
            nonlocal num_judged
            judged = await _judge_one(
                problem, written[problem.id], verifier, evaluation, options, critics
            )
            num_judged += 1
            show("statements", f"{num_judged}/{num} problems judged")
            return replace(judged, meant=meant.get(problem.id, ""))

        show("statements", f"0/{num} problems judged")
        found.extend(await finish_all(judge_one(asked[p.id]) for p in evaluation.problems))
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in list_rows(found))
        write_atomically(evaluation.folder / f"{options.name}.statements.jsonl", "".join(lines))

    await evaluate_benchmarks(
        config,
        from_run=from_run,
        benchmarks={options.name: source},
        prepare=prepare,
        afterwards=judge,
    )
    return found


def list_rows(found: Sequence[Formalized]) -> Iterator[dict[str, Any]]:
    """A line for each distinct statement, and for each reason why a sample holds none."""
    for one in found:
        about = {
            "problem_id": one.problem.id,
            "informal": one.problem.informal,
            "num_samples": one.num_samples,
            "meant": one.meant,
        }
        for judged in one.judged:
            dropped = one.dropped.get(judged.body, "")
            yield {**about, **asdict(judged), "dropped": dropped}
        for reason, count in one.lost.items():
            yield {**about, "body": "", "count": count, "dropped": f"no statement: {reason}"}


def write_kept(path: Path, found: Sequence[Formalized]) -> int:
    """Write what is kept as problems: to be proved where the statement is about a program or stands
    by itself, else words with the statement that is now taken for what is meant, and which is its
    reference. Returns their number."""
    rows = []
    for one in found:
        if one.kept is None:
            continue
        proof = make_proof(one.problem, one.kept.body)
        if proof is not None:
            row = make_row(proof)
        else:
            stated = get_formalizing(one.problem).state(one.problem, one.kept.body)
            row = make_row(replace(stated, origin=ORIGIN)) | {"reference": one.kept.body}
        row["metadata"] |= {"formalized": describe_kept(one.kept, one.num_samples)}
        rows.append(row)
    return write_problems(path, rows)


def make_proof(problem: Problem, body: str) -> Problem | None:
    """The problem of proving what a statement says; None where there is no program."""
    proof = get_formalizing(problem).ask_proof(problem, body)
    return None if proof is None else replace(proof, origin=ORIGIN)


def describe_kept(kept: JudgedStatement, num_samples: int) -> dict[str, Any]:
    """The scores of a statement; what is not known is left out."""
    known = {"means": kept.means, "critic": kept.critic or None}
    return {
        "agreement": round(kept.agreeing / num_samples, 4),
        **{name: value for name, value in known.items() if value is not None},
    }


def require_words(problem: Problem, source: str) -> Formalizing:
    """The language's part for statements from words. Raises ``UsageError`` for a problem
    that asks for none, or has no words."""
    formalizing = find_formalizing(problem.language)
    if formalizing is None or problem.kind != formalizing.kind:
        raise UsageError(
            f"{source}: problem {problem.id!r} asks for no statement; give rows as `words "
            "generate` makes them (docs/lab/formalizing.md has those of your own)"
        )
    if not problem.informal.strip():
        raise UsageError(f"{source}: problem {problem.id!r} has no words; fill 'informal'")
    return formalizing


def _make_judgeable(problem: Problem, source: str) -> Problem:
    """The problem itself; where nobody says what is meant one that no body proves."""
    formalizing = require_words(problem, source)
    if knows_meaning(problem):
        return problem
    return formalizing.state(problem, None)


def _read_bodies(evaluation: Evaluation) -> dict[str, list[tuple[str, str]]]:
    """For each problem the bodies of its attempts in their order, each with the reason why there is
    none."""
    written: dict[str, list[tuple[str, str]]] = {p.id: [] for p in evaluation.problems}
    rows = AttemptFile(evaluation.folder / f"{evaluation.name}.jsonl", lambda text: None)
    for _, row in sorted(rows, key=lambda pair: pair[1]["attempt"]):
        last = row["turns"][-1]
        reason = "" if last["candidate"] is not None else last.get("reason", "") or "no body"
        if row["problem_id"] in written and row["attempt"] < evaluation.samples:
            written[row["problem_id"]].append((row.get("body") or "", reason))
    return written


async def _judge_one(
    problem: Problem,
    written: Sequence[tuple[str, str]],
    verifier: CachedVerifier,
    evaluation: Evaluation,
    options: FormalizeOptions,
    critics: Sequence[Critic],
) -> Formalized:
    judged = await judge_statements(
        problem,
        [body for body, reason in written if not reason],
        verifier,
        deadline_seconds=evaluation.deadline_seconds,
        critics=critics,
    )
    by_meaning = options.by_meaning and knows_meaning(problem)
    num = len(written)
    kept = choose_statement(judged, num, least=options.least, by_meaning=by_meaning)
    dropped = explain_dropped(judged, kept, num, by_meaning=by_meaning)
    lost = Counter(reason for _, reason in written if reason)
    return Formalized(problem, num, judged, kept, dropped, lost)
