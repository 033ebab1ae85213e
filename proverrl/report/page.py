"""Puts the page together: one HTML file that loads nothing, with the data inside.

Flows in: run folders. Flows out: ``report.html``. Bodies and messages are hostile text: they
are escaped in HTML, ``<`` never appears in the embedded JSON, and a content security policy
admits only the scripts whose hashes it lists and no network at all.
Not handled here: the sections' own HTML (``sections``, ``examples``), the curves (``figures``).
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from proverrl.errors import RunError
from proverrl.report.examples import render_examples
from proverrl.report.figures import build_charts
from proverrl.report.run import Row, RunRecord, load_runs
from proverrl.report.sections import (
    capitalised,
    render_facts,
    render_headline,
    render_resolved,
    render_results,
    render_state,
    render_unjudged,
)

REPORT_FILE = "report.html"
MAX_BODY_CHARS = 4000
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


def write_report(run_dirs: Sequence[Path], *, out: Path | None = None) -> Path:
    """Write the page and return its path.

    Without ``out`` the page goes into the first run's folder. Raises RunError when a folder is
    not a run or the page cannot be written.
    """
    page = build_page(run_dirs)
    path = out or Path(run_dirs[0]) / REPORT_FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        # A policy may write half a surrogate pair, which UTF-8 cannot hold.
        partial.write_text(page, encoding="utf-8", errors="replace", newline="\n")
        os.replace(partial, path)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def build_page(run_dirs: Sequence[Path]) -> str:
    """The whole page as text. Raises RunError for a folder that is not a run."""
    runs = load_runs(run_dirs)
    data = {"charts": build_charts(runs), **list_rollouts(runs), "runs": [r.label for r in runs]}
    scripts = {"PLOTLY": _plotly_source() if data["charts"] else "", "SCRIPT": _read("page.js")}
    title = " and ".join(run.label for run in runs)
    parts = {
        **scripts,
        "STYLE": _read("page.css"),
        "POLICY": _content_policy(scripts.values()),
        "TITLE": escape(capitalised(title)),
        "STATE": render_state(runs),
        "FACTS": render_facts(runs),
        "HEADLINE": render_headline(runs),
        "RESULTS": render_results(runs),
        "UNJUDGED": render_unjudged(runs),
        "EXAMPLES": render_examples(runs),
        "RESOLVED": render_resolved(runs),
        "DATA": embed_json(data),
    }
    return _PLACEHOLDER.sub(lambda match: parts[match[1]], _read("page.html"))


def embed_json(value: Any) -> str:
    """JSON that can stand in a script element whatever text it carries."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def list_rollouts(runs: Sequence[RunRecord]) -> dict[str, Any]:
    """Rollouts for the page's browser, each problem's text once, and how many were left out."""
    problems: dict[str, Row] = {}
    shown: list[Row] = []
    for index, run in enumerate(runs):
        for row in run.rollouts:
            problem = row.get("problem") or {}
            key = f"{index}/{problem.get('id')}"
            problems.setdefault(
                key,
                {
                    name: problem.get(name)
                    for name in ("id", "level", "family", "preamble", "statement")
                },
            )
            shown.append(_rollout(row, index, key))
    counts = [{"shown": len(run.rollouts), "total": run.num_rollouts} for run in runs]
    return {"problems": problems, "rollouts": shown, "rollout_counts": counts}


def _rollout(row: Mapping[str, Any], index: int, key: str) -> Row:
    completion = row.get("completion") or {}
    body = row.get("body")
    text = str(completion.get("text") or "") if body is None else str(body)
    return {
        "run": index,
        "step": row.get("step"),
        "problem": key,
        "body": text[:MAX_BODY_CHARS],
        "cut": max(0, len(text) - MAX_BODY_CHARS),
        "is_body": body is not None,
        "status": str(row.get("status")),
        "messages": [
            {name: item.get(name) for name in ("severity", "line", "column", "message")}
            for item in (row.get("diagnostics") or ())[:20]
        ],
        "tokens": completion.get("num_tokens"),
        "finish": completion.get("finish_reason"),
        "seconds": row.get("seconds"),
        "reward": row.get("reward"),
        "advantage": row.get("advantage"),
    }


def _content_policy(scripts: Any) -> str:
    """Only these scripts may run, and nothing may be loaded from anywhere."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'"
    )


def _plotly_source() -> str:
    """The plotting library's own script. Importing it costs a second, so it is done here."""
    from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

    return str(get_plotlyjs()).replace("</script", "<\\/script")


def _read(name: str) -> str:
    return (resources.files("proverrl.report") / name).read_text("utf-8")
