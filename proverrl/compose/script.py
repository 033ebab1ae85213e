"""Scripts: the small language in which a model composes, one operator per line.

Flows in: a text, and the two parents that the model was shown as ``a`` and ``b``. Flows out: a
``Composed`` problem, or the reason why there is none. A line is an operator, the parents that it
takes, and a number from 0 to 7 that picks one of its choices (a constant, a bound, ...)::

    change_constant a 3
    sequence_loops a b 0

The result of a line replaces its first parent; the last line makes the statement. The same
script of the same parents is the same statement everywhere.
Not handled here: who writes scripts, and whether a statement may be used (``filters``).
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from proverrl.compose.archive import Composed
from proverrl.compose.operators import (
    build_composed,
    compose,
    get_operator,
    list_operators,
    read_generation,
)
from proverrl.curriculum.base import Belief
from proverrl.errors import ProblemError
from proverrl.lang.records import Made, Parent

NAMES = ("a", "b")
MAX_LINES = 3
NUM_VARIANTS = 8

_LINE = re.compile(r"([a-z_]+)((?: [ab])+) ([0-7])")


@dataclass(frozen=True, slots=True)
class ScriptLine:
    """An operator, the names of the parents it takes, and the number of its choice."""

    operator: str
    names: tuple[str, ...]
    variant: int

    def __str__(self) -> str:
        return f"{self.operator} {' '.join(self.names)} {self.variant}"


@dataclass(frozen=True, slots=True)
class Script:
    """The lines of a text; ``reason`` says why it is no script."""

    lines: tuple[ScriptLine, ...] = ()
    reason: str = ""

    def __str__(self) -> str:
        return "\n".join(map(str, self.lines))


def read_script(text: str, operators: Sequence[str]) -> Script:
    """A text as a script of these operators; anything else has a reason why not."""
    rows = text.strip().split("\n")
    if len(rows) > MAX_LINES:
        return Script(reason=f"more than {MAX_LINES} lines")
    lines = []
    for row in rows:
        match = _LINE.fullmatch(row.strip())
        if match is None:
            return Script(reason="not a line of a script")
        if match[1] not in operators:
            return Script(reason="no such operator")
        names = tuple(match[2].split())
        if len(set(names)) != len(names) or len(names) != get_operator(match[1]).arity:
            return Script(reason="the operator takes other parents")
        lines.append(ScriptLine(match[1], names, int(match[3])))
    return Script(tuple(lines))


def apply_script(
    script: Script, parents: Sequence[Parent], *, round_number: int
) -> Composed | None:
    """The problem that a script makes; None where a line does not apply to its parents.

    Raises ``ProblemError`` when a parent is not a training problem.
    """
    values = dict(zip(NAMES, parents, strict=True))
    made: Composed | None = None
    for line in script.lines:
        given = [values[name] for name in line.names]
        # Round 0 always: a number means the same choice whenever the model writes it.
        made = compose(line.operator, given, round_number=0, seed=line.variant)
        if made is None:
            return None
        values[line.names[0]] = Parent(made.problem, made.reference)
    if made is None:
        return None
    problem = made.problem
    operators = [line.operator for line in script.lines]
    used = {name for line in script.lines for name in line.names}
    descent = [p.problem for name, p in zip(NAMES, parents, strict=True) if name in used]
    text = problem.preamble + problem.statement
    if any(read_generation(p) and p.preamble + p.statement == text for p in descent):
        # Lines that undo each other give a composed parent its own id back, which no problem may
        # descend from. From a base problem they make a duplicate, which the filter stops.
        return None
    whole = build_composed(
        Made(problem.kind, problem.statement, made.reference, problem.preamble),
        descent,
        "+".join(operators),
        round_number=round_number,
        seed=script.lines[-1].variant,
    )
    # Families are what curricula count by; sequences of operators would be too many of them.
    metadata = {**whole.problem.metadata, "family": operators[-1]}
    return replace(whole, problem=replace(whole.problem, metadata=metadata))


def write_script(
    rng: random.Random,
    parents: Sequence[Parent],
    operators: Sequence[str],
    *,
    two_lines: float = 0.0,
    beliefs: Mapping[str, Belief] | None = None,
) -> Script | None:
    """A random script that applies to the parents, of two lines with the chance ``two_lines``; None
    where no operator applies. Every operator has the same chance to be tried first; with
    ``beliefs`` (Beta parameters by operator) the chance is that it is the most useful one
    (Thompson's sampling)."""
    values = list(parents)
    lines: list[ScriptLine] = []
    for _ in range(1 + (rng.random() < two_lines)):
        found = _find_line(rng, values, _order(rng, operators, beliefs))
        if found is None:
            break
        line, made = found
        lines.append(line)
        values[NAMES.index(line.names[0])] = made
    return Script(tuple(lines)) if lines else None


def _order(
    rng: random.Random, operators: Sequence[str], beliefs: Mapping[str, Belief] | None
) -> list[str]:
    if beliefs is None:
        return rng.sample(list(operators), len(operators))
    drawn = {name: rng.betavariate(*beliefs.get(name, [1.0, 1.0])) for name in operators}
    return sorted(operators, key=lambda name: -drawn[name])


def _find_line(
    rng: random.Random, values: Sequence[Parent], operators: Sequence[str]
) -> tuple[ScriptLine, Parent] | None:
    for name in operators:
        order = rng.sample(NAMES, len(NAMES))[: get_operator(name).arity]
        line = ScriptLine(name, tuple(order), rng.randrange(NUM_VARIANTS))
        given = [values[NAMES.index(n)] for n in line.names]
        made = compose(name, given, round_number=0, seed=line.variant)
        if made is not None:
            return line, Parent(made.problem, made.reference)
    return None


def check_operators(language: str, chosen: Sequence[str]) -> list[str]:
    """The operators of a language; of the ``chosen`` ones, where some are chosen. Raises
    ``ProblemError`` if none of the chosen ones is for the language."""
    operators = [name for name in list_operators(language) if not chosen or name in chosen]
    if not operators:
        raise ProblemError(
            f"selfplay.operators names none for {language}; leave it empty to use all of them"
        )
    return operators
