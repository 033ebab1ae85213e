"""The REPL's protocol: requests as they are sent, answers however they arrive."""

import json

import pytest

from proverrl.errors import WorkerError
from proverrl.lang.lean.workers import protocol as lean_protocol
from proverrl.lang.lean.workers.messages import LeanMessage, Position, Sorry, TacticStep
from proverrl.lang.lean.workers.protocol import (
    AnswerReader,
    CommandAnswer,
    ErrorAnswer,
    encode_command,
    parse_answer,
)

TRICKY = json.dumps({"env": 3, "messages": []}, indent=1)
QUOTED = r'{"message": "a \"}\" [ {\\"}'


def test_requests_are_one_line_and_a_blank_one() -> None:
    assert encode_command("a\nb") == b'{"cmd": "a\\nb"}\n\n'
    assert encode_command("a", 3) == b'{"cmd": "a", "env": 3}\n\n'
    both = encode_command("a", 0, all_tactics=True)
    assert both == b'{"cmd": "a", "env": 0, "allTactics": true}\n\n'


def test_characters_are_sent_as_they_are() -> None:
    assert encode_command("∀ 😀 \u2028") == '{"cmd": "∀ 😀 \u2028"}\n\n'.encode()
    with pytest.raises(UnicodeEncodeError):
        encode_command("\ud800")


@pytest.mark.parametrize("text", [TRICKY, QUOTED, '{"message": "a\n\nb"}', '{"message": "é"}'])
def test_an_answer_is_found_however_it_is_split(text: str) -> None:
    whole = text.encode() + b"\n\n"
    for cut in range(len(whole) + 1):
        reader = AnswerReader()
        reader.feed(whole[:cut])
        if cut < len(whole):
            assert reader.take() is None
            reader.feed(whole[cut:])
        assert reader.take() == text
        assert reader.take() is None
    reader = AnswerReader()
    for i in range(len(whole)):
        reader.feed(whole[i : i + 1])
    assert reader.take() == text


def test_one_answer_after_the_other_and_a_long_line() -> None:
    reader = AnswerReader()
    for text in (TRICKY, QUOTED, json.dumps({"message": "x" * 5_000_000})):
        reader.feed(text.encode() + b"\n\n")
        assert reader.take() == text
        assert reader.take() is None


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (b"oops", "what is no answer: 'oops'"),
        (b"\n{}\n\n", "what is no answer"),
        (b"[1]\n\n", "what is no answer"),
        (b"{}{}\n\n", "no blank line after it"),
        (b"{}\n{}\n\n", "no blank line after it"),
        (b'{"env": 1}\n\n{"env": 2}\n\n', "went on talking"),
        (b'{"env": 1}\n\n\n', "went on talking"),
    ],
)
def test_output_that_is_not_one_answer_is_an_error(output: bytes, why: str) -> None:
    def read() -> str | None:
        reader = AnswerReader()
        reader.feed(output)
        return reader.take()

    with pytest.raises(WorkerError, match=why):
        read()


def test_an_endless_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lean_protocol, "MAX_ANSWER_BYTES", 100)
    reader = AnswerReader()
    reader.feed(b"{" + b" " * 99)
    with pytest.raises(WorkerError, match="over 100 bytes"):
        reader.feed(b" ")


def test_a_command_answer_is_read_whole() -> None:
    place, end = {"line": 2, "column": 5}, {"line": 2, "column": 9}
    raw = {
        "env": 4,
        "messages": [
            {"severity": "error", "pos": place, "endPos": None, "data": "bad"},
            {"severity": "trace", "pos": place, "endPos": end, "data": ""},
        ],
        "sorries": [{"goal": "⊢ p", "proofState": 1, "pos": place, "endPos": end}],
        "tactics": [
            {
                "tactic": "rfl",
                "goals": "⊢ q",
                "pos": place,
                "endPos": end,
                "proofState": 2,
                "usedConstants": ["Eq"],
            }
        ],
        "infotree": [],
    }
    start, stop = Position(2, 5), Position(2, 9)
    assert parse_answer(json.dumps(raw)) == CommandAnswer(
        env=4,
        messages=(LeanMessage("error", "bad", start), LeanMessage("trace", "", start, stop)),
        sorries=(Sorry("⊢ p", start),),
        tactics=(TacticStep("⊢ q", start),),
    )


def test_a_refusal_is_an_answer() -> None:
    assert parse_answer('{"message": "Unknown environment."}') == ErrorAnswer(
        "Unknown environment."
    )


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        "[" * 100_000,
        '{"env": -1}',
        '{"env": true}',
        '{"env": "1"}',
        '{"env": 1, "message": "m"}',
        '{"env": 1, "gc": true}',
        '{"env": 1, "messages": {}}',
        '{"env": 1, "messages": [1]}',
        '{"env": 1, "messages": [{"severity": "fatal", "pos": {"line": 1, "column": 0}, '
        '"data": ""}]}',
        '{"env": 1, "messages": [{"severity": "error", "data": ""}]}',
        '{"env": 1, "messages": [{"severity": "error", "pos": {"line": 1}, "data": ""}]}',
        '{"proofState": 1, "goals": []}',
        '{"message": 1}',
    ],
)
def test_an_answer_that_is_not_understood_is_an_error(text: str) -> None:
    with pytest.raises(WorkerError, match="the Lean REPL's answer"):
        parse_answer(text)
