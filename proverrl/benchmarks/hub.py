"""Data sets of the Hugging Face hub, by id: ``hf:ID`` or ``hf:ID:SPLIT``.

Flows in: the text. Flows out: a ``RawBenchmark`` of its rows. Writing the id asks for the download;
what the library has in its cache is not fetched again. A local folder is an id, too.
Not handled here: data sets with several configurations and no default; gated ones without a token.
"""

from __future__ import annotations

from proverrl.benchmarks.base import RawBenchmark, rows_source
from proverrl.errors import ProblemError

HUB_PREFIX = "hf:"


def read_hub(text: str) -> RawBenchmark:
    """All rows of a split; without one, the only split there is, else ``test``.

    Raises:
        ProblemError: it cannot be had, or it has no such split.
    """
    name, _, split = text.removeprefix(HUB_PREFIX).partition(":")
    if not name:
        raise ProblemError(f"{text!r}: write hf:OWNER/NAME or hf:OWNER/NAME:SPLIT")
    import datasets

    try:
        found = datasets.load_dataset(name)
    except (OSError, ValueError) as error:
        first = str(error).strip().split("\n")[0]
        raise ProblemError(
            f"{text}: the data set cannot be had: {first}; check the id and the network, or "
            "download it elsewhere and give the path of its .jsonl file"
        ) from error
    splits = list(found)
    chosen = split or (splits[0] if len(splits) == 1 else "test")
    if chosen not in splits:
        raise ProblemError(f"{text}: no split {chosen!r}; it has {', '.join(splits)}")
    return rows_source(f"{HUB_PREFIX}{name}:{chosen}", [dict(row) for row in found[chosen]])
