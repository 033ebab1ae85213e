"""The benchmarks that have a name here. Counts and licences are those that the publishers state;
docs/benchmarks.md has the errata. Nothing here downloads anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from proverrl.benchmarks.base import BenchmarkFormat
from proverrl.problems.drafts import ORIGIN
from proverrl.types import Problem


@dataclass(frozen=True, slots=True)
class KnownBenchmark:
    """``places`` are where it is looked for, relative to a folder of data; the first is where the
    message says to put it. ``hub_id`` is its id for ``hf:``, empty when it is on no hub. ``splits``
    are those that its publisher tells apart, in their words: one of them is ``NAME:SPLIT``."""

    language: str
    format: BenchmarkFormat
    size: str
    licence: str
    source: str
    places: tuple[str, ...]
    hub_id: str = ""
    splits: tuple[str, ...] = ()


UNKNOWN_LICENCE = "not known here; see its publisher"
_OWN_LICENCE = "Apache-2.0"
_OWN_ORIGINS = frozenset({ORIGIN, "proverrl-dafny", "proverrl-core-lean"})
"""Origins of generated problems, and of the benchmarks that were written here."""
_TAKEN_FROM = {"dafny-synthesis_": "mbpp-dfy", "Clover_": "clover"}
_DAFNYBENCH = frozenset({"dafnybench", "dafnybench-tasks", "dafnybench_tasks"})
_DEEPSEEK = "https://github.com/deepseek-ai/DeepSeek-Prover-V1.5, folder datasets"
_SYNTHESIS = "https://github.com/Mondego/dafny-synthesis"

_lean = partial(KnownBenchmark, "lean")
_dafny = partial(KnownBenchmark, "dafny")

_KNOWN: Mapping[str, KnownBenchmark] = {
    "proverrl-dafny": _dafny(
        "problems",
        "153",
        _OWN_LICENCE,
        "this repository, dafny/benchmark",
        ("dafny/benchmark/problems.jsonl",),
    ),
    "proverrl-lean": _lean(
        "problems",
        "144",
        _OWN_LICENCE,
        "this repository, lean/benchmark.jsonl",
        ("lean/benchmark.jsonl",),
    ),
    "minif2f": _lean(
        "deepseek",
        "244 valid, 244 test",
        "MIT (code of the repository)",
        _DEEPSEEK,
        ("minif2f.jsonl", "minif2f_deepseek/minif2f.jsonl"),
        splits=("valid", "test"),
    ),
    "minif2f-few-shot": _lean(
        "deepseek",
        "67 valid, with proofs",
        "MIT (code of the repository)",
        _DEEPSEEK,
        ("minif2f_valid_few_shot.jsonl", "minif2f_deepseek/minif2f_valid_few_shot.jsonl"),
        splits=("valid",),
    ),
    "minif2f-yangky11": _lean(
        "minif2f_lean4",
        "244 valid, 244 test",
        "MIT",
        "https://github.com/yangky11/miniF2F-lean4",
        ("minif2f_yangky11", "miniF2F-lean4/MiniF2F"),
        splits=("valid", "test"),
    ),
    "minif2f-goedel": _lean(
        "goedel",
        "244 test",
        "not stated in the repository",
        "https://github.com/Goedel-LM/Goedel-Prover-V2, folder dataset",
        ("minif2f_goedel.jsonl", "minif2f_goedel/minif2f.jsonl"),
        splits=("test",),
    ),
    "minif2f-v2s": _lean(
        "minif2f_v2",
        "244 valid, 244 test",
        "not stated in the repository",
        "https://github.com/roozbeh-yz/miniF2F_v2, folder datasets",
        ("miniF2F_v2s.jsonl",),
        splits=("valid", "test"),
    ),
    "minif2f-v2c": _lean(
        "minif2f_v2",
        "244 valid, 244 test",
        "not stated in the repository",
        "https://github.com/roozbeh-yz/miniF2F_v2, folder datasets",
        ("miniF2F_v2c.jsonl",),
        splits=("valid", "test"),
    ),
    "mobench": _lean(
        "goedel",
        "360 test",
        "not stated in the repository",
        "https://github.com/Goedel-LM/Goedel-Prover-V2, folder dataset",
        ("MOBench.jsonl", "mobench.jsonl"),
        "Goedel-LM/MathOlympiadBench",
        splits=("test",),
    ),
    "proofnet": _lean(
        "deepseek",
        "185 valid, 186 test",
        "MIT (code of the repository)",
        _DEEPSEEK,
        ("proofnet.jsonl", "minif2f_deepseek/proofnet.jsonl"),
        splits=("valid", "test"),
    ),
    "proofnet-verified": _lean(
        "proofnet_verified",
        "367",
        "Apache-2.0",
        "https://github.com/marcusm117/ProofNet-Verified, folder data",
        ("proofnet-verified.jsonl",),
    ),
    "putnambench": _lean(
        "putnambench",
        "672, 346 of them with an answer to give",
        "Apache-2.0; the authors ask that no proofs be published",
        "https://github.com/trishullab/PutnamBench, folder lean4/src",
        ("putnambench", "PutnamBench/lean4/src"),
    ),
    "combibench": _lean(
        "combibench",
        "100, 45 of them with an answer to give",
        "MIT",
        "https://github.com/MoonshotAI/CombiBench, folder lean",
        ("combibench", "CombiBench/lean"),
        "AI-MO/CombiBench",
    ),
    "verina": _lean(
        "verina",
        "189",
        "Apache-2.0",
        "https://github.com/sunblaze-ucb/verina, folder datasets/verina",
        ("verina",),
        "sunblaze-ucb/verina",
    ),
    "clever": _lean(
        "clever",
        "161",
        "MIT",
        "https://github.com/trishullab/clever, folder src/lean4/human_eval",
        ("clever",),
    ),
    "dafnybench": _dafny(
        "dafnybench",
        "782",
        "Apache-2.0; its programs were collected from public repositories",
        "https://github.com/sun-wendy/DafnyBench, folder DafnyBench/dataset",
        ("dafnybench", "DafnyBench/dataset", "dafnybench_layout"),
        "wendy-sun/DafnyBench",
    ),
    "dafnybench-tasks": _dafny(
        "dafnybench_tasks",
        "212",
        "Apache-2.0; its programs were collected from public repositories",
        "chosen from DafnyBench: the ground truth verifies under Dafny 2.3, the text without hints "
        "does not; scripts/choose_tasks.py of the repository makes such a choice",
        ("dafnybench_tasks.jsonl",),
    ),
    "vericoding": _dafny(
        "vericoding",
        "2,334",
        "MIT",
        "https://github.com/Beneficial-AI-Foundation/vericoding-benchmark, dafny_tasks.jsonl",
        ("vericoding/dafny_tasks.jsonl", "dafny_tasks.jsonl"),
    ),
    "dafnycomp": _dafny(
        "dafnycomp",
        "300 programs",
        "not stated here; see its repository",
        "https://github.com/Veri-Code/ReForm, folder "
        "LLaMA-Factory/dafny_process/DafnyAutoSpec/code_wspec",
        ("dafnycomp.json", "dfyautospec_chain300.json"),
    ),
    "mbpp-dfy": _dafny(
        "mbpp_dfy",
        "153 and 50 programs",
        "GPL-3.0",
        f"{_SYNTHESIS}, folders MBPP-DFY-153 and MBPP-DFY-50",
        ("mbpp_dfy", "dafny-synthesis/MBPP-DFY-153"),
    ),
    "humaneval-dafny": _dafny(
        "humaneval_dafny",
        "132 programs",
        "Apache-2.0",
        "https://github.com/JetBrains-Research/HumanEval-Dafny",
        ("humaneval_dafny", "HumanEval-Dafny"),
    ),
    "clover": _dafny(
        "clover",
        "62 programs",
        "MIT",
        "https://github.com/ChuyueSun/Clover, folder CloverBench/textbook_algo",
        ("clover", "Clover/CloverBench/textbook_algo"),
    ),
    "minif2f-dafny": _dafny(
        "minif2f_dafny",
        "244 valid, 244 test",
        "MIT",
        "https://github.com/dafny-lang/miniF2F",
        ("minif2f_dafny", "miniF2F/dataset"),
        splits=("valid", "test"),
    ),
}
_AS_CODE: Mapping[str, BenchmarkFormat] = {
    **dict.fromkeys(("clover", "mbpp-dfy", "humaneval-dafny"), "dafny_code"),
    "verina": "verina_code",
    "clever": "clever_code",
}
KNOWN: Mapping[str, KnownBenchmark] = {
    **_KNOWN,
    **{f"{name}-code": replace(_KNOWN[name], format=way) for name, way in _AS_CODE.items()},
}
"""``NAME-code`` asks for the code of the same programs: in Dafny in place of their hints, in Lean
with its proof."""


def find_own_licence(problem: Problem) -> str:
    """The licence of a problem that was written or generated by this project, as its origin says;
    of another one, that none is known."""
    return _OWN_LICENCE if problem.origin in _OWN_ORIGINS else UNKNOWN_LICENCE


def count_taken(origin: str, problems: Iterable[Problem]) -> Mapping[str, int]:
    """The number of problems of DafnyBench that were taken from each other benchmark, by its
    name."""
    if origin not in _DAFNYBENCH:
        return {}
    return Counter(
        name
        for problem in problems
        for prefix, name in _TAKEN_FROM.items()
        if problem.id.startswith(prefix)
    )
