"""Finds problems of a benchmark in the training data, as they are or nearly.

Flows in: statements of both. Flows out: ``Contamination`` with the pairs found. Three checks,
each of which finds what the one before misses: the same statement but for comments, layout and the
name of the theorem (``same``); the same but for names (``renamed``); and shared runs of 13 tokens
after renaming, as in Kimina-Prover's decontamination (Wang et al. 2025, arXiv 2504.11354). Short
programs of one kind often share one run, so there are two figures. ``touched`` counts problems that
share any run; ``near`` are pairs in which one training statement holds at least half of a problem's
runs.
A statement is compared together with the definitions before it, which tell apart those that read
alike (``correctness`` in CLEVER); but for ``near`` it must share its own runs too, since many may
stand behind the same definitions. The training side is streamed: memory holds the benchmark.
Not handled here: proofs, statements in words, the same mathematics said in another way. Lean's
names are renamed where a binder declares them; a training text in another language never matches.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from proverrl.errors import ProblemError
from proverrl.files.lines import iter_given_lines
from proverrl.lang import find_language, list_languages, list_names
from proverrl.types import Problem

RUN_LENGTH = 13
NEAR_SHARE = 0.5
MatchKind = Literal["same", "renamed", "near"]

_STATEMENTS: tuple[tuple[str, str | None], ...] = (
    ("statement", None),
    ("formal_statement", "lean"),
    ("lean4_code", "lean"),
    ("hints_removed", "dafny"),
    ("code", None),
)
"""Fields that hold a statement, best first, and the language where the field says it."""
_BEFORE = ("preamble", "header")
"""Fields that hold the text before it."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, as far as it is compared, and what stands ``before`` it. ``language`` keeps
    Lean and Dafny apart."""

    id: str
    language: str
    text: str
    before: str = ""


@dataclass(frozen=True, slots=True)
class Match:
    """A problem of the benchmark and the training statement that is most like it. ``share`` is the
    part of the problem's runs of tokens that the training statement holds."""

    kind: MatchKind
    benchmark_id: str
    training_id: str
    share: float


@dataclass(frozen=True, slots=True)
class Contamination:
    """The result of a comparison. ``matches`` has for each problem its worst match, if any."""

    num_benchmark: int
    num_training: int
    touched: int
    matches: tuple[Match, ...]

    def count(self, kind: MatchKind) -> int:
        """Problems of the benchmark whose worst match is of this kind."""
        return sum(match.kind == kind for match in self.matches)

    def to_json(self, *, pairs: bool = True) -> dict[str, Any]:
        """Counts by kind, and the pairs where they are asked for."""
        figures: dict[str, Any] = {
            "num_benchmark": self.num_benchmark,
            "num_training": self.num_training,
            **{kind: self.count(kind) for kind in get_args(MatchKind)},
            "touched": self.touched,
        }
        return figures | ({"pairs": [asdict(match) for match in self.matches]} if pairs else {})


def find_contamination(
    benchmark: Iterable[Statement], training: Iterable[Statement]
) -> Contamination:
    """Compare every statement of the benchmark with every one of the training data, by hashes."""
    index = OverlapIndex(benchmark)
    best: dict[str, Match] = {}
    touched: set[str] = set()
    num_training = 0
    for statement in training:
        num_training += 1
        for match in index.find(statement):
            touched.add(match.benchmark_id)
            if match.kind == "near" and match.share < NEAR_SHARE:
                continue
            known = best.get(match.benchmark_id)
            if known is None or _badness(match) > _badness(known):
                best[match.benchmark_id] = match
    found = tuple(best[name] for name in index.ids if name in best)
    return Contamination(len(index.ids), num_training, len(touched), found)


class OverlapIndex:
    """A benchmark, ready to be compared with one statement after another."""

    def __init__(self, benchmark: Iterable[Statement]) -> None:
        self._same: dict[int, list[int]] = {}
        self._renamed: dict[int, list[int]] = {}
        self._holders: dict[int, list[int]] = {}
        self._runs: list[tuple[set[int], set[int]]] = []
        self.ids: list[str] = []
        for number, problem in enumerate(benchmark):
            plain, anonymous = _read_both(problem)
            self.ids.append(problem.id)
            self._same.setdefault(hash((problem.language, plain)), []).append(number)
            self._renamed.setdefault(hash((problem.language, anonymous)), []).append(number)
            words = anonymous.split(" ")
            runs = _find_runs(problem.language, words)
            own = len(_read_both(replace(problem, before=""))[1].split(" "))
            self._runs.append((runs, _find_runs(problem.language, words[-own:])))
            for run in runs:
                self._holders.setdefault(run, []).append(number)

    def find(self, statement: Statement) -> list[Match]:
        """Every problem of the benchmark that shares a run with the statement, or all of it."""
        plain, anonymous = _read_both(statement)
        given = _find_runs(statement.language, anonymous.split(" "))
        shared = {number for run in given for number in self._holders.get(run, ())}
        exact = set(self._same.get(hash((statement.language, plain)), ()))
        alike = set(self._renamed.get(hash((statement.language, anonymous)), ()))
        found = []
        for number in sorted(shared | exact | alike):
            runs = self._runs[number]
            # A statement shorter than a run has none: it is found only as a whole.
            share = min(len(each & given) / len(each) if each else 0.0 for each in runs)
            share = 1.0 if number in exact | alike else share
            kind: MatchKind = (
                "same" if number in exact else "renamed" if number in alike else "near"
            )
            found.append(Match(kind, self.ids[number], statement.id, round(share, 4)))
        return found


def read_statements(path: Path) -> Iterator[Statement]:
    """The statements of a JSON lines file: problems of ours, or any lines with one of the fields
    ``statement``, ``formal_statement``, ``lean4_code``, ``hints_removed``, ``code``; what stands
    before it may be in ``preamble`` or ``header``. Raises ``ProblemError`` if the file cannot be
    read, or a line has no such field."""
    for number, row, fault in iter_given_lines(path, allow_nan=True):
        where = f"{path}, line {number}"
        if fault:
            raise ProblemError(f"{where}: {fault}; write one object per line")
        yield _read_statement(where, row, number)


def take_statements(problems: Iterable[Problem]) -> list[Statement]:
    """The statements of problems."""
    return [Statement(p.id, p.language, p.statement, p.preamble) for p in problems]


def make_skeleton(problem: Problem) -> str:
    """The tokens of preamble and statement, a space between each, with names replaced by the order
    in which they appear; two that differ in names, comments or layout only have one skeleton."""
    return _read_both(*take_statements([problem]))[1]


def key_statement(problem: Problem) -> str:
    """SHA-256, as hex, of what a problem states (``Language.state_key``)."""
    text = find_language(problem.language).state_key(problem)
    return hashlib.sha256(f"{problem.language}\0{text}".encode()).hexdigest()


def find_repeats(problems: Iterable[Problem]) -> list[tuple[str, str]]:
    """Ids of problems that state the same as an earlier one, up to names, comments and layout: the
    earlier, the later."""
    first: dict[str, str] = {}
    found = []
    for problem in problems:
        key = key_statement(problem)
        if key in first:
            found.append((first[key], problem.id))
        first.setdefault(key, problem.id)
    return found


def check_problems(problems: Iterable[Problem], training: Path) -> dict[str, Any]:
    """The counts of ``find_contamination`` for problems and a training file, which is named."""
    found = find_contamination(take_statements(problems), read_statements(training))
    return {"training": str(training), **found.to_json(pairs=False)}


def describe_overlap(figures: Mapping[str, Any] | None) -> str:
    """A warning about the counts of ``check_problems``; empty when nothing was found."""
    if figures is None or not any(figures[kind] for kind in get_args(MatchKind)):
        return ""
    return (
        f"of {figures['num_benchmark']} problems {figures['same']} are in {figures['training']} as "
        f"they are, {figures['renamed']} under other names, {figures['near']} nearly; "
        "`proverrl contamination` names them"
    )


def _read_statement(where: str, row: Mapping[str, Any], number: int) -> Statement:
    known = [field for field, _ in _STATEMENTS]
    if not any(isinstance(row.get(f), str) for f in known):
        raise ProblemError(f"{where}: no text in any of {', '.join(known)}; name the statement so")
    field, language = next((f, lang) for f, lang in _STATEMENTS if isinstance(row.get(f), str))
    name = next((row[key] for key in ("id", "name", "problem_id") if key in row), number)
    before = next((row[key] for key in _BEFORE if isinstance(row.get(key), str)), "")
    text = row[field]
    language = language or row.get("language") or _guess_language(text)
    if language not in list_names():
        raise ProblemError(
            f"{where}: field 'language' is {language!r}; use {' or '.join(list_names())}"
        )
    return Statement(str(name), language, text, before and f"{before}\n")


def _guess_language(text: str) -> str:
    found = (one.name for one in list_languages() if one.looks_like(text))
    return next(found, list_names()[0])


def _read_both(statement: Statement) -> tuple[str, str]:
    """The statement as tokens without its own name, and as tokens without any name."""
    return find_language(statement.language).read_skeletons(statement.before + statement.text)


def _find_runs(language: str, words: Sequence[str]) -> set[int]:
    """Hashes of the runs of tokens. Names count from where the run begins, so that a program that
    declares something else before does not hide what they share."""
    runs = set()
    for start in range(len(words) - RUN_LENGTH + 1):
        seen: dict[str, int] = {}
        run = tuple(
            f"n{seen.setdefault(word, len(seen))}" if re.fullmatch(r"n\d+\??", word) else word
            for word in words[start : start + RUN_LENGTH]
        )
        runs.add(hash((language, run)))
    return runs


def _badness(match: Match) -> tuple[int, float]:
    return {"near": 0, "renamed": 1, "same": 2}[match.kind], match.share
