"""The audit of a body, before anything runs.

Flows in: a body and the kind of its hole (or a candidate). Flows out: findings; none means that
the body may be sent to Dafny. The whole of it must be in the grammar of its hole, so that it cannot
end the scope, start a declaration or leave something out. ``rule`` of a finding names the layer.
Not covered: what only Dafny knows (types, termination, truth).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence, Set
from dataclasses import replace
from itertools import pairwise

from proverrl.errors import ProblemError
from proverrl.lang.dafny.audit.annotated import audit_annotated, read_our_program
from proverrl.lang.dafny.audit.files import audit_file
from proverrl.lang.dafny.audit.methods import audit_method, move_to_body, read_declared
from proverrl.lang.dafny.audit.written_types import get_blank, read_untyped
from proverrl.lang.dafny.known_bugs.believed import find_bit_measures, find_bugs, has_bit_types
from proverrl.lang.dafny.known_bugs.joined_invariants import join_invariants
from proverrl.lang.dafny.syntax.cursor import GrammarError, is_name, list_methods
from proverrl.lang.dafny.syntax.hint_grammar import list_forbidden, parse_body
from proverrl.lang.dafny.syntax.plain import make_plain, write_file, write_plain
from proverrl.lang.dafny.syntax.program import read_text
from proverrl.lang.dafny.syntax.tokens import CLOSERS, OPENERS, Token, read_body, read_file
from proverrl.lang.records import Finding
from proverrl.text_cache import cache_texts
from proverrl.types import ANNOTATE, FILE, HOLE, Candidate, Diagnostic, Problem, Status, Verdict
from proverrl.verifier.base import refuse_text
from proverrl.verifier.body_place import end_column, find_body_place, find_offset

AUDIT_VERSION = 53
"""Part of the key of cached verdicts: raise it whenever the audit admits or refuses anew, or
what is sent to Dafny changes."""

CONTRACT = "contract"
PROGRAM = "program"
HOLE_KINDS = ("invariants", "statements", "calc", "assertions", CONTRACT)
KINDS = (*HOLE_KINDS, PROGRAM, "file", ANNOTATE)

MAX_BODY_CHARACTERS = 32_768
MAX_FILE_CHARACTERS = 262_144
MAX_BODY_TOKENS = 4_000
_MAX_FINDINGS = 10
_TESTED_DAFNY = "4.11."
"""The Dafny that was asked whether it has the bugs of Dafny 2.3."""
_ALLOWED_WORDS = {
    CONTRACT: frozenset({"requires"}),
    PROGRAM: frozenset("requires while return break label new".split()),
}
_MARK = "the_hole_of_this_problem"
_HEAD = re.compile(r"\w+(?:\s+method)?\s*(?:\{:[^{}]*\}\s*)*\{:\s*")
"""From the word of a member to the name of one of its attributes."""
_HEADS = frozenset("lemma colemma method constructor iterator".split())
_SAFE_AROUND_HOLE = frozenset(" \t\r\n{};")


def audit(
    kind: str,
    body: str,
    *,
    problem: Problem | None = None,
    allowed: Collection[str] = (),
    dafny: str = "",
) -> list[Finding]:
    """Findings about a body for a hole of this kind; an empty list admits it.

    An empty body is admitted: whether it proves anything is for Dafny to say. ``problem`` adds
    the rules that need its text: no call of its methods, no new name that its text after the
    hole uses. ``allowed`` are words of ``trusted``, ``dafny`` the version that judges first, if
    that is known. Raises ``ProblemError`` for a kind that does not exist.
    """
    if kind not in KINDS:
        raise ProblemError(f"unknown kind of hole {kind!r}; known are: {', '.join(KINDS)}")
    is_whole = kind in ("file", ANNOTATE)
    limit = MAX_FILE_CHARACTERS if is_whole else MAX_BODY_CHARACTERS
    if len(body) > limit:
        return [Finding("syntax", "size", f"longer than {limit} characters", 1, 0)]
    written = write_file(body) if kind == FILE else write_plain(body, comments=not is_whole)
    found = _audit_plain(kind, written.text, problem)
    is_newer = kind == FILE and dafny.startswith(_TESTED_DAFNY)
    found = [f for f in found if f.trust not in allowed and not (f.older and is_newer)]
    findings = found[:_MAX_FINDINGS]
    return [replace(f, column=written.find_column(f.line, f.column)) for f in findings]


def _audit_plain(kind: str, body: str, problem: Problem | None) -> list[Finding]:
    if kind == "file":
        return audit_file(body)
    if problem is None and kind in (ANNOTATE, PROGRAM):
        raise ProblemError(f"a body of the kind {kind!r} is audited against its problem; give it")
    if kind == ANNOTATE and problem is not None:
        return audit_annotated(problem, body)
    tokens, findings = read_body(body)
    if len(tokens) > MAX_BODY_TOKENS:
        return [Finding("syntax", "size", f"more than {MAX_BODY_TOKENS} tokens", 1, 0)]
    allowed = _ALLOWED_WORDS.get(kind, frozenset())
    in_lemma = problem is not None and _is_in_lemma(problem.statement)
    forbidden = (*list_forbidden(tokens, allowed, in_lemma=in_lemma), *_scan(tokens))
    findings = [*sorted(forbidden, key=lambda found: (found.line, found.column)), *findings]
    if kind == PROGRAM and problem is not None:
        return findings or audit_method(problem, body, tokens)
    return findings or _parse(kind, tokens, problem)


def list_trusted(text: str, allowed: Collection[str]) -> list[Finding]:
    """Claims that a bare file has believed by words of ``trusted``: a member without a body counts
    once, and not for the attribute as well that says so in its head."""
    plain = write_file(text).text
    findings = [f for f in audit_file(plain) if f.trust in allowed]
    found = [(f, find_offset(plain, f.line, f.column)) for f in findings]
    members = [(f.trust, start) for f, start in found if f.rule == "missing-body"]
    return [
        f
        for f, place in found
        if f.rule != "attributes"
        or not any(
            trust == f.trust and _HEAD.fullmatch(plain, start, place) for trust, start in members
        )
    ]


def audit_candidate(
    candidate: Candidate, allowed: Collection[str] = (), dafny: str = ""
) -> Verdict | None:
    """The verdict of a refused candidate, or None when it is admitted.

    UNSOUND when a forbidden construct was recognised, REJECTED when the body is only not in the
    grammar. What is ``allowed`` is so in a bare file only, and so is what the version ``dafny``,
    which judges first, is known not to believe. Raises ``ProblemError`` when the problem's hole
    could not hold any body.
    """
    problem = candidate.problem
    allowed = allowed if problem.kind == FILE else ()
    try:
        check_problem(problem)
        findings = audit(
            problem.kind, candidate.body, problem=problem, allowed=allowed, dafny=dafny
        )
        findings = findings or _find_unjoined(candidate)
    except RecursionError:
        findings = [Finding("syntax", "grammar", "nested too deeply", 1, 0)]
    if candidate.prelude:
        message = "a prelude is not allowed: all of the file but the hole belongs to the problem"
        return refuse_text(Status.UNSOUND, "prelude", (Diagnostic("error", message),))
    return refuse(candidate, findings) if findings else None


def refuse(candidate: Candidate, findings: Sequence[Finding]) -> Verdict:
    """The verdict on a candidate with these findings, one at least."""
    worst = next((finding for finding in findings if finding.category == "cheat"), findings[0])
    status = Status.UNSOUND if worst.category == "cheat" else Status.REJECTED
    diagnostics = tuple(_make_diagnostic(candidate, finding) for finding in findings)
    return refuse_text(status, worst.rule, diagnostics)


def _find_unjoined(candidate: Candidate) -> list[Finding]:
    """Invariants that Dafny 2.3 has to get as one conjunction, and that cannot be joined; a calc
    that is ours in part and shows less than is believed."""
    plain, written = make_plain(candidate)
    try:
        if plain.problem.kind == "calc":
            # What its calc shows depends on our lines too.
            read_text(plain.source)
        join_invariants(plain.source, trusts=plain.problem.kind == FILE)
    except GrammarError as error:
        found = error.finding
        column = written.find_column(found.line, found.column)
        return [move_to_body(candidate, replace(found, column=column))]
    return []


@cache_texts
def _find_hole_error(statement: str) -> str:
    before, _, after = statement.partition(HOLE)
    for neighbour in (before[-1:], after[:1]):
        if neighbour and neighbour not in _SAFE_AROUND_HOLE:
            return f"its hole touches {neighbour!r}; put a blank or a line break between"
    tokens, _ = read_file(f"{before} {_MARK} {after}")
    if _MARK not in (token.text for token in tokens):
        return "its hole is inside a comment or a string"
    return ""


def check_problem(problem: Problem) -> None:
    """Raise ``ProblemError`` when no proof can be held to the problem's own text.

    Text beside the hole could fuse with a body, the program cannot be read, or anything follows
    from its types.
    """
    if problem.kind in (*HOLE_KINDS, PROGRAM):
        error = _find_hole_error(problem.statement)
        if error:
            raise ProblemError(f"problem {problem.id!r}: {error}")
        read_untyped(problem.id, get_blank(problem))
        if problem.kind == PROGRAM:
            read_declared(problem)
    elif problem.kind == ANNOTATE:
        read_our_program(problem)


def find_cheat(problem: Problem) -> str:
    """A thing that no bare file may hold, in a problem of the kind ``contract`` or ``program``; or
    empty.

    All of its text counts, what no policy is shown too. The two methods of a contract call each
    other without end, so ``decreases *`` is its form; a lemma that has one is refused.
    """
    try:
        check_problem(problem)
        # The text of a program was held to the same when it was read.
        findings = audit_file(get_blank(problem)) if problem.kind == CONTRACT else []
    except ProblemError as error:
        return str(error).removeprefix(f"problem {problem.id!r}: ")
    except RecursionError:
        return "nested too deeply"
    found = next((finding for finding in findings if finding.rule != "wildcard"), None)
    return f"line {found.line}: {found.rule}: {found.message}" if found else ""


def _make_diagnostic(candidate: Candidate, finding: Finding) -> Diagnostic:
    line = candidate.head.count("\n") + finding.line
    column = finding.column + (end_column(candidate.head) if finding.line == 1 else 0)
    is_admissible = finding.trust and candidate.problem.kind == FILE
    remedy = f" (--allow {finding.trust} has it believed)" if is_admissible else ""
    # A finding counts in the body already; what the policy wrote past its end is in it too.
    place = find_body_place(candidate, line, column) or (finding.line, finding.column)
    return Diagnostic(
        severity="error",
        message=f"{finding.rule}: {finding.message}{remedy}",
        line=line,
        column=column,
        body_line=place[0],
        body_column=place[1],
    )


def _scan(tokens: list[Token]) -> Iterator[Finding]:
    open_brackets: list[str] = []
    scope_ended = False
    for token in tokens:
        text = token.text
        if token.kind == "operator":
            if text == "...":
                yield token.refuse("cheat", "missing-body", "'...' leaves something out")
            elif text in OPENERS:
                open_brackets.append(text)
            elif text in CLOSERS and not scope_ended:
                if not open_brackets:
                    scope_ended = True
                    yield token.refuse("cheat", "scope", f"{text!r} closes what the problem opened")
                elif open_brackets.pop() != CLOSERS[text]:
                    yield token.refuse("syntax", "grammar", f"{text!r} closes another bracket")
                    return


@cache_texts
def _is_in_lemma(statement: str) -> bool:
    head, _ = read_file(statement.partition(HOLE)[0])
    heads = [token.text for token in head if token.text in _HEADS]
    return heads[-1:] in (["lemma"], ["colemma"])


def _parse(kind: str, tokens: list[Token], problem: Problem | None) -> list[Finding]:
    closed = problem is not None and _is_closed(problem.statement)
    try:
        declared, program = parse_body(kind, tokens, closed=closed)
    except GrammarError as error:
        return [error.finding]
    if problem is None:
        return find_bugs(program)
    methods, later_words = _read_problem(problem.preamble, problem.statement)
    ours = read_untyped(problem.id, get_blank(problem))
    findings = find_bugs(program, ours)
    findings += find_bit_measures(tokens, is_bits=has_bit_types(ours.tokens))
    findings += _find_method_calls(tokens, methods)
    findings += [
        t.refuse("cheat", "names", f"{t.text!r} would capture a later name")
        for t in declared
        if t.text in later_words
    ]
    return findings


@cache_texts
def _is_closed(statement: str) -> bool:
    """True if what follows the hole ends the block around it."""
    tail, _ = read_file(statement.partition(HOLE)[2])
    return tail[:1] != [] and tail[0].text == "}"


def _find_method_calls(tokens: list[Token], methods: Set[str]) -> Iterator[Finding]:
    """A call of a method would change what the program does; lemmas change nothing."""
    for token, following in pairwise(tokens):
        if is_name(token) and token.text in methods and following.text in ("(", "<"):
            message = f"{token.text!r} is a method; only lemmas and functions may be called"
            yield token.refuse("cheat", "names", message)


@cache_texts
def _read_problem(preamble: str, statement: str) -> tuple[frozenset[str], frozenset[str]]:
    """The names of the problem's methods, ghost ones too, and the words after its hole."""
    before, _, after = statement.partition(HOLE)
    head, _ = read_file(preamble + before)
    tail, _ = read_file(after)
    methods = list_methods(head) | list_methods(tail)
    words = frozenset(token.text for token in tail if is_name(token))
    return frozenset(methods), words
