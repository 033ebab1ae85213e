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

from proverrl.verify.dafny_cursor import MAX_DEPTH, is_name
from proverrl.verify.dafny_proof_blocks import scan_proof_blocks
from proverrl.verify.dafny_tokens import Finding, Token, read_file

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
_RANGE_WORDS = frozenset({"to", "downto"})
_MAX_NESTING = 4 * MAX_DEPTH

_NEED_BODY = frozenset("method lemma colemma comethod constructor iterator".split())
_MAY_LACK_BODY = frozenset("function predicate copredicate".split())
_SPECIFICATIONS = frozenset("requires ensures modifies reads decreases invariant yield".split())
_MODIFIERS = frozenset("ghost static protected twostate inductive".split())
_STARTS = frozenset(
    """class codatatype colemma comethod const constructor copredicate datatype export function
    import
    inductive iterator lemma method module newtype predicate protected static trait twostate
    type ghost""".split()
)
_BINDERS = frozenset("forall exists set iset map imap".split())
# After one of these words an operand must follow, so that a brace is a display.
_BEFORE_OPERAND = frozenset(
    """if then else case match in !in requires ensures modifies reads decreases invariant assert
    by set iset map imap multiset seq forall exists var as return while calc""".split()
)


def audit_file(text: str) -> list[Finding]:
    """Findings about a whole program; an empty list admits it."""
    tokens, findings = read_file(text)
    return findings or scan_program(tokens, ALLOWED_ATTRIBUTES)


def scan_program(tokens: list[Token], attributes: frozenset[str]) -> list[Finding]:
    """Findings about the tokens of a whole program in which these attributes are allowed."""
    findings = [*_scan_words(tokens), *_scan_attributes(tokens, attributes)]
    findings += [*_scan_prefixes(tokens), *_scan_nesting(tokens)]
    if not any(finding.rule == "grammar" for finding in findings):
        findings += [*_scan_bodies(tokens), *scan_proof_blocks(tokens)]
    return findings


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


def _scan_bodies(tokens: list[Token]) -> Iterator[Finding]:
    for place, token in enumerate(tokens):
        if token.kind != "word":
            continue
        if token.text in _NEED_BODY and _is_declaration(tokens, place):
            yield from _check_header(tokens, place, needs_body=True)
        elif token.text in _MAY_LACK_BODY and tokens[place + 1].text != "method":
            yield from _check_header(tokens, place, needs_body=False)
        elif token.text == "while" or (token.text == "for" and is_name(tokens[place + 1])):
            yield from _check_header(tokens, place, needs_body=True, is_loop=True)


def _is_declaration(tokens: list[Token], place: int) -> bool:
    """``function method`` is a function: it is looked at when its first word is met."""
    return not (tokens[place].text == "method" and place and tokens[place - 1].text == "function")


def _check_header(
    tokens: list[Token], place: int, *, needs_body: bool, is_loop: bool = False
) -> Iterator[Finding]:
    """Walk a declaration or a loop to its body, or to where it ends without one."""
    start = tokens[place]
    walk = _HeaderWalk(tokens, place + 1, in_expression=is_loop)
    has_body = walk.find_body()
    if walk.wild is not None:
        message = "'decreases *' gives up termination"
        yield Finding("cheat", "wildcard", message, walk.wild.line, walk.wild.column)
    if not has_body and (needs_body or walk.has_ensures):
        message = f"this {start.text} has no body, so what it claims is not proved"
        yield Finding("cheat", "missing-body", message, start.line, start.column)


class _HeaderWalk:
    """Tells a body's brace from a display's by what stands before it.

    ``in_expression``: the text begins with a loop's guard, not with a declaration's signature.
    """

    def __init__(self, tokens: list[Token], place: int, *, in_expression: bool) -> None:
        self._tokens = tokens
        self._place = place
        self._in_expression = in_expression
        # Until its one range word has come; elsewhere these words are names.
        self._awaits_range = in_expression and tokens[place - 1].text == "for"
        self._operand_ended = False
        self._bars: list[str] = []
        self._num_lets = 0
        self._clause = ""
        self.has_ensures = False
        self.wild: Token | None = None

    def find_body(self) -> bool:
        """True when a body follows; stops at the end of the declaration."""
        while True:
            token = self._tokens[self._place]
            following = self._tokens[self._place + 1] if token.kind != "end" else token
            if token.kind == "end" or token.text in ("}", ")", "]"):
                return False
            if token.text == "{":
                if self._opens_body(following):
                    return True
                self._skip_brackets()
            elif token.text in ("(", "["):
                self._skip_brackets()
            elif self._ends_header(token):
                return False
            else:
                self._step(token)

    def _opens_body(self, following: Token) -> bool:
        if following.text == ":":
            return False
        if not self._in_expression:
            return True
        if following.text == "case":
            # A loop may consist of guarded cases; elsewhere these are a match expression's.
            return not self._operand_ended
        return self._operand_ended

    def _ends_header(self, token: Token) -> bool:
        if token.kind == "word" and token.text in _SPECIFICATIONS:
            return False
        if not self._in_expression:
            return token.kind == "word" and token.text in _STARTS
        if not self._operand_ended:
            return False
        starts_operand = token.kind in ("word", "number", "char", "string")
        if self._is_range_word(token):
            return False
        return starts_operand and token.text not in ("in", "!in", "as", "then", "else", "case")

    def _is_range_word(self, token: Token) -> bool:
        return self._awaits_range and self._operand_ended and token.text in _RANGE_WORDS

    def _step(self, token: Token) -> None:
        self._place += 1
        if token.kind == "word" and token.text in _SPECIFICATIONS:
            self._in_expression = True
            self._awaits_range = False
            self._operand_ended = False
            self._bars = []
            self._num_lets = 0
            self._clause = token.text
            self.has_ensures |= token.text == "ensures"
        elif token.text == "|":
            self._step_bar()
        elif token.text in _BINDERS and is_name(self._tokens[self._place]):
            self._bars.append("domain")
            self._operand_ended = False
        elif token.text == "::":
            self._bars = self._bars[:-1] if self._bars[-1:] == ["domain"] else self._bars
            self._operand_ended = False
        elif token.text == "*" and not self._operand_ended:
            if self._clause == "decreases":
                self.wild = token
            self._operand_ended = True
        elif token.text == "var" and not self._operand_ended:
            self._num_lets += 1
        elif token.text == ";":
            self._operand_ended = self._num_lets == 0
            self._num_lets = max(0, self._num_lets - 1)
        elif self._is_range_word(token):
            self._awaits_range = False
            self._operand_ended = False
        elif token.kind == "operator":
            self._operand_ended = False
        else:
            self._operand_ended = token.text not in _BEFORE_OPERAND

    def _step_bar(self) -> None:
        """A bar starts a range, closes a size, or opens one where an operand is due."""
        if self._bars and self._bars[-1] == "domain":
            self._bars.pop()
            self._operand_ended = False
        elif not self._operand_ended:
            self._bars.append("size")
        else:
            self._operand_ended = bool(self._bars)
            self._bars = self._bars[:-1]

    def _skip_brackets(self) -> None:
        depth = 0
        is_attribute = self._tokens[self._place + 1].text == ":"
        while self._tokens[self._place].kind != "end":
            text = self._tokens[self._place].text
            depth += (text in "([{") - (text in ")]}") if len(text) == 1 else 0
            self._place += 1
            if depth == 0:
                break
        if not is_attribute:
            self._operand_ended = True
