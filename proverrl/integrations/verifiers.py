"""Proofs as an environment of Prime Intellect's ``verifiers`` and prime-rl (tried with 0.4).

The taskset's id is ``proverrl``. Flows in: a file of problems. Flows out: tasks, whose reward is 1
for a proof. With ``task.tools`` the model may also have a body checked before it answers: an
environment of several turns. A task without a verdict after ``patience_seconds`` fails its rollout
and is not scored.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import verifiers.v1 as vf
from pydantic import BaseModel

from proverrl.config import LayoutName
from proverrl.errors import UsageError
from proverrl.integrations.answers import ProofReward, make_rows, open_reward

_WITH_TOOL = "Check proofs with the tool before you answer; the answer alone counts."


class ProofData(vf.TaskData):
    """``problem`` is the row of ``proverrl.integrations.answers.make_rows``."""

    problem: str


class AnswerConfig(BaseModel):
    """The settings for reading and judging answers; see ``ProofReward``."""

    layout: LayoutName = "goedel"
    servers: list[str] = []
    workers: int = 2
    deadline_seconds: float = 60.0

    def open(self) -> ProofReward:
        """The reward of this process with these settings."""
        return open_reward(self.layout, tuple(self.servers), self.workers, self.deadline_seconds)


class ProofTaskConfig(vf.TaskConfig):
    """``checks`` gives the model a tool that judges an answer. It needs ``judging.servers``: each
    rollout has a process for its tools."""

    judging: AnswerConfig = AnswerConfig()
    patience_seconds: float = 600.0
    checks: bool = False


class ProofToolsConfig(vf.ToolsetConfig):
    """The settings of the tools' own process."""

    judging: AnswerConfig = AnswerConfig()


class ProofTools(vf.Toolset[ProofToolsConfig, vf.State]):
    """The tool ``check``."""

    TOOL_PREFIX = None

    async def setup_task(self, task: ProofData) -> None:
        """Remember what is to be proved."""
        self._problem = task.problem

    @vf.tool
    async def check(self, answer: str) -> str:
        """Judge an answer as it would be given, and say what the verifier says of it."""
        (score,) = await self.config.judging.open().ascore([self._problem], [answer])
        return f"{score.status}: {score.said}" if score.said else score.status


class ProofTask(vf.Task[ProofData, vf.State, ProofTaskConfig]):
    """A problem; its reward is the verdict on the last reply."""

    @classmethod
    def toolsets(cls, config: ProofTaskConfig) -> list[vf.Toolset]:
        """The tool, where it is asked for."""
        if config.checks and not config.judging.servers:
            raise UsageError("checks needs judging.servers: name the URL of a `proverrl serve`")
        return [ProofTools(ProofToolsConfig(judging=config.judging))] if config.checks else []

    @vf.reward(weight=1.0)
    async def proved(self, trace: vf.Trace) -> float:
        """1 for a proof, 0 for what was judged to be none."""
        score = await self.config.judging.open().insist(
            self.data.problem, trace.last_reply, patience_seconds=self.config.patience_seconds
        )
        trace.info["verdict"] = score.status
        return cast("float", score.reward)


class ProofConfig(vf.TasksetConfig):
    """``problems`` is a file of problems; ``task`` says how answers are judged."""

    problems: Path | None = None
    task: ProofTaskConfig = ProofTaskConfig()


class ProofTaskset(vf.Taskset[ProofTask, ProofConfig]):
    """The problems of a file."""

    def load(self) -> Iterator[ProofTask]:
        """A task for each problem. Raises ``UsageError``: no file was named; ``ProblemError``."""
        if self.config.problems is None:
            raise UsageError("name a file of problems: --env.taskset.problems FILE")
        config = self.config.task
        for row in make_rows(self.config.problems, config.judging.layout):
            yield ProofTask(
                ProofData(
                    prompt=row["prompt"],
                    problem=row["problem"],
                    system_prompt=_WITH_TOOL if config.checks else None,
                ),
                config,
            )


if __name__ == "__main__":
    # A rollout starts its tools as a program.
    ProofTools.run()
