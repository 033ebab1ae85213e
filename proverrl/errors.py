"""The exception tree. A wrong proof is a value (a Verdict); a broken machine is an exception.

ProverRLError
├── UsageError            what the user gave cannot be used; the CLI exits 2
│   ├── ConfigError       a configuration file or --set
│   ├── ProblemError      a problem, or a file of problems
│   └── RunError          a run folder that is missing, foreign or damaged
├── VerifierError         the verifier itself is broken; the CLI exits 3
│   ├── ToolchainError    a back end is not installed or is the wrong version
│   └── WorkerError       a worker process died or broke its protocol (the pool retries)
└── RecordError           a record was built from fields that do not fit together (our bug)
"""


class ProverRLError(Exception):
    """Base of all errors that this package raises on purpose."""


class UsageError(ProverRLError):
    """What the user gave cannot be used; the message names the place and the remedy."""


class ConfigError(UsageError):
    """A configuration file, or a --set override, is wrong."""


class ProblemError(UsageError):
    """A problem, or a file of problems, is wrong."""


class RunError(UsageError):
    """A run folder is missing, belongs to another configuration, or is damaged."""


class VerifierError(ProverRLError):
    """The verifier is broken: no verdict can be trusted or obtained."""


class ToolchainError(VerifierError):
    """A back end is missing or unusable; the message says which command brings it."""


class WorkerError(VerifierError):
    """A worker process died or broke its protocol. The pool retries on a fresh worker."""


class RecordError(ProverRLError):
    """A record was built from fields that do not fit together: a bug in this package."""
