"""The audit of a whole Dafny program, where every word was written by the policy.

Flows in: a program. Flows out: findings; none means that Dafny may judge it. A finding names the
word of ``trusted`` with which a user may admit it, where there is one.
A program without a statement of ours can only be held to this: whatever it claims, it must prove.
So nothing may be assumed, left out, switched off or brought in from elsewhere.
Covered: assume in any form, attributes (an allow-list), include, ``decreases *``, free, abstract
and refining modules, declarations, loops and iterators without a body, and proofs inside a program
that change what lives outside them. Dafny 2.3 proves ``assert P by { ... }`` aside and then
believes P of the values from before the block, but it lets the block assign to variables and fields
from outside: ``assert g == 0 by { g := 0; }`` proves what is false. In the hints of a ``calc`` it
forgets this for the results of calls. So a block after ``by`` and a ``calc`` may declare variables,
and assign to nothing. Not covered: a claim that is too weak, a precondition that is false; forall
statements (Dafny checks their proofs, and its ``/noCheating`` refuses those without a body).
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace
from itertools import takewhile

import networkx as nx

from proverrl.lang.dafny.known_bugs.believed import find_bugs, has_bit_types
from proverrl.lang.dafny.known_bugs.misjudged import list_elements
from proverrl.lang.dafny.known_bugs.unallocated import find_unfounded
from proverrl.lang.dafny.syntax.cursor import MAX_DEPTH, GrammarError, list_methods
from proverrl.lang.dafny.syntax.hint_grammar import refuse_attribute
from proverrl.lang.dafny.syntax.parsed import BodylessMember, ParsedProgram
from proverrl.lang.dafny.syntax.program import read_program
from proverrl.lang.dafny.syntax.tokens import CLOSERS, OPENERS, Token, find_outer, read_file
from proverrl.lang.records import Category, Finding

ALLOWED_ATTRIBUTES = frozenset(
    """induction trigger tailrecursion fuel opaque autotriggers nativeType main compile nowarn
    split_here vcs_split_on_every_assert""".split()
)
FILE_ATTRIBUTES = ALLOWED_ATTRIBUTES | {
    # Chooses triggers, as ``autotriggers`` does.
    "matchinglooprewrite",
    # Says what ``dafny test`` runs.
    "test",
    "@Test",
    # Dafny gives it to its prover as ``vcs_split_on_every_assert``.
    "isolate_assertions",
    "@IsolateAssertions",
    # What a Dafny 4 reads anyway.
    'options "-functionSyntax:4" }',
    'options "--function-syntax:4" }',
}
"""Those of bare files: names, names behind ``@``, and one with all that it says."""

_FORBIDDEN = {
    "assume": ("assumes what is to be proved", "assume"),
    "include": ("brings in another file; only what opens a file is followed", ""),
    "free": ("assumes what is to be proved", ""),
    # Dafny 4 tests it when the program runs, and believes it until then.
    "expect": ("is believed, not proved", "assume"),
    "abstract": ("declares what need not be proved", "abstract"),
    "refines": ("takes over what need not be proved", "abstract"),
}
_TRUSTED_ATTRIBUTES = {
    "axiom": "axiom",
    "verify": "axiom",
    "extern": "extern",
    # Calls of a trait's members across modules are then believed to end.
    "termination": "axiom",
}
_MAX_NESTING = 4 * MAX_DEPTH
_BEFORE_PREFIXES = frozenset(("", "{", "}"))
_BEHIND_PREFIXES = frozenset(
    "@ constructor function ghost lemma method opaque predicate static twostate".split()
)

_MAY_LACK_BODY = frozenset("function predicate copredicate".split())
_LEMMA_WORDS = frozenset(("lemma", "colemma"))
_RECURSIVE = frozenset("function predicate copredicate method lemma colemma const".split())
_LEAVES = frozenset("return break yield modify".split())
# Going back from ``:=``: what shows that a statement begins there, and what that it does not.
_STARTS = frozenset([";", "{", "}", "=>", "label", "else"])
_BINDERS = frozenset(["var", "::"])
_GUARDS = frozenset(["if", "case"])


def audit_file(text: str) -> list[Finding]:
    """Findings about a whole program; an empty list admits it."""
    program, findings = audit_program(text, FILE_ATTRIBUTES)
    return findings if program is None else [*findings, *_find_bit_recursion(program)]


def _find_bit_recursion(program: ParsedProgram) -> Iterator[Finding]:
    """Bit vectors in a program with loops, measures or recursion (Dafny's issue 2511)."""
    tokens = program.tokens
    members = [e for e in list_elements(program.root) if e.word in _RECURSIVE and e.name]
    calls = nx.DiGraph()
    for member in members:
        inside = {token.text for token in tokens[member.start : member.end]}
        own = [t.text for t in tokens[member.start : member.end]].count(member.name) > 1
        others = {other.name for other in members} & inside - {member.name}
        calls.add_edges_from(
            (member.name, other) for other in others | ({member.name} if own else set())
        )
    has_cycle = not nx.is_directed_acyclic_graph(calls)
    measured = has_cycle or any(token.text in ("while", "decreases") for token in tokens)
    message = "Dafny lets a bit vector decrease for ever, so a file with loops, measures or "
    message += "recursion may hold none"
    for token in tokens if measured else ():
        if has_bit_types([token]):
            yield token.refuse("cheat", "bit-measure", message, older=True)


def audit_program(
    text: str, attributes: frozenset[str]
) -> tuple[ParsedProgram | None, list[Finding]]:
    """A whole program in which these attributes are allowed, and the findings about it.

    There is no program when it is outside the grammar.
    """
    tokens, findings = read_file(text)
    if findings:
        return None, findings
    findings = [*_scan_words(tokens), *_scan_attributes(tokens, attributes)]
    findings += _scan_nesting(tokens)
    if any(finding.rule == "grammar" for finding in findings):
        return None, [*findings, *_scan_prefixes(tokens, set(), attributes)]
    try:
        program = read_program(tokens, trusts=True)
    except GrammarError as error:
        return None, [*findings, *_scan_prefixes(tokens, set(), attributes), error.finding]
    findings += _scan_prefixes(tokens, program.labelled, attributes)
    findings += [*_list_missing(program), *_scan_proofs(program)]
    return program, findings + find_bugs(program)


def _list_missing(program: ParsedProgram) -> Iterator[Finding]:
    """Declarations that claim something without a proof, or give up termination."""
    endless = list(find_endless_lemmas(program))
    yield from endless
    places = {(finding.line, finding.column) for finding in endless}
    for token in program.wild:
        if (token.line, token.column) not in places:
            message = "'decreases *' gives up termination"
            yield token.refuse("cheat", "wildcard", message, "decreases-star")
    yield from program.left_out
    proved = _find_proved_members(program)
    unfounded = dict.fromkeys(find_unfounded(program))
    for token in unfounded:
        if token.text == "const":
            message = "this constant has no value, and its type may have none"
            yield token.refuse("cheat", "missing-body", message, "axiom")
    for member in program.bodyless:
        if member.claims or member.word not in _MAY_LACK_BODY or member.token in unfounded:
            message = f"this {member.word} has no body, so what it claims is not proved"
            if member.token in unfounded and not member.claims:
                message = f"this {member.word} has no body, and its type may have no value"
            category: Category = "cheat"
            if member.token in proved:
                category = "syntax"
                message = f"this {member.word} of a trait has no body; give it one"
            trust = _find_trust(program, member)
            yield member.token.refuse(category, "missing-body", message, trust)


def _find_proved_members(program: ParsedProgram) -> set[Token]:
    """The words of the members without a body of traits, as far as each class that extends the
    trait has them with one."""
    tokens, bodyless = program.tokens, {member.token for member in program.bodyless}
    members: dict[str, dict[str, Token]] = {}
    for owner in list_elements(program.root):
        for member in list_elements(owner) if owner.word in ("class", "trait") else ():
            texts = [token.text for token in tokens[member.start : member.end]]
            head = texts[: texts.index(member.word) + 1] if member.name else ["static"]
            if "static" not in head:
                word = tokens[member.start + len(head) - 1]
                members.setdefault(owner.name, {})[member.name] = word
    heirs: dict[str, list[dict[str, Token]]] = {}
    for part in program.parts:
        if part.inherited:
            heirs.setdefault(tokens[part.start].text, []).append(members.get(part.owner, {}))
    return {
        word
        for trait, classes in heirs.items()
        for name, word in members.get(trait, {}).items()
        if word in bodyless and all(own.get(name, word) not in bodyless for own in classes)
    }


def find_endless_lemmas(program: ParsedProgram) -> Iterator[Finding]:
    """``decreases *`` in a lemma, which Dafny 2.3 takes: a call of itself then proves it. In a
    method it is what the program says, that the method may not end."""
    for member in list_elements(program.root):
        inside = program.tokens[member.start : member.end]
        modifiers = takewhile(lambda token: token.text != "method", inside)
        is_ghost = member.word == "method" and any(token.text == "ghost" for token in modifiers)
        for token in program.wild if is_ghost or member.word in _LEMMA_WORDS else ():
            if any(token is other for other in inside):
                message = "'decreases *' lets a lemma prove itself"
                yield token.refuse("cheat", "wildcard", message)


def _find_trust(program: ParsedProgram, member: BodylessMember) -> str:
    """The word that admits a member without a body: by what stands around it, an axiom else."""
    place = program.tokens.index(member.token)
    elements = list(list_elements(program.root))
    around = [e for e in elements if e.start <= place < e.end and e.slots]
    heads = [[t.sign for t in program.tokens[e.start : e.slots[0].start]] for e in around]
    # A name may be this word, too.
    if any(["{", ":", "extern"] in map(list, zip(h, h[1:], h[2:], strict=False)) for h in heads):
        return "extern"
    # A refining module leaves open only what the one that it refines declares.
    is_repeated = [element.name for element in elements].count(around[-1].name) > 1
    open_words = {"abstract", "refines"} if is_repeated else {"abstract"}
    is_open = any("module" in head and open_words & set(head) for head in heads)
    # What a trait leaves open each class that extends it must prove.
    is_open |= any("trait" in head for head in heads) and "static" not in heads[-1]
    return "abstract" if is_open else "axiom"


def _scan_words(tokens: list[Token]) -> Iterator[Finding]:
    for token in tokens:
        if token.kind == "word" and token.text in _FORBIDDEN:
            message, trust = _FORBIDDEN[token.text]
            yield token.refuse("cheat", "keywords", f"{token.text!r} {message}", trust)
        elif token.kind == "operator" and token.text == "...":
            yield token.refuse("cheat", "missing-body", "'...' leaves something out", "abstract")


def _scan_attributes(tokens: list[Token], allowed: frozenset[str]) -> Iterator[Finding]:
    shifted = (tokens[1:], tokens[2:], tokens[3:], [*tokens[4:], tokens[-1]])
    for before, brace, colon, name, value, end in zip(
        [None, *tokens], tokens, *shifted, strict=False
    ):
        is_known = not allowed.isdisjoint((name.text, f"{name.text} {value.text} {end.text}"))
        is_attribute = brace.text == "{" and colon.text == ":" and not is_known
        if name.text == "-":
            # A block that begins with ':-'.
            continue
        # It says what holds without it.
        if is_attribute and (name.text, value.text) != ("verify", "true"):
            if before is not None and (before.sign, name.text) == ("assume", "axiom"):
                # It says no more than the word before it, which is refused by itself.
                continue
            trust = _TRUSTED_ATTRIBUTES.get(name.text, "")
            yield replace(refuse_attribute(name, value), trust=trust)


def _scan_prefixes(
    tokens: list[Token], labelled: Container[int], allowed: frozenset[str]
) -> Iterator[Finding]:
    """``@Name`` before a declaration is Dafny 4's other way to write an attribute; what is
    ``labelled`` was read as a call in the state at a label. An allowed one stands where no
    expression can reach it, and before a word that continues none."""
    known_end = 0
    for place, token in enumerate(tokens):
        before = tokens[place - 1].sign if place else ""
        follows_label = before in ("old", "unchanged", "allocated")
        is_prefix = not follows_label and place not in labelled
        if token.text == "@" and token.kind == "operator" and is_prefix:
            name, behind = (tokens[min(place + i, len(tokens) - 1)] for i in (1, 2))
            is_apart = place == known_end or before in _BEFORE_PREFIXES
            if is_apart and f"@{name.text}" in allowed and behind.sign in _BEHIND_PREFIXES:
                known_end = place + 2
                continue
            message = "attributes that begin with '@' are not allowed"
            yield token.refuse("cheat", "attributes", message)


def _scan_nesting(tokens: list[Token]) -> Iterator[Finding]:
    """Brackets must match, and nest less deep than what makes the checker overflow its stack."""
    opened: list[str] = []
    for token in tokens:
        if token.kind != "operator":
            continue
        if token.text in OPENERS:
            opened.append(token.text)
            if len(opened) > _MAX_NESTING:
                yield token.refuse("syntax", "grammar", f"nested more than {_MAX_NESTING} deep")
                return
        elif token.text in CLOSERS and (not opened or opened.pop() != CLOSERS[token.text]):
            yield token.refuse("syntax", "grammar", f"{token.text!r} closes nothing")
            return
    if opened:
        yield tokens[-1].refuse("syntax", "grammar", "a bracket is not closed")


def _scan_proofs(program: ParsedProgram) -> Iterator[Finding]:
    """Assignments, jumps and calls of methods inside proofs."""
    methods = list_methods(program.tokens)
    inside = {place for start, end in program.proofs for place in range(start, end)}
    for place in sorted(inside):
        yield from _check_token(program.tokens, place, methods)
    for place in program.failing:
        if place in inside:
            message = "':-' may leave a proof, which then shows nothing"
            yield program.tokens[place].refuse("cheat", "keywords", message)


def _check_token(tokens: list[Token], place: int, methods: set[str]) -> Iterator[Finding]:
    token = tokens[place]
    if token.kind == "word" and token.text in _LEAVES:
        yield token.refuse("cheat", "keywords", f"{token.text!r} may not stand in a proof")
    elif token.kind == "operator" and token.text in (":=", ":|"):
        if _is_assignment(tokens, place):
            message = "a proof after 'by' or in 'calc' may declare variables, but assign to none"
            yield token.refuse("cheat", "assignment", message)
    elif token.kind == "word" and token.text in methods and tokens[place + 1].text in ("(", "<"):
        message = f"{token.text!r} is a method; a proof may only call lemmas and functions"
        # Dafny 4.11 refuses each such call by itself; a function may have the method's name.
        yield token.refuse("cheat", "names", message, older=True)


def _is_assignment(tokens: list[Token], place: int) -> bool:
    """False for what declares a variable, for a comprehension and for an update in brackets."""
    declares = _BINDERS | _GUARDS if tokens[place].text == ":|" else _BINDERS
    start = find_outer(tokens, place - 1, _STARTS | declares, -1)
    return start < 0 or tokens[start].text in _STARTS
