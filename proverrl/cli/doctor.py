"""Reports what is installed, what is missing, and the command that installs it.

Flows in: this machine. Flows out: findings, and a table of them for the terminal. Not handled here:
how Dafny and z3 are found (``proverrl.lang.dafny.workers.toolchain``); installing.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from rich.console import Group
from rich.table import Table
from rich.text import Text

from proverrl.errors import ToolchainError
from proverrl.lang.dafny.workers.toolchain import Z3_VERSION, find_dafny_toolchain
from proverrl.lang.lean.deep import CHECKERS, find_checkers
from proverrl.lang.lean.workers.toolchain import REMEDY, find_lean_toolchain
from proverrl.verify.memory_cgroup import CGROUP_GUARD, describe_guard

State = Literal["ok", "missing", "weak", "absent"]

RUNS_FOLDER = Path("runs")
PYTHON_WANTED = (3, 11)
MEMORY_WANTED_GB = 4.0
PACKAGES = {
    "transformers": "transformers>=5.16.1,<5.20",
    "tokenizers": "tokenizers",
    "plotly": "plotly>=6,<7",
}
EXTRAS = {
    "vllm": ("vllm", "vllm", "fast generation on a GPU"),
    "peft": ("peft", "lora", "low-rank adapters"),
    "ray": ("ray", "ray", "verifiers on several machines"),
    "lean-dojo": ("lean_dojo", "leandojo", "traced Lean repositories"),
}
BRINGS_DAFNY = "sudo apt-get install dafny"
PIP = f"{sys.executable} -m pip install"
BRINGS_Z3 = f"{PIP} z3-solver=={Z3_VERSION}.0"
_SIGNS = {
    "ok": ("ok", "green"),
    "missing": ("missing", "bold red"),
    "weak": ("weak", "yellow"),
    "absent": ("optional", "dim"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One part of the machine. "missing" stops the default set-up from working; "weak" makes it
    slower or less; "absent" is an extra that nothing needs by default."""

    name: str
    state: State
    detail: str
    remedy: str = ""


def diagnose(runs_folder: Path = RUNS_FOLDER) -> list[Finding]:
    """Look at everything; takes a few seconds, since torch is imported and Dafny is asked."""
    return [
        check_python(),
        check_torch(),
        *(check_package(name, wanted) for name, wanted in PACKAGES.items()),
        *check_dafny(),
        *check_lean(),
        *(check_extra(name) for name in EXTRAS),
        check_processors(),
        check_memory(),
        check_memory_limit(),
        check_writable(runs_folder),
    ]


def is_healthy(findings: Sequence[Finding]) -> bool:
    """True when everything that the default set-up needs is there."""
    return all(finding.state != "missing" for finding in findings)


def check_python() -> Finding:
    """The interpreter's version and place."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < PYTHON_WANTED:
        wanted = ".".join(map(str, PYTHON_WANTED))
        return Finding("Python", "missing", f"{version}; {wanted} or newer is needed")
    return Finding("Python", "ok", f"{version}, {sys.executable}")


def check_torch() -> Finding:
    """Version, threads and device. Imports torch."""
    try:
        import torch
    except (ImportError, OSError) as error:
        return Finding("torch", "missing", str(error), f"{PIP} 'torch>=2.13,<2.14'")
    device = "cpu"
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        device = "cuda: " + ", ".join(names)
    return Finding(
        "torch", "ok", f"{torch.__version__}, {torch.get_num_threads()} threads, {device}"
    )


def check_package(name: str, wanted: str) -> Finding:
    """A Python package that the default set-up needs."""
    version = _find_version(name)
    if version is None:
        return Finding(name, "missing", "not installed", f"{PIP} '{wanted}'")
    return Finding(name, "ok", version)


def check_dafny() -> list[Finding]:
    """Dafny, its server and z3. Runs their ``--version``."""
    try:
        found = find_dafny_toolchain()
    except ToolchainError as error:
        text = str(error)
        remedy = BRINGS_Z3 if "z3" in text.lower() else BRINGS_DAFNY
        return [Finding("Dafny", "missing", text, remedy)]
    findings = [Finding("Dafny", "ok", f"{found.dafny_version}, {found.dafny}")]
    if found.server is None:
        detail = "not found: each proof starts a new Dafny process, which is slower"
        findings.append(Finding("DafnyServer", "weak", detail, f"{BRINGS_DAFNY} mono-runtime"))
    else:
        runtime, server = found.server
        findings.append(Finding("DafnyServer", "ok", server))
        findings.append(Finding("mono", "ok", runtime))
    where = f"{found.z3_version}, {found.z3}"
    if found.z3_version == Z3_VERSION:
        findings.append(Finding("z3", "ok", where))
    else:
        detail = (
            f"{where}; {Z3_VERSION} is preferred: it is faster with this Dafny, and another "
            "version can judge a borderline proof differently"
        )
        findings.append(Finding("z3", "weak", detail, BRINGS_Z3))
    return findings


def check_lean() -> list[Finding]:
    """Lean, its REPL and the deep checkers. Asks Lean for its version, in its project."""
    try:
        found = find_lean_toolchain()
    except ToolchainError as error:
        # The remedy stands in a line of its own.
        text = str(error).removesuffix(f"; run: {REMEDY}")
        return [Finding("Lean", "absent", f"{text}; only Dafny can be judged", REMEDY)]
    mathlib = "with Mathlib" if found.has_mathlib else "without Mathlib"
    findings = [
        Finding("Lean", "ok", f"{found.lean_version}, {mathlib}, {found.lake}"),
        Finding("Lean REPL", "ok", found.repl_command[-1]),
    ]
    checkers = find_checkers()
    for name in CHECKERS:
        if name in checkers:
            findings.append(Finding(name, "ok", checkers[name]))
        else:
            detail = "not found; verify --paranoid does without it"
            findings.append(Finding(name, "absent", detail))
    return findings


def check_extra(name: str) -> Finding:
    """An optional package, found by its module: some builds carry another package name."""
    module, extra, purpose = EXTRAS[name]
    if importlib.util.find_spec(module) is None:
        return Finding(name, "absent", purpose, f"{PIP} -e '.[{extra}]'")
    return Finding(name, "ok", _find_version(name) or "version unknown")


def check_processors() -> Finding:
    """How many processors this process may use."""
    count = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    if count < 2:
        return Finding("processors", "weak", f"{count}; verifiers and the policy share it")
    return Finding("processors", "ok", str(count))


def check_memory() -> Finding:
    """The machine's memory, or the container's limit where that is lower."""
    total = read_memory_gb()
    if total is None:
        return Finding("memory", "ok", "not known on this system")
    text = f"{total:.1f} GB"
    if total < MEMORY_WANTED_GB:
        return Finding("memory", "weak", f"{text}; {MEMORY_WANTED_GB:.0f} GB is comfortable")
    return Finding("memory", "ok", text)


def check_memory_limit() -> Finding:
    """What holds a verifier process to its memory limit."""
    guard = describe_guard()
    if guard == CGROUP_GUARD:
        return Finding("memory limit", "ok", guard)
    detail = f"{guard}: one that grows within half a second can overshoot"
    return Finding("memory limit", "ok", f"{detail} (no cgroup v2 is delegated to this user)")


def read_memory_gb(limit_file: Path = Path("/sys/fs/cgroup/memory.max")) -> float | None:
    """Gigabytes (10**9 bytes) that this process may use; None where the system does not say."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    try:
        limit = limit_file.read_text("ascii").strip()
    except OSError:
        limit = "max"
    return (min(total, int(limit)) if limit.isdigit() else total) / 1e9


def check_writable(folder: Path) -> Finding:
    """Whether run folders can be made: tries it in the folder or in the nearest one above it."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):
            free = shutil.disk_usage(place).free / 1e9
    except OSError as error:
        detail = f"{place}: {error.strerror or error}"
        return Finding("run folder", "missing", detail, f"chmod u+w '{place}'")
    return Finding("run folder", "ok", f"{folder} can be written, {free:.1f} GB free")


def render(findings: Sequence[Finding]) -> Group:
    """A table of all findings, with the command that installs each missing part."""
    verdict = "Ready: everything that the default set-up needs is there."
    if not is_healthy(findings):
        verdict = "Not ready: run the commands beside what is missing."
    table = Table(
        show_edge=False,
        box=None,
        pad_edge=False,
        show_header=False,
    )
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


def _find_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
