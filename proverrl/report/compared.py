"""The comparison's HTML: warnings, paired differences, and the matrix of who solved what.

Flows in: shelves, warnings. Flows out: escaped HTML; buttons of the matrix carry
``data-shelf`` and ``data-pair`` for ``problems.js``, which filters the list by them.
Not handled here: the figures themselves (``comparison``).
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from proverrl.report.comparison import ColumnDifference, Shelf, count_overlap, list_differences
from proverrl.report.headline import signed
from proverrl.statistics import McNemar


def render_warnings(warnings: Sequence[str]) -> str:
    """A box a sentence."""
    return "".join(f'<p class="warn">{escape(text)}</p>' for text in warnings)


def render_differences(shelves: Sequence[Shelf]) -> str:
    """A table of every pair and k; empty when there is nothing to pair."""
    differences = [item for shelf in shelves for item in list_differences(shelf)]
    if not differences:
        return ""
    rows = "".join(_render_difference(item) for item in differences)
    return (
        "<h3>Differences, paired by problem</h3>"
        '<p class="lead small">Points of pass@k, with 95 % intervals over the problems with k '
        "judged attempts on both sides. p is the chance of a difference as large as this if both "
        "were alike on every problem. It is coloured below 0.05, as one in twenty would be "
        "without any difference.</p>"
        '<div class="scroll"><table class="differences"><thead><tr><th>What</th><th>Against</th>'
        "<th>k</th><th>Difference</th><th>p</th><th>Problems</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def _render_difference(item: ColumnDifference) -> str:
    gap = item.gap
    css = "same" if gap.p >= 0.05 else "up" if gap.value > 0 else "down"
    value, low, high = (signed(100 * part) for part in (gap.value, gap.low, gap.high))
    excluded = f'<span class="sub lost">{item.excluded:,} left out</span>' if item.excluded else ""
    return (
        f'<tr><th scope="row">{escape(item.title)}</th><td>{escape(item.base)}</td>'
        f'<td>{item.k}</td><td><span class="chip {css}">{value}</span>'
        f'<span class="sub">{low} to {high}</span></td><td>{gap.p:.2g}</td>'
        f"<td>{item.problems:,}{excluded}</td></tr>"
    )


def render_matrices(shelves: Sequence[Shelf]) -> str:
    """A matrix for each benchmark that two or more evaluations were made on."""
    parts = []
    for number, shelf in enumerate(shelves):
        if len(shelf.columns) > 1:
            parts.append(_render_matrix(number, shelf))
    if not parts:
        return ""
    lead = (
        '<p class="lead small">Each cell counts the problems that the row solved and the column '
        "did not; on the diagonal, those that the row solved at all. Solved means at least "
        "one proof; for two, only problems with a judged attempt in both count. Click a number to "
        "see its problems in the list below.</p>"
    )
    return f'<h3 id="solved-by">Who solved what</h3>{lead}{"".join(parts)}'


def _render_matrix(number: int, shelf: Shelf) -> str:
    titles = [column.title for column in shelf.columns]
    places = range(len(titles))
    heads = "".join(f'<th scope="col">{escape(title)}</th>' for title in titles)
    rows, notes = "", []
    for one in places:
        cells = ""
        for other in places:
            overlap = count_overlap(shelf, one, other)
            cells += _render_cell(number, one, other, overlap, titles)
            if one < other:
                notes.append(_describe_pair(shelf, overlap, titles[one], titles[other]))
        rows += f'<tr><th scope="row">{escape(titles[one])}</th>{cells}</tr>'
    listed = "".join(f"<li>{escape(note)}</li>" for note in notes)
    pairs = (
        f'<ul class="pairs">{listed}</ul>'
        if len(notes) == 1
        else f'<details class="card"><summary><span class="id">All {len(notes)} pairs</span>'
        f'</summary><ul class="pairs inset">{listed}</ul></details>'
    )
    return (
        '<div class="scroll"><table class="matrix"><thead><tr><th>solved by ↓, not by →</th>'
        f"{heads}</tr></thead><tbody>{rows}</tbody></table></div>{pairs}"
    )


def _render_cell(number: int, one: int, other: int, overlap: McNemar, titles: Sequence[str]) -> str:
    count = overlap.both if one == other else overlap.only_first
    told = f"solved by {titles[one]}" + ("" if one == other else f", not by {titles[other]}")
    css = ' class="own"' if one == other else ""
    return (
        f'<td{css}><button type="button" class="count" data-shelf="{number}" '
        f'data-pair="{one} {other}" aria-label="{count:,} problems {escape(told)}: show them">'
        f"{count:,}</button></td>"
    )


def _describe_pair(shelf: Shelf, overlap: McNemar, first: str, second: str) -> str:
    text = (
        f"{first} and {second}: both solved {overlap.both:,}, only the first "
        f"{overlap.only_first:,}, only the second {overlap.only_second:,}, neither "
        f"{overlap.neither:,}"
    )
    known = overlap.both + overlap.only_first + overlap.only_second + overlap.neither
    lost = len(shelf.names) - known
    return text + (f"; {lost:,} have no judged attempt in one of them." if lost else ".")
