"""The prelude that Dafny reads: its own, less what proves anything.

Flows in: the folders in which an installed Dafny may keep it. Flows out: the path of a mended copy.
Dafny 2.3 and 4 take maps for equal that hold the same values for the same keys, and say of ``map k
| P(k) :: f(k)`` that it holds ``f(k)`` for all k: with ``map k: int | k in {1} :: k`` and ``map k:
int | k in {1} :: k * k`` the number 200 is its own square. Dafny 2.3 also believes of each such map
that its keys and values are of its type. Mended, the prelude says what a map holds for its own
keys, and these are of its type.

An axiom also speaks of terms that stand behind a condition, as in ``set u: int | u in {1} &&
o.Offset > 0 && o - 1 + 1 == o``. Both Dafnys believe there of an ORDINAL ``o`` without a
predecessor that ``o - 1 + 1`` is ``o``, which has one. Dafny 2.3 believes of ``multiset{}[0 := k]``
with a negative ``k`` that it holds something. Mended, the first holds for what may be subtracted,
and the size of a multiset says something where no number in it is negative. Whether the copy is
read is seen by the canaries (``selfcheck``), not here.
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
# In place of the two of 2.3 about the size of a multiset alone, where an update may hold -1. That
# one is known to be good spares z3 the search for a negative number.
_SIZE_IN_2_3 = """axiom (forall<T> s: MultiSet T :: { MultiSet#Card(s) }
  (!$IsGoodMultiSet(s) && (exists x: T :: { s[x] } s[x] < 0)) ||
  (0 <= MultiSet#Card(s) &&
  (MultiSet#Card(s) == 0 <==> s == MultiSet#Empty()) &&
  (MultiSet#Card(s) != 0 ==> (exists x: T :: 0 < s[x]))));"""
_SIZE = re.compile(r"\{\s*MultiSet#Card\(s\)\s*\}")
_MULTISETS_IN_2_3 = "type MultiSet T = [T]int;"
_SUM_OF_DIFFERENCE = re.compile(r"\{\s*ORD#Plus\(ORD#Minus\(o, ORD#FromNat\(m\)\)")
_SUBTRACTS, _MAY_SUBTRACT = "n <= ORD#Offset(o) + m", "m <= ORD#Offset(o)"
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
        text = _mend_maps(text, kind, *keys)
    text = _mend_multisets(_mend_ordinals(text))
    if not text:
        return ""
    folder = make_folder()
    atexit.register(remove_folder, folder)
    path = folder / NAME
    path.write_text(text, encoding="utf-8")
    return str(path)


def _find_axioms(text: str, form: re.Pattern[str]) -> list[re.Match[str]]:
    """The axioms in which this form stands."""
    return [axiom for axiom in _AXIOM.finditer(text) if form.search(axiom[0])]


def _mend_maps(text: str, kind: str, keys: str, has: str) -> str:
    """The text with other axioms about the comprehensions of this kind of map; "" where its own are
    others than those that are known."""
    found = _find_axioms(text, re.compile(rf"\b{kind}#Glue\("))
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


def _mend_ordinals(text: str) -> str:
    """The text in which ``o - m + n`` is known where ``o - m`` is defined; "" where it is others
    than those that are known."""
    found = _find_axioms(text, _SUM_OF_DIFFERENCE)
    if [axiom[0].count(_SUBTRACTS) for axiom in found] != [1]:
        return ""
    mended = found[0][0].replace(_SUBTRACTS, _MAY_SUBTRACT)
    return text[: found[0].start()] + mended + text[found[0].end() :]


def _mend_multisets(text: str) -> str:
    """The text in which the size of a multiset says nothing where a number in it is negative; ""
    where its own axioms are others than those that are known. Those of 4 have no such number."""
    if _MULTISETS_IN_2_3 not in text:
        return text
    found = _find_axioms(text, _SIZE)
    if ["exists" in axiom[0] for axiom in found] != [False, True]:
        return ""
    (start, end), (first, last) = (axiom.span() for axiom in found)
    return text[:start] + text[end:first] + _SIZE_IN_2_3 + text[last:]
