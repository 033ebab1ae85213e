"""Names of the forms in which benchmarks come.

Flows in: nothing. Flows out: the names that ``proverrl.benchmarks.layouts`` gives functions for.
"""

from __future__ import annotations

from typing import Literal

BenchmarkLayout = Literal[
    "problems",
    "dafnybench_tasks",
    "dafnybench_rows",
    "goedel",
    "deepseek",
    "minif2f_v2",
    "proofnet_verified",
    "formalmath",
    "lean_rows",
    "minif2f_lean4",
    "putnambench",
    "combibench",
    "verina",
    "clever",
    "lean_files",
    "dafnybench",
    "humaneval_dafny",
    "minif2f_dafny",
    "clover",
    "mbpp_dfy",
]
AnswerTask = Literal["given", "produce", "both"]
"""What to make of a statement with a blank for an answer: fill in the official answer, leave the
answer to the policy, or both as two problems."""
