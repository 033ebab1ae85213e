"""One atomic checkpoint: policy, learner, and the state of a loop.

Flows in: the live objects of a loop. Flows out: ``checkpoints/step_NNNNNN/``, complete or absent:
it is written under another name, synced and renamed. The two newest are kept.
Not handled here: metrics and rollout files (the monitor cuts them back on resume).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from proverrl.errors import RunError
from proverrl.files.disk import appearing, saving
from proverrl.files.seal import CHANGED, SEAL, has_own_seal, write_sealed
from proverrl.files.strict_json import read_object
from proverrl.lang.records import Extraction
from proverrl.rollout.whole_proof import Draw, dump_completion, load_completion
from proverrl.types import Hint, Problem

KEPT = 2
STATE_FILE = "state.json"
_NAME = re.compile(r"step_(\d+)")


def save_checkpoint(
    folder: Path,
    step: int,
    state: Mapping[str, Any],
    *,
    save_policy: Callable[[Path], None],
    save_learner: Callable[[Path], None] | None = None,
    save_files: Callable[[Path], None] | None = None,
) -> Path:
    """Write ``folder/step_NNNNNN`` in one move and drop all but the two newest. ``state`` holds
    JSON values; ``save_files`` puts further files into the folder. Raises ``RunError`` when the
    disk refuses."""
    final = folder / f"step_{step:06d}"
    with saving(final):
        try:
            with appearing(final) as unfinished:
                (unfinished / "policy").mkdir()
                save_policy(unfinished / "policy")
                if save_learner is not None:
                    save_learner(unfinished / "learner.pt")
                if save_files is not None:
                    save_files(unfinished)
                sealed = write_sealed({"step": step, **state})
                (unfinished / STATE_FILE).write_text(sealed, "utf-8")
        finally:
            for old in _checkpoints(folder)[:-KEPT]:
                shutil.rmtree(folder / f"step_{old:06d}", ignore_errors=True)
    return final


def latest_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint, or None."""
    steps = _checkpoints(folder)
    return folder / f"step_{steps[-1]:06d}" if steps else None


def read_state(checkpoint: Path) -> dict[str, Any]:
    """The JSON state of a checkpoint. Raises ``RunError``: it is damaged, or was changed after it
    was written."""
    try:
        state = read_object(checkpoint / STATE_FILE)
    except (OSError, ValueError) as error:
        raise _explain_damage(checkpoint, str(error)) from error
    if not has_own_seal(state):
        raise _explain_damage(checkpoint, CHANGED)
    state.pop(SEAL)
    step, place = state.get("step"), _NAME.fullmatch(checkpoint.name)
    if type(step) is not int or step < 0 or (place is not None and step != int(place[1])):
        raise _explain_damage(checkpoint, f"step is {step!r:.40}")
    return state


@contextmanager
def restoring(checkpoint: Path) -> Iterator[None]:
    """Inside, a state that lacks its form is a damaged checkpoint: ``RunError``."""
    try:
        yield
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise _explain_damage(checkpoint, repr(error)) from error


def _explain_damage(checkpoint: Path, reason: str) -> RunError:
    return RunError(
        f"{checkpoint / STATE_FILE}: damaged checkpoint ({reason}); delete its folder to use the "
        "one before"
    )


def dump_draws(draws: Sequence[Draw]) -> list[dict[str, Any]]:
    """Draws as JSON values."""
    return [
        {
            "id": draw.id,
            "problem_id": draw.problem.id,
            "hint": draw.hint and asdict(draw.hint),
            "extractions": [asdict(extraction) for extraction in draw.extractions],
            "completions": [dump_completion(c) for c in draw.completions],
        }
        for draw in draws
    ]


def load_draws(rows: Sequence[Mapping[str, Any]], problems: Mapping[str, Problem]) -> list[Draw]:
    """Reads the draws that ``dump_draws`` wrote. Raises ``RunError``: a problem of the checkpoint
    is not among this run's."""
    draws = []
    for row in rows:
        problem = problems.get(row["problem_id"])
        if problem is None:
            raise RunError(
                f"the checkpoint draws on problem {row['problem_id']!r}, which is not in the "
                "training file any more; resume with the file that the run began with"
            )
        completions = tuple(load_completion(c) for c in row["completions"])
        extractions = tuple(
            Extraction(e["body"], e["prelude"], e["reason"], e["span"] and tuple(e["span"]))
            for e in row["extractions"]
        )
        hint = row["hint"] and load_hint(row["hint"])
        draws.append(Draw(row["id"], problem, completions, extractions, hint))
    return draws


def load_hint(row: Mapping[str, Any]) -> Hint:
    """The hint of which ``asdict`` made these JSON values."""
    return Hint(row["source"], row["ratio"], row["text"], tuple(row["token_ids"]))


def _checkpoints(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    matches = (_NAME.fullmatch(path.name) for path in folder.iterdir())
    return sorted(int(match[1]) for match in matches if match)
