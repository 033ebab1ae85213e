"""Dafny programs whose places for a proof are exact: HumanEval-Dafny and miniF2F-Dafny.

Flows in: a folder. Flows out: a ``Collection``. HumanEval-Dafny marks invariants and assertions by
comments: a program with one such place is a problem with that hole, one with several a problem of
the kind ``annotate``. miniF2F-Dafny has lemmas with empty bodies; the hole is the body.

The definitions that miniF2F-Dafny includes are inconsistent (``log`` of any argument, ``pos`` of
any number: each alone proves false), so that a proof which may use them is worth nothing. A lemma
that names none of them is a problem without them; one that does is refused and says which.
Not covered: implementations that are to be written (``impl-start``).
HumanEval-Dafny: JetBrains Research. miniF2F-Dafny: dafny-lang/miniF2F.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from proverrl.benchmarks.base import Collection, Collector, Source, explain_no_dafny, read_text
from proverrl.benchmarks.dafny_programs import make_annotate
from proverrl.config.benchmarks import AnswerTask, BenchmarkLayout
from proverrl.errors import ProblemError
from proverrl.lang.dafny.strip import DAFNY_4, cut_lines, explain_dafny_4
from proverrl.lang.dafny.syntax.text import KEYWORDS, scan_tokens
from proverrl.types import HOLE, Problem

_PLACE = re.compile(
    r"^[ \t]*//[ ]?(invariants|assert)-start[^\n]*\n(.*?)^[ \t]*//[ ]?\1-end[^\n]*$"
    r"|^[^\n]*//[ ]?assert-line[^\n]*$",
    re.MULTILINE | re.DOTALL,
)
_INCLUDE = re.compile(r'^[ \t]*include[ \t]+"([^"]*)"[ \t]*\n?', re.MULTILINE)
_EMPTY_BODY = re.compile(r"\{\s*\}\s*\Z")
_DECLARING = frozenset(
    "function predicate lemma method module datatype type newtype const codatatype class".split()
)


def explain_no_humaneval(source: Source) -> str:
    """Why a source is not a folder of programs with marks."""
    return explain_no_dafny(
        source,
        lambda files: any("// impl-start" in read_text(path) for path in files[:20]),
        "no file has a '// impl-start' mark",
    )


def read_humaneval(
    source: Source, layout: BenchmarkLayout, *, origin: str, answers: AnswerTask
) -> Collection:
    """One problem a program; the id is the file's name."""
    collector = Collector(layout, source)
    for path in source.list_files(".dfy"):
        with collector.reading(path.stem, str(path)):
            truth = read_text(path)
            problem, reference = cut_marked(collector.free_id(path.stem), truth, origin)
            collector.add(problem, str(path), reference)
    return collector.finish()


def cut_marked(problem_id: str, truth: str, origin: str) -> tuple[Problem, str]:
    """The problem of a marked program, and its reference body.

    Raises:
        ProblemError: nothing is marked.
    """
    places = list(_PLACE.finditer(truth))
    if not places:
        raise ProblemError("no invariants or assertions are marked: nothing is to be written")
    if len(places) > 1:
        blank = truth
        for place in reversed(places):
            blank = cut_lines(blank, place.start(), place.end())
        return make_annotate(problem_id, blank, origin=origin), truth
    place = places[0]
    is_loop = place[1] == "invariants"
    body = place[2] if place[2] is not None else place[0].rpartition("//")[0]
    indent = place[0][: len(place[0]) - len(place[0].lstrip())]
    problem = Problem(
        id=problem_id,
        language="dafny",
        kind="invariants" if is_loop else "statements",
        preamble="",
        statement=f"{truth[: place.start()]}{indent}{HOLE}{truth[place.end() :]}",
        split="heldout",
        origin=origin,
        metadata={"dialect": DAFNY_4} if explain_dafny_4(truth) else {},
    )
    return problem, body.strip()


def explain_no_minif2f_dafny(source: Source) -> str:
    """Why a source is not a folder of lemmas that include ``definitions.dfy``."""
    return explain_no_dafny(
        source,
        lambda files: any("definitions.dfy" in read_text(path)[:400] for path in files),
        "no file includes definitions.dfy",
    )


def read_minif2f_dafny(
    source: Source, layout: BenchmarkLayout, *, origin: str, answers: AnswerTask
) -> Collection:
    """One problem a lemma, without the definitions, if it needs none of them."""
    collector = Collector(layout, source)
    for path in source.list_files(".dfy"):
        if path.parent.name not in ("valid", "test"):
            continue
        with collector.reading(path.stem, str(path)):
            text = read_text(path)
            declared = _list_included(path, text)
            statement = _INCLUDE.sub("", text).strip() + "\n"
            tokens = scan_tokens(statement)
            words = {word for kind, word in tokens if kind == "name"} - {path.stem}
            if used := sorted(words & declared):
                raise ProblemError(
                    f"it leans on {', '.join(used[:5])} of the definitions that it includes; their "
                    "axioms prove false, so that no proof with them counts"
                )
            body = _EMPTY_BODY.search(statement)
            if body is None:
                raise ProblemError("it does not end in an empty body {}")
            problem = Problem(
                id=collector.free_id(path.stem),
                language="dafny",
                kind="statements",
                preamble="",
                statement=f"{statement[: body.start()]}{{\n  {HOLE}\n}}\n",
                split="valid" if path.parent.name == "valid" else "heldout",
                origin=origin,
            )
            collector.add(problem, str(path))
    return collector.finish()


def _list_included(path: Path, text: str, seen: frozenset[Path] = frozenset()) -> set[str]:
    """The names that included files declare, and those that they include."""
    names: set[str] = set()
    for match in _INCLUDE.finditer(text):
        place = (path.parent / match[1]).resolve()
        if place in seen:
            continue
        included = read_text(place)
        names |= _list_declared(scan_tokens(included))
        names |= _list_included(place, included, seen | {place})
    return names


def _list_declared(tokens: list[tuple[str, str]]) -> set[str]:
    """What a file declares: names behind a declaring word, and constructors of datatypes."""
    names = set()
    for place, (_, word) in enumerate(tokens):
        if word not in _DECLARING:
            continue
        following = place + 1
        while following < len(tokens) and tokens[following][0] == "attribute":
            following = _skip_attribute(tokens, following)
        if following < len(tokens) and tokens[following][0] == "name":
            names.add(tokens[following][1])
        if word in ("datatype", "codatatype"):
            names |= _list_constructors(tokens, following)
    return names - KEYWORDS


def _skip_attribute(tokens: list[tuple[str, str]], place: int) -> int:
    while place < len(tokens) and tokens[place][1] != "}":
        place += 1
    return place + 1


def _list_constructors(tokens: list[tuple[str, str]], place: int) -> set[str]:
    found: set[str] = set()
    depth = 0
    for (_, word), (kind, name) in pairwise(tokens[place:]):
        depth += {"(": 1, ")": -1}.get(word, 0)
        if depth == 0 and (word in ("{", "}") or (word in _DECLARING and found)):
            break
        if depth == 0 and word in ("=", "|") and kind == "name":
            found.add(name)
    return found
