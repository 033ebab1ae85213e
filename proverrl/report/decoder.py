"""From a token id of a run's policy to its text, with the tokenizer that the run stored.

Flows in: a run folder. Flows out: a function. It loads neither weights nor torch, so that a report
of a run costs no more than its files. Not handled here: what the tokens mean.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from proverrl.errors import RunError

TOKENIZER_FILE = "tokenizer.json"


def find_tokenizer(run: Path) -> Path | None:
    """The run's ``tokenizer.json``, or None. All its policies share one, so that any will do."""
    checkpoints = sorted((run / "checkpoints").glob("step_*"), reverse=True)
    folders = (run, *checkpoints, run / "warm_start")
    files = (folder / "policy" / TOKENIZER_FILE for folder in folders)
    return next((file for file in files if file.is_file()), None)


def open_decoder(run: Path) -> Callable[[int], str]:
    """From a token id to its text; an id that the tokenizer lacks has none.

    Raises:
        RunError: the run has no tokenizer, or it cannot be loaded.
    """
    file = find_tokenizer(run)
    if file is None:
        raise RunError(
            f"{run} holds no {TOKENIZER_FILE}: neither in policy/, nor in checkpoints/*/policy/, "
            "nor in warm_start/policy/"
        )
    from tokenizers import Tokenizer

    try:
        text = file.read_text("utf-8")
        json.loads(text)  # the library's own complaint about a damaged file has no class
    except (OSError, ValueError) as error:
        raise RunError(f"{file}: the tokenizer cannot be loaded: {error}") from error
    tokenizer = Tokenizer.from_str(text)
    return lambda token: str(tokenizer.decode([token], skip_special_tokens=False))
