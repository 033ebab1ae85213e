"""The audit of a whole Dafny 2.3 program, where every word was written by the policy.

Flows in: a program. Flows out: findings; none means that Dafny may judge it.
A program without a statement of ours can only be held to this: whatever it claims, it must prove.
So nothing may be assumed, left out, switched off or brought in from elsewhere.
Covered: assume in any form, attributes (an allow-list), include, ``decreases *``, free, abstract
and refining modules, declarations, loops and iterators without a body. Not covered: a claim that
is too weak, a precondition that is false; forall statements without a body (Dafny's
``/noCheating`` refuses them).
"""

from __future__ import annotations

from collections.abc import Iterator

from proverrl.lang.dafny.circular import find_circular
from proverrl.lang.dafny.proof_blocks import scan_proof_blocks
from proverrl.lang.dafny.stored_functions import find_stored
from proverrl.lang.dafny.syntax.cursor import MAX_DEPTH, GrammarError
from proverrl.lang.dafny.syntax.program import ParsedProgram, read_program
from proverrl.lang.dafny.syntax.tokens import Finding, Token, read_file

ALLOWED_ATTRIBUTES = frozenset(
    "induction trigger tailrecursion fuel opaque autotriggers nativeType main compile".split()
)

_FORBIDDEN = {
    "assume": ("keywords", "assumes what is to be proved"),
    "include": ("keywords", "brings in another file"),
    "free": ("keywords", "assumes what is to be proved"),
    # Dafny 4 tests it when the program runs, and believes it until then.
    "expect": ("keywords", "is believed, not proved"),
    "abstract": ("keywords", "declares what need not be proved"),
    "refines": ("keywords", "takes over what need not be proved"),
}
_MAX_NESTING = 4 * MAX_DEPTH

_MAY_LACK_BODY = frozenset("function predicate copredicate".split())


def audit_file(text: str) -> list[Finding]:
    """Findings about a whole program; an empty list admits it."""
    tokens, findings = read_file(text)
    return findings or audit_program(tokens, ALLOWED_ATTRIBUTES)[1]


def audit_program(
    tokens: list[Token], attributes: frozenset[str]
) -> tuple[ParsedProgram | None, list[Finding]]:
    """A whole program in which these attributes are allowed, and the findings about it.

    There is no program when it is outside the grammar.
    """
    findings = [*_scan_words(tokens), *_scan_attributes(tokens, attributes)]
    findings += [*_scan_prefixes(tokens), *_scan_nesting(tokens)]
    if any(finding.rule == "grammar" for finding in findings):
        return None, findings
    try:
        program = read_program(tokens)
    except GrammarError as error:
        return None, [*findings, error.finding]
    findings += [*_list_missing(program), *scan_proof_blocks(tokens)]
    return program, findings + find_believed(tokens, program)


def find_believed(tokens: list[Token], program: ParsedProgram) -> list[Finding]:
    """Declarations with which Dafny 2.3 proves anything."""
    return [*find_circular(tokens, program), *find_stored(tokens, program)]


def _list_missing(program: ParsedProgram) -> Iterator[Finding]:
    """What claims something without a proof of it, or gives up termination."""
    for token in program.wild:
        message = "'decreases *' gives up termination"
        yield Finding("cheat", "wildcard", message, token.line, token.column)
    for member in program.bodyless:
        if member.claims or member.word not in _MAY_LACK_BODY:
            token = member.token
            message = f"this {member.word} has no body, so what it claims is not proved"
            yield Finding("cheat", "missing-body", message, token.line, token.column)


def _scan_words(tokens: list[Token]) -> Iterator[Finding]:
    for token in tokens:
        if token.kind == "word" and token.text in _FORBIDDEN:
            rule, why = _FORBIDDEN[token.text]
            yield Finding("cheat", rule, f"{token.text!r} {why}", token.line, token.column)
        elif token.kind == "operator" and token.text == "...":
            message = "'...' leaves something out"
            yield Finding("cheat", "missing-body", message, token.line, token.column)


def _scan_attributes(tokens: list[Token], allowed: frozenset[str]) -> Iterator[Finding]:
    for brace, colon, name in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if brace.text == "{" and colon.text == ":" and name.text not in allowed:
            message = f"the attribute {name.text!r} is not allowed"
            yield Finding("cheat", "attributes", message, name.line, name.column)


def _scan_prefixes(tokens: list[Token]) -> Iterator[Finding]:
    """``@Name`` before a declaration is Dafny 4's other way to write an attribute."""
    for place, token in enumerate(tokens):
        follows_label = place and tokens[place - 1].text in ("old", "unchanged", "allocated")
        if token.text == "@" and token.kind == "operator" and not follows_label:
            message = "attributes that begin with '@' are not allowed"
            yield Finding("cheat", "attributes", message, token.line, token.column)


def _scan_nesting(tokens: list[Token]) -> Iterator[Finding]:
    """Brackets must match, and nest less deep than what makes the checker overflow its stack."""
    pairs = {")": "(", "]": "[", "}": "{"}
    opened: list[str] = []
    for token in tokens:
        if token.kind != "operator":
            continue
        if token.text in pairs.values():
            opened.append(token.text)
            if len(opened) > _MAX_NESTING:
                message = f"nested more than {_MAX_NESTING} deep"
                yield Finding("syntax", "grammar", message, token.line, token.column)
                return
        elif token.text in pairs and (not opened or opened.pop() != pairs[token.text]):
            message = f"{token.text!r} closes nothing"
            yield Finding("syntax", "grammar", message, token.line, token.column)
            return
    if opened:
        last = tokens[-1]
        yield Finding("syntax", "grammar", "a bracket is not closed", last.line, last.column)
