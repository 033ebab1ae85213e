"""Read the keywords of a Lean and say which of them nobody has judged.

    python scripts/lean_keywords.py /path/to/bin/lean

A word is a keyword if Lean cannot read it as the name of a variable, and it starts a command if
Lean does not answer that it expected one. That needs no ``import Lean``. Asked are all words in
the strings of Lean's shared libraries, and those that the package knows. A word whose string the
linker merged into the end of a longer one is not found there, and tactics are no keywords.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from proverrl.lang.lean.syntax.keywords import PROOF_KEYWORDS
from proverrl.lang.lean.syntax.words import KEYWORDS, judge_word

_WORD = re.compile(rb"[A-Za-z][A-Za-z_]{1,40}[!?%]? ?")
_MANGLED = re.compile(r"[a-z]_[A-Z]|__|^l[A-Z_]")  # names of the compiled code
_FLAGS = ("--json", "-DmaxErrors=0", "-Dlinter.unusedVariables=false")
_CHUNK = 500
# Behind a word that wants more text, Lean skips what follows until it finds a command again.
_FILLER = ("example : True := trivial",) * 3


def find_libraries(lean: Path) -> list[Path]:
    """The shared libraries of Lean that a ``lean`` program loads."""
    listed = subprocess.run(["ldd", str(lean)], capture_output=True, text=True, check=True).stdout
    found = {Path(path) for path in re.findall(r"=> (\S*lean\S*\.so)", listed)}
    prefix = subprocess.run([str(lean), "--print-prefix"], capture_output=True, text=True)
    found |= set(Path(prefix.stdout.strip() or "/").glob("lib/lean/*.so"))
    return sorted(found)


def read_words(libraries: Iterable[Path]) -> set[str]:
    """The words in their strings."""
    found: set[str] = set()
    for path in libraries:
        for piece in set(path.read_bytes().split(b"\0")):
            if len(piece) < 44 and _WORD.fullmatch(piece):
                found.add(piece.decode().strip())
    return {word for word in found if not _MANGLED.search(word)}


def ask(lean: Path, lines: Iterable[str]) -> list[tuple[int, int, str]]:
    """Line, column and text of what Lean says about a file. Raises ``RuntimeError`` when it did
    not read the file to its end."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "Probe.lean"
        path.write_text("\n".join([*lines, *_FILLER, "#check proverrl_end", ""]), "utf-8")
        done = subprocess.run([str(lean), *_FLAGS, str(path)], capture_output=True, text=True)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    if not any("proverrl_end" in message["data"] for message in said):
        raise RuntimeError(f"Lean did not reach the end of the file: {done.stderr[:500]}")
    return [(m["pos"]["line"], m["pos"]["column"], m["data"]) for m in said]


def find_keywords(lean: Path, words: Iterable[str]) -> set[str]:
    """Those of ``words`` that cannot name a variable. One after which Lean reads no further, so
    that its own answer is not known, counts as a keyword."""
    asked = sorted(words)
    if len(asked) > _CHUNK:
        parts = [asked[start : start + _CHUNK] for start in range(0, len(asked), _CHUNK)]
        return set().union(*(find_keywords(lean, part) for part in parts))
    opening = "example ("
    try:
        said = ask(lean, [f"{opening}{word} : Nat) : Nat := 0" for word in asked])
    except RuntimeError:
        half = len(asked) // 2
        if not half:
            return set(asked)
        return find_keywords(lean, asked[:half]) | find_keywords(lean, asked[half:])
    found: set[str] = set()
    for line, column, text in said:
        word = asked[line - 1] if line <= len(asked) else ""
        # The token that Lean read must be the whole word: of x*y it reads x.
        if column == len(opening) and text.startswith(f"unexpected token '{word}'; expected"):
            found.add(word)
    return found


def find_commands(lean: Path, words: Iterable[str]) -> set[str]:
    """Those of ``words`` that start a command, or go on with a declaration that is finished, or
    behind which Lean reads no further."""
    found: set[str] = set()
    for word in sorted(words):
        try:
            said = ask(lean, ["theorem finished : True := trivial", word, ""])
        except RuntimeError:  # mutual takes all that follows, import ends the file
            found.add(word)
            continue
        refused = [text for line, column, text in said if (line, column) == (2, 0)]
        if not any(text.endswith("expected command") for text in refused):
            found.add(word)
    return found


def is_judged(word: str) -> bool:
    """Whether a proof may use the word, or some rule refuses it."""
    return word in PROOF_KEYWORDS or judge_word(word) is not None


def main() -> None:
    """Print what the Lean that is named on the command line answers."""
    lean = Path(sys.argv[1])
    asked = read_words(find_libraries(lean)) | KEYWORDS | PROOF_KEYWORDS
    keywords = find_keywords(lean, asked)
    print(f"asked {len(asked)} words, {len(keywords)} are keywords")
    print("not judged:", *sorted(word for word in keywords if not is_judged(word)))
    print("start a command:", *sorted(find_commands(lean, keywords)))


if __name__ == "__main__":
    main()
