"""What every loop of a run shares: folder, configuration, problems, policy, verifier, monitor.

Flows in: a ``Config``. Flows out: an open ``Session`` on a run folder that nobody else is
writing. Not handled here: what the loops do.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import proverrl
from proverrl.benchmarks.open import open_benchmark
from proverrl.config import Config
from proverrl.config.load import read_stored_table
from proverrl.errors import ProblemError, RunError, StoppedError, UsageError
from proverrl.files.lines import write_atomically
from proverrl.hint import Hint
from proverrl.loops.warm_start import PairSource, make_source
from proverrl.monitor import Monitor
from proverrl.policy.base import Sampler
from proverrl.policy.loading import build_policy, choose_device, load_policy
from proverrl.policy.tokenizer import train_tokenizer
from proverrl.policy.transformers import TransformersPolicy
from proverrl.problems.prompt import render_body, render_prompt
from proverrl.rollout.proofs import ProofStore, describe_conditions
from proverrl.rollout.self_correct import continue_rollouts, first_stop
from proverrl.rollout.whole_proof import Draw, JudgedDraw, draw_groups
from proverrl.seeds import derive_seed
from proverrl.types import Candidate, Problem, Sampling
from proverrl.verify.cache import CachedVerifier

RESOLVED_FILE = "resolved.json"
VERSIONED = ("torch", "transformers", "tokenizers", "numpy", "z3-solver")
MAY_DIFFER = (
    "run",
    "max_minutes",
    "max_verifier_calls",
    "threads",
    "checkpoint_every",
    "pool.memory_mb",
)
"""Keys that a resumed run may change; the number of steps or rounds may grow as well."""


@dataclass(frozen=True, slots=True)
class TrainingProblems:
    """The training split in two: problems with a reference for warm start, and the rest.

    The loops draw from ``without_reference`` only.
    """

    references: tuple[tuple[Problem, str], ...]
    without_reference: tuple[Problem, ...]

    @property
    def all(self) -> tuple[Problem, ...]:
        """Both parts; those without a reference first."""
        return (*self.without_reference, *(problem for problem, _ in self.references))

    def join(self, problems: Sequence[Problem]) -> TrainingProblems:
        """With further problems to draw from, which have no reference."""
        return TrainingProblems(self.references, (*self.without_reference, *problems))


@dataclass
class Session:
    """An open run."""

    config: Config
    folder: Path
    verifier: CachedVerifier
    policy: TransformersPolicy
    """The model that is trained."""
    sampler: Sampler
    """What writes completions with its weights; new ones are pushed into it after each update."""
    problems: TrainingProblems
    monitor: Monitor
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the loop is to save and end."""

    def check_stop(self, saved: str) -> None:
        """End here if that was asked for; ``saved`` says from where the run can be continued.

        Raises:
            StoppedError: it was asked for.
        """
        if self.stop.is_set():
            raise StoppedError(f"stopped; {saved}; the same command continues")

    @property
    def checkpoints(self) -> Path:
        """Where this run's checkpoints are."""
        return self.folder / "checkpoints"

    @property
    def warm_weights(self) -> Path:
        """The weights after warm start; the file is there once warm start is done."""
        return self.folder / "warm_start" / "weights.pt"


def split_references(
    problems: Sequence[Problem],
    references: Mapping[str, str],
    per_level: Mapping[str, int],
    seed: int,
) -> TrainingProblems:
    """Choose ``per_level[level]`` problems of each level whose references may be learned from.

    Families of a level take turns, so that few references still show every family.

    Raises:
        ProblemError: a level has fewer problems with a reference than asked for.
    """
    chosen: list[tuple[Problem, str]] = []
    for level, count in sorted(per_level.items()):
        families: dict[str, list[Problem]] = {}
        for problem in problems:
            if str(problem.level) == level and problem.id in references:
                families.setdefault(problem.family, []).append(problem)
        for family, members in families.items():
            members.sort(key=lambda p: derive_seed(seed, "reference", family, p.id))
        turn = [
            problem
            for rank in range(max(map(len, families.values()), default=0))
            for members in families.values()
            for problem in members[rank : rank + 1]
        ]
        if len(turn) < count:
            raise ProblemError(
                f"warm_start.references_per_level asks for {count} references of level {level}, "
                f"the training file has {len(turn)}"
            )
        chosen += [(problem, references[problem.id]) for problem in turn[:count]]
    taken = {problem.id for problem, _ in chosen}
    rest = tuple(problem for problem in problems if problem.id not in taken)
    return TrainingProblems(tuple(chosen), rest)


def load_training(config: Config) -> TrainingProblems:
    """Read the training file and choose the references of warm start.

    Raises:
        ProblemError: the file is damaged, or has too few references.
        UsageError: ``advantage.states`` asks for goals, and a problem has none to tell.
    """
    training = open_benchmark(str(config.problems.train))
    others = [p for p in training.problems if p.language != "lean"]
    if config.advantage.states == "goals" and others:
        raise UsageError(
            f'advantage.states = "goals" is for Lean; {config.problems.train} holds '
            f'{others[0].id!r}, a problem of {others[0].language}; set advantage.states = "lines"'
        )
    return split_references(
        training.problems,
        training.references,
        config.warm_start.references_per_level,
        config.seed,
    )


def make_policy(config: Config, problems: TrainingProblems) -> TransformersPolicy:
    """The policy that a run starts from: the checkpoint in ``policy.path``, or a new model whose
    tokenizer is trained on all training statements and the references of warm start."""
    device, precision = choose_device(config.policy.device), config.learner.precision
    if config.policy.path:
        return load_policy(config.policy.path, config.policy, device=device, precision=precision)
    layout = config.policy.layout
    texts = [
        render_prompt(problem, layout) + render_body(problem, reference, layout)
        for problem, reference in problems.references
    ]
    texts += [render_prompt(problem, layout) for problem in problems.without_reference]
    tokenizer = train_tokenizer(texts, vocab_size=config.policy.vocab_size)
    return build_policy(
        config.policy, tokenizer, seed=config.seed, device=device, precision=precision
    )


def reference_sources(session: Session) -> list[PairSource]:
    """What the references teach: each body after its problem's prompt."""
    return [
        make_source(session.policy, problem, reference)
        for problem, reference in session.problems.references
    ]


def open_store(session: Session, keep_shortest: int) -> ProofStore:
    """An empty store that stamps proofs with what the session's verifier judges by."""
    verifier = session.verifier
    return ProofStore(
        keep_shortest,
        lambda problem: describe_conditions(problem, verifier.identify(Candidate(problem, ""))),
    )


def proof_sources(session: Session, pairs: Sequence[tuple[str, str]]) -> list[PairSource]:
    """What the run's own proofs, as (problem id, body), teach: each body after its prompt."""
    by_id = {problem.id: problem for problem in session.problems.without_reference}
    return [make_source(session.policy, by_id[name], body) for name, body in pairs]


async def sample_draw(
    session: Session,
    problems: Sequence[Problem],
    *,
    n: int,
    number: int,
    hints: Sequence[Hint | None] | None = None,
) -> tuple[list[Draw], float]:
    """``n`` completions on each problem, seeded by the number of the draw; and the seconds."""
    started = time.monotonic()
    sampling = Sampling(
        temperature=session.config.sampling.temperature,
        max_new_tokens=session.config.sampling.max_new_tokens,
        seed=derive_seed(session.config.seed, "draw", number),
        stop=first_stop(session.config.rollout),
    )
    draws = await draw_groups(
        session.sampler, problems, n=n, sampling=sampling, name=str(number), hints=hints
    )
    return draws, time.monotonic() - started


async def finish_rollouts(session: Session, judged: Sequence[JudgedDraw]) -> list[JudgedDraw]:
    """The turns that ``rollout.mode`` wants after the first one.

    Called when a draw's first verdicts are in, and not before: until then the policy writes the
    next draw, and what a checkpoint holds of a draw in flight is its first turn.
    """
    config = session.config
    first = judged[0].rollouts[0].id if judged else ""
    return await continue_rollouts(
        judged,
        policy=session.sampler,
        verifier=session.verifier,
        settings=config.rollout,
        sampling=Sampling(
            temperature=config.sampling.temperature,
            max_new_tokens=config.sampling.max_new_tokens,
            seed=derive_seed(config.seed, "turns", first),
        ),
        deadline_seconds=config.pool.deadline_seconds,
    )


@contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Hold the run folder for this process.

    Raises:
        RunError: another process is writing it, or it cannot be written.
    """
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


def check_resumable(folder: Path, config: Config) -> None:
    """Refuse to continue a run that was begun under other settings.

    Raises:
        RunError: names the first key that differs, with both values.
    """
    path = folder / RESOLVED_FILE
    if not path.exists():
        ours = {".lock", f"{RESOLVED_FILE}.partial"}
        if any(child.name not in ours for child in folder.iterdir()):
            raise RunError(f"{folder} exists and is not a run folder; name another with --run")
        return
    try:
        before = _flatten(read_stored_table(path))
    except ValueError as error:
        raise RunError(f"{path}: damaged ({error}); name another run folder") from error
    for key, value in _flatten(config.dump()).items():
        if key in MAY_DIFFER or key in ("grpo.steps", "expert_iteration.rounds"):
            continue
        if before.get(key) != value:
            raise RunError(
                f"{folder} was begun with {key} = {before.get(key)!r}, now it is {value!r}; "
                "name another folder with --run, or set it back"
            )


def write_resolved(folder: Path, config: Config, *, toolchain: str, engine: str) -> None:
    """Store what the run is made of: every setting, the commit, all versions."""
    value = {
        "config": config.dump(),
        "command": " ".join(["proverrl", *sys.argv[1:]]),
        "commit": _commit(),
        "versions": {
            "proverrl": proverrl.__version__,
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in VERSIONED},
        },
        "toolchain": toolchain,
        "device": choose_device(config.policy.device),
        "engine": engine,
        "cpu_count": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }
    write_atomically(folder / RESOLVED_FILE, json.dumps(value, indent=1) + "\n")


def budget_spent(config: Config, verifier_calls: int, seconds: float) -> str:
    """Why a loop must end now, or an empty string."""
    if config.max_verifier_calls and verifier_calls >= config.max_verifier_calls:
        return f"{verifier_calls} verifier calls used"
    if config.max_minutes and seconds >= 60 * config.max_minutes:
        return f"{seconds / 60:.1f} minutes used"
    return ""


def run_fraction(config: Config, step_share: float, verifier_calls: int, seconds: float) -> float:
    """The share of a loop that is done, in [0, 1]: of its steps, or of its limit on calls or time,
    whichever is nearest to its end. Limits that are not set do not count.

    With a limit on time it follows the clock, so that a method which reads it does not repeat
    exactly.
    """
    shares = [step_share]
    if config.max_verifier_calls:
        shares.append(verifier_calls / config.max_verifier_calls)
    if config.max_minutes:
        shares.append(seconds / (60 * config.max_minutes))
    return min(1.0, max(shares))


def seconds_left(config: Config, seconds: float) -> dict[str, float]:
    """What is left of the loop's time, as a figure for the metrics; nothing without a limit."""
    if not config.max_minutes:
        return {}
    return {"seconds_left": round(max(0.0, 60 * config.max_minutes - seconds), 1)}


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


def _flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
