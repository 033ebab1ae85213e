"""Trains a policy with TRL's GRPOTrainer; ProverRL judges its proofs.

Usage: python examples/trl_grpo.py CONFIG POLICY --out FOLDER [--set KEY=VALUE ...]
           [--calls 2240] [--rate 1e-3] [--batch 32] [--epochs 2] [--loss dapo] [--server URL ...]

POLICY is a checkpoint folder, such as runs/demo/warm_start/policy. CONFIG (configs/demo.toml) says
which problems there are, how they are shown, how they are judged, and how large groups and draws
are; what it says of the learner is not used. The run ends after so many verifier calls (distinct
candidates of a draw), and writes the policy to FOLDER; evaluate it with
`proverrl eval CONFIG --set policy.path=FOLDER`. Needs `pip install trl==1.16.0`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from proverrl.config import load_config
from proverrl.integrations.answers import ProofReward, show_problem
from proverrl.integrations.trl import make_reward
from proverrl.problems.load import make_row
from proverrl.run.session import load_training


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
    """Ends the training when enough was asked, and all of it was learned from."""

    def __init__(self, calls: Calls, most: int, updates: int) -> None:
        self.calls, self.most, self.updates = calls, most, updates

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        learned = state.global_step % self.updates == 0
        control.should_training_stop = learned and self.calls.num >= self.most


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("policy")
    parser.add_argument("--out", required=True)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--calls", type=int, default=2240)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--loss", default="dapo")
    parser.add_argument("--server", action="append", default=[])
    given = parser.parse_args()
    config = load_config(given.config, given.set)
    layout, pool = config.policy.layout, config.pool
    reward = ProofReward(
        layout=layout,
        servers=given.server,
        workers=pool.workers,
        deadline_seconds=pool.deadline_seconds,
        rlimit=None if given.server else pool.rlimit,
        dafny_version=config.dafny.version,
    )
    calls = Calls(reward)
    rows = [
        {"prompt": show_problem(problem, layout), "problem": json.dumps(make_row(problem))}
        for problem in load_training(config).without_reference
    ]
    batches = config.grpo.groups_per_draw * config.grpo.group_size // given.batch
    trainer = GRPOTrainer(
        model=given.policy,
        reward_funcs=calls.proved,
        args=GRPOConfig(
            output_dir=given.out,
            per_device_train_batch_size=given.batch,
            steps_per_generation=batches,
            num_iterations=given.epochs,
            num_generations=config.grpo.group_size,
            max_completion_length=config.sampling.max_new_tokens,
            max_steps=100_000,
            learning_rate=given.rate,
            lr_scheduler_type="constant",
            loss_type=given.loss,
            seed=config.seed,
            bf16=False,
            use_cpu=True,
            gradient_checkpointing=False,
            model_init_kwargs={"dtype": "float32"},
            report_to=[],
            logging_steps=batches * given.epochs,
            save_strategy="no",
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_list(rows),
        callbacks=[StopAfter(calls, given.calls, batches * given.epochs)],
    )
    try:
        trainer.train()
    finally:
        reward.close()
    trainer.save_model(given.out)
    print(f"{calls.num} verifier calls, {trainer.state.global_step} updates: {given.out}")


if __name__ == "__main__":
    main()
