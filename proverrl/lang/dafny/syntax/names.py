"""Which names a Dafny program declares, read off its tokens.

Flows in: tokens. Flows out: names. Not handled here: scopes; a name counts wherever it stands.
"""

from __future__ import annotations

from proverrl.lang.dafny.syntax.cursor import is_name
from proverrl.lang.dafny.syntax.tokens import Token

_FUNCTION_WORDS = ("function", "predicate")


def list_declared(tokens: list[Token], *words: str) -> set[str]:
    """The names that stand after one of these declaring words, past any attributes.

    ``function method F`` declares a function and no method.
    """
    names = set()
    for place, token in enumerate(tokens[:-1]):
        if token.kind != "word" or token.text not in words:
            continue
        if token.text == "method" and place and tokens[place - 1].text in _FUNCTION_WORDS:
            continue
        following = place + 1
        if token.text in _FUNCTION_WORDS and tokens[following].text == "method":
            following += 1
        following = _skip_attributes(tokens, following)
        if is_name(tokens[following]):
            names.add(tokens[following].text)
    return names


def list_methods(tokens: list[Token]) -> set[str]:
    """What a program declares that may change something when it is called."""
    return list_declared(tokens, "method", "constructor", "iterator") | {"MoveNext"}


def _skip_attributes(tokens: list[Token], place: int) -> int:
    while tokens[place].text == "{" and tokens[place + 1].text == ":":
        depth = 0
        while tokens[place].kind != "end":
            depth += (tokens[place].text == "{") - (tokens[place].text == "}")
            place += 1
            if depth == 0:
                break
    return place
