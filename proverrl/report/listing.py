"""A problem with a proposed body, as a numbered listing with the verifier's messages in place.

Flows in: a problem's texts, a body, diagnostics; all foreign text. Flows out: escaped HTML.
Not handled here: highlighting of the language's syntax.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from proverrl.types import HOLE

MAX_LISTING_LINES = 400


def render_listing(
    problem: Mapping[str, Any], body: str, diagnostics: Sequence[Mapping[str, Any]]
) -> str:
    """HTML of the assembled file: the body marked, each message under the line it points at."""
    before, _, after = str(problem.get("statement") or HOLE).partition(HOLE)
    head = str(problem.get("preamble") or "") + before
    start, end = len(head), len(head) + len(body)
    lines = (head + body + after).removesuffix("\n").split("\n")
    messages = place_messages(diagnostics, len(lines))
    parts = ['<div class="code">']
    parts += [_message(item) for item in messages.get(0, ())]
    offset = 0
    for number, line in enumerate(lines[:MAX_LISTING_LINES], start=1):
        parts.append(_line(number, line, start - offset, end - offset))
        parts += [_message(item) for item in messages.get(number, ())]
        offset += len(line) + 1
    if len(lines) > MAX_LISTING_LINES:
        parts.append(f'<div class="msg">… {len(lines) - MAX_LISTING_LINES} more lines</div>')
    parts.append("</div>")
    return "".join(parts)


def place_messages(
    diagnostics: Sequence[Mapping[str, Any]], num_lines: int
) -> dict[int, list[Mapping[str, Any]]]:
    """Messages by line; those that point outside the file come under line 0, at the top."""
    placed: dict[int, list[Mapping[str, Any]]] = {}
    for item in diagnostics:
        line = int(item.get("line") or 0)
        placed.setdefault(line if 1 <= line <= num_lines else 0, []).append(item)
    return placed


def _line(number: int, line: str, start: int, end: int) -> str:
    """One line; ``start`` and ``end`` say where the body lies, counted from the line's start."""
    left, right = max(0, min(start, len(line))), max(0, min(end, len(line)))
    inside = start <= len(line) and end >= 0 and end > start
    text = escape(line[:left])
    if right > left:
        text += f"<mark>{escape(line[left:right])}</mark>"
    text += escape(line[right:])
    css = "ln body" if inside and (right > left or start < 0 < end) else "ln"
    return f'<div class="{css}"><span class="no">{number}</span><code>{text or " "}</code></div>'


def _message(item: Mapping[str, Any]) -> str:
    severity = str(item.get("severity") or "error")
    css = severity if severity in ("error", "warning", "info") else "info"
    line = int(item.get("line") or 0)
    where = f"line {line}, column {int(item.get('column') or 0)}" if line else "whole file"
    return (
        f'<div class="msg {css}"><span class="sev">{escape(severity)}</span> '
        f'{escape(str(item.get("message") or ""))} <span class="at">{where}</span></div>'
    )
