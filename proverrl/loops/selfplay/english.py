"""What a run needs of others to compose from English: problems in words, models that never learn.

Flows in: a configuration. Flows out: the ``EnglishComposer`` and the grader of a run, opened before
anything is trained, so that what is missing is said at once. Not handled here: what they do
(``compose.english``, ``compose.grades``).
"""

from __future__ import annotations

from collections import Counter

from proverrl.benchmarks.open import open_benchmark
from proverrl.compose.english import EnglishComposer
from proverrl.config import Config
from proverrl.config.policy import FrozenPolicyConfig
from proverrl.errors import UsageError
from proverrl.loops.beside import open_beside
from proverrl.loops.formalize_run import require_words
from proverrl.policy.frozen import FrozenPolicy
from proverrl.types import Problem, Sampling


def open_english(config: Config) -> EnglishComposer | None:
    """The composer from English, if the run has one. Raises ``UsageError``: as ``load_rows``, or a
    model cannot be loaded."""
    settings = config.selfplay
    if config.loop not in ("selfplay", "data_loop") or settings.composer != "english":
        return None
    formaliser = _open(config, settings.formaliser, "selfplay.formaliser")
    assert formaliser is not None  # The configuration says so.
    return EnglishComposer(
        load_rows(settings.rows),
        settings.english,
        formaliser,
        _open(config, settings.writer, "selfplay.writer", asks_words=True),
        config.seed,
    )


def open_grader(config: Config) -> FrozenPolicy | None:
    """The model that grades, if the data loop has one. Raises ``UsageError`` if it cannot be
    loaded."""
    if config.loop != "data_loop":
        return None
    return _open(config, config.data_loop.grader, "data_loop.grader", asks_words=True)


def load_rows(source: str) -> tuple[Problem, ...]:
    """The problems in words of a file. Raises ``UsageError``: one of them is none, is kept apart
    for evaluation, has no program that its statement could be about, or is alone in its language.
    """
    rows = open_benchmark(source).problems
    for language, num in Counter(row.language for row in rows).items():
        if num < 2:
            raise UsageError(
                f"{source}: there is one row of {language}; give two, since rows come in pairs"
            )
    for row in rows:
        formalizing = require_words(row, source)
        if row.split != "train":
            raise UsageError(
                f"{source}: problem {row.id!r} is of the split {row.split!r}: compose from "
                "training problems only"
            )
        if formalizing.ask_proof(row, "") is None:
            raise UsageError(
                f"{source}: problem {row.id!r} has no program of which its statement could be "
                "proved; give rows of `problems generate --formalize --with-program`"
            )
    return tuple(rows)


def _open(
    config: Config, settings: FrozenPolicyConfig, key: str, *, asks_words: bool = False
) -> FrozenPolicy | None:
    if not settings.is_set:
        return None
    # What is asked in words is asked in a conversation.
    layout = "instruct" if asks_words else settings.layout
    policy = open_beside(config, settings.path, settings.endpoint, layout, f"{key}.path")
    sampling = Sampling(temperature=settings.temperature, max_new_tokens=settings.max_new_tokens)
    return FrozenPolicy(policy, sampling)
