"""The exception tree. A wrong proof is a value (a Verdict); a broken machine is an exception."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

Cause = Literal[
    "",
    "deadline",
    "stalled",
    "out-of-memory",
    "died",
    "killed",
    "protocol",
    "no-result",
    "problem",
]
"""The reason why nothing was judged; empty for a verdict on the proof. A candidate on which two
fresh workers failed is REJECTED and keeps the cause. So is one on which they were ``stalled``: at
work for all of the time they had. Neither ``deadline``, a machine too busy to let them work, nor
``killed``, by someone else, rejects. ``problem`` is our own text, which cannot be judged here."""


class ProverRLError(Exception):
    """Base of all errors that this package raises on purpose."""


class StoppedError(ProverRLError):
    """A signal asked for a stop; the message says how to continue from what was saved.
    ``exit_status`` is 128 and the signal's number."""

    def __init__(self, message: str, exit_status: int = 143) -> None:
        super().__init__(message)
        self.exit_status = exit_status


class UsageError(ProverRLError):
    """The user's input cannot be used; the message names the place and the remedy. The command
    line exits with 2."""


class PeerError(ProverRLError):
    """Another process of this run has ended, so this one has no partner to communicate with."""


class ConfigError(UsageError):
    """A configuration file, or a --set override, is wrong."""


class ProblemError(UsageError):
    """A problem, or a file of problems, is wrong."""


class RunError(UsageError):
    """A run folder is missing, belongs to another configuration, or is damaged."""


class VerifierError(ProverRLError):
    """The verifier is broken: no verdict can be trusted or obtained. The command line exits with
    3."""


class ToolchainError(VerifierError):
    """A back end is missing or unusable; the message names the command that installs it."""


class WorkerError(VerifierError):
    """A worker process died or broke its protocol. The pool retries on a fresh worker.

    ``cause`` is what the verdict will name when the retry fails as well.
    """

    def __init__(self, message: str, cause: Cause = "protocol") -> None:
        super().__init__(message)
        self.cause = cause


class CanaryError(VerifierError):
    """A statement known to be false was called proved: stop and trust no verdict."""


class WeightSyncError(ProverRLError):
    """The sampling engine does not hold the trained weights, or not all of them."""


class GuardError(ProverRLError):
    """A number of the training run is out of bounds and the configuration says stop; ``path`` is
    the file with the offending batch."""

    def __init__(self, message: str, path: Path) -> None:
        super().__init__(message)
        self.path = path


class RecordError(ProverRLError):
    """A record was built from fields that do not fit together: a bug in this package."""


def name_some(names: Iterable[str], most: int = 3) -> str:
    """The first of some names, each once, and how many more there are."""
    each = list(dict.fromkeys(names))
    more = f" and {len(each) - most} more" if len(each) > most else ""
    return ", ".join(each[:most]) + more
