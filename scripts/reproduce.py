"""Runs the command behind a figure of the log in results/ again and compares.

For each seed it prints the recorded figures and the new ones, and whether the new one lies in the
recorded interval, which is over problems and does not include the noise of training. Runs are kept
in runs/reproduce/NAME-SEED, and files of all seeds in runs/reproduce/data: the same command again
continues `proverrl train` and `proverrl eval`, or only prints. The exit status is 1 when a figure
lies outside its interval, and 2 or more when a command failed. Names with lean need a Lean.

Of figures with several seeds these are not here, because the policy or the texts behind them are of
an earlier version: searches on Dafny, and on Lean at 64 calls, pooled hints before 27 November,
self-play of 21 and 22 November, presets on Dafny before 26 November, and seeds 0 of programs,
formalize and claims, claims seed 1. Composers on a third of the families are not, because the log
has no intervals for them. On two cores a seed of demo takes 11 minutes and one of lean 20; --show
prints the commands, whose limits of minutes and calls say the same of the others.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from proverrl.config.load import flatten_table
from proverrl.errors import RunError
from proverrl.evaluation.attempts import read_summary

FOLDER = Path("runs/reproduce")
CONFIGS = Path(__file__).parents[1] / "configs"

Recorded = tuple[float, float, float]
"""A pass rate in percent, and its 95 % interval."""


@dataclass(frozen=True)
class Figure:
    """Lines for bash, and pass@1 of the evaluations that they write into the run, by seed; of the
    line ``level``. In the lines stand {run}, the run's folder, {seed}, {calls}, the limit of
    verifier calls where it differs by seed, and {data}, a folder for files of all seeds."""

    lines: tuple[str, ...]
    evaluations: Mapping[str, Mapping[int, Recorded]]
    level: str = "all"
    calls: Mapping[int, int] = field(default_factory=dict)

    @property
    def seeds(self) -> list[int]:
        """Those with a recorded figure."""
        return sorted({seed for found in self.evaluations.values() for seed in found})

    def list_commands(self, name: str, seed: int) -> list[str]:
        """The lines for this seed."""
        known = {
            "{run}": FOLDER / f"{name}-{seed}",
            "{data}": FOLDER / "data",
            "{seed}": seed,
            "{calls}": self.calls.get(seed),
        }
        lines = list(self.lines)
        for key, value in known.items():
            lines = [line.replace(key, str(value)) for line in lines]
        return lines


def train(config: str, settings: str = "", run: str = "{run}") -> str:
    """The line that trains, or continues."""
    return f"proverrl train {config} --run {run} --set seed={{seed}} {settings}".rstrip()


def warm_up(config: str, run: str) -> str:
    """The line that makes the weights that several trainings begin with."""
    return train(config, "--set loop=warm_start --set evaluation.before=false", run)


def write_code(
    config: str,
    settings: str,
    evaluations: Mapping[str, Mapping[int, Recorded]],
    *,
    problems: str,
    sizes: str,
) -> Figure:
    """A training on generated ``problems`` (a language, levels) that ask for code; ``sizes`` has
    the number of problems of each split."""
    files = f"{{data}}/{problems.split()[0]}_code_"
    splits = (name.partition(":")[0] for name in sizes.split())
    chosen = " ".join(f"--set problems.{split}={files}{split}.jsonl" for split in splits)
    lines = (
        f"for s in {sizes}; do f={files}${{s%:*}}.jsonl",
        f"  [ -e $f ] || proverrl problems generate {problems} --code --num ${{s#*:}} "
        "--split ${s%:*} --out $f",
        "done",
        train(config, f"{chosen} {settings}"),
    )
    return Figure(lines, evaluations)


def find_preset(name: str) -> str:
    """The file of a preset: the lab's where it needs an experiment."""
    folder = "presets" if (CONFIGS / "presets" / f"{name}.toml").is_file() else "lab"
    return f"configs/{folder}/{name}.toml"


def list_arguments(preset: str) -> list[str]:
    """What a preset sets, as arguments of ``proverrl train``."""
    table = tomllib.loads((CONFIGS.parent / find_preset(preset)).read_text("utf-8"))
    flat = flatten_table({k: v for k, v in table.items() if k not in ("extends", "run")})
    return [f"--set '{key}={json.dumps(value)}'" for key, value in flat.items()]


_DEMO_BEFORE = {0: (36.0, 30.1, 41.9), 1: (34.6, 28.8, 40.4), 2: (32.0, 25.8, 38.2)}
FIGURES = {
    "demo": Figure(
        (train("configs/demo.toml"),),
        {
            "before": _DEMO_BEFORE,
            "after": {0: (48.5, 41.6, 55.3), 1: (49.0, 42.2, 55.9), 2: (50.2, 43.2, 57.3)},
        },
    ),
    "grpo": Figure(
        (train("configs/grpo.toml"),),
        {
            "before": {0: (33.9, 28.9, 39.1), 1: (34.6, 29.6, 39.7), 2: (30.4, 25.3, 35.8)},
            "after": {0: (66.9, 60.6, 73.0), 1: (69.6, 63.5, 75.4), 2: (69.3, 63.1, 75.3)},
        },
    ),
    "expert_iteration": Figure(
        (
            train(
                "configs/expert_iteration.toml",
                "--set evaluation.max_problems=150 --set max_verifier_calls={calls}",
            ),
        ),
        {
            "before": _DEMO_BEFORE,
            "after": {0: (51.2, 44.4, 58.1), 1: (48.4, 41.6, 55.3), 2: (47.2, 40.2, 54.2)},
        },
        calls={0: 2341, 1: 2260, 2: 2445},
    ),
    "lean": Figure(
        (train("configs/lean.toml"),),
        {
            "before": {0: (21.0, 15.4, 27.7), 1: (22.9, 17.1, 29.5), 2: (18.2, 13.0, 24.4)},
            "after": {0: (38.3, 30.6, 46.3), 1: (40.1, 32.4, 48.3), 2: (40.2, 32.5, 48.3)},
        },
    ),
    "lean_expert_iteration": Figure(
        (
            train(
                "configs/lean.toml",
                "--set loop=expert_iteration --set max_minutes=0 --set max_verifier_calls=35000 "
                "--set expert_iteration.rounds=1000 --set expert_iteration.problems_per_round=256 "
                "--set expert_iteration.samples_per_problem=16 "
                "--set expert_iteration.problems_per_draw=32 "
                "--set expert_iteration.optimizer=muon --set expert_iteration.learning_rate=2e-3 "
                "--set expert_iteration.from_warm_start=false --set expert_iteration.epochs=1",
            ),
        ),
        {"after": {0: (27.7, 21.2, 35.0), 1: (32.3, 25.4, 40.0), 2: (26.4, 20.1, 33.6)}},
    ),
    "critic": Figure(
        (train("configs/lab/critic.toml"),),
        {
            "before": {0: (72.2, 66.9, 76.9), 1: (74.6, 69.5, 79.1), 2: (71.6, 66.4, 76.4)},
            "after": {0: (72.8, 67.5, 77.5), 1: (74.9, 70.0, 79.2), 2: (73.7, 68.5, 78.2)},
        },
        level="balanced",
    ),
    "critic_formaliser": Figure(
        (
            train("configs/lab/critic_formaliser.toml"),
            "proverrl words fit-critic --run {run} --benchmark dafny/critiques/valid.jsonl "
            "--out {run}/critic",
            "proverrl eval configs/lab/critic.toml --set policy.path={run}/critic --set run={run} "
            "--benchmark dafny/critiques/heldout.jsonl --name after -k 1",
        ),
        {"after": {0: (91.5, 87.7, 94.2), 1: (93.3, 89.8, 95.7), 2: (92.1, 88.5, 94.7)}},
        level="balanced",
    ),
    "code": write_code(
        "configs/lab/programs.toml",
        "--set learner.learning_rate=1e-3 --set 'warm_start.references_per_level={ 1 = 150 }' "
        "--set warm_start.steps=200 --set evaluation.samples=4 --set evaluation.ks=[1,4] "
        "--set max_minutes=0 --set max_verifier_calls=1500",
        {
            "before": {0: (49.0, 43.1, 55.1), 1: (58.0, 52.3, 63.4), 2: (48.2, 42.2, 54.5)},
            "after": {0: (71.5, 66.0, 76.0), 1: (75.5, 70.0, 80.1), 2: (65.8, 58.9, 71.8)},
        },
        problems="dafny --levels 1",
        sizes="train:400 heldout:100 valid:20",
    ),
    "lean_code": write_code(
        "configs/lean.toml",
        "--set 'warm_start.references_per_level={ 1 = 100, 2 = 100, 3 = 100 }' "
        "--set warm_start.steps=500 --set sampling.max_new_tokens=160 "
        "--set sampling.temperature=1.0 --set max_minutes=0 --set max_verifier_calls=6000",
        {
            "before": {0: (63.9, 57.8, 69.5), 1: (63.3, 57.6, 68.6), 2: (67.5, 61.7, 72.6)},
            "after": {0: (77.8, 71.4, 83.0), 1: (80.8, 74.4, 86.0), 2: (80.3, 74.0, 85.5)},
        },
        problems="lean --levels 1-3",
        sizes="train:1500 heldout:150 valid:60",
    ),
    "programs": Figure(
        (
            "[ -e {data}/programs.jsonl ] || proverrl words generate dafny --ask programs "
            "--levels 1 --num 700 --split train --out {data}/programs.jsonl",
            train(
                "configs/lab/programs.toml",
                "--set problems.train={data}/programs.jsonl --set learner.learning_rate=1e-3 "
                "--set 'warm_start.references_per_level={ 1 = 300 }' --set warm_start.steps=350 "
                "--set evaluation.samples=4 --set evaluation.ks=[1,4] --set max_minutes=0 "
                "--set max_verifier_calls=4500",
            ),
        ),
        {
            "before": {1: (32.2, 25.9, 39.0), 2: (38.3, 31.3, 45.6)},
            "after": {1: (43.3, 35.8, 51.0), 2: (45.0, 37.5, 52.7)},
        },
    ),
    "formalize": Figure(
        (
            train(
                "configs/lab/formalize.toml",
                "--set warm_start.steps=300 --set learner.replay_samples=48 "
                "--set 'warm_start.references_per_level={1=60,2=60,3=60,4=60,5=60}' "
                "--set max_minutes=0 --set max_verifier_calls={calls} --set evaluation.samples=8",
            ),
            "proverrl eval --run {run} --name wordings -k 1,8 --set evaluation.samples=8 "
            "--set evaluation.max_problems=150 --benchmark dafny/statements/heldout.jsonl",
        ),
        {
            "before": {1: (26.8, 20.5, 34.0), 2: (28.8, 22.4, 36.0)},
            "after": {1: (34.8, 27.3, 42.7), 2: (37.1, 29.5, 45.1)},
            "wordings": {1: (27.1, 20.5, 34.7), 2: (28.0, 21.3, 35.7)},
        },
        # Seed 2 was stopped, resumed with 7,000, and ended after 8,512.
        calls={1: 14000, 2: 8500},
    ),
    "formalize_longer": Figure(
        (
            train(
                "configs/lab/formalize.toml",
                "--set max_minutes=0 --set max_verifier_calls=4400 --set evaluation.samples=8 "
                "--set evaluation.ks=[1,8] --set problems.heldout=dafny/statements/heldout.jsonl",
            ),
        ),
        {
            "before": {0: (23.0, 17.2, 29.8), 1: (28.1, 21.7, 35.1), 2: (26.0, 19.9, 32.8)},
            "after": {0: (32.4, 25.4, 40.0), 1: (29.8, 23.3, 37.0), 2: (35.4, 28.4, 43.1)},
        },
    ),
    "preface": Figure(
        (
            train("configs/lab/preface_writer.toml", run="{run}/writer"),
            # Seed 0 had 14 minutes, which were 19 steps.
            train(
                "configs/lab/preface.toml",
                "--set rollout.options.writer={run}/writer/policy --set max_minutes=0 "
                "--set grpo.steps=19",
            ),
            "proverrl eval --run {run} --name after --set rollout.turns=7 -k 1",
            "proverrl eval --run {run} --name before --set rollout.turns=7 -k 1 "
            "--set policy.path={run}/warm_start/policy",
        ),
        {
            "before": {0: (38.0, 30.2, 46.3), 1: (44.0, 35.9, 52.3), 2: (47.3, 39.1, 55.6)},
            "after": {0: (45.3, 37.2, 53.7), 1: (48.0, 39.8, 56.3), 2: (45.3, 37.2, 53.7)},
        },
    ),
    "pooled_hints": Figure(
        (
            "[ -e {data}/levels.jsonl ] || proverrl problems generate dafny --levels 3-5 "
            "--split heldout --num 300 --seed 11 --out {data}/levels.jsonl",
            "python scripts/choose_poolable.py {data}/levels.jsonl {data}/several.jsonl",
            # The runs were ended by their minutes.
            train(
                "configs/demo.toml",
                "--set max_minutes=0 --set max_verifier_calls={calls} "
                "--set evaluation.before=false --set evaluation.after=false",
            ),
            *(
                f"proverrl eval --run {{run}} --benchmark {{data}}/several.jsonl --name {name} "
                f"-k 1 --mode search --set search.calls=16 --set search.whole_share=0.25 "
                f"{settings} --set evaluation.searches=5 --set evaluation.max_problems=0 "
                "--set evaluation.samples=1 --set evaluation.ks=[1]"
                for name, settings in (
                    ("best_of_n", "--set search.name=best_of_n"),
                    ("pooled_hints", "--set search.name=pooled_hints"),
                )
            ),
        ),
        {
            "best_of_n": {0: (44.1, 36.8, 51.5), 2: (38.2, 31.2, 45.6)},
            "pooled_hints": {0: (51.6, 44.2, 59.0), 2: (44.6, 37.3, 52.1)},
        },
        calls={0: 3167, 2: 2580},
    ),
    "claims": Figure(
        (train("configs/lab/decide.toml", "--set max_minutes=0 --set max_verifier_calls=2500"),),
        {"before": {2: (31.7, 25.8, 38.2)}, "after": {2: (41.3, 34.7, 48.0)}},
    ),
}

_AT_CALLS = (
    "--set max_minutes=0 --set max_verifier_calls=2240 "
    "--set evaluation.before=false --set evaluation.after=false"
)
FIGURES["corrections"] = Figure(
    (
        warm_up("configs/self_correct.toml", "{run}/start"),
        train(
            "configs/demo.toml",
            f"--set policy.path={{run}}/start/policy --set warm_start.steps=0 {_AT_CALLS}",
            "{run}/taught",
        ),
        train("configs/demo.toml", f"--set warm_start.steps=600 {_AT_CALLS}", "{run}/plain"),
        *(
            f"proverrl eval configs/demo.toml --set policy.path={{run}}/{name}/policy "
            f"--set run={{run}} --set seed={{seed}} --name {name} --set evaluation.samples=16 -k 1"
            for name in ("taught", "plain")
        ),
    ),
    {
        "taught": {1: (63.8, 56.2, 70.8), 2: (58.2, 50.4, 65.6)},
        "plain": {1: (58.0, 50.2, 65.5), 2: (58.0, 50.2, 65.6)},
    },
)

_TRL_START = warm_up("configs/demo.toml", "{run}/start")
_TRL_JUDGE = (
    "proverrl eval configs/demo.toml --set policy.path={run}/%s --set run={run} --name after "
    "--set evaluation.samples=4 -k 1,4"
)
FIGURES |= {
    "ours_beside_trl": Figure(
        (
            _TRL_START,
            train(
                "configs/demo.toml",
                "--set policy.path={run}/start/policy --set warm_start.steps=0 "
                "--set max_minutes=0 --set max_verifier_calls=1120 "
                "--set evaluation.before=false --set evaluation.after=false",
                "{run}/ours",
            ),
            _TRL_JUDGE % "ours/policy",
        ),
        {"after": {0: (42.3, 35.3, 49.4), 1: (48.3, 41.2, 55.4), 2: (44.3, 37.3, 51.7)}},
    ),
    "trl": Figure(
        (
            _TRL_START,
            "python examples/trl_grpo.py configs/demo.toml {run}/start/policy --out {run}/trl "
            "--set seed={seed} --calls 1120 --rate 3e-5",
            _TRL_JUDGE % "trl",
        ),
        {"after": {0: (34.2, 27.6, 41.3), 1: (38.2, 31.4, 45.3), 2: (36.5, 30.0, 43.5)}},
    ),
}

_FILES = "python scripts/split_families.py {data}/third.jsonl {data}/others.jsonl"
_THIRD = (
    "--set problems.train={data}/third.jsonl --set problems.heldout={data}/others.jsonl "
    "--set evaluation.max_problems=0 "
    "--set 'warm_start.references_per_level={1=12,2=12,3=12,4=12,5=12}'"
)
_THIRD_START = train(
    "configs/presets/gar.toml",
    f"{_THIRD} --set grpo.steps=1 --set evaluation.before=false --set evaluation.after=false",
    "{data}/third-start-{seed}",
)
ON_A_THIRD: Mapping[str, Mapping[int, Recorded]] = {
    "uniform": {0: (6.6, 3.5, 11.5), 1: (6.5, 3.3, 11.5)},
}
FIGURES |= {
    f"third_{name}": Figure(
        (
            _FILES,
            _THIRD_START,
            train(
                "configs/demo.toml",
                f"{_THIRD} --set curriculum.name={name} --set warm_start.steps=0 "
                "--set policy.path={data}/third-start-{seed}/warm_start/policy "
                "--set max_minutes=0 --set max_verifier_calls=1500 --set grpo.steps=2000 "
                "--set evaluation.before=false",
            ),
        ),
        {"after": recorded},
    )
    for name, recorded in ON_A_THIRD.items()
}

ON_DAFNY: Mapping[str, Mapping[int, Recorded]] = {
    "pass_at_k": {2: (42.9, 35.8, 50.3)},
    "reform": {2: (42.5, 35.3, 49.8)},
    "dapo": {0: (44.7, 37.7, 51.8), 1: (51.0, 43.8, 58.2), 2: (41.7, 34.7, 48.9)},
    "w_reinforce": {2: (41.2, 34.4, 48.4)},
    "goedel_v2": {0: (39.5, 33.0, 46.5), 1: (45.7, 38.8, 52.8), 2: (38.5, 31.5, 46.0)},
    "leanabell_v2": {2: (38.2, 31.5, 45.2)},
    "kimina": {0: (48.8, 41.7, 55.7), 1: (46.6, 39.8, 53.4), 2: (40.6, 33.6, 47.7)},
}
_START = warm_up("configs/presets/grpo.toml", "{data}/start-{seed}")
_FROM_START = "--set policy.path={data}/start-{seed}/policy --set warm_start.steps=0"
_EQUAL = "--set max_minutes=0 --set max_verifier_calls=2240 --set evaluation.before=false"
FIGURES["preset_grpo"] = Figure(
    (train("configs/presets/grpo.toml", "--set max_minutes=0 --set max_verifier_calls=2240"),),
    {
        "before": {0: (33.5, 27.5, 40.2), 1: (37.3, 30.8, 44.1), 2: (35.8, 29.5, 42.7)},
        "after": {0: (46.8, 39.6, 53.9), 1: (50.7, 43.5, 57.8), 2: (44.7, 37.6, 51.9)},
    },
)
FIGURES["preset_gar"] = Figure(
    (train("configs/presets/gar.toml", "--set max_minutes=0 --set max_verifier_calls=2240"),),
    {
        "before": {0: (15.8, 11.7, 20.9), 1: (15.0, 11.4, 19.7), 2: (16.6, 12.8, 21.6)},
        "after": {0: (34.7, 28.5, 41.3), 1: (37.0, 31.1, 43.1), 2: (35.3, 29.2, 41.6)},
    },
)
FIGURES |= {
    f"preset_{name}": Figure(
        (_START, train(find_preset(name), f"{_EQUAL} {_FROM_START}")),
        {"after": recorded},
    )
    for name, recorded in ON_DAFNY.items()
    if (CONFIGS.parent / find_preset(name)).is_file()
}

ON_LEAN: Mapping[str, Mapping[int, Recorded]] = {
    "dapo": {0: (28.6, 21.6, 36.4), 1: (31.5, 24.3, 39.3), 2: (27.3, 20.8, 34.7)},
    "deepseek_v2": {0: (28.7, 21.7, 36.4), 1: (31.2, 24.1, 39.0), 2: (22.8, 16.6, 29.9)},
    "kimina": {0: (28.6, 21.8, 36.2), 1: (30.0, 23.0, 37.8), 2: (25.2, 18.8, 32.8)},
    "grpo": {0: (28.7, 21.7, 36.3), 1: (28.4, 21.6, 35.9), 2: (21.4, 15.3, 28.5)},
    "pass_at_k": {0: (26.3, 19.7, 33.9), 1: (30.9, 23.8, 38.6), 2: (25.2, 18.8, 32.4)},
    "sdpo": {0: (28.1, 21.5, 35.5), 1: (26.8, 20.4, 34.2), 2: (21.9, 16.1, 28.6)},
    "w_reinforce": {0: (26.1, 19.7, 33.4), 1: (27.2, 20.4, 34.7), 2: (23.4, 17.3, 30.5)},
    "goedel_v2": {0: (26.8, 20.1, 34.4), 1: (26.5, 20.0, 33.9), 2: (22.8, 17.0, 29.4)},
    "reform": {0: (27.8, 21.3, 35.5), 1: (24.9, 18.4, 32.3), 2: (23.4, 17.3, 30.6)},
    "hints": {0: (23.6, 17.4, 30.6), 1: (28.7, 22.0, 36.1), 2: (21.5, 15.7, 28.2)},
    "leanabell_v2": {0: (26.3, 19.7, 33.6), 1: (25.2, 19.0, 32.3), 2: (23.9, 17.9, 30.9)},
}
_EQUAL_ON_LEAN = "--set max_minutes=0 --set max_verifier_calls=6000"
_LEAN_START = warm_up("configs/lean.toml", "{data}/lean-start-{seed}")
_FROM_LEAN_START = (
    f"{_EQUAL_ON_LEAN} --set evaluation.before=false "
    "--set policy.path={data}/lean-start-{seed}/policy --set warm_start.steps=0"
)
FIGURES["lean_default"] = Figure(
    (train("configs/lean.toml", _EQUAL_ON_LEAN),),
    {
        "before": {0: (22.5, 16.7, 29.3), 1: (21.4, 15.7, 28.0), 2: (19.2, 14.1, 25.5)},
        "after": {0: (27.6, 20.8, 35.2), 1: (28.7, 21.9, 36.7), 2: (25.0, 18.7, 32.3)},
    },
)
FIGURES |= {
    f"lean_{name}": Figure(
        (
            _LEAN_START,
            train("configs/lean.toml", " ".join([_FROM_LEAN_START, *list_arguments(name)])),
        ),
        {"after": recorded},
    )
    for name, recorded in ON_LEAN.items()
    if (CONFIGS.parent / find_preset(name)).is_file()
}
_TEXTS = "{data}/lean456.jsonl"
_THEOREMS = "{data}/lean456-heldout.jsonl"
FIGURES["lean_best_first"] = Figure(
    (
        f"[ -e {_TEXTS} ] || proverrl problems generate lean --levels 4-6 --num 4500 --seed 2 "
        f"--split train --out {_TEXTS}",
        f"[ -e {_THEOREMS} ] || proverrl problems convert lean/curriculum/heldout.jsonl "
        f"--levels 4-6 --out {_THEOREMS}",
        # One policy for both seeds of the search.
        "proverrl train configs/lean.toml --run {data}/prover456 --set loop=warm_start "
        f"--set problems.train={_TEXTS} --set problems.heldout={_THEOREMS} "
        "--set 'warm_start.references_per_level={ 4 = 1500, 5 = 1500, 6 = 1500 }' "
        "--set warm_start.steps=2200 --set warm_start.resume_places=1 "
        "--set warm_start.prompt_weight=0.1 --set sampling.max_new_tokens=320 "
        "--set evaluation.before=false --set evaluation.after=false",
        *(
            "proverrl eval configs/lean.toml --set policy.path={data}/prover456/policy "
            f"--set run={{run}} --set seed={{seed}} --benchmark {_THEOREMS} --name {name} -k 1 "
            f"--mode search --set search.name={name} --set search.calls=256 {settings}"
            "--set search.max_idle=256 --set sampling.max_new_tokens=320 --set pool.confirm=off "
            "--set evaluation.searches=6 --set evaluation.max_problems=0 "
            "--set evaluation.samples=1 --set evaluation.ks=[1]"
            for name, settings in (
                ("best_of_n", ""),
                ("best_first", "--set search.width=2 --set search.length_power=1 "),
            )
        ),
    ),
    {
        "best_of_n": {1: (47.5, 38.3, 56.8), 2: (49.2, 39.9, 58.4)},
        "best_first": {1: (52.5, 43.2, 61.7), 2: (57.5, 48.1, 66.5)},
    },
)


def run(lines: list[str]) -> None:
    """Print and run them; a finished run stays as it is."""
    print(*(f"$ {line}" for line in lines), sep="\n", flush=True)
    subprocess.run(["bash", "-ec", "\n".join(lines)], stdin=subprocess.DEVNULL, check=True)


def read_rate(path: Path, level: str) -> float:
    """Pass@1 of a line, in percent. Raises RunError: the evaluation is not there, or has none."""
    for row in read_summary(path).get("levels", ()):
        value = row.get("pass", {}).get("1", {}).get("value")
        if row["level"] == level and value is not None:
            return 100 * float(value)
    raise RunError(f"{path} has no pass@1 of {level!r}; delete it, and give the same command again")


def compare(seed: int, evaluation: str, new: float, recorded: Recorded) -> bool:
    """Print both figures; whether the new one lies in the interval."""
    value, low, high = recorded
    inside = low <= new <= high
    said = "inside" if inside else "OUTSIDE"
    old = f"{value:.1f} [{low:.1f}, {high:.1f}]"
    print(f"seed {seed}, pass@1 {evaluation}: recorded {old}, new {new:.1f}, {said}")
    return inside


def main() -> None:
    """See the module."""
    known = "\n".join(f"{name}: seeds {figure.seeds}" for name, figure in FIGURES.items())
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=known, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=FIGURES, metavar="NAME")
    parser.add_argument("seeds", type=int, nargs="*", metavar="SEED")
    parser.add_argument("--show", action="store_true", help="print the commands, and run nothing")
    if len(sys.argv) < 2:
        parser.print_help()
        sys.exit(2)
    given = parser.parse_args()
    name, figure = given.name, FIGURES[given.name]
    seeds = given.seeds or figure.seeds
    if unknown := [seed for seed in seeds if seed not in figure.seeds]:
        parser.error(f"{name} has no figure for seed {unknown[0]}, but for {figure.seeds}")
    if given.show:
        print(*(line for seed in seeds for line in figure.list_commands(name, seed)), sep="\n")
        return
    (FOLDER / "data").mkdir(parents=True, exist_ok=True)
    good = True
    for seed in seeds:
        try:
            run(figure.list_commands(name, seed))
        except subprocess.CalledProcessError as error:
            # What failed has said why; 1 is the status of a figure outside its interval.
            print(f"{name}, seed {seed}: a command failed, nothing was compared", file=sys.stderr)
            sys.exit(max(2, error.returncode))
        for evaluation, recorded in figure.evaluations.items():
            if seed in recorded:
                path = FOLDER / f"{name}-{seed}" / "evals" / f"{evaluation}.json"
                try:
                    rate = read_rate(path, figure.level)
                except RunError as error:
                    print(f"error: {error}", file=sys.stderr)
                    sys.exit(2)
                good &= compare(seed, evaluation, rate, recorded[seed])
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
