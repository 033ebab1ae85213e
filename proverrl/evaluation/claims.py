"""Reads the proofs that others claim, from their result files, to be rechecked.

Flows in: JSON lines, or one JSON array of such objects. Flows out, in order: a ``Claim`` for every
proof that a line holds, or a ``Misfit`` for a line that cannot be read. Formats differ in names
only: a line may use any of the fields below; values may be lists of equal length, one entry per
sample.

- problem: ``name`` (DeepSeek-Prover), ``problem_id`` (Goedel-Prover, this package), ``id``
  (DafnyBench), ``problem_name``, ``custom_id`` (Kimina Lean Server);
- proof: ``full_code``, ``code``, ``verified_code``, ``lean4_code``, ``formal_proof``, ``proof``, or
  ``body`` for what stands in the hole alone (with ``prelude``, this package's attempts);
- claim: ``complete``, else ``correct``, ``is_correct``, ``verified``, ``success``, ``status``,
  ``pass``, on the line or in ``compilation_result``, ``verification_result``, ``result``,
  ``response``; without such a word an ``error``, and what Lean's REPL answered (``messages``,
  ``sorries``, as Kimina Lean Server gives it). A line that says nothing claims a proof.

Not handled here: whether a claim holds (``proverrl.evaluation.recheck``).
"""

from __future__ import annotations

import codecs
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proverrl.errors import RunError, UsageError
from proverrl.evaluation.attempts import read_attempt
from proverrl.files.strict_json import load_json
from proverrl.types import Status

NAME_FIELDS = ("name", "problem_id", "problem_name", "custom_id", "id")
CODE_FIELDS = ("full_code", "code", "verified_code", "lean4_code", "formal_proof", "proof", "body")
CLAIM_FIELDS = ("complete", "correct", "is_correct", "verified", "success", "status", "pass")
_NESTED = ("compilation_result", "verification_result", "result", "response", "verdict")
_TRUE = frozenset("true proved valid verified success correct complete pass passed yes".split())
_FALSE = frozenset(
    "false invalid unverified failure failed fail incorrect wrong error no none unknown".split()
) | {status.value for status in Status if status is not Status.PROVED}


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
    """A line that fits no format; ``reason`` says what is missing."""

    line: int
    reason: str


def read_claims(path: Path) -> Iterator[Claim | Misfit]:
    """Everything that a file claims, line by line; the items of an array count as lines. Raises
    UsageError: the file cannot be read, holds nothing, or an array that is no JSON."""
    empty = True
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                text = raw.removeprefix(codecs.BOM_UTF8).strip()
                if empty and text.startswith(b"["):
                    rows = enumerate(_read_array(path), start=1)
                    yield from (item for place, row in rows for item in _read_row(row, place))
                    return
                if text:
                    empty = False
                    yield from _read_line(raw, number)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; check the path") from error
    if empty:
        raise UsageError(f"{path} holds no line; write one JSON object per line")


def _read_array(path: Path) -> list[Any]:
    try:
        rows: list[Any] = load_json(path.read_bytes().decode("utf-8-sig"), allow_nan=True)
    except json.JSONDecodeError as error:
        place = f"{path}, line {error.lineno}, column {error.colno}"
        raise UsageError(f"{place}: not JSON ({error.msg}); close the array") from error
    except ValueError as error:
        raise UsageError(f"{path}: not JSON: {error}") from error
    if not rows:
        raise UsageError(f"{path} holds no proof: its array is empty")
    return rows


def _read_line(raw: bytes, line: int) -> Iterator[Claim | Misfit]:
    try:
        row = load_json(raw.decode("utf-8-sig"), allow_nan=True)
    except ValueError as error:
        yield Misfit(line, f"not JSON: {error}"[:200])
        return
    yield from _read_row(row, line)


def _read_row(row: object, line: int) -> Iterator[Claim | Misfit]:
    if not isinstance(row, dict):
        yield Misfit(line, f"a {type(row).__name__}, not a JSON object")
        return
    if "problem_id" in row and "turns" in row:
        # An attempt of ours.
        try:
            read_attempt(row, "")
        except RunError as error:
            yield Misfit(line, str(error))
            return
    names = tuple(str(row[key]) for key in NAME_FIELDS if type(row.get(key)) in (str, int))
    if any("\ud800" <= char <= "\udfff" for name in names for char in name):
        yield Misfit(line, "the name of its problem holds half of a surrogate pair")
        return
    if not names:
        yield Misfit(line, f"names no problem; looked for {', '.join(NAME_FIELDS)}")
        return
    field = next((key for key in CODE_FIELDS if row.get(key) is not None), "")
    try:
        claims = _find_claims(row)
    except UsageError as error:
        yield Misfit(line, str(error))
        return
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
    prelude = (row.get("prelude") or "") if field == "body" else ""
    if not isinstance(prelude, str):
        yield Misfit(line, f"field 'prelude' holds a {type(prelude).__name__}, not a text")
        return
    for number, (code, claimed) in enumerate(zip(codes, flags, strict=True)):
        yield Claim(line, number, names, code, claimed, field == "body", prelude)


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]


def _find_claims(row: Mapping[str, Any]) -> list[bool] | None:
    """The claims that a line makes of its proofs; None when it makes none. The strictest word
    counts: DeepSeek's ``pass`` is also true of a proof with a sorry in it."""
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
    return [False] if any(map(_says_error, places)) else None


def _says_error(said: Mapping[str, Any]) -> bool:
    """True if a server's answer is an error, or one of Lean's REPL tells of errors or sorries."""
    messages = said.get("messages")
    told = [m.get("severity") for m in _as_list(messages) if isinstance(m, dict)]
    is_refusal = "message" in said and said.keys() <= {"message", "time"}
    return is_refusal or "error" in told or bool(said.get("error") or said.get("sorries"))


def _is_true(value: Any) -> bool:
    if not isinstance(value, str):
        return bool(value)
    word = value.strip().lower()
    if word not in _TRUE | _FALSE:
        raise UsageError(
            f"{value[:40]!r} neither claims a proof nor says that there is none; known are "
            + ", ".join(sorted(_TRUE | _FALSE))
        )
    return word in _TRUE
