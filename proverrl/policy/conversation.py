"""Prompts and feedback as token ids, so that sampled text is never tokenised again.

Flows in: a tokenizer; messages; the exchanges so far. Flows out: token ids. A chat template writes
the text around messages where the layout holds conversations, else plain text does. The text
between a completion and the next one is found by rendering the template with marks in place of
both: rendering a whole conversation again may change what was said (Qwen3's template drops earlier
thinking), and then sampler and learner disagree. Feedback quotes what the policy wrote, so names of
special tokens in it stay plain text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from proverrl.config import LayoutName
from proverrl.errors import UsageError
from proverrl.policy.base import Exchange
from proverrl.problems.prompt import BODY_HEADING, LAYOUTS, divide_text, join_messages
from proverrl.types import Message, Prompt

FEEDBACK_HEADING = "\n// verifier\n"
"""Begins feedback in the plain text layouts; ``BODY_HEADING`` ends it."""

_ANSWER_MARK, _FEEDBACK_MARK = "ANSWERMARK", "FEEDBACKMARK"


def uses_chat(tokenizer: PreTrainedTokenizerBase, layout: LayoutName) -> bool:
    """True if the tokenizer's chat template writes the prompts."""
    return LAYOUTS[layout].in_block and tokenizer.chat_template is not None


def encode_messages(
    tokenizer: PreTrainedTokenizerBase, name: str, messages: Sequence[Message], layout: LayoutName
) -> Prompt:
    """Messages as a prompt of that name, written as ``layout`` writes a problem's. Raises
    ``UsageError`` if the chat template refuses the messages."""
    if uses_chat(tokenizer, layout):
        text = _render_chat(tokenizer, messages)
        return Prompt(name, text, _encode(tokenizer, text))
    ids: tuple[int, ...] = ()
    if tokenizer.bos_token_id is not None:
        ids = (int(tokenizer.bos_token_id),)
    pending = ""
    for part, is_answer in divide_text(messages, layout):
        if is_answer:
            # As a body is learned and drawn: tokens of its own, then the end token.
            ids += _encode(tokenizer, pending) + _encode(tokenizer, part.removesuffix("\n\n"))
            ids += (int(tokenizer.eos_token_id),)
            # As between the turns of a conversation.
            pending = "\n\n" if LAYOUTS[layout].in_block else ""
        else:
            pending += part
    return Prompt(name, join_messages(messages, layout), ids + _encode(tokenizer, pending))


def find_ends(
    tokenizer: PreTrainedTokenizerBase, layout: LayoutName, listed: int | Sequence[int] | None
) -> tuple[int, ...]:
    """The tokens that end a completion. The first is the one to write there: the special token that
    the chat template writes behind an answer (Gemma's is not its end of a text), else the
    tokenizer's end token. The others are that one and those ``listed`` in the checkpoint's
    ``generation_config.json``."""
    ends = [int(tokenizer.eos_token_id)]
    if uses_chat(tokenizer, layout):
        asked = (Message("user", "x"), Message("assistant", _ANSWER_MARK))
        try:
            text = _render_chat(tokenizer, asked, writes_next=False)
        except UsageError:
            # It will say so when there is a prompt to write; not every policy is shown problems.
            text = ""
        first = _encode(tokenizer, text.rpartition(_ANSWER_MARK)[2])[:1]
        ends[:0] = [token for token in first if _is_special(tokenizer, token)]
    ends += [listed] if isinstance(listed, int) else (listed or ())
    return tuple(dict.fromkeys(ends))


def resume_prompt(
    tokenizer: PreTrainedTokenizerBase,
    prompt: Prompt,
    history: Sequence[Exchange],
    layout: LayoutName,
    ends: Sequence[int],
) -> Prompt:
    """The prompt of the next turn: the problem's ids, then those of every exchange, unchanged."""
    text, ids = prompt.text, prompt.token_ids
    for exchange in history:
        text += exchange.completion.text + exchange.feedback
        ids += exchange.completion.token_ids + encode_feedback(tokenizer, exchange, layout, ends)
    return Prompt(prompt.problem_id, text, ids)


def encode_feedback(
    tokenizer: PreTrainedTokenizerBase,
    exchange: Exchange,
    layout: LayoutName,
    ends: Sequence[int],
) -> tuple[int, ...]:
    """The token ids between a completion and the next. If none of ``ends`` was drawn (the
    completion was cut off), the first is added before, so that every turn is ended."""
    if uses_chat(tokenizer, layout):
        before, after = _chat_borders(tokenizer)
    elif LAYOUTS[layout].in_block:
        before, after = "\n\n", "\n\n"
    else:
        before, after = FEEDBACK_HEADING, BODY_HEADING
    border = _encode(tokenizer, before)
    drawn = any(token in ends for token in exchange.completion.token_ids[-1:])
    written = any(token in ends for token in border[:1])
    if drawn and written:
        border = border[1:]
    elif not drawn and not written:
        border = (ends[0], *border)
    middle = _encode(tokenizer, exchange.feedback, literal=True)
    return border + middle + _encode(tokenizer, after)


def _chat_borders(tokenizer: PreTrainedTokenizerBase) -> tuple[str, str]:
    """The texts that the template writes between an answer and the next user message, and after
    that."""
    conversation = (
        Message("user", "x"),
        Message("assistant", _ANSWER_MARK),
        Message("user", _FEEDBACK_MARK),
    )
    text = _render_chat(tokenizer, conversation)
    if text.count(_ANSWER_MARK) != 1 or text.count(_FEEDBACK_MARK) != 1:
        raise UsageError(
            "the tokenizer's chat template does not write every message once, so that feedback "
            "cannot be placed after an answer; set policy.layout to plain, or rollout.mode to "
            "whole_proof"
        )
    before, _, after = text.partition(_ANSWER_MARK)[2].partition(_FEEDBACK_MARK)
    return before, after


def _is_special(tokenizer: PreTrainedTokenizerBase, token: int) -> bool:
    known = tokenizer.added_tokens_decoder.get(token)
    return token in tokenizer.all_special_ids or (known is not None and known.special)


def _render_chat(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], *, writes_next: bool = True
) -> str:
    rows = [asdict(message) for message in messages]
    try:
        text = tokenizer.apply_chat_template(
            rows, tokenize=False, add_generation_prompt=writes_next
        )
    except (TemplateError, ValueError) as error:
        raise UsageError(
            f"the tokenizer's chat template refuses the messages of this layout: {error}; choose "
            "another policy.layout"
        ) from error
    return str(text)


def _encode(
    tokenizer: PreTrainedTokenizerBase, text: str, *, literal: bool = False
) -> tuple[int, ...]:
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=literal)["input_ids"]
    return tuple(int(token) for token in ids)
