"""The audit of Lean text that a policy wrote, before any Lean sees it.

Flows in: a candidate. Flows out: the verdict that refuses it, or None, and then it may be sent to
Lean. The text is cut into tokens by Lean's own rules, and refused where Lean's table of symbols
could cut it otherwise. Not covered: what only elaboration knows (truth, the type of the target, the
axioms it rests on), keywords that a problem's own imports or macros add beyond those of Mathlib,
and a problem whose own text is inconsistent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal

from proverrl.errors import ProblemError
from proverrl.lang.lean.audit.prelude import (
    PRELUDE_WORDS,
    ProblemWords,
    find_prelude_findings,
    read_problem_words,
)
from proverrl.lang.lean.syntax.bounds import find_cost_findings
from proverrl.lang.lean.syntax.declarations import find_declarations, find_target, split_header
from proverrl.lang.lean.syntax.lexical import (
    find_docs,
    find_lexical_findings,
    find_odd_tokens,
    find_proofs,
    make_finding,
)
from proverrl.lang.lean.syntax.tokens import Token, scan_tokens, split_name
from proverrl.lang.lean.syntax.words import (
    BOUNDED_OPTIONS,
    COMMANDS,
    FILE_ATTRIBUTES,
    FILE_WORDS,
    KERNEL_NAMES,
    KEYWORDS,
    judge_option,
    judge_word,
)
from proverrl.lang.records import Category, Finding
from proverrl.text_cache import cache_texts
from proverrl.types import FILE, HOLE, Candidate, Diagnostic, Problem, Status, Verdict
from proverrl.verifier.base import refuse_text
from proverrl.verifier.body_place import end_column

LEAN_AUDIT_VERSION = 13
"""Part of the key of cached verdicts: raise it whenever the audit admits or refuses anew."""

PROPOSITION = "proposition"
LEAN_KINDS = ("tactics", "term", PROPOSITION, "file")

MAX_BODY_CHARACTERS = 131_072
MAX_FILE_CHARACTERS = 262_144
MAX_TOKENS = 60_000
_MAX_FINDINGS = 10
_MAX_WORDS = 50

Part = Literal["body", "prelude", "file"]
"""The text of a candidate that is read: its body, its prelude, or a whole file."""

_NONE: frozenset[str] = frozenset()
_ALLOWED_WORDS = {"body": _NONE, "prelude": PRELUDE_WORDS, "file": FILE_WORDS}
_ALLOWED_ATTRIBUTES = {"body": _NONE, "prelude": frozenset({"simp"}), "file": FILE_ATTRIBUTES}
_RANKS: dict[Category, int] = {"cheat": 0, "syntax": 1, "hole": 2}
_STATUSES: dict[Category, Status] = {
    "cheat": Status.UNSOUND,
    "syntax": Status.REJECTED,
    "hole": Status.INCOMPLETE,
}
# Commands of #: those of a bare file that only print, and those that run code or end the file.
_FILE_HASH_COMMANDS = frozenset({"check", "print"})
_CHEATING_HASH_COMMANDS = re.compile(
    r"(?:eval|exit|reduce|guard|synth|print|conv|html|widget|test|import|dump|with_exporting)"
)
# Mathlib's #s, the size of a set. Lean takes the longest command that the text starts with, so that
# what follows must start no command: one letter, also before a dot, or a capital letter.
_SIZE_OF = re.compile(r"[A-Z]|.['₀-₉]*(?:\.|\Z)")
_DECIDE_OPTIONS = frozenset({"kernel", "revert", "zetaReduce", "true", "false"})
_MAX_OPEN_TOKENS = 100
# Beside these words Lean or Mathlib takes a program.
_PROGRAMS = frozenset({"tactic", "oracle", "eval"})
# What a term needs to compute something. Lean evaluates the term behind ``config :=``.
_COMPUTING = frozenset("fun λ match nomatch do if let have show by open from".split())


def audit_text(text: str, part: Part, problem: ProblemWords | None = None) -> list[Finding]:
    """Findings about a text, at most ten, the worst first; an empty list admits it. Never raises.

    ``problem`` says which words and characters stand in the problem's own text.
    """
    known = problem or ProblemWords()
    limit = MAX_FILE_CHARACTERS if part == "file" else MAX_BODY_CHARACTERS
    if len(text) > limit:
        return [Finding("syntax", "size", f"longer than {limit} characters", 1, 0)]
    tokens = scan_tokens(text)
    if len(tokens) > MAX_TOKENS:
        return [Finding("syntax", "size", f"more than {MAX_TOKENS} tokens", 1, 0)]
    start = len(split_header(text)[0]) if part == "file" else 0
    code = [token for token in tokens if token.is_code and token.offset >= start]
    findings = list(islice(find_lexical_findings(text, tokens, known.characters), _MAX_FINDINGS))
    if any(finding.rule == "size" for finding in findings):
        return findings
    findings += [
        *_find_all_words(code, part, known),
        *islice(find_docs(tokens) if part == "body" else (), 1),
        *islice(find_cost_findings(code, known.code), 3),
    ]
    if part == "file":
        findings += islice(find_odd_tokens(code), 1)
    if part == "prelude":
        findings += islice(find_prelude_findings(text, tokens, known), _MAX_FINDINGS)
    if part != "body":
        findings += islice(_find_kernel_names(text), _MAX_FINDINGS)
    findings += [
        make_finding("cheat", "commands", "'prelude' leaves out what the kernel relies on", token)
        for token in tokens
        if part == "file" and token.offset < start and token.text == "prelude"
    ]
    findings.sort(key=lambda finding: _RANKS[finding.category])
    return findings[:_MAX_FINDINGS]


def audit_lean_candidate(candidate: Candidate) -> Verdict | None:
    """The verdict of a refused candidate, or None when it is admitted.

    UNSOUND when a way to cheat was recognised, REJECTED when the text is only not admitted,
    INCOMPLETE when all that is wrong with it is ``sorry``, ``admit`` or ``stop``. Raises
    ``ProblemError`` when the problem's own text could not hold any body.
    """
    problem = candidate.problem
    check_lean_problem(problem)
    words = read_problem_words(problem)
    part: Part = "file" if problem.kind == "file" else "body"
    proofs = find_proofs(candidate.body) if problem.kind == PROPOSITION else ()
    found = [(part, f) for f in (*audit_text(candidate.body, part, words), *proofs)]
    if candidate.prelude:
        if problem.kind in (FILE, PROPOSITION):
            message = f"a {problem.kind} has no prelude"
            found.append(("prelude", Finding("syntax", "prelude", message, 1, 0)))
        else:
            found += [("prelude", f) for f in audit_text(candidate.prelude, "prelude", words)]
    if not found:
        return None
    found.sort(key=lambda entry: _RANKS[entry[1].category])
    return refuse_text(
        _STATUSES[found[0][1].category],
        found[0][1].rule,
        [_make_diagnostic(candidate, part, finding) for part, finding in found],
    )


def check_lean_problem(problem: Problem) -> None:
    """Raise ``ProblemError`` when a problem's text could not be told from a body in its hole."""
    if problem.kind not in LEAN_KINDS:
        said = f"unknown kind {problem.kind!r}; use {', '.join(LEAN_KINDS)}"
        raise ProblemError(f"problem {problem.id!r}: {said}")
    if error := _find_problem_error(problem.preamble, problem.statement):
        raise ProblemError(f"problem {problem.id!r}: {error}")
    if problem.kind != "file":
        find_target(problem)


@cache_texts
def _find_problem_error(preamble: str, statement: str) -> str:
    before, _, after = statement.partition(HOLE)
    if preamble and not preamble.endswith("\n"):
        return "its preamble must end with a line break"
    if before and not before[-1].isspace():
        return f"its hole touches {before[-1]!r}; put a blank or a line break between"
    if after.strip(" ") and not after.lstrip(" ").startswith("\n"):
        return "text follows its hole on the same line; put a line break between"
    tokens = scan_tokens(preamble + before)
    if tokens and tokens[-1].kind in ("broken", "comment"):
        if tokens[-1].kind == "broken":
            return "its hole is inside a comment, a string or a quoted name"
        if tokens[-1].text.startswith("--"):
            return "its hole is inside a comment"
    return ""


def _make_diagnostic(candidate: Candidate, part: Part, finding: Finding) -> Diagnostic:
    before = candidate.problem.preamble if part == "prelude" else candidate.head
    in_body = part != "prelude"
    return Diagnostic(
        severity="error",
        message=f"{finding.rule}: {finding.message}",
        line=before.count("\n") + finding.line,
        column=finding.column + (end_column(before) if finding.line == 1 else 0),
        body_line=finding.line if in_body else None,
        body_column=finding.column if in_body else None,
    )


def _find_kernel_names(text: str) -> Iterator[Finding]:
    """Declarations of what the kernel computes by itself: it trusts that these names mean what they
    do in core, and a library that lacks one would let a text define it otherwise."""
    for declared in find_declarations(text):
        if KERNEL_NAMES.intersection(_list_endings(declared.name)):
            line = text.count("\n", 0, declared.offset) + 1
            message = f"the kernel computes {declared.name!r} by itself"
            yield Finding("cheat", "names", message, line, 0)


def _list_endings(name: str) -> list[str]:
    parts = split_name(name)
    return [".".join(parts[i:]) for i in range(len(parts))]


def _find_all_words(code: Sequence[Token], part: Part, known: ProblemWords) -> list[Finding]:
    """Holes that stand first must not hide a cheat that stands last: too many of others are a
    cheat, and holes are counted apart."""
    holes: list[Finding] = []
    found: list[Finding] = []
    for finding in _find_words(code, part, known):
        (holes if finding.category == "hole" else found).append(finding)
        if len(found) == _MAX_WORDS:
            message = f"{_MAX_WORDS} words or more that may not stand here"
            found.append(make_finding("cheat", "size", message, code[0]))
            break
    return [*found, *holes[:_MAX_FINDINGS]]


def _find_words(code: Sequence[Token], part: Part, known: ProblemWords) -> Iterator[Finding]:
    allowed = _ALLOWED_WORDS[part]
    for place, token in enumerate(code):
        before = code[place - 1] if place else None
        if token.kind == "name" or (token.kind == "symbol" and token.text == "`"):
            yield make_finding("cheat", "meta", "a quotation is a piece of Lean's own code", token)
        elif token.text == "@[":
            yield from _check_attributes(code, place, part)
        elif token.kind == "symbol" and token.text == "#":
            yield from _check_hash(code, place, part)
        elif token.kind != "word" or (before is not None and before.text == "set_option"):
            continue
        elif _attach_percent(code, place) in KEYWORDS:
            yield from _check_percent(code, place, known)
        elif token.text == "open":
            yield from _check_open(code, place, part)
        elif token.text == "set_option":
            yield from _check_option(code, place, part)
        elif (token.text == "unsafe" and _is_rule_of_aesop(code, place)) or (
            token.text == "scoped" and before is not None and before.text == "open"
        ):
            continue
        elif token.text in COMMANDS and token.text in allowed:
            if token.text == "attribute":
                yield from _check_attributes(code, place + 1, part)
        elif (judged := judge_word(token.text, known.words)) is not None:
            category, rule, message = judged
            yield make_finding(category, rule, message, token)
        elif token.text in ("decide", "decide!"):
            yield from _check_decide(code, place)
        elif token.text in _PROGRAMS and token.text not in known.words:
            yield from _check_program(code, place)
        elif token.text == "config":
            yield from _check_config(code, place)


def _attach_percent(code: Sequence[Token], place: int) -> str:
    """A word with the ``%`` that touches it, as in ``type_of%``; "" where none does."""
    token = code[place]
    sign = code[place + 1] if place + 1 < len(code) else token
    return token.text + "%" if sign.text == "%" and sign.offset == token.end else ""


def _check_percent(code: Sequence[Token], place: int, known: ProblemWords) -> Iterator[Finding]:
    if (judged := judge_word(_attach_percent(code, place), known.words)) is not None:
        yield make_finding(*judged, code[place])


def _check_hash(code: Sequence[Token], place: int, part: Part) -> Iterator[Finding]:
    """``#`` before a word starts a command, if it is not Mathlib's sign for a size."""
    hash_mark = code[place]
    word = code[place + 1] if place + 1 < len(code) else hash_mark
    if word.kind != "word" or word.offset != hash_mark.end or _SIZE_OF.match(word.text):
        return
    if part == "file" and word.text in _FILE_HASH_COMMANDS:
        return
    # Habit at the end of a file: it prints what a declaration rests on, and can forge nothing.
    rest = [token.text for token in code[place + 1 : place + 3]]
    is_habit = rest == ["print", "axioms"] and [t.kind for t in code[place + 3 :]] == ["word"]
    is_cheat = _CHEATING_HASH_COMMANDS.match(word.text) is not None and not is_habit
    message = f"'#{word.text}' starts a command"
    yield make_finding("cheat" if is_cheat else "syntax", "commands", message, hash_mark)


def _check_attributes(code: Sequence[Token], place: int, part: Part) -> Iterator[Finding]:
    """The attributes of the brackets that open at ``place``; each must be on the list."""
    allowed = _ALLOWED_ATTRIBUTES[part]
    depth, is_first, num_found = 0, True, 0
    for token in code[place:]:
        if token.text in ("@[", "[", "(", "{", "⟨"):
            depth += 1
        elif token.text in ("]", "]'", ")", "}", "⟩"):
            depth -= 1
            if depth <= 0:
                break
        elif depth == 1 and token.text == ",":
            is_first = True
        elif depth == 1 and is_first and token.kind == "word":
            num_found += 1
            is_first = token.text in ("local", "scoped")
            if token.text not in allowed:
                message = f"the attribute {token.text!r} is not allowed here"
                yield make_finding("cheat", "attributes", message, token)
        elif depth == 0:
            break
    if not num_found:
        message = "attributes are not allowed here"
        yield make_finding("cheat", "attributes", message, code[place - 1])


def _check_open(code: Sequence[Token], place: int, part: Part) -> Iterator[Finding]:
    """``open`` must end in ``in``: without it, it reaches over the rest of the file."""
    if part == "file":
        return
    for i, token in enumerate(code[place + 1 : place + _MAX_OPEN_TOKENS]):
        if token.text == "in":
            if i:
                return
            break
        is_name = token.kind == "word" and (token.text == "scoped" or token.text not in COMMANDS)
        if not is_name and token.text not in ("(", ")", ",", "→", "->"):
            break
    message = "'open' without 'in' changes the names of what follows"
    yield make_finding("cheat", "open", message, code[place])


def _check_option(code: Sequence[Token], place: int, part: Part) -> Iterator[Finding]:
    """``set_option name value in``, for options on the list."""
    texts = [token.text for token in code[place + 1 : place + 4]] + ["", "", ""]
    judged = judge_option(texts[0], texts[1], in_file=part == "file")
    if judged is not None:
        yield make_finding(judged[0], "options", judged[1], code[place])
    elif part != "file" and texts[2] != "in":
        message = f"'set_option {texts[0]}' without 'in' reaches over the rest of the file"
        yield make_finding(
            "syntax" if texts[0] in BOUNDED_OPTIONS else "cheat", "options", message, code[place]
        )


def _is_rule_of_aesop(code: Sequence[Token], place: int) -> bool:
    """``aesop (add unsafe 50% t)``; no term reads so, because ``unsafe`` is no argument."""
    if place < 2 or place + 2 >= len(code):
        return False
    before, number, sign = code[place - 2 : place], code[place + 1], code[place + 2]
    texts = [token.text for token in before]
    return texts == ["(", "add"] and number.kind == "number" and sign.text == "%"


def _check_program(code: Sequence[Token], place: int) -> Iterator[Finding]:
    """A rule of aesop's made of a program, an oracle of linarith's own making, and ``eval%``."""
    token = code[place]
    texts = [following.text for following in code[place + 1 : place + 3]] + ["", ""]
    if token.text == "tactic":
        is_program = texts[0] != "=>"  # conv's way back to tactics
    elif token.text == "oracle":
        is_program = texts[0] == ":=" and not texts[1].startswith((".", "Linarith."))
    else:
        is_program = texts[0] == "%" and code[place + 1].offset == token.end
    if is_program:
        message = f"{token.text!r} takes a program that Lean would run"
        yield make_finding("cheat", "meta", message, token)


def _check_config(code: Sequence[Token], place: int) -> Iterator[Finding]:
    """``(config := ...)`` must spell its options out: Lean runs the term that stands there."""
    before = code[place - 1].text if place else ""
    following = code[place + 1].text if place + 1 < len(code) else ""
    if (before, following) != ("(", ":="):
        return
    depth = 0
    for token in code[place + 2 :]:
        if token.text in ("(", "{", "["):
            depth += 1
        elif token.text in (")", "}", "]", "]'"):
            depth -= 1
            if depth < 0:
                return
        elif token.text in _COMPUTING or token.kind == "string":
            message = "the options of a tactic must be spelled out"
            yield make_finding("syntax", "options", message, token)
            return


def _check_decide(code: Sequence[Token], place: int) -> Iterator[Finding]:
    """``decide (config := ...)`` must spell out options that keep the kernel in charge."""
    texts = [token.text for token in code[place + 1 : place + 4]]
    if texts != ["(", "config", ":="]:
        return
    opener = code[place + 4].text if place + 4 < len(code) else ""
    if opener == "{":
        for token in code[place + 5 :]:
            if token.text == "}":
                return
            if token.kind == "word" and token.text not in _DECIDE_OPTIONS:
                break
            if token.text not in (":=", ",") and token.kind != "word":
                break
    message = "the options of 'decide' must be spelled out, without 'native'"
    yield make_finding("cheat", "native", message, code[place])
