"""Solved problems and a system text that are shown before each problem."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from proverrl.config import Config, parse_config
from proverrl.errors import ProblemError
from proverrl.lang.dafny.syntax.text import KEYWORDS
from proverrl.policy.loading import build_policy, train_tokenizer
from proverrl.problems.load import make_row, write_problems
from proverrl.problems.prompt import (
    Before,
    _tell_missing,
    join_messages,
    render_body,
    render_messages,
    render_prompt,
)
from proverrl.run.pairs import make_source
from proverrl.run.session import load_before
from proverrl.run.supervised import _pad
from proverrl.types import Message, Problem
from tests.builders import build_problem
from tests.policy.test_policy import TEXTS, TINY

PROBLEMS = [build_problem(f"p{n}", n=n + 3) for n in range(5)]
BODIES = {problem.id: f"invariant i <= {n}" for n, problem in enumerate(PROBLEMS)}
PAIRS = [(problem, BODIES[problem.id]) for problem in PROBLEMS]
KIND = (PROBLEMS[0].language, PROBLEMS[0].kind)


def test_a_text_layout_shows_programs_and_their_bodies_one_after_another() -> None:
    before = Before({KIND: PAIRS}, num=2, system="Write proofs.")
    asked = PROBLEMS[4]
    shown = render_prompt(asked, "plain", before)
    one, two = (render_prompt(PROBLEMS[n], "plain") + BODIES[f"p{n}"] + "\n\n" for n in (0, 1))
    assert shown == "Write proofs.\n\n" + one + two + render_prompt(asked, "plain")


def test_a_problem_is_no_example_of_itself_and_other_kinds_are_left_out() -> None:
    before = Before({KIND: PAIRS}, num=2)
    texts = [message.content for message in before.messages(PROBLEMS[0], "plain")]
    assert texts == [
        *(render_prompt(PROBLEMS[1], "plain"), BODIES["p1"]),
        *(render_prompt(PROBLEMS[2], "plain"), BODIES["p2"]),
        render_prompt(PROBLEMS[0], "plain"),
    ]
    # Under other names and with a comment it is the same problem still.
    statement = re.sub(r"\bk\b", "counter", PROBLEMS[0].statement)
    assert "counter" in statement
    renamed = replace(PROBLEMS[0], id="renamed", statement=f"// again\n{statement}")
    assert before.messages(renamed, "plain")[:-1] == before.messages(PROBLEMS[0], "plain")[:-1]
    other = Before({("dafny", "calc"): PAIRS}, num=2)
    assert other.messages(PROBLEMS[0], "plain") == render_messages(PROBLEMS[0], "plain")


def test_a_conversation_answers_the_examples_with_blocks() -> None:
    before = Before({KIND: PAIRS}, num=1, system="Be brief.")
    system, question, answer, asked = before.messages(PROBLEMS[3], "dafny")
    assert system == Message("system", "Be brief.")
    assert question == render_messages(PROBLEMS[0], "dafny")[-1]
    assert answer == Message("assistant", render_body(PROBLEMS[0], BODIES["p0"], "dafny"))
    assert asked == render_messages(PROBLEMS[3], "dafny")[-1]


def test_the_token_ids_of_an_example_are_those_that_are_learned() -> None:
    tokenizer = train_tokenizer(TEXTS, vocab_size=320, keywords=KEYWORDS)
    policy = build_policy(TINY, tokenizer, seed=0, device="cpu")
    bare = policy.prompt(PROBLEMS[4])
    example = policy.prompt(PROBLEMS[0])
    body = policy.body_ids(PROBLEMS[0], BODIES["p0"])
    assert body[-1] == policy.end_id
    policy.before = Before({KIND: PAIRS}, num=1)
    prompt = policy.prompt(PROBLEMS[4])
    # The problem as it is alone, but that a text begins only once.
    assert prompt.token_ids == example.token_ids + body + bare.token_ids[1:]
    assert prompt.text == join_messages(policy.before.messages(PROBLEMS[4], "plain"), "plain")


def test_a_warm_start_learns_the_problem_and_not_what_is_shown_before_it() -> None:
    tokenizer = train_tokenizer(TEXTS, vocab_size=320, keywords=KEYWORDS)
    policy = build_policy(TINY, tokenizer, seed=0, device="cpu")
    num_own, body = len(policy.prompt(PROBLEMS[4]).token_ids), policy.body_ids(PROBLEMS[4], "x")
    assert make_source(policy, PROBLEMS[4], "x")().num_before == 0
    policy.before = Before({KIND: PAIRS}, num=1)
    pair = make_source(policy, PROBLEMS[4], "x")()
    num_prompt = len(pair.prompt_ids)
    assert 0 < pair.num_before == num_prompt - num_own
    weights = _pad([pair], 0.3)["weights"][0].tolist()
    assert weights == pytest.approx([0.0] * pair.num_before + [0.3] * num_own + [1.0] * len(body))


def test_blocks_without_a_chat_template_are_divided_as_turns_are() -> None:
    tokenizer = train_tokenizer(TEXTS, vocab_size=320, keywords=KEYWORDS)
    config = TINY.model_copy(update={"layout": "dafny"})
    policy = build_policy(config, tokenizer, seed=0, device="cpu")
    policy.before = Before({KIND: PAIRS}, num=1)
    question, answer, asked = policy.before.messages(PROBLEMS[4], "dafny")[1:]
    prompt = policy.prompt(PROBLEMS[4])
    place = prompt.token_ids.index(policy.end_id)
    text = str(tokenizer.decode(list(prompt.token_ids[1:place])))
    assert text.endswith(f"{question.content}\n\n{answer.content}")
    rest = str(tokenizer.decode(list(prompt.token_ids[place + 1 :])))
    assert rest == f"\n\n{asked.content}\n\n"


def test_problems_that_differ_in_words_alone_are_examples_of_each_other() -> None:
    asked = replace(PROBLEMS[0], informal="said so")
    other = replace(PROBLEMS[0], id="q", informal="said otherwise")
    before = Before({KIND: [(PROBLEMS[0], "x"), (asked, "y"), (other, "z")]}, num=2)
    bodies = [m.content for m in before.messages(asked, "plain") if m.role == "assistant"]
    # What says nothing may be the same.
    assert bodies == ["z"]


def test_kinds_without_an_example_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    before = Before({("dafny", "calc"): PAIRS}, num=2)
    _tell_missing.cache_clear()
    for _ in range(2):
        before.messages(PROBLEMS[0], "plain")
    assert caplog.text.count("there is no solved problem of dafny invariants to show") == 1


def write(path: Path, problems: list[Problem], bodies: dict[str, str]) -> Path:
    solved = {name: {"reference": body} for name, body in bodies.items()}
    write_problems(path, [make_row(p) | solved.get(p.id, {}) for p in problems])
    return path


def configure(train: Path, **policy: str | int) -> Config:
    tables = {"policy": policy, "problems": {"train": str(train)}}
    return parse_config(tables, source="test")


def test_a_number_is_drawn_from_solved_training_problems(tmp_path: Path) -> None:
    train = write(tmp_path / "train.jsonl", PROBLEMS, {f"p{n}": BODIES[f"p{n}"] for n in (0, 1, 3)})
    assert load_before(configure(train)) == Before()
    assert load_before(configure(train, system="x")) == Before(system="x")
    before = load_before(configure(train, examples=1))
    assert before.num == 1
    # Three are held, so that each of them has another one before it.
    assert {problem.id for problem, _ in before.solved[KIND]} == {"p0", "p1", "p3"}
    for problem in PROBLEMS:
        question, _, asked = before.messages(problem, "plain")
        assert question != asked
    again = load_before(configure(train, examples=1))
    assert again.describe() == before.describe() != {}


def test_a_file_is_shown_whole(tmp_path: Path) -> None:
    train = write(tmp_path / "train.jsonl", PROBLEMS, BODIES)
    chosen = write(tmp_path / "chosen.jsonl", PROBLEMS[:3], {"p0": BODIES["p0"], "p2": "x"})
    before = load_before(configure(train, examples=str(chosen)))
    assert [(p.id, body) for p, body in before.solved[KIND]] == [("p0", BODIES["p0"]), ("p2", "x")]
    assert len(before.messages(PROBLEMS[4], "plain")) == 5
    bare = write(tmp_path / "bare.jsonl", PROBLEMS, {})
    with pytest.raises(ProblemError, match=r"policy.examples: no problem of .*bare.jsonl has a"):
        load_before(configure(train, examples=str(bare)))
    assert before.describe() != load_before(configure(train, examples=2)).describe()
