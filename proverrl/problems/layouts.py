"""Conversations that ask for a proof, in the forms that published provers were trained on.

Flows in: a ``Problem``. Flows out: the messages to show. The answer is expected as code in a
fenced block; ``proverrl.rollout.extract`` finds the body in it.
The order of the parts and the kind of code block follow the sources; the sentences are our own,
since the sources' wording is not ours to copy. A checkpoint may mind: measure before you compare.
Not handled here: chat templates (the policy's tokenizer has them), plain text layouts
(``proverrl.problems.prompt``).
"""

from __future__ import annotations

from proverrl.errors import ProblemError
from proverrl.lang import find_language
from proverrl.types import ANNOTATE, HOLE, Message, Problem

_KIMINA_SYSTEM = "You are an expert in mathematics and programming who writes proofs in Lean 4."
_DAFNY_SYSTEM = "You are an expert in program verification with Dafny."
_DAFNY_ASKS = {
    "invariants": "Write the loop invariants (and a decreases clause where needed)",
    "statements": "Write the proof statements",
    "calc": "Write the steps of the calculation",
    "assertions": "Write the assertions",
}


def kimina_messages(problem: Problem) -> tuple[Message, ...]:
    """Kimina-Prover Preview (Wang et al. 2025, arXiv 2504.11354): a system message, the problem in
    words, the formal statement in a ``lean4`` block; the answer thinks, then gives the file."""
    words = problem.informal.strip()
    parts = ["Think step by step about the following problem and solve it in Lean 4."]
    if words:
        parts.append(f"# Problem:\n{words}")
    parts.append(f"# Formal statement:\n{fence('lean4', _show(problem))}")
    return Message("system", _KIMINA_SYSTEM), Message("user", "\n\n".join(parts))


def deepseek_messages(problem: Problem) -> tuple[Message, ...]:
    """DeepSeek-Prover-V2 without chain of thought (Ren et al. 2025, arXiv 2504.21801): complete
    the Lean 4 code, whose proof is ``sorry``; the statement in words is a doc comment."""
    return (Message("user", _complete(problem)),)


def deepseek_cot_messages(problem: Problem) -> tuple[Message, ...]:
    """DeepSeek-Prover-V2 with chain of thought (arXiv 2504.21801): the same, and a plan first."""
    plan = (
        "Before the code, give a detailed proof plan: the main ideas, the intermediate lemmas, and "
        "how the final proof is built from them."
    )
    return (Message("user", f"{_complete(problem)}\n\n{plan}"),)


def goedel_messages(problem: Problem) -> tuple[Message, ...]:
    """Goedel-Prover-V2 (Lin et al. 2025, arXiv 2508.03613): whole proofs in the form of
    DeepSeek-Prover-V2 with a plan, which its training data have."""
    return deepseek_cot_messages(problem)


def dafny_messages(problem: Problem) -> tuple[Message, ...]:
    """Our own: the program with its hole marked and what may stand there, or the whole program to
    be given back with proof hints (the task of DafnyBench, Loughridge et al. 2024,
    arXiv 2406.08467)."""
    if problem.kind == ANNOTATE:
        program = (problem.preamble + problem.statement.replace(HOLE, "")).rstrip()
        ask = (
            "Dafny cannot verify the following program without hints. Give the whole program back "
            "with loop invariants, assertions and decreases clauses added. Change nothing else: no "
            "executable code, no requires, no ensures. Answer with one dafny code block."
        )
        return Message("system", _DAFNY_SYSTEM), Message("user", f"{ask}\n\n{_dafny(program)}")
    wanted = _DAFNY_ASKS.get(problem.kind)
    if wanted is None:
        known = ", ".join((*_DAFNY_ASKS, ANNOTATE))
        raise ProblemError(
            f"problem {problem.id!r}: layout 'dafny' cannot ask for {problem.kind!r}, only {known}"
        )
    program = (problem.preamble + problem.statement).rstrip()
    ask = (
        f"{wanted} that belong at the mark {HOLE} so that Dafny verifies the program. Answer with "
        "one dafny code block that holds the text for the mark and nothing else."
    )
    return Message("system", _DAFNY_SYSTEM), Message("user", f"{ask}\n\n{_dafny(program)}")


def fence(language: str, code: str) -> str:
    """Code as a fenced block."""
    return f"```{language}\n{code.rstrip()}\n```"


def _dafny(code: str) -> str:
    return fence("dafny", code)


def _complete(problem: Problem) -> str:
    words = problem.informal.strip().replace("-/", "- /")
    comment = f"/-- {words} -/\n" if words else ""
    rest = _show(problem)[len(problem.preamble) :]
    code = fence("lean4", problem.preamble + comment + rest)
    return f"Complete the following Lean 4 code:\n\n{code}"


def _show(problem: Problem) -> str:
    return find_language(problem.language).show_problem(problem)
