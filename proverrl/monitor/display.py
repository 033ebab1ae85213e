"""The display of a run on a terminal: a live panel, or plain lines when nobody is watching.

Flows in: the latest figures. Flows out: text on one stream. A panel leaves the terminal as it was,
however its process ends. Not handled here: files; keys other than Ctrl-C that are typed meanwhile;
a process that is killed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from proverrl.monitor.console import LivePanel, choose_width, open_console
from proverrl.monitor.metrics import LimitUse
from proverrl.rollout.completion_counts import describe_lost

SECONDS_BETWEEN_PHASE_LINES = 5.0
SPARKLINE_WIDTH = 32
_BLOCKS = "▁▂▃▄▅▆▇█"


def format_seconds(seconds: float) -> str:
    """A duration for people: 7s, 4m05s, 2h03m."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def format_figure(value: Any, digits: int = 3) -> str:
    """A number for people; a dash when there is none (a null in the metrics)."""
    if not isinstance(value, int | float):
        return "-"
    if isinstance(value, int) or digits == 0:
        return f"{value:,.0f}"
    return f"{value:.{digits}f}"


def format_share(value: Any) -> str:
    """A share in percent for people; a dash when there is none."""
    return f"{100 * value:.0f}%" if isinstance(value, int | float) else "-"


def sparkline(values: Sequence[float], width: int = SPARKLINE_WIDTH, *, top: float = 1.0) -> str:
    """The last ``width`` values as blocks, from 0 (lowest block) to ``top`` and above."""
    shown = [max(0.0, value) for value in values[-width:]]
    return "".join(_BLOCKS[min(7, int(8 * value / top))] for value in shown)


def describe_place(row: Mapping[str, Any], limit: LimitUse | None) -> list[str]:
    """The step or round, and how much is used of the limit that will end the run."""
    kind = row.get("kind", "step")
    if limit is None:
        return [f"{kind} {row['step']}"]
    if limit.unit == f"{kind}s":
        return [f"{kind} {row['step']}/{limit.most:.0f}"]
    return [f"{kind} {row['step']}", limit.describe()]


def describe_step(values: Mapping[str, Any], limit: LimitUse | None, left: str) -> str:
    """The plain line of one step or round, ASCII only; figures that are missing are left out."""
    unjudged = sum((values.get("unjudged") or {}).values())
    parts = describe_place(values, limit)
    for key, label, digits in (
        ("solve_rate", "solved", 3),
        ("loss", "loss", 4),
        ("verified_per_second", "verified/s", 1),
        ("tokens_per_second", "tokens/s", 0),
    ):
        if key in values:
            parts.append(f"{label} {format_figure(values[key], digits)}")
    if "groups_mixed" in values:
        parts.append(f"mixed {values['groups_mixed']}/{values.get('groups', '-')}")
    if unjudged:
        parts.append(f"unjudged {unjudged}")
    if fatal := values.get("fatal"):
        parts.append(f"fatal {fatal}")
    if lost := describe_lost(values):
        parts.append(lost)
    if composed := describe_composed(values):
        parts.append(f"composed {composed}")
    if left not in ("", "-"):
        parts.append(f"left {left}")
    return "  ".join(parts)


def describe_composed(values: Mapping[str, Any]) -> str:
    """Self-play's key figures of a step: statements kept of those written, how many of those tried
    no attempt solved and every one did, the composer's reward, warnings. The data loop's: how many
    were proved and disproved. Empty in other runs."""
    if "statements_written" not in values:
        return ""
    kept = f"{values.get('statements_kept', '-')}/{values['statements_written']} kept"
    if "statements_proved" in values:
        ended = f"{values.get('statements_disproved', '-')} disproved"
        return f"{kept}, {values['statements_proved']} proved, {ended}"
    rates = values.get("solve_rates") or {}
    parts = [
        kept,
        f"p=0 {rates.get('0', 0)}, p=1 {rates.get('1', 0)} of {sum(rates.values())}",
        f"reward {format_figure(values.get('composer_reward'), 3)}",
    ]
    if warnings := values.get("compose_warnings"):
        parts.append("warns of " + ", ".join(str(text).partition(":")[0] for text in warnings))
    return ", ".join(parts)


class PlainDisplay:
    """One line per step; phase lines at most every few seconds, the last one always; a warning when
    there is cause for it, and not again while there is."""

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        self._stream = stream
        self._warned: set[str] = set()
        self._clock = clock
        self._phase = ""
        self._printed_at = float("-inf")
        self._pending = ""

    def show_phase(self, name: str, detail: str) -> None:
        line = f"{name}: {detail}" if detail else name
        if name != self._phase:
            self._flush_pending()
            self._phase = name
        elif self._clock() - self._printed_at < SECONDS_BETWEEN_PHASE_LINES:
            self._pending = line
            return
        self._print(line)

    def show_warning(self, name: str, text: str) -> None:
        if not text:
            self._warned.discard(name)
        elif name not in self._warned:
            self._warned.add(name)
            self._flush_pending()
            self._phase = ""
            self._print(f"warning: {text}")

    def show_step(self, line: str, state: Mapping[str, Any]) -> None:
        self._flush_pending()
        self._phase = ""
        self._print(line)

    def refresh(self, state: Mapping[str, Any]) -> None:
        """Nothing: figures between two steps are for a live panel."""

    def close(self) -> None:
        self._flush_pending()

    def _flush_pending(self) -> None:
        if self._pending:
            self._print(self._pending)

    def _print(self, line: str) -> None:
        self._pending = ""
        self._printed_at = self._clock()
        print(line, file=self._stream, flush=True)


class TimedPanel(ABC):
    """A panel with the seconds since it was opened, redrawn in place until it is closed. A
    subclass sets its figures before ``__init__``: another thread draws."""

    def __init__(
        self, stream: TextIO, clock: Callable[[], float], title: str, *, transient: bool
    ) -> None:
        self._console = open_console(stream)
        self._clock = clock
        self._title = title
        self._started = clock()
        self._live = LivePanel(
            self._console,
            get_renderable=self._render,
            refresh_per_second=4,
            transient=transient,
        )
        self._live.start()

    def close(self) -> None:
        self._live.stop()

    @property
    def draw_blocks(self) -> bool:
        """True when the terminal knows block characters."""
        return self._console.encoding.startswith("utf")

    @abstractmethod
    def list_rows(self) -> list[RenderableType]:
        """The rows of the panel."""

    def _render(self) -> RenderableType:
        return Panel(
            Group(*self.list_rows()),
            title=self._title,
            subtitle=format_seconds(self._clock() - self._started),
            title_align="left",
            subtitle_align="right",
            border_style="dim",
            width=choose_width(self._console),
        )


class LiveDisplay(TimedPanel):
    """A panel whose last state stays on the screen, and so does each warning in it while there is
    cause for it."""

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        self._state: Mapping[str, Any] = {}
        self._warnings: dict[str, str] = {}
        self._phase = "starting"
        super().__init__(stream, clock, "ProverRL", transient=False)

    def show_phase(self, name: str, detail: str) -> None:
        self._phase = f"{name}: {detail}" if detail else name

    def show_warning(self, name: str, text: str) -> None:
        # Another one and not a change: the panel is drawn by another thread.
        others = {known: said for known, said in self._warnings.items() if known != name}
        self._warnings = others | {name: text} if text else others

    def show_step(self, line: str, state: Mapping[str, Any]) -> None:
        self._phase = ""
        self.refresh(state)

    def refresh(self, state: Mapping[str, Any]) -> None:
        self._state = dict(state)

    def list_rows(self) -> list[RenderableType]:
        state = dict(self._state)
        rows: list[RenderableType] = []
        if self._phase:
            rows.append(Text(self._phase, style="cyan"))
        if "step" in state:
            rows.append(render_steps(state, draw_blocks=self.draw_blocks))
        rows += [Text(f"warning: {text}", style="yellow") for text in self._warnings.values()]
        return rows or [Text("starting")]


def render_steps(state: Mapping[str, Any], *, draw_blocks: bool = True) -> RenderableType:
    """The panel's body: progress, solve rate with its trend, rates, loss and time left."""
    grid = Table.grid(padding=(0, 2))
    for _ in range(2):
        grid.add_column(style="dim", justify="right", no_wrap=True)
        grid.add_column(no_wrap=True)
    history = [value for value in state.get("history", ()) if value is not None]
    trend = sparkline(history) if draw_blocks else ""
    solved = Text.assemble((format_figure(state.get("solve_rate")), "bold green"), "  ", trend)
    grid.add_row("solve rate", solved, "time left", str(state.get("left") or "unknown yet"))
    grid.add_row(
        "verified/s",
        format_figure(state.get("verified_per_second"), 1),
        "verifier queue",
        format_figure(state.get("verifier_queue"), 0),
    )
    unjudged = sum((state.get("unjudged") or {}).values())
    grid.add_row(
        "tokens/s",
        format_figure(state.get("tokens_per_second"), 0),
        "mixed groups",
        f"{state.get('groups_mixed', '-')}/{state.get('groups', '-')}",
    )
    fatal = state.get("fatal")
    apart = f"{unjudged}, {fatal} fatal" if fatal else str(unjudged)
    style = "yellow" if unjudged or fatal else ""
    loss = format_figure(state.get("loss"), 4)
    grid.add_row("loss", loss, "unjudged", Text(apart, style=style))
    grid.add_row(
        "cut off",
        format_share(state.get("truncated_share")),
        "no candidate",
        format_share(state.get("without_candidate_share")),
    )
    bar = Table.grid(padding=(0, 2), expand=True)
    bar.add_column(no_wrap=True)
    bar.add_column(ratio=1)
    limit: LimitUse | None = state.get("limit")
    place, *used = describe_place(state, limit)
    # There is no bar to fill where nothing says when the run ends.
    bar.add_row(place, ProgressBar(total=limit.most, completed=limit.used) if limit else "", *used)
    if composed := describe_composed(state):
        line = Table.grid(padding=(0, 2))
        line.add_column(style="dim", no_wrap=True)
        line.add_column(overflow="fold")
        line.add_row("composed", composed)
        return Group(bar, grid, line)
    return Group(bar, grid)
