"""The benchmarks that have a name here: what they are, where they are had, under which licence.

Flows in: nothing. Flows out: ``KNOWN``. Counts and licences are those that the publishers state;
docs/benchmarks.md has the errata. Nothing here downloads anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from proverrl.benchmarks.base import BenchmarkLayout
from proverrl.types import Problem


@dataclass(frozen=True, slots=True)
class KnownBenchmark:
    """``places`` are where it is looked for, relative to a folder of data; the first is where the
    message says to put it. ``hub_id`` is its id for ``hf:``, empty when it is on no hub. ``splits``
    are those that its publisher tells apart, in their words: one of them is ``NAME:SPLIT``."""

    layout: BenchmarkLayout
    language: str
    size: str
    licence: str
    source: str
    places: tuple[str, ...]
    hub_id: str = ""
    splits: tuple[str, ...] = ()


_TAKEN_FROM = {"dafny-synthesis_": "mbpp-dfy", "Clover_": "clover"}
_DAFNYBENCH = frozenset({"dafnybench", "dafnybench-tasks", "dafnybench_tasks"})
_DEEPSEEK = "https://github.com/deepseek-ai/DeepSeek-Prover-V1.5, folder datasets"
_SYNTHESIS = "https://github.com/Mondego/dafny-synthesis"

KNOWN: Mapping[str, KnownBenchmark] = {
    "proverrl-dafny": KnownBenchmark(
        "problems",
        "dafny",
        "153",
        "Apache-2.0",
        "this repository, dafny/benchmark",
        ("dafny/benchmark/problems.jsonl",),
    ),
    "proverrl-lean": KnownBenchmark(
        "problems",
        "lean",
        "144",
        "Apache-2.0",
        "this repository, lean/benchmark.jsonl",
        ("lean/benchmark.jsonl",),
    ),
    "minif2f": KnownBenchmark(
        "deepseek",
        "lean",
        "244 valid, 244 test",
        "MIT (code of the repository)",
        _DEEPSEEK,
        ("minif2f.jsonl", "minif2f_deepseek/minif2f.jsonl"),
        splits=("valid", "test"),
    ),
    "minif2f-few-shot": KnownBenchmark(
        "deepseek",
        "lean",
        "67 valid, with proofs",
        "MIT (code of the repository)",
        _DEEPSEEK,
        ("minif2f_valid_few_shot.jsonl", "minif2f_deepseek/minif2f_valid_few_shot.jsonl"),
        splits=("valid",),
    ),
    "minif2f-yangky11": KnownBenchmark(
        "minif2f_lean4",
        "lean",
        "244 valid, 244 test",
        "MIT",
        "https://github.com/yangky11/miniF2F-lean4",
        ("minif2f_yangky11", "miniF2F-lean4/MiniF2F"),
        splits=("valid", "test"),
    ),
    "minif2f-goedel": KnownBenchmark(
        "goedel",
        "lean",
        "244 test",
        "not stated in the repository",
        "https://github.com/Goedel-LM/Goedel-Prover-V2, folder dataset",
        ("minif2f_goedel.jsonl", "minif2f_goedel/minif2f.jsonl"),
        splits=("test",),
    ),
    "minif2f-v2s": KnownBenchmark(
        "minif2f_v2",
        "lean",
        "244 valid, 244 test",
        "not stated in the repository",
        "https://github.com/roozbeh-yz/miniF2F_v2, folder datasets",
        ("miniF2F_v2s.jsonl",),
        splits=("valid", "test"),
    ),
    "minif2f-v2c": KnownBenchmark(
        "minif2f_v2",
        "lean",
        "244 valid, 244 test",
        "not stated in the repository",
        "https://github.com/roozbeh-yz/miniF2F_v2, folder datasets",
        ("miniF2F_v2c.jsonl",),
        splits=("valid", "test"),
    ),
    "mobench": KnownBenchmark(
        "goedel",
        "lean",
        "360 test",
        "not stated in the repository",
        "https://github.com/Goedel-LM/Goedel-Prover-V2, folder dataset",
        ("MOBench.jsonl", "mobench.jsonl"),
        "Goedel-LM/MathOlympiadBench",
        splits=("test",),
    ),
    "proofnet": KnownBenchmark(
        "deepseek",
        "lean",
        "185 valid, 186 test",
        "MIT (code of the repository)",
        _DEEPSEEK,
        ("proofnet.jsonl", "minif2f_deepseek/proofnet.jsonl"),
        splits=("valid", "test"),
    ),
    "proofnet-verified": KnownBenchmark(
        "proofnet_verified",
        "lean",
        "367",
        "Apache-2.0",
        "https://github.com/marcusm117/ProofNet-Verified, folder data",
        ("proofnet-verified.jsonl",),
    ),
    "putnambench": KnownBenchmark(
        "putnambench",
        "lean",
        "672, 346 of them with an answer to give",
        "Apache-2.0; the authors ask that no proofs be published",
        "https://github.com/trishullab/PutnamBench, folder lean4/src",
        ("putnambench", "PutnamBench/lean4/src"),
    ),
    "proverbench": KnownBenchmark(
        "lean_rows",
        "lean",
        "325",
        "MIT",
        "https://huggingface.co/datasets/deepseek-ai/DeepSeek-ProverBench",
        ("proverbench.jsonl",),
        "deepseek-ai/DeepSeek-ProverBench",
    ),
    "formalmath": KnownBenchmark(
        "formalmath",
        "lean",
        "5,560",
        "Apache-2.0 (code of the repository)",
        "https://huggingface.co/datasets/SphereLab/FormalMATH-All",
        ("formalmath.jsonl",),
        "SphereLab/FormalMATH-All",
    ),
    "formalmath-lite": KnownBenchmark(
        "formalmath",
        "lean",
        "425",
        "Apache-2.0 (code of the repository)",
        "https://huggingface.co/datasets/SphereLab/FormalMATH-Lite",
        ("formalmath-lite.jsonl",),
        "SphereLab/FormalMATH-Lite",
    ),
    "combibench": KnownBenchmark(
        "combibench",
        "lean",
        "100, 45 of them with an answer to give",
        "MIT",
        "https://github.com/MoonshotAI/CombiBench, folder lean",
        ("combibench", "CombiBench/lean"),
        "AI-MO/CombiBench",
    ),
    "verina": KnownBenchmark(
        "verina",
        "lean",
        "189",
        "Apache-2.0",
        "https://github.com/sunblaze-ucb/verina, folder datasets/verina",
        ("verina",),
        "sunblaze-ucb/verina",
    ),
    "clever": KnownBenchmark(
        "clever",
        "lean",
        "161",
        "MIT",
        "https://github.com/trishullab/clever, folder src/lean4/human_eval",
        ("clever",),
    ),
    "dafnybench": KnownBenchmark(
        "dafnybench",
        "dafny",
        "782",
        "Apache-2.0; its programs were collected from public repositories",
        "https://github.com/sun-wendy/DafnyBench, folder DafnyBench/dataset",
        ("dafnybench", "DafnyBench/dataset", "dafnybench_layout"),
        "wendy-sun/DafnyBench",
    ),
    "dafnybench-tasks": KnownBenchmark(
        "dafnybench_tasks",
        "dafny",
        "212",
        "Apache-2.0; its programs were collected from public repositories",
        "chosen from DafnyBench: the ground truth verifies under Dafny 2.3, the text without hints "
        "does not",
        ("dafnybench_tasks.jsonl",),
    ),
    "mbpp-dfy": KnownBenchmark(
        "mbpp_dfy",
        "dafny",
        "153 and 50 programs",
        "GPL-3.0",
        f"{_SYNTHESIS}, folders MBPP-DFY-153 and MBPP-DFY-50",
        ("mbpp_dfy", "dafny-synthesis/MBPP-DFY-153"),
    ),
    "humaneval-dafny": KnownBenchmark(
        "humaneval_dafny",
        "dafny",
        "132 programs",
        "Apache-2.0",
        "https://github.com/JetBrains-Research/HumanEval-Dafny",
        ("humaneval_dafny", "HumanEval-Dafny"),
    ),
    "clover": KnownBenchmark(
        "clover",
        "dafny",
        "62 programs",
        "MIT",
        "https://github.com/ChuyueSun/Clover, folder CloverBench/textbook_algo",
        ("clover", "Clover/CloverBench/textbook_algo"),
    ),
    "minif2f-dafny": KnownBenchmark(
        "minif2f_dafny",
        "dafny",
        "244 valid, 244 test",
        "MIT",
        "https://github.com/dafny-lang/miniF2F",
        ("minif2f_dafny", "miniF2F/dataset"),
        splits=("valid", "test"),
    ),
}


def count_taken(origin: str, problems: Iterable[Problem]) -> Mapping[str, int]:
    """For problems of DafnyBench: name of another benchmark to how many were taken from it."""
    if origin not in _DAFNYBENCH:
        return {}
    return Counter(
        name
        for problem in problems
        for prefix, name in _TAKEN_FROM.items()
        if problem.id.startswith(prefix)
    )
