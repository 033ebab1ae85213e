"""The text of a message whose content comes in parts.

Flows in: the content of a message, as servers and trainers give it. Flows out: its text. Not
handled here: pictures and other parts without text, which are left out.
"""

from __future__ import annotations

from typing import Any


def join_parts(content: Any) -> str:
    """The text of a message's content, which is a text, nothing, or a list of parts: those of
    thinking stand between its tags. Raises ``TypeError`` or ``AttributeError`` for anything
    else."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = []
    for part in content:
        if isinstance(part, str):
            parts.append(part)
        elif thought := part.get("thinking"):
            parts.append(f"<think>{join_parts(thought)}</think>")
        else:
            parts.append(str(part.get("text") or ""))
    return "".join(parts)
