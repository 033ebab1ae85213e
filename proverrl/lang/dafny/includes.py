"""The files that a Dafny program names to be included.

Flows in: the text of a file. Flows out: the text without its ``include`` directives, and their
names. Only directives that open the file count, as in Dafny's grammar; any other ``include`` stays,
and the audit refuses it. Not handled here: which files these are (``proverrl.problems.includes``).
"""

from __future__ import annotations

from proverrl.lang.dafny.file_audit import ALLOWED_ATTRIBUTES, audit_program
from proverrl.lang.dafny.syntax.plain import write_plain
from proverrl.lang.dafny.syntax.tokens import find_places, read_file
from proverrl.lang.records import Includes
from proverrl.text_cache import cache_texts


@cache_texts
def split_includes(text: str) -> Includes:
    """See ``Language.split_includes``."""
    # With symbols in ASCII, as the audit reads a file.
    text = write_plain(text, comments=False).text
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
    program, findings = audit_program(rest, ALLOWED_ATTRIBUTES)
    names = tuple((name.strip('"'), line) for name, line in files)
    if program is None:
        return Includes(text, names, f"line {findings[-1].line}: {findings[-1].message}")
    ill = [name for name, _ in files if not name.startswith('"') or "\\" in name]
    fault = f"{ill[0]}: name a file in plain quotes, with / between folders" if ill else ""
    return Includes(rest, names, fault)
