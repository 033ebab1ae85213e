"""Tasks that ask for code and its proof, as far as they are problems of ours: Verina and CLEVER.

Flows in: a ``Collector`` with its source. Flows out: its problems. A problem of ours asks for a
proof of a fixed statement, so a task fits when its code is given and its proof is not: Verina's
proof task with the reference code (189 tasks), CLEVER's correctness proof where the file holds an
implementation. Writing code, preconditions or specifications is refused with that reason: the kind
``program`` is Dafny's, and Lean has none like it.
Verina: Ye et al. 2025, arXiv 2505.23135. CLEVER: Thakur et al. 2025, arXiv 2505.13938.
"""

from __future__ import annotations

import re

from proverrl.benchmarks.base import Collector
from proverrl.benchmarks.lean_text import LeanText, add_lean
from proverrl.errors import ProblemError
from proverrl.files.lines import read_text

_VERINA_MARK = re.compile(r"^[ \t]*-- !benchmark @(start|end) (\w+).*\n?", re.MULTILINE)
CLEVER_MARK = re.compile(r"^[ \t]*--[ ]?(start|end)_def (\w+)[ \t]*\n?", re.MULTILINE)

_OPEN = re.compile(r"\bsorry\b")


def read_verina(collector: Collector) -> None:
    """The proof task of every ``task.lean``; the id is the folder's name."""
    for path in collector.source.list_files(".lean"):
        if path.name != "task.lean":
            continue
        name = path.parent.name
        with collector.reading(name, str(path)):
            description = path.parent / "description.txt"
            words = read_text(description) if description.exists() else ""
            text, proof = read_verina_task(read_text(path))
            given = LeanText(name, str(path), text, informal=words, proof=proof)
            add_lean(collector, given)


def read_verina_task(text: str) -> tuple[str, str | None]:
    """The file without marks and with ``sorry`` for its proof, and the proof if one is there.
    Raises ``ProblemError`` if its code or its conditions are left open."""
    blocks = _cut_blocks(text, _VERINA_MARK)
    for name in ("code", "precond", "postcond", "proof"):
        if name not in blocks:
            raise ProblemError(f"block {name!r} is missing, or its '-- !benchmark' marks are")
        if name != "proof" and _OPEN.search(blocks[name]):
            raise ProblemError(f"block {name!r} is left open: this asks for more than a proof")
    proof = blocks["proof"]
    if proof.strip() and _OPEN.search(proof) and proof.strip() != "sorry":
        raise ProblemError("block 'proof' holds a part of a proof and 'sorry'")
    if blocks.get("proof_aux", "").strip():
        raise ProblemError("block 'proof_aux' holds declarations of a proof")
    is_open = proof.strip() in ("", "sorry")
    start = next(m.end() for m in _VERINA_MARK.finditer(text) if m.groups() == ("start", "proof"))
    whole = f"{text[:start]}  sorry\n{text[start + len(proof) :]}"
    return _VERINA_MARK.sub("", whole), None if is_open else proof


def read_clever(collector: Collector) -> None:
    """The correctness proof of every problem whose implementation is given."""
    for path in collector.source.list_files(".lean"):
        with collector.reading(path.stem, str(path)):
            text, words, proof = read_clever_problem(read_text(path))
            given = LeanText(path.stem, str(path), text, informal=words, proof=proof)
            add_lean(collector, given)


def read_clever_problem(text: str) -> tuple[str, str, str | None]:
    """The file of the correctness proof, the problem in words, and the proof if one is there.

    The generated specification and its proof are another task and not part of this file. Raises
    ``ProblemError`` if the implementation is left open, or a section is missing.
    """
    blocks = _cut_blocks(text, CLEVER_MARK)
    needed = "problem_spec implementation_signature implementation correctness_definition".split()
    for name in needed:
        if name not in blocks:
            raise ProblemError(f"section {name!r} is missing")
    if _OPEN.search(blocks["implementation"]):
        raise ProblemError(
            "its implementation is left open: this asks for code, and only proofs are problems here"
        )
    head = text[: text.find("-- start_def")]
    parts = (
        head.rstrip() + "\n",
        blocks["problem_spec"],
        blocks["implementation_signature"].rstrip() + "\n" + blocks["implementation"],
        blocks["correctness_definition"],
    )
    proof = re.sub(r"\A\s*by\b[ \t]*\n?", "", blocks.get("correctness_proof", ""))
    has_proof = bool(proof.strip()) and not _OPEN.search(proof)
    whole = "\n".join(part.rstrip() + "\n" for part in parts)
    return whole, blocks.get("problem_details", ""), proof if has_proof else None


def _cut_blocks(text: str, mark: re.Pattern[str]) -> dict[str, str]:
    """The text between start and end of each block; a mark without its partner is passed over."""
    blocks: dict[str, str] = {}
    opened: re.Match[str] | None = None
    for match in mark.finditer(text):
        if match[1] == "start":
            opened = match
        elif opened is not None and opened[2] == match[2]:
            blocks[match[2]] = text[opened.end() : match.start()]
            opened = None
    return blocks
