"""Conversations of published provers, and the token ids that chat templates make of them."""

from __future__ import annotations

import pytest

from proverrl.config import LayoutName
from proverrl.errors import ProblemError, UsageError
from proverrl.lang.lean.syntax.declarations import problem_from_statement
from proverrl.policy.base import Exchange
from proverrl.policy.conversation import FEEDBACK_HEADING, encode_feedback, resume_prompt
from proverrl.policy.loading import train_tokenizer
from proverrl.policy.transformers import TransformersPolicy
from proverrl.problems.prompt import (
    BODY_HEADING,
    render_body,
    render_messages,
    render_prompt,
    use_layout_words,
    use_problem_words,
)
from proverrl.rollout.extract import extract
from proverrl.types import ANNOTATE, HOLE, Completion, Message, Problem, Prompt
from tests.builders import build_problem
from tests.policy.test_policy import TEXTS, tiny_policy

LEAN = problem_from_statement(
    "p",
    "import Mathlib\n\ntheorem foo (n : ℕ) : n + 0 = n := by sorry",
    informal="Adding zero -/ changes nothing.",
)
CODE = "import Mathlib\ntheorem foo (n : ℕ) : n + 0 = n := by\n  sorry"
CHAT = (
    "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def completion(token_ids: tuple[int, ...]) -> Completion:
    return Completion("x", (1,), token_ids, (0.0,) * len(token_ids), "stop", 0)


def chat_policy(layout: LayoutName = "dafny", template: str | None = CHAT) -> TransformersPolicy:
    policy = tiny_policy()
    policy.tokenizer.chat_template = template
    policy.layout = layout
    return policy


def test_kimina_shows_words_and_statement_in_order() -> None:
    system, user = render_messages(LEAN, "kimina")
    assert (system.role, user.role) == ("system", "user")
    tail = f"# Formal statement:\n```lean4\n{CODE}\n```"
    assert user.content.endswith(
        "# Problem:\nAdding zero -/ changes nothing.\n\n" + tail
    )  # the words are shown as they are outside a comment


def test_deepseek_puts_the_words_in_a_doc_comment_that_they_cannot_close() -> None:
    (plain,) = render_messages(LEAN, "deepseek")
    comment = "/-- Adding zero - / changes nothing. -/\n"
    code = CODE.replace("theorem", comment + "theorem")
    assert plain.content.endswith(f":\n\n```lean4\n{code}\n```")
    (planned,) = render_messages(LEAN, "deepseek_cot")
    assert planned.content.startswith(plain.content)
    assert "plan" in planned.content.removeprefix(plain.content)
    assert render_messages(LEAN, "goedel") == (planned,)


def test_dafny_asks_for_what_the_hole_admits() -> None:
    _, user = render_messages(build_problem("q"), "dafny")
    assert user.content.startswith("Write the loop invariants")
    assert HOLE in user.content
    program = Problem("a", "dafny", ANNOTATE, "", f"method M() {{ }}\n{HOLE}")
    _, whole = render_messages(program, "dafny")
    assert whole.content.endswith("```dafny\nmethod M() { }\n```")
    assert HOLE not in whole.content


def test_a_layout_of_the_other_language_says_which_to_take() -> None:
    with pytest.raises(ProblemError, match=r"is in lean, layout 'dafny' for dafny.*'deepseek'"):
        render_messages(LEAN, "dafny")
    with pytest.raises(ProblemError, match=r"layout 'goedel' for lean.*'dafny'"):
        render_messages(build_problem("q"), "goedel")
    with pytest.raises(ProblemError, match="cannot ask for 'file'"):
        render_messages(Problem("f", "dafny", "file", "", HOLE), "dafny")


@pytest.mark.parametrize("layout", ["kimina", "deepseek", "deepseek_cot", "goedel"])
def test_a_reference_written_in_a_layout_is_read_back(layout: LayoutName) -> None:
    body = "induction n with\n  | zero => rfl\n  | succ m ih => simp"
    assert extract(LEAN, render_body(LEAN, body, layout), layout).body == body


def test_words_of_the_canonical_layout_go_both_ways() -> None:
    given = build_problem("q", n=57)
    assert use_layout_words(given, "error: k < 57", "canonical") == "error: a < _1"
    assert use_problem_words(given, "invariant a < _1", "canonical") == "invariant k < 57"
    assert use_layout_words(given, "error: k < 57", "plain") == "error: k < 57"


def test_a_chat_prompt_is_the_template_and_nothing_more() -> None:
    policy = chat_policy()
    given = build_problem("q")
    prompt = policy.prompt(given)
    system, user = render_messages(given, "dafny")
    assert prompt.text == (
        f"<|start|>system\n{system.content}<|end|>\n<|start|>user\n{user.content}<|end|>\n"
        "<|start|>assistant\n"
    )
    assert policy.tokenizer.decode(list(prompt.token_ids)) == prompt.text
    assert prompt.token_ids[0] == policy.tokenizer.bos_token_id  # from the template, not twice
    without = chat_policy(template=None).prompt(given)
    assert without.text == f"{system.content}\n\n{user.content}\n\n"
    assert without.text == render_prompt(given, "dafny")


@pytest.mark.parametrize("drawn", [True, False])
def test_a_chat_turn_follows_the_ids_as_they_were_sampled(drawn: bool) -> None:
    policy = chat_policy()
    end, start = policy.end_id, policy.tokenizer.bos_token_id
    # Ids that no tokenizer would give for any text: 7 then 7, then the end if it was drawn.
    sampled = (7, 7, end) if drawn else (7, 7)
    prompt = Prompt("q", "", (1, 2, 3))
    again = policy.resume(prompt, [Exchange(completion(sampled), "no <|end|>")])

    def ids(text: str, literal: bool = False) -> tuple[int, ...]:
        found = policy.tokenizer(text, add_special_tokens=False, split_special_tokens=literal)
        return tuple(found["input_ids"])

    said = ids("no <|end|>", literal=True)
    assert end not in said  # quoted, not obeyed
    border = (end, *ids("\n"), start, *ids("user\n"))
    after = (end, *ids("\n"), start, *ids("assistant\n"))
    assert again.token_ids == (1, 2, 3, 7, 7, *border, *said, *after)


def test_a_plain_turn_is_text_between_two_headings() -> None:
    tokenizer = train_tokenizer(TEXTS, vocab_size=320)
    end = int(tokenizer.eos_token_id)
    said = encode_feedback(tokenizer, Exchange(completion((7, end)), "no"), "plain", (end,))
    assert tokenizer.decode(list(said)) == f"{FEEDBACK_HEADING}no{BODY_HEADING}"
    cut = encode_feedback(tokenizer, Exchange(completion((7,)), "no"), "plain", (end,))
    assert cut == (end, *said)
    whole = resume_prompt(tokenizer, Prompt("q", "", (1,)), [], "plain", (end,))
    assert whole.token_ids == (1,)


def test_a_template_that_drops_messages_is_refused() -> None:
    policy = chat_policy(template="{{ messages[-1].content }}")
    with pytest.raises(UsageError, match="does not write every message once"):
        policy.resume(Prompt("q", "", (1,)), [Exchange(completion((7,)), "no")])
    policy = chat_policy(template="{{ raise_exception('no system message') }}")
    with pytest.raises(UsageError, match="refuses the messages of this layout: no system"):
        policy.prompt(build_problem("q"))


def test_messages_are_records() -> None:
    assert Message("user", "a") == Message("user", "a")
