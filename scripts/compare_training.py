"""Trains by several methods from one warm start, at equal verifier calls, and compares them.

Usage: python scripts/compare_training.py CONFIG METHODS.toml OUT [KEY=VALUE ...]

A line of METHODS.toml is a method, NAME = ["KEY=VALUE", ...]; the others are compared with the
first. A method with keys of [warm_start] gets a warm start of its own, and {out} and {seed} stand
for OUT and the seed, so that one may read what another left in {out}/NAME-{seed}. KEY=VALUE on the
command line is ``seeds=2``, ``calls=800`` (of the verifier, in the loop) or a key of the
configuration for all methods. The same command goes on where the last one ended.

Each policy is evaluated by whole proofs on the configured problems. The table has pass@1 of each
seed, and the difference from the first method in points: paired by problem, of each problem's mean
over seeds, with its 95 % interval over problems. Calls, tokens and minutes are those of the loop,
and not of what another method left for it. Each training of a pretrained model keeps two copies of
it in OUT.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).parents[1]))

from proverrl.errors import UsageError
from proverrl.evaluation.compare import read_evaluation
from proverrl.monitor.metrics import read_metrics
from proverrl.statistics import compare_values
from scripts.arguments import read_words, telling_errors

EVALUATION = "compared"
Rates = dict[str, float]


def read_methods(path: Path) -> dict[str, list[str]]:
    """The methods by name, in the file's order. Raises ``UsageError``: it is not such a file."""
    try:
        methods = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error
    for name, words in methods.items():
        if name.startswith("start") or "/" in name:
            raise UsageError(f"{path}: {name!r} names a folder; choose one without / and start")
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise UsageError(f'{path}: {name} must be a list such as ["loop=grpo"]')
    if not methods:
        raise UsageError(f'{path} names no method; write lines such as grpo = ["loop=grpo"]')
    return methods


def prove(*words: str) -> None:
    """One ``proverrl`` command. Raises ``UsageError``: it failed."""
    if code := subprocess.run([sys.executable, "-m", "proverrl", *words], check=False).returncode:
        raise UsageError(f"proverrl {' '.join(words)} ended with {code}; the same command goes on")


def train(config: str, run: Path, words: Sequence[str]) -> None:
    """A training and the evaluation of its policy; both commands do what is not done yet, and
    refuse to mix it with what was made under other settings."""
    quiet = ("evaluation.before=false", "evaluation.after=false")
    prove("train", config, "--run", str(run), *quiet, *words)
    prove("eval", "--run", str(run), "--name", EVALUATION, "rollout.mode=whole_proof")


def list_alike(start: Path) -> list[str]:
    """The settings whose meaning hangs on ``policy.path``, as the warm start had them."""
    stored = json.loads((start / "resolved.json").read_text("utf-8"))["config"]
    keys = (("learner", "precision"), ("sampling", "max_new_tokens"))
    return [f"{section}.{key}={stored[section][key]}" for section, key in keys]


def read_rates(run: Path) -> Rates:
    """The share of proved attempts of each problem."""
    problems = read_evaluation(run / "evals" / EVALUATION).require_attempts().problems
    return {name: tally.solved / tally.judged for name, tally in problems.items() if tally.judged}


def read_costs(run: Path) -> tuple[int, float, float]:
    """Verifier calls, tokens and minutes of a run's loop."""
    rows = [row for row in read_metrics(run) if "rollouts" in row]
    calls = max((row["verifier_calls_total"] for row in rows), default=0)
    tokens = sum(row["completion_tokens_mean"] * row["rollouts"] for row in rows)
    return calls, tokens, max((row["seconds"] for row in rows), default=0.0) / 60


def make_row(name: str, runs: Sequence[Path], first: Sequence[Path]) -> str:
    """A method's line of the table; ``first`` are the runs that it is compared with. All figures
    are of the problems that every one of these runs judged."""
    ours, base = ([read_rates(run) for run in each] for each in (runs, first))
    common = sorted(set.intersection(*map(set, [*ours, *base])))
    each = " / ".join(f"{100 * fmean([rates[p] for p in common]):.1f}" for rates in ours)
    gap = "-"
    if runs != first:
        means = [[fmean([rates[p] for rates in side]) for p in common] for side in (base, ours)]
        found = compare_values(*means)
        gap = f"{100 * found.value:+.1f} ({100 * found.low:+.1f} to {100 * found.high:+.1f})"
    calls, tokens, minutes = map(fmean, zip(*map(read_costs, runs), strict=True))
    return f"| {name} | {each} | {gap} | {calls:.0f} | {tokens:.0f} | {minutes:.1f} |"


def make_table(runs: Mapping[str, Sequence[Path]]) -> Iterator[str]:
    """A line a method; the first is what the others are compared with."""
    first = next(iter(runs.values()))
    yield "\n| method | pass@1 by seed | difference | calls | tokens | minutes |"
    yield "|---|---|---|---|---|---|"
    for name, trained in runs.items():
        yield make_row(name, trained, first)


def main(config: str, methods_file: Path, out: Path, words: Sequence[str]) -> None:
    """Train, evaluate, print."""
    given, [seeds, calls] = read_words(words, seeds=2, calls=800)
    shared = [f"{key}={value}" for key, value in given.items()]
    methods = read_methods(methods_file)
    trained: dict[str, list[Path]] = {}
    starts: dict[str, list[Path]] = {}
    for seed in range(seeds):
        for name, own in methods.items():
            taught = [word for word in own if word.startswith("warm_start.")]
            start_name = f"warm start of {name}" if taught else "warm start"
            start = out / f"start{'-' + name if taught else ''}-{seed}"
            both = [*shared, f"seed={seed}"]
            train(config, start, [*both, *taught, "loop=warm_start"])
            run = out / f"{name}-{seed}"
            policy = json.dumps(str((start / "policy").resolve()))
            loop = ["warm_start.steps=0", f"policy.path={policy}", f"max_verifier_calls={calls}"]
            named = [word.replace("{out}", str(out)).replace("{seed}", str(seed)) for word in own]
            train(config, run, [*list_alike(start), *both, *named, *loop, "max_minutes=0"])
            trained.setdefault(name, []).append(run)
            if start not in starts.setdefault(start_name, []):
                starts[start_name].append(start)
    print("\n".join(make_table({**trained, **starts})))


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    with telling_errors():
        main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
