"""Clients that mean harm, at a server that listens, while an honest client goes on asking.

Each attack must leave every honest verdict right, the queue empty and the server alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from proverrl.lang.base import BackendOptions
from proverrl.serve.settings import ServeSettings
from proverrl.types import Candidate, Verdict
from proverrl.verifier.base import Limits
from tests.fake_verifier import FakeVerifier
from tests.serve_world import SETTINGS, in_loop, judge, listen, wait_for

KEY = "k" * 32
IDLE = "\nproverrl_inside 0.0\n"
WORKERS = 4
Attack = Callable[[int, FakeVerifier], Awaitable[None]]


async def ask_honestly(client: httpx2.AsyncClient, number: int) -> None:
    rows = [
        {"id": word, "language": "dafny", "code": f"{word} {number}"} for word in ("good", "bad")
    ]
    answer = await client.post("/v1/verify", json={"candidates": rows})
    assert answer.status_code == 200
    found = [each["status"] for each in answer.json()["results"]]
    assert found == ["proved", "rejected"]


class Patient(FakeVerifier):
    """Judges ``left ...`` only when nobody waits for it any more: never."""

    async def verify(self, candidate: Candidate, **how: Any) -> Verdict:
        if not candidate.body.startswith("left"):
            return await super().verify(candidate, **how)
        self.calls.append(candidate)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.num_cancelled += 1
            raise
        raise AssertionError("nothing sets this event")


async def survive(attack: Attack, settings: ServeSettings = SETTINGS) -> FakeVerifier:
    """The verifier behind the server, once the attack is over and nothing of it is left."""
    options = BackendOptions(workers=WORKERS, limits=Limits())
    fake = Patient(judge, delay_seconds=0.001)
    async with listen(replace(settings, options=options), fake) as port:
        headers = {"Authorization": KEY}
        url = f"http://127.0.0.1:{port}"
        async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=60) as client:
            # Client, server and attack share one event loop, which an attack may hold for longer
            # than ``read_seconds``. The server would rightly end a connection that is opened
            # meanwhile, since its headers are not sent; one that has been used is not timed.
            await ask_honestly(client, 0)
            under_way = asyncio.ensure_future(attack(port, fake))
            number = 1
            while not under_way.done() or number < 20:
                await ask_honestly(client, number)
                number += 1
            await under_way
            await wait_for(lambda: fake.num_calls >= 2 * number)
            # That the last client has gone may be noticed a moment later.
            async with asyncio.timeout(20):
                while IDLE not in (await client.get("/metrics")).text:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert (await client.get("/health")).json() == {"status": "ok"}
    return fake


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str, body: bytes
) -> int:
    """The status of one request on an open connection; its answer, which is never long, is read to
    the end."""
    writer.write(f"{head}\r\nHost: s\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    status = int((await reader.readline()).split()[1])
    length = 0
    while (line := await reader.readline()) != b"\r\n":
        name, _, value = line.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
    assert length < 400_000
    await reader.readexactly(length)
    return status


HELD = "theorem t : 1 = 1 := by\n  /*{HOLE}*/\n"
LEMMA = "lemma L()\n  ensures 1 == 1\n{\n  /*{HOLE}*/\n}\n"
STRANGERS = [
    ("lean", "axiom bad : False\n", HELD),
    ("lean", '#eval IO.FS.readFile "/etc/passwd"\n', HELD),
    ("lean", 'run_cmd Lean.logInfo ""\n', HELD),
    ("lean", 'open Lean in\nelab "x" : tactic => pure ()\n', HELD),
    ("lean", "initialize x : Nat ← pure 1\n", HELD),
    ("lean", "", HELD + "\n#eval IO.Process.exit 0\n"),
    ("lean", "theorem u : False := by native_decide\n", HELD),
    ("dafny", 'include "/etc/hostname"\n', LEMMA),
    ("dafny", "lemma {:axiom} Bad() ensures false\n", LEMMA),
    ("dafny", "lemma Bad() ensures false\n", LEMMA),
    ("dafny", "", LEMMA + "lemma {:verify false} Bad() ensures false {}\n"),
    ("dafny", "", LEMMA + "lemma Bad() ensures false { assume false; }\n"),
    # What ends the audit's reading, or its patience, before the cheat.
    ("dafny", 'include "/etc/hostname"\nconst s := "é"\n', LEMMA),
    ("dafny", "const c := " + 300 * "(" + "1" + 300 * ")" + "\nlemma Bad() ensures false\n", LEMMA),
    ("lean", 12 * "theorem u : False := sorry\n" + '#eval IO.FS.readFile "/etc/passwd"\n', HELD),
    ("lean", 'notation "z/-" => True\ntheorem q : z/- := trivial\n#eval 1\n-- -/\n', HELD),
    ("dafny", "const x := " + 900 * "a<" + "1\n", LEMMA),
    ("lean", 12 * "theorem u : False := by exact?\n" + "axiom bad : False\n", HELD),
]


@in_loop
async def test_problems_of_strangers() -> None:
    """A client writes the problem as well, and what runs or reads files never reaches a worker."""
    kinds = {"lean": "tactics", "dafny": "statements"}
    rows = [
        {
            "id": str(number),
            "problem": {
                "id": "p",
                "language": language,
                "kind": kinds[language],
                "preamble": preamble,
                "statement": statement,
            },
            "body": "good",
        }
        for number, (language, preamble, statement) in enumerate(STRANGERS)
    ]
    # A bare file is its body: what stood before it would be read by no audit.
    cheat = "lemma {:axiom} Bad() ensures false\n"
    bare = {"language": "dafny", "kind": "file", "preamble": cheat, "statement": "/*{HOLE}*/"}
    row = {"id": "bare", "problem": {"id": "p", **bare}, "body": "lemma L() ensures false {Bad();}"}
    honest = {"id": "p", "language": "dafny", "kind": "statements", "statement": LEMMA}
    rows += [row, {"id": "honest", "problem": honest, "body": "good"}]

    async def attack(port: int, fake: FakeVerifier) -> None:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            answer = await client.post("/v1/verify", json={"candidates": rows})
        found = [each.get("cause", each["status"]) for each in answer.json()["results"]]
        assert found == ["bad-problem"] * len(STRANGERS) + ["malformed", "proved"]

    fake = await survive(attack)
    assert {each.problem.statement for each in fake.calls} == {"/*{HOLE}*/", LEMMA}


CODE = "method M(n: nat) returns (r: int)\n  ensures r == n\n  /*{HOLE}*/\n"
WORDS = (
    "method M(n: nat) returns (r: int)\n  /*{HOLE}*/\n  decreases *\n{ r := W(n); }\n"
    "method W(n: nat) returns (r: int)\n  ensures r == n\n  decreases *\n{ r := M(n); }\n"
)
PAIR = "method W(n: nat) returns (r: int)\n  ensures r == n\n{ r := M(n); }\n"
WRITTEN = [
    ("contract", "", WORDS),
    ("program", "", CODE),
    ("program", "", CODE.replace("  ensures r == n\n", "") + PAIR),
]


@in_loop
async def test_what_is_written_from_words_is_judged_and_its_cheats_are_not() -> None:
    """A contract and a program have a method without contract or body at their hole; all else of
    theirs, what stands behind the hole too, is held to what any stranger's text is."""
    texts = {text for language, *two in STRANGERS if language == "dafny" for text in two}
    cheats = {text.removeprefix(LEMMA) for text in texts} - {""}
    cheats |= {"lemma Bad() ensures false decreases * { Bad(); }\n", "method N() ensures false\n"}
    # More of what is allowed than an audit lists.
    many = "".join(f"method N{i}()\n  decreases *\n{{ }}\n" for i in range(12))
    attacks = [
        (kind, preamble + head, statement + tail)
        for kind, head, statement in WRITTEN
        for cheat in sorted(cheats)
        for preamble, tail in ((cheat, ""), ("", cheat), (many + cheat, ""))
    ]
    asked = [*WRITTEN, ("contract", many, WORDS), *attacks]
    rows = [
        {
            "id": str(number),
            "problem": {
                "id": "p",
                "language": "dafny",
                "kind": kind,
                "preamble": preamble,
                "statement": statement,
            },
            "body": "{ r := good; }" if kind == "program" else "ensures good",
        }
        for number, (kind, preamble, statement) in enumerate(asked)
    ]

    async def attack(port: int, fake: FakeVerifier) -> None:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            answer = await client.post("/v1/verify", json={"candidates": rows})
        found = [each.get("cause", each["status"]) for each in answer.json()["results"]]
        assert found == ["proved"] * 4 + ["bad-problem"] * len(attacks)

    assert len(attacks) == 3 * 3 * len(cheats) > 70
    await survive(attack)


PIECES = ["[", "]", "{", "}", '"', ",", ":", "\\ud800", "\\u0000", "null", "1e999", "-", "NaN"]
PIECES += ['"candidates"', '"code"', '"language"', '"dafny"', '"id"', '"statement"', "true", "\xe9"]


@pytest.mark.slow
@in_loop
async def test_ten_thousand_malformed_requests() -> None:
    statuses: Counter[int] = Counter()

    async def attack(port: int, fake: FakeVerifier) -> None:
        random_ = random.Random(7)
        valid = json.dumps({"candidates": [{"id": "a", "language": "dafny", "code": "bad"}]})
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        paths = ("/v1/verify", "/api/check")
        for number in range(10_000):
            if number % 2:
                text = "".join(random_.choices(PIECES, k=random_.randrange(30)))
            else:
                # Cut somewhere, or one character of it replaced by a bracket, which breaks it too.
                at = random_.randrange(len(valid))
                text = valid[:at] + random_.choice(["", "}" + valid[at + 1 :]])
            head = f"POST {paths[number % len(paths)]} HTTP/1.1"
            statuses[await exchange(reader, writer, head, text.encode())] += 1
        writer.close()

    await survive(attack)
    assert statuses.total() == 10_000
    # A bracket inside a string breaks nothing: some are judged after all, none is a server's error.
    assert set(statuses) <= {200, 422}
    assert statuses[422] > 9_000


@in_loop
async def test_slow_loris() -> None:
    async def attack(port: int, fake: FakeVerifier) -> None:
        head = b"POST /v1/verify HTTP/1.1\r\nHost: s\r\n"
        whole = head + b"Content-Length: 1000\r\n\r\n"
        opened = []
        for number in range(200):
            opened.append(await asyncio.open_connection("127.0.0.1", port))
            # Half of them never end their headers, the others never their bodies.
            opened[-1][1].write(head[:1] if number % 2 else whole + b"x")
        for at in range(60):
            for reader, writer in opened[1::2]:
                if not reader.at_eof():
                    writer.write(head[at % len(head)].to_bytes())
            await asyncio.sleep(0.002)
        for number, (reader, writer) in enumerate(opened):
            if number % 2:
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
            else:
                assert (await reader.readline()).split()[1] == b"408"
            writer.close()

    fake = await survive(attack, replace(SETTINGS, read_seconds=0.3))
    assert {each.body.split()[0] for each in fake.calls} == {"good", "bad"}


@in_loop
async def test_headers_without_end() -> None:
    """Before any key is asked for: too many of them, or too slow, ends the connection."""

    async def attack(port: int, fake: FakeVerifier) -> None:
        for line, most in ((b"a: b\r\n", 20_000), (b"", 1)):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST /v1/verify HTTP/1.1\r\nHost: s\r\n")
            with contextlib.suppress(ConnectionError):
                for _ in range(most):
                    writer.write(line)
                    await writer.drain()
                assert await reader.read() == b""
            writer.close()

    fake = await survive(attack, replace(SETTINGS, read_seconds=0.5))
    assert {each.body.split()[0] for each in fake.calls} == {"good", "bad"}


@pytest.mark.parametrize("rows", [b"X-a: b\r\n", b"X-a: b" + b"b" * 4_000])
@in_loop
async def test_what_follows_a_body_without_end(rows: bytes) -> None:
    """Trailers are no headers, and a key was not asked for: they are counted like headers."""
    num_sent: list[int] = []

    async def attack(port: int, fake: FakeVerifier) -> None:
        for path in (b"/v1/verify", b"/health"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            head = b" HTTP/1.1\r\nHost: s\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
            writer.write(b"POST " + path + head)
            num = 0
            with contextlib.suppress(ConnectionError):
                while num < 2**24:
                    writer.write(rows if num else rows[:6])
                    num += len(rows)
                    await writer.drain()
                await reader.read()
            num_sent.append(num)
            writer.close()

    await survive(attack, replace(SETTINGS, keys=(KEY,)))
    # What the sockets hold goes out before the end is seen.
    assert max(num_sent) < 2**24


@in_loop
async def test_a_long_header_in_one_piece() -> None:
    async def attack(port: int, fake: FakeVerifier) -> None:
        for num, answers in ((60_000, True), (70_000, False)):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /health HTTP/1.1\r\nHost: s\r\nA: " + b"a" * num + b"\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                assert (await reader.read(9) == b"HTTP/1.1 ") == answers
            writer.close()

    await survive(attack)


@in_loop
async def test_a_request_behind_another_in_one_piece_costs_it_nothing() -> None:
    """The next one's head may be as slow as it likes meanwhile."""

    async def attack(port: int, fake: FakeVerifier) -> None:
        rows = [{"id": "a", "language": "dafny", "code": "good " + "x" * 60_000}]
        body = json.dumps({"candidates": rows * 2}).encode()
        head = f"POST /v1/verify HTTP/1.1\r\nHost: s\r\nContent-Length: {len(body)}\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.encode() + body + b"GET /health HTTP/1.1\r\nHost: s\r\n")
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200")
        writer.close()

    await survive(attack)


@in_loop
async def test_keys_are_guessed() -> None:
    statuses: Counter[int] = Counter()

    async def attack(port: int, fake: FakeVerifier) -> None:
        guesses = [KEY[:-1], KEY + "k", KEY.upper(), "", " ", "k" * 5_000]
        guesses += [KEY[:-1] + chr(code) for code in range(33, 127) if chr(code) != "k"]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = b'{"candidates": [{"id": "a", "language": "dafny", "code": "stolen"}]}'
        for guess in guesses * 10:
            head = f"POST /v1/verify HTTP/1.1\r\nAuthorization: Bearer {guess}"
            statuses[await exchange(reader, writer, head, body)] += 1
        writer.close()

    fake = await survive(attack, replace(SETTINGS, keys=(KEY,)))
    assert statuses == {401: 990}
    assert not [each for each in fake.calls if "stolen" in each.body]


@in_loop
async def test_a_storm_of_cancelled_requests() -> None:
    async def attack(port: int, fake: FakeVerifier) -> None:
        for number in range(300):
            rows = [
                {"id": str(n), "language": "dafny", "code": f"left {number} {n}"} for n in range(50)
            ]
            body = json.dumps({"candidates": rows}).encode()
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            head = f"POST /v1/verify HTTP/1.1\r\nHost: s\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            await writer.drain()
            if number % 3:
                await asyncio.sleep(0.001)
            writer.close()

    fake = await survive(attack)
    left = [each for each in fake.calls if each.body.startswith("left")]
    assert len(left) == fake.num_cancelled > 0


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (gzip.compress(b" " * 10_000_000), "\r\nContent-Encoding: gzip", 415),
        (b'{"candidates": ' + b"[" * 900_000, "", 422),
        (b'{"candidates": [' + b"9" * 900_000 + b"]}", "", 422),
        (b'{"candidates": [' + b"1," * 400_000 + b"1]}", "", 413),
        (b'{"candidates": [' + b'{"a":1},' * 900 + b"1]}", "", 200),
        (b'{"candidates": [{"code": "' + b"x" * 900_000 + b'"}]}', "", 200),
        (b'{"candidates": {"' + b"\\u0000" * 100_000 + b'": 1}}', "", 422),
        (b" " * 2_000_000, "", 413),
        (b'{"snippets": [' + b"0," * 400_000 + b"0]}", "/api/check", 422),
    ],
    ids="gzip deep number many rows text zeros huge snippets".split(),
)
@in_loop
async def test_bombs(body: bytes, headers: str, status: int) -> None:
    path = headers if headers.startswith("/") else "/v1/verify"
    headers = headers.removeprefix(path)

    async def attack(port: int, fake: FakeVerifier) -> None:
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            head = f"POST {path} HTTP/1.1{headers}"
            assert await exchange(reader, writer, head, body) == status
            writer.close()

    fake = await survive(attack, replace(SETTINGS, max_body_bytes=1_000_000))
    assert {each.body.split()[0] for each in fake.calls} == {"good", "bad"}
