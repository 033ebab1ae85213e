"""The folder of one search: its findings.

Flows in: a search that has ended. Flows out: ``tree.json``, the proof as a whole file, the
minimised proof beside it, the samples to learn from, and ``result.json``, which is written last: a
folder that has one is finished. Every file appears whole or not at all. Not handled here: running
the search.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from proverrl.config import SearchConfig
from proverrl.config.load import flatten_table
from proverrl.errors import RunError, UsageError
from proverrl.files.lines import make_file_name, write_whole
from proverrl.files.seal import add_seal, check_seal
from proverrl.files.strict_json import read_object
from proverrl.lang import find_language
from proverrl.problems.load import make_row
from proverrl.rollout.completion_counts import CompletionCounts
from proverrl.search.base import Search, SearchResult
from proverrl.search.minimise import Minimised
from proverrl.search.spending import SearchTurn
from proverrl.search.view import describe_tree
from proverrl.types import Candidate, Problem
from proverrl.version import __version__

TREE, RESULT, SAMPLES = "tree.json", "result.json", "samples.jsonl"
_IDENTITY = ("seed", "config", "settings", "problem")
_ANOTHER = "start in another folder with --out"


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
    if (path / RESULT).exists() or (path / TREE).exists():
        if not resume:
            raise RunError(
                f"{path} holds a search already; continue it with --resume, or start in another "
                "folder with --out"
            )
    elif any(child.name != ".lock" for child in path.iterdir()):
        raise RunError(f"{path} holds other things and no search; give another folder with --out")


@dataclass(frozen=True, slots=True)
class SearchFolder:
    """``settings`` are what verdicts and proposals depend on besides the search's own ``config``
    and ``seed``: what was found is only kept under the same."""

    path: Path
    config: SearchConfig
    seed: int
    settings: Mapping[str, Any]

    def read_result(self, problem: Problem) -> dict[str, Any] | None:
        """The result of a search that has ended; None where there is none. Raises ``RunError`` if
        the file is damaged, or the search had other settings."""
        path = self.path / RESULT
        if not path.exists():
            return None
        try:
            found = read_object(path)
        except (OSError, ValueError) as error:
            raise RunError(f"{path} cannot be read ({error}); {_ANOTHER}") from error
        check_seal(found, str(path), _ANOTHER)
        theirs = flatten_table({name: found.get(name) for name in _IDENTITY})
        ours = flatten_table(json.loads(json.dumps(self._identify(problem))))
        if other := [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]:
            raise RunError(
                f"{path} was searched with other settings ({', '.join(other)}): continue with "
                "those, or start in another folder with --out"
            )
        return found

    def _identify(self, problem: Problem) -> dict[str, Any]:
        """The settings that must be the same when searches are continued."""
        return {
            "seed": self.seed,
            "config": self.config.model_dump(mode="json"),
            "settings": dict(self.settings),
            "problem": make_row(problem),
        }

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

    def write_result(
        self, search: Search, result: SearchResult, minimised: Minimised | None, seconds: float
    ) -> dict[str, Any]:
        """Everything but the tree, as JSON values; returns them."""
        found = describe_result(result) | {
            "walk": result.walk,
            "minimised": minimised and _describe_minimised(minimised),
            "seconds": round(seconds, 3),
            **self._identify(search.problem),
            "proverrl_version": __version__,
        }
        shown = add_seal(found)
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
