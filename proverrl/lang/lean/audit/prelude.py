"""The policy's own declarations before our statement.

Flows in: the tokens of a prelude, and what the problem's own text says. Flows out: findings. A
prelude is a row of theorems, lemmas, definitions, structures and inductive types. None may be named
like anything that the problem declares or uses, so that the statement reads the same with and
without it. Its end may not reach into our statement. Not handled here: words and characters that no
text of a policy may hold (``audit``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from proverrl.lang.lean.syntax.declarations import find_declarations, find_target, split_header
from proverrl.lang.lean.syntax.lexical import make_finding
from proverrl.lang.lean.syntax.tokens import Token, scan_tokens, split_name
from proverrl.lang.lean.syntax.words import DECLARING
from proverrl.lang.records import Finding
from proverrl.text_cache import cache_texts
from proverrl.types import HOLE, Problem

PRELUDE_WORDS = DECLARING | {"private", "protected", "noncomputable"}
"""Words of commands that a prelude may hold."""

_MODIFIERS = PRELUDE_WORDS - DECLARING


@dataclass(frozen=True, slots=True)
class ProblemWords:
    """The content of a problem's own text: its words, all parts of its names, its characters, the
    last part of its target's name, the keyword of a declaration that its statement makes before the
    target (no theorem; those do not matter), and its tokens, a blank around each."""

    words: frozenset[str] = frozenset()
    parts: frozenset[str] = frozenset()
    characters: frozenset[str] = frozenset()
    target: str = ""
    definition: str = ""
    code: str = ""


def read_problem_words(problem: Problem) -> ProblemWords:
    """The words of a problem's text but for its imports. Raises as ``find_target``."""
    target = "" if problem.kind == "file" else split_name(find_target(problem))[-1]
    return _read_words(problem.preamble, problem.statement, target)


@cache_texts
def _read_words(preamble: str, statement: str, target: str) -> ProblemWords:
    _, rest = split_header(preamble)
    text = rest + statement.replace(HOLE, " ")
    tokens = scan_tokens(text)
    words = frozenset(token.text for token in tokens if token.kind == "word")
    parts = frozenset(part for word in words for part in split_name(word))
    definition = ""
    if target:
        declared = find_declarations(preamble + statement.partition(HOLE)[0])[:-1]
        ours = (d for d in declared if d.offset >= len(preamble))
        definition = next((d.keyword for d in ours if d.keyword not in ("theorem", "lemma")), "")
    code = "".join(f" {token.text} " for token in tokens if token.is_code).replace("  ", " ")
    return ProblemWords(words, parts, frozenset(text), target, definition, code)


def find_prelude_findings(
    text: str, tokens: Sequence[Token], problem: ProblemWords
) -> Iterator[Finding]:
    """Findings about the shape of a prelude and about its names; ``tokens`` are all of them."""
    code = [token for token in tokens if token.is_code]
    if not code:
        return
    if not text.endswith("\n"):
        message = "a prelude must end with a line break"
        yield make_finding("syntax", "prelude", message, tokens[-1])
    if problem.definition:
        # Only the type of the target is compared with ours, and not what it is made of.
        message = f"a prelude might bend the {problem.definition!r} that the statement makes"
        yield make_finding("syntax", "prelude", message, code[0])
    last = code[-1]
    if last.text in PRELUDE_WORDS | {"in", "@[", "]"} and not _is_value_end(code):
        message = f"{last.text!r} at the end would reach into the statement"
        yield make_finding("cheat", "prelude", message, last)
    if tokens and (tail := _find_last_doc(tokens)) is not None:
        message = "a documentation comment at the end would reach into the statement"
        yield make_finding("syntax", "prelude", message, tail)
    yield from _find_openings(code)
    yield from _find_names(code, problem)


def _is_value_end(code: Sequence[Token]) -> bool:
    """True if a ``]`` at the end closes a list of the last declaration and no attribute."""
    if code[-1].text != "]":
        return False
    depth = 0
    for token in reversed(code):
        if token.text in ("]", "]'"):
            depth += 1
        elif token.text in ("[", "#[", "![", "!![", "@["):
            depth -= 1
            if depth == 0:
                return token.text != "@["
    return False


def _find_last_doc(tokens: Sequence[Token]) -> Token | None:
    for token in reversed(tokens):
        if token.kind == "doc":
            return token
        if token.is_code:
            return None
    return None


def _find_openings(code: Sequence[Token]) -> Iterator[Finding]:
    """Code before the first declaration, and modifiers that stand elsewhere."""
    first = next((i for i, token in enumerate(code) if token.text in DECLARING), len(code))
    place = _skip_attribute(code, _skip_options(code, 0))
    while place < first and code[place].text in _MODIFIERS:
        place += 1
    if place < first or first == len(code):
        message = f"a prelude is made of declarations; {code[place - (place == len(code))].text!r}"
        yield make_finding("syntax", "prelude", f"{message} is none", code[min(place, first - 1)])
    for i, token in enumerate(code):
        following = code[i + 1].text if i + 1 < len(code) else ""
        if token.text in _MODIFIERS and following not in PRELUDE_WORDS:
            message = f"{token.text!r} must stand before a declaration"
            yield make_finding("syntax", "prelude", message, token)


def _skip_options(code: Sequence[Token], place: int) -> int:
    """The place after ``set_option name value in`` and ``open names in``, as often as one stands
    at ``place``. The names are looked at in ``audit``."""
    while place < len(code) and code[place].text in ("set_option", "open"):
        is_open = code[place].text == "open"
        ends = range(place + 2, min(place + 100, len(code))) if is_open else (place + 3,)
        end = next((i for i in ends if i < len(code) and code[i].text == "in"), None)
        if end is None:
            break
        place = end + 1
    return place


def _skip_attribute(code: Sequence[Token], place: int) -> int:
    """The place after ``@[simp]``, if that stands at ``place``."""
    if [token.text for token in code[place : place + 3]] == ["@[", "simp", "]"]:
        return place + 3
    return place


def _find_names(code: Sequence[Token], problem: ProblemWords) -> Iterator[Finding]:
    declared: set[str] = set()
    for i, token in enumerate(code):
        if token.kind != "word" or token.text not in DECLARING:
            continue
        name = code[i + 1] if i + 1 < len(code) else token
        if name.kind != "word" or name is token or name.text in PRELUDE_WORDS:
            yield make_finding("syntax", "prelude", f"{token.text!r} needs a name", token)
            continue
        parts = split_name(name.text)
        if "«" in name.text or name.text.startswith("_root_."):
            message = "a declaration of a prelude has a plain name"
            yield make_finding("syntax", "names", message, name)
        if problem.target in parts:
            message = f"{name.text!r} takes the name of the statement"
            yield make_finding("cheat", "names", message, name)
        elif parts[-1] in problem.parts:
            message = f"{name.text!r} takes a name that the problem uses"
            yield make_finding("cheat", "names", message, name)
        elif name.text in declared:
            yield make_finding("syntax", "names", f"{name.text!r} is declared twice", name)
        declared.add(name.text)
