"""Claims that a user may have believed in bare files (``proverrl verify --allow``).

Flows in: words. Flows out: the same, checked. Problems with a statement, training and servers never
have any.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from proverrl.errors import UsageError

ALLOWED = {
    "assume": "'assume', loops and forall statements without a body",
    "axiom": "members without a body, {:axiom}, {:verify false}",
    "extern": "{:extern}, and members without a body in what has it",
    "decreases-star": "'decreases *' of methods and loops, which then may never end",
    "abstract": "abstract and refining modules, and what they and traits leave without a body",
}
"""The words of ``--allow``, each with what is believed then."""

REMEDY = re.compile(r" \(--allow \S+ has it believed\)")
"""Ends what the audit of a bare file says, where a word admits it."""

TERMINATION = "decreases-star"


def read_words(texts: Iterable[str]) -> tuple[str, ...]:
    """The words of ``--allow``, each once, in the order of ``ALLOWED``."""
    given = {word.strip() for text in texts for word in text.split(",")}
    if unknown := sorted(given - ALLOWED.keys()):
        known = ", ".join(ALLOWED)
        raise UsageError(f"--allow {unknown[0] or '(empty)'}: no such word; there are {known}")
    return tuple(word for word in ALLOWED if word in given)
