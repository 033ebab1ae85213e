"""Tasks of code and its proof in Lean, as problems of ours: Verina and CLEVER.

Flows in: a ``Collector`` with its source. Flows out: its problems, of one of two tasks. Of the
proof, where the code is given: Verina's proof task with the reference code (189 tasks), CLEVER's
correctness proof where the file holds an implementation. Or of code and proof together, as one
definition (``ask_for_code``): what the file has of them is left out. Writing preconditions or
specifications is refused with that reason.
Verina: Ye et al. 2025, arXiv 2505.23135. CLEVER: Thakur et al. 2025, arXiv 2505.13938.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from proverrl.benchmarks.base import Collector
from proverrl.benchmarks.lean_text import LeanText, add_code, add_lean, uses_declarations
from proverrl.errors import ProblemError
from proverrl.files.lines import read_text

_VERINA_MARK = re.compile(r"^[ \t]*-- !benchmark @(start|end) (\w+).*\n?", re.MULTILINE)
CLEVER_MARK = re.compile(r"^[ \t]*--[ ]?(start|end)_def (\w+)[ \t]*\n?", re.MULTILINE)

_OPEN = re.compile(r"\bsorry\b")


_SOLUTION = ("solution_aux", "code_aux", "proof_aux")
"""Blocks of a file of Verina for its code and its proof; conditions use them only by chance."""
_CONDITIONS = ("precond", "postcond")


def read_verina(collector: Collector, *, code: bool = False) -> None:
    """The proof task of every ``task.lean``, or the one that asks for ``code`` as well; the id is
    the folder's name."""
    for path in collector.source.list_files(".lean"):
        if path.name != "task.lean":
            continue
        name = path.parent.name
        with collector.reading(name, str(path)):
            description = path.parent / "description.txt"
            words = read_text(description) if description.exists() else ""
            whole = read_text(path)
            text, proof = (read_verina_code(whole), None) if code else read_verina_task(whole)
            given = LeanText(name, str(path), text, informal=words, proof=proof)
            (add_code if code else add_lean)(collector, given)


def read_verina_task(text: str) -> tuple[str, str | None]:
    """The file without marks and with ``sorry`` for its proof, and the proof if one is there.
    Raises ``ProblemError`` if its code or its conditions are left open."""
    blocks = _read_verina_blocks(text, given=("code", *_CONDITIONS))
    proof = blocks["proof"]
    if proof.strip() and _OPEN.search(proof) and proof.strip() != "sorry":
        raise ProblemError("block 'proof' holds a part of a proof and 'sorry'")
    if blocks.get("proof_aux", "").strip():
        raise ProblemError("block 'proof_aux' holds declarations of a proof")
    is_open = proof.strip() in ("", "sorry")
    return _write_verina(text, blocks, {"proof": "  sorry\n"}), None if is_open else proof


def read_verina_code(text: str) -> str:
    """The file without marks and with ``sorry`` for its code and its proof, whatever it has of
    them. Raises ``ProblemError`` if a condition is left open."""
    blocks = _read_verina_blocks(text, given=_CONDITIONS)
    left_out = {"code": "  sorry\n", "proof": "  sorry\n"}
    left_out |= {name: "" for name in _SOLUTION if not _serves_conditions(name, blocks)}
    return _write_verina(text, blocks, left_out)


def _write_verina(text: str, blocks: Mapping[str, str], changed: Mapping[str, str]) -> str:
    """The file without marks and with other texts in some of its blocks."""
    starts = {m[2]: m.end() for m in _VERINA_MARK.finditer(text) if m[1] == "start"}
    # From the end, so that the places before stay right.
    for name, place in sorted(starts.items(), key=lambda start: start[1], reverse=True):
        if name in changed and name in blocks:
            text = text[:place] + changed[name] + text[place + len(blocks[name]) :]
    return _VERINA_MARK.sub("", text)


def _serves_conditions(name: str, blocks: Mapping[str, str]) -> bool:
    """True if a condition uses a name that this block declares."""
    conditions = [blocks.get(f"{one}{end}", "") for one in _CONDITIONS for end in ("", "_aux")]
    return uses_declarations("\n".join(conditions), blocks.get(name, ""))


def _read_verina_blocks(text: str, given: Sequence[str]) -> dict[str, str]:
    """Raises ``ProblemError`` if a block of a task is missing, or one of ``given`` is open."""
    blocks = _cut_blocks(text, _VERINA_MARK)
    for name in ("code", "precond", "postcond", "proof"):
        if name not in blocks:
            raise ProblemError(f"block {name!r} is missing, or its '-- !benchmark' marks are")
        if name in given and _OPEN.search(blocks[name]):
            raise ProblemError(f"block {name!r} is left open: this asks for more than a proof")
    return blocks


def read_clever(collector: Collector, *, code: bool = False) -> None:
    """The correctness proof of every problem whose implementation is given; or, for ``code``, the
    implementation of every problem and its proof."""
    for path in collector.source.list_files(".lean"):
        with collector.reading(path.stem, str(path)):
            text, words, proof = read_clever_problem(read_text(path), code=code)
            given = LeanText(path.stem, str(path), text, informal=words, proof=proof)
            (add_code if code else add_lean)(collector, given)


def read_clever_problem(text: str, *, code: bool = False) -> tuple[str, str, str | None]:
    """The file of the correctness proof, the problem in words, and the proof if one is there; for
    ``code`` with ``sorry`` for its implementation, and without a proof.

    The generated specification and its proof are another task and not part of this file. Raises
    ``ProblemError`` if a section is missing, or the implementation is left open and not asked for.
    """
    blocks = _cut_blocks(text, CLEVER_MARK)
    needed = "problem_spec implementation_signature implementation correctness_definition".split()
    for name in needed:
        if name not in blocks:
            raise ProblemError(f"section {name!r} is missing")
    if code:
        blocks |= {"implementation": "  sorry\n", "correctness_proof": ""}
    elif _OPEN.search(blocks["implementation"]):
        raise ProblemError(
            "its implementation is left open: this asks for code; read it with --format clever_code"
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
