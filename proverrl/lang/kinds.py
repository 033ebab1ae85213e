"""Kinds of problems that a plug-in brings to a language, beside those that the language has.

Flows in: ``[languages]`` and ``--language`` with names such as ``dafny.decide``, and entry points
of the group ``proverrl.kind``. Flows out: ``Kind``s, each loaded when a problem of it is first met.
Such a kind makes of each candidate one of a kind that the language itself judges; audit, pool and
walls are the language's own. What it calls proved is proved of the statement that it makes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache

from proverrl.errors import UsageError
from proverrl.plugins import find_installed, is_place, list_installed, load, make
from proverrl.types import Candidate, Problem, Verdict

_PLACES: dict[str, str] = {}
"""Those that a configuration or ``--language`` names, by ``LANGUAGE.KIND``."""


class Kind(ABC):
    """A kind of hole: the texts that may stand in it, and what is then verified."""

    words: frozenset[str] = frozenset()
    """Words of its bodies that are no names of the problem."""
    ask: str = ""
    """The request of a conversation, as "Write the word answer, then proof statements"."""

    @abstractmethod
    def check(self, problem: Problem) -> None:
        """Raise ``ProblemError`` when no body could be held to the problem."""

    @abstractmethod
    def settle(self, candidate: Candidate) -> Candidate | Verdict:
        """The candidate to audit and verify in place of this one, a problem of one of the
        language's own kinds; the verdict where that is known without. The problem comes without its
        words and metadata, since a verdict is kept for its text alone. Raises ``ProblemError``, as
        ``check`` does."""

    def show(self, problem: Problem) -> str:
        """The part of a problem's text that a policy sees, with its hole; its words are shown
        beside it."""
        return problem.preamble + problem.statement


def add_kind(name: str, place: str) -> None:
    """A kind by the name ``LANGUAGE.KIND``, as ``package.module:object``. Nothing is imported yet.
    Raises ``UsageError`` for a name that is taken, and for a place of another form."""
    known = _PLACES.get(name) or _list_installed().get(name)
    if known not in (None, place):
        raise UsageError(
            f"languages.{name}: {name} is a kind already, {known}; choose another name"
        )
    language, _, kind = name.partition(".")
    if not language.isidentifier() or not kind.isidentifier() or not is_place(place):
        raise UsageError(
            f"languages.{name}: {place!r}; write LANGUAGE.KIND = package.module:object, and names "
            "of letters, digits and _"
        )
    _PLACES[name] = place


def list_added() -> dict[str, str]:
    """The kinds of ``add_kind``, and where they are."""
    return dict(_PLACES)


def list_kinds(language: str) -> tuple[str, ...]:
    """The names of the kinds that plug-ins bring to a language."""
    names = {*_PLACES, *_list_installed()}
    return tuple(sorted(n.partition(".")[2] for n in names if n.partition(".")[0] == language))


def find_kind(language: str, kind: str, own: Sequence[str]) -> Kind | None:
    """The kind that a plug-in brings to a language whose ``own`` kinds these are; None for any
    other. Raises ``UsageError`` for one that cannot be used."""
    name = f"{language}.{kind}"
    place = _PLACES.get(name) or _list_installed().get(name)
    if place is None:
        return None
    if kind in own:
        raise UsageError(f"languages.{name}: {language} has such a kind; choose another name")
    return _load_kind(name, place)


@cache
def _list_installed() -> dict[str, str]:
    return {name: find_installed("kind", name) for name in list_installed("kind")}


@cache
def _load_kind(name: str, place: str) -> Kind:
    where = f"languages.{name}"
    return make(where, load(where, place), Kind)  # type: ignore[type-abstract]
