"""ProverRL: train language models to write machine-checked proofs and verified code.

``verify``, ``train``, ``evaluate`` and what they take come from ``proverrl.api`` when they are used
for the first time (docs/python.md); type checkers read ``__init__.pyi``.
"""

from importlib import import_module
from importlib.util import find_spec
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

_TASKSET = "ProofTaskset"
if find_spec("verifiers") is not None:
    # It looks for an environment by the name of a package, in what the package exports.
    __all__ += [_TASKSET]


def __getattr__(name: str) -> Any:
    if name == _TASKSET:
        # Not imported above: what is below everything must not need it.
        return getattr(import_module("proverrl.integrations.verifiers"), name)
    if name in __all__:
        return getattr(import_module("proverrl.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
