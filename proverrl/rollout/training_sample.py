"""The record that a learner trains on.

Flows in: nothing. Flows out: ``TrainingSample``, frozen and slotted, refused if its fields do not
fit together. Not handled here: how a rollout becomes one (``proverrl.rollout.samples``).
"""

from __future__ import annotations

from dataclasses import dataclass

from proverrl.errors import RecordError


@dataclass(frozen=True, slots=True)
class TrainingSample:
    """A token sequence to learn from; all per-token fields have the length of ``token_ids``.

    Positions with ``loss_mask`` 0 (the prompt, verifier feedback) carry log-probability and
    advantage 0 and are context only. ``prompt_length`` is the number of leading prompt tokens.
    ``truncated`` says that the completion was cut off at the token limit.
    """

    rollout_id: str
    policy_version: int
    prompt_length: int
    token_ids: tuple[int, ...]
    loss_mask: tuple[int, ...]
    logprobs: tuple[float, ...]
    advantages: tuple[float, ...]
    truncated: bool = False

    def __post_init__(self) -> None:
        lengths = {
            len(self.token_ids),
            len(self.loss_mask),
            len(self.logprobs),
            len(self.advantages),
        }
        if len(lengths) != 1:
            raise RecordError(f"sample {self.rollout_id!r}: per-token fields differ in length")
        if not 0 < self.prompt_length < len(self.token_ids):
            raise RecordError(f"sample {self.rollout_id!r}: needs a prompt and a completion")
        if any(self.loss_mask[: self.prompt_length]):
            raise RecordError(f"sample {self.rollout_id!r}: a prompt token is in the loss")
