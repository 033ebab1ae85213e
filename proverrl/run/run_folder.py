"""A run's folder: held by one process, resumed only with the settings it was started with.

Flows in: a folder, a ``Config``. Flows out: ``resolved.json``, which says what the run is made of.
Not handled here: what the loops write into it.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, get_args

import torch

from proverrl.config import Config
from proverrl.config.load import flatten_table, parse_config, read_stored_table
from proverrl.config.loops import StepsKey, find_traits
from proverrl.errors import RunError
from proverrl.files.disk import saving
from proverrl.files.lines import EVALS_FOLDER, RESOLVED_FILE, write_atomically
from proverrl.monitor.metrics import STEP_KINDS, read_metrics
from proverrl.policy.loading import DTYPES, choose_device, choose_precision, name_device
from proverrl.run.checkpoint import latest_checkpoint
from proverrl.version import __version__, find_version

VERSIONED = ("torch", "transformers", "tokenizers", "numpy", "z3-solver")
MAY_DIFFER = (
    "run",
    "max_minutes",
    "max_verifier_calls",
    "threads",
    "checkpoint_every",
    "pool.memory_mb",
    "pool.cache",
    "policy.max_rows",
    "learner.micro_batch_tokens",
    "learner.gradient_checkpointing",
    "vllm.kv_cache_gb",
    "vllm.sleep",
    "logging.backends",
)
"""Keys that a resumed run may change; the number of steps or rounds may grow as well."""

STEPS = get_args(StepsKey)
LIMITS = ("max_minutes", "max_verifier_calls")
"""The limits that end a loop beside its steps or rounds; 0 is no limit."""

SETTLED = ("learner.precision", "vllm.dtype")
"""Keys that a run stores as ``settle`` leaves them. Where it did not, nothing is known of it."""


@contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Hold the run folder for this process. Raises ``RunError``: another process is writing it, or
    it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".lock").open("w")
    except OSError as error:
        raise RunError(f"{folder}: the run folder cannot be written: {error}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunError(f"{folder}: another process is writing this run") from error
        yield


def settle(config: Config) -> Config:
    """The configuration as a run stores it: with the number types that ``auto`` means on its
    device, so that it goes on with them. Raises ``ConfigError`` where they do not fit together."""
    precision: Any = config.learner.precision
    if precision == "auto" and (config.run / RESOLVED_FILE).exists():
        # A run keeps what it began with, on another kind of device too.
        stored = _stored_settings(config.run)
        if stored.get("policy.path") == config.policy.path:
            precision = stored.get("learner.precision")
    if precision not in DTYPES:
        precision = choose_precision(config, name_device(config.policy.device))
    settled = config.dump()
    settled["learner"]["precision"] = precision
    settled["vllm"]["dtype"] = config.vllm.dtype_for(DTYPES[precision])
    return parse_config(settled, source="the number types of learner.precision and vllm.dtype")


def check_resumable(folder: Path, config: Config) -> None:
    """Refuse to go on with a run that was begun under other settings. Raises ``RunError``: names
    the first key that differs, with both values."""
    if not (folder / RESOLVED_FILE).exists():
        ours = {".lock", f"{RESOLVED_FILE}.partial"}
        if any(child.name not in ours for child in folder.iterdir()):
            raise RunError(f"{folder} exists and is not a run folder; name another with --run")
        return
    # A run of an earlier version does not name the keys that came later.
    before = flatten_table(Config().dump()) | _stored_settings(folder)
    for key, value in flatten_table(config.dump()).items():
        if key.startswith("vllm.") and config.policy.engine != "vllm":
            continue
        if key in SETTLED and before.get(key) == "auto":
            continue
        if key in MAY_DIFFER or key in STEPS:
            continue
        if before.get(key) != value:
            raise RunError(
                f"{folder} was begun with {key} = {before.get(key)!r}, now it is {value!r}; "
                "name another folder with --run, or set it back"
            )


def is_ended(config: Config) -> bool:
    """True if the run folder holds the end of a run with these limits, and not only that of one
    with lower ones. Raises ``RunError`` if the run cannot go on, or its settings are damaged."""
    folder = config.run
    has_end = (folder / RESOLVED_FILE).exists() and (folder / "policy" / "config.json").exists()
    return has_end and not _raised_limits(folder, config)


def reopen(folder: Path, config: Config) -> str:
    """Let a run go on that ended at lower limits: its evaluation ``after``, also a part of it, and
    its policy get the name of their step. Returns what to say of it, or "" where there is no such
    end. Until ``write_resolved`` this can be done again, and does what is left after a kill. Raises
    ``RunError`` as ``is_ended``, and if the files cannot be moved."""
    ended = [
        folder / EVALS_FOLDER / f"after{suffix}" for suffix in (".json", ".jsonl", ".settings")
    ]
    found = [path for path in (*ended, folder / "policy") if path.exists()]
    if not found or not (more := _raised_limits(folder, config)):
        return ""
    # Of the metrics: the last checkpoint may have been deleted.
    rows = read_metrics(folder)
    step = max((row["step"] for row in rows if row["kind"] in STEP_KINDS), default=0)
    for number in count(1):
        name = f"step_{step}" if number == 1 else f"step_{step}_{number}"
        places = [path.with_name(f"{path.stem}_{name}{path.suffix}") for path in found]
        if not any(place.exists() for place in places):
            break
    with saving(folder):
        for path, place in zip(found, places, strict=True):
            os.replace(path, place)
    kept = ", ".join(str(place.relative_to(folder)) for place in places)
    return f"goes on after step {step} with {', '.join(more)}; kept of its end: {kept}"


def _raised_limits(folder: Path, config: Config) -> list[str]:
    """The limits that ``config`` raises above those that the run was last continued with. Raises
    ``RunError`` if there is no step that it could go on from."""
    if (steps := find_traits(config.loop).counts) is None:
        return []
    before, now = _stored_settings(folder), flatten_table(config.dump())
    try:
        more: list[str] = [steps] if now[steps] > before[steps] else []
        more += [key for key in LIMITS if (now[key] or math.inf) > (before[key] or math.inf)]
    except (KeyError, TypeError) as error:
        raise RunError(f"{folder / RESOLVED_FILE}: a limit is not a number ({error})") from error
    if more and latest_checkpoint(folder / "checkpoints") is None:
        raise RunError(
            f"{folder} has no checkpoint to go on from; set {', '.join(more)} back to see its "
            "results, or begin another run with its policy as policy.path"
        )
    return [f"{key} = {now[key]} (was {before[key]})" for key in more]


def _stored_settings(folder: Path) -> dict[str, Any]:
    """By their keys. Raises ``RunError`` if the file is damaged."""
    path = folder / RESOLVED_FILE
    try:
        return flatten_table(read_stored_table(path))
    except ValueError as error:
        raise RunError(f"{path}: damaged ({error}); name another run folder") from error


def write_resolved(folder: Path, config: Config, *, toolchain: str, engine: str) -> None:
    """Store what the run is made of: every setting, the commit, and all versions."""
    value = {
        "config": config.dump(),
        "command": " ".join(["proverrl", *sys.argv[1:]]),
        "commit": _commit(),
        "versions": {
            "proverrl": __version__,
            "python": platform.python_version(),
            **{name: find_version(name) for name in VERSIONED},
        },
        "toolchain": toolchain,
        "device": choose_device(config.policy.device),
        "engine": engine,
        "cpu_count": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }
    write_atomically(folder / RESOLVED_FILE, json.dumps(value, indent=1) + "\n")


def _commit() -> str:
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parent,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown (not a git checkout)"
    return done.stdout.strip()
