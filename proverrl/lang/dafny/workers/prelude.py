"""The prelude that Dafny reads: its own, less what proves anything about maps.

Flows in: the folders in which an installed Dafny may keep it. Flows out: the path of a mended copy.
Dafny 2.3 and 4 take maps for equal that hold the same values for the same keys, and say of ``map k
| P(k) :: f(k)`` that it holds ``f(k)`` for all k: with ``map k: int | k in {1} :: k`` and ``map k:
int | k in {1} :: k * k`` the number 200 is its own square. Dafny 2.3 also believes of each such map
that its keys and values are of its type. Mended, it says what a map holds for its own keys, and
these are of its type. Whether the copy is read is seen by the canaries (``selfcheck``), not here.
"""

from __future__ import annotations

import atexit
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from proverrl.verifier.process_group import make_folder, remove_folder

NAME = "DafnyPrelude.bpl"
_KINDS = ("Map", "IMap")
_IN_2_3 = (
    """axiom (forall<U, V> a: [U] bool, b:[U]V, t:Ty ::
      { K#Domain(K#Glue(a, b, t)) } K#Domain(K#Glue(a, b, t)) == a);
    axiom (forall<U, V> a: [U] bool, b:[U]V, t:Ty ::
      { K#Elements(K#Glue(a, b, t)) } K#Elements(K#Glue(a, b, t)) == b);
    axiom (forall<U, V> a: [U] bool, b:[U]V, t:Ty ::
      { $Is(K#Glue(a, b, t), t) } $Is(K#Glue(a, b, t), t));""",
    """axiom (forall a: [Box]bool, b: [Box]Box, t0, t1: Ty, u: Box ::
  { K#Domain(K#Glue(a, b, TK(t0, t1)))[u] }
  K#Domain(K#Glue(a, b, TK(t0, t1)))[u] <==> a[u] && $IsBox(u, t0));
axiom (forall a: [Box]bool, b: [Box]Box, t0, t1: Ty, u: Box ::
  { K#Elements(K#Glue(a, b, TK(t0, t1)))[u] }
  a[u] && $IsBox(u, t0) ==> K#Elements(K#Glue(a, b, TK(t0, t1)))[u] == b[u]);
axiom (forall a: [Box]bool, b: [Box]Box, t0, t1: Ty ::
  { K#Glue(a, b, TK(t0, t1)) }
  (forall u: Box :: a[u] && $IsBox(u, t0) ==> $IsBox(b[u], t1)) ==>
  $Is(K#Glue(a, b, TK(t0, t1)), TK(t0, t1)));""",
)
_IN_4 = (
    """axiom (forall a: Set, b: [Box]Box, t: Ty ::
      { K#Elements(K#Glue(a, b, t)) } K#Elements(K#Glue(a, b, t)) == b);""",
    """axiom (forall a: Set, b: [Box]Box, t: Ty, u: Box ::
  { K#Elements(K#Glue(a, b, t))[u] }
  Set#IsMember(a, u) ==> K#Elements(K#Glue(a, b, t))[u] == b[u]);""",
)


def mend_prelude(folders: Iterable[Path]) -> str:
    """The path of a mended copy of the prelude in one of these folders; "" where none is known."""
    for folder in folders:
        if (found := folder / NAME).is_file():
            return _write(found.read_text(encoding="utf-8"))
    return ""


@cache
def _write(text: str) -> str:
    mended = _mend(text, *_IN_2_3) or _mend(text, *_IN_4)
    if not mended:
        return ""
    folder = make_folder()
    atexit.register(remove_folder, folder)
    path = folder / NAME
    path.write_text(mended, encoding="utf-8")
    return str(path)


def _mend(text: str, old: str, new: str) -> str:
    """The text with ``new`` for the axioms ``old``; "" where it has them not, or otherwise."""
    for kind in _KINDS:
        # Maps without end have no Set of keys in Dafny 4.
        own = (old, new) if kind == "Map" else tuple(map(_unbound, (old, new)))
        was, now = (axioms.replace("K#", f"{kind}#").replace("TK(", f"T{kind}(") for axioms in own)
        found = [*re.finditer(r"\s+".join(map(re.escape, was.split())), text)]
        if len(found) != 1:
            return ""
        text = text[: found[0].start()] + now + text[found[0].end() :]
    return text


def _unbound(axioms: str) -> str:
    return axioms.replace("a: Set", "a: [Box]bool").replace("Set#IsMember(a, u)", "a[u]")
