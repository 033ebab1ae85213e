"""Where each language is, by its name. Loads none of them."""

from __future__ import annotations

LANGUAGES: dict[str, str] = {
    "dafny": "proverrl.lang.dafny.language:DAFNY",
    "lean": "proverrl.lang.lean.language:LEAN",
}
"""A program may add its own language before it uses it."""
