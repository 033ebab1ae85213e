"""The audit of a body, before anything runs.

Flows in: a body and the kind of its hole (or a candidate). Flows out: findings; none means that
the body may be sent to Dafny. A body is admitted only when the whole of it is in the grammar of
its hole, so that it cannot end the scope, start a declaration or leave something out.
Covered, each by a layer that findings name in ``rule``: size, characters, comments, scope,
keywords, attributes, wildcard, missing-body, assignment, names, grammar; and for whole programs
``dafny_file_audit``. Not covered: what only Dafny knows (types, termination, truth), and a
problem whose own text is inconsistent.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from functools import lru_cache
from itertools import pairwise

from proverrl.errors import ProblemError
from proverrl.types import HOLE, Candidate, Diagnostic, Problem, Status, Verdict
from proverrl.verify.dafny_file_audit import audit_file
from proverrl.verify.dafny_grammar import GrammarError, is_name, parse_body
from proverrl.verify.dafny_judge import find_body_line
from proverrl.verify.dafny_tokens import Finding, Token, read_body, read_file

AUDIT_VERSION = 2
"""Part of the key of cached verdicts: raise it whenever the audit admits or refuses anew."""

HOLE_KINDS = ("invariants", "statements", "calc", "assertions")
KINDS = (*HOLE_KINDS, "file")

MAX_BODY_CHARACTERS = 32_768
MAX_FILE_CHARACTERS = 262_144
MAX_BODY_TOKENS = 4_000
_MAX_FINDINGS = 10
_SAFE_AROUND_HOLE = frozenset(" \t\r\n{};")

# Words that no honest body of a hole holds, and what each would do there.
_FORBIDDEN = {
    "assume": "assumes what is to be proved",
    "expect": "is not a proof",
    "free": "assumes what is to be proved",
    "include": "brings in another file",
    "while": "could loop without a body",
    "return": "skips the rest of the program",
    "break": "skips the rest of the program",
    "yield": "changes the program",
    "print": "changes the program",
    "new": "changes the program",
    "modify": "changes the program",
    "modifies": "changes what may be modified",
    "label": "changes the program",
} | dict.fromkeys(
    """abstract class codatatype colemma const constructor copredicate datatype export extends
    function import inductive iterator lemma method module newtype opened predicate protected
    provides refines requires returns reveals static trait twostate type witness yields""".split(),
    "starts or changes a declaration",
)
_CLOSERS = {")": "(", "]": "[", "}": "{"}


def audit(kind: str, body: str, *, problem: Problem | None = None) -> list[Finding]:
    """Findings about a body for a hole of this kind; an empty list admits it.

    An empty body is admitted: whether it proves anything is for Dafny to say. ``problem`` adds
    the rules that need its text: no call of its methods, no new name that its text after the
    hole uses. Raises ``ProblemError`` for a kind that does not exist.
    """
    if kind not in KINDS:
        raise ProblemError(f"unknown kind of hole {kind!r}; known are: {', '.join(KINDS)}")
    limit = MAX_FILE_CHARACTERS if kind == "file" else MAX_BODY_CHARACTERS
    if len(body) > limit:
        message = f"longer than {limit} characters"
        return [Finding("syntax", "size", message, 1, 0)]
    if kind == "file":
        return audit_file(body)[:_MAX_FINDINGS]
    tokens, findings = read_body(body)
    if len(tokens) > MAX_BODY_TOKENS:
        return [Finding("syntax", "size", f"more than {MAX_BODY_TOKENS} tokens", 1, 0)]
    findings = [*_scan(tokens), *findings]
    if not findings:
        findings = _parse(kind, tokens, problem)
    return findings[:_MAX_FINDINGS]


def audit_candidate(candidate: Candidate) -> Verdict | None:
    """The verdict of a refused candidate, or None when it is admitted.

    UNSOUND when a forbidden construct was recognised, REJECTED when the body is only not in the
    grammar. Raises ``ProblemError`` when the problem's hole could not hold any body.
    """
    problem = candidate.problem
    findings = audit(problem.kind, candidate.body, problem=problem)
    if problem.kind != "file":
        check_hole(problem)
    if candidate.prelude:
        message = "a prelude is not allowed: all of the file but the hole belongs to the problem"
        return Verdict(Status.UNSOUND, (Diagnostic("error", message),), checks=("audit:prelude",))
    if not findings:
        return None
    cheats = [finding for finding in findings if finding.category == "cheat"]
    status = Status.UNSOUND if cheats else Status.REJECTED
    rule = (cheats or findings)[0].rule
    diagnostics = tuple(_make_diagnostic(candidate, finding) for finding in findings)
    return Verdict(status, diagnostics, checks=(f"audit:{rule}",))


@lru_cache(maxsize=4096)
def _find_hole_error(statement: str) -> str:
    before, _, after = statement.partition(HOLE)
    for neighbour in (before[-1:], after[:1]):
        if neighbour and neighbour not in _SAFE_AROUND_HOLE:
            return f"its hole touches {neighbour!r}; put a blank or a line break between"
    return ""


def check_hole(problem: Problem) -> None:
    """Raise ``ProblemError`` when text beside the hole could fuse with a body."""
    error = _find_hole_error(problem.statement)
    if error:
        raise ProblemError(f"problem {problem.id!r}: {error}")


def _make_diagnostic(candidate: Candidate, finding: Finding) -> Diagnostic:
    first_line = candidate.head.count("\n") + 1
    head_column = len(candidate.head) - (candidate.head.rfind("\n") + 1)
    line = first_line + finding.line - 1
    column = finding.column + (head_column if finding.line == 1 else 0)
    return Diagnostic(
        severity="error",
        message=f"{finding.rule}: {finding.message}",
        line=line,
        column=column,
        body_line=find_body_line(candidate, line, column) or finding.line,
    )


def _scan(tokens: list[Token]) -> Iterator[Finding]:
    """Forbidden words and marks, wherever they stand."""
    open_brackets: list[str] = []
    scope_ended = False
    previous = ""
    for token in tokens:
        text = token.text
        if token.kind == "word" and text in _FORBIDDEN:
            message = f"{text!r} {_FORBIDDEN[text]}"
            yield Finding("cheat", "keywords", message, token.line, token.column)
        elif token.kind == "operator":
            if text == ":" and previous == "{":
                message = "attributes are not allowed"
                yield Finding("cheat", "attributes", message, token.line, token.column)
            elif text == "*" and previous in ("decreases", ","):
                message = "'*' gives up termination"
                yield Finding("cheat", "wildcard", message, token.line, token.column)
            elif text == "...":
                message = "'...' leaves something out"
                yield Finding("cheat", "missing-body", message, token.line, token.column)
            elif text in "([{":
                open_brackets.append(text)
            elif text in _CLOSERS and not scope_ended:
                if not open_brackets:
                    scope_ended = True
                    message = f"{text!r} closes what the problem opened"
                    yield Finding("cheat", "scope", message, token.line, token.column)
                elif open_brackets.pop() != _CLOSERS[text]:
                    message = f"{text!r} closes another bracket"
                    yield Finding("syntax", "grammar", message, token.line, token.column)
                    return
        previous = text


def _parse(kind: str, tokens: list[Token], problem: Problem | None) -> list[Finding]:
    try:
        declared = parse_body(kind, tokens)
    except GrammarError as error:
        return [error.finding]
    if problem is None:
        return []
    methods, later_words = _read_problem(problem.preamble, problem.statement)
    findings = list(_find_method_calls(tokens, methods))
    findings += [
        Finding("cheat", "names", f"{t.text!r} would capture a later name", t.line, t.column)
        for t in declared
        if t.text in later_words
    ]
    return findings


def _find_method_calls(tokens: list[Token], methods: Set[str]) -> Iterator[Finding]:
    """A call of a method would change what the program does; lemmas change nothing."""
    for token, following in pairwise(tokens):
        if is_name(token) and token.text in methods and following.text in ("(", "<"):
            message = f"{token.text!r} is a method; only lemmas and functions may be called"
            yield Finding("cheat", "names", message, token.line, token.column)


@lru_cache(maxsize=1024)
def _read_problem(preamble: str, statement: str) -> tuple[frozenset[str], frozenset[str]]:
    """The names of the problem's methods, ghost ones too, and the words after its hole."""
    before, _, after = statement.partition(HOLE)
    head, _ = read_file(preamble + before)
    tail, _ = read_file(after)
    methods = set()
    for tokens in (head, tail):
        for place, token in enumerate(tokens[:-1]):
            if token.kind != "word" or token.text not in ("method", "constructor"):
                continue
            previous = tokens[place - 1].text if place else ""
            name = _find_declared_name(tokens, place + 1)
            if previous != "function" and name:
                methods.add(name)
    return frozenset(methods), frozenset(token.text for token in tail if is_name(token))


def _find_declared_name(tokens: list[Token], place: int) -> str:
    """The name after a declaring word, past any attributes."""
    while tokens[place].text == "{":
        while tokens[place].kind != "end" and tokens[place].text != "}":
            place += 1
        place += 1 if tokens[place].kind != "end" else 0
    return tokens[place].text if is_name(tokens[place]) else ""
