"""Composers write new problems from pairs of problems.

Flows in: pairs of parents, a round. Flows out: a ``Draft`` for each pair, in their order: a
composed problem, or the reason why there is none, with the completion where a policy wrote it.
A program needs no model. A policy writes scripts of operators, which it was taught. The text of a
plug-in function is audited, because it is trusted as the problem's own from then on.
Not handled here: which pairs are drawn, filters, rewards.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

from proverrl.compose.archive import Composed, dump_composed, load_composed
from proverrl.compose.operators import build_composed
from proverrl.compose.script import NAMES, apply_script, check_operators, read_script, write_script
from proverrl.curriculum.base import Belief
from proverrl.lang import find_composing
from proverrl.lang.records import Made, Parent
from proverrl.plugins import refuse
from proverrl.policy.base import Policy
from proverrl.policy.conversation import encode_messages
from proverrl.policy.transformers import TransformersPolicy
from proverrl.problems.prompt import use_layout_words
from proverrl.rollout.whole_proof import dump_completion, load_completion
from proverrl.seeds import derive_seed
from proverrl.types import HOLE, Completion, Message, Prompt, Sampling

SCRIPT_HEADING = "\n// compose\n"
"""Ends the prompt of a script, as ``BODY_HEADING`` ends that of a proof."""

TWO_LINES = 0.25
"""The share of taught scripts that have two lines."""

REPEATED = "the same statement earlier in the round"


@dataclass(frozen=True, slots=True)
class Draft:
    """The result of a pair: a composed problem, or ``reason``. ``parents`` are the pair's ids."""

    parents: tuple[str, ...]
    composed: Composed | None
    reason: str = ""
    completion: Completion | None = None


def measure_truncated(drafts: Sequence[Draft]) -> dict[str, float]:
    """The share of completions that were cut off at the limit on tokens, for the metrics; nothing
    where no policy wrote."""
    written = [draft.completion for draft in drafts if draft.completion is not None]
    if not written:
        return {}
    num_truncated = sum(completion.finish_reason == "length" for completion in written)
    return {"composer_truncated_share": round(num_truncated / len(written), 4)}


Pair = tuple[Parent, Parent]


class Composer(Protocol):
    """Writes one statement per pair; the same for the same round, pairs and weights."""

    async def write(self, pairs: Sequence[Pair], *, round_number: int) -> list[Draft]: ...


@dataclass(frozen=True, slots=True)
class ProgramComposer:
    """One operator per statement. All operators that apply to the pair are equally likely. With
    ``weigh``, which is asked once a round, each is as likely as it is believed to be useful."""

    operators: Sequence[str]
    seed: int
    weigh: Callable[[], Mapping[str, Belief]] | None = None

    async def write(self, pairs: Sequence[Pair], *, round_number: int) -> list[Draft]:
        beliefs = None if self.weigh is None else self.weigh()
        drafts = []
        for number, pair in enumerate(pairs):
            rng = random.Random(derive_seed(self.seed, "program", round_number, number))
            operators = check_operators(pair[0].problem.language, self.operators)
            script = write_script(rng, pair, operators, beliefs=beliefs)
            composed = script and apply_script(script, pair, round_number=round_number)
            drafts.append(_make_draft(pair, composed or None, "no operator has a hold on the pair"))
        return drafts


@dataclass(frozen=True, slots=True)
class PolicyComposer:
    """A policy that writes; ``trained`` is the model whose tokenizer and layout it has."""

    policy: Policy
    trained: TransformersPolicy
    operators: Sequence[str]
    temperature: float
    max_new_tokens: int
    seed: int

    async def write(self, pairs: Sequence[Pair], *, round_number: int) -> list[Draft]:
        if not pairs:
            return []
        prompts = [encode_pair(self.trained, pair) for pair in pairs]
        sampling = Sampling(
            temperature=self.temperature,
            max_new_tokens=self.max_new_tokens,
            seed=derive_seed(self.seed, "compose", round_number),
        )
        written = await self.policy.generate(prompts, n=1, sampling=sampling)
        return [
            self._read(pair, prompt, completions[0], round_number)
            for pair, prompt, completions in zip(pairs, prompts, written, strict=True)
        ]

    def _read(self, pair: Pair, prompt: Prompt, completion: Completion, number: int) -> Draft:
        operators = check_operators(pair[0].problem.language, self.operators)
        script = read_script(completion.text, operators)
        reason = script.reason or "an operator has no hold on what it is given"
        composed = None
        if not script.reason:
            composed = apply_script(script, pair, round_number=number)
        return _make_draft(pair, composed, reason, completion)


@dataclass(frozen=True, slots=True)
class FunctionComposer:
    """A composer around a plug-in function: ``compose(parents, seed)`` gives a whole text, or None.
    Its statements are audited as a policy's are, and carry ``name`` as their operator."""

    name: str
    compose: Callable[[Pair, int], object]
    seed: int

    async def write(self, pairs: Sequence[Pair], *, round_number: int) -> list[Draft]:
        drafts = []
        for number, pair in enumerate(pairs):
            text = self.compose(pair, derive_seed(self.seed, "own", round_number, number))
            if text is not None and not isinstance(text, str):
                wanted = "the text of a problem, or None where the pair gives none"
                raise refuse("composer", self.name, text, "a pair of parents", wanted)
            composed, reason = None, "the function has nothing for the pair"
            if text is not None:
                composed, reason = build_statement(text, pair, round_number, operator=self.name)
            drafts.append(_make_draft(pair, composed, reason))
        return drafts


def drop_repeats(drafts: Sequence[Draft]) -> list[Draft]:
    """The drafts, with a reason in place of each problem that an earlier draft has already.

    Results are noted by a problem's id, so that no id may come twice.
    """
    known: set[str] = set()
    found = []
    for draft in drafts:
        if draft.composed is not None and draft.composed.problem.id in known:
            draft = replace(draft, composed=None, reason=REPEATED)
        elif draft.composed is not None:
            known.add(draft.composed.problem.id)
        found.append(draft)
    return found


def encode_pair(policy: TransformersPolicy, pair: Pair) -> Prompt:
    """The composer's prompt: both problems, in the words of the policy's layout."""
    name = "+".join(parent.problem.id for parent in pair)
    shown = []
    for letter, problem in zip(NAMES, (parent.problem for parent in pair), strict=True):
        text = problem.preamble + problem.statement.rstrip()
        shown.append(f"// {letter}\n{use_layout_words(problem, text, policy.layout)}")
    message = Message("user", "\n".join(shown).rstrip("\n") + SCRIPT_HEADING)
    return encode_messages(policy.tokenizer, name, (message,), policy.layout)


def teach_scripts(
    policy: TransformersPolicy, pairs: Sequence[Pair], operators: Sequence[str], *, seed: int
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Prompt and script of each pair, as token ids, end token included; a pair to which no operator
    applies is left out."""
    taught = []
    for number, pair in enumerate(pairs):
        rng = random.Random(derive_seed(seed, "teach", number))
        known = check_operators(pair[0].problem.language, operators)
        script = write_script(rng, pair, known, two_lines=TWO_LINES)
        if script is None:
            continue
        ids = policy.tokenizer(str(script), add_special_tokens=False)["input_ids"]
        taught.append((encode_pair(policy, pair).token_ids, (*ids, policy.end_id)))
    return taught


def build_statement(
    text: str, pair: Sequence[Parent], round_number: int, *, operator: str
) -> tuple[Composed | None, str]:
    """The problem of an unchecked text, or the reason why it is none: the audit refuses it, or it
    does not hold exactly one hole."""
    code = text.strip() + "\n"
    first = pair[0].problem
    if code.count(HOLE) != 1:
        return None, f"the marker {HOLE} does not stand in it exactly once"
    if len({parent.problem.language for parent in pair}) != 1:
        return None, "the parents are of two languages"
    composing = find_composing(first.language)
    preamble = composing.own_preamble(first)
    written = replace(first, preamble="", statement=code)
    if cheats := composing.find_cheats(written):
        return None, f"refused by the audit: {cheats[0][1]}"
    made = Made(first.kind, code, None, preamble)
    parents = [parent.problem for parent in pair]
    return build_composed(made, parents, operator, round_number=round_number, seed=0), ""


def dump_drafts(drafts: Sequence[Draft]) -> list[dict[str, Any]]:
    """Drafts as JSON values."""
    return [
        {field.name: getattr(draft, field.name) for field in fields(draft)}
        | {
            "composed": draft.composed and dump_composed(draft.composed),
            "completion": draft.completion and dump_completion(draft.completion),
        }
        for draft in drafts
    ]


def load_drafts(rows: Sequence[Mapping[str, Any]]) -> list[Draft]:
    """The drafts that ``dump_drafts`` wrote."""
    return [
        Draft(
            **{
                **row,
                "parents": tuple(row["parents"]),
                "composed": row["composed"] and load_composed(row["composed"]),
                "completion": row["completion"] and load_completion(row["completion"]),
            }
        )
        for row in rows
    ]


def _make_draft(
    pair: Pair, composed: Composed | None, reason: str, completion: Completion | None = None
) -> Draft:
    parents = tuple(parent.problem.id for parent in pair)
    kept = "" if composed is not None else reason
    return Draft(parents, composed, kept, completion=completion)
