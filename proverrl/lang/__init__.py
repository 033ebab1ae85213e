"""The languages: one room each, and one line here.

Flows in: the name of a language, as problems have it. Flows out: the ``Language``, loaded when it
is first asked for. Somebody's own languages are added by ``[languages]`` of a configuration, by
``--language`` and by installed packages.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from proverrl.errors import ProblemError, UsageError
from proverrl.plugins import find_installed, find_package, is_place, list_installed, load
from proverrl.types import FILE

# Loaded with the first language: the command line only wants the names.
if TYPE_CHECKING:
    from proverrl.lang.base import Language
    from proverrl.lang.parts import Composing

LANGUAGES: dict[str, str] = {
    "dafny": "proverrl.lang.dafny.language:DAFNY",
    "lean": "proverrl.lang.lean.language:LEAN",
}
"""The module of each language, by its name. Plug-ins' languages come after ours, by
``add_languages``."""
OURS = frozenset(LANGUAGES)
_INSTALLED: set[str] = set()
"""Those that only an installed package names."""
_BROKEN: dict[str, UsageError] = {}
"""The reason why a name that an installed package gives is none."""
_LOADED: dict[str, Language] = {}
"""Somebody's own that were loaded."""


def add_languages(places: Mapping[str, str]) -> None:
    """Languages of somebody's own by the name that problems give them, and kinds of problems by
    ``LANGUAGE.KIND``, each as ``package.module:object``. None is imported before it is asked for.
    Raises ``UsageError`` for a name that is taken, and for a place of another form."""
    for name, place in places.items():
        if "." in name:
            # Here, because most commands name no kind.
            from proverrl.lang.kinds import add_kind

            language = name.partition(".")[0]
            if language not in {*list_names(), *places}:
                raise UsageError(f"languages.{name}: there is no language {language!r}")
            add_kind(name, place)
            continue
        if name in OURS or LANGUAGES.get(name, place) != place:
            raise UsageError(
                f"languages.{name}: {name} is a language already, {LANGUAGES[name]}, which cannot "
                "be replaced; choose another name"
            )
        if not name.isidentifier() or not is_place(place):
            raise UsageError(
                f"languages.{name}: {place!r}; write NAME = package.module:object, and a name of "
                "letters, digits and _"
            )
        LANGUAGES[name] = place
        _INSTALLED.discard(name)


def list_own() -> dict[str, str]:
    """The languages of ``list_languages`` that are not ours, the kinds that were added, and where
    they are."""
    names = [language.name for language in list_languages()]
    from proverrl.lang.kinds import list_added

    return {name: LANGUAGES[name] for name in names if name not in OURS} | list_added()


def list_names() -> tuple[str, ...]:
    """The names of all languages, ours first. One of an installed package that ``add_languages``
    would refuse is left out with a warning."""
    _add_installed()
    return tuple(LANGUAGES)


@cache
def _add_installed() -> None:
    for name in list_installed("language"):
        named = name in LANGUAGES
        try:
            add_languages({name: find_installed("language", name)})
        except UsageError as error:
            _BROKEN[name] = error
            _warn_of(name, error)
        else:
            _INSTALLED.update(() if named else (name,))


def _warn_of(name: str, error: UsageError) -> None:
    package = find_package("language", name)
    warnings.warn(
        f"the language {name} of the installed package {package} is left out: {error}. Update or "
        "uninstall the package",
        RuntimeWarning,
        stacklevel=4,
    )


@cache
def find_language(name: str) -> Language:
    """The language of a name. Raises ``ProblemError`` for one that is not known, and ``UsageError``
    for one of somebody's own that cannot be used."""
    names = list_names()
    if name not in names:
        if name in _BROKEN:
            raise _BROKEN[name]
        near = difflib.get_close_matches(name, names, n=1)
        nearest = f"; the nearest is {near[0]!r}" if near else ""
        raise ProblemError(
            f"unknown language {name[:60]!r}; known are: {', '.join(names)}{nearest}"
        )
    found = load(f"languages.{name}", LANGUAGES[name])
    if name not in OURS:
        # Not with ours: it needs the base of all languages, which the names do without.
        from proverrl.lang.own import check_own

        others = [find_language(each) for each in sorted(OURS)]
        others += [each for each in _LOADED.values() if each.name != name]
        _LOADED[name] = check_own(name, found, others)
        return _LOADED[name]
    language: Language = found
    return language


def list_languages() -> list[Language]:
    """All languages, in the order of ``LANGUAGES``. One that only an installed package names and
    that cannot be used is left out with a warning, so that it stops nobody who does not ask for
    it. Raises ``UsageError`` for one that a configuration or ``--language`` names."""
    found = [_find_or_leave_out(name, name in _INSTALLED) for name in list_names()]
    return [language for language in found if language is not None]


@cache
def _find_or_leave_out(name: str, installed: bool) -> Language | None:
    """Warns once, and imports what is broken once."""
    try:
        return find_language(name)
    except UsageError as error:
        if not installed:
            raise
        _warn_of(name, error)
        return None


def find_suffixes() -> dict[str, str]:
    """The endings of files, with the dot, and the names of their languages; a language without bare
    files has none."""
    found = (language for language in list_languages() if FILE in language.kinds)
    return {language.suffix: language.name for language in found}


def find_composing(name: str) -> Composing:
    """The part of a language that composers use. Raises ``ProblemError`` where it has none."""
    composing = find_language(name).composing
    if composing is None:
        raise ProblemError(f"there are no composers for {name}")
    return composing
