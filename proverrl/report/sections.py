"""The sections that need no script: what ran, the headline, the table, what was not judged.

Flows in: run records. Flows out: escaped HTML.
Not handled here: curves, examples and the rollout browser.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

from proverrl.config import ROUND_LOOPS
from proverrl.evaluation.stored import StoredEvaluation
from proverrl.monitor.display import format_seconds
from proverrl.monitor.metrics import count_unfinished
from proverrl.report.headline import (
    Cell,
    Column,
    find_cell,
    group_by_benchmark,
    list_columns,
    list_ks,
    list_levels,
    signed,
)
from proverrl.report.run import (
    LOOP_TITLES,
    Row,
    RunRecord,
    unjudged_counts,
)

UNJUDGED_KINDS = ("timeout", "crashed")
REASONS_SHOWN = 5
DASH = '<span class="dim">–</span>'


def capitalised(text: str) -> str:
    """The text with its first letter in upper case and the rest as it is."""
    return text[:1].upper() + text[1:]


def name_of(run: RunRecord) -> str:
    """A run's name as a title: a loop's name is capitalised, a folder's is left alone."""
    return capitalised(run.label) if run.label in LOOP_TITLES.values() else run.label


def join_names(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    head, last = names[:-1], names[-1]
    return f"{', '.join(head)} and {last}" if head else last


def render_state(runs: Sequence[RunRecord]) -> str:
    """Where each run stands, one sentence each."""
    sentences = []
    for run in runs:
        name = f"<b>{escape(name_of(run))}</b>: " if len(runs) > 1 else ""
        sentence = _describe_state(run) if name else capitalised(_describe_state(run))
        sentences.append(f'<p class="lead">{name}{escape(sentence)}</p>')
    return "".join(sentences)


def _describe_state(run: RunRecord) -> str:
    unit = "round" if run.loop in ROUND_LOOPS else "step"
    seconds = format_seconds(run.seconds)
    if run.only_evaluates:
        names = ", ".join(run.evaluations) or "none has finished"
        return f"evaluations only ({names}): nothing was trained here."
    if not run.steps:
        warm = any(row.get("kind") == "sft" for row in run.metrics)
        return f"no {unit} taken yet{', warm start under way' if warm else ''}."
    done = int(run.steps[-1].get("step") or 0)
    wanted = f" of {run.steps_wanted}" if run.steps_wanted else ""
    text = f"{done}{wanted} {unit}s in {seconds}, {run.verifier_calls:,} verifier calls."
    return text if run.evaluations.keys() - {"before"} else text + " Not evaluated since."


def render_facts(runs: Sequence[RunRecord]) -> str:
    """What ran: a short list of facts for each run."""
    blocks = []
    for run in runs:
        rows = "".join(
            f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in _facts(run)
        )
        head = f"<h3>{escape(name_of(run))}</h3>" if len(runs) > 1 else ""
        blocks.append(f'<div class="facts">{head}<dl>{rows}</dl></div>')
    sheet = f'<div class="factsheet">{"".join(blocks)}</div>'
    if len(runs) == 1:
        return sheet
    return (
        '<details class="card"><summary><span class="id">What ran</span><span class="dim">commit, '
        f'toolchain, engine, seed, budget</span></summary><div class="inset">{sheet}</div>'
        "</details>"
    )


def _facts(run: RunRecord) -> list[tuple[str, str]]:
    resolved, config = run.resolved, run.config
    budget = int(config.get("max_verifier_calls") or 0)
    used = f"{run.verifier_calls:,} used"
    limit = (
        f"{budget:,} verifier calls, {used}" if budget else f"no limit on verifier calls, {used}"
    )
    return [
        ("Loop", run.loop.replace("_", " ") or ("none" if run.only_evaluates else run.label)),
        ("Run folder", str(run.path)),
        ("Commit", str(resolved.get("commit") or "not recorded")[:12]),
        ("Toolchain", str(resolved.get("toolchain") or "not recorded")),
        ("Device", str(resolved.get("device") or "not recorded")),
        ("Engine", str(resolved.get("engine") or "not recorded")),
        ("Seed", str(config.get("seed", "not recorded"))),
        ("Budget", limit),
    ]


def render_resolved(runs: Sequence[RunRecord]) -> str:
    """The whole of resolved.json of each run, folded away."""
    parts = []
    for run in runs:
        if not run.resolved:
            parts.append(f'<p class="empty">{escape(run.label)}: resolved.json is missing.</p>')
            continue
        text = json.dumps(run.resolved, indent=2, ensure_ascii=False)
        parts.append(
            f'<details class="card"><summary><span class="id">{escape(run.label)}</span>'
            f'<span class="dim">configuration, versions, command</span></summary>'
            f'<div class="code plain"><pre>{escape(text)}</pre></div></details>'
        )
    return "".join(parts)


def render_headline(runs: Sequence[RunRecord]) -> str:
    """One tile a run and k for all levels together; nothing when nothing was evaluated."""
    columns = list_columns(runs)
    tiles = []
    for column in group_by_benchmark(columns)[0] if columns else ():
        if column.base is None and any(item.base is column.evaluation for item in columns):
            continue
        for k in list_ks([column]):
            cell = find_cell(column, "all", k)
            if cell is not None:
                tiles.append(_render_tile(column, k, cell, len(runs) > 1))
    return f'<div class="tiles">{"".join(tiles)}</div>' if tiles else ""


def _render_tile(column: Column, k: int, cell: Cell, several: bool) -> str:
    before = find_cell(Column("", column.base), "all", k) if column.base is not None else None
    name = f"pass@{k}" + (f" · {escape(column.title)}" if several or before is None else "")
    change = (
        f'<div class="sub">from {before.value:.1f} '
        f'<span class="nw">({before.interval})</span></div>'
        f'<div class="chip {_direction(cell)}">{signed(cell.difference)} points</div>'
        if before is not None and cell.difference is not None
        else ""
    )
    lost = f'<div class="sub">{_lost(cell)}</div>' if cell.unjudged else ""
    return (
        f'<div class="tile"><div class="name">{name}</div>'
        f'<div class="big">{cell.value:.1f}<small> %</small></div>'
        f'<div class="sub">95 % interval <span class="nw">{cell.interval}</span></div>'
        f"{change}{lost}</div>"
    )


def _direction(cell: Cell) -> str:
    if cell.difference is None or abs(cell.difference) < 0.05:
        return "same"
    return "up" if cell.difference > 0 else "down"


def _lost(cell: Cell) -> str:
    return f"{cell.unjudged:,} of {cell.attempts:,} attempts unjudged"


def render_results(runs: Sequence[RunRecord]) -> str:
    """The before/after tables, one for each k, with what they were measured on."""
    columns = list_columns(runs)
    if not columns:
        return f'<p class="empty">No evaluation has finished yet. {_unfinished(runs)}</p>'
    parts = []
    for group in group_by_benchmark(columns):
        parts.append(_describe_benchmark(group))
        parts += [_render_table(group, k) for k in list_ks(group)]
    return "".join(parts)


def _unfinished(runs: Sequence[RunRecord]) -> str:
    """Evaluations that have attempts on disk and no table."""
    counts = [item for run in runs for item in count_unfinished(run.path).items()]
    return " ".join(f"“{escape(name)}” has {count:,} attempts so far." for name, count in counts)


def _describe_benchmark(columns: Sequence[Column]) -> str:
    first = columns[0].evaluation.summary
    level = columns[0].evaluation.level("all") or {}
    text = (
        f"{level.get('num_problems', '?')} {first.get('split', '')} problems, "
        f"{first.get('samples_per_problem', '?')} attempts each at temperature "
        f"{first.get('temperature', '?')}. Percent of problems, with 95 % intervals over "
        "problems; changes in points."
    )
    benchmark = (
        f'<p class="dim small">Benchmark {escape(str(first.get("benchmark", "?")))}, '
        f"sha256 {escape(str(first.get('benchmark_sha256', '?'))[:12])}.</p>"
    )
    return f'<p class="lead">{escape(text)}</p>{benchmark}'


def _render_table(columns: Sequence[Column], k: int) -> str:
    heads = ""
    for column in columns:
        heads += f"<th>{escape(column.title)}</th>"
        if column.base is not None and len(columns) == 2:
            heads += "<th>Change</th>"
    rows = "".join(_render_row(columns, level, k) for level in list_levels(columns))
    return (
        f'<h3>pass@{k}</h3><div class="scroll"><table class="results">'
        f"<thead><tr><th></th>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _render_row(columns: Sequence[Column], level: str, k: int) -> str:
    counts = [(column.evaluation.level(level) or {}).get("num_problems") for column in columns]
    known = [count for count in counts if count is not None]
    name = "All" if level == "all" else f"Level {level}"
    size = f'<span class="sub">{known[0]} problems</span>' if known else ""
    cells = ""
    for column in columns:
        cell = find_cell(column, level, k)
        # With several runs a change stands in its own cell, so that a phone shows them all.
        cells += _render_cell(cell, with_change=len(columns) != 2)
        if column.base is not None and len(columns) == 2:
            cells += f"<td>{_render_change(cell) or DASH}</td>"
    css = ' class="all"' if level == "all" else ""
    return f'<tr{css}><th scope="row">{escape(name)}{size}</th>{cells}</tr>'


def _render_cell(cell: Cell | None, *, with_change: bool) -> str:
    if cell is None:
        return f"<td>{DASH}</td>"
    strip = ""
    if cell.low is not None and cell.high is not None:
        width = max(0.6, cell.high - cell.low)
        strip = (
            f'<span class="strip"><i style="left:{cell.low:.1f}%;width:{width:.1f}%"></i>'
            f'<b style="left:{cell.value:.1f}%"></b></span>'
        )
    lost = f'<span class="sub lost">{cell.unjudged} unjudged</span>' if cell.unjudged else ""
    return (
        f'<td><span class="value">{cell.value:.1f}</span>'
        f'<span class="sub">{cell.interval}</span>{strip}{lost}'
        f"{_render_change(cell) if with_change else ''}</td>"
    )


def _render_change(cell: Cell | None) -> str:
    if cell is None or cell.difference is None:
        return ""
    return f'<span class="chip {_direction(cell)}">{signed(cell.difference)}</span>'


def render_unjudged(runs: Sequence[RunRecord]) -> str:
    """What got no verdict, by kind, in training and in each evaluation, and why; beside it what was
    rejected because it ended the verifier."""
    rows, reasons = [], []
    for run in runs:
        counts: Counter[str] = Counter()
        for step in run.steps:
            counts.update(unjudged_counts(step.get("unjudged")))
        total = sum(int(step.get("rollouts") or 0) for step in run.steps)
        if run.steps:
            fatal = sum(int(step.get("fatal") or 0) for step in run.steps)
            rows.append(_unjudged_row(f"{run.label}: training", total, counts, fatal))
        reasons += _list_reasons(f"{run.label}: last rollouts", run.last_reasons)
        for evaluation in run.evaluations.values():
            name = f"{run.label}: evaluation “{evaluation.name}”"
            level = evaluation.level("all") or {}
            counts = _count_kinds(evaluation, level)
            attempts, fatal = int(level.get("attempts") or 0), int(level.get("fatal") or 0)
            rows.append(_unjudged_row(name, attempts, counts, fatal))
            reasons += _list_reasons(name, evaluation.attempts.reasons)
    if not rows:
        return '<p class="empty">Nothing has been sent to the verifier yet.</p>'
    table = (
        '<div class="scroll"><table><thead><tr><th>Where</th><th>Attempts</th><th>Timeout</th>'
        "<th>Crashed</th><th>Share</th><th>Fatal</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
    why = f"<h3>Why</h3><ul>{''.join(reasons)}</ul>" if reasons else ""
    return table + why


def _count_kinds(evaluation: StoredEvaluation, level: Row) -> Counter[str]:
    """By kind from the attempts where they were kept, else the bare number."""
    statuses = evaluation.attempts.statuses
    counts = Counter({str(kind): num for kind, num in statuses.items() if not kind.judged})
    return counts or Counter(unjudged_counts(level.get("unjudged")))


def _unjudged_row(name: str, total: int, counts: Counter[str], fatal: int) -> str:
    lost = sum(counts.values())
    share = f"{100 * lost / total:.2f} %" if total else "–"
    known = lost == sum(counts[kind] for kind in UNJUDGED_KINDS)
    kinds = [f"{counts[kind]:,}" if known else "–" for kind in UNJUDGED_KINDS]
    return (
        f'<tr><th scope="row">{escape(name)}</th><td>{total:,}</td>'
        f"<td>{kinds[0]}</td><td>{kinds[1]}</td><td>{share}</td><td>{fatal:,}</td></tr>"
    )


def _list_reasons(name: str, reasons: Mapping[str, int]) -> list[str]:
    return [
        f"<li>{escape(name)}: {count:,} × {escape(reason)}</li>"
        for reason, count in Counter(reasons).most_common(REASONS_SHOWN)
    ]
