"""Trains a policy with TRL's GRPOTrainer; ProverRL judges its proofs.

Usage: python examples/trl_grpo.py POLICY --problems FILE --out FOLDER [--layout canonical]
           [--calls 2240] [--rate 1e-4] [--seed 0] [--server URL ...]

POLICY is a checkpoint folder, such as runs/demo/warm_start/policy. The run ends after so many
verifier calls (distinct candidates of a step), and writes the policy to FOLDER; evaluate it with
`proverrl eval configs/demo.toml --set policy.path=FOLDER`. Needs `pip install trl==1.16.0`.
"""

from __future__ import annotations

import argparse
from typing import Any

from datasets import Dataset
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from proverrl.integrations.answers import ProofReward, make_rows
from proverrl.integrations.trl import make_reward


class Calls:
    """The reward, which counts what the verifier was asked."""

    def __init__(self, reward: ProofReward) -> None:
        self.inner = make_reward(reward)
        self.num = 0

    async def proved(self, **given: Any) -> list[float | None]:
        asked = zip(given["problem"], map(str, given["completions"]), strict=True)
        self.num += len(set(asked))
        return await self.inner(**given)


class StopAfter(TrainerCallback):
    """Ends the training when enough was asked."""

    def __init__(self, calls: Calls, most: int) -> None:
        self.calls, self.most = calls, most

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_training_stop = self.calls.num >= self.most


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("policy")
    parser.add_argument("--problems", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--layout", default="canonical")
    parser.add_argument("--calls", type=int, default=2240)
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--server", action="append", default=[])
    given = parser.parse_args()
    rlimit = None if given.server else 1_000_000
    reward = ProofReward(layout=given.layout, servers=given.server, workers=2, rlimit=rlimit)
    calls = Calls(reward)
    trainer = GRPOTrainer(
        model=given.policy,
        reward_funcs=calls.proved,
        args=GRPOConfig(
            output_dir=given.out,
            per_device_train_batch_size=128,
            num_generations=4,
            max_completion_length=160,
            max_steps=2_000,
            learning_rate=given.rate,
            lr_scheduler_type="constant",
            seed=given.seed,
            bf16=False,
            use_cpu=True,
            gradient_checkpointing=False,
            model_init_kwargs={"dtype": "float32"},
            report_to=[],
            logging_steps=1,
            save_strategy="no",
        ),
        train_dataset=Dataset.from_list(make_rows(given.problems, given.layout)),
        callbacks=[StopAfter(calls, given.calls)],
    )
    try:
        trainer.train()
    finally:
        reward.close()
    trainer.save_model(given.out)
    print(f"{calls.num} verifier calls, {trainer.state.global_step} steps: {given.out}")


if __name__ == "__main__":
    main()
