"""The HTTP interface over a verifier without a prover: what clients are told, and who waits."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from proverrl.errors import CanaryError, ProblemError, ToolchainError, UsageError
from proverrl.lang.base import BackendOptions
from proverrl.lang.dafny.audit.bodies import audit_candidate
from proverrl.problems.inputs import make_file_candidate
from proverrl.serve.desk import Reservation, Room, _for_clients
from proverrl.serve.kimina import to_answer
from proverrl.serve.settings import ServeSettings, is_loopback, read_keys
from proverrl.types import Candidate, Diagnostic, Status, Verdict
from proverrl.verifier.base import Lane, Limits
from proverrl.verifier.pool import Ticket, Turns
from proverrl.verifier.remote_server import DISTRUSTED
from tests.fake_verifier import FakeVerifier
from tests.instant_worker import ask
from tests.serve_world import SETTINGS, build_app, in_loop, judge, listen, wait_for

KEY, OTHER = "k" * 32, "o" * 32


def program(name: str, code: str) -> dict[str, Any]:
    return {"id": name, "language": "dafny", "code": code}


@asynccontextmanager
async def open_client(
    settings: ServeSettings = SETTINGS, fake: FakeVerifier | None = None, key: str = ""
) -> AsyncIterator[httpx2.AsyncClient]:
    inner = fake or FakeVerifier(judge)
    app = build_app(settings, inner)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://s", headers=headers) as c:
        yield c
    await inner.aclose()


async def post(client: httpx2.AsyncClient, path: str, body: Any, **more: Any) -> httpx2.Response:
    return await client.post(path, json=body, **more)


@in_loop
async def test_verdicts_come_in_order_and_a_bad_candidate_costs_only_itself() -> None:
    async with open_client() as client:
        rows = [program("a", "good"), {"id": "b"}, program("c", "bad"), 7, program("a", "good")]
        answer = await post(client, "/v1/verify", {"candidates": rows})
    results = answer.json()["results"]
    assert answer.status_code == 200
    assert [row["id"] for row in results] == ["a", "b", "c", "", "a"]
    assert [row["status"] for row in results] == ["proved", "error", "rejected", "error", "proved"]
    assert [row["index"] for row in results] == [0, 1, 2, 3, 4]
    assert results[1]["message"] == "candidates:2: missing: code, language"
    assert results[3]["message"] == "candidates:4: not a JSON object"


@in_loop
async def test_half_characters_cost_their_candidate_alone() -> None:
    async with open_client() as client:
        rows = [program("a", "\ud800"), program("\ud800", "good"), program("c", "good")]
        body = json.dumps({"candidates": [*rows, {"\ud800": 1}]})
        results = (await client.post("/v1/verify", content=body)).json()["results"]
    assert [row["status"] for row in results] == ["error", "error", "proved", "error"]


@in_loop
async def test_half_characters_in_names_cost_their_candidate_alone() -> None:
    rows = json.dumps([program("a", "good"), {**program("b", "good"), "\ud800": 1}])
    async with open_client() as client:
        for accept in ("application/json", "application/x-ndjson"):
            answer = await client.post(
                "/v1/verify", content=f'{{"candidates": {rows}}}', headers={"Accept": accept}
            )
            assert answer.status_code == 200
            assert answer.text.count('"proved"') == answer.text.count('"malformed"') == 1


@in_loop
async def test_a_statement_is_held_to() -> None:
    problem = {"id": "p", "language": "dafny", "kind": "statements", "statement": "/*{HOLE}*/"}
    fake = FakeVerifier(judge)
    async with open_client(fake=fake) as client:
        row = {"id": "x", "problem": problem, "body": "good"}
        answer = await post(client, "/v1/verify", {"candidates": [row]})
    assert answer.json()["results"][0]["status"] == "proved"
    assert fake.calls[0].problem.kind == "statements"


@in_loop
async def test_equal_candidates_are_judged_once() -> None:
    fake = FakeVerifier(judge, delay_seconds=0.01)
    async with open_client(fake=fake) as client:
        body = {"candidates": [program(str(n), "good") for n in range(20)]}
        for _ in range(2):
            answer = await post(client, "/v1/verify", body)
            assert [row["status"] for row in answer.json()["results"]] == ["proved"] * 20
    assert fake.num_calls == 1


@in_loop
async def test_a_stream_gives_what_is_known_first() -> None:
    class Slow(FakeVerifier):
        async def verify(self, candidate: Candidate, **how: Any) -> Verdict:
            await asyncio.sleep(0.2 if "slow" in candidate.body else 0.0)
            return await super().verify(candidate, **how)

    settings = replace(SETTINGS, options=BackendOptions(workers=4, limits=Limits()))
    async with open_client(settings, Slow(judge)) as client:
        rows = [program("a", "good slow"), program("b", "bad"), {"id": "c"}]
        headers = {"Accept": "application/x-ndjson"}
        answer = await post(client, "/v1/verify", {"candidates": rows}, headers=headers)
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [line["index"] for line in lines][-1] == 0
    assert {line["index"]: line["status"] for line in lines} == {
        0: "proved",
        1: "rejected",
        2: "error",
    }


@in_loop
async def test_keys() -> None:
    settings = replace(SETTINGS, keys=(KEY, OTHER), host="0.0.0.0")
    body = {"candidates": [program("a", "good")]}
    async with open_client(settings) as client:
        for path in ("/health", "/ready"):
            assert (await client.get(path)).status_code == 200
        assert (await client.get("/metrics")).status_code == 401
        missing = await post(client, "/v1/verify", body)
        assert (missing.status_code, missing.json()) == (401, {"detail": "Missing API key"})
        for given in ("x", KEY[:-1], KEY + "k", "Bearer", "\u00e9" * 32):
            headers = [(b"Authorization", f"Bearer {given}".encode())]
            wrong = await client.post("/v1/verify", json=body, headers=headers)
            assert (wrong.status_code, wrong.json()) == (401, {"detail": "Invalid API key"}), given
        for given in (f"Bearer {KEY}", KEY, OTHER):
            good = await client.post("/v1/verify", json=body, headers={"Authorization": given})
            assert good.status_code == 200


@pytest.mark.parametrize(
    ("host", "inside"),
    [
        *((host, True) for host in ("127.0.0.1", "::1", "localhost", "127.8.0.1")),
        *((host, False) for host in ("0.0.0.0", "::", "192.168.0.1", "example.org")),
    ],
)
def test_other_machines_need_a_key(host: str, inside: bool) -> None:
    assert is_loopback(host) is inside
    assert replace(SETTINGS, host=host, keys=(KEY,)).keys == (KEY,)
    assert replace(SETTINGS, host=host, insecure=True).host == host
    if inside:
        assert replace(SETTINGS, host=host).host == host
    else:
        with pytest.raises(UsageError, match="--api-key-file"):
            replace(SETTINGS, host=host)


def test_a_settings_object_does_not_show_its_keys() -> None:
    assert KEY not in repr(replace(SETTINGS, keys=(KEY,)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds none"),
        ("# none\n\n", "holds none"),
        ("short\n", "16 or more"),
        (KEY + "\nwith a blank inside it\n", "key 2"),
        ("\u00e9" * 20, "ASCII"),
    ],
)
def test_files_of_keys_that_are_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "keys"
    path.write_text(text, "utf-8")
    with pytest.raises(UsageError, match=said):
        read_keys(path)


def test_a_file_of_keys(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"# who\n{KEY}\n\n {OTHER} \n", "utf-8")
    assert read_keys(path) == (KEY, OTHER)
    with pytest.raises(UsageError, match="cannot be read"):
        read_keys(tmp_path / "none")


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b"", ["body"]),
        (b"{", ["body"]),
        (b"\xff\xfe", ["body"]),
        (b"[" * 100_000, ["body"]),
        (b'{"candidates": [], "candidates": []}', ["body"]),
        (b'{"candidates": NaN}', ["body"]),
        (b"[]", ["body"]),
        (b"{}", ["body", "candidates"]),
        (b'{"candidates": []}', ["body", "candidates"]),
        (b'{"candidates": {}}', ["body", "candidates"]),
        (b'{"candidates": [1], "priority": 11}', ["body", "priority"]),
        (b'{"candidates": [1], "deadline_seconds": 0}', ["body", "deadline_seconds"]),
        (b'{"candidates": [1], "deadline_seconds": 1e999}', ["body", "deadline_seconds"]),
        (b'{"candidates": [1], "shell": "x"}', ["body", "shell"]),
    ],
)
@in_loop
async def test_requests_that_cannot_be_read(body: bytes, place: list[str]) -> None:
    async with open_client() as client:
        answer = await client.post("/v1/verify", content=body)
        assert answer.status_code == 422
        assert [fault["loc"] for fault in answer.json()["detail"]] == [place]
        assert (await client.get("/health")).json() == {"status": "ok"}


@in_loop
async def test_bodies_that_are_too_long_or_compressed() -> None:
    settings = replace(SETTINGS, max_body_bytes=1000, max_batch=2)
    some = program("a", "x" * 400)
    async with open_client(settings) as client:
        assert (await post(client, "/v1/verify", {"candidates": [some]})).status_code == 200
        assert (await post(client, "/v1/verify", {"candidates": [some] * 3})).status_code == 413

        async def chunks() -> AsyncIterator[bytes]:
            for _ in range(11):
                yield b" " * 100

        assert (await client.post("/v1/verify", content=chunks())).status_code == 413
        many = {"candidates": [program(str(n), "") for n in range(3)]}
        refused = await post(client, "/v1/verify", many)
        assert refused.status_code == 413
        assert "at most 2" in refused.json()["detail"]
        headers = {"Content-Encoding": "gzip"}
        answer = await client.post("/v1/verify", content=b"\x1f\x8b", headers=headers)
        assert answer.status_code == 415


@in_loop
async def test_a_full_queue_is_said_at_once_and_nothing_is_taken_in() -> None:
    settings = replace(SETTINGS, room=6)
    fake = FakeVerifier(judge, delay_seconds=0.5)
    async with open_client(settings, fake) as client:

        def send(num: int, text: str) -> Awaitable[httpx2.Response]:
            rows = [program(str(n), f"good {text} {n}") for n in range(num)]
            return post(client, "/v1/verify", {"candidates": rows})

        first = asyncio.ensure_future(send(2, "first"))
        await wait_for(lambda: fake.num_calls >= 1)
        full = await send(2, "second")
        assert full.status_code == 429
        assert full.json()["detail"].startswith("half of the queue is yours; try again in ")
        assert 1 <= int(full.headers["retry-after"]) <= 60
        third = asyncio.ensure_future(send(1, "third"))
        await asyncio.sleep(0)
        assert [(await answer).status_code for answer in (first, third)] == [200, 200]
        assert (await send(2, "second")).status_code == 200
    assert fake.num_calls == 5


@in_loop
async def test_turns_by_priority_then_by_lane() -> None:
    turns: Turns[None] = Turns()
    waiting = [("a", 0), ("a", 0), ("a", 0), ("b", 0), ("urgent", 5), ("later", -1), ("b", 0)]
    tickets = {}
    for lane in waiting:
        ticket: Ticket[None] = Ticket(ask(lane[0]), asyncio.get_running_loop().create_future())
        turns.add(Lane(*lane), ticket)
        tickets[ticket] = lane[0]
    last = list(tickets)[-1]
    turns.remove(Lane("b"), last)
    # Whoever is not there any more is left alone.
    turns.remove(Lane("b"), last)
    order = []
    while (taken := turns.take()) is not None:
        order.append(tickets[taken])
    assert order == ["urgent", "a", "b", "a", "a", "later"]
    assert not turns


def test_room_is_for_all_and_half_of_it_for_one() -> None:
    room = Room(6)
    with Reservation(room, "one", 3) as held:
        assert room.find_lack("one", 1) == "half of the queue is yours"
        held.release()
        assert (room.find_lack("one", 1), room.num_inside) == ("", 2)
        with Reservation(room, "two", 3):
            assert room.find_lack("three", 1) == ""
            assert room.find_lack("three", 2) == "the queue is full"
    held.release()
    assert room.num_inside == 0


@in_loop
async def test_what_is_known_waits_for_nobody() -> None:
    """While the only worker is busy, a known verdict and a refused text are answered."""
    gate = asyncio.Event()

    class Busy(FakeVerifier):
        async def verify(self, candidate: Candidate, **how: Any) -> Verdict:
            if "slow" in candidate.body:
                await gate.wait()
            return await super().verify(candidate, **how)

    async with open_client(SETTINGS, Busy(judge)) as client:
        known = {"candidates": [program("a", "good")]}
        await post(client, "/v1/verify", known)
        slow = {"candidates": [program(str(n), "slow good") for n in range(20)]}
        waiting = asyncio.ensure_future(post(client, "/v1/verify", slow))
        await asyncio.sleep(0)
        for _ in range(3):
            answer = await post(client, "/v1/verify", known)
            assert answer.json()["results"][0]["status"] == "proved"
        assert not waiting.done()
        gate.set()
        rows = (await waiting).json()["results"]
        assert [row["status"] for row in rows] == ["proved"] * 20


@in_loop
async def test_what_a_server_says_of_its_own_troubles_names_no_path() -> None:
    missing = ToolchainError("no Dafny in /home/somebody/bin; apt install dafny")
    wrong = ProblemError("its statement does not elaborate")
    died = "the Dafny server died; it said: [FATAL] Write fault on path /home/somebody/x"
    assert _for_clients(died) == "the Dafny server died"
    believed = make_file_candidate("a", "lemma L() ensures false")
    refused = audit_candidate(believed)
    assert refused is not None
    assert _for_clients(refused.diagnostics[0].message) == (
        "missing-body: this lemma has no body, so what it claims is not proved"
    )
    looked = "no directory 'Aesop' in the search path entries:\n/home/somebody\n/home/lean"
    said = Verdict(Status.REJECTED, (Diagnostic("error", looked),))
    script = {0: missing, 1: wrong, 2: ProblemError(looked)}
    fake = FakeVerifier(lambda _: said, script=script)
    async with open_client(fake=fake) as client:
        rows = [program(name, name) for name in "abcd"]
        answer = await post(client, "/v1/verify", {"candidates": rows})
    first, second, third, fourth = answer.json()["results"]
    causes = [row["cause"] for row in (first, second, third)]
    assert causes == ["no-backend", "bad-problem", "bad-problem"]
    assert fourth["diagnostics"][0]["message"] == "no directory 'Aesop' on this server"
    assert "/home" not in answer.text
    assert "does not elaborate" in second["message"]


@in_loop
async def test_nothing_is_said_after_a_false_statement_was_believed() -> None:
    fake = FakeVerifier(judge, script={1: CanaryError("the program: /home/somebody")})
    async with open_client(fake=fake) as client:
        known = {"candidates": [program("a", "good")]}
        assert (await post(client, "/v1/verify", known)).status_code == 200
        for body in ({"candidates": [program("b", "good 2")]}, known):
            answer = await post(client, "/v1/verify", body)
            assert (answer.status_code, "believe no verdict" in answer.text) == (503, True)
            assert DISTRUSTED in answer.headers
            assert "/home" not in answer.text
        assert (await client.get("/ready")).status_code == 503
        assert (await client.get("/health")).status_code == 200


@in_loop
async def test_a_candidate_that_is_too_long_costs_itself_alone() -> None:
    async with open_client(replace(SETTINGS, max_text=10)) as client:
        rows = [program("a", "good" + 6 * " "), program("b", "good" + 7 * " ")]
        problem = {"id": "p", "kind": "statements", "statement": 11 * " " + "/*{HOLE}*/"}
        rows.append({"id": "c", "problem": problem, "body": ""})
        answer = await post(client, "/v1/verify", {"candidates": rows})
    results = answer.json()["results"]
    assert [row["status"] for row in results] == ["proved", "rejected", "error"]
    assert "longer than 10 characters" in results[1]["diagnostics"][0]["message"]
    assert "its statement is longer than 10" in results[2]["message"]


@in_loop
async def test_long_requests_are_read_too() -> None:
    async with open_client() as client:
        rows = [program(str(n), f"good {n} " + 1000 * " ") for n in range(500)]
        answer = await post(client, "/v1/verify", {"candidates": rows})
        assert {row["status"] for row in answer.json()["results"]} == {"proved"}
        broken = await client.post("/v1/verify", content=b"[" * 300_000)
        assert broken.status_code == 422


@in_loop
async def test_a_deadline_has_a_ceiling() -> None:
    seen: list[float] = []

    class Noting(FakeVerifier):
        async def verify(self, candidate: Candidate, **how: Any) -> Verdict:
            seen.append(how["deadline_seconds"])
            return await super().verify(candidate, **how)

    settings = replace(SETTINGS, deadline_seconds=5.0)
    async with open_client(settings, Noting(judge)) as client:
        for seconds in (None, 2.0, 1000.0):
            body = {"candidates": [program("a", str(seconds))], "deadline_seconds": seconds}
            answer = await post(client, "/v1/verify", body)
            assert answer.status_code == 200
    assert seen == [5.0, 2.0, 5.0]


@in_loop
async def test_metrics_count() -> None:
    async with open_client() as client:
        rows = [program("a", "good"), program("b", "bad"), program("c", "bad 2")]
        await post(client, "/v1/verify", {"candidates": rows})
        await client.post("/v1/verify", content=b"x")
        page = (await client.get("/metrics")).text
    lines = set(page.splitlines())
    count = 'proverrl_verdicts_total{cause="",language="dafny",status='
    assert f'{count}"proved"}} 1.0' in lines
    assert f'{count}"rejected"}} 2.0' in lines
    assert 'proverrl_requests_total{code="200",path="/v1/verify"} 1.0' in lines
    assert 'proverrl_requests_total{code="422",path="/v1/verify"} 1.0' in lines
    assert "proverrl_inside 0.0" in lines


# A real server: what only sockets show.


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson"])
@in_loop
async def test_a_client_that_goes_away_cancels_its_work(accept: str) -> None:
    fake = FakeVerifier(judge, delay_seconds=60)
    settings = replace(SETTINGS, options=BackendOptions(workers=4, limits=Limits()))
    async with listen(settings, fake) as port:
        body = json.dumps({"candidates": [program(str(n), f"good {n}") for n in range(3)]})
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"POST /v1/verify HTTP/1.1\r\nHost: s\r\nAccept: {accept}\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        await writer.drain()
        await wait_for(lambda: fake.num_calls == 3)
        writer.close()
        await wait_for(lambda: fake.num_cancelled == 3)


@in_loop
async def test_a_body_that_never_comes_is_given_up() -> None:
    settings = replace(SETTINGS, read_seconds=0.2)
    async with listen(settings, FakeVerifier(judge)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /v1/verify HTTP/1.1\r\nHost: s\r\nContent-Length: 100\r\n\r\n{")
        await writer.drain()
        async with asyncio.timeout(20):
            assert (await reader.readline()).split()[1] == b"408"
        writer.close()


@in_loop
async def test_hostile_bytes_leave_others_alone() -> None:
    fake = FakeVerifier(judge)
    garbage = [
        b"\x00" * 2000,
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/verify HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/verify HTTP/1.1\r\nHost: s\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET " + b"/x" * 40_000 + b" HTTP/1.1\r\nHost: s\r\n\r\n",
        b"POST /v1/verify HTTP/1.1\r\nHost: s\r\n" + b"A: b\r\n" * 20_000,
    ]
    async with listen(SETTINGS, fake) as port, httpx2.AsyncClient() as client:
        for number in range(60):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(garbage[number % len(garbage)])
            writer.close()
            body = {"candidates": [program("a", f"good {number}")]}
            answer = await client.post(f"http://127.0.0.1:{port}/v1/verify", json=body)
            assert answer.json()["results"][0]["status"] == "proved"
    assert fake.num_calls == 60


# The dialect of kimina-lean-server.


def lean(status: Status, *said: Diagnostic, **more: Any) -> Verdict:
    checks = ("kernel",) if status is Status.PROVED else ()
    return Verdict(status, said, checks=checks, seconds=0.5, **more)


def is_valid(answer: dict[str, Any]) -> bool:
    """What kimina's client calls valid: an answer without errors among its messages, no sorries."""
    response = answer.get("response")
    if response is None or "message" in response:
        return False
    errors = [m for m in response.get("messages", []) if m["severity"] == "error"]
    return not errors and not response.get("sorries")


@pytest.mark.parametrize("status", list(Status))
def test_only_what_is_proved_is_valid(status: Status) -> None:
    cause: Any = "" if status.judged else "died"
    answer = to_answer(lean(status, cause=cause), "text", 30.0)
    assert is_valid(answer) is (status is Status.PROVED)
    assert ("error" in answer) is not ("response" in answer)
    assert ("error" in answer) is not status.judged


def test_messages_and_sorries_have_their_places() -> None:
    code = "theorem t (a : Nat) : a = a := by\n  sorry\n"
    warned = Diagnostic("warning", "declaration uses `sorry`", 1, 8, 1, 9)
    verdict = lean(Status.INCOMPLETE, warned, states=((2, 2, "a : Nat\n\u22a2 a = a"),))
    answer = to_answer(verdict, code, 30.0)
    hole = {"pos": {"line": 2, "column": 2}, "endPos": {"line": 2, "column": 7}}
    place = {"pos": {"line": 1, "column": 8}, "endPos": {"line": 1, "column": 9}}
    assert answer == {
        "time": 0.5,
        "response": {
            "env": 0,
            "sorries": [{**hole, "goal": "a : Nat\n\u22a2 a = a"}],
            "messages": [{"severity": "warning", "data": warned.message, **place}],
        },
    }
    audited = Diagnostic("error", "holes: 'sorry' leaves the goal open", 2, 2)
    (said,) = to_answer(lean(Status.INCOMPLETE, audited), code, 30.0)["response"]["messages"]
    assert said["severity"] == "warning"
    late = to_answer(lean(Status.TIMEOUT, cause="deadline"), code, 5.0)
    assert late == {"time": 5.0, "error": "Lean REPL command timed out in 5.0 seconds"}


def test_sorries_are_the_holes_among_the_states() -> None:
    code = "theorem t : 1 = 1 := sorry\ntheorem u : 2 = 2 := by\n  skip\n  sorry\n"
    goal = "\u22a2 2 = 2"
    states = ((1, 21, ""), (3, 2, goal), (4, 2, f"{goal}\n\n\u22a2 3 = 3"))
    sorries = to_answer(lean(Status.INCOMPLETE, states=states), code, 30.0)["response"]["sorries"]
    assert [(each["pos"]["line"], each["goal"]) for each in sorries] == [(1, ""), (4, goal)]


@in_loop
async def test_check_answers_as_kimina_does() -> None:
    fake = FakeVerifier(judge)
    async with open_client(fake=fake) as client:
        snippets = [{"id": "1", "code": "good"}, {"id": "2", "code": "bad"}]
        body = {"snippets": snippets, "timeout": 60, "debug": False, "reuse": True}
        for path in ("/api/check", "/api/check/"):
            results = (await post(client, path, body)).json()["results"]
            assert [row["id"] for row in results] == ["1", "2"]
            assert [is_valid(row) for row in results] == [True, False]
        trees = await post(client, "/api/check", {**body, "infotree": "full"})
        assert all("info trees" in row["error"] for row in trees.json()["results"])
        twice = await post(client, "/api/check", {"snippets": [snippets[0]] * 2})
        assert twice.status_code == 422
        half = json.dumps({"snippets": [{"id": "1", "code": "\ud800"}]})
        broken = (await client.post("/api/check", content=half)).json()["results"][0]
        assert not is_valid(broken)
    assert {call.problem.language for call in fake.calls} == {"lean"}


CLIENT = """
import sys, typing, typing_extensions
typing.TypedDict = typing_extensions.TypedDict  # kimina-client 0.2.1 needs it on Python 3.11
from kimina_client import KiminaClient, Snippet
client = KiminaClient(api_url=sys.argv[1])
codes = ["good", "bad", "late", "sorry", "crash"]
answer = client.check([Snippet(id=c, code=c) for c in codes], timeout=1, show_progress=False)
for result in answer.results:
    print(result.id, result.analyze().status.value)
"""


@in_loop
async def test_kiminas_own_client_cannot_tell() -> None:
    def judge_words(candidate: Candidate) -> Verdict:
        word = candidate.body
        return {
            "good": lean(Status.PROVED),
            "bad": lean(Status.REJECTED, Diagnostic("error", "no", 1, 0)),
            "late": lean(Status.TIMEOUT, cause="deadline"),
            "sorry": lean(Status.INCOMPLETE, Diagnostic("error", "holes: 'sorry'", 1, 0)),
            "crash": lean(Status.CRASHED, cause="died"),
        }[word]

    async with listen(SETTINGS, FakeVerifier(judge_words)) as port:
        client = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", CLIENT, f"http://127.0.0.1:{port}"),
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await client.communicate()
    assert dict(line.split() for line in said.decode().splitlines()) == {
        "good": "valid",
        "bad": "lean_error",
        "late": "timeout_error",
        "sorry": "sorry",
        "crash": "server_error",
    }
