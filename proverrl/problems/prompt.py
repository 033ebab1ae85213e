"""Renders a problem for a policy, and turns words of a layout into those of the problem.

Flows in: a ``Problem``; text that a policy wrote. Flows out: the prompt, a reference body as the
policy should write it; text in the problem's own words.
Two layouts are plain text, so that they work with any tokenizer, and the answer is the body:

- ``plain``: the program as it is, then a heading. For checkpoints that read code.
- ``canonical``: the same with every identifier replaced by a letter, and every constant from 3
  upwards by ``_1``, ``_2``, ..., in order of first occurrence; in a completion both are replaced
  back. Programs that differ only in names and constants are one prompt, so that a small model
  spends nothing on learning to copy them. The candidate is always assembled from the problem's
  own text.

The others are conversations in the forms that published provers were trained on, answered by a code
block. With a tokenizer that has no chat template their messages are shown one after another. The
order of the parts and the kind of code block follow the sources; the sentences are our own, since
the sources' wording is not ours to copy. A checkpoint may mind: measure before you compare.
Not handled here: finding the body in an answer (``proverrl.rollout.extract``).
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any

from proverrl.config import LayoutName
from proverrl.errors import ProblemError, UsageError
from proverrl.lang import find_language
from proverrl.problems.contamination import make_skeleton
from proverrl.types import ANNOTATE, HOLE, Candidate, Message, Problem

logger = logging.getLogger(__name__)

_KIMINA_SYSTEM = "You are an expert in mathematics and programming who writes proofs in Lean 4."
_DAFNY_SYSTEM = "You are an expert in program verification with Dafny."
_DAFNY_ASKS = {
    "invariants": "Write the loop invariants (and a decreases clause where needed)",
    "statements": "Write the proof statements",
    "calc": "Write the steps of the calculation",
    "assertions": "Write the assertions",
    "program": "Write the rest of the method: a decreases clause where one is needed, and the "
    "block of code with loop invariants that meets the contract,",
}
BODY_HEADING = "\n// body\n"
"""Ends the prompt; the body follows, then the tokenizer's end token."""

_WORD = re.compile(r"/\*.*?\*/|\{:\s*\w+|[A-Za-z_][\w']*|[0-9](?:\w|\.(?=[0-9]))*", re.DOTALL)
"""Comments and attributes (never changed), names, and numbers with all that belongs to them."""
_QUOTED = re.compile(r"`[^`\n]*`|\b[0-9]+\b")
"""The parts of a program in words about it."""
_CONSTANT = re.compile(r"[3-9]|[1-9][0-9]+")
"""0, 1 and 2 are bounds, steps and halves; they keep their meaning and their value."""


@dataclass(frozen=True, slots=True)
class Layout:
    """``messages`` makes the conversation. ``in_block`` says that a code block is the answer, else
    all of the answer is the body. ``language`` is the only one that it is for; None for any."""

    messages: Callable[[Problem], tuple[Message, ...]]
    in_block: bool
    language: str | None = None


def require_layout(name: str) -> None:
    """Raise ``UsageError`` for a layout that is not known."""
    if name not in LAYOUTS:
        raise UsageError(f"unknown layout {name!r}; known are: {', '.join(LAYOUTS)}")


def render_messages(problem: Problem, layout: LayoutName) -> tuple[Message, ...]:
    """The conversation that shows a problem to a policy. Raises ``ProblemError`` if the layout is
    for another language."""
    chosen = LAYOUTS[layout]
    if chosen.language not in (None, problem.language):
        other = find_language(problem.language).layout
        raise ProblemError(
            f"problem {problem.id!r} is in {problem.language}, layout {layout!r} for "
            f"{chosen.language}; set policy.layout to one for {problem.language}, such as {other!r}"
        )
    return chosen.messages(problem)


@dataclass(frozen=True, slots=True)
class Before:
    """What a policy is shown before each problem: solved problems by their language and kind
    (few-shot, Brown et al. 2020, arXiv 2005.14165), the first ``num`` of which are shown, and a
    system text in place of the layout's."""

    solved: Mapping[tuple[str, str], Sequence[tuple[Problem, str]]] = field(default_factory=dict)
    num: int = 0
    system: str = ""

    def messages(self, problem: Problem, layout: LayoutName) -> tuple[Message, ...]:
        """``render_messages`` with all that comes before. No problem is an example of itself, nor
        under other names."""
        *rules, asked = render_messages(problem, layout)
        if self.system:
            rules = [Message("system", self.system)]
        solved = self.solved.get((problem.language, problem.kind), ())
        if self.num and not solved:
            _tell_missing(problem.language, problem.kind)
        others = ((other, body) for other, body in solved if not _is_same(other, problem))
        for other, body in islice(others, self.num):
            rules.append(render_messages(other, layout)[-1])
            rules.append(Message("assistant", render_body(other, body, layout)))
        return (*rules, asked)

    def describe(self) -> dict[str, Any]:
        """The settings of an evaluation that say this; none for nothing."""
        found: dict[str, Any] = {"system": self.system} if self.system else {}
        if self.num:
            shown = [
                [problem.preamble, problem.statement, problem.informal, body]
                for pairs in self.solved.values()
                for problem, body in pairs
            ]
            digest = hashlib.sha256(json.dumps(shown).encode()).hexdigest()
            found |= {"examples": self.num, "examples_sha256": digest}
        return found


def _is_same(first: Problem, second: Problem) -> bool:
    # What is written from words may have few statements for many words.
    worded = bool(first.informal and second.informal and first.informal != second.informal)
    texts = ((p.language, p.preamble, p.statement) for p in (first, second))
    return not worded and len({_skeleton(*text) for text in texts}) == 1


@functools.lru_cache(maxsize=4096)
def _skeleton(language: str, preamble: str, statement: str) -> str:
    return make_skeleton(Problem("shown", language, "", preamble, statement))


@functools.cache
def _tell_missing(language: str, kind: str) -> None:
    logger.warning("policy.examples: there is no solved problem of %s %s to show", language, kind)


NOTHING_BEFORE = Before()


def render_prompt(problem: Problem, layout: LayoutName, before: Before = NOTHING_BEFORE) -> str:
    """The text that shows a problem to a policy; the answer follows at once."""
    return join_messages(before.messages(problem, layout), layout)


def join_messages(messages: Sequence[Message], layout: LayoutName) -> str:
    """Messages one after another, for a tokenizer without a chat template."""
    return "".join(part for part, _ in divide_text(messages, layout))


def divide_text(messages: Sequence[Message], layout: LayoutName) -> Iterator[tuple[str, bool]]:
    """The text of ``join_messages`` in parts, and whether one is an answer, behind which an end
    token may stand in place of the gap."""
    for message in messages:
        # The heading of a body is followed by it.
        gap = "" if message.role == "user" and not LAYOUTS[layout].in_block else "\n\n"
        yield message.content + gap, message.role == "assistant"


def render_body(problem: Problem, body: str, layout: LayoutName) -> str:
    """A reference body as the policy should write it."""
    if LAYOUTS[layout].in_block:
        language = find_language(problem.language)
        return language.fence(Candidate(problem, body).source if language.writes_file else body)
    body = find_language(problem.language).show_body(problem, body)
    if layout == "plain":
        return body
    mapping = _canonical_words(problem)
    free = _letters(set(mapping.values()))
    for word in _find_words(problem, body):
        if word not in mapping and not _is_constant(word):
            mapping[word] = next(free[word[0].isupper()])
    return _replace(body, mapping)


def render_opening(problem: Problem, opening: str, layout: LayoutName) -> str:
    """The beginning of an answer whose body begins with ``opening``."""
    if not LAYOUTS[layout].in_block:
        return render_body(problem, opening, layout)
    language = find_language(problem.language)
    head = Candidate(problem, opening).head if language.writes_file else ""
    return f"```{language.fences[0]}\n{head}{opening}"


def use_layout_words(problem: Problem, text: str, layout: LayoutName) -> str:
    """Text about the problem, such as feedback, in the words that the layout shows it with.

    Only names and constants of the problem change; all else stays.
    """
    return _replace(text, _canonical_words(problem)) if layout == "canonical" else text


def use_problem_words(problem: Problem, text: str, layout: LayoutName) -> str:
    """Text that a policy wrote, in the problem's own words.

    In the canonical layout a letter of the statement becomes its name again, and ``_1`` its
    constant; a new name that happens to be one of the statement's own is changed, so that it
    cannot mean that one.
    """
    if layout != "canonical":
        return text
    canonical = _canonical_words(problem)
    mapping = {short: word for word, short in canonical.items()}
    taken = set(canonical)
    for name in _find_words(problem, text):
        if name not in mapping and not _is_constant(name):
            fresh = name if name not in taken else next(_numbered(name, taken))
            mapping[name] = fresh
            taken.add(fresh)
    return _replace(text, mapping)


def _plain_messages(problem: Problem) -> tuple[Message, ...]:
    """The program with its hole marked, then a heading after which the body is to be written."""
    return (Message("user", _show_words(problem, {}) + _show_text(problem) + BODY_HEADING),)


def _canonical_messages(problem: Problem) -> tuple[Message, ...]:
    mapping = _canonical_words(problem)
    text = _show_words(problem, mapping) + _replace(_show_text(problem), mapping)
    return (Message("user", text + BODY_HEADING),)


def _kimina_messages(problem: Problem) -> tuple[Message, ...]:
    """Kimina-Prover Preview (Wang et al. 2025, arXiv 2504.11354): a system message, the problem in
    words, the formal statement in a ``lean4`` block; the answer thinks, then gives the file."""
    words = problem.informal.strip()
    parts = ["Think step by step about the following problem and solve it in Lean 4."]
    if words:
        parts.append(f"# Problem:\n{words}")
    parts.append(f"# Formal statement:\n{_fence('lean4', _show(problem))}")
    return Message("system", _KIMINA_SYSTEM), Message("user", "\n\n".join(parts))


def _deepseek_messages(problem: Problem) -> tuple[Message, ...]:
    """DeepSeek-Prover-V2 without chain of thought (Ren et al. 2025, arXiv 2504.21801): complete
    the Lean 4 code, whose proof is ``sorry``; the statement in words is a doc comment."""
    return (Message("user", _complete(problem)),)


def _deepseek_cot_messages(problem: Problem) -> tuple[Message, ...]:
    """DeepSeek-Prover-V2 with chain of thought (arXiv 2504.21801): the same, and a plan first. So
    does Goedel-Prover-V2 (Lin et al. 2025, arXiv 2508.03613), whose training data have a plan."""
    plan = (
        "Before the code, give a detailed proof plan: the main ideas, the intermediate lemmas, and "
        "how the final proof is built from them."
    )
    return (Message("user", f"{_complete(problem)}\n\n{plan}"),)


def _dafny_messages(problem: Problem) -> tuple[Message, ...]:
    """Our own layout: the program with its hole marked and what may stand there, or the whole
    program to be given back with proof hints (the task of DafnyBench, Loughridge et al. 2024, arXiv
    2406.08467)."""
    program, kind = _show_text(problem), find_language("dafny").find_kind(problem)
    if problem.kind == ANNOTATE:
        program = program.replace(HOLE, "")
        ask = (
            "Dafny cannot verify the following program without hints. Give the whole program back "
            "with loop invariants, assertions and decreases clauses added. Change nothing else: no "
            "executable code, no requires, no ensures. Answer with one dafny code block."
        )
    elif wanted := kind.ask if kind else _DAFNY_ASKS.get(problem.kind):
        ask = (
            f"{wanted} that belong at the mark {HOLE} so that Dafny verifies the program. Answer "
            "with one dafny code block that holds the text for the mark and nothing else."
        )
    else:
        known = ", ".join((*_DAFNY_ASKS, ANNOTATE))
        raise ProblemError(
            f"problem {problem.id!r}: layout 'dafny' cannot ask for {problem.kind!r}, only {known}"
        )
    shown = _fence("dafny", _show_words(problem, {}) + program.rstrip())
    return Message("system", _DAFNY_SYSTEM), Message("user", f"{ask}\n\n{shown}")


def _own_messages(problem: Problem) -> tuple[Message, ...]:
    """The messages that the problem's language writes."""
    return find_language(problem.language).write_messages(problem)


def _fence(language: str, code: str) -> str:
    return f"```{language}\n{code.rstrip()}\n```"


def _complete(problem: Problem) -> str:
    words = problem.informal.strip().replace("-/", "- /")
    comment = f"/-- {words} -/\n" if words else ""
    rest = _show(problem)[len(problem.preamble) :]
    code = _fence("lean4", problem.preamble + comment + rest)
    return f"Complete the following Lean 4 code:\n\n{code}"


def _show_text(problem: Problem) -> str:
    return find_language(problem.language).show_text(problem).rstrip()


def _show_words(problem: Problem, mapping: dict[str, str]) -> str:
    """A comment that says what is asked in words. Parts of a program in it are in the words of
    ``mapping``."""
    language = find_language(problem.language)
    if not language.shows_words(problem):
        return ""
    words = _QUOTED.sub(lambda match: _replace(match.group(), mapping), problem.informal)
    return "".join(f"{language.comment} {line}\n" for line in words.splitlines())


def _show(problem: Problem) -> str:
    return find_language(problem.language).show_problem(problem)


LAYOUTS: dict[LayoutName, Layout] = {
    "plain": Layout(_plain_messages, in_block=False),
    "canonical": Layout(_canonical_messages, in_block=False),
    "kimina": Layout(_kimina_messages, in_block=True, language="lean"),
    "deepseek": Layout(_deepseek_messages, in_block=True, language="lean"),
    "deepseek_cot": Layout(_deepseek_cot_messages, in_block=True, language="lean"),
    "goedel": Layout(_deepseek_cot_messages, in_block=True, language="lean"),
    "dafny": Layout(_dafny_messages, in_block=True, language="dafny"),
    "own": Layout(_own_messages, in_block=True),
}


def _canonical_words(problem: Problem) -> dict[str, str]:
    """Each identifier of the program with its letter (capitalised ones get capitals), and each
    constant with its number of occurrence."""
    mapping: dict[str, str] = {}
    free = _letters(set())
    numbers = count(1)
    for word in _find_words(problem, f"{_show_text(problem)} {_list_quoted(problem)}"):
        # No Dafny name begins with an underscore, so that a constant's is never a name's.
        short = f"_{next(numbers)}" if _is_constant(word) else next(free[word[0].isupper()])
        mapping[word] = short
    return mapping


def _list_quoted(problem: Problem) -> str:
    """The parts of a program that the words shown with it quote."""
    shows = find_language(problem.language).shows_words(problem)
    return " ".join(_QUOTED.findall(problem.informal)) if shows else ""


def _letters(taken: set[str]) -> dict[bool, Iterator[str]]:
    """Endless small letters (False) and capitals (True) that are not taken."""

    def spell(alphabet: str) -> Iterator[str]:
        for number in count():
            for letter in alphabet:
                name = f"{letter}{number or ''}"
                if name not in taken:
                    yield name

    return {False: spell(string.ascii_lowercase), True: spell(string.ascii_uppercase)}


def _numbered(name: str, taken: set[str]) -> Iterator[str]:
    return (f"{name}{number}" for number in count(1) if f"{name}{number}" not in taken)


def _find_words(problem: Problem, text: str) -> list[str]:
    """The user's identifiers and constants, in order of first occurrence."""
    language = find_language(problem.language)
    kind = language.find_kind(problem)
    set_apart = kind.words if kind else frozenset()
    found = dict[str, None]()
    for match in _WORD.finditer(text):
        word = match.group()
        is_name = word[0].isalpha() or word[0] == "_"
        is_own = is_name and word not in set_apart and language.owns_name(match)
        if is_own or _is_constant(word):
            found[word] = None
    return list(found)


def _replace(text: str, mapping: dict[str, str]) -> str:
    return _WORD.sub(lambda match: mapping.get(match.group(), match.group()), text)


def _is_constant(word: str) -> bool:
    return _CONSTANT.fullmatch(word) is not None


def join_parts(content: Any) -> str:
    """The text of a message's content, which is a text, nothing, or a list of parts. Thinking
    stands between its tags; pictures and other parts without text are left out. Raises
    ``TypeError`` or ``AttributeError`` for anything else."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = []
    for part in content:
        if isinstance(part, str):
            parts.append(part)
        elif thought := part.get("thinking"):
            parts.append(f"<think>{join_parts(thought)}</think>")
        else:
            parts.append(str(part.get("text") or ""))
    return "".join(parts)
