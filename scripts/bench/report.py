"""What a report costs on a run of any size: made-up attempts and rollouts, then the real report.

Flows in: how many attempts, problems, steps and rollouts. Flows out: seconds, CPU seconds, peak
memory and the size of the page, built in a process of its own. Not handled here: opening the page
in a browser (``tests/report_open.py``).
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from proverrl.errors import RunError
from proverrl.files.seal import SEAL, add_seal
from proverrl.types import HOLE

TARGETS = {"seconds": 60.0, "peak_mb": 2000.0, "page_mb": 20.0}
_BUILD = (
    "import sys; from pathlib import Path; from proverrl.report import write_report; "
    "write_report([Path(sys.argv[1])])"
)
_PROVED_BODY_LINES = (2, 8)
_FAILED_BODY_LINES = (1, 14)
_MESSAGES = (
    "This loop invariant might not hold on entry.",
    "This loop invariant might not be maintained by the loop.",
    "A postcondition might not hold on this return path.",
    "A precondition for this call might not hold.",
    "assertion violation",
    "index out of range",
    "decreases expression might not decrease",
    "cannot prove termination; try supplying a decreases clause",
    "index might be negative, not in range",
    "value does not satisfy the subset constraints of 'nat'",
)


@dataclass(frozen=True, slots=True)
class Size:
    """How large the made-up run is. ``tokens`` are those of a rollout's two turns together."""

    attempts: int = 1_000_000
    problems: int = 10_000
    steps: int = 1000
    rollouts: int = 64
    tokens: int = 200
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Cost:
    """What building the page cost. ``stored_mb`` is what the run folder holds."""

    seconds: float
    cpu_seconds: float
    peak_mb: float
    page_mb: float
    stored_mb: float


def measure_report(size: Size, folder: Path, *, say: Callable[[str], None]) -> dict[str, Any]:
    """Make the run in ``folder``, build its report there, and say what that cost. Raises RunError:
    the folder is not empty, or the report could not be built."""
    if folder.exists() and any(folder.iterdir()):
        raise RunError(f"{folder} is not empty; give another folder, or empty it")
    say(f"making {size.attempts:,} attempts and {size.steps:,} steps in {folder}")
    write_run(size, folder)
    say("building the report")
    return {"size": asdict(size), "cost": asdict(build_report(folder))}


def build_report(run: Path) -> Cost:
    """Build the report of ``run`` in a process of its own. Raises RunError: it failed."""
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", _BUILD, str(run)])
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RunError(f"the report of {run} failed with exit status {process.returncode}")
    page = run / "report.html"
    stored = sum(file.stat().st_size for file in run.rglob("*") if file.is_file() and file != page)
    return Cost(
        seconds=seconds,
        cpu_seconds=used.ru_utime + used.ru_stime,
        peak_mb=used.ru_maxrss / 1024,
        page_mb=page.stat().st_size / 1e6,
        stored_mb=stored / 1e6,
    )


def make_table(results: dict[str, Any]) -> Table:
    """The figures beside their targets."""
    size, cost = results["size"], results["cost"]
    table = Table(title=f"A report of {size['attempts']:,} attempts", title_justify="left")
    table.add_column("figure")
    table.add_column("measured", justify="right")
    table.add_column("target", justify="right")
    for name, value in cost.items():
        target = TARGETS.get(name)
        table.add_row(name.replace("_", " "), f"{value:,.1f}", f"< {target:g}" if target else "")
    return table


def write_run(size: Size, folder: Path) -> None:
    """A run folder of that size: an evaluation with its problems, metrics, rollouts."""
    rng = random.Random(size.seed)
    (folder / "evals").mkdir(parents=True, exist_ok=True)
    (folder / "rollouts").mkdir(exist_ok=True)
    config = {"loop": "grpo", "grpo": {"steps": size.steps}, "problems": {}}
    _write_json(folder / "resolved.json", {"config": config})
    problems = [_make_problem(number, rng) for number in range(size.problems)]
    _write_lines(folder / "heldout.jsonl", problems)
    settings = add_seal({})
    _write_json(folder / "evals" / "after.settings", settings)
    attempts = (add_seal(row, settings[SEAL]) for row in _make_attempts(size, rng))
    _write_lines(folder / "evals" / "after.jsonl", attempts)
    _write_json(folder / "evals" / "after.json", add_seal(_make_summary(size)))
    _write_lines(folder / "metrics.jsonl", _make_metrics(size, rng))
    for step in range(1, size.steps + 1):
        rows = _make_rollouts(size, step, problems, rng)
        _write_lines(folder / "rollouts" / f"step_{step}.jsonl", rows)


def _words(rng: random.Random, lines: int) -> str:
    """Lines that look like a proof and repeat little, so that they compress like real ones."""
    names = rng.choices("abcdefghijklmnopqrstuvwxyz", k=4 * lines)
    figures = rng.choices(range(1000), k=lines)
    return "\n".join(
        f"    invariant {names[4 * i]}{figures[i]} <= {names[4 * i + 1]} + {names[4 * i + 2]}"
        f" ==> {names[4 * i + 3]}.Length > {figures[i] % 97}"
        for i in range(lines)
    )


def _make_problem(number: int, rng: random.Random) -> dict[str, Any]:
    statement = (
        f"method M{number}(a: array<int>) returns (r: int)\n{_words(rng, 4)}\n{{\n  {HOLE}\n}}"
    )
    level = number % 5 + 1
    return {
        "id": f"heldout-l{level}-{number:06d}",
        "level": level,
        "family": f"l{level}_f{number % 12}",
        "preamble": _words(rng, 3) + "\n",
        "statement": statement,
    }


def _make_attempts(size: Size, rng: random.Random) -> Iterator[dict[str, Any]]:
    each = -(-size.attempts // size.problems)
    for count in range(size.attempts):
        number = count // each
        if count % each == 0:
            rate = rng.random() ** 2
        level = number % 5 + 1
        draw = rng.random()
        proved, lost = draw < rate, draw > 0.995
        body = _words(rng, rng.randint(*(_PROVED_BODY_LINES if proved else _FAILED_BODY_LINES)))
        yield {
            "problem_id": f"heldout-l{level}-{number:06d}",
            "level": level,
            "family": f"l{level}_f{number % 12}",
            "attempt": count % each,
            "body": body,
            "completion_text": body,
            "finish_reason": "stop",
            "turns": [
                {
                    "candidate": f"{rng.getrandbits(128):032x}",
                    "num_tokens": rng.randint(20, 200),
                    "finish_reason": "stop",
                }
            ],
            "status": "proved" if proved else "timeout" if lost else "rejected",
            "diagnostics": [] if proved else _make_messages(rng),
            "seconds": 0.21,
        }


def _make_messages(rng: random.Random) -> list[dict[str, Any]]:
    return [
        {
            "severity": "error",
            "message": rng.choice(_MESSAGES),
            "line": rng.randint(1, 14),
            "column": rng.randint(0, 40),
            "body_line": rng.randint(1, 8),
        }
        for _ in range(rng.randint(1, 3))
    ]


def _make_summary(size: Size) -> dict[str, Any]:
    figure = {"value": 0.3, "low": 0.29, "high": 0.31, "num_problems": size.problems}
    level = {
        "level": "all",
        "num_problems": size.problems,
        "attempts": size.attempts,
        "unjudged": 0,
        "pass": {"1": figure},
    }
    return {
        "name": "after",
        "split": "heldout",
        "benchmark": "heldout.jsonl",
        "samples_per_problem": -(-size.attempts // size.problems),
        "temperature": 1.0,
        "verifier_calls": size.attempts,
        "levels": [level],
    }


def _make_metrics(size: Size, rng: random.Random) -> Iterator[dict[str, Any]]:
    names = ("loss", "entropy", "approx_kl", "ratio_clipped", "grad_norm", "solve_rate")
    for step in range(1, size.steps + 1):
        yield {
            "kind": "step",
            "step": step,
            "seconds": 9.0 * step,
            "verifier_calls_total": 100 * step,
            "rollouts": size.rollouts,
            "groups": size.rollouts // 8,
            "groups_mixed": size.rollouts // 16,
            "groups_solved": size.rollouts // 32,
            "groups_failed": size.rollouts // 32,
            "unjudged": {"timeout": 0, "crashed": 0},
            "verified_per_second": rng.gauss(14.0, 1.5),
            "tokens_per_second": rng.gauss(1900.0, 120.0),
            "completion_tokens_mean": rng.gauss(38.0, 3.0),
            "levels": {"1": {"attempts": 32, "solved": rng.randint(0, 32)}},
            **{name: rng.random() for name in names},
        }


def _make_rollouts(
    size: Size, step: int, problems: list[dict[str, Any]], rng: random.Random
) -> Iterator[dict[str, Any]]:
    for number in range(size.rollouts):
        problem = problems[(step * size.rollouts + number) // 8 % len(problems)]
        proved = rng.random() < 0.4
        prompt = random.Random(problem["id"]).choices(range(2000), k=size.tokens // 2)
        yield {
            "step": step,
            "rollout_id": f"{step}-{problem['id']}-{number % 8}",
            "problem": problem,
            "completion": {"text": "", "num_tokens": size.tokens // 2, "finish_reason": "stop"},
            "body": _words(rng, 4),
            "status": "proved" if proved else "rejected",
            "diagnostics": [] if proved else _make_messages(rng),
            "seconds": 0.18,
            "reward": float(proved),
            "advantage": 0.6 if proved else -0.4,
            "turns": [
                _make_turn(size.tokens // 2, prompt, "rejected", rng),
                _make_turn(size.tokens // 2, prompt[:20], "proved" if proved else "rejected", rng),
            ],
        }


def _make_turn(tokens: int, context: list[int], status: str, rng: random.Random) -> dict[str, Any]:
    return {
        "context_ids": context,
        "restarts": False,
        "token_ids": rng.choices(range(2000), k=tokens),
        "logprobs": [round(-rng.expovariate(3.0), 5) for _ in range(tokens)],
        "advantages": 0.6 if status == "proved" else -0.4,
        "text": "",
        "finish_reason": "stop",
        "policy_version": 1,
        "status": status,
        "reason": "",
        "diagnostics": [] if status == "proved" else [rng.choice(_MESSAGES)],
        "feedback": "",
    }


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), "utf-8")


def _write_lines(path: Path, rows: Any) -> None:
    with path.open("w", encoding="utf-8") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in rows)
