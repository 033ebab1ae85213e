"""Ten thousand ways in which a line can be wrong, drawn from a seed; each must be refused.

Not among them: a well-formed line whose body is bad. That is a candidate, and gets a verdict.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from proverrl.types import HOLE

Draw = Callable[[Random], bytes]


def make_good(number: int) -> bytes:
    return dump({"id": f"good-{number}", "language": "dafny", "code": f"lemma L{number}() {{}}"})


def dump(value: object) -> bytes:
    return json.dumps(value).encode()


def make_problem(**changes: Any) -> dict[str, Any]:
    statement = f"lemma L() {{ {HOLE} }}"
    problem = {"id": "p", "language": "dafny", "kind": "statements", "statement": statement}
    return problem | changes


def wrap(problem: object, **changes: Any) -> bytes:
    return dump({"id": "a", "problem": problem, "body": ""} | changes)


def _draw_wrong_value(random: Random) -> Any:
    values = [None, True, random.randint(-9, 9), random.random(), [], ["x"], {}, {"x": "y"}]
    return random.choice(values)


def _draw_cut(random: Random) -> bytes:
    line = make_good(random.randint(0, 99))
    return line[: random.randint(1, len(line) - 1)]


def _draw_not_utf8(random: Random) -> bytes:
    line = bytearray(make_good(random.randint(0, 99)))
    place = random.randint(0, len(line))
    line[place:place] = random.choice([b"\xff", b"\xc3(", b"\xed\xa0\x80", b"\xf5\x80\x80\x80"])
    return bytes(line)


def _draw_noise(random: Random) -> bytes:
    noise = bytes(random.choice(b'abc{}[]",:\\\x01\x7f \xc3\xa9') for _ in range(40))
    return noise.strip() + b"}"


def _draw_nesting(random: Random) -> bytes:
    depth = random.randint(20_000, 60_000)
    opening, closing = random.choice([(b"[", b"]"), (b'{"a":', b"}")])
    middle = b"1" + closing * depth if random.random() < 0.5 else b""
    return b'{"id": "a", "language": "dafny", "code": ' + opening * depth + middle


def _draw_huge_number(random: Random) -> bytes:
    digits = b"9" * random.randint(5000, 20_000)
    return b'{"id": "a", "language": "dafny", "code": ' + digits + b"}"


def _draw_huge_line(random: Random) -> bytes:
    size = random.randint(1, 3) * 2**20
    return dump({"id": "a", "language": "x" * size, "code": ""})


def _draw_wrong_type(random: Random) -> bytes:
    line = {"id": "a", "language": "dafny", "code": ""}
    line[random.choice(["language", "code"])] = _draw_wrong_value(random)
    return dump(line)


def _draw_wrong_id(random: Random) -> bytes:
    wrong = random.choice([None, True, False, 1.5, [], ["a"], {}, {"a": 1}, "", "\ud800", "\0"])
    return dump({"id": wrong, "language": "dafny", "code": ""})


def _draw_bad_text(random: Random) -> bytes:
    bad = random.choice(["\0", "\ud800", "\udfff", "x" * 50 + "\ud83d" + "y"])
    key = random.choice(["body", "prelude"])
    return wrap(make_problem(), **{key: "text" + bad})


def _draw_key_twice(random: Random) -> bytes:
    key = random.choice(["id", "language", "code"])
    return make_good(1)[:-1] + f', "{key}": "again"}}'.encode()


def _draw_missing(random: Random) -> bytes:
    line = json.loads(wrap(make_problem()))
    del line[random.choice(["id", "body"])]
    return dump(line)


def _draw_unknown(random: Random) -> bytes:
    return wrap(make_problem(), **{f"key{random.randint(0, 99)}" * random.randint(1, 99): 1})


def _draw_bad_problem(random: Random) -> bytes:
    changes: dict[str, Any] = random.choice(
        [
            {"kind": "nothing"},
            {"kind": _draw_wrong_value(random)},
            {"language": "coq"},
            {"language": ["dafny"]},
            {"statement": "no hole"},
            {"statement": HOLE * 2},
            {"preamble": HOLE},
            {"preamble": "\ud800"},
            {"id": ""},
            {"metadata": 3},
            {"metadata": {"expected_entries": "x"}},
            {"metadata": {"expected_entries": [1]}},
            {"metadata": {"expected_entries": ["\ud800"]}},
            {"metadata": {"level": "high"}},
            {"metadata": {"level": -1}},
            {"split": "neither"},
            {"who": "knows"},
        ]
    )
    return wrap(make_problem(**changes))


def _draw_no_problem(random: Random) -> bytes:
    return wrap(_draw_wrong_value(random))


def _draw_not_an_object(random: Random) -> bytes:
    return random.choice([b"1", b"null", b"true", b'"text"', b"[]", b"NaN", b"1e999", b"-", b"{}"])


DRAWS: tuple[Draw, ...] = (
    _draw_cut,
    _draw_not_utf8,
    _draw_noise,
    _draw_huge_number,
    _draw_wrong_type,
    _draw_wrong_id,
    _draw_bad_text,
    _draw_key_twice,
    _draw_missing,
    _draw_unknown,
    _draw_bad_problem,
    _draw_no_problem,
    _draw_not_an_object,
)
RARE: tuple[Draw, ...] = (_draw_nesting, _draw_huge_line)
"""One line in a hundred, because each costs as much as a hundred others."""


def iter_malformed(num_lines: int, seed: int) -> Iterator[bytes]:
    """Lines without their line break."""
    random = Random(seed)
    for number in range(num_lines):
        draw = RARE[number // 100 % len(RARE)] if number % 100 == 99 else random.choice(DRAWS)
        yield draw(random)
