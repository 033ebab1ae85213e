"""The model card of a run's policy, as the Hugging Face hub shows it.

Flows in: a run folder. Flows out: Markdown under a header of YAML. Whatever would tell of the
machine is left out: the command, folders before a file's name, addresses, the sections of servers
and logging. Texts of the run are escaped, so that they are shown as they stand and are no Markdown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from proverrl.config import Config, load_stored_config
from proverrl.config.load import flatten_table
from proverrl.config.policy import FRESH_KEYS
from proverrl.report.headline import describe_length
from proverrl.report.run import RunRecord, load_runs

VERSIONED = ("proverrl", "torch", "transformers")
_UNTOLD = ("run", "threads", "pool", "logging", "endpoints")
_ESCAPES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;"} | {mark: "\\" + mark for mark in "\\`*_[]|~"}
)
# Characters that may stand before a path in a value, as in name:/path or "key=/path".
_BEFORE_PATHS = str.maketrans(dict.fromkeys(":=,;()[]{}<>|'\"`", " "))


def make_card(run: Path, *, repo_id: str, licence: str = "") -> str:
    """The card of the policy of a run, for the repository ``OWNER/NAME``; ``licence`` is one of the
    hub's identifiers. Raises ``RunError`` if the folder is no run."""
    config = load_stored_config(run)
    (record,) = load_runs([run])
    header = {"library_name": "transformers", "pipeline_tag": "text-generation"}
    header |= {"license": licence} if licence else {}
    if config.policy.path and _started_from_folder(record) is False:
        header["base_model"] = config.policy.path
    lines = ["---", *(f"{key}: {json.dumps(value)}" for key, value in header.items())]
    lines += ["tags:", "- proverrl", "- theorem-proving", "- formal-verification", "---", ""]
    lines += [f"# {_escape(repo_id.rpartition('/')[2])}", ""]
    for part in (
        _describe(config, record),
        _list_results(record),
        _explain_use(config, repo_id),
        _list_settings(config),
        _list_limits(config, record),
    ):
        lines += [*part, ""]
    named = _escape(licence) or "Whoever published this policy named none."
    return "\n".join([*lines, "## Licence", "", named, ""])


def _started_from_folder(run: RunRecord) -> bool | None:
    """True when ``policy.path`` was a folder as the run began; None where that is not recorded."""
    recorded = run.resolved.get("policy_path_is_folder")
    return recorded if isinstance(recorded, bool) else None


def _describe(config: Config, run: RunRecord) -> Iterator[str]:
    policy, versions = config.policy, dict(run.resolved.get("versions") or {})
    from_folder, path = _started_from_folder(run), _quote(_shorten(policy.path))
    if not policy.path:
        start = (
            f"none, trained from scratch (a Llama of {policy.num_layers} layers of width "
            f"{policy.hidden_size}, with a tokenizer of its own)"
        )
    elif from_folder is None:
        start = f"not recorded; `policy.path` was {path}"
    else:
        start = f"the local folder {path}" if from_folder else path
    yield "A policy that writes machine-checked proofs, trained by ProverRL against a verifier."
    yield ""
    yield f"- Base model: {start}"
    yield f"- Trained on: {_quote(_shorten(str(config.problems.train)))}"
    yield f"- Method: loop `{config.loop}`, seed {config.seed}"
    yield f"- Amount: {describe_length(run)}, {run.verifier_calls} verifier calls"
    yield f"- Verifier: {_tell(run.resolved.get('toolchain') or 'not recorded')}"
    told = [f"{key} {versions[key]}" for key in VERSIONED if key in versions]
    yield f"- Versions: {', '.join(told) or 'not recorded'}; commit " + _tell(
        run.resolved.get("commit") or "not recorded"
    )


def _list_results(run: RunRecord) -> Iterator[str]:
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
    weights = {name: e.summary.get("policy_sha256") for name, e in run.evaluations.items()}
    left_out = []
    for name, evaluation in run.evaluations.items():
        if name != "before" and weights[name] != weights.get("after", weights[name]):
            left_out.append(name)
            continue
        summary = evaluation.summary
        label = "before the loop, after the warm start" if name == "before" else name
        whole: Mapping[str, Any] = next(
            (row for row in summary.get("levels", ()) if row["level"] == "all"), {}
        )
        judge = f"{summary.get('toolchain', '?')}, proverrl {summary.get('proverrl_version', '?')}"
        how = f"{summary.get('mode', '?')}, temperature {summary.get('temperature', '?')}"
        names = filter(None, (summary.get("split"), summary.get("benchmark")))
        place = " ".join(_shorten(str(part)) for part in names)
        for k, found in (whole.get("pass") or {}).items():
            cells = (
                *(_tell(cell) for cell in (label, place, how, found["num_problems"])),
                *(_tell(cell) for cell in (summary.get("samples_per_problem"), k)),
                *(_tell_figure(found), _tell(json.dumps(whole.get("unjudged"))), _tell(judge)),
            )
            yield "| " + " | ".join(cells) + " |"
    if left_out:
        yield ""
        yield f"Of other weights, and left out: {', '.join(map(_tell, left_out))}."


def _tell_figure(found: Mapping[str, Any]) -> str:
    low, high = found.get("low"), found.get("high")
    value = f"{100 * found['value']:.1f}"
    if low is None or high is None:
        return f"{value} (no interval)"
    return f"{value} [{100 * low:.1f}, {100 * high:.1f}]"


def _explain_use(config: Config, repo_id: str) -> Iterator[str]:
    yield "## Use"
    yield ""
    yield f"The policy was trained to read problems in ProverRL's layout `{config.policy.layout}`."
    yield "With ProverRL installed, this evaluates it on a file of problems:"
    yield ""
    yield "```"
    yield (
        f"proverrl eval --benchmark problems.jsonl --set policy.path={repo_id} "
        f"--set policy.layout={config.policy.layout}"
    )
    yield "```"
    yield ""
    yield "Its text is a proof only when a verifier says so."


def _list_settings(config: Config) -> Iterator[str]:
    yield "## Configuration"
    yield ""
    yield "Keys that differ from ProverRL's defaults, without those of servers and logging:"
    yield ""
    usual = flatten_table(Config().dump())
    unused = [f"policy.{key}" for key in FRESH_KEYS] if config.policy.path else []
    for key, value in flatten_table(config.dump()).items():
        told = not any(key == one or key.startswith(one + ".") for one in (*_UNTOLD, *unused))
        if told and value != usual.get(key):
            text = json.dumps(_shorten_all(value), ensure_ascii=False)
            yield f"- {_quote(f'{_shorten(key)} = {text}')}"


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
    """A value of the run as text of the card."""
    return _escape(_shorten(str(value)))


def _escape(text: str) -> str:
    """A text in one line that Markdown shows as it stands, also in a table."""
    return " ".join(text.split()).translate(_ESCAPES)


def _quote(text: str) -> str:
    """A text in one line as code, between more backticks than it holds in a row."""
    text, fence = " ".join(text.split()), "`"
    while fence in text:
        fence += "`"
    return f"{fence} {text} {fence}" if "`" in text else f"`{text}`"


def _shorten_all(value: Any) -> Any:
    """A setting with every text in it shortened."""
    if isinstance(value, dict):
        return {_shorten(str(key)): _shorten_all(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shorten_all(item) for item in value]
    return _shorten(value) if isinstance(value, str) else value


def _shorten(text: str) -> str:
    """A text without what it tells of this machine. One with an address is ``URL``. Of one with a
    path from the root, a home, a parent folder, a drive or another host, what is behind the last
    separator; whatever stands before, since folders may have spaces in their names."""
    if "://" in text:
        return "URL"
    path = text.replace("\\", "/").rstrip("/")
    words = path.translate(_BEFORE_PATHS).split()
    before, colon, _ = path.partition(":")
    has_host = bool(colon) and ("@" in before or (len(before) == 1 and before.isalpha()))
    if not has_host and not any(
        word.startswith(("/", "~")) or ".." in word.split("/") for word in words
    ):
        return text
    last = path.rpartition("/")[2]
    last = last.rpartition(":")[2] if has_host else last
    # ~alice is a home, too.
    return "~" if last.startswith("~") else last
