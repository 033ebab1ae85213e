"""The section "Self-play": what was composed, what the guards stopped, and who waited for whom.

Flows in: the figures that a self-play run logs with every step, and its archive. Flows out: charts,
and HTML with tables, warnings, examples and the picture of the archive.
Not handled here: what was drawn when (``curriculum``), the archive itself (``lineage``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from proverrl.report.curriculum import count_shares
from proverrl.report.figures import (
    Chart,
    read_number,
    smoothing_width,
    step_chart,
    step_series,
    trailing_mean,
)
from proverrl.report.lineage import Lineage
from proverrl.report.run import Row, RunRecord

HOLDER = "selfplay-charts"
PARTS = ("composer", "generator", "pool", "learner")
MAX_WARNINGS = 50
MAX_ROUNDS = 1000
_KEPT, _UNREADABLE, _UNCHECKED = "kept", "no statement in it", "not asked about"
_BINS = ("0", "0-0.25", "0.25-0.5", "0.5-0.75", "0.75-1", "1")
_COLLAPSE = (
    ("compose_variety", "skeletons a problem"),
    ("compose_top_template", "commonest template"),
    ("compose_distinct", "distinct n-grams"),
    ("compose_overlap", "shared n-grams"),
    ("compose_always", "solved by every attempt"),
    ("compose_never", "solved by none"),
)


def build_selfplay_charts(runs: Sequence[RunRecord]) -> list[Chart]:
    """The charts that have a point, for each run: what became of statements, their solve rates, the
    composer's reward, the collapse watch, idle seconds."""
    charts = []
    for run in runs:
        end = "" if len(runs) == 1 else f", {run.label}"
        rows = [row for row in run.steps if row.get("statements_written")]
        rated = [row | {"solve_rates": _bins(row)} for row in rows if any(_bins(row).values())]
        parts = tuple((f"idle_{part}_seconds", part) for part in PARTS)
        reward = (("composer_reward", "mean reward"),)
        entropy = (("compose_operator_entropy", "entropy"),)
        charts += [
            _outcome_chart(f"Statements{end}", rows),
            _rates_chart(f"Solve rates of composed problems{end}", rated),
            _lines(f"Composer's reward{end}", "mean over the statements rewarded", rows, reward),
            _lines(f"Composed problems{end}", "share", run.steps, _COLLAPSE, percent=True),
            _lines(f"Operators{end}", "entropy of a round, nats", rows, entropy),
            _lines(f"Idle{end}", "seconds of a step", rows, parts),
        ]
    return [chart | {"holder": HOLDER} for chart in charts if chart["series"]]


def render_selfplay(runs: Sequence[RunRecord], lineages: Sequence[Lineage]) -> str:
    """All of the section but its charts; a sentence when no run composed problems."""
    by_label = {lineage.label: lineage for lineage in lineages}
    several, parts = len(runs) > 1, [_render_warnings(runs)]
    for run in runs:
        rows = [row for row in run.steps if row.get("statements_written")]
        lineage = by_label.get(run.label)
        if not rows and lineage is None:
            continue
        parts.append(f"<h3>{escape(run.label)}</h3>" if several else "")
        if rows:
            parts += [_render_totals(rows), _render_idle(rows)]
            parts.append(_render_guards(rows, lineage.examples if lineage else {}))
            parts.append(_render_rounds(rows))
        if lineage is not None:
            parts.append(_render_picture(lineage))
    return "".join(parts) or '<p class="empty">No problem has been composed.</p>'


def count_outcomes(row: Row) -> Counter[str]:
    """What became of a step's statements: kept, stopped by each guard, unreadable, or tried by the
    solver with an outcome that spared the late guards the questions."""
    stops = row.get("guard_stops")
    found = Counter(
        {str(guard): int(n) for guard, n in stops.items()} if isinstance(stops, Mapping) else {}
    )
    found[_KEPT] = int(row.get("statements_kept") or 0)
    found[_UNREADABLE] = int(row.get("statements_malformed") or 0)
    found[_UNCHECKED] = int(row.get("statements_unchecked") or 0)
    return +found


def _bins(row: Row) -> dict[str, int]:
    """A step's tried problems by solve rate; empty where the step says nothing of them."""
    found = row.get("solve_rates")
    return {str(name): int(n) for name, n in found.items()} if isinstance(found, Mapping) else {}


def _outcome_chart(title: str, rows: Sequence[Row]) -> Chart:
    rows = [{**row, "outcomes": count_outcomes(row)} for row in rows]
    rows = [row for row in rows if row["outcomes"]]
    width = smoothing_width(len(rows))
    names, shares = count_shares(rows, "outcomes", width=width)
    series = [
        step_series(name, color, rows, [s[name] for s in shares], stacked=True, width=width)
        for color, name in enumerate(sorted(names, key=lambda name: name != _KEPT))
    ]
    return step_chart(title, "share of those written", series, percent=True)


def _rates_chart(title: str, rows: Sequence[Row]) -> Chart:
    width = smoothing_width(len(rows))
    _, shares = count_shares(rows, "solve_rates", width=width)
    series = [
        step_series(
            f"p = {name}" if name in ("0", "1") else f"p in {name}",
            color,
            rows,
            [share.get(name, 0.0) for share in shares],
            stacked=True,
            width=width,
        )
        for color, name in enumerate(_BINS)
        if rows
    ]
    note = "a bin holds its upper bound, but for 0 and 1, which stand alone" if rows else ""
    return step_chart(title, "share of those tried", series, percent=True, ramp="levels", note=note)


def _lines(
    title: str,
    unit: str,
    rows: Sequence[Row],
    names: Sequence[tuple[str, str]],
    *,
    percent: bool = False,
) -> Chart:
    series = []
    for color, (key, name) in enumerate(names):
        found = [row for row in rows if read_number(row.get(key)) is not None]
        width = smoothing_width(len(found))
        values = trailing_mean([read_number(row.get(key)) for row in found], width)
        if found:
            series.append(step_series(name, color, found, values, width=width))
    return step_chart(title, unit, series, percent=percent)


def _render_warnings(runs: Sequence[RunRecord]) -> str:
    lines = list(_list_warnings(runs))
    if not lines:
        return ""
    more = len(lines) - MAX_WARNINGS
    end = f"<li>and {more} older ones</li>" if more > 0 else ""
    items = "".join(lines[:MAX_WARNINGS])
    return f"<h3>Warnings about composed problems</h3><ul>{items}{end}</ul>"


def _list_warnings(runs: Sequence[RunRecord]) -> Iterator[str]:
    for run in runs:
        name = f"{run.label}, " if len(runs) > 1 else ""
        for row in reversed(run.steps):
            where = f"{name}step {row.get('step')}"
            for text in row.get("compose_warnings") or ():
                yield f"<li>{escape(f'{where}: {text}')}</li>"


def _render_totals(rows: Sequence[Row]) -> str:
    outcomes: Counter[str] = sum((count_outcomes(row) for row in rows), Counter())
    rates: Counter[str] = sum((Counter(_bins(row)) for row in rows), Counter())
    written = sum(int(row["statements_written"]) for row in rows)
    stopped = written - outcomes[_KEPT] - outcomes[_UNREADABLE] - outcomes[_UNCHECKED]
    never, always = rates["0"], rates["1"]
    calls = sum(int(row.get("guard_calls") or 0) for row in rows)
    text = (
        f"{len(rows):,} rounds: {written:,} statements written, {outcomes[_UNREADABLE]:,} "
        f"unreadable, {stopped:,} stopped by guards, {outcomes[_KEPT]:,} kept"
        f"{_name_unchecked(outcomes[_UNCHECKED])}. Of "
        f"{rates.total():,} tried, {never:,} were solved by no attempt, {always:,} by every one. "
        f"The guards took {calls:,} verifier calls."
    )
    return f'<p class="lead">{escape(text)}</p>'


def _name_unchecked(num: int) -> str:
    return f", {num:,} too easy or too hard for the late guards" if num else ""


def _render_idle(rows: Sequence[Row]) -> str:
    """Idle seconds of each part, and their share of the steps' time."""
    cells = ""
    for part in PARTS:
        found = [(row, read_number(row.get(f"idle_{part}_seconds"))) for row in rows]
        known = [(row, value) for row, value in found if value is not None]
        if known:
            idle = sum(value for _, value in known)
            whole = sum(read_number(row.get("step_seconds")) or 0.0 for row, _ in known)
            share = f"{100 * min(1.0, idle / whole):.0f} %" if whole else "–"
            cells += f'<tr><th scope="row">{part}</th><td>{idle:,.1f}</td><td>{share}</td></tr>'
    if not cells:
        return ""
    return (
        '<h3>Who waited</h3><div class="scroll"><table><thead><tr><th>Part</th>'
        f"<th>Idle seconds</th><th>Of the steps’ time</th></tr></thead><tbody>{cells}</tbody>"
        "</table></div>"
    )


def _render_guards(rows: Sequence[Row], examples: Mapping[str, Row]) -> str:
    """A line a guard, with what it stopped last."""
    counts: Counter[str] = sum((count_outcomes(row) for row in rows), Counter())
    for name in (_KEPT, _UNREADABLE, _UNCHECKED):
        del counts[name]
    if not counts:
        return '<p class="empty">No guard stopped anything.</p>'
    written = sum(int(row["statements_written"]) for row in rows)
    body, cards = "", ""
    for guard, n in counts.most_common():
        example = examples.get(guard)
        why = str(example.get("reason") or "–") if example else "none is in the archive"
        body += (
            f'<tr><th scope="row">{escape(guard)}</th><td>{n:,}</td>'
            f"<td>{100 * n / written:.1f} %</td><td>{n / len(rows):.2f}</td></tr>"
        )
        if example:
            made = f"{example['operator']} of {' + '.join(example['parents'])}"
            text = str(example["preamble"]) + str(example["statement"])
            cut = f"\n… {example['cut']} more characters" if example.get("cut") else ""
            cards += (
                f'<details class="card"><summary><span class="id">{escape(guard)}</span>'
                f'<span>{escape(why)}</span><span class="tally">{escape(str(example["id"]))}, '
                f"{escape(made)}, round {example['round']}</span></summary>"
                f'<div class="code plain"><pre>{escape(text + cut)}</pre></div></details>'
            )
        else:
            cards += f'<p class="dim small">{escape(guard)}: no example, {escape(why)}.</p>'
    return (
        '<h3>What the guards stopped</h3><div class="scroll"><table><thead><tr><th>Guard</th>'
        "<th>Stopped</th><th>Of those written</th><th>Per step</th></tr></thead>"
        f"<tbody>{body}</tbody></table></div><h4>The last problem that each stopped</h4>"
        f'<div class="cards">{cards}</div>'
    )


def _render_rounds(rows: Sequence[Row]) -> str:
    """The counts of each of the newest rounds, folded away."""
    more = len(rows) - MAX_ROUNDS
    rows = rows[-MAX_ROUNDS:]
    outcomes = [count_outcomes(row) for row in rows]
    names = sorted({name for counts in outcomes for name in counts}, key=lambda n: (n != _KEPT, n))
    heads = "".join(f"<th>{escape(name)}</th>" for name in names)
    heads += "".join(f"<th>p {escape(name)}</th>" for name in _BINS)
    body = ""
    for row, counts in zip(rows, outcomes, strict=True):
        bins = _bins(row)
        cells = [counts[name] for name in names] + [bins.get(name, 0) for name in _BINS]
        reward = read_number(row.get("composer_reward"))
        body += (
            f'<tr><th scope="row">{escape(str(row.get("step")))}</th>'
            f"<td>{int(row['statements_written']):,}</td>"
            + "".join(f"<td>{n or ''}</td>" for n in cells)
            + f"<td>{'–' if reward is None else f'{reward:.3f}'}</td></tr>"
        )
    title = f"The newest {MAX_ROUNDS:,} rounds" if more > 0 else "Every round"
    return (
        f'<details class="card"><summary><span class="id">{title}</span><span class="dim">'
        'statements, stops, solve rates, reward</span></summary><div class="scroll inset"><table>'
        f"<thead><tr><th>Step</th><th>written</th>{heads}<th>reward</th></tr></thead>"
        f"<tbody>{body}</tbody></table></div></details>"
    )


def _render_picture(lineage: Lineage) -> str:
    return (
        '<h3>Lineage</h3><p class="lead">Base problems on the left, composed ones to the '
        "right, newer rounds further down. Hollow: stopped by a guard. Click a circle to see the "
        "problem and its relatives.</p>"
        f'<div class="scroll lineage" data-piece="{lineage.piece.name}">{lineage.picture}</div>'
        '<div class="lineage-shown" aria-live="polite"></div>'
    )
