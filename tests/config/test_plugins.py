"""Plug-ins: chosen by name, called, and refused with the place and the remedy."""

from __future__ import annotations

import asyncio
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest
import torch

from proverrl import plugins
from proverrl.advantages import AdvantageInputs, admit_groups, choose_method
from proverrl.benchmarks.open import is_source, open_benchmark
from proverrl.config import (
    AdvantageConfig,
    Config,
    CurriculumConfig,
    GrpoConfig,
    RewardName,
    parse_config,
)
from proverrl.config import RewardConfig as Rewarding
from proverrl.config.search import SearchConfig
from proverrl.curriculum.sampler import open_curriculum
from proverrl.errors import ConfigError, ProblemError, RecordError, UsageError
from proverrl.jobs.train import train
from proverrl.losses import compute_loss
from proverrl.plugins import bind
from proverrl.rewards import build_reward, find_hook
from proverrl.rollout.whole_proof import JudgedDraw
from proverrl.run.pipeline import check_review
from proverrl.search.run import TreeSearch
from proverrl.search.wiring import choose_states
from proverrl.types import Candidate, Group, Problem, Reward, Rollout, Status, Verdict
from tests import ROOT
from tests.builders import build_problem, build_rollout, build_verdict
from tests.loss_builders import build_inputs, gradient, leaf
from tests.run.test_grpo import (  # noqa: F401  (fixtures)
    StubVerifier,
    make_config,
    run,
    step_lines,
    verifiers,
)
from tests.search_world import PROBLEM as LETTERS
from tests.search_world import World, build_search, run_search, run_stopped

EXAMPLE = ROOT / "examples" / "own_parts"
OWN = "own_parts:short_proofs"
GRPO = GrpoConfig()


def bring_module(monkeypatch: pytest.MonkeyPatch, name: str, **parts: object) -> None:
    """A module of that name that can be imported, with these parts."""
    module = ModuleType(name)
    vars(module).update(parts)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture(autouse=True)
def in_the_example(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Its folder is the working folder, and nothing is installed."""
    monkeypatch.chdir(EXAMPLE)
    before = list(sys.path)
    plugins.load.cache_clear()
    plugins._bind.cache_clear()
    yield
    sys.path[:] = before
    plugins.load.cache_clear()
    plugins._bind.cache_clear()


def earn(status: Status, num_tokens: int, **options: Any) -> Reward:
    rollout = build_rollout(build_problem("p"), 0, status, tokens=num_tokens)
    return build_reward(Rewarding(name=OWN, options=options), max_new_tokens=99)(rollout)


def test_a_reward_of_ones_own() -> None:
    assert earn(Status.PROVED, 16) == Reward(0.975, {"proved": 1.0, "length": -0.025})
    assert earn(Status.PROVED, 16, weight=0.5, tokens=8).total == 0.5
    assert earn(Status.REJECTED, 16).total == 0.0
    # What was not judged is no wrong proof, and no plug-in is asked.
    with pytest.raises(RecordError, match="was not judged"):
        earn(Status.TIMEOUT, 16)


def test_an_advantage_and_a_loss_of_ones_own() -> None:
    problem = build_problem("p")
    statuses = (Status.PROVED, Status.REJECTED, Status.PROVED, Status.REJECTED)
    rollouts = tuple(build_rollout(problem, i, status) for i, status in enumerate(statuses))
    rewards = (Reward(1.0), Reward(0.0), Reward(0.5), Reward(0.0))
    group = Group(rollouts[0].group_key, rollouts, rewards)
    settings = AdvantageConfig(name="own_parts:best_of_group")
    inputs = AdvantageInputs([group])
    assert choose_method(settings)(inputs) == [[[0.625], [0.0], [0.0], [0.0]]]
    assert admit_groups(inputs, settings, GrpoConfig()) == [True]
    logprobs = leaf([-1.0, -0.5, -2.0])
    given = build_inputs(
        logprobs, [-1.0, -0.5, -2.0], [2.0, -1.0, 0.0], name="own_parts:policy_gradient"
    )
    loss, _ = compute_loss(given)
    # The mean of 2 * 1, -1 * 0.5 and 0.
    assert float(loss.detach()) == pytest.approx(0.5, rel=1e-12)
    assert gradient(loss, logprobs) == pytest.approx([-2 / 3, 1 / 3, 0.0], rel=1e-12)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("nowhere:f", {}, "reward.name: no module 'nowhere'; install its package, or start in"),
        ("own_parts:short_proof", {}, "own_parts has no 'short_proof'; it has 'short_proofs'"),
        ("own_parts:Reward.total", {}, "is no function"),
        ("json:dumps", {}, None),
        ("own_parts:policy_gradient", {}, None),
        ("math:floor", {"a": 1}, "reward.options: math:floor takes none"),
        ("own_parts.more:f", {}, "reward.name: no module 'own_parts.more'; install"),
        ("builtins:divmod", {}, "builtins:divmod cannot be called as f(rollout, *, options)"),
        (OWN, {"wieght": 1}, "reward.options: unknown 'wieght'; own_parts:short_proofs knows: wei"),
        (OWN, {"weight": 2}, "reward.options.weight: Input should be less than 1"),
        ("proved", {"weight": 2}, "reward.options are for a plug-in"),
    ],
)
def test_what_cannot_be_used_is_said_at_the_start(
    name: str, options: dict[str, Any], said: str | None
) -> None:
    if said is None:
        plugins.check([("reward", name, options)])
        return
    with pytest.raises(UsageError) as error:
        plugins.check([("reward", name, options)])
    assert said in str(error.value)


def test_a_module_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_part.py").write_text("raise RuntimeError('no licence')\n")
    (tmp_path / "lacking_part.py").write_text("import some_missing_library\n")
    # A library whose name begins a part's is not the part.
    (tmp_path / "torchy_part.py").write_text("import torchy\n")
    (tmp_path / "odd_part.py").write_text("def f(rollout, *, options: 'Nothing'): return 1\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="broken_part cannot be imported: RuntimeError: no lic"):
        plugins.bind("reward", "broken_part:f", {})
    with pytest.raises(UsageError, match="lacking_part cannot be imported: No module named 'some"):
        plugins.bind("reward", "lacking_part:f", {})
    with pytest.raises(UsageError, match="torchy_part cannot be imported: No mod"):
        plugins.bind("reward", "torchy_part:f", {})
    with pytest.raises(UsageError, match="annotations of odd_part:f name nothing"):
        plugins.bind("reward", "odd_part:f", {})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, "None"),
        (math.nan, "nan"),
        ("0.5", "'0.5'"),
        (10**400, "1" + 119 * "0"),
        (torch.tensor([1.0, 2.0]), "tensor([1., 2.])"),
        (Reward(1.0, {"a": math.inf}), "Reward(total=1.0, parts={'a': inf})"),
        (Reward(None), "Reward(total=None, parts={})"),  # type: ignore[arg-type]
    ],
)
def test_a_reward_that_is_no_finite_number_is_refused(
    given: object, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring_module(monkeypatch, "odd_gifts", reward=lambda rollout: given)
    reward = build_reward(Rewarding(name="odd_gifts:reward"), max_new_tokens=9)
    with pytest.raises(UsageError) as error:
        reward(build_rollout(build_problem("p"), 0, Status.PROVED))
    assert str(error.value) == (
        f"reward.name: odd_gifts:reward gave {told} for rollout 'p-0'; return a finite number, or "
        "a proverrl.types.Reward of finite numbers. A run continues by the same command from what "
        "it saved last"
    )


def test_a_reward_does_not_end_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    bring_module(monkeypatch, "odd_exits", reward=lambda rollout: sys.exit(0))
    reward = build_reward(Rewarding(name="odd_exits:reward"), max_new_tokens=9)
    with pytest.raises(
        UsageError, match=r"reward\.name: odd_exits:reward asked the program to end"
    ):
        reward(build_rollout(build_problem("p"), 0, Status.PROVED))


class Ending:
    """Each way in which a reward can be called ends the program."""

    def __call__(self, rollout: Rollout) -> float:
        return 0.0

    def check(self, problem: Problem) -> None:
        sys.exit(0)

    async def review(self, draws: object, verifier: object, **_: object) -> None:
        sys.exit(0)


def test_no_hook_and_no_async_part_ends_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(prompt: object, n: int, sampling: object) -> None:
        sys.exit(0)

    bring_module(monkeypatch, "odd_hooks", reward=Ending(), answer=answer)
    config = Rewarding(name="odd_hooks:reward")
    check, review = find_hook(config, "check"), find_hook(config, "review")
    assert check is not None
    assert review is not None
    told = r"reward\.name: odd_hooks:reward asked the program to end"
    with pytest.raises(UsageError, match=told):
        check(build_problem("p"))
    with pytest.raises(UsageError, match=told):
        asyncio.run(review([], None, deadline_seconds=1.0))
    write = bind("policy", "odd_hooks:answer", {})
    with pytest.raises(UsageError, match=r"policy\.engine: odd_hooks:answer asked the program to"):
        asyncio.run(write(None, 1, None))


def test_a_review_proves_nothing() -> None:
    problem = build_problem("p")
    refused, proved = (
        build_rollout(problem, i, status)
        for i, status in enumerate((Status.REJECTED, Status.PROVED))
    )
    before = [JudgedDraw((refused, proved), 2)]
    check_review("own:reward", before, before)
    assert proved.turns[-1].verdict is not None
    unjudged = replace(before[0], rollouts=(refused.judge(Verdict(Status.TIMEOUT)), proved))
    check_review("own:reward", before, [unjudged])
    risen = replace(before[0], rollouts=(refused.judge(proved.turns[-1].verdict), proved))
    with pytest.raises(
        UsageError, match=r"reward\.name: own:reward gave Verdict\(.* return judged"
    ):
        check_review("own:reward", before, [risen])


def test_a_module_that_ends_the_program_at_its_import_is_refused(tmp_path: Path) -> None:
    """Its exit status would be that of a command that judges other files."""
    (tmp_path / "ending_module.py").write_text("import sys\nsys.exit(0)\n")
    (tmp_path / "a.dfy").write_text("lemma L() ensures 1 == 2 {}\n")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "proverrl",
            "--language",
            "odd=ending_module:ODD",
            "verify",
            "a.dfy",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2
    assert "ending_module cannot be imported: SystemExit: 0" in done.stderr


def test_numbers_of_other_libraries_are_rewards(monkeypatch: pytest.MonkeyPatch) -> None:
    bring_module(monkeypatch, "tensor_gifts", reward=lambda rollout: torch.tensor(0.5))
    reward = build_reward(Rewarding(name="tensor_gifts:reward"), max_new_tokens=9)
    rollout = build_rollout(build_problem("p"), 0, Status.PROVED)
    assert reward(rollout) == Reward(0.5, {"own": 0.5})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, "gave None for 1 groups; return a list of as many GroupAdvantages"),
        ([], "gave [] for 1 groups; return a list of as many GroupAdvantages"),
        ([[[1.0]]], "gave [[1.0]] for the group on 'p'; return per rollout, per turn, a finite"),
        ([[[1.0], [math.nan]]], "gave [[1.0], [nan]] for the group on 'p'; return per rollout"),
        ([[1.0, 2.0]], "gave [1.0, 2.0] for the group on 'p'; return per rollout, per turn"),
        ([[[1.0], [(0.5,)]]], "gave [[1.0], [(0.5,)]] for the group on 'p'; return per rollout"),
        ([[[1.0], [(0.5, -0.5)]]], ""),
    ],
)
def test_advantages_that_fit_no_group_are_refused(
    given: Any, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring_module(monkeypatch, "odd_advantages", compare=lambda inputs: given)
    rollouts = tuple(build_rollout(build_problem("p"), i, Status.PROVED) for i in range(2))
    group = Group(rollouts[0].group_key, rollouts, (Reward(1.0), Reward(0.0)))
    settings = AdvantageConfig(name="odd_advantages:compare")
    inputs = AdvantageInputs([group])
    if not told:
        assert choose_method(settings)(inputs) == given
        return
    for ask in (choose_method(settings), lambda inputs: admit_groups(inputs, settings, GRPO)):
        with pytest.raises(UsageError) as error:
            ask(inputs)
        assert f"advantage.name: odd_advantages:compare {told}" in str(error.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, "None"),
        (torch.tensor(1.0), "tensor(1.)"),
        ((torch.tensor(1.0), {}), "(tensor(1.), {})"),
        ((leaf([1.0, 2.0]), {}), "(tensor([1., 2.], dtype=torch.float64, requires_grad=True), {})"),
        ((leaf([1.0]).sum(), {"a": "b"}), "(tensor(1., dtype=torch.float64, grad_fn="),
    ],
)
def test_a_loss_that_cannot_be_learned_from_is_refused(
    given: object, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring_module(monkeypatch, "odd_losses", loss=lambda inputs: given)
    inputs = build_inputs(leaf([-1.0, -0.5]), [-1.0, -0.5], [1.0, 1.0], name="odd_losses:loss")
    with pytest.raises(UsageError) as error:
        compute_loss(inputs)
    assert f"loss.name: odd_losses:loss gave {told}" in str(error.value)
    assert "for 2 tokens; return a scalar tensor with a gradient and" in str(error.value)


def test_what_is_no_curriculum_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    bring_module(monkeypatch, "odd_curricula", choose=lambda problems, seed: list(problems)[:0])
    settings = CurriculumConfig(name="odd_curricula:choose")
    said = r"^curriculum\.name: odd_curricula:choose gave \[\] for 1 problems; return a proverrl\."
    with pytest.raises(UsageError, match=said):
        open_curriculum([build_problem("p")], settings, 0)


@pytest.mark.slow
def test_a_run_goes_on_with_a_mended_reward(
    make_config: Callable[..., Config],  # noqa: F811
    verifiers: list[StubVerifier],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    earned: list[float | None] = [None]
    bring_module(monkeypatch, "mended", reward=lambda rollout: earned[0])
    config = make_config("mended", reward={"name": "mended:reward"}, grpo__steps=1)
    with pytest.raises(UsageError, match=r"^reward\.name: mended:reward gave None for rollout "):
        run(config)
    earned[0] = 0.0
    assert len(step_lines(run(config))) == 1


def test_installed_parts_have_short_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def list_points(*, group: str) -> list[EntryPoint]:
        known = {"proverrl.reward": [EntryPoint("short", OWN, group)]}
        return known.get(group, [])

    monkeypatch.setattr(plugins, "entry_points", list_points)
    assert Rewarding(name="short").name == OWN
    names = ", ".join([*get_args(RewardName), "short"])
    known = f"Known are {names}, and plug-ins as package.module:function"
    wrong = f"test: reward.name: unknown reward 'shrt'; the nearest is 'short'. {known}"
    with pytest.raises(ConfigError, match=f"^{re.escape(wrong)}$"):
        parse_config({"reward": {"name": "shrt"}}, source="test")
    with pytest.raises(ConfigError, match="unknown loss 'clip_token'; the nearest is 'clipped_to"):
        parse_config({"loss": {"name": "clip_token"}}, source="test")


def test_names_of_installed_packages_are_unique_and_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"first": "twice = own_parts:short_proofs", "second": "twice = other:f\nodd = other"}
    for package, lines in given.items():
        folder = tmp_path / f"{package}-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: {package}\nVersion: 1\n")
        (folder / "entry_points.txt").write_text(f"[proverrl.reward]\n{lines}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UsageError) as error:
        Rewarding(name="twice")
    assert "'twice' is a name of two installed packages, " in str(error.value)
    assert {"first", "second"} <= set(str(error.value).replace(":", " ").split())
    with pytest.raises(UsageError, match="reward 'odd' of the installed package second is 'other'"):
        Rewarding(name="odd")
    # Nobody else is stopped.
    assert Rewarding(name="proved").name == "proved"


def test_callbacks_and_benchmarks_take_no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    bring_module(
        monkeypatch,
        "wanting",
        note=lambda event, row, options: None,
        rows=lambda *, options: [],
    )
    with pytest.raises(UsageError, match=r"logging\.callbacks: wanting:note has a parameter 'opt"):
        plugins.bind("callback", "wanting:note", {})
    with pytest.raises(UsageError, match="--benchmark: wanting:rows has a parameter 'options'"):
        open_benchmark("wanting:rows")


@pytest.mark.parametrize("section", ["policy", "search"])
def test_a_training_refuses_options_of_no_part(section: str, tmp_path: Path) -> None:
    table = {"run": str(tmp_path / "run"), section: {"options": {"x": 1}}}
    with pytest.raises(UsageError, match=rf"^{section}\.options are for a plug-in"):
        asyncio.run(train(parse_config(table, source="test")))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_run_with_parts_of_ones_own(
    make_config: Callable[..., Config],  # noqa: F811
    verifiers: list[StubVerifier],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = make_config(
        "own",
        reward={"name": OWN, "options": {"weight": 0.5, "tokens": 4}},
        advantage={"name": "own_parts:best_of_group"},
        loss={"name": "own_parts:policy_gradient"},
        logging={"callbacks": ["own_parts:print_checkpoints", "told:note"]},
        grpo__steps=2,
        evaluation={"before": True, "after": False, "ks": [1], "samples": 1},
    )
    events: list[tuple[str, int]] = []
    bring_module(monkeypatch, "told", note=lambda event, row: events.append((event, row["step"])))
    folder = run(config)
    last = folder / "checkpoints" / "step_000002"
    assert f"checkpoint of step 2: {last}\n" in capsys.readouterr().out
    steps = [each for each in events if each[0] != "warm start"]
    assert steps == [("evaluation", 0), ("step", 1), ("step", 2), ("checkpoint", 2)]
    lines = step_lines(folder)
    assert len(lines) == 2
    assert all(math.isfinite(line["loss"]) for line in lines)
    rows = [
        json.loads(line)
        for line in (folder / "rollouts" / "step_1.jsonl").read_text("utf-8").splitlines()
    ]
    # A proof loses an eighth for each of its tokens, at most the half.
    earned = {row["reward"] for row in rows}
    assert earned <= {0.0, 0.5, 0.625, 0.75, 0.875}
    assert len(earned) > 1
    wrong = make_config("wrong", reward={"name": OWN, "options": {"weight": 3.0}})
    with pytest.raises(UsageError, match=r"reward\.options\.weight"):
        run(wrong)
    assert not Path(wrong.run).exists()


def test_a_part_is_bound_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "counted_part.py").write_text(
        "from pydantic import BaseModel\n"
        "read = []\n"
        "class Options(BaseModel):\n"
        "    scale: float\n"
        "    def model_post_init(self, _): read.append(self.scale)\n"
        "def scaled(inputs, *, options: Options):\n"
        "    return (options.scale * inputs.logprobs).sum(), {}\n"
    )
    monkeypatch.chdir(tmp_path)
    losses = []
    for scale in (2.0, 2.0, 3.0, 2.0):
        given = build_inputs(
            leaf([-1.0, -0.5]),
            [-1.0, -0.5],
            [1.0, 1.0],
            name="counted_part:scaled",
            options={"scale": scale},
        )
        loss, _ = compute_loss(given)
        losses.append(float(loss.detach()))
    assert losses == [-3.0, -3.0, -4.5, -3.0]
    assert sys.modules["counted_part"].read == [2.0, 3.0]


LOOPS = "own_benchmark:loops"


def test_a_benchmark_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = open_benchmark(LOOPS)
    assert [problem.id for problem in whole.problems] == ["times_3", "times_4", "times_5"]
    assert (whole.place, whole.format, len(whole.sha256)) == (LOOPS, "problems", 64)
    assert whole.references == {"times_5": "invariant i <= n\ninvariant r == 5 * i"}
    held_out = open_benchmark(f"{LOOPS}:test")
    assert [problem.id for problem in held_out.problems] == ["times_4", "times_5"]
    assert is_source(LOOPS)
    assert held_out.sha256 != whole.sha256 == open_benchmark(LOOPS).sha256

    def list_points(*, group: str) -> list[EntryPoint]:
        return [EntryPoint("loops", LOOPS, group)] if group == "proverrl.benchmark" else []

    monkeypatch.setattr(plugins, "entry_points", list_points)
    assert [problem.id for problem in open_benchmark("loops:valid").problems] == ["times_3"]
    with pytest.raises(ProblemError, match="no benchmark that is known here; did you mean 'loops'"):
        open_benchmark("lops")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("iter([])", "rows_part:f gave a list_iterator; return a list of Problems, or of rows"),
        ("[ROW, 3]", "rows_part:f, row 2: a int; make it a Problem or a mapping"),
        ("[ROW, ROW]", "rows_part:f, row 2: field 'id': 'a' is already used on line 1"),
        ("[ROW, {**ROW, 'id': 'b', 'kind': 'x'}]", "rows_part:f, row 2: field 'kind' is 'x'; use"),
        ("[{**ROW, 'split': 'x'}]", "rows_part:f, row 1: field 'split' is 'x'; use one of train"),
        # No body could be held to it: the language refuses the text.
        ("[{**ROW, 'preamble': '/- '}]", "rows_part:f, row 1: problem 'a': "),
        ("[]", "rows_part:f holds no row"),
    ],
)
def test_a_bad_row_of_a_benchmark_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, said: str
) -> None:
    (tmp_path / "rows_part.py").write_text(
        "ROW = {'id': 'a', 'language': 'lean', 'kind': 'term',\n"
        "       'statement': 'theorem a : 1 = 1 := /*{HOLE}*/\\n'}\n"
        f"def f(): return {given}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "rows_part", raising=False)
    with pytest.raises(UsageError) as error:
        open_benchmark("rows_part:f")
    assert said in str(error.value)


LIAR = """
from dataclasses import replace
from proverrl.search.base import JudgedProposal, Proposal
from proverrl.search.spending import FoundProof
from proverrl.search.strategy import Expansion
from proverrl.search.strategy import BestOfN
from proverrl.types import Status, Verdict

PROVED = Verdict(Status.PROVED, checks=("mine",))

class Liar(BestOfN):
    async def expand(self, job, functions):
        expansion = await super().expand(job, functions)
        lies = [replace(judged, verdict=PROVED) for judged in expansion.judged]
        return Expansion(tuple(lies))

class Forger(BestOfN):
    async def expand(self, job, functions):
        proof = FoundProof("bx", PROVED, 1, 2, True)
        functions._spending.proofs.append(proof)
        functions._spending.proofs.append(replace(proof, body="abba"))
        return await super().expand(job, functions)

def no_strategy(config, functions):
    return 3

class Needy(BestOfN):
    NEEDS = ("segment",)
"""


def test_a_search_of_ones_own_proves_nothing_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lying_part.py").write_text(LIAR)
    monkeypatch.chdir(tmp_path)
    world = World(script=["ab", "x", "bb", "aa"])
    found = run_search(world, name="lying_part:Liar", calls=4)
    # It called four bodies proved, and not one counts.
    assert (found.proofs, found.calls, found.stopped) == ((), 4, "calls")
    assert world.verified == ["ab", "x", "bb", "aa"]

    # It writes two proofs down that nobody judged: one is one, the other is none.
    world = World(script=["ab", "x"])
    confirmed: list[str] = []

    async def confirm(candidate: Candidate) -> Verdict:
        confirmed.append(candidate.body)
        return build_verdict(world.judge(candidate.body))

    config = SearchConfig(name="lying_part:Forger", calls=4, stop_after=9, max_idle=2)
    search = TreeSearch(LETTERS, world.functions(confirm=confirm), config)
    found = asyncio.run(search.run())
    assert {proof.body for proof in found.proofs} == {"abba"}
    assert {(body, verdict.status) for body, verdict in found.refuted} == {("bx", Status.REJECTED)}
    assert set(confirmed) == {"abba"}
    refuting = World(script=["ab", "x"], statuses={"abba": Status.REJECTED})
    assert run_search(refuting, name="lying_part:Forger", calls=4, max_idle=2).proofs == ()

    with pytest.raises(UsageError, match=r"lying_part:no_strategy gave a int; return"):
        TreeSearch(LETTERS, world.functions(), SearchConfig(name="lying_part:no_strategy"))
    with pytest.raises(ConfigError, match=r'lying_part:Needy" needs states: set search\.states'):
        TreeSearch(LETTERS, world.functions(segment=None), SearchConfig(name="lying_part:Needy"))
    with pytest.raises(ConfigError, match="unknown search 'rmaxts'; the nearest is 'rmax_ts'"):
        parse_config({"search": {"name": "rmaxts"}}, source="test")


FAULTS = """
from proverrl.search.base import Proposal
from proverrl.search.strategy import Expansion
from proverrl.search.strategy import BestOfN

class Nothing(BestOfN):
    async def expand(self, job, functions):
        return None

class Number(BestOfN):
    async def expand(self, job, functions):
        return Expansion(await functions.judge([functions.count(Proposal(5, 0, 0.0))]))

class Refund(BestOfN):
    async def expand(self, job, functions):
        return Expansion(await functions.judge([functions.count(Proposal("ab", -1, 0.0))]))

class Text(BestOfN):
    def pick(self):
        return "root"

class Odd(BestOfN):
    def state_dict(self):
        return {**super().state_dict(), "seen": {1}}

class Ending(BestOfN):
    async def expand(self, job, functions):
        raise SystemExit(0)
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Nothing", "gave None for an expansion; return a proverrl.search.strategy.Expansion"),
        ("Number", r"gave Proposal\(body=5, .* for a body; return a Proposal with a text and"),
        ("Refund", r"gave Proposal\(body='ab', num_tokens=-1, .* for a body; return"),
        ("Text", "gave 'root' for the next state; return a node of its tree, or None"),
        ("Ending", r"asked the program to end \(SystemExit\(0\)\)"),
    ],
)
def test_what_a_search_of_ones_own_gives_wrongly_is_one_error(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "faulty_part.py").write_text(FAULTS)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=rf"search\.name: faulty_part:{name} {message}"):
        run_search(World(script=["ab"]), name=f"faulty_part:{name}", calls=4, max_idle=2)


def test_the_state_of_a_search_of_ones_own_is_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "faulty_part.py").write_text(FAULTS)
    monkeypatch.chdir(tmp_path)
    search = build_search(World(script=["ab"]), name="faulty_part:Odd", calls=1)
    told = (
        r"faulty_part:Odd gave \{.* for its state; return JSON values \(Object of type set is not"
    )
    with pytest.raises(UsageError, match=told):
        search.state_dict()


def test_the_search_of_the_example_tries_cheap_bodies_first() -> None:
    name = "own_search:CheapFirst"
    world = World(script=["ab", "abba"])
    options = {"bodies": ["x", "abb"]}
    found = run_search(world, name=name, options=options, width=1, calls=9)
    assert [proof.body for proof in found.proofs] == ["abba"]
    # The proof is judged once more at the end, as with every search that is not ours.
    assert world.verified == ["x", "abb", "ab", "abba", "abba"]
    # The letters of the last two are the policy's tokens; the first two cost none.
    assert (found.calls, found.tokens, found.stopped) == (4, 6, "proved")
    saved = run_stopped(
        lambda: build_search(
            World(script=["ab", "abba"]), name=name, options=options, width=1, calls=9
        ),
        asyncio.run,
        after=1,
    )
    assert (saved.proofs[0].body, saved.calls, saved.tokens) == ("abba", 4, 6)
    with pytest.raises(UsageError, match="unknown 'body'; own_search:CheapFirst knows: bodies"):
        run_search(World(), name=name, options={"body": ["x"]})
    # A problem without states is searched as well: this search asks for none.
    assert choose_states(replace(build_problem("p"), kind="proof"), SearchConfig(name=name)) is None
