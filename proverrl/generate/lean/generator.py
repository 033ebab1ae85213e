"""A curriculum of theorems of core Lean, each with one hole, over six levels.

Level 1 has one or two tactics; levels 2 and 3 have first case distinctions, quantifiers, rewriting
and inductions; levels 4 to 6 have proofs of 6 to 20 tactics that branch, about propositions,
relations, own types, predicates, functions and small programs. Everything that a theorem needs and
core Lean does not surely have is declared in the statement. Not handled here: how drafts are drawn
and split (``proverrl.generate.families``).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence

from proverrl.config.base import DafnyVersion
from proverrl.generate.families import CurriculumDraft, Family, Generator, LearnMetadata
from proverrl.generate.lean import data, level1, level2, level3, numbers, programs, routes, trees
from proverrl.generate.lean.draft import POOLS
from proverrl.lang.base import BackendOptions
from proverrl.lang.lean.syntax.tokens import scan_code
from proverrl.lang.lean.verify.backend import open_lean
from proverrl.lang.pools import Pools
from proverrl.verifier.base import LanedVerifier, Limits

_PORTFOLIO = ("rfl", "trivial", "decide", "simp", "omega")
_OURS = frozenset(name for pool in POOLS.values() for names in pool for name in names)


_MODULES = (
    {1: level1.FAMILIES, 2: level2.FAMILIES, 3: level3.FAMILIES},
    data.FAMILIES,
    numbers.FAMILIES,
    trees.FAMILIES,
    programs.FAMILIES,
    routes.FAMILIES,
)


class LeanGenerator(Generator):
    """Families over six levels, some of them kept back."""

    language = "lean"
    families: Mapping[int, Mapping[str, Family]] = {
        level: {name: make for module in _MODULES for name, make in module.get(level, {}).items()}
        for level in range(1, 7)
    }
    unseen: frozenset[str] = frozenset(
        """l1_deliver l1_derive l2_choice l3_meet l3_lift l4_mono l5_equal l5_tree l6_cases
        l6_flat""".split()
    )
    pools: Pools = POOLS

    def normalise(self, statement: str) -> str:
        """The tokens, without the theorem's name and with its hypotheses in no order.

        Two theorems that differ in names of the pools, and in the order of what they bind, have one
        form. Colour refinement (Weisfeiler and Leman, 1968) replaces each bound name by where it
        occurs; names of other binders and of declarations are numbered by first occurrence.
        """
        declared, bound, goal = _read_theorem(statement)
        numbers: dict[str, str] = {}
        head = _rename(declared, {}, numbers)
        colours = {words[0]: "bound" for words in bound}
        for _ in bound:
            places: dict[str, list[str]] = {name: [] for name in colours}
            for words in (*bound, goal):
                form = _rename(words, colours, dict(numbers))
                for i, word in enumerate(words):
                    if word in colours:
                        places[word].append(f"{i} {form}")
            colours = {
                name: hashlib.sha256(repr(sorted(found)).encode()).hexdigest()[:16]
                for name, found in places.items()
            }
        forms = sorted(_rename(words, colours, dict(numbers)) for words in bound)
        return "\n".join((head, *forms, _rename(goal, colours, dict(numbers))))

    def list_trivial(self, draft: CurriculumDraft) -> Sequence[str]:
        """A fixed portfolio, above level 1."""
        return _PORTFOLIO if draft.level > 1 else ()

    def open_verifier(
        self, workers: int, dafny_version: DafnyVersion = "auto"
    ) -> tuple[LanedVerifier, LearnMetadata]:
        """Nothing is learned: rows are the same whatever Lean checked them. References are ours, no
        policy's, so that a fresh process confirms one in ten."""
        options = BackendOptions(workers=workers, limits=Limits(), confirm="sample:0.1")
        backend = open_lean(options)
        return backend.verifier, lambda problem: {}


def _split_tokens(statement: str) -> list[str]:
    return [part for token in scan_code(statement) for part in re.split(r"(\.)", token.text)]


def _read_theorem(statement: str) -> tuple[list[str], list[list[str]], list[str]]:
    """The tokens before the last theorem, of what it binds (name, bracket and type), and of its
    goal. Dotted names are taken apart."""
    tokens = _split_tokens(statement)
    start = len(tokens) - tokens[::-1].index("theorem")
    bound, place = [], start + 1
    while tokens[place] != ":":
        opened, depth = place, 0
        while place == opened or depth:
            depth += (tokens[place] in "({[") - (tokens[place] in ")}]")
            place += 1
        colon = tokens.index(":", opened)
        kind = [tokens[opened], *tokens[colon + 1 : place]]
        bound += [[name, *kind] for name in tokens[opened + 1 : colon]]
    return tokens[: start - 1], bound, tokens[place:]


def number_names(statement: str) -> str:
    """The tokens, with names of the pools numbered by first occurrence."""
    return _rename(_split_tokens(statement), {}, {})


def _rename(words: Sequence[str], colours: Mapping[str, str], numbers: dict[str, str]) -> str:
    """Coloured names by their colours, other names of the pools by number; ``numbers`` grows."""
    renamed = []
    for word in words:
        if word in _OURS and word not in colours:
            numbers.setdefault(word, f"n{len(numbers)}")
        renamed.append(colours.get(word) or numbers.get(word) or word)
    return " ".join(renamed)


GENERATOR = LeanGenerator()
