"""Puts the page together: one HTML file that loads nothing, with the data inside.

Flows in: run folders. Flows out: ``report.html``. Bodies and messages are hostile text: they
are escaped in HTML, ``<`` never appears in the embedded JSON, what is packed is base64, and a
content security policy admits only the scripts whose hashes it lists and no network at all.
Not handled here: the sections' own HTML (``sections``, ``examples``), the curves (``figures``).
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from proverrl.files.lines import write_whole
from proverrl.report.budgets import build_budget_charts, build_tables, render_table
from proverrl.report.calibration import (
    build_calibration_charts,
    measure_calibrations,
    render_calibrations,
)
from proverrl.report.compared import render_differences, render_matrices, render_warnings
from proverrl.report.comparison import Shelf, list_shelves, list_warnings
from proverrl.report.completions import list_completion_warnings, render_completions
from proverrl.report.curriculum import build_curriculum_charts, render_curriculum
from proverrl.report.embedded import embed_json
from proverrl.report.examples import render_examples
from proverrl.report.figures import build_charts
from proverrl.report.lineage import build_lineages
from proverrl.report.problem_data import build_problems
from proverrl.report.rollout_data import build_rollouts
from proverrl.report.run import Row, load_runs
from proverrl.report.sections import (
    join_names,
    name_of,
    render_facts,
    render_headline,
    render_resolved,
    render_results,
    render_state,
    render_unjudged,
)
from proverrl.report.selfplay import build_selfplay_charts, render_selfplay

REPORT_FILE = "report.html"
SCRIPTS = (
    *("page.js", "highlight.js", "listing.js", "charts.js"),
    *("lineage.js", "problems.js", "rollouts.js"),
)
STYLES = ("page.css", "rollouts.css", "problems.css", "lineage.css")
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


def write_report(run_dirs: Sequence[Path], *, out: Path | None = None) -> Path:
    """Write the page and return its path.

    Without ``out`` the page goes into the first run's folder. Raises RunError when a folder is
    not a run or the page cannot be written.
    """
    page = build_page(run_dirs)
    path = out or Path(run_dirs[0]) / REPORT_FILE
    return write_whole(path, page)


def build_page(run_dirs: Sequence[Path]) -> str:
    """The whole page as text. Raises RunError for a folder that is not a run."""
    runs = load_runs(run_dirs)
    shelves = list_shelves(runs)
    rollouts, problems = build_rollouts(runs), build_problems(runs, shelves)
    lineages = build_lineages(runs)
    calibrations = measure_calibrations(runs)
    budgets, budget_charts = _build_budgets(shelves)
    data: Row = {
        "runs": [run.label for run in runs],
        "charts": [
            *build_charts(runs),
            *build_curriculum_charts(runs),
            *build_selfplay_charts(runs),
            *budget_charts,
            *build_calibration_charts(calibrations),
        ],
        "rollouts": {"steps": rollouts.steps, "totals": rollouts.totals},
        "problems": problems.shelves,
    }
    scripts = {
        "PLOTLY": _plotly_source() if data["charts"] else "",
        "SCRIPT": "".join(_read(name) for name in SCRIPTS),
    }
    pieces = [*(lineage.piece for lineage in lineages), *rollouts.pieces, *problems.pieces]
    title = join_names([name_of(runs[0]), *(run.label for run in runs[1:])])
    parts = {
        **scripts,
        "STYLE": "".join(_read(name) for name in STYLES),
        "POLICY": _content_policy(scripts.values()),
        "TITLE": escape(title),
        "STATE": render_state(runs),
        "FACTS": render_facts(runs),
        "HEADLINE": render_headline(runs),
        "WARNINGS": render_warnings([*list_warnings(runs), *list_completion_warnings(runs)]),
        "RESULTS": render_results(runs) + render_differences(shelves),
        "CURRICULUM": render_curriculum(runs),
        "SELFPLAY": render_selfplay(runs, lineages),
        "BUDGETS": budgets,
        "CALIBRATION": render_calibrations(calibrations, several=len(runs) > 1),
        "MATRICES": render_matrices(shelves),
        "COMPLETIONS": render_completions(runs),
        "UNJUDGED": render_unjudged(runs),
        "EXAMPLES": render_examples(runs),
        "RESOLVED": render_resolved(runs),
        "DATA": embed_json(data),
        "PIECES": "\n".join(piece.element for piece in pieces),
    }
    return _PLACEHOLDER.sub(lambda match: parts[match[1]], _read("page.html"))


def _build_budgets(shelves: Sequence[Shelf]) -> tuple[str, list[Row]]:
    """Tables and notes as HTML, and the curves."""
    parts, charts = [], []
    for shelf in shelves:
        tables, notes = build_tables(shelf)
        charts += build_budget_charts(shelf, tables)
        parts += [render_table(table) for table in tables]
        parts += [f'<p class="dim small">{escape(note)}</p>' for note in notes]
    return "".join(parts) or '<p class="empty">No evaluation has kept its attempts yet.</p>', charts


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
