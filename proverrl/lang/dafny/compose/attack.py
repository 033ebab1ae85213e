"""Attacks on a Dafny problem that need no model, to show that it is not worth proving.

Flows in: a problem. Flows out: candidates and bodies whose proof says something about the problem:
small runs that break its contract, programs that meet it without doing anything, witnesses against
a lemma, its plainest induction. Not covered: a contract that fails only on larger inputs, or of
types for which ``list_values`` has none; loops inside ``match``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from proverrl.errors import ProblemError
from proverrl.lang.dafny.compose.declarations import Program, conjoin, read_problem, substitute
from proverrl.lang.dafny.syntax.declarations import Declaration, parse_text, split_at
from proverrl.lang.dafny.syntax.parsed import Element, ParsedProgram
from proverrl.types import HOLE, Candidate, Problem

RUN_NAME = "RunProbe"
NUM_RUNS = 4
NUM_WITNESSES = 6
_MAX_TURNS = 5
_MAX_LOOPS = 2

_VALUES: Mapping[str, tuple[str, ...]] = {
    "nat": ("0", "1", "3", "2"),
    "int": ("0", "1", "-2", "3"),
    "bool": ("false", "true"),
    "real": ("0.0", "1.5", "-1.0"),
    "char": ("'a'", "'b'"),
    "string": ('""', '"a"', '"ab"'),
    "set<int>": ("{}", "{3}", "{0, 5}"),
    "seq<bool>": ("[]", "[true]", "[false, true]"),
    "seq<int>": ("[]", "[4]", "[1, 7]"),
}
_ARRAYS = (
    "{0}.Length == 0",
    "{0}.Length == 1 && {0}[0] == 60",
    "{0}.Length == 2 && {0}[0] == 70 && {0}[1] == -70",
)
_DEFAULTS: Mapping[str, str] = {"nat": "0", "int": "0", "bool": "false", "seq<int>": "[]"}


def list_values(kind: str, program: Program, depth: int = 2) -> list[str]:
    """A few small values of a type; none where no value is known."""
    if kind in _VALUES:
        return list(_VALUES[kind])
    datatypes = (d.text.partition("=") for d in program.declarations if d.word == "datatype")
    cases = next((cases for head, _, cases in datatypes if head.split()[-1] == kind), "")
    found: list[str] = []
    for case in split_at(cases, "|"):
        name, _, rest = case.partition("(")
        kinds = [part.rpartition(":")[2].strip() for part in rest.rstrip(" )").split(",")]
        if not rest:
            found.append(name.strip())
        elif depth > 0:
            given = [list_values(k, program, depth - 1)[-1:] for k in kinds]
            if all(given):
                found.append(f"{name.strip()}({', '.join(g[0] for g in given)})")
    return found


def list_inputs(
    target: Declaration, program: Program, num: int, numbers: Sequence[str] = ()
) -> list[dict[str, str]]:
    """Values for all parameters: first all alike in size, then mixed; [] when a type has none."""
    columns = []
    for _, kind in target.formals:
        wanted = {"int": numbers, "nat": [n for n in numbers if not n.startswith("-")]}
        more = wanted.get(kind, ())
        columns.append(list(dict.fromkeys((*list_values(kind, program), *more))))
    if not all(columns):
        return []
    names = [name for name, _ in target.formals]
    longest = max(map(len, columns), default=1)
    alike = [tuple(c[min(i, len(c) - 1)] for c in columns) for i in range(longest)]
    mixed = itertools.islice(itertools.product(*columns), 64)
    rows = list(dict.fromkeys([*alike, *mixed]))[:num]
    return [dict(zip(names, row, strict=True)) for row in rows]


def build_runs(problem: Problem) -> Candidate | None:
    """The program with its method run on a few small inputs, each to break the contract.

    Each run is a copy of the method with its inputs fixed, its loops unrolled and every
    ``ensures`` denied: Dafny proves one only when the method ends in time on these inputs, they
    meet the preconditions, and the contract fails. None for lemmas and unknown types.
    """
    program = read_problem(problem)
    runs = list_runs(program.target, program) if program.target.word == "method" else []
    if not runs:
        return None
    text = Program((*program.others, *runs)).text
    return Candidate(Problem(f"{problem.id}#runs", "dafny", "file", "", HOLE), text)


def name_runs(text: str) -> str:
    """How the names of runs begin: as no word of the program does, which would end all of them."""
    name = RUN_NAME
    while name in text:
        name += "s"
    return name


def list_runs(target: Declaration, program: Program) -> list[Declaration]:
    """Copies of a method that Dafny proves only where it breaks its contract (``build_runs``)."""
    claims, unrolled = target.list_clauses("ensures"), unroll_loops(target.body)
    if not claims or unrolled is None:
        return []
    runs, name = [], name_runs(program.text)
    for number, values in enumerate(list_calls(target, program)):
        requires = "".join(f"\n  assert {text};" for text in target.list_clauses("requires"))
        runs.append(
            target.rewrite(
                name=f"{name}{number}",
                clauses=(
                    *(("requires", value) for value in values),
                    *((w, text) for w, text in target.clauses if w == "modifies"),
                    ("ensures", f"!({conjoin(claims)})"),
                ),
                body="{" + requires + unrolled[1:],
            )
        )
    return runs


def list_denials(
    target: Declaration, program: Program, numbers: Sequence[str] = ()
) -> list[Declaration]:
    """Lemmas that what ``target`` claims fails for small arguments, and for ``numbers``. Sets
    remain parameters: Dafny 4.11 fails inside at ``x in {}``."""
    denied, name = _deny(target), name_runs(program.text)
    inputs = list_inputs(target, program, NUM_WITNESSES + len(numbers), numbers)
    sets = tuple(formal for formal in target.formals if formal[1].startswith("set<"))
    tried = []
    for values in inputs:
        given = tuple(("requires", f"{key} == {values.pop(key)}") for key, _ in sets)
        tried.append((*given, ("ensures", substitute(denied, values))))
    return [
        target.rewrite(name=f"{name}{number}", formals=sets, clauses=clauses, body="{ }")
        for number, clauses in enumerate(dict.fromkeys(tried))
    ]


def _deny(target: Declaration) -> str:
    """The claim that a lemma's demands hold and its conclusions do not."""
    requires = [f"({text})" for text in target.list_clauses("requires")]
    return " && ".join([*requires, f"!({conjoin(target.list_clauses('ensures'))})"])


def list_calls(
    target: Declaration, program: Program, *, num: int = NUM_RUNS, numbers: Sequence[str] = ()
) -> list[list[str]]:
    """Equations that fix the inputs of each run; ``numbers`` are values of whole numbers too."""
    arrays = [name for name, kind in target.formals if kind == "array<int>"]
    plain = target.rewrite(formals=tuple(f for f in target.formals if f[0] not in arrays))
    rows = list_inputs(plain, program, num, numbers)
    if not rows:
        return []
    return [
        [
            *(f"{name} == {value}" for name, value in rows[number % len(rows)].items()),
            *(_ARRAYS[number % len(_ARRAYS)].format(name) for name in arrays),
        ]
        for number in range(max(len(rows), len(_ARRAYS) if arrays else 0))
    ]


def unroll_loops(body: str) -> str | None:
    """A method's body, its loops written out for a few turns and then denied another; their
    clauses are left out. None for a loop in a loop in a loop, and for what cannot be read."""
    try:
        parsed = parse_text("method M() " + body.replace(HOLE, ""))
        written = _unroll(parsed, parsed.root.slots[0].elements[0], 0)
    except ProblemError:
        return None
    return written[written.index("{") :]


def _unroll(parsed: ParsedProgram, element: Element, depth: int) -> str:
    """The element, each ``while`` in it a row of ``if``s."""

    def cut(start: int, end: int) -> str:
        return parsed.text[parsed.places[start] : parsed.places[end]]

    if element.word == "while":
        if depth >= _MAX_LOOPS or len(element.slots) != 2:
            raise ProblemError("the loops are nested too deeply, or have cases")
        clauses, inside = element.slots
        guard = cut(element.start + 1, clauses.start).strip()
        body = "".join(_unroll(parsed, inner, depth + 1) for inner in inside.elements)
        turn = f"if {guard} {{ {body.strip()} }}\n"
        return turn * _MAX_TURNS + f"assert !({guard});\n"
    text, place = "", element.start
    for inner in (e for slot in element.slots for e in slot.elements):
        text += cut(place, inner.start) + _unroll(parsed, inner, depth)
        place = inner.end
    return text + cut(place, element.end)


def list_exploits(problem: Problem) -> Iterator[Candidate]:
    """The program with bodies for its method that do nothing worth saying (the exploit test of
    AlphaVerus, Aggarwal et al. 2024)."""
    program = read_problem(problem)
    target = program.target
    if target.word != "method":
        return
    for number, body in enumerate(list_idle_bodies(target)):
        text = program.with_target(target.rewrite(body=body)).text
        yield Candidate(Problem(f"{problem.id}#exploit{number}", "dafny", "file", "", HOLE), text)


def list_idle_bodies(target: Declaration) -> list[str]:
    """Bodies for a method that do nothing, set fixed values, or hand an input back."""
    fixed = [(name, _DEFAULTS.get(kind)) for name, kind in target.returns]
    lines = [f"  {name} := {value};" for name, value in fixed if value is not None]
    rows = [
        [],
        *(
            [*lines, f"  {name} := {other};"]
            for name, kind in target.returns
            for other, known in target.formals
            if known == kind
        ),
        *([lines] if lines else []),
    ]
    return ["\n".join(["{", *row, "}"]) for row in rows]


def write_witnesses(problem: Problem) -> str | None:
    """A body for the negation of a lemma: small arguments one after another, each the witness when
    the claim fails for it. None where the lemma has no parameters, or a type without values."""
    program = read_problem(problem)
    target = program.target
    inputs = list_inputs(target, program, NUM_WITNESSES)
    if not target.formals or not inputs:
        return None
    denied = _deny(target)
    tests = [f"if {substitute(denied, values)} {{ }}" for values in inputs]
    return "\nelse ".join(tests)


def list_plain_proofs(problem: Problem) -> list[str]:
    """Bodies that prove many lemmas at once: an induction on each whole-number parameter."""
    target = read_problem(problem).target
    if target.word != "lemma" or problem.kind != "statements":
        return []
    names = [name for name, _ in target.formals]
    bodies = []
    for place, (name, kind) in enumerate(target.formals):
        if kind == "nat":
            arguments = ", ".join([*names[:place], f"{name} - 1", *names[place + 1 :]])
            bodies.append(f"if {name} > 0 {{ {target.name}({arguments}); }}")
    return bodies
