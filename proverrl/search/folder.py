"""The folder of one search: its saved state and its findings.

Flows in: a search, while it runs and at its end. Flows out: ``search.json`` (its whole state),
``tree.json``, the proof as a whole file, the minimised proof beside it, and
``result.json``, which is written last. Every file appears whole or not at all, so that a kill at
any moment leaves a folder that can be continued. Not handled here: running the search.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import Any

from proverrl.config import SearchConfig
from proverrl.errors import RecordError, RunError, UsageError
from proverrl.files.lines import make_file_name, write_whole
from proverrl.files.seal import check_seal, write_sealed
from proverrl.files.strict_json import read_object
from proverrl.lang import find_language
from proverrl.problems.load import make_row
from proverrl.rollout.completion_counts import CompletionCounts
from proverrl.search.base import Search, SearchResult
from proverrl.search.minimise import Minimised
from proverrl.search.pooled_hints import PooledHints
from proverrl.search.spending import SearchTurn
from proverrl.search.view import describe_tree
from proverrl.types import Candidate, Problem
from proverrl.version import __version__

STATE, TREE, RESULT = "search.json", "tree.json", "result.json"

_SAVING_SHARE = 0.05
"""Saving is put off so that it takes at most this share of the time."""


def name_folders(out: Path, problems: Sequence[Problem]) -> dict[str, Path]:
    """A folder for each problem, by its id. Raises ``UsageError`` if a problem is given twice, or
    two ids would have one folder."""
    found: dict[str, Path] = {}
    for problem in problems:
        if problem.id in found:
            raise UsageError(f"problem {problem.id!r} is given twice; give it once")
        path = out / make_file_name(problem.id)
        taken = next((name for name, other in found.items() if other == path), None)
        if taken is not None:
            raise UsageError(
                f"problems {taken!r} and {problem.id!r} would both be searched in {path}; "
                "search them one at a time, with --out FOLDER for each"
            )
        found[problem.id] = path
    return found


def check_folder(path: Path, *, resume: bool) -> None:
    """Refuse a folder that holds something, unless it is to be continued. Raises ``RunError`` if it
    holds other things, or holds a search and ``resume`` is not set."""
    if not path.exists():
        return
    if not path.is_dir():
        raise RunError(f"{path} is a file; give another folder with --out")
    if (path / STATE).exists():
        if not resume:
            raise RunError(
                f"{path} holds a search already; continue it with --resume, or start in another "
                "folder with --out"
            )
    elif any(child.name != ".lock" for child in path.iterdir()):
        raise RunError(f"{path} holds other things and no search; give another folder with --out")


@dataclass
class SearchFolder:
    """``settings`` are what verdicts and proposals depend on besides the search's own ``config``
    and ``seed``: a search is only continued under the same. ``seconds`` were spent on it before.
    """

    path: Path
    config: SearchConfig
    seed: int
    settings: Mapping[str, Any]
    clock: Callable[[], float] = time.monotonic
    seconds: float = 0.0
    _started: float = field(init=False)
    _saved: float = float("-inf")
    _cost: float = 0.0

    def __post_init__(self) -> None:
        self._started = self.clock()

    @property
    def spent_seconds(self) -> float:
        """All time so far, that of earlier calls included up to their last saving."""
        return self.seconds + self.clock() - self._started

    def load(self, search: Search) -> bool:
        """Put the search where it was saved; False when nothing was saved yet. Raises ``RunError``
        if the file is damaged, or the search has other settings."""
        path = self.path / STATE
        if not path.exists():
            return False
        try:
            saved = read_object(path)
            settings, seconds, state = saved["settings"], float(saved["seconds"]), saved["search"]
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            raise RunError(
                f"{path} cannot be read ({error!r}); start in another folder with --out"
            ) from error
        check_seal(saved, str(path), "start in another folder with --out")
        keys = sorted({*settings, *self.settings})
        other = [key for key in keys if settings.get(key) != self.settings.get(key)]
        if other:
            raise RunError(
                f"{path} was searched with other settings ({', '.join(other)}): "
                "continue with those, or start in another folder with --out"
            )
        with _explain(path):
            search.load_state_dict(state)
        self.seconds = seconds
        return True

    def save(self, search: Search) -> None:
        """Write the whole state."""
        begun = self.clock()
        saved = {
            "settings": dict(self.settings),
            "seconds": round(self.spent_seconds, 3),
            "search": search.state_dict(),
        }
        # ASCII, since a policy may write half a surrogate pair, which UTF-8 cannot hold.
        write_whole(self.path / STATE, write_sealed(saved) + "\n")
        self._saved = self.clock()
        self._cost = self._saved - begun

    def save_if_due(self, search: Search) -> None:
        """``save`` after every expansion of a small search; of a large one now and then."""
        if self.clock() - self._saved >= self._cost / _SAVING_SHARE:
            self.save(search)

    def write_tree(self, search: Search, bodies: Sequence[str]) -> None:
        """The tree as JSON, with the ways to the proofs in ``bodies``."""
        described = describe_tree(
            search.tree, problem_id=search.problem.id, name=self.config.name, bodies=bodies
        )
        write_whole(self.path / TREE, json.dumps(described, indent=1) + "\n")

    def write_proof(self, problem: Problem, body: str, *, minimised: bool = False) -> Path:
        """The whole file with a proof in it."""
        return write_whole(self._place(problem, minimised), Candidate(problem, body).source)

    def drop_proofs(self, problem: Problem) -> None:
        """Remove the files that speak of proofs, of which one is none any more."""
        (self.path / RESULT).unlink(missing_ok=True)
        for minimised in (False, True):
            self._place(problem, minimised).unlink(missing_ok=True)

    def _place(self, problem: Problem, minimised: bool) -> Path:
        stem = "proof.min" if minimised else "proof"
        return self.path / f"{stem}{find_language(problem.language).suffix}"

    def read_result(self) -> dict[str, Any] | None:
        """The result that ``write_result`` wrote; None when there is none or it cannot be read."""
        try:
            return read_object(self.path / RESULT)
        except (OSError, ValueError):
            return None

    def write_result(
        self, search: Search, result: SearchResult, minimised: Minimised | None
    ) -> dict[str, Any]:
        """Everything but the tree, as JSON values; returns them."""
        shown = describe_result(result) | {
            "walk": search.last_walk if isinstance(search, PooledHints) else None,
            "minimised": minimised and _describe_minimised(minimised),
            "seconds": round(self.spent_seconds, 3),
            "seed": self.seed,
            "config": self.config.model_dump(mode="json"),
            "settings": dict(self.settings),
            "problem": make_row(search.problem),
            "proverrl_version": __version__,
        }
        write_whole(self.path / RESULT, json.dumps(shown, indent=1) + "\n")
        return shown


def count_turns(turns: Sequence[SearchTurn]) -> CompletionCounts:
    """A search's completions by their outcome; a body that was only verified is none."""
    counts = CompletionCounts()
    for turn in turns:
        if turn.num_tokens:
            counts.add(truncated=turn.truncated, reason=turn.reason)
    return counts


def describe_result(result: SearchResult) -> dict[str, Any]:
    """Findings and spending, as JSON values."""
    counts = count_turns(result.turns)
    return {
        "problem_id": result.problem_id,
        "search": result.name,
        "proved": result.proved,
        "stopped": result.stopped,
        "calls": result.calls,
        "tokens": result.tokens,
        "verifier_seconds": result.verifier_seconds,
        "confirmations": result.confirmations,
        "expansions": result.expansions,
        "completions": counts.num,
        **counts.figures(),
        "proofs": [
            {
                "body": proof.body,
                "calls": proof.calls,
                "tokens": proof.tokens,
                "confirmed": proof.confirmed,
                "toolchain": proof.verdict.toolchain,
                "checks": list(proof.verdict.checks),
            }
            for proof in result.proofs
        ],
        "refuted": [{"body": body, "status": v.status.value} for body, v in result.refuted],
        "curve": [astuple(point) for point in result.curve],
    }


def _describe_minimised(minimised: Minimised) -> dict[str, Any]:
    verdict = minimised.verdict
    return asdict(minimised) | {"verdict": verdict and verdict.status.value}


@contextmanager
def _explain(path: Path) -> Iterator[None]:
    """Name the file of a saved search that cannot be continued."""
    try:
        yield
    except RunError as error:
        raise RunError(f"{path}: {error} (--out)") from error
    except (RecordError, LookupError, AttributeError, TypeError, ValueError) as error:
        raise RunError(
            f"{path} is damaged ({error!r}); start in another folder with --out"
        ) from error
