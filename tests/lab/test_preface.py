"""Rollouts of instructions: whose tokens are learned, what the writer is shown, what the policy is
told, and where a rollout ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path

import pytest

from proverrl.config import Config, LayoutName, RolloutConfig, parse_config
from proverrl.errors import UsageError
from proverrl.jobs.search import SearchOptions, search_problems
from proverrl.lab.preface.modes import Instruct, InstructOptions
from proverrl.lab.preface.rewards import conference_attempts
from proverrl.lab.preface.shown import add_instruction
from proverrl.lab.preface.writer import Writer
from proverrl.policy.endpoint import EndpointPolicy
from proverrl.problems.prompt import BODY_HEADING, join_messages, render_messages, render_prompt
from proverrl.rollout.extract import PLAIN, open_mode
from proverrl.rollout.samples import build_rollout_samples
from proverrl.rollout.self_correct import continue_rollouts
from proverrl.rollout.whole_proof import JudgedDraw, draw_groups, judge
from proverrl.seeds import derive_seed
from proverrl.types import Completion, Problem, Prompt, Sampling, Status
from tests.builders import build_problem
from tests.fake_verifier import FakeVerifier
from tests.lean_builders import build_lean_problem
from tests.rollout.test_self_correct import FEEDBACK_IDS, PROBLEM_IDS, ScriptedPolicy, judge_by_text

PROBLEM = build_problem("p")
SHOWN = render_prompt(PROBLEM, "plain")
PROGRAM = SHOWN.removesuffix(BODY_HEADING)


@dataclass
class ScriptedWriter(ScriptedPolicy):
    """Remembers what it was shown."""

    shown: list[str] = field(default_factory=list)

    def prompt(self, problem: Problem) -> Prompt:
        return replace(super().prompt(problem), text=render_prompt(problem, self.layout))

    async def generate(
        self, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        self.shown += [prompt.text for prompt in prompts]
        return await super().generate(prompts, n=n, sampling=sampling)


def play(
    instructions: list[str],
    bodies: list[str],
    *,
    n: int = 1,
    turns: int = 7,
    rewarded: bool = True,
    characters: tuple[int, ...] = (1800, 1100, 750, 500),
) -> tuple[JudgedDraw, ScriptedPolicy, ScriptedWriter, FakeVerifier]:
    policy, written = ScriptedPolicy(instructions), ScriptedWriter(bodies)
    attempts = conference_attempts if rewarded else None
    mode = Instruct(Config(), options=InstructOptions(writer="w"))
    mode.writer = Writer(
        written, Sampling(temperature=0.75, max_new_tokens=9), characters, attempts
    )
    verifier = FakeVerifier(judge_by_text)
    settings = RolloutConfig(mode="preface", turns=turns, feedback="compact")
    sampling = Sampling(seed=7)

    async def run() -> list[JudgedDraw]:
        draws = await draw_groups(policy, [PROBLEM], n=n, sampling=sampling, name="0", mode=mode)
        judged = [await judge(draw, verifier, deadline_seconds=1.0) for draw in draws]
        return await continue_rollouts(
            judged,
            policy=policy,
            verifier=verifier,
            settings=settings,
            sampling=sampling,
            deadline_seconds=1.0,
            mode=mode,
        )

    [draw] = asyncio.run(run())
    return draw, policy, written, verifier


def test_the_instruction_is_the_completion_and_the_body_is_the_writers() -> None:
    draw, _, writer, verifier = play(["try x", "try y"], ["bad", "good"])
    [rollout] = draw.rollouts
    assert [turn.completion.text for turn in rollout.turns] == ["try x", "try y"]
    assert [turn.candidate and turn.candidate.body for turn in rollout.turns] == ["bad", "good"]
    assert [candidate.problem for candidate in verifier.calls] == [PROBLEM, PROBLEM]
    assert writer.shown == [f"{PROGRAM}\n// try {x}{BODY_HEADING}" for x in "xy"]
    # Seeds of their own, which the policy's own follow from, so that a resumed run repeats them.
    first, second = writer.samplings
    assert first == Sampling(0.75, 9, derive_seed(7, "writer"))
    assert second.seed == derive_seed(derive_seed(7, "turn", 1), "writer")


def test_only_the_instructions_tokens_are_learned_with_their_own_log_probabilities() -> None:
    draw, *_ = play(["a", "b"], ["bad", "good"])
    [sample] = build_rollout_samples(draw.rollouts[0], [0.5, -1.0])
    assert sample.token_ids == (*PROBLEM_IDS, 100, 0, *FEEDBACK_IDS, 101, 0)
    assert sample.loss_mask == (0, 0, 0, 1, 1, 0, 0, 1, 1)
    assert sample.logprobs == (0, 0, 0, -0.5, -0.25, 0, 0, -1.5, -0.25)
    assert sample.advantages == (0, 0, 0, 0.5, 0.5, 0, 0, -1.0, -1.0)


def test_a_rollout_ends_at_its_first_proof_or_with_its_seventh_attempt() -> None:
    bodies = ["good", "bad", "bad", "good", *["bad"] * 5]
    draw, policy, writer, _ = play(["x"] * 10, bodies, n=2)
    proved, failed = draw.rollouts
    assert [len(rollout.turns) for rollout in draw.rollouts] == [1, 3]
    assert proved.status is failed.status is Status.PROVED
    assert policy.written == writer.written == 4
    draw, policy, writer, verifier = play(["x"] * 9, ["bad"] * 9)
    assert [len(rollout.turns) for rollout in draw.rollouts] == [7]
    # Seven calls of the writer, and one of the verifier, which has seen that body.
    assert (policy.written, writer.written, verifier.num_calls) == (7, 7, 1)


def test_an_unjudged_body_ends_a_rollout() -> None:
    draw, *_ = play(["x"] * 3, ["bad", "slow"])
    assert draw.rollouts[0].status is Status.TIMEOUT


def test_the_policy_is_told_body_errors_and_reward() -> None:
    _, policy, *_ = play(["x", "y"], ["bad", "good"])
    told = "bad\nverification failed, error at line 2: no bad\nreward -5.2"
    assert policy.feedback == [told]
    _, policy, *_ = play(["x", "y"], ["bad", "good"], rewarded=False)
    assert policy.feedback == ["bad\nverification failed, error at line 2: no bad"]


def test_an_instruction_is_cut_to_the_budget_of_its_turn() -> None:
    long = "a" * 9
    draw, _, writer, _ = play([long] * 4, ["b0", "b1", "b2", "good"], characters=(6, 4, 2))
    comments = [shown.removeprefix(PROGRAM).split("\n")[1] for shown in writer.shown]
    assert comments == ["// aaaaaa", "// aaaa", "// aa", "// aa"]
    # All of it is the policy's doing, and learned from.
    assert [turn.completion.text for turn in draw.rollouts[0].turns] == [long] * 4


def test_the_published_budgets() -> None:
    writer = Writer(ScriptedWriter([]), Sampling(), InstructOptions().characters)
    assert [writer.find_budget(turn) for turn in range(7)] == [1800, 1100, 750, 500, 500, 500, 500]


def test_an_empty_instruction_shows_the_problem_alone() -> None:
    _, _, writer, _ = play(["<think>hm</think>  \n"], ["good"])
    assert writer.shown == [SHOWN]


def test_thinking_is_not_shown() -> None:
    _, _, writer, _ = play(["<think>secret</think>use x"], ["good"])
    assert writer.shown == [f"{PROGRAM}\n// use x{BODY_HEADING}"]


def test_layouts_of_their_own_share_words_of_the_problem() -> None:
    policy = ScriptedWriter([], layout="canonical")
    same = Writer(policy, Sampling(), (99,))
    names = "sum of k"
    assert same.read_instruction(PROBLEM, names, layout="canonical", turn=0) == names
    other = Writer(ScriptedWriter([]), Sampling(), (99,))
    canonical = render_prompt(PROBLEM, "canonical")
    assert "method A(a: nat) { while a < 1" in canonical
    assert other.read_instruction(PROBLEM, "bound a", layout="canonical", turn=0) == "bound k"


def test_an_instruction_is_shown_in_every_layout() -> None:
    layouts: tuple[LayoutName, ...] = ("plain", "canonical")
    for layout in layouts:
        bare = render_prompt(PROBLEM, layout).removesuffix(BODY_HEADING)
        messages = render_messages(PROBLEM, layout)
        shown = join_messages(add_instruction(messages, PROBLEM, "one\ntwo", layout), layout)
        assert shown == f"{bare}\n// one\n// two{BODY_HEADING}"
    before, asked = add_instruction(render_messages(PROBLEM, "dafny"), PROBLEM, "one\ntwo", "dafny")
    assert before == render_messages(PROBLEM, "dafny")[0]
    assert asked.content == (
        render_messages(PROBLEM, "dafny")[1].content + "\n\nInstruction:\none\ntwo"
    )
    lean = build_lean_problem()
    [message] = add_instruction(render_messages(lean, "deepseek"), lean, "simp", "deepseek")
    assert message.content.endswith("\n\nInstruction:\nsimp")


def parse(options: dict[str, object] | None = None, **changes: object) -> Config:
    rollout = {"mode": "preface", "options": {"writer": "w"} if options is None else options}
    return parse_config({"rollout": rollout, **changes}, source="test")


@pytest.mark.parametrize(
    ("options", "changes", "message"),
    [
        ({}, {}, "needs a writer"),
        ({"writer": "endpoint:none"}, {}, "there is no table"),
        ({"writer": "w", "characters": []}, {}, "needs a budget"),
        ({"writer": "w", "wrter": "v"}, {}, "rollout.options: unknown 'wrter'"),
        (None, {"loop": "expert_iteration"}, 'is for loop = "grpo"'),
        (None, {"learner": {"replay_samples": 4}}, "learner.replay_samples, made for bodies"),
    ],
)
def test_what_would_teach_an_instructor_bodies_is_refused(
    options: dict[str, object] | None, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        open_mode(parse(options, **changes))


def test_a_writer_may_be_behind_an_endpoint() -> None:
    options: dict[str, object] = {"writer": "endpoint:w", "layout": "dafny"}
    mode = open_mode(parse(options, endpoints={"w": {"url": "http://x/v1", "model": "m"}}))
    assert isinstance(mode, Instruct)
    assert isinstance(mode.writer.policy, EndpointPolicy)
    assert mode.writer.policy.layout == "dafny"
    assert mode.writer.attempts is None
    assert (
        mode.engine == "instructions for a writer, endpoint http://x/v1/chat/completions, model m"
    )
    assert open_mode(Config()) is PLAIN


def test_a_writer_that_cannot_be_loaded_is_named() -> None:
    mode = open_mode(parse({"writer": "/nowhere"}))
    with pytest.raises(UsageError, match=r"rollout\.options\.writer '/nowhere'"):
        print(mode.engine)


def test_a_search_takes_no_instructions_for_bodies(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"set rollout\.mode = 'whole_proof'"):
        asyncio.run(
            search_problems(
                parse(),
                [PROBLEM],
                from_run=None,
                options=SearchOptions(tmp_path),
                stream=StringIO(),
            )
        )
