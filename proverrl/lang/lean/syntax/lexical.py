"""Check that a Lean text reads in one way only, and to a human as to Lean.

Flows in: tokens of a policy's text. Flows out: findings. Covered: characters of zero width, of
direction, or that look like others; comments, strings and brackets that the text does not close, or
that close what it did not open; places where a symbol that only Lean knows could end inside what is
a comment, a string or a word here. Not handled here: which words stand in the text (``audit``).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence, Set

from proverrl.lang.lean.syntax.tokens import Token, find_string_end, scan_code, split_name
from proverrl.lang.lean.syntax.words import HOLES, NOT_IN_CODE, NOT_IN_TEXT, judge_word
from proverrl.lang.records import Category, Finding

MAX_NESTING = 200

_OPENERS = {"(": ")", "[": "]", "{": "}", "⟨": "⟩", "⟪": "⟫", "⦃": "⦄"} | dict.fromkeys(
    ("#[", "@[", "![", "!!["), "]"
)
_CLOSERS = frozenset(_OPENERS.values())
# After these no symbol of Lean's goes on with a hyphen, a slash or a quote.
_SAFE_BEFORE = frozenset(
    (*_OPENERS, *_CLOSERS, ",", ";", ":=", "=>", "·", "<;>", "⌊", "⌋", "⌈", "⌉", "‖", "‹", "›")
)
_ENDING = _CLOSERS | frozenset("⌋⌉‖‹›")
# Symbols with these signs may end in a letter, as in α →o β.
_ARROW = re.compile(r"[\u2190-\u21ff\u2243\u2245\u227a-\u227d\u27f0-\u27ff\u2900-\u297f]")
# A string that Lean reads alike with and without holes: a hole holds no quote, brace or comment.
_PLAIN_STRING = re.compile(r"""\"(?:[^"\\{]|\\.|\{[^"{}'/\\-]*\})*\"""", re.DOTALL)
_HOLE = re.compile(r"\{([^{}]*)\}")
_WORD = re.compile(r"[^\W\d][\w'!?.]*")
# Those of the second line carry a proof in a type, or stand behind a term.
_PROVING = frozenset(
    "by := let have show from do ‹ where "
    "optParam autoParam type_of termination_by decreasing_by".split()
)
# Behind a symbol that ends in a prime, which an older or a smaller Lean may not know: what would
# then be a character, and could hide a quote or the start of a comment.
_CHAR_BEHIND = re.compile(r"'(?:\\.[^'\n]{0,5}|[^\\\w])'", re.DOTALL)
_LOOK_ALIKE_SCRIPTS = ("CYRILLIC", "GREEK", "COPTIC", "ARMENIAN", "CHEROKEE", "LISU", "FULLWIDTH")
_NOTATIONS = frozenset("notation notation3 infix infixl infixr prefix postfix".split())
_MISLEADING = re.compile(r"""[-/"'«»\\`#@!]""")


def find_lexical_findings(
    text: str, tokens: Sequence[Token], known_characters: Set[str]
) -> Iterator[Finding]:
    """All findings in the order of the text, those of one kind after another.

    ``known_characters`` stand in the problem's own text and are admitted for that.
    """
    yield from _find_characters(tokens, known_characters)
    yield from _find_unclosed(tokens)
    yield from _find_ambiguous(text, tokens)
    yield from _find_brackets(tokens)


def find_odd_tokens(code: Sequence[Token]) -> Iterator[Finding]:
    """A token that a notation declares is longer than what it holds: behind ``"zz/-"`` Lean reads
    code where we read a comment."""
    if has_notation(code):
        for token in code:
            if '"' in token.text and _MISLEADING.search(token.text[1:-1]):
                message = "a file with notation holds no string with one of - / \" ' « » \\ ` # @ !"
                yield make_finding("cheat", "notation", message, token)


def has_notation(code: Sequence[Token]) -> bool:
    """True if a text declares notation. It can then read the text behind it in another way than we
    do, and hide commands that answer our questions in Lean's place."""
    return any(token.text in _NOTATIONS for token in code)


def find_holes(text: str) -> dict[tuple[int, int], str]:
    """Each ``sorry``, ``admit`` and ``stop`` of a text by its line (from 1) and column (from 0)."""
    return {(t.line, t.column): t.text for t in scan_code(text) if t.text in HOLES}


def find_docs(tokens: Sequence[Token]) -> Iterator[Finding]:
    """``/-! -/`` is a command of its own: it ends a proof."""
    for token in tokens:
        if token.kind == "doc" and token.text.startswith("/-!"):
            yield make_finding("syntax", "commands", "'/-!' starts a command", token)


def find_proofs(text: str) -> Iterator[Finding]:
    """A statement holds no proofs: one in it could prove what it is compared with."""
    # A name may be written with its namespace, or between signs.
    token = next((t for t in scan_code(text) if _PROVING & {t.text, *split_name(t.text)}), None)
    if token is not None:
        message = f"a statement holds no proof, and {token.text!r} may begin one"
        yield make_finding("cheat", "statement", message, token)


def make_finding(category: Category, rule: str, message: str, token: Token) -> Finding:
    """A finding at the start of a token."""
    return Finding(category, rule, message, token.line, token.column)


def _find_characters(tokens: Sequence[Token], known: Set[str]) -> Iterator[Finding]:
    for token in tokens:
        piece = token.text
        if token.kind == "blank":
            if "\t" in piece:
                yield make_finding("syntax", "characters", "Lean wants blanks, not tabs", token)
            elif "\r" in piece:
                message = "a carriage return (U+000D); end lines with a line feed alone"
                yield make_finding("syntax", "characters", message, token)
            continue
        if piece.isascii() and piece.isprintable():
            continue
        found = NOT_IN_TEXT.search(piece)
        if found is not None:
            message = f"the character U+{ord(found.group()):04X} cannot be seen"
            yield make_finding("cheat", "characters", message, token)
            continue
        if token.kind in ("comment", "doc", "string", "broken"):
            continue
        if not unicodedata.is_normalized("NFC", piece):
            yield make_finding("cheat", "characters", f"{piece!r} is not in NFC", token)
            continue
        for match in NOT_IN_CODE.finditer(piece):
            sign = match.group()
            if sign not in known:
                category: Category = "cheat" if _is_look_alike(sign) else "syntax"
                message = f"the character U+{ord(sign):04X} is not one of Lean's or Mathlib's"
                yield make_finding(category, "characters", message, token)
                break


def _is_look_alike(sign: str) -> bool:
    plain = unicodedata.normalize("NFKC", sign)
    name = unicodedata.name(sign, "")
    if unicodedata.combining(sign):
        return True
    return (plain != sign and plain.isascii()) or name.startswith(_LOOK_ALIKE_SCRIPTS)


def _find_unclosed(tokens: Sequence[Token]) -> Iterator[Finding]:
    for token in tokens:
        if token.kind == "broken":
            rule = "comments" if token.text.startswith("/-") else "strings"
            message = f"{token.text[:1]!r} opens what the text does not close"
            if rule == "comments":
                message = "a comment is never closed: it would swallow what follows"
            yield make_finding("cheat", rule, message, token)
        elif token.text == "-/":
            message = "'-/' closes a comment that this text did not open"
            yield make_finding("cheat", "comments", message, token)
        elif token.text.startswith(("/--/", "/-!/")):
            message = "a documentation comment must not start with a slash"
            yield make_finding("cheat", "comments", message, token)


def _find_ambiguous(text: str, tokens: Sequence[Token]) -> Iterator[Finding]:
    """Places where Lean's longest symbol could end later than ours."""
    for i, token in enumerate(tokens):
        before = tokens[i - 1] if i else None
        touches = before is not None and before.kind == "symbol" and before.text not in _SAFE_BEFORE
        if token.kind in ("comment", "doc", "broken") and touches:
            message = "put a blank before a comment"
            yield make_finding("cheat", "comments", message, token)
        elif token.kind == "char" and before is not None and before.is_code:
            # No symbol of Lean's ends in )', but one of a problem's own notation may.
            if touches or before.kind != "symbol" or before.text in _ENDING:
                message = "put a blank before a character in quotes"
                yield make_finding("cheat", "strings", message, token)
        elif token.kind == "string" and token.text.startswith("r") and touches:
            message = "put a blank before a raw string"
            yield make_finding("cheat", "strings", message, token)
        elif token.kind == "string" and token.text.startswith('"'):
            yield from _check_string(text, token)
        elif token.kind == "symbol" and len(token.text) > 1 and token.text.endswith("'"):
            if _CHAR_BEHIND.match(text, token.end - 1):
                message = f"put a blank behind {token.text!r}"
                yield make_finding("cheat", "strings", message, token)
        elif token.kind == "word" and touches:
            yield from _check_attached_word(tokens, i)


def _check_string(text: str, token: Token) -> Iterator[Finding]:
    """Lean's reading of a string depends on the word before it; both readings must agree."""
    end = find_string_end(text, token.offset)
    literal = text[token.offset : end]
    if "{" not in literal:
        return
    if end is None or _PLAIN_STRING.fullmatch(literal) is None:
        message = "braces in a string must hold plain text only"
        yield make_finding("syntax", "strings", message, token)
        return
    for hole in _HOLE.findall(literal):
        for word in _WORD.findall(hole):
            judged = judge_word(word)
            if judged is not None:
                category, rule, message = judged
                yield make_finding(category, rule, message, token)


def _check_attached_word(tokens: Sequence[Token], place: int) -> Iterator[Finding]:
    """Lean may take the first letter of a word for the end of an arrow: ``→oadmit``."""
    run = ""
    for token in reversed(tokens[max(0, place - 6) : place]):
        if token.kind != "symbol":
            break
        run += token.text
    word = tokens[place]
    if _ARROW.search(run) is None or len(word.text) < 2:
        return
    judged = judge_word(word.text[1:])
    if judged is not None:
        category, rule, message = judged
        yield make_finding(category, rule, f"{message} (behind an arrow)", word)


def _find_brackets(tokens: Sequence[Token]) -> Iterator[Finding]:
    opened: list[Token] = []
    for token in tokens:
        if token.kind != "symbol":
            continue
        if token.text in _OPENERS:
            opened.append(token)
            if len(opened) > MAX_NESTING:
                message = f"brackets nest deeper than {MAX_NESTING}"
                yield make_finding("syntax", "size", message, token)
                return
        elif (closer := token.text.removesuffix("'")) in _CLOSERS:
            if not opened:
                message = f"{token.text!r} closes what the problem opened"
                yield make_finding("cheat", "scope", message, token)
                return
            opener = opened.pop()
            if _OPENERS[opener.text] != closer:
                message = f"{token.text!r} closes {opener.text!r} of line {opener.line}"
                yield make_finding("syntax", "brackets", message, token)
                return
    if opened:
        message = f"{opened[-1].text!r} is never closed"
        yield make_finding("syntax", "brackets", message, opened[-1])
