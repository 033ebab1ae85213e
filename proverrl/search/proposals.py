"""Proposals of a policy after prefixes of proofs, many prefixes in one batch.

Flows in: a policy; requests for continuations. Flows out: whole bodies. The prefix is given as
tokens after the problem's prompt, in the words of the policy's layout, so the policy only writes
what follows; the answer is then read like any other. For Lean the state is written after the prefix
as a comment (``Searching.resume_comment``) and taken out of the body again.

Requests that arrive while the policy is writing are one batch when it is done. A request on its own
is drawn with its own seed, and so repeats exactly. The seed of a batch is made of the seeds in it,
in the order in which they came, so it repeats when the same requests meet.
Not handled here: servers that do not continue a text.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from transformers import PreTrainedTokenizerBase

from proverrl.config import LayoutName, RolloutConfig
from proverrl.config.search import StepName
from proverrl.errors import UsageError
from proverrl.lang import find_language
from proverrl.lang.records import Prefix
from proverrl.policy.base import Policy
from proverrl.policy.endpoint import EndpointPolicy
from proverrl.policy.engines import find_context
from proverrl.policy.function import FunctionPolicy
from proverrl.policy.transformers import TransformersPolicy
from proverrl.policy.vllm import VllmPolicy
from proverrl.problems.prompt import LAYOUTS, render_body, render_opening
from proverrl.rollout.extract import extract
from proverrl.rollout.self_correct import resume_within, tell
from proverrl.search.base import Proposal
from proverrl.seeds import derive_seed
from proverrl.types import (
    Candidate,
    Completion,
    Problem,
    Prompt,
    Rollout,
    Sampling,
    Turn,
    Verdict,
)

_NO_STEP = ("-", "/", "```", "<")
"""Begin lines that are no step in any language: comments, ends of a block of code, marks."""
_MAX_OPENINGS = 4
"""Lines in a row that only open blocks, at most: ``cases h with``, an alternative, a ``have``."""

Extend = Callable[[Prompt, str], Prompt]
"""A prompt with the beginning of an answer after it."""


def make_extend(policy: Policy) -> Extend:
    """The function that gives the beginning of an answer to a policy. Raises ``UsageError`` if the
    policy's server is given messages, so that it cannot continue an answer."""
    if isinstance(policy, EndpointPolicy):
        if policy.config.api != "completions":
            raise UsageError(
                f"search continues the beginning of an answer, which {policy.address} does not "
                'take; set api = "completions" in its table of [endpoints], or search with '
                "best-of-n"
            )
        return lambda prompt, text: replace(prompt, text=prompt.text + text)
    tokenizer = find_tokenizer(policy)
    return lambda prompt, text: replace(
        prompt, text=prompt.text + text, token_ids=prompt.token_ids + encode(tokenizer, text)
    )


def find_tokenizer(policy: Policy) -> PreTrainedTokenizerBase:
    """The tokenizer of a policy whose model is here. Raises ``UsageError`` if the policy has
    none."""
    if isinstance(policy, VllmPolicy):
        return policy.trained.tokenizer
    if isinstance(policy, TransformersPolicy):
        return policy.tokenizer
    raise UsageError(
        f"the policy ({policy.engine}) has no tokenizer here, so that it cannot be given the "
        "beginning of an answer; search with a model of this process or with best-of-n"
    )


def render_prefix(policy: Policy, problem: Problem, prefix: Prefix) -> tuple[str, str]:
    """The beginning of an answer for the policy, and the comment in it that is not the body's."""
    if not prefix.text:
        return "", ""
    searching = find_language(problem.language).searching
    comment = "" if searching is None else searching.resume_comment(problem, prefix)
    return render_opening(problem, prefix.text + comment, policy.layout), comment


@dataclass
class _ProposalRequest:
    problem: Problem
    prompt: Prompt
    n: int
    seed: int
    done: asyncio.Future[list[Completion]]


@dataclass
class Proposer:
    """A ``Propose`` over a policy. ``sampling.seed`` is not used: each request has its own.

    ``num_unread`` counts the answers in which no body was found.
    """

    policy: Policy
    sampling: Sampling
    num_unread: int = 0
    _waiting: list[_ProposalRequest] = field(default_factory=list)
    _writer: asyncio.Task[None] | None = None

    async def __call__(self, problem: Problem, prefix: Prefix, n: int, seed: int) -> list[Proposal]:
        """``n`` continuations. Not read are those that have no body in them, and those where
        nothing was written after a prefix that ends with a line break; where the model's context
        has no room for an answer there is one without a body. Raises ``UsageError`` if the policy
        cannot continue an answer, or tells no log-probabilities."""
        prompt = self._prompt(problem, prefix)
        if len(prompt.token_ids) >= find_context(self.policy):
            return [Proposal(prefix.text, 0, 0.0, False, "the model's context has no room for it")]
        loop = asyncio.get_running_loop()
        request = _ProposalRequest(problem, prompt, n, seed, loop.create_future())
        self._waiting.append(request)
        # The writer is a task of its own, so that a search that is cancelled takes no other along.
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_all())
        completions = await request.done
        return [self._read(problem, prefix, completion) for completion in completions]

    async def _write_all(self) -> None:
        """Write for all who wait, in batches of those who came while the last was written."""
        while self._waiting:
            arrived, self._waiting = self._waiting, []
            batch = [request for request in arrived if not request.done.cancelled()]
            if not batch:
                continue
            work = asyncio.create_task(self._write(batch))
            await asyncio.wait([work])
            for index, request in enumerate(batch):
                if request.done.done():
                    continue
                error = work.exception()
                if error is not None:
                    request.done.set_exception(error)
                else:
                    request.done.set_result(work.result()[index])

    async def _write(self, batch: Sequence[_ProposalRequest]) -> list[list[Completion]]:
        seeds = (request.seed for request in batch)
        seed = functools.reduce(lambda made, one: derive_seed(made, "batch", one), seeds)
        sampling = replace(self.sampling, seed=seed)
        prompts = [request.prompt for request in batch]
        counts = {request.n for request in batch}
        if len(counts) == 1:
            return await self.policy.generate(prompts, n=counts.pop(), sampling=sampling)
        # Requests for different numbers: each prompt as often as it is wanted.
        repeated = [p for p, request in zip(prompts, batch, strict=True) for _ in range(request.n)]
        written = await self.policy.generate(repeated, n=1, sampling=sampling)
        singles = (row[0] for row in written)
        return [list(itertools.islice(singles, request.n)) for request in batch]

    def _open(self, problem: Problem, prefix: Prefix) -> tuple[str, str]:
        return render_prefix(self.policy, problem, prefix)

    def _prompt(self, problem: Problem, prefix: Prefix) -> Prompt:
        prompt = self.policy.prompt(problem)
        opening, _ = self._open(problem, prefix)
        return self._extend(prompt, opening) if opening else prompt

    @functools.cached_property
    def _extend(self) -> Extend:
        return make_extend(self.policy)

    def _read(self, problem: Problem, prefix: Prefix, completion: Completion) -> Proposal:
        opening, comment = self._open(problem, prefix)
        if comment:
            # Not the body's: its words would take letters from names that the body makes up.
            opening = render_opening(problem, prefix.text, self.policy.layout) + "\n"
        body, reason = read_answer(problem, opening + completion.text, self.policy.layout)
        if not reason and not body.startswith(prefix.text):
            reason = "the answer does not continue its prefix"
        if reason:
            self.num_unread += 1
            return make_proposal(prefix.text, completion, reason)
        return make_proposal(body, completion)


@dataclass
class StepProposer(Proposer):
    """A ``Propose`` of single tactics: the prefix and what is written up to the line's end.

    With ``best_first`` this is BFS-Prover (Xin et al. 2025, arXiv 2502.03438). Each body is one
    edge of the tree with the log-probability of its own tokens, the end of the line among them. The
    policy is given the beginning of the answer up to the hole, so its first token is already proof.
    The line is taken as it is indented; without indentation in a code block it stands in the hole's
    column, or deeper after a line that opens a block (``have h : p := by``). Such a line is no step
    by itself, since Lean would say little of it: the policy goes on until a line ends otherwise.
    Dafny has no such steps: its statements do not end with a line. ``num_unread`` counts the
    answers that begin with no tactic.
    """

    def __post_init__(self) -> None:
        self.sampling = replace(self.sampling, stop=(*self.sampling.stop, "\n"))

    async def _write(self, batch: Sequence[_ProposalRequest]) -> list[list[Completion]]:
        rows = await super()._write(batch)
        for more in range(_MAX_OPENINGS):
            opened = [
                (row, place, self._go_on(request.prompt, row[place]))
                for request, row in zip(batch, rows, strict=True)
                for place in range(len(row))
                if _goes_on(request.problem, row[place].text)
            ]
            room = find_context(self.policy)
            opened = [each for each in opened if len(each[2].token_ids) < room]
            if not opened:
                break
            seed = derive_seed(batch[0].seed, "opened", more)
            sampling = replace(self.sampling, seed=seed)
            written = await self.policy.generate([p for _, _, p in opened], n=1, sampling=sampling)
            for (row, place, _), (completion,) in zip(opened, written, strict=True):
                row[place] = _join(row[place], completion)
        return rows

    def _go_on(self, prompt: Prompt, completion: Completion) -> Prompt:
        text, ids = completion.text, completion.token_ids
        return replace(prompt, text=prompt.text + text, token_ids=prompt.token_ids + ids)

    def _open(self, problem: Problem, prefix: Prefix) -> tuple[str, str]:
        """The beginning of the answer, at the root too. Raises ``UsageError`` if proofs in the
        problem's language have no steps that end with a line."""
        searching = find_language(problem.language).searching
        if searching is None or not searching.has_steps:
            raise UsageError(
                f"problem {problem.id!r} is in {problem.language}, and search.step = "
                '"tactic" is for languages of tactics; set search.step = "proof"'
            )
        if prefix.text:
            return render_prefix(self.policy, problem, prefix)
        return render_opening(problem, "", self.policy.layout), ""

    def _read(self, problem: Problem, prefix: Prefix, completion: Completion) -> Proposal:
        line = _take_step(problem, completion.text)
        if not line.strip() or line.lstrip().startswith(_NO_STEP):
            self.num_unread += 1
            return make_proposal(prefix.text, completion, "the answer begins with no tactic")
        if not LAYOUTS[self.policy.layout].in_block:
            # There the answer is the body alone, read whole with the blanks that it has.
            return super()._read(problem, prefix, replace(completion, text=line))
        if not prefix.text:
            return make_proposal(line.lstrip(), completion)
        searching = find_language(problem.language).searching
        if line == line.lstrip() and searching is not None:
            line = " " * searching.next_column(problem, prefix.text) + line
        return make_proposal(f"{prefix.text}\n{line}", completion)


def _goes_on(problem: Problem, line: str) -> bool:
    searching = find_language(problem.language).searching
    return searching is not None and searching.opens_block(line)


def _take_step(problem: Problem, text: str) -> str:
    """The first line, and those after it as long as the last one opens a block."""
    lines = text.split("\n")
    end = 1
    while end < len(lines) and _goes_on(problem, lines[end - 1]):
        end += 1
    return "\n".join(lines[:end]).rstrip()


def _join(first: Completion, second: Completion) -> Completion:
    return replace(
        first,
        text=first.text + second.text,
        token_ids=first.token_ids + second.token_ids,
        logprobs=first.logprobs + second.logprobs,
        finish_reason=second.finish_reason,
    )


PROPOSERS: dict[StepName, type[Proposer]] = {"proof": Proposer, "tactic": StepProposer}


def read_answer(problem: Problem, text: str, layout: LayoutName) -> tuple[str, str]:
    """The body in an answer, and why there is none, or none that a search can use: a prelude stands
    before it.

    The canonical layout gives names that a body made up their letters by order of appearance. The
    body is given them here, so that a prefix of it is shown, and read again, as it is.
    """
    found = extract(problem, text, layout)
    if found.body is None or found.prelude:
        return "", found.reason or "declarations stand before the statement"
    if layout != "canonical":
        return found.body, ""
    again = extract(problem, render_body(problem, found.body, layout), layout)
    return again.body or "", again.reason


def count_tokens(completion: Completion) -> int:
    """The number of tokens that were written. Raises ``UsageError`` if nobody told."""
    count = len(completion.token_ids) or len(completion.logprobs)
    if not count and completion.text:
        raise UsageError(
            "search needs the log-probability of what was written, which the policy's server or "
            "function does not tell; use one that gives logprobs"
        )
    return count


def make_proposal(body: str, completion: Completion, reason: str = "") -> Proposal:
    """A body with the cost and the likelihood of the completion that wrote it, or ``reason`` why
    it wrote none."""
    truncated = completion.finish_reason == "length"
    num_tokens = count_tokens(completion)
    return Proposal(body, num_tokens, sum(completion.logprobs), truncated, reason)


def ask_again(
    policy: Policy, problem: Problem, body: str, verdict: Verdict, settings: RolloutConfig
) -> Prompt:
    """The prompt of the turn after a failed body: the problem, the body as the policy would have
    written it, and what it is told of the verdict."""
    text = render_body(problem, body, policy.layout)
    has_no_tokens = isinstance(policy, EndpointPolicy | FunctionPolicy)
    ids = () if has_no_tokens else encode(find_tokenizer(policy), text)
    # As if it had been cut off: the policy's own end token is set where it belongs.
    failed = Completion(text, (), ids, (0.0,) * len(ids), "length", policy.version)
    turn = Turn(failed, Candidate(problem, body), verdict)
    turn = replace(turn, feedback=tell(turn, policy, settings))
    rollout = Rollout(f"{problem.id}-correct", problem, "solver", (turn,))
    return resume_within(policy, policy.prompt(problem), rollout, settings)


@dataclass
class Corrector:
    """Writes the next attempt after a failed body and what the verifier said of it: sequential
    self-correction (Goedel-Prover-V2, Lin et al. 2025, arXiv 2508.03613).

    The failed answer is the body in the words of the layout, as the policy would have written it.
    Where no body is found in the new answer the failed one stands, with the reason.
    """

    policy: Policy
    sampling: Sampling
    settings: RolloutConfig

    async def __call__(self, problem: Problem, body: str, verdict: Verdict, seed: int) -> Proposal:
        """A new whole body."""
        prompt = ask_again(self.policy, problem, body, verdict, self.settings)
        sampling = replace(self.sampling, seed=seed)
        ((completion,),) = await self.policy.generate([prompt], n=1, sampling=sampling)
        found, reason = read_answer(problem, completion.text, self.policy.layout)
        return make_proposal(body if reason else found, completion, reason)


def encode(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[int, ...]:
    """Tokens of a text, without those that a tokenizer adds around it."""
    return tuple(int(i) for i in tokenizer(text, add_special_tokens=False)["input_ids"])
