"""The interface of ``import proverrl``: verify, train and evaluate in a few lines or a notebook.

Flows in: candidates, or a configuration by name. Flows out: verdicts, run folders, figures. Whoever
has an event loop running (a notebook has) may call all of it: the work runs on a loop of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, TypeVar

from proverrl.concurrency import LoopThread
from proverrl.config import Config, load_config, load_stored_config
from proverrl.config.load import choose_run
from proverrl.errors import UsageError
from proverrl.files.extras import require_module
from proverrl.files.strict_json import read_object
from proverrl.lang.open import open_verifier
from proverrl.problems.load import load_problems, load_references
from proverrl.types import Candidate, Problem, Status, Verdict
from proverrl.verifier.base import verify_all
from proverrl.verifier.cache import CachedVerifier

__all__ = [
    "Candidate",
    "Config",
    "Problem",
    "Status",
    "SyncVerifier",
    "Verdict",
    "evaluate",
    "load_config",
    "load_problems",
    "load_references",
    "open_verifier",
    "train",
    "verify",
]

T = TypeVar("T")
_FORKED = "its event loop is not here: open one in each process"


class SyncVerifier:
    """``open_verifier`` for callers without an event loop, or with one of their own, as a context::

        with SyncVerifier(workers=2) as verifier:
            verdicts = verifier.verify(candidates)

    Takes the options of ``open_verifier``. Workers begin with the first candidate and stay until
    the end. Raises ``ToolchainError`` then, when the language's verifier is missing.
    """

    def __init__(self, **options: Any) -> None:
        self._loop = LoopThread(_FORKED)
        # On its loop, to which its queues belong.
        self._verifier = self._loop.submit(_open(options)).result()

    def verify(
        self, candidates: Iterable[Candidate], *, deadline_seconds: float = 60.0
    ) -> list[Verdict]:
        """Verdicts in order; ``deadline_seconds`` is wall time for one candidate once a worker has
        it. A candidate of a problem that its verifier cannot read has the status ``crashed``
        with the cause ``problem``."""
        asked = verify_all(self._verifier, candidates, deadline_seconds=deadline_seconds)
        return self._loop.submit(asked).result()

    def close(self) -> None:
        """End the workers."""
        self._loop.close(self._verifier.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


async def _open(options: dict[str, Any]) -> CachedVerifier:
    return open_verifier(**({"needed": ()} | options))


def verify(
    candidates: Iterable[Candidate], *, deadline_seconds: float = 60.0, **options: Any
) -> list[Verdict]:
    """Verdicts in order, from workers that are started for this call; see ``SyncVerifier``."""
    with SyncVerifier(**options) as verifier:
        return verifier.verify(candidates, deadline_seconds=deadline_seconds)


def train(config: Config | str | Path, *overrides: str) -> Path:
    """Train as a configuration says and evaluate before and after; returns the run folder, whose
    ``policy`` is the trained model.

    ``config`` is a ``Config``, a TOML file, or the name of one that comes with ProverRL
    (``"demo"``); ``overrides`` are ``key=value`` as on the command line. The same call resumes a
    run that was stopped, and returns at once where it is finished. Raises ``ConfigError`` for a
    wrong key, and as ``proverrl.jobs.train.train``.
    """
    require_module("torch", "training")
    from proverrl.jobs import train as loop
    from proverrl.run.run_folder import is_ended

    chosen = _read(config, overrides)
    return chosen.run if is_ended(chosen) else _wait(loop.train(chosen))


def evaluate(
    config: Config | str | Path | None = None,
    *overrides: str,
    run: str | Path | None = None,
    benchmarks: Sequence[str] = (),
    name: str = "eval",
) -> list[dict[str, Any]]:
    """Estimate pass@k of a run's policy (``run``), or of the one that ``config`` names
    (``policy.path``), on held-out problems or ``benchmarks``: one result for each, as in
    ``evals/NAME.json``. A stored evaluation of that ``name`` is continued. Raises ``UsageError``:
    neither or both are given, or nothing is to be evaluated."""
    require_module("torch", "evaluation")
    from proverrl.jobs.evaluate import evaluate_benchmarks, name_benchmarks

    if (config is None) == (run is None):
        raise UsageError("evaluate needs a configuration or a run, one of the two")
    if run is not None:
        chosen = load_stored_config(Path(run), overrides)
    else:
        assert config is not None
        chosen = _read(config, overrides)
    weights = choose_run(Path(run) if run is not None else None, overrides)
    named = name_benchmarks(chosen, name, tuple(benchmarks))
    files = _wait(evaluate_benchmarks(chosen, from_run=weights, benchmarks=named))
    return [read_object(file) for file in files]


def _read(config: Config | str | Path, overrides: Sequence[str]) -> Config:
    if not isinstance(config, Config):
        return load_config(Path(config), overrides)
    if overrides:
        raise UsageError("overrides are for a file or a name; a Config is used as it is")
    return config


def _wait(work: Coroutine[Any, Any, T]) -> T:
    """The result of the work, which runs in another thread where the caller has an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
