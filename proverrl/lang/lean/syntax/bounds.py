"""Bounds on what a text may ask of Lean, at places where neither heartbeats nor depth stop it.

Flows in: the tokens of a policy's text, and the problem's own text. Flows out: findings. Covered:
long literals, literals as exponents, shifts and arguments of factorials, long chains of operators
and of ``.name``, and the number of ``have``. The bounds lie far above what any recorded proof
needs. A power of two literals that the problem states itself may be written again: its goal asks
Lean for it already. Not handled here: numbers that grow in several steps, such as a square of a
square; a candidate that stalls or kills Lean with those is left to the verifier pool.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proverrl.lang.lean.syntax.lexical import make_finding
from proverrl.lang.lean.syntax.tokens import Token, split_name
from proverrl.lang.records import Finding

MAX_DIGITS = 2_000
MAX_GROWTH = 100_000
"""Of a literal behind ``^`` or ``<<<`` or in the arguments of a function that grows as they do."""
MAX_CHAIN = 500
"""Operators in one term, and names behind each other, each with a dot before it."""
MAX_STEPS = 1_000
"""Of ``have``, ``let`` and their like, each of which makes the goals behind it longer, so that the
cost grows with the square. Lean elaborates 501 without trouble (recorded), a published proof has
574; this many cost at most four times as much as 500, which never stalled a worker."""

_GROWING_NAMES = frozenset(
    "shiftLeft pow npow zpow hPow hShiftLeft factorial ascFactorial descFactorial superFactorial "
    "doubleFactorial primorial pow_two twoPow ackermann ack fib choose".split()
)
_GROWING_SIGNS = frozenset({"^", "<<<"})
_OPERATORS = frozenset("+ - * / % ^ ∧ ∨ ¬ → ↔ ∘ ++ :: <;> ▸ ∣ × ⊕ -> /\\ \\/ && || |> <|".split())
_SEPARATORS = frozenset(", ; := => · |".split())
_STEPS = frozenset("have let haveI letI obtain set suffices".split())
_CLOSERS = frozenset({")", "]", "}", "⟩"})
_MAX_ARGUMENTS = 8


def find_cost_findings(code: Sequence[Token], stated: str = "") -> Iterator[Finding]:
    """Findings about a text's tokens without blanks and comments, at most a few of each kind;
    ``stated`` is the problem's text, its tokens between blanks."""
    chain = dots = steps = 0
    for place, token in enumerate(code):
        if token.kind == "number":
            if len(token.text) > MAX_DIGITS:
                message = f"a number of more than {MAX_DIGITS} digits"
                yield make_finding("syntax", "resources", message, token)
        elif token.text in _GROWING_SIGNS and not _is_stated(code, place, stated):
            yield from _check_growth(code, place + 1, place + 2)
        elif token.kind == "word":
            parts = split_name(token.text)
            dots = 0 if place and code[place - 1].text != "." else dots
            dots += len(parts) - 1
            steps += token.text in _STEPS
            if _GROWING_NAMES.intersection(parts):
                yield from _check_growth(code, place + 1, place + 1 + _MAX_ARGUMENTS)
        if token.text == "!" and place and code[place - 1].end == token.offset:
            yield from _check_growth(code, place - 1, place)
        dots += token.text == "."
        chain = 0 if token.text in _SEPARATORS else chain + (token.text in _OPERATORS)
        for count, limit, what in (
            (chain, MAX_CHAIN, "operators in one term"),
            (dots, MAX_CHAIN, "names behind each other"),
            (steps, MAX_STEPS, "steps such as 'have'"),
        ):
            if count > limit:
                message = f"more than {limit} {what}"
                yield make_finding("syntax", "resources", message, token)
                return


def _is_stated(code: Sequence[Token], place: int, stated: str) -> bool:
    """True if the sign joins two literals as the problem does, and is part of no larger power."""
    power, around = code[max(0, place - 1) : place + 2], code[max(0, place - 2) : place + 3 : 4]
    is_whole = not _GROWING_SIGNS.intersection(token.text for token in around)
    numbers = [token.text for token in power[::2] if token.kind == "number"]
    return is_whole and len(numbers) == 2 and f" {' '.join(t.text for t in power)} " in stated


def _check_growth(code: Sequence[Token], start: int, end: int) -> Iterator[Finding]:
    """A large literal among the arguments, and an exponent of what is a power already."""
    product = 1
    for token in code[start:end]:
        if token.text in _SEPARATORS:
            return
        if token.kind == "number":
            product = _read_literal(token.text)
            if product > MAX_GROWTH:
                message = f"{token.text[:20]} lets a number grow beyond all bounds"
                yield make_finding("syntax", "resources", message, token)
                return
    before = start - 1
    while product > 1 and before > 2 and code[before].text == "^":
        place = before - 1
        while place > 0 and code[place].text in _CLOSERS:
            place -= 1
        if place == before - 1 or code[place].kind != "number" or code[place - 1].text != "^":
            return
        product *= _read_literal(code[place].text)
        if product > MAX_GROWTH:
            message = "powers of powers let a number grow beyond all bounds"
            yield make_finding("syntax", "resources", message, code[start])
            return
        before = place - 1


def _read_literal(text: str) -> int:
    """The value of a literal, or one above every bound where it is too long to be read."""
    plain = text.replace("_", "")
    if len(plain) > 40:
        return MAX_GROWTH + 1
    if plain[:2].lower() in ("0x", "0b", "0o"):
        return int(plain, 0) if len(plain) > 2 else 0
    return int(min(float(plain), MAX_GROWTH + 1)) if plain.isascii() else 0
