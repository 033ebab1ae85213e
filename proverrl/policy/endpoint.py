"""A policy behind a server that speaks OpenAI's protocol, for evaluation and search.

Flows in: prompts as messages or text. Flows out: completions, with log-probabilities where the
server gives them. A completion says what is missing, its token ids at least, and cannot be learned
from. Temporary failures (429, 5xx, a timeout, no connection, an answer that says that the
model broke off) are repeated; a parameter that a server refuses and can do without is left out; a
prompt that is too long is no error of the others. Everything else is an error that names the URL
and what to do. Not handled here: weights (this policy never learns), several turns under
``api = "completions"``.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any

import httpx2

from proverrl.config import EndpointConfig, LayoutName
from proverrl.errors import UsageError
from proverrl.policy.base import Exchange, Policy, continue_messages, require_room
from proverrl.problems.prompt import NOTHING_BEFORE, Before, join_messages, join_parts
from proverrl.seeds import derive_seed
from proverrl.types import Completion, FinishReason, Problem, Prompt, Sampling, TokenField
from proverrl.verifier.remote_server import read_retry_after

RETRIES, RETRY_SECONDS, MAX_WAIT_SECONDS = 5, 1.0, 60.0
"""Further attempts after a failure that may pass, the first wait, and the longest: a server that is
overloaded or restarts is waited for half a minute."""
_FINISH: dict[str, FinishReason] = {"length": "length", "content_filter": "content_filter"}
MAX_SEED = 2**31 - 1
"""Servers keep seeds in 32 bits, some of them signed."""

_INSTEAD = {"max_tokens": "max_completion_tokens", "logprobs": None}
"""Parameters that some servers refuse, and those that take their place."""
_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|context (?:length|size|window)|prompt is too long"
)
_CONTEXT = re.compile(r"maximum context length is (\d+)")
_PATHS = {"chat": "/chat/completions", "completions": "/completions"}
_REMEDIES = {
    400: "the server refuses the request; does it know the keys of its api, the model, n and "
    "logprobs, and has its context room for sampling.max_new_tokens?",
    401: "put a valid key into the variable that api_key_env names in its table of [endpoints]",
    403: "the key may not use this model; check model in its table of [endpoints]",
    404: "check url (it mostly ends in /v1), api and model in its table of [endpoints]",
    422: "the server refuses the request; check api in its table of [endpoints]",
}


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """The cost of requests: tokens of prompts and of completions, thinking included, as the server
    counts them. ``unreported`` of the ``requests`` came without counts."""

    requests: int = 0
    unreported: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


class EndpointPolicy:
    """``version`` stays 0. ``transport`` replaces the network in tests, ``sleep`` the waiting."""

    version = 0

    def __init__(
        self,
        config: EndpointConfig,
        *,
        layout: LayoutName = "plain",
        before: Before = NOTHING_BEFORE,
        transport: httpx2.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Any] = asyncio.sleep,
    ) -> None:
        self.config = config
        self.layout = layout
        self.before = before
        self.address = config.url.rstrip("/") + _PATHS[config.api]
        self._transport = transport
        self._sleep = sleep
        # Only spreads the retries of one process; no draw depends on it.
        self._rng = random.Random(0)
        self._usage = TokenUsage()
        self._refused: set[str] = set()
        self._said = ""

    @property
    def engine(self) -> str:
        return f"endpoint {self.address}, model {self.config.model}"

    def prompt(self, problem: Problem) -> Prompt:
        messages = self.before.messages(problem, self.layout)
        text = join_messages(messages, self.layout)
        return Prompt(problem.id, text, (), messages if self.config.api == "chat" else ())

    def resume(self, prompt: Prompt, history: Sequence[Exchange]) -> Prompt:
        """Continue a conversation by messages; the server makes their token ids. Raises
        ``UsageError`` if the API continues text."""
        if self.config.api != "chat":
            raise UsageError(
                "several turns need exact token ids, which a server does not take back; for "
                'rollout.mode = "self_correct" set api = "chat" in its table of [endpoints], else '
                "whole_proof"
            )
        return continue_messages(prompt, history)

    async def generate(
        self, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        """See ``Policy.generate``; at most ``concurrency`` requests are in flight. A
        server that gives fewer completions than it is asked for is asked again. Raises
        ``UsageError`` if it refuses, cannot be reached, or answers in another form."""
        gate = asyncio.Semaphore(self.config.concurrency)
        async with httpx2.AsyncClient(
            transport=self._transport, timeout=self.config.timeout_seconds, headers=self._headers()
        ) as client:

            async def ask(index: int, prompt: Prompt) -> list[Completion] | None:
                row: list[Completion] = []
                async with gate:
                    while len(row) < n:
                        again = (len(row),) if row else ()
                        seed = derive_seed(sampling.seed, "prompt", index, *again)
                        body = self._request(prompt, n - len(row), sampling, seed % MAX_SEED)
                        answer = await self._post(client, body)
                        if answer is None:
                            return None
                        row += self._read(answer, n - len(row))
                return row

            tasks = [asyncio.create_task(ask(i, prompt)) for i, prompt in enumerate(prompts)]
            try:
                rows = await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
        return require_room(prompts, rows, n=n, why=f"{self.address}: {self._said}")

    def take_usage(self) -> TokenUsage:
        """The cost of the requests answered since the last call."""
        usage, self._usage = self._usage, TokenUsage()
        return usage

    def _headers(self) -> dict[str, str]:
        key = os.environ.get(self.config.api_key_env, "") if self.config.api_key_env else ""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def _request(self, prompt: Prompt, n: int, sampling: Sampling, seed: int) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.config.model,
            "n": n,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_new_tokens,
            "seed": seed,
        }
        if sampling.top_k:
            # Not of OpenAI's protocol; vLLM, SGLang and llama.cpp read it.
            body["top_k"] = sampling.top_k
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        if self.config.api == "chat":
            body |= {"messages": [asdict(m) for m in prompt.messages], "logprobs": True}
        else:
            body |= {"prompt": prompt.text, "logprobs": 0}
        return body

    async def _post(
        self, client: httpx2.AsyncClient, body: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """The answer to a request; None where its prompt is too long for the model."""
        failure, attempt = "", 0
        while True:
            asked: float | None = None
            sent = self._leave_out_refused(body)
            try:
                response = await client.post(self.address, json=sent)
            except httpx2.TimeoutException:
                failure = f"no answer in {self.config.timeout_seconds:g} s"
            except httpx2.TransportError as error:
                failure = str(error) or type(error).__name__
            except httpx2.InvalidURL as error:
                raise UsageError(
                    f"{self.address}: {error}; check url in its table of [endpoints]"
                ) from error
            else:
                status, said, answer = self._decode(response)
                if status == 200:
                    return answer
                failure = f"status {status}: {said[:300].strip()}"
                if status != 429 and status < 500:
                    if refused := _find_refused(sent, said):
                        self._refused.add(refused)
                        continue
                    if _is_too_long(said, body["max_tokens"]):
                        self._said = failure
                        return None
                    remedy = _REMEDIES.get(status, "see the server's log")
                    raise UsageError(f"{self.address}: {failure}; {remedy}")
                asked = read_retry_after(response.headers.get("retry-after", ""))
            attempt += 1
            if attempt > RETRIES:
                raise UsageError(
                    f"{self.address}: {failure}, after {attempt} attempts; is the server up? Else "
                    "raise timeout_seconds in its table of [endpoints], or lower concurrency there"
                )
            await self._sleep(self._wait(attempt - 1, asked))

    def _leave_out_refused(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A request as the server takes it; what it refused is known for the next ones."""
        sent = {key: value for key, value in body.items() if key not in self._refused}
        named = {_INSTEAD[key]: body[key] for key in self._refused & body.keys()}
        return sent | {key: value for key, value in named.items() if key}

    def _wait(self, attempt: int, asked: float | None) -> float:
        """Seconds before the next attempt, at most a minute; up to half more than the double of
        the last wait, so that requests that failed together do not come back together."""
        doubled = RETRY_SECONDS * 2**attempt * (1 + 0.5 * self._rng.random())
        return min(MAX_WAIT_SECONDS, doubled if asked is None else asked)

    def _decode(self, response: httpx2.Response) -> tuple[int, str, dict[str, Any]]:
        """Status, text and JSON of an answer; an error that comes with status 200, as gateways send
        it when the model behind them breaks off, has the status that it names, else 502."""
        if response.status_code != 200:
            return response.status_code, response.text, {}
        try:
            answer = response.json()
        except ValueError as error:
            raise self._strange(response.text[:200]) from error
        if isinstance(answer, dict) and (failed := _find_error(answer)):
            code = failed.get("code") if isinstance(failed, dict) else None
            status = code if isinstance(code, int) and code >= 400 else 502
            return status, json.dumps(failed, ensure_ascii=False), {}
        if not isinstance(answer, dict) or not isinstance(answer.get("choices"), list):
            raise self._strange(response.text[:200])
        return 200, "", answer

    def _strange(self, what: str) -> UsageError:
        return UsageError(
            f"{self.address}: the answer is no completion as OpenAI's protocol has it: {what!r}; "
            "check url and api in its table of [endpoints]"
        )

    def _read(self, answer: Mapping[str, Any], n: int) -> list[Completion]:
        self._usage += _read_usage(answer.get("usage"))
        choices = answer["choices"]
        if not 0 < len(choices) <= n:
            raise self._strange(f"{len(choices)} choices where {n} were asked for")
        try:
            choices.sort(key=lambda choice: int(choice.get("index", 0)))
            return [self._read_choice(choice) for choice in choices]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._strange(repr(error)) from error

    def _read_choice(self, choice: Mapping[str, Any]) -> Completion:
        finish: FinishReason = _FINISH.get(str(choice.get("finish_reason")), "stop")
        if self.config.api == "chat":
            message = choice["message"]
            text = join_parts(message.get("content"))
            thought = message.get("reasoning_content") or message.get("reasoning")
            if thought and not text and finish == "stop":
                # A parser that waited for the end of thinking took all for it.
                text = str(thought)
            elif thought:
                # A server that takes the thinking out gives it apart; both are what was written.
                text = f"<think>{thought}" + (f"</think>{text}" if text else "")
        else:
            text = choice["text"]
        if not isinstance(text, str):
            raise TypeError(f"a text that is {text!r}")
        stop = choice.get("stop_reason")
        if isinstance(stop, str) and not text.endswith(stop):
            # Servers cut the stop text off; it was written.
            text += stop
        logprobs = _read_logprobs(choice.get("logprobs"))
        missing: tuple[TokenField, ...] = ("prompt_ids", "token_ids")
        return Completion(
            text=text,
            prompt_ids=(),
            token_ids=(),
            logprobs=logprobs,
            finish_reason=finish,
            policy_version=self.version,
            missing=missing if logprobs else (*missing, "logprobs"),
        )


def take_usage(policy: Policy) -> TokenUsage | None:
    """The cost of a server's completions since the last call; None for other policies."""
    return policy.take_usage() if isinstance(policy, EndpointPolicy) else None


def _find_error(answer: Mapping[str, Any]) -> Any:
    """The failure that an answer reports, as a whole or of one of its completions; None or empty
    where it reports none."""
    choices = answer.get("choices")
    broken = [
        choice.get("error") or "the model broke off (finish_reason error)"
        for choice in (choices if isinstance(choices, list) else ())
        if isinstance(choice, dict)
        and (choice.get("error") or choice.get("finish_reason") == "error")
    ]
    return answer.get("error") or next(iter(broken), None)


def _find_refused(sent: Mapping[str, Any], said: str) -> str:
    """The parameter of a request that a server's error asks to leave out or to call otherwise;
    empty where that cannot help."""
    if _TOO_LONG.search(said):
        return ""
    named = (key for key, other in _INSTEAD.items() if key in sent and (other or key) in said)
    return next(named, "")


def _is_too_long(said: str, max_tokens: int) -> bool:
    """True if an error is about the length of the prompt; not where no prompt could be short enough
    for ``max_tokens``."""
    context = _CONTEXT.search(said)
    has_room = context is None or int(context[1]) > max_tokens
    return has_room and _TOO_LONG.search(said) is not None


def _read_logprobs(value: Any) -> tuple[float, ...]:
    """Log-probabilities of the tokens, in the form of either API; empty when there are none."""
    if not isinstance(value, dict):
        return ()
    if isinstance(value.get("content"), list):
        numbers = [entry["logprob"] for entry in value["content"]]
    else:
        numbers = value.get("token_logprobs") or []
    return tuple(float(number) for number in numbers)


def _read_usage(value: Any) -> TokenUsage:
    told = value if isinstance(value, dict) else {}
    read, written = told.get("prompt_tokens"), told.get("completion_tokens")
    if not isinstance(read, int) or not isinstance(written, int):
        return TokenUsage(requests=1, unreported=1)
    return TokenUsage(requests=1, prompt_tokens=read, completion_tokens=written)
