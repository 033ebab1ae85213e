"""Puts the page together: one HTML file that loads nothing, with the data inside.

Flows in: run folders. Flows out: ``report.html``. Bodies and messages are hostile text: the
templates escape everything, ``<`` never appears in the embedded JSON, packed pieces are base64. A
content security policy admits only the scripts whose hashes it lists and no network at all.
Not handled here: what the sections say (the other modules), the curves (``figures``).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined

from proverrl.evaluation.section import list_sections, tell_all
from proverrl.files.lines import write_whole
from proverrl.report import comparison, headline, sections
from proverrl.report.completions import list_completion_cells, list_completion_warnings
from proverrl.report.embedded import PACKED_TYPE, embed_json
from proverrl.report.figures import build_charts, build_curriculum_charts
from proverrl.report.problem_data import build_problems
from proverrl.report.rollout_data import build_rollouts
from proverrl.report.run import Row, choose_place, load_runs
from proverrl.report.selfplay import (
    build_selfplay_charts,
    list_compose_warnings,
    list_played,
)

TEMPLATES = ("page.html", "macros.html", "selfplay.html", "hints.html")
SCRIPTS = (
    *("page.js", "highlight.js", "listing.js", "charts.js"),
    *("problems.js", "rollouts.js"),
)
STYLES = ("page.css", "rollouts.css", "problems.css")
_ASKED_BY_TEMPLATES: tuple[Callable[..., Any], ...] = (
    *(headline.find_cell, headline.list_ks, headline.list_levels),
    comparison.count_overlap,
    *(sections.capitalised, sections.describe_state, sections.find_size),
    *(sections.list_facts, sections.list_heads, sections.name_of),
)
_FILTERS: dict[str, Callable[..., str]] = {
    "num": lambda value: f"{value:,}",
    "digits": lambda value, digits: f"{value:.{digits}f}",
    "figure": lambda value, digits: f"{value:.{digits}g}",
    "percent": lambda share, digits=1: f"{100 * share:.{digits}f}",
    "signed": headline.signed,
    "pretty": lambda value: json.dumps(value, indent=2, ensure_ascii=False),
}


def write_report(run_dirs: Sequence[Path], *, out: Path | None = None) -> Path:
    """Write the page and return its path.

    Without ``out`` the page goes into the first run's folder. Raises RunError when a folder is
    not a run or the page cannot be written, UsageError when ``out`` could be a file of a run's.
    """
    path = choose_place(run_dirs, out)
    return write_whole(path, build_page(run_dirs))


def build_page(run_dirs: Sequence[Path]) -> str:
    """The whole page as text. Raises RunError for a folder that is not a run."""
    runs = load_runs(run_dirs)
    shelves = comparison.list_shelves(runs)
    columns = headline.list_columns(runs)
    rollouts, problems = build_rollouts(runs), build_problems(runs, shelves)
    unjudged, reasons = sections.list_unjudged(runs)
    groups, unfinished = headline.group_by_benchmark(columns), sections.describe_unfinished(runs)
    played, compose_warnings = list_played(runs), list_compose_warnings(runs)
    completions = list_completion_cells(runs)
    shown = [
        (section, [part for run in runs for part in section.show(run.label, run.path)])
        for section in list_sections()
    ]
    own = [(section, parts) for section, parts in shown if parts]
    told = [
        line
        for run in runs
        for name, evaluation in run.evaluations.items()
        for line in tell_all(f"{run.label}, {name}", evaluation.summary)
    ]
    data: Row = {
        "runs": [run.label for run in runs],
        "charts": [
            *build_charts(runs),
            *build_curriculum_charts(runs),
            *build_selfplay_charts(runs),
        ],
        "rollouts": {"steps": rollouts.steps, "totals": rollouts.totals},
        "problems": problems.shelves,
    }
    holders = {chart["holder"] for chart in data["charts"]}
    contents: dict[str, object] = {
        "Results": groups or unfinished,
        "Curves": "charts" in holders,
        "Curriculum": "curriculum-charts" in holders,
        "Self-play": played or compose_warnings,
        "Problems": problems.shelves,
        "Rollouts": rollouts.steps,
        **{section.title: True for section, _ in own},
        "Completions": completions,
        "Unjudged": unjudged,
        "Setup": True,
    }
    plotly = _plotly_source() if data["charts"] else ""
    script = "".join(_read(name) for name in SCRIPTS)
    page: str = open_template("page.html").render(
        title=sections.join_names([sections.name_of(runs[0]), *(run.label for run in runs[1:])]),
        policy=_content_policy((plotly, script)),
        style="".join(_read(name) for name in STYLES),
        plotly=plotly,
        script=script,
        runs=runs,
        warnings=[*comparison.list_warnings(runs), *list_completion_warnings(runs)],
        tiles=sections.list_tiles(columns),
        shown=[name for name, content in contents.items() if content],
        groups=groups,
        unfinished=unfinished,
        told=told,
        differences=[item for shelf in shelves for item in comparison.list_differences(shelf)],
        compose_warnings=compose_warnings,
        played=played,
        matrices=[item for item in enumerate(shelves) if len(item[1].columns) > 1],
        completions=completions,
        own=own,
        unjudged=unjudged,
        reasons=reasons,
        data=embed_json(data),
        packed_type=PACKED_TYPE,
        pieces=[*rollouts.pieces, *problems.pieces],
    )
    return page


@cache
def _open_environment() -> Environment:
    texts = {name: _join_lines(_read(name)) for name in TEMPLATES}
    environment = Environment(
        loader=DictLoader(texts), autoescape=True, undefined=StrictUndefined, cache_size=-1
    )
    environment.filters |= _FILTERS
    environment.globals |= {call.__name__: call for call in _ASKED_BY_TEMPLATES}
    return environment


def open_template(name: str) -> Any:
    """A template of the report, by its file's name."""
    return _open_environment().get_template(name)


def render_plain(name: str, **given: Any) -> str:
    """A page of its own, without scripts."""
    style = _read("page.css")
    page: str = open_template(name).render(policy=_content_policy(()), style=style, **given)
    return page


def _join_lines(template: str) -> str:
    """The template without its line breaks: beside a tag one means nothing, else it is a space."""
    joined = re.sub(r"(?<=>)\s*\n\s*|(?<=[%#]\})\s*\n\s*|\s*\n\s*(?=<|\{[%#])", "", template)
    return re.sub(r"\s*\n\s*", " ", joined)


def _content_policy(scripts: Iterable[str]) -> str:
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
