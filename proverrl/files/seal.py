"""A checksum inside a JSON object, by which a reader sees that it was changed or damaged.

It is no signature: whoever edits a file on purpose can write a checksum that fits. Claims that
must hold against the writer of a file are verified again (``proverrl recheck``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from proverrl.errors import RunError

SEAL = "sha256"
CHANGED = "changed after it was written (sha256 does not fit)"


def add_seal(row: Mapping[str, Any], owner: str = "") -> dict[str, Any]:
    """The object with the SHA-256 of what it says, as its last field. With an ``owner``, the seal
    of what it belongs to, it fits nowhere else."""
    said = {key: value for key, value in row.items() if key != SEAL}
    return {**said, SEAL: _hash(said, owner)}


def write_sealed(row: Mapping[str, Any]) -> str:
    """The JSON of ``add_seal``; a large object is turned into text once."""
    said = json.dumps({key: value for key, value in row.items() if key != SEAL})
    return f'{said[:-1]}, "{SEAL}": "{_hash_text(said)}"}}'


def has_own_seal(row: Mapping[str, Any], owner: str = "") -> bool:
    """True when a read object is as it was written."""
    said = {key: value for key, value in row.items() if key != SEAL}
    return SEAL in row and bool(row[SEAL] == _hash(said, owner))


def check_seal(row: Mapping[str, Any], where: str, remedy: str) -> None:
    """Raises ``RunError`` with the place and the remedy unless ``has_own_seal``."""
    if not has_own_seal(row):
        raise RunError(f"{where}: {CHANGED}; {remedy}")


def _hash(said: Mapping[str, Any], owner: str) -> str:
    # As it is written and read: keys in their order, numbers as keys have become text.
    return _hash_text(owner + json.dumps(said))


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
