"""Problems as a writer is shown them, with an instruction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from proverrl.config import LayoutName
from proverrl.lang import find_language
from proverrl.policy.base import Policy
from proverrl.policy.conversation import encode_messages
from proverrl.policy.transformers import TransformersPolicy
from proverrl.problems.prompt import BODY_HEADING, LAYOUTS, join_messages
from proverrl.types import Message, Problem, Prompt


def show_instruction(policy: Policy, problem: Problem, instruction: str) -> Prompt:
    """The policy's prompt of a problem with an instruction; the problem alone without one."""
    bare = policy.prompt(problem)
    if not instruction.strip():
        return bare
    shown = policy.before.messages(problem, policy.layout)
    messages = add_instruction(shown, problem, instruction, policy.layout)
    if isinstance(policy, TransformersPolicy):
        return encode_messages(policy.tokenizer, problem.id, messages, policy.layout)
    text = join_messages(messages, policy.layout)
    return replace(bare, text=text, messages=tuple(messages) if bare.messages else ())


def add_instruction(
    messages: Sequence[Message], problem: Problem, instruction: str, layout: LayoutName
) -> Sequence[Message]:
    """A problem's messages with an instruction: at the end of a conversation, and as a comment
    before the heading that ends a text, near to what is written."""
    *before, last = messages
    words = instruction.strip()
    content = f"{last.content}\n\nInstruction:\n{words}"
    if not LAYOUTS[layout].in_block:
        comment = find_language(problem.language).comment
        lines = "".join(f"\n{comment} {line}" for line in words.splitlines())
        content = last.content.removesuffix(BODY_HEADING) + lines + BODY_HEADING
    return (*before, replace(last, content=content))
