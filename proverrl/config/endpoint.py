"""A policy behind a server that speaks OpenAI's protocol.

Flows in: the ``[endpoint]`` table. Flows out: checked values. The key itself is never in a
configuration: ``api_key_env`` names the environment variable that holds it.
"""

from __future__ import annotations

from typing import Literal

from proverrl.config.base import NonNegative, NonNegativeFloat, Positive, PositiveFloat, Section

EndpointApi = Literal["chat", "completions"]


class EndpointConfig(Section):
    """Which server writes the completions.

    ``url`` ends before ``/completions`` and ``/chat/completions``.
    """

    url: str = ""
    """the server's URL, which usually ends in ``/v1``; empty: the policy runs in this process"""
    model: str = ""
    """the model's name on the server"""
    api: EndpointApi = "chat"
    """``chat`` (messages) or ``completions`` (text)"""
    api_key_env: str = "OPENAI_API_KEY"
    """the environment variable that holds the key; no key is sent when it is unset"""
    concurrency: Positive = 16
    """the most requests in flight"""
    timeout_seconds: PositiveFloat = 600.0
    """wall-clock limit of one request"""
    retries: NonNegative = 5
    """further attempts after status 429, 5xx, a timeout or a lost connection"""
    retry_seconds: PositiveFloat = 1.0
    """the first wait between attempts; it doubles each time, or is what the server asks for, up to
    a minute"""
    return_token_ids: bool = False
    """ask for token ids, which vLLM can return"""
    prompt_price: NonNegativeFloat = 0.0
    """price of a million tokens of prompts, in any currency; results then show the cost
    ([evaluation.md](evaluation.md))"""
    completion_price: NonNegativeFloat = 0.0
    """price of a million tokens of completions"""
