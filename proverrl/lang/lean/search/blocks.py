"""The blocks of a Lean proof: where tactics stand together, read from words and columns.

Flows in: a body. Flows out: its blocks in the order in which they open. A block opens at ``by``, at
a bullet, and at the ``=>`` of an alternative; a line further left than its tactics ends it. Not
handled here: blocks in brackets, and several alternatives on a line; what stands there belongs to
the tactic around it.
"""

from __future__ import annotations

from dataclasses import dataclass

from proverrl.lang.lean.syntax.declarations import CLOSING, OPENING
from proverrl.lang.lean.syntax.tokens import Token, scan_code
from proverrl.types import Problem
from proverrl.verifier.body_place import hole_column

_BULLETS = frozenset("· .".split())
_NAMED_GOALS = frozenset({"case", "next"})
_WITH_ALTERNATIVES = frozenset("cases induction match fun_cases fun_induction".split())
_CONTINUES = ("|", "<;>", ")", "⟩")
"""Begin a line of the tactic before, also at its own column."""


@dataclass(slots=True)
class Block:
    """A block, in characters of the body: the word that opens it (-1 for the theorem's own block),
    its first word, the end of its last, and the column of its tactics. ``indent`` is the column of
    the line that opens it."""

    opener: int
    start: int
    end: int
    column: int
    indent: int

    def holds(self, place: int) -> bool:
        return self.opener <= place < self.end


def find_blocks(problem: Problem, body: str) -> list[Block]:
    """The blocks of a body; that of the theorem itself comes first where there is one."""
    return _Reader(problem, body).read()


def find_inmost(blocks: list[Block], place: int) -> Block | None:
    """The innermost block that holds a place."""
    return next((block for block in reversed(blocks) if block.holds(place)), None)


def _goes_on(token: Token) -> bool:
    return token.text.startswith(_CONTINUES)


class _Reader:
    def __init__(self, problem: Problem, body: str) -> None:
        self.base = hole_column(problem)
        self.tokens = scan_code(body)
        self.found: list[Block] = []
        self.open: list[Block] = []
        if problem.kind == "tactics":
            self.found = [Block(-1, 0, len(body.rstrip()), self.base, -1)]
            self.open = [*self.found]

    def read(self) -> list[Block]:
        depth, line, head, owners = 0, 0, "", list[tuple[int, str]]()
        indent = self.base
        for place, token in enumerate(self.tokens):
            column = token.column + (self.base if token.line == 1 else 0)
            is_first = token.line != line
            line = token.line
            if is_first:
                self._close(column)
                indent, head = column, token.text
            begins = self._fill(token, column) or is_first
            if begins and token.text not in _BULLETS:
                head = token.text
                if head != "|":
                    owners.append((column, head))
            depth += (token.text in OPENING) - (token.text in CLOSING)
            if depth:
                continue
            is_bullet = begins and token.text in _BULLETS and self._stands_alone(place)
            is_arrow = token.text == "=>" and self._is_alternative(head, indent, owners)
            if token.text == "by" or ((is_bullet or is_arrow) and self.open):
                block = Block(token.offset, token.end, token.end, -1, indent)
                self.found.append(block)
                self.open.append(block)
        return self.found

    def _close(self, column: int) -> None:
        """End the blocks that a line in this column does not belong to."""
        while self.open and self.open[-1].opener >= 0:
            block = self.open[-1]
            if column >= block.column if block.column >= 0 else column > block.indent:
                return
            self.open.pop()

    def _fill(self, token: Token, column: int) -> bool:
        """Take a word into the blocks that are open; whether it is the first of one."""
        is_new = False
        for block in self.open:
            if block.column < 0:
                block.start, block.column, is_new = token.offset, column, True
            block.end = max(block.end, token.end)
        return is_new

    def _stands_alone(self, place: int) -> bool:
        """A dot before a word is part of a name."""
        after = self.tokens[place + 1 : place + 2]
        return (
            self.tokens[place].text != "."
            or not after
            or after[0].offset > (self.tokens[place].end)
        )

    def _is_alternative(self, head: str, indent: int, owners: list[tuple[int, str]]) -> bool:
        if head in _NAMED_GOALS:
            return True
        before = [text for column, text in owners if column <= indent]
        return head == "|" and bool(before) and before[-1] in _WITH_ALTERNATIVES
