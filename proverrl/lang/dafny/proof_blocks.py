"""What a proof inside a program must not do: change anything that lives outside the proof.

Flows in: the tokens of a whole program. Flows out: findings.
Dafny 2.3 proves ``assert P by { ... }`` aside and then believes P of the values from before the
block, but it lets the block assign to variables and fields from outside: ``assert g == 0 by
{ g := 0; }`` proves what is false. In the hints of a ``calc`` it forgets this for the results of
calls. So a block after ``by`` and a ``calc`` may declare variables, and assign to nothing.
Not handled here: proofs of ``forall`` statements, which Dafny checks itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from proverrl.lang.dafny.syntax.names import list_methods
from proverrl.lang.dafny.syntax.tokens import Finding, Token

_LEAVES = frozenset("return break yield modify".split())
# Going back from ``:=``: what shows that a statement begins there, and what that it does not.
_STARTS = frozenset([";", "{", "}", "=>", "label", "else"])
_BINDERS = frozenset(["var", "::"])
_GUARDS = frozenset(["if", "case"])
_PAIRS = {"(": ")", "[": "]", "{": "}"}
_CLOSERS = frozenset(_PAIRS.values())


def scan_proof_blocks(tokens: list[Token]) -> Iterator[Finding]:
    """Findings about assignments, jumps and calls of methods inside proofs.

    The brackets of ``tokens`` must match.
    """
    methods = list_methods(tokens)
    opened: list[bool] = []
    # Whether the next brace begins a proof: it does after ``by``, and after ``calc`` and its
    # attributes and operator.
    is_due = False
    attribute_depth = -1
    for place, token in enumerate(tokens):
        text = token.text if token.kind in ("operator", "word") else ""
        if text in ("by", "calc"):
            is_due = True
        elif text in _PAIRS:
            is_attribute = text == "{" and tokens[place + 1].text == ":"
            begins = is_due and text == "{" and attribute_depth < 0 and not is_attribute
            if is_attribute and attribute_depth < 0:
                attribute_depth = len(opened)
            opened.append(begins or bool(opened and opened[-1]))
            is_due = is_due and not begins
        elif text in _CLOSERS:
            opened.pop()
            if len(opened) == attribute_depth:
                attribute_depth = -1
        elif opened and opened[-1]:
            yield from _check_token(tokens, place, methods)


def _check_token(tokens: list[Token], place: int, methods: set[str]) -> Iterator[Finding]:
    token = tokens[place]
    if token.kind == "word" and token.text in _LEAVES:
        message = f"{token.text!r} may not stand in a proof"
        yield Finding("cheat", "keywords", message, token.line, token.column)
    elif token.kind == "operator" and token.text in (":=", ":|"):
        if _is_assignment(tokens, place):
            message = "a proof after 'by' or in 'calc' may declare variables, but assign to none"
            yield Finding("cheat", "assignment", message, token.line, token.column)
    elif token.kind == "word" and token.text in methods and tokens[place + 1].text in ("(", "<"):
        message = f"{token.text!r} is a method; a proof may only call lemmas and functions"
        yield Finding("cheat", "names", message, token.line, token.column)


def _is_assignment(tokens: list[Token], place: int) -> bool:
    """False for what declares a variable, for a comprehension and for an update in brackets."""
    depth = 0
    for before in range(place - 1, -1, -1):
        token = tokens[before]
        text = token.text if token.kind in ("operator", "word") else ""
        if text in (")", "]"):
            depth += 1
        elif text in ("(", "["):
            if not depth:
                return False
            depth -= 1
        elif depth:
            continue
        elif text in _STARTS:
            return True
        elif text in _BINDERS or (text in _GUARDS and tokens[place].text == ":|"):
            return False
    return True
