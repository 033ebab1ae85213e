"""The verifier's answer as the policy reads it before its next attempt.

Flows in: a candidate and its verdict, or the reason why no candidate was found. Flows out: text.
Places are those of the assembled file, lines from 1 and columns from 0, as in a ``Diagnostic``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from proverrl.config import FeedbackName
from proverrl.lang import find_language
from proverrl.types import Candidate, Diagnostic, Status, Verdict

FeedbackFn = Callable[[Candidate, Verdict, int], str]
"""From a candidate, a verdict and the most errors to show, to text."""

GOEDEL_LINES_BEFORE, GOEDEL_LINES_AFTER, GOEDEL_SPAN_LINES = 4, 1, 6

_SUMMARIES = {
    Status.REJECTED: "does not pass the verifier",
    Status.INCOMPLETE: "is not complete: a hole was left open",
    Status.UNCONFIRMED: "is not confirmed by a second verifier",
    Status.UNSOUND: "is not accepted: it uses what a proof must not use",
    Status.EXHAUSTED: "needs more resources than the verifier allows",
    Status.PROVED: "is verified",
}
ANALYSE = "First analyse in detail why it fails, then write the whole corrected answer."


def goedel(candidate: Candidate, verdict: Verdict, max_errors: int) -> str:
    """Goedel-Prover-V2's form (Lin et al. 2025, arXiv 2508.03613): each error with 4 lines before
    it, its span within ``<error>`` and ``</error>`` (6 lines at most), 1 line after it and its
    message; then how many errors were left out, and a request for an analysis before new code."""
    verdict = _hide_meaning(candidate, verdict)
    lines = _show_lines(candidate)

    def describe(error: Diagnostic) -> list[str]:
        snippet = _mark_span(lines, error)
        return [*_fence(candidate, snippet), f"Message: {error.message.strip()}"]

    return "\n".join((*_list_errors(verdict, max_errors, describe), ANALYSE))


def compact(candidate: Candidate, verdict: Verdict, max_errors: int) -> str:
    """One line per error, as in the interpreter block of Leanabell-Prover-V2 (Ji et al. 2025,
    arXiv 2507.08649); lines count in the candidate's own text where the error is in it."""
    errors, num_omitted = _choose(_hide_meaning(candidate, verdict), max_errors)
    if verdict.proved:
        return "verification succeeded"
    parts = []
    for error in errors:
        line = error.line if error.body_line is None else error.body_line
        place = f" at line {line}" if line else ""
        parts.append(f"verification failed, error{place}: {error.message.strip()}")
    if num_omitted:
        parts.append(f"({num_omitted} further errors)")
    return "\n".join(parts) or f"verification failed: the proof {_SUMMARIES[verdict.status]}"


FEEDBACK: dict[FeedbackName, FeedbackFn] = {
    "goedel": goedel,
    "compact": compact,
}


def render_missing(reason: str) -> str:
    """The feedback where no candidate was found in its answer."""
    return f"No proof was found in the answer: {reason}. Write the whole answer again."


def _hide_meaning(candidate: Candidate, verdict: Verdict) -> Verdict:
    """The messages about the body alone, where a policy does not see what stands behind the hole:
    the goals and the messages about the rest of the file would tell of it."""
    if not find_language(candidate.problem.language).hides_rest(candidate.problem):
        return verdict
    told = tuple(d for d in verdict.diagnostics if d.body_line is not None)
    return replace(verdict, diagnostics=told, goals=())


def _show_lines(candidate: Candidate) -> list[str]:
    """The lines of the file that a policy may see."""
    hides = find_language(candidate.problem.language).hides_rest(candidate.problem)
    return (candidate.head + candidate.body if hides else candidate.source).split("\n")


def _choose(verdict: Verdict, max_errors: int) -> tuple[Sequence[Diagnostic], int]:
    errors = [d for d in verdict.diagnostics if d.severity == "error"]
    return errors[:max_errors], max(0, len(errors) - max_errors)


def _list_errors(
    verdict: Verdict, max_errors: int, describe: Callable[[Diagnostic], list[str]]
) -> list[str]:
    """A sentence on the verdict; of each error its number and description; how many more."""
    errors, num_omitted = _choose(verdict, max_errors)
    parts = [f"The proof {_SUMMARIES[verdict.status]}."]
    for number, error in enumerate(errors, start=1):
        parts += [f"Error {number}:", *describe(error)]
    if num_omitted:
        parts.append(f"({num_omitted} further errors are not shown)")
    return parts


def _fence(candidate: Candidate, snippet: str) -> list[str]:
    name = find_language(candidate.problem.language).fences[0]
    return [f"```{name}\n{snippet}\n```"] if snippet else []


def _mark_span(lines: Sequence[str], error: Diagnostic) -> str:
    """The lines around an error with its span marked; empty when it has no place in the file.
    Without an end the span reaches to the end of its line."""
    if not 1 <= error.line <= len(lines):
        return ""
    first = error.line - 1
    last = min(len(lines), error.end_line or error.line) - 1
    last = max(first, last)
    start = min(error.column, len(lines[first]))
    end = len(lines[last])
    if error.end_line is not None and error.end_column is not None:
        end = min(error.end_column, end)
    if last == first:
        end = max(start, end)
    before = list(lines[max(0, first - GOEDEL_LINES_BEFORE) : first])
    after = list(lines[last + 1 : last + 1 + GOEDEL_LINES_AFTER])
    span = list(lines[first : last + 1])
    # The end first: marking the start would move it when both are on one line.
    span[-1] = f"{span[-1][:end]}</error>{span[-1][end:]}"
    span[0] = f"{span[0][:start]}<error>{span[0][start:]}"
    if len(span) > GOEDEL_SPAN_LINES:
        num_cut = len(span) - GOEDEL_SPAN_LINES
        span = [*span[:GOEDEL_SPAN_LINES], f"... ({num_cut} lines cut)</error>"]
    return "\n".join((*before, *span, *after))
