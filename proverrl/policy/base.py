"""The interface between what writes completions and everything else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from proverrl.config import LayoutName
from proverrl.errors import UsageError, name_some
from proverrl.problems.prompt import Before
from proverrl.types import Completion, Message, Problem, Prompt, Sampling

if TYPE_CHECKING:
    # It brings torch, which a search without a policy does without.
    from proverrl.parallel import World


@dataclass(frozen=True, slots=True)
class Exchange:
    """A completion and what the policy was told about it, in a message of its own."""

    completion: Completion
    feedback: str


class Policy(Protocol):
    """Writes completions. ``version`` counts the weight updates that it has seen."""

    @property
    def version(self) -> int: ...

    @property
    def engine(self) -> str:
        """The engine and the device in use, for people to read."""

    @property
    def layout(self) -> LayoutName:
        """The layout of the problems that it is shown, and of the answers that it gives."""

    @property
    def before(self) -> Before:
        """What it is shown before each problem."""

    def prompt(self, problem: Problem) -> Prompt:
        """The problem as text and as exact token ids."""

    def resume(self, prompt: Prompt, history: Sequence[Exchange]) -> Prompt:
        """The prompt of the next turn: the problem's prompt and the exchanges that followed it.

        Token ids of prompt and completions are kept as they are.
        """

    async def generate(
        self, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        """``n`` completions for each prompt, in the order of the prompts. Raises ``NoRoomError``
        when all is written, if a prompt is too long for the model."""


class Sampler(Policy, Protocol):
    """A policy that samples from a model trained in this process."""

    @property
    def context_tokens(self) -> int:
        """The most tokens of prompt and completion together."""

    def push(self, version: int) -> dict[str, float]:
        """Sample from the trained weights as they are now, and call them ``version``; returns
        figures for the metrics. The weights must not change meanwhile. Raises ``WeightSyncError``
        if the sampling engine does not hold them."""

    def sleep(self) -> None:
        """Give up what memory the engine can do without until the next ``push``; each of several
        processes does so by itself."""

    def close(self) -> None:
        """Release what the engine holds; nothing is sampled afterwards."""


class SharedSampler(Sampler, Protocol):
    """A sampler for which several processes write, which talk over ``world``."""

    world: World

    def take(self, version: int) -> None:
        """Write with the weights of this version from now on: what rank 0 tells the others before
        each batch."""

    def generate_shared(
        self, prompts: list[Prompt], n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        """``generate`` in this thread; rank 0 tells the others, which call this with the same
        values."""


def continue_messages(prompt: Prompt, history: Sequence[Exchange]) -> Prompt:
    """A prompt of messages with the exchanges after it."""
    messages = list(prompt.messages)
    for exchange in history:
        messages.append(Message("assistant", exchange.completion.text))
        messages.append(Message("user", exchange.feedback))
    return Prompt(prompt.problem_id, prompt.text, (), tuple(messages))


class NoRoomError(UsageError):
    """Some prompts leave no token of a model's context for an answer. ``written`` has the
    completions of all the others, and for these completions without a token (``no_room``)."""

    def __init__(self, message: str, written: list[list[Completion]]) -> None:
        super().__init__(message)
        self.written = written


async def generate_fitting(
    policy: Policy, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
) -> list[list[Completion]]:
    """As ``Policy.generate``; what has no room is no error, but a completion that says so."""
    try:
        return await policy.generate(prompts, n=n, sampling=sampling)
    except NoRoomError as error:
        return error.written


def require_room(
    prompts: Sequence[Prompt],
    rows: Sequence[list[Completion] | None],
    *,
    n: int,
    why: str,
) -> list[list[Completion]]:
    """The completions of each prompt. Raises ``NoRoomError`` that names the problems of those
    without a row, which had no room, and says ``why``."""
    blank = Completion("", (), (), (), "no_room", 0)
    written = [[blank] * n if row is None else row for row in rows]
    long = [prompt.problem_id for prompt, row in zip(prompts, rows, strict=True) if row is None]
    if long:
        raise NoRoomError(f"{name_some(long)}: {why}", written)
    return written


def place_rows(
    prompts: Sequence[Prompt], written: Sequence[list[Completion]], n: int, most: int, remedy: str
) -> list[list[Completion]]:
    """The completions of those prompts that leave room in ``most`` tokens, in the places of all.
    Raises ``NoRoomError`` where there are others."""
    rows = iter(written)
    longest = max((len(prompt.token_ids) for prompt in prompts), default=0)
    return require_room(
        prompts,
        [next(rows) if len(prompt.token_ids) < most else None for prompt in prompts],
        n=n,
        why=f"a prompt of {longest} tokens leaves no room in the {most} tokens of the model; "
        + remedy,
    )
