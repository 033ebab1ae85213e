"""Replays the declarations of a compiled Lean module through the kernel.

Flows in: an ``.olean`` file that ``lean -o`` wrote from a candidate's text, and the ``lean`` that
wrote it; where we have a statement also its challenge, the file of the same text with ``sorry``.
Flows out: whether the kernel accepts every declaration of that module, which axioms and theorems
it declares, and whether its theorem states what the challenge's does. ``replay.lean``, beside this
file, does the work with Lean's own ``Kernel.Environment.replay``; it reads the module's data and
never imports it, so that no option, macro or initializer of the candidate is at work meanwhile.
Covered: theorems, their auxiliary lemmas, definitions, ``opaque``, inductive types with their
constructors and recursors; what skipped the kernel, as ``debug.skipKernelTC`` permits. Unsafe and
partial definitions are left out, and nothing that is replayed may name them. Compared with the
challenge, as expressions and not as text: the imports, the axioms, the target, and all that it
reaches through types, the values of definitions and the constructors of inductive types.
Not covered: the imports, whose compiled files are believed; bugs of the kernel itself.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from proverrl.errors import WorkerError
from proverrl.lang.lean.syntax.words import KERNEL_NAMES
from proverrl.lang.lean.verify.judge import STANDARD_AXIOMS
from proverrl.verifier.process_group import ProcessGroup

_PROGRAM = Path(__file__).with_suffix(".lean")
_MAX_OUTPUT_BYTES = 16_000_000
_MAX_DETAIL = 500
_DECLARED = ("axiom", "theorem", "definition")
_MODULE_PARTS = (".olean.server", ".olean.private")


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """The result of a replay. ``ran`` is False when this Lean cannot replay at all, which it said
    before it read anything of the candidate; ``passed`` is never True then. ``detail`` says why."""

    ran: bool
    passed: bool
    detail: str = ""


async def replay(
    olean: Path,
    lean: Sequence[str],
    environment: Mapping[str, str],
    groups: list[ProcessGroup],
    *,
    theorem: str | None,
    challenge: Path | None = None,
    allowed_axioms: frozenset[str] = STANDARD_AXIOMS,
    seconds: float = 120.0,
) -> ReplayOutcome:
    """Replay the module in ``olean``, which must declare ``theorem`` (None: it may declare what it
    likes) and no axiom that is not allowed. With a ``challenge``, which the same imports, the same
    release and the same name of a module made, it must state ``theorem`` as that file does.

    The paths are absolute. ``lean`` starts the release that wrote ``olean``, and with
    ``environment`` finds the module's imports; it must not find the candidate's own module under
    the name of a library. The process stands in ``groups``, those of a worker, while it runs, so
    that the worker's limit of memory holds for it.
    Raises ``WorkerError`` when the program died, did not end within ``seconds`` or gave an answer
    that is not understood: the proof is not judged then. A deterministic limit of the kernel is a
    refusal whose ``detail`` has Lean's words for it.
    """
    if _has_other_parts(olean):
        return ReplayOutcome(True, False, "a file of Lean's module system hides its proofs")
    nonce = secrets.token_hex(16)
    # Lean prints names without the signs that quote parts of them.
    theorem = theorem and theorem.replace("«", "").replace("»", "")
    ours = [str(challenge), theorem] if challenge and theorem else []
    command = [*lean, "--run", str(_PROGRAM), nonce, str(olean), *ours]
    group = await ProcessGroup.start(command, environment=environment)
    groups.append(group)
    try:
        printed = group.read_all(_MAX_OUTPUT_BYTES, "the replay")
        said = (await asyncio.wait_for(printed, seconds)).decode("utf-8", "replace")
        code = await asyncio.wait_for(group.wait(), seconds)
    except TimeoutError as error:
        raise WorkerError(f"the replay did not end in {seconds:g} seconds", "deadline") from error
    finally:
        group.kill()
        try:
            await group.join()
        finally:
            groups.remove(group)
    if code < 0:
        raise await group.explain_end(f"the replay was killed by signal {-code}")
    words = f"{said} {group.stderr_tail}"
    return judge_answer(said, nonce, code, theorem, allowed_axioms, bool(ours), _shorten(words))


def judge_answer(
    said: str,
    nonce: str,
    code: int,
    theorem: str | None,
    allowed_axioms: frozenset[str],
    is_compared: bool,
    words: str,
) -> ReplayOutcome:
    """The meaning of the program's output and exit code; ``words`` is all that it wrote, shortened.
    With ``is_compared`` it had to look at a challenge too.
    Raises ``WorkerError`` for an answer that is not understood."""
    answers = re.findall(rf"^{nonce} (\w+) ?([^\n]*)$", said, re.MULTILINE)
    kinds = [kind for kind, _ in answers]
    if "started" not in kinds:
        if code == 0:
            raise WorkerError(f"the replay gave no answer: {words}")
        return ReplayOutcome(False, False, f"this Lean cannot replay: {words}")
    names = {kind: [n for k, n in answers if k == kind] for kind in _DECLARED}
    compared = [(kind, why) for kind, why in answers if kind in ("same", "differs")]
    listed = [kind for kind in kinds[1:-1] if kind not in ("same", "differs")]
    if code != 0 or kinds[0] != "started" or len(compared) != is_compared or set(listed) - {*names}:
        raise WorkerError(f"the replay's answer is not understood: {words}")
    if kinds[-1] == "refused":
        why = said[said.rindex(f"{nonce} refused") + len(nonce) + len(" refused") :]
        return ReplayOutcome(True, False, _shorten(why))
    if kinds[-1] != "replayed" or not said.endswith(f"{nonce} replayed\n"):
        raise WorkerError(f"the replay's answer is not understood: {words}")
    if foreign := sorted(set(names["axiom"]) - allowed_axioms):
        return ReplayOutcome(True, False, f"the module declares axioms: {', '.join(foreign)}")
    declared = [name for found in names.values() for name in found]
    if special := sorted(KERNEL_NAMES.intersection(declared)):
        return ReplayOutcome(True, False, f"it declares what the kernel computes: {special[0]}")
    if theorem is not None and not any(_is_named(name, theorem) for name in declared):
        return ReplayOutcome(True, False, f"the module declares no {theorem}")
    if is_compared and compared[0][0] != "same":
        return ReplayOutcome(True, False, f"the proved statement is not ours: {compared[0][1]}")
    return ReplayOutcome(True, True, f"theorems:{len(names['theorem'])}")


def _has_other_parts(olean: Path) -> bool:
    return any(olean.with_suffix(suffix).exists() for suffix in _MODULE_PARTS)


def _is_named(name: str, theorem: str) -> bool:
    """A private declaration carries its module and a number before its name."""
    is_private = name.startswith("_private.")
    return theorem == (name.partition(".0.")[2] if is_private else name)


def _shorten(text: str) -> str:
    return " ".join(text.split())[:_MAX_DETAIL]
