"""Reports what is installed, what is missing, and the command that installs it.

Flows in: this machine. Flows out: findings, and a table of them for the terminal. Not handled here:
how a language's tools are found (``Language.diagnose``); installing.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Group
from rich.table import Table
from rich.text import Text

from proverrl.files.extras import EXTRAS, TRAINING, install_extra
from proverrl.lang import list_languages
from proverrl.lang.records import Part
from proverrl.verifier.cache import default_cache
from proverrl.version import find_version

RUNS_FOLDER = Path("runs")
OPTIONAL = {
    "vllm": "fast generation on a GPU",
    "peft": "low-rank adapters",
    "tensorboard": "curves in TensorBoard",
    "wandb": "curves in Weights & Biases",
    "ray": "verifiers on many machines",
    "mcp": "tools for agents",
    "lean_dojo": "traced Lean repositories",
}
_SIGNS = {
    "ok": ("ok", "green"),
    "missing": ("missing", "bold red"),
    "weak": ("weak", "yellow"),
    "absent": ("optional", "dim"),
}


def diagnose(runs_folder: Path = RUNS_FOLDER) -> list[Part]:
    """Look at everything; takes a few seconds: Dafny is asked, and torch imported."""
    return [
        check_python(),
        *check_training(),
        *(part for language in list_languages() for part in language.diagnose()),
        *(check_optional(module) for module in OPTIONAL),
        check_models(),
        check_writable(runs_folder),
        check_cache(default_cache()),
    ]


def is_healthy(findings: Sequence[Part]) -> bool:
    """True when everything that the default set-up needs is there."""
    return all(finding.state != "missing" for finding in findings)


def check_python() -> Part:
    """The interpreter's version and place."""
    version = ".".join(map(str, sys.version_info[:3]))
    return Part("Python", "ok", f"{version}, {sys.executable}")


def check_training() -> list[Part]:
    """The packages of the extra ``train``; none is missing where it was not asked for."""
    missing = [name for name in TRAINING if importlib.util.find_spec(name) is None]
    if "torch" in missing:
        detail = "not installed; verifying, serving and checking do without it"
        return [Part("training", "absent", detail, install_extra("train"))]
    if missing:
        detail = f"not installed: {', '.join(missing)}"
        return [check_torch(), Part("training", "missing", detail, install_extra("train"))]
    found = ", ".join(f"{name} {find_version(name)}" for name in TRAINING[1:])
    return [check_torch(), Part("training", "ok", found)]


def check_torch() -> Part:
    """Version, threads and device. Imports torch."""
    try:
        import torch
    except (ImportError, OSError) as error:
        return Part("torch", "missing", str(error), install_extra("train"))
    device = "cpu"
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        device = "cuda: " + ", ".join(names)
    return Part("torch", "ok", f"{torch.__version__}, {torch.get_num_threads()} threads, {device}")


def check_optional(module: str) -> Part:
    """An optional package, found by its module: some builds carry another package name."""
    name = module.replace("_", "-")
    if importlib.util.find_spec(module) is None:
        return Part(name, "absent", OPTIONAL[module], install_extra(EXTRAS[module]))
    return Part(name, "ok", find_version(name) or "version unknown")


def check_writable(folder: Path) -> Part:
    """Try to make a run folder: in the folder or in the nearest one above it."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):
            free = shutil.disk_usage(place).free / 1e9
    except OSError as error:
        detail = f"{place}: {error.strerror or error}"
        return Part("run folder", "missing", detail, f"chmod u+w '{place}'")
    return Part("run folder", "ok", f"{folder} can be written, {free:.1f} GB free")


def check_models() -> Part:
    """The models that the hub's client has stored, which ``policy.path`` loads without network."""
    if importlib.util.find_spec("huggingface_hub") is None:
        return Part("models", "absent", "none can be loaded without the extra 'train'")
    from huggingface_hub import constants, scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        stored = scan_cache_dir().repos
    except CacheNotFound:
        stored = frozenset()
    except (OSError, ValueError) as error:
        return Part("models", "weak", str(error), "set HF_HUB_CACHE to a folder")
    models = sorted(
        (repo.repo_id, repo.size_on_disk)
        for repo in stored
        if any(file.file_name == "config.json" for r in repo.revisions for file in r.files)
        and repo.repo_type == "model"
    )
    named = ", ".join(f"{name} ({size / 1e9:.1f} GB)" for name, size in models)
    where = f"in {constants.HF_HUB_CACHE}"
    return Part("models", "ok" if named else "absent", f"{named or 'none'} {where}")


def check_cache(path: Path) -> Part:
    """The place of the verdict cache, its size, and whether it can be used."""
    if not path.exists():
        found = check_writable(path.parent)
        if found.state != "ok":
            return Part("verdict cache", "weak", found.detail, "name another with pool.cache")
        return Part("verdict cache", "ok", f"{path}, not there yet")
    try:
        size = path.stat().st_size / 1e6
        with path.open("r+b"):
            pass
    except OSError as error:
        detail = f"{path}: {error.strerror or error}"
        return Part("verdict cache", "weak", detail, "name another with pool.cache")
    return Part("verdict cache", "ok", f"{path}, {size:.1f} MB")


def render(findings: Sequence[Part]) -> Group:
    """A table of all findings, with the command that brings each missing part."""
    verdict = "Ready: everything that the default set-up needs is there."
    if any((finding.name, finding.state) == ("training", "absent") for finding in findings):
        verdict = "Ready to verify, serve and check."
    if not is_healthy(findings):
        verdict = "Not ready: run the commands beside what is missing."
    table = Table(show_edge=False, box=None, pad_edge=False, show_header=False)
    table.add_column("", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("", overflow="fold")
    for finding in findings:
        sign, style = _SIGNS[finding.state]
        text = Text(finding.detail)
        if finding.remedy:
            text.append(f"\n{finding.remedy}", style="cyan")
        table.add_row(Text(sign, style=style), Text(finding.name), text)
    return Group(table, Text(verdict))
