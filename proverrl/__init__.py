"""ProverRL: train language models to write machine-checked proofs and verified code."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from proverrl.version import __version__

__all__ = ["__version__"]

_TASKSET = "ProofTaskset"
if find_spec("verifiers") is not None:
    # It looks for an environment by the name of a package, in what the package exports.
    __all__ += [_TASKSET]


def __getattr__(name: str) -> Any:
    if name == _TASKSET:
        # Not imported above: what is below everything must not need it.
        return getattr(import_module("proverrl.integrations.verifiers"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
