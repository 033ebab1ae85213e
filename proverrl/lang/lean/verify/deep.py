"""The deep check of ``--paranoid``: accepted proofs are checked again by other people's checkers.

Flows in: a candidate with its PROVED verdict. Flows out: what each checker found, and the verdict
that follows. The file is compiled once more by ``lean`` from its text; then leanchecker replays its
declarations through the kernel, SafeVerify compares it with our statement as well, and comparator
does both from an export.
Covered: an environment that code has tampered with, declarations that skipped the kernel.
Not covered: bugs of the kernel that all of them share; comparator for problems with imports (it
needs a project of their own); memory and time of the checkers, which no pool looks at. Checkers are
found on PATH or by PROVERRL_LEANCHECKER, PROVERRL_SAFE_VERIFY and PROVERRL_COMPARATOR; with none,
the verdict says that none ran.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from proverrl.errors import WorkerError
from proverrl.lang.lean.syntax.declarations import find_target, split_header
from proverrl.lang.lean.verify.judge import LeanLimits
from proverrl.lang.lean.verify.workers.toolchain import LeanToolchain
from proverrl.types import Candidate, Diagnostic, Stage, Status, Verdict
from proverrl.verifier.base import DEFAULT_LANE, Lane, LanedVerifier, PoolStats
from proverrl.verifier.process_group import ProcessGroup

CHECKERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "leanchecker": ("PROVERRL_LEANCHECKER", ("leanchecker", "lean4checker")),
    "safe_verify": ("PROVERRL_SAFE_VERIFY", ("safe_verify",)),
    "comparator": ("PROVERRL_COMPARATOR", ("comparator",)),
}
"""Each checker's environment variable, and its names on PATH."""

_MAX_DETAIL = 500
_IN_FOLDER = ("/bin/sh", "-c", 'cd "$1" && shift && exec "$@"', "proverrl-deep")
_COMPARATOR_LAKEFILE = """\
name = "deep"

[[lean_lib]]
name = "Challenge"

[[lean_lib]]
name = "Solution"
"""


@dataclass(frozen=True, slots=True)
class DeepOutcome:
    """The result of one checker. ``passed`` is None when it could not be used for this problem."""

    checker: str
    passed: bool | None
    detail: str = ""


def find_checkers() -> dict[str, str]:
    """Checker to program, for those that are installed."""
    found = {}
    for checker, (variable, names) in CHECKERS.items():
        named = os.environ.get(variable)
        if program := named or next(filter(None, map(shutil.which, names)), None):
            found[checker] = program
    return found


def apply_outcomes(verdict: Verdict, outcomes: Sequence[DeepOutcome]) -> Verdict:
    """A PROVED verdict after the deep check: UNSOUND when a checker refused, else with one more
    check for each checker that ran, or one that says that none did."""
    for failure in outcomes:
        if failure.passed is False:
            why = Diagnostic("error", f"{failure.checker} refuses the proof: {failure.detail}")
            return replace(
                verdict,
                status=Status.UNSOUND,
                diagnostics=(why, *verdict.diagnostics),
                stage=Stage.WALL,
                rule=failure.checker,
                checks=(*verdict.checks, f"deep:{failure.checker}:refused"),
            )
    ran = [f"deep:{outcome.checker}" for outcome in outcomes if outcome.passed]
    return replace(verdict, checks=(*verdict.checks, *(ran or ["deep:none-ran"])))


class ParanoidVerifier:
    """A ``LanedVerifier`` that has every accepted Lean proof checked again."""

    def __init__(self, inner: LanedVerifier, toolchain: LeanToolchain, limits: LeanLimits) -> None:
        self._inner = inner
        self._toolchain = toolchain
        self._limits = limits

    def stats(self) -> PoolStats | None:
        """The inner verifier's counters."""
        return self._inner.stats()

    async def verify(
        self, candidate: Candidate, *, deadline_seconds: float, lane: Lane = DEFAULT_LANE
    ) -> Verdict:
        """See ``LanedVerifier.verify``. The deadline holds once more for the whole deep check, and
        running over it gives TIMEOUT: a proof that could not be checked is not judged."""
        verdict = await self._inner.verify(candidate, deadline_seconds=deadline_seconds, lane=lane)
        if not verdict.proved or candidate.problem.language != "lean":
            return verdict
        check = check_deeply(candidate, self._toolchain, self._limits)
        try:
            outcomes = await asyncio.wait_for(check, deadline_seconds)
        except TimeoutError:
            why = Diagnostic("error", f"no deep check within {deadline_seconds:g} seconds")
            return replace(verdict, status=Status.TIMEOUT, diagnostics=(why,), cause="deadline")
        return apply_outcomes(verdict, outcomes)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def check_deeply(
    candidate: Candidate, toolchain: LeanToolchain, limits: LeanLimits
) -> list[DeepOutcome]:
    """Run every checker that is installed, in the order of ``CHECKERS``. Cancelling it kills what
    runs."""
    with tempfile.TemporaryDirectory(prefix="proverrl-deep-") as name:
        bench = _Bench(Path(name), candidate, toolchain, limits)
        return [await bench.check(*found) for found in find_checkers().items()]


class _Bench:
    """A private folder with our statement, the candidate's file, and what was compiled."""

    def __init__(
        self, folder: Path, candidate: Candidate, toolchain: LeanToolchain, limits: LeanLimits
    ) -> None:
        self._folder = folder
        self._candidate = candidate
        self._toolchain = toolchain
        self._limits = limits
        self._compiled: dict[str, DeepOutcome | None] = {}

    async def check(self, checker: str, program: str) -> DeepOutcome:
        """Prepare what a checker needs, and run it."""
        if self._candidate.problem.kind == "file" and checker != "leanchecker":
            return DeepOutcome(checker, None, "a bare file has no statement to compare with")
        if checker == "comparator":
            return await self._run_comparator(program)
        failed = await self._compile("Solution", self._candidate.source, checker)
        if failed is None and checker == "safe_verify":
            clean = Candidate(self._candidate.problem, "sorry").source
            failed = await self._compile("Challenge", clean, checker)
        if failed is not None:
            return failed
        files = ("Challenge.olean", "Solution.olean")
        paths = [str(self._folder / file) for file in files]
        arguments = ["Solution"] if checker == "leanchecker" else paths
        code, said = await self._run([program, *arguments])
        return DeepOutcome(checker, code == 0, said)

    async def _compile(self, module: str, source: str, checker: str) -> DeepOutcome | None:
        if module not in self._compiled:
            path = self._folder / f"{module}.lean"
            path.write_text(source, encoding="utf-8")
            limit = f"-DmaxHeartbeats={self._limits.max_heartbeats}"
            output = str(path.with_suffix(".olean"))
            command = [*self._toolchain.lean_command, limit, "-o", output, str(path)]
            code, said = await self._run(command)
            failed = DeepOutcome(checker, False, f"compiling {module}: {said}")
            self._compiled[module] = failed if code else None
        return self._compiled[module]

    async def _run_comparator(self, program: str) -> DeepOutcome:
        problem = self._candidate.problem
        if split_header(problem.preamble)[0] or self._toolchain.project is None:
            return DeepOutcome("comparator", None, "the problem has imports, or Lean no project")
        project = self._folder / "project"
        project.mkdir()
        config = {
            "challenge_module": "Challenge",
            "solution_module": "Solution",
            "theorem_names": [find_target(problem)],
            "permitted_axioms": sorted(self._limits.allowed_axioms),
        }
        files = {
            "lakefile.toml": _COMPARATOR_LAKEFILE,
            "lean-toolchain": (self._toolchain.project / "lean-toolchain").read_text("utf-8"),
            "Challenge.lean": Candidate(problem, "sorry").source,
            "Solution.lean": self._candidate.source,
            "config.json": json.dumps(config),
        }
        for name, text in files.items():
            (project / name).write_text(text, encoding="utf-8")
        lake = self._toolchain.lake
        command = [*_IN_FOLDER, str(project), lake, "env", program, "config.json"]
        code, said = await self._start(command, {})
        return DeepOutcome("comparator", code == 0, said)

    async def _run(self, command: Sequence[str]) -> tuple[int, str]:
        """Run a command where the project's modules and ours can be imported."""
        return await self._start(command, self._toolchain.add_to_path([self._folder]))

    async def _start(self, command: Sequence[str], variables: Mapping[str, str]) -> tuple[int, str]:
        environment = {**dict(self._toolchain.environment), **variables}
        group = await ProcessGroup.start(command, environment=environment)
        said = bytearray()
        try:
            while chunk := await group.read():
                said += chunk
                del said[:-_MAX_DETAIL]
            code = await group.wait()
        finally:
            group.kill()
            await group.join()
        if code < 0:
            raise WorkerError(f"{command[0]} was killed by signal {-code}", "died")
        text = f"{said.decode('utf-8', 'replace')} {group.stderr_tail[-_MAX_DETAIL:]}"
        return code, " ".join(text.split())[-_MAX_DETAIL:]
