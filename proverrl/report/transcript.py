"""A stored rollout token by token: what was context, what was learned, and how strongly.

Flows in: ``rollouts/step_N.jsonl`` of a run folder, and the tokenizer that the run stored; neither
weights nor torch are loaded. Flows out: the texts of tokens, tables for a terminal (rich). Not
handled here: the HTML page.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from proverrl.errors import RunError, UsageError
from proverrl.monitor.rollout_rows import StoredTurn, iter_rollouts, read_turns
from proverrl.report.run import find_step_files

Row = Mapping[str, Any]
Decode = Callable[[int], str]

TOKENIZER_FILE = "tokenizer.json"

_STATUS_STYLES = {"proved": "green", "timeout": "yellow", "crashed": "yellow"}


def find_tokenizer(run: Path) -> Path | None:
    """The run's ``tokenizer.json``, or None. All its policies share one, so that any will do."""
    checkpoints = sorted((run / "checkpoints").glob("step_*"), reverse=True)
    folders = (run, *checkpoints, run / "warm_start")
    files = (folder / "policy" / TOKENIZER_FILE for folder in folders)
    return next((file for file in files if file.is_file()), None)


def open_decoder(run: Path) -> Decode:
    """The function from a token id to its text; an id that the tokenizer lacks has none. Raises
    RunError: the run has no tokenizer, or it cannot be loaded."""
    file = find_tokenizer(run)
    if file is None:
        raise RunError(
            f"{run} holds no {TOKENIZER_FILE}: neither in policy/, nor in checkpoints/*/policy/, "
            "nor in warm_start/policy/"
        )
    from tokenizers import Tokenizer

    try:
        text = file.read_text("utf-8")
        json.loads(text)  # the library's own complaint about a damaged file has no class
    except (OSError, ValueError) as error:
        raise RunError(f"{file}: the tokenizer cannot be loaded: {error}") from error
    tokenizer = Tokenizer.from_str(text)
    return lambda token: str(tokenizer.decode([token], skip_special_tokens=False))


def read_step(run: Path, step: int) -> list[Row]:
    """The rollouts of one step or round. Raises RunError: the run has no such step (the message
    names those that it has), or its file is damaged."""
    files = find_step_files(run)
    if step not in files:
        steps = [*files]
        known = f"it has steps {steps[0]} to {steps[-1]}" if steps else "it has no rollouts"
        raise RunError(f"{run} has no rollouts of step {step}: {known}")
    return [*iter_rollouts(files[step])]


def choose_rollout(rows: Sequence[Row], rollout_id: str | None) -> Row:
    """The rollout of that id; without one the first that something was learned from, or the first.
    Raises UsageError: there is no such rollout; the message names the nearest id."""
    if not rows:
        raise UsageError("the step has no rollouts")
    if rollout_id is None:
        return next((row for row in rows if row.get("advantage")), rows[0])
    by_id = {row["rollout_id"]: row for row in rows}
    if rollout_id not in by_id:
        near = get_close_matches(rollout_id, by_id, n=1, cutoff=0.0)
        raise UsageError(f"the step has no rollout {rollout_id!r}; the nearest id is {near[0]!r}")
    return by_id[rollout_id]


def render_list(rows: Sequence[Row], step: int) -> Table:
    """One line a rollout."""
    table = Table(title=f"Step {step}: {len(rows)} rollouts")
    for name in ("rollout", "status"):
        table.add_column(name, overflow="fold")
    for name in ("reward", "advantage", "turns", "tokens"):
        table.add_column(name, justify="right")
    for row in rows:
        turns = row["turns"]
        num_tokens = sum(len(turn["token_ids"]) for turn in turns)
        table.add_row(
            Text(row["rollout_id"]),
            _status(row["status"]),
            _figure(row.get("reward"), 2),
            _figure(row.get("advantage"), 3),
            str(len(turns)),
            str(num_tokens or "-"),
        )
    return table


def render_rollout(row: Row, decode: Decode) -> RenderableType:
    """All turns of a rollout, each with its tokens, verdict and feedback. Raises RunError: the row
    is damaged."""
    turns = read_turns(row)
    head = Text(f"{row['rollout_id']}  ", style="bold")
    head.append_text(_status(row["status"]))
    head.append(
        f"  reward {_figure(row.get('reward'), 2)}, {len(turns)} turns, "
        f"problem {row['problem']['id']}",
        style="",
    )
    if hint := row.get("hint"):
        head.append(
            f"\nhint: {hint['source']}, the last {hint['num_tokens']} tokens of the prompt, "
            f"{hint['ratio']:.0%} of an answer",
            style="yellow",
        )
    parts: list[RenderableType] = [head]
    for number, turn in enumerate(turns, start=1):
        parts.append(_render_context(turn, decode, number))
        parts.append(_render_tokens(turn, decode, number))
        parts.append(_render_verdict(turn))
    return Group(*parts)


def _render_context(turn: StoredTurn, decode: Decode, number: int) -> RenderableType:
    """The text before the completion: the prompt, or feedback. None of it is learned."""
    name = "prompt" if number == 1 else "feedback"
    if turn.restarts:
        name = "prompt, with the oldest turns cut"
    title = f"Turn {number}: {name}, {len(turn.context_ids)} tokens, mask 0"
    text = "".join(decode(token) for token in turn.context_ids)
    return Panel(Text(text, style="dim"), title=title, title_align="left", border_style="dim")


def _render_tokens(turn: StoredTurn, decode: Decode, number: int) -> RenderableType:
    title = f"Turn {number}: completion, {len(turn.token_ids)} tokens, policy {turn.policy_version}"
    if not turn.token_ids:
        note = "the policy's server gave no token ids, so that nothing was learned"
        return Panel(Text(f"{turn.text}\n\n({note})"), title=title, title_align="left")
    table = Table(title=title, title_justify="left")
    for name in ("#", "id"):
        table.add_column(name, justify="right")
    table.add_column("token")
    for name in ("mask", "log-prob", "advantage"):
        table.add_column(name, justify="right")
    learned = bool(turn.advantages)
    for place, token in enumerate(turn.token_ids):
        advantage = turn.advantages[place] if learned else None
        style = "green" if (advantage or 0) > 0 else "red" if advantage else "dim"
        table.add_row(
            str(place),
            str(token),
            Text(_show(decode(token))),
            "1" if learned else "0",
            _figure(turn.logprobs[place] if turn.logprobs else None, 3),
            Text(_figure(advantage, 3, signed=True), style=style),
        )
    return table


def _render_verdict(turn: StoredTurn) -> RenderableType:
    line = Text("verdict: ")
    line.append_text(_status(turn.status))
    if turn.reason:
        line.append(f" ({turn.reason})")
    for message in turn.diagnostics:
        line.append(f"\n  {message}")
    if turn.feedback:
        line.append("\nfeedback: ", style="bold")
        line.append(turn.feedback)
    return line


def _show(text: str) -> str:
    """A token's text on one line, its white space visible."""
    return text.replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t").replace(" ", "·")


def _status(status: str) -> Text:
    return Text(status, style=_STATUS_STYLES.get(status, "red"))


def _figure(value: Any, digits: int, *, signed: bool = False) -> str:
    if not isinstance(value, float | int):
        return "-"
    return f"{value:+.{digits}f}" if signed else f"{value:.{digits}f}"
