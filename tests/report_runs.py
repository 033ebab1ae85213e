"""Makes run folders out of seeded random numbers, to test the report with. Not results.

The folders have the layout that training writes; their figures mean nothing.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from proverrl.files.seal import SEAL, add_seal

LEVELS = (1, 2, 3, 4)
HOLE = "/*{HOLE}*/"
PREAMBLE = """function Sum(s: seq<int>): int
{
  if |s| == 0 then 0 else s[0] + Sum(s[1..])
}

"""
STATEMENT = """method Total(s: seq<int>) returns (total: int)
  ensures total == Sum(s)
{
  total := 0;
  var i := |s|;
  while i > 0
    /*{HOLE}*/
  {
    i := i - 1;
    total := total + s[i];
  }
}
"""
PROOF = "invariant 0 <= i <= |s|\n    invariant total == Sum(s[i..])"
WRONG = "invariant 0 <= i < |s|\n    invariant total == Sum(s[..i])"
BODY_LINE = (PREAMBLE + STATEMENT.partition(HOLE)[0]).count("\n") + 1
FAILURES = [
    {
        "severity": "error",
        "message": "This loop invariant might not hold on entry.",
        "line": BODY_LINE,
        "column": 14,
        "body_line": 1,
    },
    {
        "severity": "error",
        "message": "This loop invariant might not be maintained by the loop.",
        "line": BODY_LINE + 1,
        "column": 20,
        "body_line": 2,
    },
]


def write_json(path: Path, value: Any) -> None:
    """One JSON file, with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    """One JSON lines file, with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_attempts(path: Path, rows: list[dict[str, Any]]) -> None:
    """The attempts of an evaluation, sealed, with settings; rows that name no turns have none."""
    settings = add_seal({})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".settings").write_text(json.dumps(settings), encoding="utf-8")
    write_lines(path, [add_seal({"turns": [], **row}, settings[SEAL]) for row in rows])


def write_summary(path: Path, summary: dict[str, Any]) -> None:
    """The table of an evaluation, sealed."""
    write_json(path, add_seal(summary))


def make_resolved(loop: str, steps: int) -> dict[str, Any]:
    """A resolved.json."""
    return {
        "config": {
            "loop": loop,
            "seed": 7,
            "max_verifier_calls": 40_000,
            "grpo": {"steps": steps, "group_size": 8},
            "expert_iteration": {"rounds": steps},
            "problems": {"heldout": "heldout.jsonl"},
        },
        "command": f"proverrl train configs/{loop}.toml",
        "commit": "unknown (not a git checkout)",
        "versions": {"torch": "2.13.0", "transformers": "5.19.0"},
        "toolchain": "dafny 2.3.0, z3 4.8.5",
        "device": "cpu",
        "engine": "transformers",
    }


def make_metrics(
    loop: str, steps: int, rng: random.Random, *, start: float = 0.12, end: float = 0.62
) -> list[dict[str, Any]]:
    """Warm start, then steps (or rounds) whose solve rate rises with noise."""
    rows: list[dict[str, Any]] = [
        {"kind": "sft", "step": step, "seconds": step * 0.3, "loss": 3.2 / (1 + step / 40) + 0.8}
        for step in range(0, 400, 10)
    ]
    seconds, calls = 130.0, 0
    for step in range(1, steps + 1):
        target = start + (end - start) * (1 - 2.7 ** (-3 * step / steps))
        rate = min(1.0, max(0.0, rng.gauss(target, 0.06)))
        groups = 16
        solved = round(groups * rate * 0.4)
        failed = round(groups * (1 - rate) * 0.5)
        lost = {"timeout": int(rng.random() < 0.2), "crashed": int(rng.random() < 0.03)}
        calls += 110 + rng.randrange(18) if loop == "grpo" else 1400 + rng.randrange(200)
        seconds += rng.gauss(9.0, 0.8) if loop == "grpo" else 160.0
        row = {
            "kind": "step" if loop == "grpo" else "round",
            "step": step,
            "seconds": round(seconds, 2),
            "solve_rate": rate,
            "groups": groups,
            "groups_mixed": groups - solved - failed,
            "groups_solved": solved,
            "groups_failed": failed,
            "rollouts": 128,
            "unjudged": lost,
            "verifier_calls": 118,
            "verifier_calls_total": calls,
            "verified_per_second": rng.gauss(14.0, 1.5),
            "tokens_per_second": rng.gauss(1900.0, 120.0),
            "completion_tokens_mean": rng.gauss(38.0, 3.0),
            "loss": rng.gauss(0.02, 0.02),
            "levels": {
                str(level): {
                    "attempts": 32,
                    "solved": round(32 * max(0.0, rate * (1.5 - level / 4))),
                }
                for level in LEVELS
            },
        }
        if loop == "grpo":
            row |= {
                "grad_norm": abs(rng.gauss(0.6, 0.15)),
                "entropy": 0.9 * 2.7 ** (-step / steps) + rng.gauss(0, 0.03),
                "approx_kl": abs(rng.gauss(0.004, 0.002)),
                "ratio_clipped": abs(rng.gauss(0.02, 0.008)),
            }
        rows.append(row)
    return rows


def make_eval(
    name: str,
    values: dict[str, tuple[float, float]],
    unjudged: int = 0,
    *,
    problems: int = 24,
    samples: int = 8,
) -> dict[str, Any]:
    """An evals/NAME.json with these pass@1 and pass@8, each with an interval of ±0.06; a level has
    a fourth of the problems."""

    def figure(value: float) -> dict[str, float]:
        return {
            "value": value,
            "low": max(0.0, value - 0.062),
            "high": min(1.0, value + 0.058),
        }

    return {
        "name": name,
        "split": "heldout",
        "benchmark": "heldout.jsonl",
        "benchmark_sha256": "a" * 64,
        "samples_per_problem": samples,
        "temperature": 1.0,
        "toolchain": "dafny 2.3.0",
        "policy": name,
        "verifier_calls": 1400,
        "seconds": 120.5,
        "levels": [
            {
                "level": level,
                "num_problems": problems if level == "all" else problems // 4,
                "attempts": samples * (problems if level == "all" else problems // 4),
                "unjudged": unjudged if level == "all" else 0,
                "pass": {"1": figure(one), "8": figure(eight)},
            }
            for level, (one, eight) in values.items()
        ],
    }


def make_attempts(rng: random.Random, rate: float) -> list[dict[str, Any]]:
    """An evals/NAME.jsonl over six problems of each level, eight attempts each."""
    rows = []
    for level in LEVELS:
        for number in range(6):
            for attempt in range(8):
                draw = rng.random()
                proved = draw < rate * (1.4 - level / 4)
                lost = not proved and draw > 0.97
                status = "proved" if proved else "timeout" if lost else "rejected"
                rows.append(
                    {
                        "problem_id": f"heldout-l{level}-{number:03d}",
                        "level": level,
                        "family": f"l{level}_sum",
                        "attempt": attempt,
                        "body": PROOF if proved else WRONG,
                        "completion_text": PROOF if proved else WRONG,
                        "status": status,
                        "diagnostics": []
                        if proved
                        else [{"severity": "error", "message": "no answer in 20 s", "line": 0}]
                        if lost
                        else FAILURES,
                        "seconds": 0.21,
                        "finish_reason": "stop",
                    }
                )
    return rows


def make_rollouts(step: int, rng: random.Random, count: int = 128) -> list[dict[str, Any]]:
    """A rollouts/step_N.jsonl."""
    rows = []
    for number in range(count):
        level = LEVELS[number // 8 % 4]
        proved = rng.random() < 0.5
        rows.append(
            {
                "step": step,
                "rollout_id": f"{step}-{number}",
                "problem": {
                    "id": f"train-l{level}-{number // 8:03d}",
                    "level": level,
                    "family": f"l{level}_sum",
                    "preamble": PREAMBLE,
                    "statement": STATEMENT,
                },
                "completion": {
                    "text": PROOF if proved else WRONG,
                    "num_tokens": 31,
                    "finish_reason": "stop",
                    "policy_version": step,
                },
                "body": PROOF if proved else WRONG,
                "status": "proved" if proved else "rejected",
                "diagnostics": [] if proved else FAILURES,
                "seconds": 0.18,
                "reward": float(proved),
                "advantage": 0.5 if proved else -0.5,
                "turns": [
                    {
                        "context_ids": [1, 2, 3],
                        "restarts": False,
                        "token_ids": list(range(31)),
                        "logprobs": [-0.5] * 31,
                        "advantages": 0.5 if proved else -0.5,
                        "text": PROOF if proved else WRONG,
                        "finish_reason": "stop",
                        "policy_version": step,
                        "status": "proved" if proved else "rejected",
                        "reason": "",
                        "diagnostics": [],
                        "feedback": "",
                    }
                ],
            }
        )
    return rows


def make_turns_rollout(rollout_id: str, *, in_group: bool = True) -> dict[str, Any]:
    """A rollout of two turns with its tokens, as rollouts/step_N.jsonl holds it."""
    turns: list[dict[str, Any]] = [
        {
            "context_ids": [1, 2, 3],
            "token_ids": [5, 6, 7],
            "logprobs": [-0.5, -0.25, -1.5],
            "advantages": -0.5,
            "status": "rejected",
            "diagnostics": ["bad loop"],
            "feedback": "try again",
        },
        {
            "context_ids": [9, 9],
            "token_ids": [8, 6],
            "logprobs": [-0.125, -2.0],
            "advantages": [0.75, -0.25],
            "status": "proved",
            "diagnostics": [],
            "feedback": "",
        },
    ]
    shared = {"restarts": False, "text": PROOF, "reason": "", "policy_version": 3}
    return {
        "step": 1,
        "rollout_id": rollout_id,
        "problem": {"id": "p", "level": 1, "preamble": PREAMBLE, "statement": STATEMENT},
        "completion": {"text": PROOF, "num_tokens": 2, "finish_reason": "stop"},
        "body": PROOF,
        "status": "proved",
        "diagnostics": [],
        "seconds": 0.25,
        "reward": 1.0 if in_group else None,
        "advantage": 0.25 if in_group else None,
        "turns": [
            turn | shared | {"finish_reason": "stop"} | ({} if in_group else {"advantages": None})
            for turn in turns
        ],
    }


BEFORE = {
    "all": (0.312, 0.55),
    "1": (0.61, 0.9),
    "2": (0.4, 0.7),
    "3": (0.19, 0.42),
    "4": (0.048, 0.18),
}
AFTER = {
    "all": (0.465, 0.6825),
    "1": (0.86, 0.98),
    "2": (0.58, 0.8),
    "3": (0.31, 0.6),
    "4": (0.11, 0.35),
}


def make_run(
    path: Path,
    *,
    loop: str = "grpo",
    steps: int = 60,
    rollout_steps: int = 6,
    after: dict[str, tuple[float, float]] | None = None,
    seed: int = 0,
) -> Path:
    """A whole finished run folder."""
    rng = random.Random(seed)
    write_json(path / "resolved.json", make_resolved(loop, steps))
    write_lines(path / "metrics.jsonl", make_metrics(loop, steps, rng))
    write_summary(path / "evals" / "before.json", make_eval("before", BEFORE, unjudged=3))
    write_summary(path / "evals" / "after.json", make_eval("after", after or AFTER, unjudged=5))
    write_attempts(path / "evals" / "before.jsonl", make_attempts(rng, 0.3))
    write_attempts(path / "evals" / "after.jsonl", make_attempts(rng, 0.6))
    write_lines(
        path / "heldout.jsonl",
        [
            {
                "id": f"heldout-l{level}-{number:03d}",
                "preamble": PREAMBLE,
                "statement": STATEMENT,
            }
            for level in LEVELS
            for number in range(6)
        ],
    )
    for step in range(steps - rollout_steps + 1, steps + 1):
        write_lines(path / "rollouts" / f"step_{step}.jsonl", make_rollouts(step, rng))
    return path
