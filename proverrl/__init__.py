"""ProverRL: train language models to write machine-checked proofs and verified code.

``verify``, ``train``, ``evaluate`` and what they take come from ``proverrl.api`` when they are used
for the first time (docs/python.md); type checkers read ``__init__.pyi``.
"""

from importlib import import_module
from typing import Any

from proverrl.version import __version__

__all__ = [
    "Candidate",
    "Config",
    "Problem",
    "Status",
    "SyncVerifier",
    "Verdict",
    "__version__",
    "evaluate",
    "load_config",
    "load_problems",
    "load_references",
    "open_verifier",
    "train",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("proverrl.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
