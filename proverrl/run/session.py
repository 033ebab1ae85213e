"""The session that every loop shares: folder, configuration, problems, policy, verifier, monitor.

Flows in: a ``Config``. Flows out: an open ``Session`` on a run folder that nobody else is
writing. Not handled here: what the loops do.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from proverrl.benchmarks.open import open_benchmark
from proverrl.config import Config, PolicyConfig
from proverrl.errors import ProblemError, RecordError, RunError, StoppedError, UsageError
from proverrl.lang import find_language
from proverrl.monitor import Monitor
from proverrl.policy.base import Sampler
from proverrl.policy.loading import (
    build_policy,
    choose_device,
    choose_precision,
    load_policy,
    train_tokenizer,
)
from proverrl.policy.lora import ADAPTER_FOLDER, attach_adapter, load_adapter, require_peft
from proverrl.policy.transformers import TransformersPolicy
from proverrl.problems.prompt import Before, render_body, render_prompt
from proverrl.rewards import find_hook
from proverrl.rollout.completion_counts import warn_of_room
from proverrl.rollout.extract import PLAIN, Mode
from proverrl.run.checkpoint import latest_checkpoint
from proverrl.seeds import derive_seed
from proverrl.types import Problem
from proverrl.verifier.cache import CachedVerifier


@dataclass(frozen=True, slots=True)
class TrainingProblems:
    """The training split in two: problems with a reference for warm start, and the rest, which the
    loops draw from."""

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
    """The engine that writes completions; new weights are pushed into it after each update."""
    problems: TrainingProblems
    monitor: Monitor
    mode: Mode = PLAIN
    """The mode, which makes attempts of the policy's answers."""
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the loop is to save and end."""

    def has_room(self, problem: Problem) -> bool:
        """True if the model's context leaves room for an answer to a problem."""
        return len(self.sampler.prompt(problem).token_ids) < self.sampler.context_tokens

    def leave_out_long(self) -> list[Problem]:
        """The problems that the loop draws from. Raises ``UsageError``: the model has no room to
        answer any of them."""
        problems = self.problems.without_reference
        fitting = [problem for problem in problems if self.has_room(problem)]
        if long := warn_of_room({p.id for p in problems} - {p.id for p in fitting}):
            if not fitting:
                raise UsageError(long)
            self.monitor.warn("no room", long)
        return fitting

    def check_stop(self, saved: str) -> None:
        """Raises ``StoppedError`` if that was asked for; ``saved`` says where the run continues."""
        if self.stop.is_set():
            raise StoppedError(f"stopped; {saved}; the same command continues")

    @property
    def checkpoints(self) -> Path:
        """The folder of this run's checkpoints."""
        return self.folder / "checkpoints"

    @property
    def warm_policy(self) -> Path:
        """The policy after warm start; the folder is there once warm start is done."""
        return self.folder / WARM_POLICY


WARM_POLICY = "warm_start/policy"
"""Where a run keeps the policy after warm start; the folder appears whole."""

BASE_OF_CHECKPOINTS = f"../../../../{WARM_POLICY}"
"""On what the adapter in a checkpoint's ``policy/adapter`` stands, from there: a run may move."""


def split_references(
    problems: Sequence[Problem],
    references: Mapping[str, str],
    per_level: Mapping[str, int],
    seed: int,
) -> TrainingProblems:
    """Choose ``per_level[level]`` problems of each level whose references may be learned from.

    Families of a level take turns, so that few references still show every family. Raises
    ``ProblemError``: a level has fewer problems with a reference than asked for."""
    chosen: list[tuple[Problem, str]] = []
    for level, count in sorted(per_level.items()):
        families: dict[str, list[Problem]] = {}
        for problem in problems:
            if str(problem.level) == level and problem.id in references:
                families.setdefault(problem.family, []).append(problem)
        for family, members in families.items():
            members.sort(key=lambda p: derive_seed(seed, "reference", family, p.id))
        turns = itertools.zip_longest(*families.values())
        turn = [problem for problem in itertools.chain.from_iterable(turns) if problem is not None]
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
    """Read the training file and choose the references of warm start. Raises ``ProblemError``: the
    file is damaged, or has too few references; ``UsageError``: the reward is for problems of
    another kind."""
    training = open_benchmark(str(config.problems.train))
    try:
        if check := find_hook(config.reward, "check"):
            for problem in training.problems:
                check(problem)
    except RecordError as error:
        raise UsageError(f"{config.problems.train}: {error}") from error
    wanted = config.warm_start.references_per_level
    return split_references(training.problems, training.references, wanted, config.seed)


def load_weights(
    config: Config, folder: Path | str, key: str = "policy.path"
) -> TransformersPolicy:
    """The policy in a Hugging Face folder, on the device and in the precision of a run."""
    policy = load_at(config, folder, config.policy, key)
    policy.before = load_before(config)
    return policy


def load_before(config: Config) -> Before:
    """What ``policy.examples`` and ``policy.system`` have shown before each problem. Raises
    ``ProblemError``: the file of examples cannot be read, or none of its problems is solved."""
    examples, system = config.policy.examples, config.policy.system
    if not examples:
        return Before(system=system)
    source = str(config.problems.train) if isinstance(examples, int) else examples
    benchmark = open_benchmark(source)
    solved: dict[tuple[str, str], list[tuple[Problem, str]]] = {}
    for problem in benchmark.problems:
        if problem.id in benchmark.references:
            pair = (problem, benchmark.references[problem.id])
            solved.setdefault((problem.language, problem.kind), []).append(pair)
    if not solved:
        raise ProblemError(f"policy.examples: no problem of {source} has a reference to show")
    if isinstance(examples, str):
        return Before(solved, max(map(len, solved.values())), system)
    for pairs in solved.values():
        pairs.sort(key=lambda pair: derive_seed(config.seed, "example", pair[0].id))
    # Some more than are shown, since no problem is shown itself, nor what differs in names alone.
    most = 2 * examples + 1
    return Before({kind: pairs[:most] for kind, pairs in solved.items()}, examples, system)


def load_at(
    config: Config, path: Path | str, settings: PolicyConfig, key: str
) -> TransformersPolicy:
    """The policy in a Hugging Face folder with these settings; ``key`` names the path in errors."""
    device = choose_device(config.policy.device)
    precision = choose_precision(config, device)
    return load_policy(path, settings, device=device, precision=precision, key=key)


def make_policy(
    config: Config, problems: TrainingProblems, mode: Mode = PLAIN
) -> TransformersPolicy:
    """The policy in ``policy.path``, or a new model whose tokenizer is trained on all training
    statements, the references of warm start and the words of the mode."""
    if config.policy.path:
        return load_weights(config, config.policy.path)
    layout = config.policy.layout
    texts = [
        render_prompt(problem, layout) + render_body(problem, reference, layout)
        for problem, reference in problems.references
    ]
    texts += [render_prompt(problem, layout) for problem in problems.without_reference]
    languages = {find_language(problem.language) for problem in problems.all}
    keywords = {word for language in languages for word in language.keywords}
    kinds = {find_language(problem.language).find_kind(problem) for problem in problems.all}
    keywords |= {word for kind in kinds if kind for word in kind.words}
    words = mode.words(problems.references)
    keywords |= {word for text in words for word in text.split()}
    texts += words
    tokenizer = train_tokenizer(texts, vocab_size=config.policy.vocab_size, keywords=keywords)
    device = choose_device(config.policy.device)
    policy = build_policy(
        config.policy,
        tokenizer,
        seed=config.seed,
        device=device,
        precision=choose_precision(config, device),
    )
    policy.before = load_before(config)
    return policy


def open_policy(
    config: Config, folder: Path, problems: TrainingProblems, mode: Mode
) -> TransformersPolicy:
    """The newest weights of this run: checkpoint, else warm-started, else fresh."""
    checkpoint = latest_checkpoint(folder / "checkpoints")
    warm = folder / WARM_POLICY
    lora = config.policy.lora
    if lora.rank and not config.policy.path:
        raise UsageError(
            "policy.lora.rank is above 0 and policy.path is empty: a model with fresh weights has "
            "nothing to adapt; name a checkpoint, or set policy.lora.rank to 0"
        )
    if lora.rank:
        # Before a model is loaded, or got from the hub.
        require_peft()
    if checkpoint is None and not warm.exists():
        policy, base = make_policy(config, problems, mode), config.policy.path
    else:
        # A checkpoint with an adapter holds it alone; it stands on the warm-started policy.
        newest = warm if checkpoint is None or lora.rank else checkpoint / "policy"
        base = BASE_OF_CHECKPOINTS
        policy = load_weights(config, newest, "delete this part of the run and go on from before:")
        if lora.rank and not (adapter := warm.parent / ADAPTER_FOLDER).exists():
            raise RunError(
                f"{adapter} is gone, and without it the run's adapter would lack the warm start; "
                "put it back or begin another run"
            )
    if lora.rank:
        attach_adapter(policy.model, lora, seed=derive_seed(config.seed, "lora"), base=base)
        if checkpoint is not None:
            load_adapter(policy.model, checkpoint / "policy" / ADAPTER_FOLDER)
    return policy


def budget_spent(config: Config, verifier_calls: int, seconds: float) -> str:
    """The reason why a loop must end now, or an empty string."""
    if config.max_verifier_calls and verifier_calls >= config.max_verifier_calls:
        return f"{verifier_calls} verifier calls used"
    if config.max_minutes and seconds >= 60 * config.max_minutes:
        return f"{seconds / 60:.1f} minutes used"
    return ""


def run_fraction(config: Config, step_share: float, verifier_calls: int, seconds: float) -> float:
    """The share of a loop that is done, in [0, 1]: of its steps, or of a limit on calls or time
    that is set, whichever is nearest to its end. A limit on time follows the clock, so that a
    method which reads this does not repeat exactly."""
    shares = [step_share]
    if config.max_verifier_calls:
        shares.append(verifier_calls / config.max_verifier_calls)
    if config.max_minutes:
        shares.append(seconds / (60 * config.max_minutes))
    return min(1.0, max(shares))


def seconds_left(config: Config, seconds: float) -> dict[str, float]:
    """The time that the loop has left, as a figure for the metrics; nothing without a limit."""
    if not config.max_minutes:
        return {}
    return {"seconds_left": round(max(0.0, 60 * config.max_minutes - seconds), 1)}
