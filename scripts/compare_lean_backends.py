"""Compares lean-server with lean-file, the reference, candidate by candidate.

Flows in: the references of lean/benchmark.jsonl, which are also given to other problems and
damaged; plain words; the attacks of tests/attacks/lean with the audit switched off. Flows out: a
line of JSON for each candidate that does not get the same status, axioms, checks and messages with
their places from both, and a last line with the counts. Exit status 1 if there is a difference.

    PROVERRL_LEAN=/path/to/lean python scripts/compare_lean_backends.py
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from proverrl.config.base import LeanBackend
from proverrl.errors import ProblemError, WorkerError
from proverrl.lang.lean.verify.judge import KnownStatements, LeanLimits
from proverrl.lang.lean.verify.workers.toolchain import LeanToolchain, find_lean_toolchain
from proverrl.lang.lean.verify.workers.worker import LeanWorker
from proverrl.types import HOLE, Candidate, Problem, Verdict

ROOT = Path(__file__).resolve().parents[1]
# Folders and the name of the module, which is a part of some names, differ by nature.
_OWN_WORDS = re.compile(
    r"in the search path.*|in the $|[^\s(]*(external:file|[Cc]andidate)[^\s)]*", re.DOTALL
)
_PLAIN = ("rfl", "decide", "simp", "trivial", "omega", "sorry", "exact fun h => h", "intro h", "")
_DAMAGE = ("cut", "swap", "number", "double")


def load_references() -> list[tuple[Problem, str]]:
    """The problems of the benchmark with their references."""
    found = []
    for line in (ROOT / "lean" / "benchmark.jsonl").read_text("utf-8").splitlines():
        raw = json.loads(line)
        problem = Problem(raw["id"], "lean", raw["kind"], raw["preamble"], raw["statement"])
        found.append((problem, raw["reference"]))
    return found


def damage(body: str, way: str, rng: random.Random) -> str:
    """A body that is a little wrong, or by chance still right."""
    lines, words = body.split("\n"), re.split(r"(\s+)", body)
    if way == "cut":
        return "\n".join(lines[: rng.randrange(len(lines))])
    if way == "double":
        place = rng.randrange(len(lines))
        return "\n".join([*lines[: place + 1], *lines[place:]])
    if way == "number":
        return re.sub(r"\d+", lambda found: str(int(found[0]) + 1), body, count=1) + " "
    places = range(0, len(words), 2)
    one, other = rng.choice(places), rng.choice(places)
    words[one], words[other] = words[other], words[one]
    return "".join(words)


def make_candidates(rng: random.Random) -> Iterator[tuple[str, Candidate]]:
    """What is compared, each with its kind."""
    references = load_references()
    for problem, body in references:
        yield "reference", Candidate(problem, body)
        same = [other for one, other in references if one.kind == problem.kind and other != body]
        for other in rng.sample(same, 3):
            yield "crossed", Candidate(problem, other)
        for way in _DAMAGE:
            yield way, Candidate(problem, damage(body, way, rng))
        word = rng.choice(_PLAIN)
        yield "plain", Candidate(problem, word if problem.kind == "tactics" else f"by {word}")
    for path in sorted((ROOT / "tests" / "attacks" / "lean").glob("*.json")):
        case = json.loads(path.read_text("ascii"))
        yield "attack", make_attack(case)


def make_attack(case: dict[str, Any]) -> Candidate:
    """The candidate of a case file."""
    statement = case["statement"] if case["kind"] != "file" else HOLE
    problem = Problem(case["name"], "lean", case["kind"], case["preamble"], statement)
    return Candidate(problem, case["body"], case.get("prelude", ""))


async def judge_all(
    candidates: Sequence[Candidate], toolchain: LeanToolchain, limits: LeanLimits, seconds: float
) -> list[dict[str, Any]]:
    """What one way of asking says of each; a worker that is in doubt is replaced."""
    found: list[dict[str, Any]] = []
    worker: LeanWorker | None = None
    known = KnownStatements()
    for candidate in candidates:
        worker = worker or await LeanWorker.start(toolchain, limits, known)
        try:
            async with asyncio.timeout(seconds):
                found.append(describe(await worker.judge(candidate)))
            continue
        except ProblemError as error:
            found.append({"status": "ProblemError", "said": _forget_own(str(error))})
            continue
        except WorkerError as error:
            found.append({"status": "WorkerError", "said": error.cause})
        except TimeoutError:
            found.append({"status": "TimeoutError"})
        worker.kill()
        await worker.join()
        worker = None
    if worker:
        worker.kill()
        await worker.join()
    return found


def describe(verdict: Verdict) -> dict[str, Any]:
    """The parts of a verdict that do not depend on the way of asking."""
    checks = [check for check in verdict.checks if not check.startswith("replay")]
    messages = [
        (d.severity, d.line, d.column, d.end_line, d.end_column, _forget_own(d.message))
        for d in verdict.diagnostics
    ]
    axioms = [_forget_own(axiom) for axiom in verdict.axioms]
    return {"status": verdict.status.value, "axioms": axioms, "checks": checks} | {
        "messages": messages
    }


def _forget_own(text: str) -> str:
    """A message without what differs by nature; types are told in full only up to a length."""
    return " ".join(_OWN_WORDS.sub("", text.partition(": its type is")[0]).split())


def explain(candidate: Candidate, server: dict[str, Any], file: dict[str, Any]) -> str:
    """Why the two may differ, or nothing."""
    if "skipKernelTC" in candidate.source and (server["status"], file["status"]) == (
        "proved",
        "unsound",
    ):
        return "stopped by the replay alone"
    if "idbg" in candidate.source and server["status"] == file["status"] == "rejected":
        return "idbg reads the file that it stands in"
    return ""


async def compare(seed: int, limits: LeanLimits, seconds: float) -> int:
    """Print each difference and the counts; the number of differences."""
    made = list(make_candidates(random.Random(seed)))
    candidates = [candidate for _, candidate in made]
    backends: tuple[LeanBackend, LeanBackend] = ("lean-server", "lean-file")
    toolchains = [find_lean_toolchain(backend) for backend in backends]
    server, file = await asyncio.gather(
        *(judge_all(candidates, toolchain, limits, seconds) for toolchain in toolchains)
    )
    kinds: Counter[str] = Counter()
    num_different = 0
    for (kind, candidate), one, other in zip(made, server, file, strict=True):
        kinds[f"{kind} {other['status']}"] += 1
        if one != other and (reason := explain(candidate, one, other)):
            kinds[reason] += 1
        elif one != other:
            num_different += 1
            said = {"kind": kind, "problem": candidate.problem.id, "body": candidate.body}
            print(json.dumps({**said, "server": one, "file": other}, ensure_ascii=False))
    counts = {"compared": len(made), "different": num_different, **dict(sorted(kinds.items()))}
    print(json.dumps({"lean": toolchains[0].lean_version, **counts}))
    return num_different


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--heartbeats", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    given = parser.parse_args()
    limits = LeanLimits(max_heartbeats=given.heartbeats)
    sys.exit(bool(asyncio.run(compare(given.seed, limits, given.seconds))))


if __name__ == "__main__":
    main()
