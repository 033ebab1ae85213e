"""What the documentation's site needs beside the pages: a home page, and links that stay inside.

Flows in: the README and the pages in ``docs``. Flows out: the README as the first page; links to
files of the repository that the site does not hold, as their names. MkDocs calls these functions
(``hooks`` in mkdocs.yml).
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """The README in place of a page ``index.md``, its links as from ``docs``."""
    text = Path(config.config_file_path).with_name("README.md").read_text("utf-8")

    def move(match: re.Match[str]) -> str:
        target = match[2]
        inside = target.removeprefix("docs/") if target.startswith("docs/") else f"../{target}"
        return f"[{match[1]}]({inside}{match[3] or ''})"

    files.append(File.generated(config, "index.md", content=_LINK.sub(move, text)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links that lead out of ``docs`` as their text, the file's name behind it; those to the README
    to the home page."""
    folder = posixpath.dirname(page.file.src_uri)

    def stay(match: re.Match[str]) -> str:
        name = posixpath.normpath(posixpath.join(folder, match[2]))
        if not name.startswith("../"):
            return match[0]
        name = name.removeprefix("../")
        if name == "README.md":
            return f"[{match[1]}]({posixpath.relpath('index.md', folder or '.')}{match[3] or ''})"
        return match[1] if name in match[1] else f"{match[1]} (`{name}`)"

    return _LINK.sub(stay, markdown)
