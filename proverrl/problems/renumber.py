"""Consistent exchange of constants in a problem and its body: the same proof on other numbers.

Flows in: a statement and a body. Flows out: both texts with their constants from 3 upwards
replaced, equal ones by equal ones. Used to show a learner one reference in many forms, so that it
learns to read constants off the program instead of remembering them; what a learner writes is
judged on the real problem. A body whose constants are not all the statement's own (a computed
one, such as a doubled slope) is left as it is, because exchanging would break the arithmetic.
Not handled here: whether the exchanged program still verifies (two constants may be related).
"""

from __future__ import annotations

import random
import re

SMALLEST = 3
"""0, 1 and 2 are bounds, steps and halves; they keep their meaning and their value."""

_NUMBER = re.compile(r"(?<![A-Za-z0-9_'?.])\d+(?![A-Za-z0-9_'?])")


def renumber(statement: str, body: str, rng: random.Random) -> tuple[str, str]:
    """Both texts with constants exchanged under ``rng``; digits are replaced by digits, numbers
    of two digits by numbers of two digits, and longer ones stay."""
    own = {number for number in map(int, _NUMBER.findall(statement)) if SMALLEST <= number < 100}
    used = {number for number in map(int, _NUMBER.findall(body)) if number >= SMALLEST}
    if not used <= own:
        return statement, body
    mapping: dict[int, int] = {}
    for low, high in ((SMALLEST, 10), (10, 100)):
        mine = sorted(number for number in own if low <= number < high)
        mapping |= zip(mine, rng.sample(range(low, high), len(mine)), strict=True)

    def replace(match: re.Match[str]) -> str:
        number = int(match.group())
        return str(mapping.get(number, number))

    return _NUMBER.sub(replace, statement), _NUMBER.sub(replace, body)
