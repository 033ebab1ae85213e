"""Searches on a terminal: a live tree while it grows, or plain lines when nobody is watching.

Flows in: searches, after every expansion. Flows out: text on one stream, a few times a second at
most; a table at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree as ShownTree

from proverrl.monitor.console import can_draw_live, open_table
from proverrl.monitor.display import TimedPanel, format_share, sparkline
from proverrl.rollout.completion_counts import describe_lost, sum_figures, warn_of_lost
from proverrl.search.base import Search, StopReason
from proverrl.search.folder import count_turns
from proverrl.search.view import TreeFigures, measure_tree

LIVE_SECONDS, PLAIN_SECONDS = 0.25, 5.0
MAX_WAY = 8

_REASONS: Mapping[StopReason, str] = {
    "proved": "stopped",
    "calls": "out of calls",
    "idle": "nothing new was written",
    "exhausted": "no state left to expand",
}


@dataclass(frozen=True, slots=True)
class Glance:
    """The state of a search at one moment, as it is shown."""

    problem_id: str
    calls: int
    max_calls: int
    tokens: int
    proofs: int
    lost: str
    tree: TreeFigures


def take_glance(search: Search, max_calls: int) -> Glance:
    """The search as it is now. O(nodes + turns)."""
    return Glance(
        problem_id=search.problem.id,
        calls=search.calls,
        max_calls=max_calls,
        tokens=search.tokens,
        proofs=search.num_proofs,
        lost=describe_lost(count_turns(search.all_turns).figures()),
        tree=measure_tree(search.tree, search.problem.language),
    )


def describe_best(glance: Glance) -> str:
    """The best so far: a proof, or the deepest state and what is open there."""
    if glance.proofs:
        return "proved" if glance.proofs == 1 else f"{glance.proofs} proofs"
    tree = glance.tree
    if not tree.depth:
        return "nothing kept yet"
    known = "" if tree.num_open is None else f", {tree.num_open} known open"
    return f"depth {tree.depth}{known}"


def describe_glance(glance: Glance) -> str:
    """One line, ASCII only but for the problem's id."""
    tree = glance.tree
    return (
        f"{glance.problem_id}: calls {glance.calls}/{glance.max_calls}  tokens {glance.tokens}  "
        f"nodes {tree.nodes}  depth {tree.depth}  open {tree.open_states}  "
        f"best: {describe_best(glance)}" + (f"  {glance.lost}" if glance.lost else "")
    )


class PlainSearches:
    """A line every few seconds, the last of each search always."""

    def __init__(
        self, stream: TextIO, max_calls: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_calls = max_calls
        self._stream = stream
        self._clock = clock
        self._printed: dict[str, float] = {}

    def note(self, line: str) -> None:
        print(line, file=self._stream, flush=True)

    def watch(self, search: Search) -> None:
        now, name = self._clock(), search.problem.id
        if now - self._printed.get(name, float("-inf")) >= PLAIN_SECONDS:
            self._printed[name] = now
            self.note(describe_glance(take_glance(search, self._max_calls)))

    def end(self, search: Search) -> None:
        self._printed.pop(search.problem.id, None)
        self.note(describe_glance(take_glance(search, self._max_calls)))

    def close(self) -> None:
        """Nothing is held back."""


class LiveSearches(TimedPanel):
    """A row for each search under way, and the way to the best state of the one that moved last.
    Those that ended are lines above the panel."""

    def __init__(
        self, stream: TextIO, max_calls: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_calls = max_calls
        self._looked: dict[str, float] = {}
        self._glances: dict[str, Glance] = {}
        self._last = ""
        super().__init__(stream, clock, "search", transient=True)

    def note(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)

    def watch(self, search: Search) -> None:
        # Looked at here and not where it is drawn: that is another thread, and the tree grows.
        now, name = self._clock(), search.problem.id
        if now - self._looked.get(name, float("-inf")) >= LIVE_SECONDS:
            self._looked[name] = now
            self._glances[name] = take_glance(search, self._max_calls)
            self._last = name

    def end(self, search: Search) -> None:
        glance = take_glance(search, self._max_calls)
        self._looked.pop(glance.problem_id, None)
        self._glances.pop(glance.problem_id, None)
        style = "green" if glance.proofs else ""
        self._console.print(Text(describe_glance(glance), style=style), soft_wrap=True)

    def list_rows(self) -> list[RenderableType]:
        glances = dict(self._glances)
        rows: list[RenderableType] = [make_live_table(list(glances.values()))]
        last = glances.get(self._last)
        if last is not None:
            rows.append(draw_way(last, draw_blocks=self.draw_blocks))
        return rows


SearchDisplay = LiveSearches | PlainSearches


def open_display(stream: TextIO, max_calls: int) -> SearchDisplay:
    """The live display on a terminal, else plain lines. Of both, ``note`` prints a line that stays,
    ``watch`` shows a search that goes on, ``end`` one that ended."""
    return (LiveSearches if can_draw_live(stream) else PlainSearches)(stream, max_calls)


def make_live_table(glances: list[Glance]) -> Table:
    """A row for each search under way."""
    table = Table.grid(padding=(0, 2))
    heads = ("problem", "calls", "tokens", "nodes", "depth", "open", "best so far", "completions")
    for head in heads:
        side = "left" if head in ("problem", "best so far", "completions") else "right"
        table.add_column(justify=side)  # type: ignore[arg-type]
    table.add_row(*(Text(head, style="dim") for head in heads))
    for glance in glances:
        tree = glance.tree
        table.add_row(
            Text(glance.problem_id),
            f"{glance.calls}/{glance.max_calls}",
            f"{glance.tokens:,}",
            f"{tree.nodes:,}",
            str(tree.depth),
            f"{tree.open_states:,}",
            Text(describe_best(glance), style="green" if glance.proofs else ""),
            glance.lost,
        )
    return table


def draw_way(glance: Glance, *, draw_blocks: bool = True) -> RenderableType:
    """The nodes of each depth, and the states on the way to the best one."""
    widths = " ".join(map(str, glance.tree.widths))
    top = max((1, *glance.tree.widths))
    blocks = sparkline([*map(float, glance.tree.widths)], top=top) if draw_blocks else ""
    root = ShownTree(Text(f"nodes by depth {widths} {blocks}", style="dim"), guide_style="dim")
    branch = root
    way = glance.tree.way
    for state in way[:MAX_WAY]:
        branch = branch.add(Text(" / ".join(state.split("\n")), no_wrap=True, overflow="ellipsis"))
    if len(way) > MAX_WAY:
        branch.add(Text(f"{len(way) - MAX_WAY} more", style="dim"))
    return root


def make_summary(name: str, results: Sequence[Mapping[str, Any]]) -> Table:
    """The table at the end: a row for each ``result.json``."""
    proved = sum(result["proved"] for result in results)
    table = open_table(f"{name}: {proved} of {len(results)} proved")
    table.add_column("problem", no_wrap=True)
    table.add_column("result")
    # These take no columns where no completion was lost, as in most searches.
    keys = ("truncated_share", "without_candidate_share")
    lost = dict(zip(("cut off", "no candidate"), keys, strict=True))
    if not any(result.get(key) for result in results for key in keys):
        lost = {}
    for head in ("calls", "tokens", *lost, "nodes", "lines", "seconds"):
        table.add_column(head, justify="right", no_wrap=head not in lost)
    for result in results:
        table.add_row(
            Text(result["problem_id"]),
            _describe_end(result),
            str(result["calls"]),
            str(result["tokens"]),
            *(format_share(result.get(key)) for key in lost.values()),
            str(result["curve"][-1][3] if result["curve"] else 1),
            _describe_lengths(result),
            f"{result['seconds']:.1f}",
        )
    return table


def list_warnings(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sentences about more than half of all completions that came to nothing; from each
    ``result.json``."""
    counts = sum_figures(results, num="completions")
    if counts is None:
        return []
    settings = results[-1].get("settings", {})
    warnings = warn_of_lost(
        counts.figures(),
        max_new_tokens=settings.get("max_new_tokens"),
        layout=settings.get("layout"),
    )
    return [text for text in warnings.values() if text]


def _describe_end(result: Mapping[str, Any]) -> Text:
    if result["proved"]:
        first = min(proof["calls"] for proof in result["proofs"])
        return Text(f"proved at call {first}", style="green")
    return Text(f"open: {_REASONS[result['stopped']]}")


def _describe_lengths(result: Mapping[str, Any]) -> str:
    """The lines of the shortest proof, and of what is left of it."""
    if not result["proofs"]:
        return "-"
    bodies = [proof["body"] for proof in result["proofs"]]
    lines = str(_count_lines(min(bodies, key=len)))
    minimised = result["minimised"]
    return lines + (f", then {_count_lines(minimised['body'])}" if minimised else "")


def _count_lines(text: str) -> int:
    return sum(bool(line.strip()) for line in text.splitlines())
