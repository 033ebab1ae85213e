"""Reads the proofs that others claim, from their result files, to be rechecked.

Flows in: JSON lines, one JSON array or object of such objects, or a folder of proofs. Flows out, in
order: a ``Claim`` for every proof, or a ``Misfit`` for a line that cannot be read. Formats differ
in names only: a line may use any of the fields below; values may be lists of equal length, one
entry per sample.

- problem: ``name`` (DeepSeek-Prover), ``problem_id`` (Goedel-Prover, this package), ``id``,
  ``problem_name``, ``custom_id`` (Kimina Lean Server), ``test_file`` (DafnyBench);
- proof: ``full_code``, ``code``, ``verified_code``, ``lean4_code``, ``formal_proof``, ``proof``,
  ``llm_output`` (DafnyBench), or ``body`` for what stands in the hole alone (with ``prelude``, this
  package's attempts);
- claim: ``complete``, else ``correct``, ``is_correct``, ``verified``, ``success``, ``status``,
  ``pass``, on the line or in ``compilation_result``, ``verification_result``, ``result``,
  ``response``; without such a word an ``error``, and what Lean's REPL answered (``messages``,
  ``sorries``, as Kimina Lean Server gives it). A line that says nothing claims a proof.

DafnyBench publishes answers in ``reconstructed_files/MODEL_outputs.json``, and which of them were
proved in ``results_summary/MODEL_results.csv``. vericoding publishes a folder of those that were,
``vericoded/ID_vericoded.dfy``.

Not handled here: whether a claim holds (``proverrl.evaluation.recheck``).
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proverrl.errors import ProblemError, RunError, UsageError
from proverrl.evaluation.attempts import read_attempt
from proverrl.files.lines import read_text
from proverrl.files.strict_json import load_json
from proverrl.types import Status

NAME_FIELDS = ("name", "problem_id", "problem_name", "custom_id", "id", "test_file")
CODE_FIELDS = (
    *("full_code", "code", "verified_code", "lean4_code", "formal_proof", "proof", "llm_output"),
    "body",
)
CLAIM_FIELDS = ("complete", "correct", "is_correct", "verified", "success", "status", "pass")
_NESTED = ("compilation_result", "verification_result", "result", "response", "verdict")
_TRUE = frozenset("true proved valid verified success correct complete pass passed yes".split())
_FALSE = frozenset(
    "false invalid unverified failure failed fail incorrect wrong error no none unknown".split()
) | {status.value for status in Status if status is not Status.PROVED}

_CODE = re.compile(r"^// <vc-code>\n(.*?)^// </vc-code>$", re.DOTALL | re.MULTILINE)
_HELPERS = re.compile(
    r"^// <vc-helpers>\n(?:\s|//(?! </vc-helpers>).*\n)*+(?!// </vc-helpers>)", re.MULTILINE
)
"""Marks of vericoding: the code of an answer, and declarations that it adds."""


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
    """Everything that a file claims, line by line; the items of an array or an object, and the
    files of a folder in order, count as lines. Raises UsageError: the file cannot be read, holds
    nothing, or an array that is no JSON."""
    if path.is_dir():
        yield from _read_folder(path)
        return
    if path.suffix == ".csv":
        raise UsageError(
            f"{path}: a table holds no proofs; name the file or folder that holds them"
        )
    empty = True
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                text = raw.removeprefix(codecs.BOM_UTF8).strip()
                if empty and (text.startswith(b"[") or text == b"{"):
                    rows = enumerate(_add_outcomes(path, _read_array(path)), start=1)
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
    if isinstance(rows, dict):
        rows = list(rows.values()) if all(isinstance(v, dict) for v in rows.values()) else [rows]
    if not rows:
        raise UsageError(f"{path} holds no proof: its array is empty")
    return rows


def _read_folder(folder: Path) -> Iterator[Claim | Misfit]:
    """A claim of each Dafny or Lean file; its name is that of its problem."""
    files = sorted(p for p in folder.rglob("*") if p.suffix in (".dfy", ".lean") and p.is_file())
    if not files:
        raise UsageError(f"{folder} holds no proof; looked for .dfy and .lean files")
    for number, path in enumerate(files, start=1):
        names = (_cut_name(path.stem),)
        try:
            text = read_text(path)
        except ProblemError as error:
            yield Misfit(number, str(error))
            continue
        # With declarations of its own the answer is more than what stands in our hole.
        marked = None if _HELPERS.search(text) else _CODE.search(text)
        code = marked[1].strip("\n") if marked else text
        yield Claim(number, 0, names, code, True, is_body=marked is not None)


def _cut_name(name: str) -> str:
    """The name of a problem without what publishers add for their files."""
    return name.removesuffix(".dfy").removesuffix("_no_hints").removesuffix("_vericoded")


def _add_outcomes(path: Path, rows: list[Any]) -> list[Any]:
    """DafnyBench's answers with what its summary, where it is there, says of them. Raises
    UsageError: it does not say whether an answer was proved."""
    name = path.name.replace("_outputs.json", "_results.csv")
    summary = path.parent.parent / "results_summary" / name
    if path.parent.name != "reconstructed_files" or not summary.is_file():
        return rows
    try:
        table = csv.DictReader(read_text(summary).splitlines())
        said = {row["test_ID"]: row["success_on_attempt_#"] != "failed" for row in table}
        return [row | {"success": said[row["test_ID"]]} for row in rows]
    except (KeyError, TypeError) as error:
        raise UsageError(
            f"{summary} or {path} lacks {error}; remove the table to recheck all"
        ) from error
    except csv.Error as error:
        raise UsageError(f"{summary}: no table ({error}); remove it to recheck all") from error


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
    named = (row[key] for key in NAME_FIELDS if type(row.get(key)) in (str, int))
    names = tuple(_cut_name(str(name)) for name in named)
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
