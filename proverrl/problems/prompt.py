"""Turns a problem into prompt text, and a completion's text into a body.

Flows in: a ``Problem``; a completion's text. Flows out: the prompt text; the body text.
The layout is plain text, so that it works with any tokenizer. Not handled here: chat
templates and Lean layouts.
"""

from __future__ import annotations

import re

from proverrl.types import Problem

BODY_HEADING = "\n// body\n"
"""Ends the prompt; the body follows, then the tokenizer's end token."""

_FENCE = re.compile(r"```[a-zA-Z0-9]*\n(.*?)(?:```|\Z)", re.DOTALL)


def render_prompt(problem: Problem) -> str:
    """The program with its hole marked, then a heading after which the body is to be written."""
    return problem.preamble + problem.statement.rstrip() + BODY_HEADING


def read_body(text: str) -> str:
    """The body in a completion: the last fenced block when there is one, else all of it."""
    blocks: list[str] = _FENCE.findall(text)
    return (blocks[-1] if blocks else text).strip()
