"""Finds the candidate's text in an answer, or says why there is none; ``extract`` never raises.

Thinking spans are skipped, even if they are never closed. Of several code blocks the last complete
one that fits counts; one that names the language counts before one that names none. If a whole file
was written, our text is located in it, and the body is the text in place of the hole. An answer
that changed our text is refused here, so it costs no verifier call. Soundness does not depend on
this, because a candidate is assembled from the problem's own text.

The part that ``rollout.mode`` names is a ``Mode``: in ``whole_proof`` and ``self_correct`` an
answer holds its body itself. A plug-in derives from ``Mode`` and changes what it must; only the
policy's own tokens are learned, whatever a mode makes of them. Not handled here: turns
(``self_correct``), and whether the body is allowed (the audit decides).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from proverrl.config import Config, LayoutName, RolloutMode
from proverrl.errors import RunError, UsageError
from proverrl.lang import find_language
from proverrl.lang.records import Extraction
from proverrl.plugins import open_part
from proverrl.problems.prompt import LAYOUTS, use_problem_words
from proverrl.types import ANNOTATE, FILE, Problem, Rollout

_CODE_MARK = "```"

# Code within a line is no block; what follows the name of the language may be anything on a line of
# its own (CommonMark's info string), and within a line of prose nothing.
_FENCE = re.compile(
    r"```[^`\n]++```|(?:(?:^|(?<=>))[ \t]*+```[^\w`\n]*+([\w+-]*+)[^`\n]*+"
    r"|```([\w+-]*+)[ \t]*+\r?)\n(.*?)(```|\Z)",
    re.DOTALL | re.MULTILINE,
)
_THINK = re.compile(r"</?think>")
_MENTION = re.compile(r"(?<=\S[ \t])</think>(?=[ \t]+\S)|(?<=[`'\"])</think>(?=[`'\"])")
"""A tag that a sentence speaks of."""
_NAMES = re.compile(r"\b(statement of|text of|proof of|declares) [^\s,]+(?:, not \S+)?")
"""A pattern of the words that name a problem in a reason."""


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A piece of code in an answer: ``end`` is after its last character, ``closed`` says that the
    answer went on to close it."""

    language: str
    start: int
    end: int
    closed: bool


def extract(problem: Problem, text: str, layout: LayoutName) -> Extraction:
    """The body (and for Lean the prelude) that an answer proposes for the problem's hole."""
    start, end, reason = skip_thinking(text)
    if reason:
        return Extraction(None, reason=reason)
    blocks = find_blocks(text, start, end)
    language = find_language(problem.language)
    fitting = [b for b in blocks if b.language.lower() in (*language.fences, "")]
    in_block = LAYOUTS[layout].in_block
    if blocks and not fitting:
        found = ", ".join(sorted({block.language for block in blocks}))
        return Extraction(None, reason=f"no {problem.language} code block, only {found}")
    if not blocks:
        command = language.file_start.search(text, start, end) if in_block else None
        fitting = [CodeBlock("", command.start() if command else start, end, closed=True)]
    closed = [b for b in fitting if b.closed] or fitting
    # Beside a block of the language one without a label is output.
    named = [b for b in closed if b.language]
    block = (named or closed)[-1]
    code = use_problem_words(problem, text[block.start : block.end], layout)
    read = language.read_code(problem, code)
    if not blocks and in_block and read.body is not None and not _holds_statement(problem, code):
        return Extraction(None, reason="no code block in the answer")
    if read.body is None:
        return read
    return Extraction(read.body, read.prelude, span=(block.start, block.end))


def generalise_reason(reason: str) -> str:
    """A reason without the names in it, so that those of different problems can be counted."""
    return _NAMES.sub(r"\1 ...", reason)


def skip_thinking(text: str) -> tuple[int, int, str]:
    """The start and end of the answer, or the reason why there is none: the last piece outside of
    thinking that holds code, else the last piece. A ``</think>`` that nothing opened ends thinking
    too (a chat template may have opened it), unless a sentence behind the last code speaks of
    it."""
    pieces, start, opened = [], 0, False
    last = text.rfind(_CODE_MARK)
    for mark in _THINK.finditer(text):
        if mark.group() == "<think>":
            if not opened:
                pieces.append((start, mark.start()))
            opened = True
        elif opened:
            start, opened = mark.end(), False
        elif not (
            last < mark.start()
            and _MENTION.match(text, mark.start())
            and _holds_code(text, start, mark.start())
        ):
            pieces, start = [], mark.end()
    if not opened:
        pieces.append((start, len(text)))
    start, end = next((p for p in reversed(pieces) if _holds_code(text, *p)), pieces[-1])
    if opened and not text[start:end].strip():
        return start, end, "the thinking span is never closed, so that there is no answer"
    return start, end, ""


def _holds_code(text: str, start: int, end: int) -> bool:
    return text.find(_CODE_MARK, start, end) >= 0


def find_blocks(text: str, start: int = 0, end: int | None = None) -> list[CodeBlock]:
    """The fenced code blocks of a text in order."""
    return [
        CodeBlock(match[1] or match[2] or "", match.start(3), match.end(3), bool(match[4]))
        for match in _FENCE.finditer(text, start, len(text) if end is None else end)
        if match[4] is not None
    ]


def _holds_statement(problem: Problem, code: str) -> bool:
    """True if code without a block is a whole file: then its body is shorter than it."""
    if problem.kind in (ANNOTATE, FILE):
        return False
    language = find_language(problem.language)
    body = language.read_code(problem, code).body
    if body is None or len(body) >= len(code.strip()):
        return False
    return language.find_name(problem) in code


class Mode:
    """Answers that hold the body. ``engine`` says what else writes, for people to read."""

    engine = ""

    def against(self, config: Config) -> str:
        """The reason why a run of this configuration cannot have this mode, and what to set; empty
        when it can."""
        return ""

    def words(self, references: Sequence[tuple[Problem, str]]) -> list[str]:
        """Texts that are written besides statements and bodies, for the tokenizer of a fresh model;
        each word of it stays in one piece."""
        return []

    async def teach(self, session: Any, references: list[Any]) -> list[Any]:
        """The pairs that the warm start of a ``proverrl.run.session.Session`` learns in place of
        its references, both as ``proverrl.run.pairs.PairSource``."""
        return references

    async def read(
        self, answers: Sequence[tuple[Problem, str]], *, layout: LayoutName, turn: int, seed: int
    ) -> list[Extraction]:
        """The body that each answer proposes to its problem, in ``turn`` (from 0) and under
        ``seed``."""
        return [extract(problem, text, layout) for problem, text in answers]

    def tell(self, rollout: Rollout, told: str, layout: LayoutName) -> str:
        """The feedback on the last turn, of which ``told`` says what the verifier
        said."""
        return told

    def describe(self) -> dict[str, Any]:
        """The settings of the mode that all attempts of an evaluation share, and that hold a run
        that continues, as JSON values."""
        return {}


PLAIN = Mode()


def open_mode(config: Config) -> Mode:
    """The mode of a configuration. Raises ``UsageError``: a plug-in cannot be used, or not with
    this configuration."""
    settings = config.rollout
    if settings.mode in get_args(RolloutMode):
        return PLAIN
    mode = open_part("rollout", settings.mode, settings.options, config, Mode)
    if reason := mode.against(config):
        raise UsageError(f"rollout.mode = {settings.mode!r} {reason}")
    return mode


class SameMode:
    """Holds a run to the mode that it began with."""

    def __init__(self, mode: Mode) -> None:
        self._described = mode.describe()

    def state_dict(self) -> dict[str, Any]:
        return self._described

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises ``RunError``: the checkpoint describes another mode."""
        if state != self._described:
            raise RunError(
                "the mode of rollouts is not the one that this run began with: "
                f"{self._described}, not {state}; put it back, or begin another run"
            )
