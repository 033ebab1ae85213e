"""The files that a Dafny program names to be included.

Flows in: the text of a file. Flows out: the text without its ``include`` directives, and their
names; and whether files may be verified apart. Only directives that open the file count, as in
Dafny's grammar; any other ``include`` stays, and the audit refuses it. Not handled here: which
files these are (``proverrl.problems.includes``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from proverrl.lang.dafny.audit.files import FILE_ATTRIBUTES, audit_program
from proverrl.lang.dafny.syntax.cursor import GrammarError
from proverrl.lang.dafny.syntax.parsed import Element, ParsedProgram
from proverrl.lang.dafny.syntax.plain import write_file, write_plain
from proverrl.lang.dafny.syntax.program import read_text
from proverrl.lang.dafny.syntax.tokens import find_places, read_file
from proverrl.lang.records import Includes
from proverrl.text_cache import cache_texts


@cache_texts
def split_includes(text: str) -> Includes:
    """See ``Language.split_includes``."""
    # As the audit reads a file.
    text = write_file(text).text
    tokens, findings = read_file(text)
    if findings:
        return Includes(text, fault=f"line {findings[0].line}: {findings[0].message}")
    files = []
    place = 0
    while tokens[place].sign == "include" and tokens[place + 1].kind == "string":
        files.append((tokens[place + 1].text, tokens[place].line))
        place += 2
    end = find_places(text, tokens)[place]
    head = "".join(sign if sign in "\r\n" else " " for sign in text[:end])
    rest = head + text[end:]
    # Each file on its own: together, one could end a comment or a bracket that another began.
    program, findings = audit_program(rest, FILE_ATTRIBUTES)
    names = tuple((name.strip('"'), line) for name, line in files)
    if program is None:
        return Includes(text, names, f"line {findings[-1].line}: {findings[-1].message}")
    ill = [name for name, _ in files if not name.startswith('"') or "\\" in name]
    fault = f"{ill[0]}: name a file in plain quotes, with / between folders" if ill else ""
    words = frozenset(token.text for token in program.tokens if token.kind == "word")
    own = frozenset(map(program.find_name, program.root.slots[0].elements))
    return Includes(rest, names, fault, own | _name_constructors(program), words, own)


def _name_constructors(program: ParsedProgram) -> frozenset[str]:
    """The constructors of datatypes outside of modules."""
    places = program.constructor_places
    return frozenset(
        program.tokens[place].text
        for element in program.root.slots[0].elements
        if element.word != "module"
        for place in places
        if element.start <= place < element.end
    )


def are_modular(texts: Mapping[str, str], seen: Mapping[str, set[str]]) -> bool:
    """See ``Language.are_modular``.

    Dafny verifies each declaration by the contracts of the others, so what was proved stays proved
    beside more declarations. There are two exceptions: a new name may be found where another was
    meant, as a file's own names come before those of an opened import; and a class may extend a
    trait, a module refine another, whose calls are then recursive. Such files are verified
    together.
    """
    found = {name: _read_names(text) for name, text in texts.items()}
    if any(names is None or {"extends", "refines"} & names.words for names in found.values()):
        return False
    return not any(
        other != name and name not in seen[other] and mine and its and mine.could_capture(its)
        for name, mine in found.items()
        for other, its in found.items()
    )


@dataclass(frozen=True, slots=True)
class _Words:
    """The names that a file declares outside classes, how its imports name modules, its own
    modules, and all of its words."""

    declared: frozenset[str]
    imported: frozenset[str]
    modules: frozenset[str]
    words: frozenset[str]

    def could_capture(self, other: _Words) -> bool:
        """True if a name of the other could come to mean what this one declares."""
        return bool((self.declared | (self.imported - other.modules)) & other.words)


@cache_texts
def _read_names(text: str) -> _Words | None:
    try:
        program = read_text(write_plain(text, comments=False).text, trusts=True)
    except GrammarError:
        return None
    tokens = program.tokens
    imported = {
        second.text if first.text == "opened" else first.text
        for word, first, second in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if word.text == "import"
    }
    top = program.root.slots[0].elements
    return _Words(
        frozenset(_list_declared(program.root)) | program.constructors,
        frozenset(imported),
        frozenset(element.name for element in top if element.word == "module"),
        frozenset(token.text for token in tokens if token.kind == "word"),
    )


def _list_declared(element: Element) -> Iterator[str]:
    """Names that are declared here, and in modules."""
    for inner in element.slots[0].elements:
        yield inner.name
        if inner.word == "module":
            yield from _list_declared(inner)
