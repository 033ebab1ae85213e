"""Variants of theorems, certified true or false, as problems that ask which they are.

Flows in: drafts of theorems, a verifier. Flows out: rows of the kind ``decide``, those of a theorem
together. The verifier proves each variant, or its negation; one for which it does neither, and a
true one that needs no proof, is passed over. A theorem is kept when it has a true and a false
variant. ``metadata`` says of a row which ``theorem`` it is of, how many ``variants`` that has, and
whether it ``holds``. No prompt shows that (``tests/lab/test_decisions.py``).
Not handled here: how variants are made (``Deciding.list_variants``).
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from proverrl.generate.families import CurriculumDraft
from proverrl.lab.words.drafts import TheoremGenerator
from proverrl.lab.words.english import English
from proverrl.lab.words.parts import Variant
from proverrl.lab.words.sides import DECIDE, SIDES
from proverrl.problems.drafts import DraftChecker, Row, build_problem
from proverrl.problems.load import make_row
from proverrl.types import Candidate, Problem

_MOST_OF_A_SIDE = 2
_ASKED_AT_ONCE = 5
_MOST_ASKED = 4
_MOST_DRAWN = 400
_OWN_SHARE = 0.5
"""Of theorems that are a variant of their own."""


@dataclass(slots=True)
class DecisionChecker(DraftChecker):
    """Checks the variants of theorems; a draft is a theorem."""

    generator: TheoremGenerator
    seen: set[str] = field(default_factory=set)

    async def check(self, draft: CurriculumDraft) -> list[Row]:
        """The rows of a theorem's variants in some order, with one to two of each side."""
        seed = int.from_bytes(hashlib.sha256(draft.statement.encode("utf-8")).digest(), "big")
        rng = random.Random(seed)
        wanted = {side: rng.randint(1, _MOST_OF_A_SIDE) for side in SIDES}
        found: dict[str, list[tuple[Variant, str]]] = {side: [] for side in SIDES}
        drawn = self._draw(draft, rng)
        for _ in range(_MOST_ASKED):
            asked = list(islice(drawn, _ASKED_AT_ONCE))
            for variant, (side, body) in zip(asked, await self._ask(asked), strict=True):
                is_wanted = side and len(found[side]) < wanted[side]
                if is_wanted and await self._is_certain(draft, variant, side, body):
                    found[side].append((variant, body))
            if all(len(found[side]) == wanted[side] for side in SIDES):
                break
        name = self.generator.build_id(draft)
        missing = [side for side in SIDES if not found[side]]
        if not self.count(name, f"nothing to {' or '.join(missing)}" if missing else ""):
            return []
        kept = [(side, *each) for side in SIDES for each in found[side]]
        rng.shuffle(kept)
        theorem = {"theorem": name, "variants": len(kept)}
        return [self._make_row(draft, rng, theorem, *each) for each in kept]

    async def check_all(
        self, drafts: Iterable[CurriculumDraft]
    ) -> AsyncIterator[tuple[CurriculumDraft, list[Row]]]:
        """As that of drafts, without theorems that share a variant with an earlier one."""
        async for draft, rows in super(DecisionChecker, self).check_all(drafts):
            known = {self.generator.normalise(row["statement"]) for row in rows}
            is_new = not known & self.seen
            self.seen |= known
            if rows and not is_new:
                self.counts.num_kept -= 1
                self.counts.dropped["a variant of an earlier theorem"] += 1
                self.counts.examples.setdefault("a variant of an earlier theorem", rows[0]["id"])
            yield draft, rows if is_new else []

    def _draw(self, draft: CurriculumDraft, rng: random.Random) -> Iterator[Variant]:
        """Distinct claims of the theorem's split, the theorem itself first if it is one of them."""
        problem = Problem("draft", self.generator.language, draft.kind, "", draft.statement)
        drawn = self.generator.deciding.list_variants(Candidate(problem, draft.reference), rng)
        skipped = 0 if rng.random() < _OWN_SHARE else 1
        known = {self.generator.normalise(draft.statement)} if skipped else set()

        for variant in islice(drawn, skipped, _MOST_DRAWN):
            statement = variant.problem.statement
            normal = self.generator.normalise(statement)
            if normal not in known and self.generator.assign_split(statement) == self.split:
                known.add(normal)
                yield variant

    async def _ask(self, variants: Sequence[Variant]) -> list[tuple[str, str]]:
        """The sides that bodies prove, and those bodies; two empty texts where none does."""
        deciding = self.generator.deciding
        asked = deciding.ask_sides(variants) if variants else None
        if asked is not None:
            return deciding.read_sides(variants, await self.judge(asked))
        return [await self._try_all(variant) for variant in variants]

    async def _try_all(self, variant: Variant) -> tuple[str, str]:
        for side, bodies in zip(SIDES, (variant.proofs, variant.refutations), strict=True):
            for body in bodies:
                if await self._is_proved(variant, side, body):
                    return side, body
        return "", ""

    async def _is_certain(
        self, draft: CurriculumDraft, variant: Variant, side: str, body: str
    ) -> bool:
        """True if the body proves the side, and no trivial one proves the claim."""
        if not await self._is_proved(variant, side, body):
            return False
        trivial = self.generator.list_trivial(draft) if side == SIDES[0] else ()
        return not any([await self._is_proved(variant, side, each) for each in trivial])

    async def _is_proved(self, variant: Variant, side: str, body: str) -> bool:
        problem = replace(variant.problem, kind=DECIDE)
        written = self.generator.deciding.write(side, body)
        return (await self.judge(Candidate(problem, written))).proved

    def _make_row(
        self,
        draft: CurriculumDraft,
        rng: random.Random,
        theorem: Row,
        side: str,
        variant: Variant,
        body: str,
    ) -> Row:
        deciding = self.generator.deciding
        own = replace(
            draft,
            kind=DECIDE,
            statement=variant.problem.statement,
            reference=deciding.write(side, body),
            informal=deciding.describe(variant.problem, English(rng, self.split)),
        )
        about = theorem | {"holds": side == SIDES[0]}
        problem = build_problem(self.generator, own, self.split, about)
        return make_row(problem) | {"reference": own.reference}
