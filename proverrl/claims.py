"""Reads result files of others: which proofs they claim.

Flows in: JSON lines. Flows out, in order: a ``Claim`` for every proof that a line holds, or a
``Misfit`` for a line that cannot be read. Layouts differ in names only, so that a line may use any
of the fields below; values may be lists of equal length, one entry a sample.

- problem: ``name`` (DeepSeek-Prover), ``problem_id`` (Goedel-Prover, this package), ``id``
  (DafnyBench), ``problem_name``, ``custom_id`` (Kimina Lean Server);
- proof: ``full_code``, ``code``, ``verified_code``, ``lean4_code``, ``formal_proof``, ``proof``, or
  ``body`` for what stands in the hole alone (with ``prelude``, this package's attempts);
- claim: ``complete``, else ``correct``, ``is_correct``, ``verified``, ``success``, ``status``,
  ``pass``, on the line or in ``compilation_result``, ``verification_result``, ``result``,
  ``response``. A line that says nothing claims a proof.

Not handled here: whether a claim holds (``proverrl.recheck``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proverrl.errors import UsageError
from proverrl.types import Status

NAME_FIELDS = ("name", "problem_id", "problem_name", "custom_id", "id")
CODE_FIELDS = ("full_code", "code", "verified_code", "lean4_code", "formal_proof", "proof", "body")
CLAIM_FIELDS = ("complete", "correct", "is_correct", "verified", "success", "status", "pass")
_NESTED = ("compilation_result", "verification_result", "result", "response", "verdict")
_WORDS = {
    "true": True,
    "proved": True,
    "valid": True,
    "verified": True,
    "success": True,
    "correct": True,
    "complete": True,
    "pass": True,
}


@dataclass(frozen=True, slots=True)
class Claim:
    """One proof of a line. ``names`` are what the line calls its problem, best first; ``number``
    counts the samples of a line from 0. ``code`` is None where a line claims a proof and holds
    none. ``is_body`` says that it is the text of the hole alone, and ``prelude`` what the policy
    put before the statement."""

    line: int
    number: int
    names: tuple[str, ...]
    code: str | None
    claimed: bool
    is_body: bool = False
    prelude: str = ""

    @property
    def digest(self) -> str:
        """SHA-256 of what is claimed, so that a file that changed is noticed."""
        text = json.dumps([self.names, self.code, self.is_body, self.prelude])
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Misfit:
    """A line that fits no layout; ``reason`` says what is missing."""

    line: int
    reason: str


def read_claims(path: Path) -> Iterator[Claim | Misfit]:
    """Everything that a file claims, line by line.

    Raises:
        UsageError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                if raw.strip():
                    yield from _read_line(raw, number)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; check the path") from error


def _read_line(raw: bytes, line: int) -> Iterator[Claim | Misfit]:
    try:
        row = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        yield Misfit(line, f"not JSON: {error}"[:200])
        return
    if not isinstance(row, dict):
        yield Misfit(line, f"a {type(row).__name__}, not a JSON object")
        return
    names = tuple(str(row[key]) for key in NAME_FIELDS if isinstance(row.get(key), (str, int)))
    if not names:
        yield Misfit(line, f"names no problem; looked for {', '.join(NAME_FIELDS)}")
        return
    field = next((key for key in CODE_FIELDS if row.get(key) is not None), "")
    claims = _find_claims(row)
    if not field and claims is None:
        yield Misfit(line, f"holds no proof; looked for {', '.join(CODE_FIELDS)}")
        return
    codes = _as_list(row.get(field)) if field else [None]
    flags = [True] * len(codes) if claims is None else claims
    if len(flags) == 1:
        flags *= len(codes)
    if len(flags) != len(codes):
        yield Misfit(line, f"{len(codes)} proofs in {field!r} and {len(flags)} claims")
        return
    if wrong := [code for code in codes if not isinstance(code, str | None)]:
        yield Misfit(line, f"field {field!r} holds a {type(wrong[0]).__name__}, not a text")
        return
    prelude = row.get("prelude") if field == "body" else ""
    for number, (code, claimed) in enumerate(zip(codes, flags, strict=True)):
        yield Claim(
            line, number, names, code, claimed, field == "body", str(prelude) if prelude else ""
        )


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]


def _find_claims(row: Mapping[str, Any]) -> list[bool] | None:
    """What a line says of its proofs; None when nothing. The strictest word counts: DeepSeek's
    ``pass`` is also true of a proof with a sorry in it."""
    places: list[Mapping[str, Any]] = [row]
    for key in _NESTED:
        inner = row.get(key)
        if isinstance(inner, dict):
            places.append(inner)
        elif isinstance(inner, list) and inner and all(isinstance(item, dict) for item in inner):
            found = [_find_claims(item) for item in inner]
            return [entry is not None and entry[0] for entry in found]
    for field in CLAIM_FIELDS:
        for place in places:
            if field in place and place[field] is not None:
                return [_is_true(value) for value in _as_list(place[field])]
    return None


def _is_true(value: Any) -> bool:
    if isinstance(value, str):
        return _WORDS.get(value.strip().lower(), value == Status.PROVED)
    return bool(value)
