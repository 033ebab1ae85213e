"""The endpoint policy against a server in this process: what is asked, read, retried, refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from proverrl.config import EndpointConfig, load_config, parse_config
from proverrl.errors import ConfigError, RecordError, UsageError
from proverrl.jobs.evaluate import open_policy
from proverrl.jobs.train import train
from proverrl.policy.base import Exchange, NoRoomError
from proverrl.policy.endpoint import EndpointPolicy
from proverrl.rollout.samples import build_rollout_samples
from proverrl.seeds import derive_seed
from proverrl.types import Completion, Message, Rollout, Sampling, Turn
from tests.builders import build_problem

URL = "http://127.0.0.1:9/v1"
PROBLEM = build_problem("p")
Answer = Callable[[httpx2.Request], httpx2.Response]


class Server:
    """Answers by a list of functions, the last one for ever, and keeps what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[httpx2.Request] = []
        self.waits: list[float] = []
        self.running = self.most = 0

    async def handle(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.running -= 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer(request)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(request.content) for request in self.requests]

    def policy(self, **changes: Any) -> EndpointPolicy:
        config = EndpointConfig.model_validate({"url": URL, "model": "m", **changes})
        transport = httpx2.MockTransport(self.handle)
        return EndpointPolicy(config, layout="dafny", transport=transport, sleep=self.sleep)


def chat(text: str, **more: Any) -> dict[str, Any]:
    return {"index": 0, "message": {"content": text}, "finish_reason": "stop", **more}


def says(*choices: dict[str, Any], **more: Any) -> Answer:
    return lambda _: httpx2.Response(200, json={"choices": list(choices), **more})


def fails(status: int, text: str = "no", **headers: str) -> Answer:
    return lambda _: httpx2.Response(status, text=text, headers=headers)


def ask(policy: EndpointPolicy, *, n: int = 1, num_prompts: int = 1) -> list[list[Completion]]:
    sampling = Sampling(temperature=0.5, max_new_tokens=9, seed=3, stop=("</code>",))
    prompts = [policy.prompt(PROBLEM)] * num_prompts
    return asyncio.run(policy.generate(prompts, n=n, sampling=sampling))


def test_a_chat_request_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "secret")
    server = Server(says(chat("a")))
    policy = server.policy(api_key_env="MY_KEY")
    ask(policy)
    [body] = server.bodies()
    messages = [{"role": m.role, "content": m.content} for m in policy.prompt(PROBLEM).messages]
    assert [m["role"] for m in messages] == ["system", "user"]
    assert body == {
        "model": "m",
        "n": 1,
        "temperature": 0.5,
        "top_p": 1.0,
        "max_tokens": 9,
        "seed": derive_seed(3, "prompt", 0) % (2**31 - 1),
        "stop": ["</code>"],
        "messages": messages,
        "logprobs": True,
    }
    assert str(server.requests[0].url) == f"{URL}/chat/completions"
    assert server.requests[0].headers["authorization"] == "Bearer secret"
    assert "secret" not in policy.engine


def test_a_completions_request_sends_text_and_no_key_when_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    server = Server(says({"text": "a", "finish_reason": "length"}))
    [[completion]] = ask(server.policy(api="completions"))
    [body] = server.bodies()
    assert body["prompt"].startswith("You are an expert")
    assert (body["logprobs"], "messages" in body) == (0, False)
    assert str(server.requests[0].url) == f"{URL}/completions"
    assert "authorization" not in server.requests[0].headers
    assert completion.finish_reason == "length"


def test_logprobs_are_kept_where_the_server_gives_them() -> None:
    entries = {"content": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -0.25}]}
    [[whole]] = ask(Server(says(chat("ab", logprobs=entries))).policy())
    text = {"text": "ab", "logprobs": {"token_logprobs": [-0.5, -0.25]}}
    [[part]] = ask(Server(says(text)).policy(api="completions"))
    for completion in (whole, part):
        assert completion.logprobs == (-0.5, -0.25)
        assert completion.missing == ("prompt_ids", "token_ids")


def test_what_lacks_tokens_is_not_learned_from() -> None:
    [[bare]] = ask(Server(says(chat("a"))).policy())
    assert bare.missing == ("prompt_ids", "token_ids", "logprobs")
    rollout = Rollout("r", PROBLEM, "solver", (Turn(bare, None, None),))
    with pytest.raises(RecordError, match="prompt_ids and token_ids and logprobs"):
        build_rollout_samples(rollout, [1.0])


def test_samples_come_in_their_order_with_what_was_cut_off() -> None:
    second = chat("two", stop_reason="</code>") | {"index": 1}
    first = {"index": 0, "message": {"content": "one", "reasoning_content": "hm"}}
    [[one, two]] = ask(Server(says(second, first)).policy(), n=2)
    assert (one.text, two.text) == ("<think>hm</think>one", "two</code>")


THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
PART = {"type": "text", "text": "one"}


@pytest.mark.parametrize(
    ("message", "finish", "text"),
    [
        ({"content": [PART]}, "stop", "one"),
        ({"content": [THOUGHT, PART, " two"]}, "stop", "<think>hm</think>one two"),
        ({"content": "one", "reasoning": "hm"}, "stop", "<think>hm</think>one"),
        # Cut off while it thought: nothing closed the span, and there is no answer.
        ({"content": None, "reasoning": "hm"}, "length", "<think>hm"),
        # A parser that never saw the end of thinking gives the answer as a thought.
        ({"content": "", "reasoning_content": "so: one"}, "stop", "so: one"),
        ({"content": None}, "stop", ""),
    ],
)
def test_forms_of_a_message(message: dict[str, Any], finish: str, text: str) -> None:
    [[found]] = ask(Server(says(chat("", message=message, finish_reason=finish))).policy())
    assert (found.text, found.finish_reason) == (text, finish)


def test_what_a_filter_withheld_is_told_apart() -> None:
    [[found]] = ask(Server(says(chat("", finish_reason="content_filter"))).policy())
    assert (found.text, found.finish_reason) == ("", "content_filter")


def test_a_server_that_gives_fewer_is_asked_for_the_rest() -> None:
    server = Server(says(chat("a")), says(chat("b"), chat("c") | {"index": 1}), says(chat("d")))
    [row] = ask(server.policy(), n=4)
    assert [completion.text for completion in row] == ["a", "b", "c", "d"]
    asked = [(body["n"], body["seed"]) for body in server.bodies()]
    most = 2**31 - 1
    assert asked == [
        (4, derive_seed(3, "prompt", 0) % most),
        (3, derive_seed(3, "prompt", 0, 1) % most),
        (1, derive_seed(3, "prompt", 0, 3) % most),
    ]


def test_a_parameter_that_is_refused_is_left_out_or_called_otherwise() -> None:
    old = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens'."
    server = Server(
        fails(400, json.dumps({"error": {"message": old, "param": "max_tokens"}})),
        fails(400, "This model does not support logprobs"),
        says(chat("a")),
    )
    policy = server.policy()
    ask(policy)
    assert ask(policy)[0][0].text == "a"
    limits = [(b.get("max_tokens"), b.get("max_completion_tokens")) for b in server.bodies()]
    assert limits == [(9, None), (None, 9), (None, 9), (None, 9)]
    assert ["logprobs" in body for body in server.bodies()] == [True, True, False, False]
    with pytest.raises(UsageError, match="temperature"):
        ask(Server(fails(400, "'temperature' does not support 0.5")).policy())
    # It asks once: a server that refuses what it asked for is not asked for ever.
    with pytest.raises(UsageError, match="use max_completion_tokens"):
        ask(Server(fails(400, "use max_completion_tokens")).policy())


@pytest.mark.parametrize(
    "broken",
    [
        says(chat(""), error={"code": 502, "message": "upstream"}),
        says(chat("", finish_reason="error")),
        says(chat("", error={"code": 502, "message": "upstream"})),
        lambda _: httpx2.Response(200, json={"error": {"message": "upstream", "code": 429}}),
    ],
)
def test_a_failure_behind_a_gateway_is_tried_again_and_is_no_attempt(broken: Answer) -> None:
    assert ask(Server(broken, broken, says(chat("a"))).policy())[0][0].text == "a"
    server = Server(broken)
    with pytest.raises(UsageError, match=r"status (502|429): .*, after 6 attempts"):
        ask(server.policy())
    assert len(server.requests) == 6


def test_an_error_of_the_request_in_an_answer_is_not_tried_again() -> None:
    server = Server(says(error={"code": 401, "message": "no key"}))
    with pytest.raises(UsageError, match=r"status 401: .*no key.*api_key_env"):
        ask(server.policy())
    assert len(server.requests) == 1


LONG = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens."


def test_a_prompt_that_is_too_long_is_no_error_of_the_others() -> None:
    refuse = fails(400, json.dumps({"error": {"message": LONG, "max_completion_tokens": 1}}))
    server = Server(says(chat("a")), refuse, says(chat("b")))
    with pytest.raises(NoRoomError, match=r"^p: .*maximum context length is 4096") as caught:
        ask(server.policy(), num_prompts=3)
    rows = [[(c.text, c.finish_reason) for c in row] for row in caught.value.written]
    assert rows == [[("a", "stop")], [("", "no_room")], [("b", "stop")]]
    # Where no prompt could have room, the limit of the answer is at fault.
    none = Server(fails(400, "the maximum context length is 9 tokens"))
    with pytest.raises(UsageError, match=r"sampling\.max_new_tokens"):
        ask(none.policy())


def test_top_k_is_sent_where_it_is_set() -> None:
    server = Server(says(chat("a")))
    policy = server.policy()
    asyncio.run(policy.generate([policy.prompt(PROBLEM)], n=1, sampling=Sampling(top_k=20)))
    assert server.bodies()[0]["top_k"] == 20


def test_at_most_so_many_requests_are_under_way() -> None:
    server = Server(says(chat("a")))
    written = ask(server.policy(concurrency=3), num_prompts=10)
    assert len(written) == 10
    assert server.most == 3
    seeds = [body["seed"] for body in server.bodies()]
    assert len(set(seeds)) == 10


@pytest.mark.parametrize("status", [429, 500, 503])
def test_passing_failures_are_tried_again_with_doubled_waits(status: int) -> None:
    server = Server(fails(status), fails(status), fails(status), says(chat("a")))
    [[completion]] = ask(server.policy())
    assert completion.text == "a"
    for number, wait in enumerate(server.waits):
        assert 2**number <= wait <= 1.5 * 2**number
    assert len(server.waits) == 3


def test_a_server_that_says_how_long_is_obeyed_up_to_a_minute() -> None:
    server = Server(
        fails(429, **{"Retry-After": "7"}), fails(429, **{"Retry-After": "999"}), says(chat("a"))
    )
    ask(server.policy())
    assert server.waits == [7.0, 60.0]


def test_timeouts_and_lost_connections_are_tried_again_and_then_named() -> None:
    def time_out(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ReadTimeout("slow", request=request)

    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused", request=request)

    server = Server(time_out, refuse, says(chat("a")))
    assert ask(server.policy())[0][0].text == "a"
    gone = Server(refuse)
    with pytest.raises(UsageError, match=f"{URL}/chat/completions: refused, after 6 attempts; is"):
        ask(gone.policy())
    assert len(gone.requests) == 6
    slow = Server(time_out)
    with pytest.raises(UsageError, match=r"no answer in 4 s, after 6 attempts"):
        ask(slow.policy(timeout_seconds=4))


@pytest.mark.parametrize(
    ("status", "remedy"),
    [(401, "api_key_env"), (404, "check url"), (400, "its api"), (418, "log")],
)
def test_lasting_failures_are_errors_at_once(status: int, remedy: str) -> None:
    server = Server(fails(status, "because"))
    with pytest.raises(UsageError, match=f"status {status}: because; .*{remedy}"):
        ask(server.policy())
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: httpx2.Response(200, text="<html>"),
        lambda _: httpx2.Response(200, json=[1]),
        lambda _: httpx2.Response(200, json={"choices": "x"}),
        says(),
        says({"index": 0}),
        says({"message": 5}),
        says(chat("a", message={"content": 5})),
        says(chat("a"), chat("b")),
        says(chat("a", logprobs={"content": [{}]})),
    ],
)
def test_an_answer_of_another_protocol_is_refused(answer: Answer) -> None:
    with pytest.raises(UsageError, match="is no completion as OpenAI's protocol has it"):
        ask(Server(answer).policy())


def test_a_conversation_goes_on_by_messages() -> None:
    policy = Server(says(chat("a"))).policy()
    [[bare]] = ask(policy)
    prompt = policy.prompt(PROBLEM)
    again = policy.resume(prompt, [Exchange(bare, "no")])
    assert again.messages == (*prompt.messages, Message("assistant", "a"), Message("user", "no"))
    text = Server(says(chat("a"))).policy(api="completions")
    with pytest.raises(UsageError, match="exact token ids"):
        text.resume(text.prompt(PROBLEM), [])


def test_an_endpoint_needs_url_and_model_and_cannot_be_trained() -> None:
    for endpoint, said in (
        ({"url": "localhost:8000", "model": "m"}, "endpoints.e.url: .*is no URL of a server"),
        ({"url": URL}, "endpoints.e.model: Field required"),
        ({"url": URL, "model": "m", "modle": "m"}, "nearest valid key is 'endpoints.e.model'"),
    ):
        with pytest.raises(ConfigError, match=said):
            parse_config({"endpoints": {"e": endpoint}}, source="test")
    table = {"endpoints": {"e": {"url": URL, "model": "m"}}, "policy": {"path": "endpoint:e"}}
    whole = parse_config(table, source="test")
    with pytest.raises(UsageError, match="whose weights cannot be trained"):
        asyncio.run(train(whole))
    assert open_policy(whole, None).engine == f"endpoint {URL}/chat/completions, model m"


@pytest.mark.parametrize("name", ["f", ""])
def test_an_endpoint_that_is_not_there_is_named(name: str) -> None:
    endpoints = {"e": {"url": URL, "model": "m"}}
    table = {"endpoints": endpoints, "policy": {"path": f"endpoint:{name}"}}
    with pytest.raises(
        ConfigError, match=r"policy\.path = .*no table \[endpoints\.\w+\]; there is e"
    ):
        parse_config(table, source="test")


def test_an_extended_file_gives_its_endpoints(tmp_path: Path) -> None:
    server = f'{{ url = "{URL}", model = "m" }}'
    (tmp_path / "a.toml").write_text(f"endpoints.e = {server}\nendpoints.f = {server}")
    (tmp_path / "b.toml").write_text('extends = "a.toml"\nendpoints.f = { model = "n" }')
    config = load_config(tmp_path / "b.toml", ["endpoints.e.concurrency=3"])
    found = {name: (e.model, e.concurrency) for name, e in config.endpoints.items()}
    assert found == {"e": ("m", 3), "f": ("n", 16)}
