"""Modes of rollouts and experiments of somebody's own: what they are given, and what is refused."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import pytest

from proverrl import plugins
from proverrl.config import Config, LayoutName, parse_config
from proverrl.errors import RunError, UsageError
from proverrl.lang.records import Extraction
from proverrl.rollout.extract import PLAIN, Mode, SameMode, extract, open_mode
from proverrl.rollout.proofs import Proof
from proverrl.run.experiments import Experiment, open_experiments
from proverrl.run.session import Session
from proverrl.types import Hint, Problem, Rollout, Status
from tests.builders import build_problem, build_rollout
from tests.policy.test_policy import tiny_policy
from tests.run.test_grpo import (  # noqa: F401  (fixtures)
    StubVerifier,
    make_config,
    run,
    same,
    state_of,
    step_lines,
    verifiers,
    weights,
)

QUIET = {"before": False, "after": False, "ks": [1]}


class Marked(Mode):
    """Finds the body behind a mark."""

    def __init__(self, config: Config, *, options: dict[str, Any]) -> None:
        self.mark = str(options.get("mark", "BODY:"))

    def against(self, config: Config) -> str:
        return "" if config.loop == "grpo" else 'is for loop = "grpo"; set that'

    async def read(
        self, answers: Sequence[tuple[Problem, str]], *, layout: LayoutName, turn: int, seed: int
    ) -> list[Extraction]:
        return [
            extract(problem, text.rpartition(self.mark)[2], layout) for problem, text in answers
        ]

    def tell(self, rollout: Rollout, told: str, layout: LayoutName) -> str:
        return f"{self.mark} {told}"

    def describe(self) -> dict[str, Any]:
        return {"mark": self.mark}


class Opened(Experiment):
    """Begins one group of each draw with the first token of the problem's prompt."""

    def __init__(self, config: Config) -> None:
        self.num_given = 0

    def choose(
        self, session: Session, proofs: Mapping[str, Sequence[Proof]], num_groups: int
    ) -> list[tuple[Problem, Hint]]:
        self.num_given += 1
        problem = session.problems.without_reference[self.num_given % 7]
        token = session.policy.prompt(problem).token_ids[-1]
        text = str(session.policy.tokenizer.decode([token]))
        return [(problem, Hint("own", 0.5, text, (token,)))]

    def observe(self, session: Session, draws: Sequence[Any]) -> dict[str, float]:
        return {"own_given": float(self.num_given)}

    def state_dict(self) -> dict[str, Any]:
        return {"given": self.num_given}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.num_given = state["given"]


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("own_steps")
    vars(module).update(Marked=Marked, Opened=Opened, Other=lambda config: 7)
    monkeypatch.setitem(sys.modules, "own_steps", module)
    return module


def test_a_mode_finds_the_bodies_and_says_what_is_told(own: ModuleType) -> None:
    rollout = {"mode": "own_steps:Marked", "options": {"mark": "X:"}}
    mode = open_mode(parse_config({"rollout": rollout}, source="test"))
    problem = build_problem("p")
    [found] = asyncio.run(mode.read([(problem, "hm X: good")], layout="plain", turn=0, seed=1))
    assert found.body == "good"
    rolled = build_rollout(problem, 0, Status.REJECTED)
    assert mode.tell(rolled, "no", "plain") == "X: no"
    kept = SameMode(mode)
    kept.load_state_dict(json.loads(json.dumps(kept.state_dict())))
    with pytest.raises(RunError, match="not the one that this run began with"):
        kept.load_state_dict({"mark": "Y:"})
    assert open_mode(Config()) is PLAIN


def open_all(table: dict[str, Any]) -> None:
    config = parse_config(table, source="test")
    plugins.check(config.list_parts())
    open_mode(config)
    open_experiments(config)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"rollout": {"mode": "own_steps:Other"}}, "return an object of a subclass of proverrl"),
        ({"rollout": {"mode": "own_steps:None"}}, "has no 'None'"),
        ({"rollout": {"mode": "own_steps:Marked"}, "loop": "expert_iteration"}, "set that"),
        ({"rollout": {"options": {"mark": "X"}}}, "rollout.options are for a plug-in"),
        ({"experiments": {"own_steps:Other": {}}}, "return an object of a subclass of proverrl"),
        ({"experiments": {"own_steps:Opened": {"share": 1}}}, r'experiments\."own_steps:Opened"'),
        ({"experiments": {"own_steps:Opened": {}}, "loop": "expert_iteration"}, "experiments = {}"),
        ({"experiments": {"opened": {}}}, "unknown experiment 'opened'"),
    ],
)
def test_what_cannot_be_used_is_said_at_the_start(
    own: ModuleType, table: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        open_all(table)


def test_a_mode_has_words_for_the_tokenizer_and_teaches(own: ModuleType) -> None:
    assert PLAIN.words([(build_problem("p"), "b")]) == []
    assert asyncio.run(PLAIN.teach(None, ["one"])) == ["one"]
    assert PLAIN.describe() == {}
    assert tiny_policy().engine


@pytest.mark.slow
def test_an_experiment_gives_hints_and_resumes(
    make_config: Callable[..., Config],  # noqa: F811
    verifiers: list[StubVerifier],  # noqa: F811
    own: ModuleType,
) -> None:
    def config(name: str, steps: int) -> Config:
        sizes = {"groups_per_step": 3, "groups_per_draw": 4, "group_size": 2, "steps": steps}
        experiments: dict[str, Any] = {"own_steps:Opened": {}}
        return make_config(name, experiments=experiments, evaluation=QUIET, grpo=sizes)

    whole = run(config("whole", 4))
    lines = step_lines(whole)
    assert all(line["hinted_groups"] + line["hinted_rollouts"] > 0 for line in lines)
    assert lines[-1]["own_given"] >= 4
    run(config("parts", 2))
    for path in (whole.parent / "parts" / "policy").iterdir():
        path.unlink()
    (whole.parent / "parts" / "policy").rmdir()
    again = run(config("parts", 4))
    assert same(weights(whole), weights(again))
    assert step_lines(whole) == lines
    key = "experiment own_steps:Opened"
    assert state_of(whole, 4)[key] == state_of(again, 4)[key]
