"""Follows a run from outside: what ``metrics.jsonl`` gains, drawn as the run itself would draw it.

Flows in: a run folder that may not exist yet, be written to, or be resumed meanwhile. Flows out: a
live panel or plain lines; nothing is written to the folder. A folder that holds evaluations and no
training is reported once. Not handled here: rollouts and pages (``proverrl.report``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from proverrl.files.lines import EVALS_FOLDER, METRICS_FILE, RESOLVED_FILE, only_evaluates
from proverrl.files.strict_json import read_object
from proverrl.monitor.console import LivePanel, can_draw_live, choose_width, open_console
from proverrl.monitor.display import (
    SPARKLINE_WIDTH,
    describe_step,
    format_figure,
    format_seconds,
    render_steps,
)
from proverrl.monitor.metrics import (
    STEP_KINDS,
    MetricsTail,
    Row,
    RunLimits,
    count_unfinished,
    read_limits,
)
from proverrl.rollout.completion_counts import warn_of_lost

STEPS_FOR_PACE = 10
SECONDS_BETWEEN_LOOKS = 2.0
_PARTS = ("generator", "pool", "learner", "composer")


@dataclass(slots=True)
class RunView:
    """A run as far as it is known. ``look`` brings it up to date."""

    run: Path
    tail: MetricsTail = field(init=False)
    config: Row = field(default_factory=dict)
    steps: list[Row] = field(default_factory=list)
    warm: Row | None = None
    evaluations: list[str] = field(default_factory=list)
    warnings: dict[str, int] = field(default_factory=dict)
    resumed: int = 0
    _checkpoint: str = ""

    def __post_init__(self) -> None:
        self.tail = MetricsTail(self.run / METRICS_FILE)

    def look(self) -> list[Row]:
        """Read what is new, and return its rows."""
        if not self.config:
            self.config = _table(_read_object(self.run / RESOLVED_FILE).get("config"))
        known = bool(self.steps or self.warm)
        rows, anew = self.tail.read()
        if anew:
            self.resumed += known
            self.steps, self.warm, self.evaluations = [], None, []
        for row in rows:
            kind = row.get("kind")
            if kind in STEP_KINDS and isinstance(row.get("step"), int):
                self.steps.append(row)
            elif kind == "sft":
                self.warm = row
            elif kind == "eval":
                self.evaluations.append(str(row.get("name")))
        if self.only_evaluates:
            self.evaluations = _list_evaluations(self.run)
        self._read_warnings()
        return rows

    def _read_warnings(self) -> None:
        """The guard counts its warnings in the checkpoint; each is read once."""
        names = sorted(path.name for path in (self.run / "checkpoints").glob("step_*"))
        if names and names[-1] != self._checkpoint:
            self._checkpoint = names[-1]
            state = _read_object(self.run / "checkpoints" / names[-1] / "state.json")
            counts = _table(_table(state.get("guard")).get("warnings"))
            self.warnings = {name: n for name, n in counts.items() if isinstance(n, int)}

    @property
    def stops(self) -> list[str]:
        """Findings of the guard that ended the run, each with a saved batch."""
        return sorted(path.stem for path in (self.run / "guard").glob("*.json"))

    @property
    def only_evaluates(self) -> bool:
        """True when there is nothing to follow."""
        return only_evaluates(self.run)

    @property
    def lost(self) -> dict[str, str]:
        """Sentences about more than half of the last step's completions that came to nothing."""
        found = warn_of_lost(self.steps[-1]) if self.steps else {}
        return {name: text for name, text in found.items() if text}

    @property
    def finished(self) -> bool:
        """True when the policy is there, which is written last."""
        return (self.run / "policy" / "config.json").exists()

    @property
    def limits(self) -> RunLimits:
        """The limits that end the run, as far as the configuration says."""
        return read_limits(self.config)

    def seconds_left(self) -> float | None:
        """The time until the first limit is reached, at the pace of the last steps. None where
        neither pace nor a limit on time is known."""
        recent = self.steps[-STEPS_FOR_PACE - 1 :]
        return self.limits.seconds_left(recent[0], recent[-1]) if recent else None

    def state(self) -> Row:
        """The figures that ``render_steps`` draws."""
        last = self.steps[-1]
        left = self.seconds_left()
        return {
            **last,
            "limit": self.limits.find_nearest(last),
            "left": "-" if self.finished else "" if left is None else format_seconds(left),
            "history": [row.get("solve_rate") for row in self.steps[-SPARKLINE_WIDTH:]],
        }


def _list_evaluations(run: Path) -> list[str]:
    """The evaluations that have attempts; without a result, with the number of attempts."""
    unfinished = count_unfinished(run)
    return [
        name + (f" ({unfinished[name]:,} attempts so far)" if name in unfinished else "")
        for name in sorted(file.stem for file in (run / EVALS_FOLDER).glob("*.jsonl"))
    ]


def _read_object(path: Path) -> Row:
    """A JSON object; empty while there is none, or only a part of one."""
    try:
        return read_object(path)
    except (OSError, ValueError):
        return {}


def _table(value: Any) -> Row:
    return value if isinstance(value, dict) else {}


def describe_verdicts(row: Mapping[str, Any]) -> str:
    """``49 proved, 66 rejected (2 fatal), 13 unsound``: the step's verdicts, proofs first."""
    verdicts = {str(name): int(n) for name, n in (row.get("verdicts") or {}).items() if n}
    names = sorted(verdicts, key=lambda name: (name != "proved", -verdicts[name], name))
    fatal = {"rejected": f" ({row['fatal']:,} fatal)"} if row.get("fatal") else {}
    return ", ".join(f"{verdicts[name]:,} {name}{fatal.get(name, '')}" for name in names)


def describe_flow(row: Mapping[str, Any]) -> str:
    """Staleness in steps and idle seconds of each part, as far as the step has them."""
    parts = []
    if row.get("staleness_mean") is not None:
        most = format_figure(row.get("staleness_max"), 0)
        parts.append(f"staleness {format_figure(row['staleness_mean'], 2)} (most {most})")
    idle = [
        f"{part} {format_figure(row[f'idle_{part}_seconds'], 1)}"
        for part in _PARTS
        if row.get(f"idle_{part}_seconds") is not None
    ]
    return "  ".join(parts + ([f"idle seconds {', '.join(idle)}"] if idle else []))


def describe_guard(view: RunView) -> str:
    """The guard's warnings up to the newest checkpoint, and the findings that it stopped for."""
    parts = [f"{name} {count}x" for name, count in sorted(view.warnings.items()) if count]
    parts += [f"stopped: {name}" for name in view.stops]
    return ", ".join(parts)


def describe_damage(view: RunView) -> str:
    """The number of lines that could not be read; empty when all could."""
    return f"{view.tail.bad_lines} lines of {METRICS_FILE}" if view.tail.bad_lines else ""


def describe_stage(view: RunView) -> str:
    """The stage of a run without steps, or after them."""
    if view.only_evaluates:
        return "evaluations only, no training to follow"
    if view.finished:
        return "finished"
    if view.steps:
        return ""
    if view.warm is not None:
        loss = format_figure(view.warm.get("loss"), 4)
        wanted = _table(view.config.get("warm_start")).get("steps")
        return f"warm start {view.warm.get('step')}/{wanted or '-'}, loss {loss}"
    return "begun" if view.config or view.run.exists() else "not begun yet"


def describe_lines(view: RunView, row: Mapping[str, Any]) -> str:
    """The plain line of a step, with verdicts and flow."""
    state = view.state()
    line = describe_step(row, view.limits.find_nearest(row), str(state["left"]))
    parts = [describe_verdicts(row), describe_flow(row)]
    return "  ".join([line, *(part for part in parts if part)])


def render_view(
    view: RunView, *, draw_blocks: bool = True, width: int | None = None
) -> RenderableType:
    """The panel: stage, the run's own rows, verdicts, flow, guard, evaluations."""
    rows: list[RenderableType] = []
    stage = describe_stage(view)
    if stage:
        rows.append(Text(stage, style="cyan"))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", justify="right", no_wrap=True)
    grid.add_column(overflow="fold")
    if view.steps:
        rows.append(render_steps(view.state(), draw_blocks=draw_blocks))
        grid.add_row("last verdicts", describe_verdicts(view.steps[-1]) or "-")
        if flow := describe_flow(view.steps[-1]):
            grid.add_row("flow", flow)
    for text in view.lost.values():
        grid.add_row("warning", Text(text, style="yellow"))
    if guard := describe_guard(view):
        grid.add_row("guard", Text(guard, style="yellow"))
    if view.evaluations:
        grid.add_row("evaluated", ", ".join(view.evaluations))
    if view.resumed:
        grid.add_row("resumed", f"{view.resumed}x since watching began")
    if damaged := describe_damage(view):
        grid.add_row("damaged", damaged)
    rows.append(grid)
    title = Text(f"ProverRL: {view.run}")
    return Panel(Group(*rows), title=title, title_align="left", border_style="dim", width=width)


def print_once(run: Path, stream: TextIO) -> None:
    """Print a run's state: a panel, or plain lines when the stream is no terminal."""
    view = RunView(run)
    view.look()
    if can_draw_live(stream):
        console = open_console(stream)
        console.print(render_view(view, draw_blocks=console.encoding.startswith("utf")))
        return
    _print_plain(view, stream)


def _print_plain(view: RunView, stream: TextIO) -> None:
    lines = [f"{view.run}: {stage}"] if (stage := describe_stage(view)) else []
    if view.steps:
        lines.append(describe_lines(view, view.steps[-1]))
    lines += [f"warning: {text}" for text in view.lost.values()]
    if guard := describe_guard(view):
        lines.append(f"guard: {guard}")
    if view.evaluations:
        lines.append(f"evaluated: {', '.join(view.evaluations)}")
    if damaged := describe_damage(view):
        lines.append(f"damaged: {damaged}")
    print("\n".join(lines), file=stream, flush=True)


def watch_run(
    run: Path,
    stream: TextIO,
    *,
    live: bool | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Follow a run until it is finished. One that was stopped is waited for, as one that has not
    begun: the same training command continues it. ``live`` as for the monitor."""
    view = RunView(run)
    if can_draw_live(stream) if live is None else live:
        _watch_live(view, stream, sleep)
    else:
        _watch_plain(view, stream, sleep)


def _watch_live(view: RunView, stream: TextIO, sleep: Callable[[float], None]) -> None:
    console = open_console(stream)
    blocks = console.encoding.startswith("utf")
    with LivePanel(console, auto_refresh=False, transient=False) as panel:
        while True:
            # Asked before the last look: what was written before the end is then read.
            finished = view.finished
            view.look()
            finished = finished or view.only_evaluates
            width = choose_width(console)
            panel.update(render_view(view, draw_blocks=blocks, width=width), refresh=True)
            if finished:
                return
            sleep(SECONDS_BETWEEN_LOOKS)


def _watch_plain(view: RunView, stream: TextIO, sleep: Callable[[float], None]) -> None:
    """A line per step; what was there before is told by its last step."""

    def say(line: str) -> None:
        print(line, file=stream, flush=True)

    stage, damaged, resumed, begun = "", "", 0, False
    warned: set[str] = set()
    while True:
        finished = view.finished
        rows = view.look()
        if view.resumed > resumed:
            last = int(view.steps[-1]["step"]) if view.steps else 0
            say(f"{view.run}: continues from step {last}")
        elif begun:
            for row in rows:
                if row.get("kind") in STEP_KINDS:
                    say(describe_lines(view, row))
                elif row.get("kind") == "eval":
                    say(f"evaluated: {row.get('name')}")
        elif view.steps:
            say(describe_lines(view, view.steps[-1]))
        resumed, begun = view.resumed, True
        for name, text in view.lost.items():
            if name not in warned:
                say(f"warning: {text}")
        warned = set(view.lost)
        now = describe_stage(view)
        if now and now != stage:
            say(f"{view.run}: {now}")
        stage = now
        if (damage := describe_damage(view)) != damaged and damage:
            say(f"damaged: {damage}")
        damaged = damage
        if view.only_evaluates:
            say(f"evaluated: {', '.join(view.evaluations)}")
            return
        if finished:
            if guard := describe_guard(view):
                say(f"guard: {guard}")
            return
        sleep(SECONDS_BETWEEN_LOOKS)
