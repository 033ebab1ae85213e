"""Names of what composes problems and of what filters them.

Each ``Literal`` has its literal dict: ``OPERATORS`` in ``proverrl.compose.operators``,
``LEAN_OPERATORS`` in ``proverrl.lang.lean.compose``, ``FILTERS`` in ``proverrl.compose.filters``.
"""

from __future__ import annotations

from typing import Literal

DafnyOperator = Literal[
    "change_constant",
    "flip_sign",
    "change_bound",
    "drop_requires",
    "add_requires",
    "drop_ensures",
    "weaken_ensures",
    "strengthen_ensures",
    "instantiate",
    "generalise",
    "apply_lemma",
    "negate",
    "conjoin_lemmas",
    "sequence_loops",
    "chain_calls",
    "nest_loop",
]

LeanOperator = Literal["lean_fuse", "lean_instantiate", "lean_generalise", "lean_negate"]

FilterName = Literal[
    "duplicate",
    "leak",
    "well_formed",
    "satisfiable",
    "trivial",
    "weak_contract",
    "refuted",
]
