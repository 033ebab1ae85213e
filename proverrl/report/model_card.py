"""The model card of a run's policy, as the Hugging Face hub shows it.

Flows in: a run folder. Flows out: Markdown under a header of YAML. Whatever would tell of the
machine is left out: folders before a file's name, addresses, the sections of servers and logging.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from proverrl.config import Config, load_stored_config
from proverrl.report.run import RunRecord, load_runs

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_FOLDERS = re.compile(r"(?<![\w.:/~])[~/](?:[^\s/'\"]*/)+|(?<![\w.:/])~/")
_ADDRESS = re.compile(r"\b\w+://[^\s'\"]+")
VERSIONED = ("proverrl", "torch", "transformers")
_UNTOLD = ("run", "threads", "pool", "logging", "endpoint", "instruct.endpoint")


def make_card(run: Path, *, repo_id: str, licence: str = "") -> str:
    """The card of the policy of a run, for the repository ``OWNER/NAME``; ``licence`` is one of the
    hub's identifiers. Raises ``RunError`` if the folder is no run."""
    config = load_stored_config(run)
    (record,) = load_runs([run])
    header = {"library_name": "transformers", "pipeline_tag": "text-generation"}
    header |= {"license": licence} if licence else {}
    base = config.policy.path
    if base and _HUB_ID.fullmatch(base) and not Path(base).exists():
        header["base_model"] = base
    lines = ["---", *(f"{key}: {json.dumps(value)}" for key, value in header.items())]
    lines += ["tags:", "- proverrl", "- theorem-proving", "- formal-verification", "---", ""]
    parts = (_describe, _list_results, _explain_use, _list_settings, _list_limits)
    lines += [f"# {repo_id.rpartition('/')[2]}", ""]
    for part in parts:
        lines += [*part(config, record), ""]
    lines += ["## Licence", "", licence or "Whoever published this policy named none.", ""]
    return "\n".join(lines).replace("REPO_ID", repo_id)


def _describe(config: Config, run: RunRecord) -> Iterator[str]:
    policy, versions = config.policy, dict(run.resolved.get("versions") or {})
    start = (
        f"`{_tell(policy.path)}`"
        if policy.path
        else f"none, trained from scratch (a Llama of {policy.num_layers} layers of width "
        f"{policy.hidden_size}, with a tokenizer of its own)"
    )
    yield "A policy that writes machine-checked proofs, trained by ProverRL against a verifier."
    yield ""
    yield f"- Base model: {start}"
    yield f"- Trained on: `{_tell(config.problems.train)}`"
    yield f"- Method: loop `{config.loop}`, seed {config.seed}"
    yield f"- Amount: {len(run.steps)} steps or rounds, {run.verifier_calls} verifier calls"
    yield f"- Verifier: {_tell(run.resolved.get('toolchain') or 'not recorded')}"
    told = [f"{key} {versions[key]}" for key in VERSIONED if key in versions]
    yield f"- Versions: {', '.join(told) or 'not recorded'}; commit " + _tell(
        run.resolved.get("commit") or "not recorded"
    )
    yield f"- Command: `{_tell(run.resolved.get('command') or 'not recorded')}`"


def _list_results(_: Config, run: RunRecord) -> Iterator[str]:
    yield "## Evaluation"
    yield ""
    if not run.evaluations:
        yield "The run holds no evaluation."
        return
    yield "pass@k in percent with 95 % intervals over problems; every proof was checked by the"
    yield "verifier named beside it. Attempts without a verdict are in no figure."
    yield ""
    yield (
        "| evaluation | benchmark | how | problems | attempts | k | pass@k | unjudged | verifier |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for name, evaluation in run.evaluations.items():
        summary = evaluation.summary
        whole: Mapping[str, Any] = next(
            (row for row in summary.get("levels", ()) if row["level"] == "all"), {}
        )
        judge = f"{summary.get('toolchain', '?')}, proverrl {summary.get('proverrl_version', '?')}"
        how = f"{summary.get('mode', '?')}, temperature {summary.get('temperature', '?')}"
        place = " ".join(filter(None, (summary.get("split"), summary.get("benchmark"))))
        for k, found in (whole.get("pass") or {}).items():
            cells = (
                *(name, place, how, found["num_problems"]),
                *(summary.get("samples_per_problem"), k, _tell_figure(found)),
                *(json.dumps(whole.get("unjudged")), judge),
            )
            yield "| " + " | ".join(_tell(cell) for cell in cells) + " |"


def _tell_figure(found: Mapping[str, Any]) -> str:
    low, high = found.get("low"), found.get("high")
    value = f"{100 * found['value']:.1f}"
    if low is None or high is None:
        return f"{value} (no interval)"
    return f"{value} [{100 * low:.1f}, {100 * high:.1f}]"


def _explain_use(config: Config, _: RunRecord) -> Iterator[str]:
    yield "## Use"
    yield ""
    yield f"The policy was trained to read problems in ProverRL's layout `{config.policy.layout}`."
    yield "With ProverRL installed, this evaluates it on a file of problems:"
    yield ""
    yield "```"
    yield (
        "proverrl eval --benchmark problems.jsonl --set policy.path=REPO_ID "
        f"--set policy.layout={config.policy.layout}"
    )
    yield "```"
    yield ""
    yield "What it writes is a proof only when a verifier says so."


def _list_settings(config: Config, _: RunRecord) -> Iterator[str]:
    yield "## Configuration"
    yield ""
    yield "Keys that differ from ProverRL's defaults, without those of servers and logging:"
    yield ""
    usual = dict(_flatten(Config().dump()))
    for key, value in _flatten(config.dump()):
        told = not any(key == one or key.startswith(one + ".") for one in _UNTOLD)
        if told and value != usual.get(key):
            yield f"- `{key} = {_tell(json.dumps(value, ensure_ascii=False))}`"


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _list_limits(config: Config, run: RunRecord) -> Iterator[str]:
    yield "## Limits"
    yield ""
    if {item.summary.get("split") for item in run.evaluations.values()} & {"heldout", "valid"}:
        yield "- Held-out problems may share families with those of the training: a figure on them"
        yield "  says little about problems of other origin."
    yield "- One run with one seed. The intervals are over problems and do not hold what another"
    yield "  seed would change."
    yield "- The verifier decides what is proved, not whether a statement says what was meant."
    if not config.policy.path:
        yield "- A small model that knows nothing but the texts of its training problems."


def _tell(value: object) -> str:
    """A text for the card: file names without their folders on this machine, no addresses."""
    text = _FOLDERS.sub("", _ADDRESS.sub("URL", str(value)))
    return " ".join(text.replace("`", "'").replace("|", "/").split())
