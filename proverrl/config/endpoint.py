"""A policy behind a server that speaks OpenAI's protocol.

Flows in: the ``[endpoint]`` table. Flows out: checked values. The key itself is never in a
configuration: ``api_key_env`` names the environment variable that holds it.
"""

from __future__ import annotations

from typing import Literal

from proverrl.config.base import NonNegative, NonNegativeFloat, Positive, PositiveFloat, Section

EndpointApi = Literal["chat", "completions"]


class EndpointConfig(Section):
    """Which server writes the completions; with ``url`` empty the policy runs in this process.

    ``url`` ends before ``/completions`` and ``/chat/completions``: mostly in ``/v1``. A request
    that failed for a passing reason is made again ``retries`` times, after waits that double from
    ``retry_seconds``. Prices are for a million tokens of prompts and of completions, in any
    currency.
    """

    url: str = ""
    model: str = ""
    api: EndpointApi = "chat"
    api_key_env: str = "OPENAI_API_KEY"
    concurrency: Positive = 16
    timeout_seconds: PositiveFloat = 600.0
    retries: NonNegative = 5
    retry_seconds: PositiveFloat = 1.0
    return_token_ids: bool = False
    prompt_price: NonNegativeFloat = 0.0
    completion_price: NonNegativeFloat = 0.0
