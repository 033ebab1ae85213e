"""The documentation as a site: every page and link of it, built without network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT


def list_pages() -> list[str]:
    """The pages that the navigation names."""
    return re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)


def test_the_navigation_holds_every_page() -> None:
    docs = ROOT / "docs"
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    assert sorted(list_pages()) == sorted({*pages, "index.md"})


@pytest.mark.slow
def test_the_site_is_built_and_its_links_stay_inside(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    # Nothing is fetched: a proxy that is nowhere refuses every connection.
    nowhere = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    built = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **nowhere},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    home = (tmp_path / "index.html").read_text("utf-8")
    assert 'href="cli/"' in home
    reference = (tmp_path / "reference" / "index.html").read_text("utf-8")
    for name in ("proverrl.api.verify", "proverrl.types.Candidate", "proverrl.plugins.bind"):
        assert f'id="{name}"' in reference
    page = (tmp_path / "plugins" / "index.html").read_text("utf-8")
    assert "examples/own_parts/own_parts.py" in page
    assert 'href="../../examples' not in page
    # A guide lies one folder deeper, and so do its links; its files have their names above them.
    guide = (tmp_path / "guides" / "own-problems" / "index.html").read_text("utf-8")
    assert 'href="../../problems/"' in guide
    assert 'href="../../#what-to-do-with-it"' in guide
    assert '<span class="filename">own.toml</span>' in guide
