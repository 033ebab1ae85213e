"""A report's page as the tests read it: elements, scripts, packed pieces, text."""

from __future__ import annotations

import base64
import gzip
import json
import re
from html.parser import HTMLParser
from typing import Any

from proverrl.report.embedded import PACKED_TYPE


def unpack_json(packed: str) -> Any:
    """What ``pack_json`` packed."""
    return json.loads(gzip.decompress(base64.b64decode(packed)))


class Page(HTMLParser):
    """What a browser would make of a page: its elements, scripts and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.scripts: list[str] = []
        self.pieces: dict[str, str] = {}
        self.texts: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.elements.append((tag, values))
        self._inside = tag
        if tag == "script" and values.get("type") == PACKED_TYPE:
            self._inside = values["id"]
            self.pieces[values["id"]] = ""
        elif tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in self.pieces:
            self.pieces[self._inside] += data
        elif self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.texts.append(data)

    @property
    def data(self) -> dict[str, Any]:
        """The embedded JSON."""
        value: dict[str, Any] = json.loads(self.scripts[0])
        return value

    def piece(self, name: str) -> Any:
        """What one packed piece holds."""
        return unpack_json(self.pieces[name])

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.texts))
