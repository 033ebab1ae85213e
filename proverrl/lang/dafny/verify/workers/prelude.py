"""The prelude that Dafny reads: its own, less what proves anything about maps.

Flows in: the folders in which an installed Dafny may keep it. Flows out: the path of a mended copy.
Dafny 2.3 and 4 take maps for equal that hold the same values for the same keys, and say of ``map k
| P(k) :: f(k)`` that it holds ``f(k)`` for all k: with ``map k: int | k in {1} :: k`` and ``map k:
int | k in {1} :: k * k`` the number 200 is its own square. Dafny 2.3 also believes of each such map
that its keys and values are of its type. Mended, the prelude says what a map holds for its own
keys, and these are of its type. Whether the copy is read is seen by the canaries (``selfcheck``),
not here.
"""

from __future__ import annotations

import atexit
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from proverrl.errors import ToolchainError
from proverrl.verifier.process_group import make_folder, remove_folder

NAME = "DafnyPrelude.bpl"
_AXIOM = re.compile(r"axiom\b[^;]*;")
# In place of the three axioms of 2.3 about K#Glue, which makes the map of a comprehension.
_IN_2_3 = """axiom (forall p: [Box]bool, f: [Box]Box, s, t: Ty, k: Box ::
  { K#Domain(K#Glue(p, f, TK(s, t)))[k] }
  K#Domain(K#Glue(p, f, TK(s, t)))[k] <==> p[k] && $IsBox(k, s));
axiom (forall p: [Box]bool, f: [Box]Box, s, t: Ty, k: Box ::
  { K#Elements(K#Glue(p, f, TK(s, t)))[k] }
  p[k] && $IsBox(k, s) ==> K#Elements(K#Glue(p, f, TK(s, t)))[k] == f[k]);
axiom (forall p: [Box]bool, f: [Box]Box, s, t: Ty ::
  { K#Glue(p, f, TK(s, t)) }
  (forall k: Box :: p[k] && $IsBox(k, s) ==> $IsBox(f[k], t)) ==>
  $Is(K#Glue(p, f, TK(s, t)), TK(s, t)));"""
# In place of the one of 4 about its values. Maps without end have no Set of keys.
_IN_4 = """axiom (forall p: KEYS, f: [Box]Box, t: Ty, k: Box ::
  { K#Elements(K#Glue(p, f, t))[k] }
  HAS ==> K#Elements(K#Glue(p, f, t))[k] == f[k]);"""
_KEYS_IN_4 = {"Map": ("Set", "Set#IsMember(p, k)"), "IMap": ("[Box]bool", "p[k]")}


def mend_prelude(folders: Iterable[Path]) -> str:
    """The path of a mended copy of the prelude in one of these folders; "" where none is known.
    Raises ``ToolchainError`` where it cannot be copied."""
    try:
        for folder in folders:
            if (found := folder / NAME).is_file():
                return _write(found.read_text(encoding="utf-8"))
    except OSError as error:
        raise ToolchainError(
            f"Dafny's prelude cannot be copied into a temporary folder ({error}); set TMPDIR to "
            "one with room that can be written"
        ) from error
    return ""


@cache
def _write(text: str) -> str:
    for kind, keys in _KEYS_IN_4.items():
        text = _mend(text, kind, *keys)
    if not text:
        return ""
    folder = make_folder()
    atexit.register(remove_folder, folder)
    path = folder / NAME
    path.write_text(text, encoding="utf-8")
    return str(path)


def _mend(text: str, kind: str, keys: str, has: str) -> str:
    """The text with other axioms about the comprehensions of this kind of map; "" where its own are
    others than those that are known."""
    own = re.compile(rf"\b{kind}#Glue\(")
    found = [axiom for axiom in _AXIOM.finditer(text) if own.search(axiom[0])]
    if [f"{kind}#Domain" in axiom[0] for axiom in found] != [True, False, False]:
        return ""
    _, values, types = found
    if not re.search(r"#Elements\(.*== *\w+\);$", values[0], re.DOTALL) or "$Is(" not in types[0]:
        return ""
    if "==>" in types[0]:
        start, end, new = values.start(), values.end(), _IN_4
    else:
        start, end, new = found[0].start(), types.end(), _IN_2_3
    new = new.replace("K#", f"{kind}#").replace("TK(", f"T{kind}(")
    return text[:start] + new.replace("KEYS", keys).replace("HAS", has) + text[end:]
