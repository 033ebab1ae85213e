"""Steps of a proof by the checker's states, so that proofs with different text share steps.

Flows in: turns whose verdicts carry ``states``. Flows out: steps whose key is (goals before, goals
after), as the edges of RMaxTS (DeepSeek-Prover-V1.5, Xin et al. 2024, arXiv 2408.08152). A step is
the lines from one on which a tactic begins to the next such line. All proofs of a group start in
one state; a failed one ends in its own, which nothing else reaches. An answer with no states (no
candidate, refused before it was run, a term) is one step. Dafny gives none between statements.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import accumulate

from proverrl.advantages.base import ProofStep, StepsFn
from proverrl.errors import UsageError
from proverrl.lang import find_language
from proverrl.types import Problem, Turn

START = "start"
DONE = "no goals"


def goal_steps(decode: Callable[[list[int]], str]) -> StepsFn:
    """Cuts turns into steps; ``decode`` turns token ids into text. The steps function raises
    ``UsageError`` for a problem in a language other than Lean, and for a proof by tactics whose
    verdict has no states, because the verifier was not asked for them."""

    def steps(turn: Turn) -> list[ProofStep]:
        tokens = turn.completion.token_ids
        check_states(turn)
        proved = turn.verdict is not None and turn.verdict.proved
        end: Hashable = DONE if proved else ("failed", decode(list(tokens)))
        cuts = find_cuts(turn, decode)
        before = [START, *(goals for _, goals in cuts)]
        after = [*before[1:], end]
        ends = [*(place for place, _ in cuts), len(tokens)]
        return [ProofStep((b, a), e) for b, a, e in zip(before, after, ends, strict=True) if e]

    return steps


def gives_goals(problem: Problem) -> bool:
    """Whether verdicts on the problem can say which goals stand between its steps."""
    searching = find_language(problem.language).searching
    return searching is not None and searching.needs_traces


def check_states(turn: Turn) -> None:
    """Raises ``UsageError`` for a turn whose goals cannot be known."""
    if turn.candidate is None or turn.verdict is None:
        return
    problem = turn.candidate.problem
    if not gives_goals(problem):
        raise UsageError(
            f'advantage.states = "goals": {problem.id!r} is a problem of {problem.language}, which '
            'gives no states between the steps of a proof; set advantage.states = "lines"'
        )
    if turn.verdict.proved and problem.kind == "tactics" and not turn.verdict.states:
        raise UsageError(
            f'advantage.states = "goals": the verdict on a proof of {problem.id!r} has no states; '
            'open the verifier with trace_states = True, or set advantage.states = "lines"'
        )


def find_cuts(turn: Turn, decode: Callable[[list[int]], str]) -> list[tuple[int, str]]:
    """Token index and goals at every later line of the completion on which a tactic begins. The
    line of the first tactic is not a cut: the text before it leads nowhere else."""
    if turn.verdict is None or turn.candidate is None or not turn.verdict.states:
        return []
    tokens = turn.completion.token_ids
    starts = [0, *(i for i, token in enumerate(tokens[:-1], 1) if "\n" in decode([token]))]
    pieces = zip(starts, [*starts[1:], len(tokens)], strict=True)
    texts = [decode(list(tokens[a:b])) for a, b in pieces]
    # A token may hold several line breaks, so that lines are counted in the text before a piece.
    numbers = accumulate((text.count("\n") for text in texts[:-1]), initial=0)
    offset = align_lines(turn.candidate.body, "".join(texts))
    if offset is None:
        return []
    goals: dict[int, str] = {}
    for line, _, state in turn.verdict.states:
        goals.setdefault(line - 1 + offset, state)
    first = min(goals)
    return [
        (start, goals[number])
        for start, number in zip(starts, numbers, strict=True)
        if number in goals and number > first and start
    ]


def align_lines(body: str, text: str) -> int | None:
    """How many lines further down than in the body a line stands in the completion's text: where
    the most lines agree, the last such place. Negative when a hint gave the first lines of the
    body. None when no line agrees."""
    ours = [line.strip() for line in body.split("\n")]
    theirs = [line.strip() for line in text.split("\n")]
    best, most = None, 0
    for offset in range(1 - len(ours), len(theirs)):
        pairs = zip(ours[max(0, -offset) :], theirs[max(0, offset) :], strict=False)
        score = sum(2 * (a == b) or _overlap(a, b) for a, b in pairs if a and b)
        if score and score >= most:
            best, most = offset, score
    return best


def _overlap(a: str, b: str) -> bool:
    """Whether one is the end of the other (``by simp`` and ``simp``, a line begun by a hint) or our
    line the beginning of theirs."""
    return a.endswith(b) or b.endswith(a) or b.startswith(a)
