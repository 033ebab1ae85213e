"""The sections ``[policy]``, ``[vllm]``, ``[endpoints]`` and ``[sampling]``: which model writes, on
which engine or server, and how it samples.

The key of a server is never in a configuration: ``api_key_env`` names the environment variable that
holds it. ``[sampling]`` has no top-p: the learner could not give the log-probabilities that tokens
were drawn with (``evaluation.top_p``). Not handled here: whether model and engine can be loaded.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, model_validator

from proverrl.config.base import (
    NonNegative,
    NonNegativeFloat,
    Options,
    Positive,
    PositiveFloat,
    Section,
    name_of,
)

EngineName = Literal["transformers", "vllm"]
VllmDtype = Literal["float32", "bfloat16"]


class VllmConfig(Section):
    """vLLM in this process, with the weights of the model that is trained."""

    dtype: VllmDtype | Literal["auto"] = "auto"
    """number type of vLLM's copy of the weights: ``float32``, ``bfloat16`` (needed where the
    trained weights have it), or theirs (``auto``)"""
    kv_cache_gb: NonNegativeFloat = 0.0
    """memory of its key-value cache, in GiB. 0: on a GPU what ``proverrl plan`` leaves of nine
    tenths; on a CPU 1"""
    sleep: bool = False
    """vLLM gives its memory to the learner during updates (GPUs only; needs ``grpo.max_staleness =
    0``)"""
    max_model_tokens: NonNegative = 0
    """the most tokens of prompt and completion; 0 is the model's limit"""
    eager: bool = True
    """no compilation: starts in seconds, but samples more slowly on a GPU"""

    def dtype_for(self, weights: object) -> str:
        """The meaning of ``dtype`` for trained weights of this type (torch's)."""
        return str(weights).removeprefix("torch.") if self.dtype == "auto" else self.dtype


EndpointApi = Literal["chat", "completions"]


ENDPOINT = "endpoint:"
"""The prefix of the name of an endpoint where a folder of weights could be named."""


def _is_address(value: str) -> str:
    if not value.startswith(("http://", "https://")):
        raise ValueError(f"{value!r} is no URL of a server, such as http://127.0.0.1:8000/v1")
    return value


class EndpointConfig(Section):
    """A server that writes completions.

    ``url`` ends before ``/completions`` and ``/chat/completions``.
    """

    url: Annotated[str, AfterValidator(_is_address)]
    """the server's URL, usually with ``/v1`` at its end"""
    model: Annotated[str, Field(min_length=1)]
    """the model's name on the server"""
    api: EndpointApi = "chat"
    """``chat`` (messages) or ``completions`` (text)"""
    api_key_env: str = "OPENAI_API_KEY"
    """the environment variable that holds the key, if any"""
    concurrency: Positive = 16
    """the most requests in flight"""
    timeout_seconds: PositiveFloat = 600.0
    """wall-clock limit of one request"""
    prices: tuple[NonNegativeFloat, NonNegativeFloat] = (0.0, 0.0)
    """prices of a million tokens of prompts and of completions, in any currency; results then show
    the cost"""


def name_endpoint(path: str) -> str:
    """``NAME`` of ``endpoint:NAME``, empty for a folder of weights."""
    return path.removeprefix(ENDPOINT) if path.startswith(ENDPOINT) else ""


SMALL_MODEL_TOKENS, CHECKPOINT_TOKENS, ENDPOINT_TOKENS = 96, 2048, 8192
"""Tokens of a completion where nobody named a limit: the bodies of our small model; whole proofs,
as DeepSeek-Prover-V1.5 writes them (arXiv 2408.08152); a chain of thought and the proof, as in the
example of DeepSeek-Prover-V2's repository."""


class SamplingConfig(Section):
    """The sampling of the policy in training. The default of ``max_new_tokens`` is that of the
    small model (``choose_token_limit``)."""

    temperature: PositiveFloat = 1.0
    """temperature in training"""
    max_new_tokens: Positive = SMALL_MODEL_TOKENS
    """the most tokens of a completion. When unset: 96 for the small model and for ``canonical``,
    2,048 for a checkpoint in ``policy.path``, 8,192 behind an endpoint"""

    @model_validator(mode="before")
    @classmethod
    def _has_no_top_p(cls, given: Any) -> Any:
        if isinstance(given, dict) and "top_p" in given:
            raise ValueError(
                "top_p cuts where a rounding difference between sampler and learner changes all "
                "probabilities, so that no token would be learned with the one that it was drawn "
                "with; remove it (only evaluation.top_p is read)"
            )
        return given


def choose_token_limit(policy: PolicyConfig) -> int:
    """Tokens of a completion, at most, where nobody named a limit.

    ``canonical`` is a layout of our small models alone, wherever their weights come from.
    """
    if policy.is_function or policy.endpoint:
        return ENDPOINT_TOKENS
    is_large = policy.path and policy.layout != "canonical"
    return CHECKPOINT_TOKENS if is_large else SMALL_MODEL_TOKENS


LayoutName = Literal[
    "plain",
    "canonical",
    "kimina",
    "deepseek",
    "deepseek_cot",
    "goedel",
    "dafny",
    "own",
]
DeviceName = Literal["auto", "cpu", "cuda"]


class LoraConfig(Section):
    """Low-rank adapters."""

    rank: NonNegative = 0
    """rank of low-rank adapters (the extra ``lora``); 0 trains all weights. 16 to 64 is usual, with
    ten times the learning rate"""
    alpha: PositiveFloat = 64.0
    """the adapters' output is multiplied by this over the rank; one to two times the rank is
    usual"""


class PolicyConfig(Section):
    """The policy. What is trained is a transformers model under either ``engine`` of ours."""

    path: str = ""
    """a Hugging Face folder or id, or an adapter's folder (peft); ``endpoint:NAME``, a server of
    ``[endpoints.NAME]``, for evaluation and search; empty makes a small Llama model of the sizes
    in ``[policy]``"""
    engine: Annotated[str, name_of("policy", EngineName)] = "transformers"
    """``transformers``, the trained model itself samples; ``vllm``, a copy of its weights
    ([engines.md](engines.md)); ``package.module:function``, your own, for evaluation and search
    ([plugins.md](plugins.md))"""
    options: Options = Field(default_factory=dict)
    """of a policy of your own"""
    layout: LayoutName = "plain"
    """how a problem is shown. ``plain``: the program as it is; ``canonical``: names become letters,
    and constants from 3 upwards ``_1``, ``_2``, ... in order; ``kimina``, ``deepseek``,
    ``deepseek_cot``, ``goedel`` (Lean) and ``dafny``: a conversation, answered with a code block;
    ``own``: one that a language of your own words"""
    examples: str | NonNegative = 0
    """solved problems of the same language and kind that are shown before each problem: a number,
    drawn from those of ``problems.train`` that have a reference; or a file of problems with
    references, all of which are shown"""
    system: str = ""
    """system text of a conversation, in place of the layout's; ``plain`` and ``canonical`` begin
    with it"""
    device: DeviceName = "auto"
    """``auto``, ``cpu`` or ``cuda``"""
    num_layers: Positive = 4
    """layers of the small model"""
    hidden_size: Positive = 192
    """its width"""
    num_heads: Positive = 6
    """its attention heads"""
    intermediate_size: Positive = 512
    """its feed-forward width"""
    vocab_size: Positive = 768
    """the largest size of its tokenizer's vocabulary"""
    max_rows: Positive = 256
    """the most completions generated at once; lower it when memory is short"""
    lora: LoraConfig = LoraConfig()

    @model_validator(mode="after")
    def _heads_fit(self) -> PolicyConfig:
        # A head turns its numbers in pairs, by their positions.
        if not self.path and self.hidden_size % (2 * self.num_heads):
            raise ValueError(
                f"hidden_size {self.hidden_size} is no multiple of twice num_heads "
                f"{self.num_heads}; change one of them"
            )
        return self

    @property
    def endpoint(self) -> str:
        """The name of the endpoint that writes; empty for weights and functions."""
        return name_endpoint(self.path)

    @property
    def is_function(self) -> bool:
        """True if a function of somebody's own writes, so that there are no weights."""
        return self.engine not in get_args(EngineName)
