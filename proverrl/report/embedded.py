"""Data that travels inside the page: plain JSON, and packed pieces that are unpacked on demand.

Flows in: JSON values. Flows out: text that can stand in a script element whatever it carries. A
packed piece is gzip in base64, which ``page.js`` unpacks with the browser's DecompressionStream.
"""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass
from typing import Any

PACKED_TYPE = "application/gzip+base64"


@dataclass(frozen=True, slots=True)
class Piece:
    """A packed value and the id of the element that holds it (letters, digits, ``-``)."""

    name: str
    packed: str


def embed_json(value: Any) -> str:
    """JSON that can stand in a script element whatever text it carries."""
    return _json(value).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def pack_json(value: Any) -> str:
    """JSON, compressed, in characters that mean nothing in HTML; the same value gives the same."""
    return base64.b64encode(gzip.compress(_json(value).encode(), 6, mtime=0)).decode()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
