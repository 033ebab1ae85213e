"""Groups that are learned from as they complete: a bound that holds exactly, nothing lost, nothing
twice. Verdicts come when an event says so; no test waits for a clock."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
import torch

from proverrl.config import Config, LayoutName, parse_config
from proverrl.errors import ConfigError, VerifierError
from proverrl.learner.guard import Guard
from proverrl.learner.learner import TorchLearner
from proverrl.loops.grpo import GrpoRun, make_reward, make_step, open_source
from proverrl.monitor import Monitor
from proverrl.monitor.metrics import RunLimits
from proverrl.parallel import SINGLE
from proverrl.policy.base import Exchange, Sampler
from proverrl.policy.transformers import TransformersPolicy
from proverrl.problems.prompt import NOTHING_BEFORE
from proverrl.run.overlap import AsCompleted
from proverrl.run.pipeline import InOrder
from proverrl.run.samplers import SamplerCopy
from proverrl.run.session import Session, TrainingProblems
from proverrl.run.state import GrpoState
from proverrl.run.tally import IdleClock
from proverrl.types import Candidate, Completion, Group, Problem, Prompt, Sampling, Status, Verdict
from proverrl.verifier.base import DEFAULT_LANE, Lane
from proverrl.verifier.cache import CachedVerifier
from tests.builders import build_problem
from tests.fake_verifier import FakeVerifier
from tests.policy.test_policy import tiny_policy
from tests.run.test_grpo import (
    StubVerifier,
    make_config,  # noqa: F401  (a fixture)
    run,
    same,
    state_of,
    step_lines,
    verifiers,  # noqa: F401  (a fixture)
    weights,
)

PROBLEMS = tuple(build_problem(f"p{i}") for i in range(60))


class ScriptedSampler:
    """Writes ``yes`` and ``no`` in turn, so that every group is mixed; waits for ``gate``."""

    version = 0
    engine = "scripted"
    layout: LayoutName = "plain"
    before = NOTHING_BEFORE
    tokenizer = None
    model = None
    world = SINGLE
    context_tokens = 1_000

    def __init__(self) -> None:
        self.step = 0
        self.seeds: list[int] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.failure: Exception | None = None

    def prompt(self, problem: Problem) -> Prompt:
        return Prompt(problem.id, problem.id, (1, 2))

    def resume(self, prompt: Prompt, history: Sequence[Exchange]) -> Prompt:
        raise AssertionError("one turn only")

    async def publish(self, step: int) -> dict[str, float]:
        self.step = step
        return {"pushed": float(step)}

    async def aclose(self) -> None: ...

    def sleep(self) -> None: ...

    async def generate(
        self, prompts: Sequence[Prompt], *, n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        self.seeds.append(sampling.seed)
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        texts = ["yes" if i % 2 else "no" for i in range(n)]
        return [
            [Completion(t, (1, 2), (3, 4), (-0.5, -0.5), "stop", self.step) for t in texts]
            for _ in prompts
        ]


class HeldVerifier(FakeVerifier):
    """Proves ``yes``. The problem that it is asked about first gets no verdict before ``release``
    is set."""

    def __init__(self, *, holds: bool = True, failure: Exception | None = None) -> None:
        super().__init__(lambda c: Status.PROVED if c.body == "yes" else Status.REJECTED)
        self.release = asyncio.Event()
        self.held = "" if holds else "nobody"
        self.failure = failure

    def stats(self) -> None:
        return None

    async def verify(
        self, candidate: Candidate, *, deadline_seconds: float, lane: Lane = DEFAULT_LANE
    ) -> Verdict:
        self.held = self.held or candidate.problem.id
        if candidate.problem.id == self.held:
            await self.release.wait()
        if self.failure is not None:
            raise self.failure
        return await super().verify(candidate, deadline_seconds=deadline_seconds)


def build_config(folder: Path, **grpo: Any) -> Config:
    sizes = {"groups_per_step": 2, "groups_per_draw": 2, "group_size": 2, "steps": 100}
    table = {
        "run": str(folder),
        "curriculum": {"name": "uniform"},
        "appeal": {"rate": 0.0},
        "grpo": {**sizes, "in_order": False, "max_staleness": 2, **grpo},
    }
    return parse_config(table, source="test")


class Batch(NamedTuple):
    """What a step learned from, how many steps old each group was, and the line of its metrics."""

    groups: Sequence[Group]
    ages: list[int]
    line: dict[str, Any]


class Watch:
    """In place of learner and guard: sees what a step learns from."""

    version = 0
    warnings: dict[str, int] = {}  # noqa: RUF012
    terms: dict[str, Any] = {}  # noqa: RUF012
    groups: Sequence[Group] = ()

    def watch(self, groups: Sequence[Group], solve_rate: float | None) -> None:
        self.groups = groups

    def step(self, *_: Any) -> dict[str, float]:
        return {}


class Bench:
    """A run whose source is ``AsCompleted`` on scripted parts; ``learned`` holds the names of the
    groups of each step, ``stale`` how many were too old."""

    def __init__(
        self, folder: Path, verifier: HeldVerifier, state: dict[str, Any] | None = None, **grpo: Any
    ) -> None:
        self.sampler, self.verifier, self.watch = ScriptedSampler(), verifier, Watch()
        session = Session(
            build_config(folder, **grpo),
            folder,
            cast(CachedVerifier, verifier),
            cast(TransformersPolicy, self.sampler),
            cast(Sampler, self.sampler),
            TrainingProblems((), PROBLEMS),
            Monitor(
                folder, live=False, limits=RunLimits(100), resume_step=None if state is None else 0
            ),
        )
        self.state = GrpoState(session)
        if state is not None:
            self.state.load_state_dict(state)
            self.sampler.step = self.state.progress.step
        self.source = AsCompleted(self.state, self.sampler, state and state["in_flight"])
        self.run = GrpoRun(
            session,
            self.state,
            make_reward(self.state),
            lambda group: True,
            self.source,
            cast(TorchLearner, self.watch),
            cast(Guard, self.watch),
        )
        self.learned: list[list[str]] = []
        self.stale = 0

    async def step(self) -> Batch:
        step = self.state.progress.step
        await make_step(self.run)
        groups = self.watch.groups
        self.learned.append([draw_of(group.rollouts[0].id) for group in groups])
        metrics = self.run.session.folder / "metrics.jsonl"
        line = json.loads(metrics.read_text().splitlines()[-1])
        self.stale += line["groups_stale"]
        assert line["pushed"] == float(self.sampler.step) == step + 1
        # The scripted sampler's version is the step of its weights.
        versions = [group.rollouts[0].turns[0].completion.policy_version for group in groups]
        return Batch(groups, [step - version for version in versions], line)

    def save(self) -> dict[str, Any]:
        state = {
            "step": self.state.progress.step,
            **self.state.state_dict(),
            "in_flight": self.source.state_dict(),
        }
        loaded: dict[str, Any] = json.loads(json.dumps(state))
        return loaded

    async def close(self) -> None:
        await self.source.aclose()
        self.run.session.monitor.close()


def draw_of(rollout_id: str) -> str:
    """The id of a rollout's draw."""
    return rollout_id.rsplit("-", 1)[0]


async def settle() -> None:
    """Let every task run on until it waits for an event."""
    for _ in range(50):
        await asyncio.sleep(0)


async def settled_steps(bench: Bench, number: int) -> list[Batch]:
    batches = []
    for _ in range(number):
        await settle()
        batches.append(await bench.step())
    await settle()
    return batches


@pytest.mark.parametrize("bound", [1, 2, 4])
def test_a_group_at_the_bound_is_learned_and_one_beyond_it_is_not(
    tmp_path: Path, bound: int
) -> None:
    async def hold(folder: Path, steps: int) -> tuple[Bench, Batch]:
        bench = Bench(folder, HeldVerifier(), max_staleness=bound)
        before = await settled_steps(bench, steps)
        # Every step was full without the group that is held.
        assert [len(batch.groups) for batch in before] == [2] * steps
        assert all(bench.verifier.held not in name for s in bench.learned for name in s)
        bench.verifier.release.set()
        await settle()
        batch = await bench.step()
        await bench.close()
        return bench, batch

    async def both() -> None:
        bench, batch = await hold(tmp_path / "at", bound)
        assert max(batch.ages) == bound == batch.line["staleness_max"]
        assert batch.ages[0] == bound
        assert bench.verifier.held in bench.learned[-1][0]
        assert bench.stale == 0
        bench, batch = await hold(tmp_path / "beyond", bound + 1)
        assert all(bench.verifier.held not in name for name in bench.learned[-1])
        assert (len(batch.groups), bench.stale, batch.line["groups_stale"]) == (2, 1, 1)
        assert max(batch.ages) <= bound
        # It was judged: its calls count and its proof is kept.
        assert batch.line["verifier_calls"] == 6
        assert bench.verifier.held in bench.state.store.proofs

    asyncio.run(both())


def test_many_steps_go_on_beside_one_that_hangs(tmp_path: Path) -> None:
    async def hang() -> None:
        bench = Bench(tmp_path, HeldVerifier(), max_staleness=1)
        batches = await settled_steps(bench, 20)
        assert all(len(batch.groups) == 2 for batch in batches)
        assert all(age <= 1 for batch in batches for age in batch.ages)
        assert bench.stale == 0
        names = [name for step in bench.learned for name in step]
        assert len(set(names)) == len(names) == 40
        await bench.close()

    asyncio.run(hang())


def test_the_policy_writes_no_more_than_the_bound_allows(tmp_path: Path) -> None:
    async def write() -> None:
        bench = Bench(tmp_path, HeldVerifier(holds=False), max_staleness=2)
        await settle()
        # (2 + 1) steps of 2 groups: three draws of 2.
        assert bench.state.progress.num_draws == 3
        await settled_steps(bench, 1)
        assert bench.state.progress.num_draws == 4
        batches = await settled_steps(bench, 10)
        # What a full queue holds is learned from at the bound, and nothing is wasted.
        assert {age for batch in batches[2:] for age in batch.ages} == {2}
        assert bench.stale == 0
        assert [c.policy_version for c in first_completions(batches[-1])] == [8, 8]
        await bench.close()

    asyncio.run(write())


def first_completions(batch: Batch) -> list[Completion]:
    return [group.rollouts[0].turns[0].completion for group in batch.groups]


def test_a_resumed_run_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    async def kill_and_resume() -> None:
        bench = Bench(tmp_path, HeldVerifier(), max_staleness=2)
        await settled_steps(bench, 1)
        # The next draw hangs in the sampler; one group still waits for its verdict.
        bench.sampler.gate.clear()
        await bench.step()
        await settle()
        state = bench.save()
        number = state["in_flight"]["drawing"]["number"]
        interrupted = bench.sampler.seeds[-1]
        assert any(bench.verifier.held in row["id"] for row in state["in_flight"]["draws"])
        await bench.close()

        again = Bench(tmp_path, HeldVerifier(holds=False), state)
        assert again.save()["in_flight"] == state["in_flight"]
        await settled_steps(again, 3)
        # The draw that was being written is written again, with its number's seed, and first.
        assert again.sampler.seeds[0] == interrupted
        learned = [name for step in bench.learned + again.learned for name in step]
        waiting = [row["id"] for row in again.save()["in_flight"]["draws"]]
        assert again.stale == 0
        assert again.save()["in_flight"]["drawing"] is None
        everything = learned + waiting
        assert len(everything) == len(set(everything))
        assert sorted({int(name.split("-")[0]) for name in everything}) == list(
            range(again.state.progress.num_draws)
        )
        assert len(everything) == 2 * again.state.progress.num_draws
        assert number < again.state.progress.num_draws
        await again.close()

    asyncio.run(kill_and_resume())


def test_what_breaks_in_the_background_ends_the_run(tmp_path: Path) -> None:
    async def break_both() -> None:
        bench = Bench(tmp_path / "pool", HeldVerifier(holds=False, failure=VerifierError("gone")))
        with pytest.raises(VerifierError, match="gone"):
            await bench.step()
        await bench.close()
        bench = Bench(tmp_path / "sampler", HeldVerifier(holds=False))
        bench.sampler.failure = RuntimeError("no memory")
        with pytest.raises(RuntimeError, match="no memory"):
            await bench.step()
        await bench.close()

    asyncio.run(break_both())


def test_idle_seconds_by_hand() -> None:
    now = [100.0]
    usage = IdleClock(lambda: now[0])
    with usage.busy("pool"):
        now[0] += 2.0
        with usage.busy("pool"), usage.busy("learner"):
            now[0] += 3.0
    now[0] += 5.0
    # Of 10 seconds the pool worked 5, counted once where two verdicts were awaited.
    idle = {"idle_generator_seconds": 10.0, "idle_pool_seconds": 5.0, "idle_learner_seconds": 7.0}
    assert usage.take_idle() == idle
    with usage.busy("generator"):
        now[0] += 1.0
        # Half of a batch is in each of two steps.
        assert usage.take_idle()["idle_generator_seconds"] == 0.0
        now[0] += 1.0
    now[0] += 4.0
    assert usage.take_idle()["idle_generator_seconds"] == 4.0


def test_the_sampler_takes_published_weights_and_no_others() -> None:
    async def publish() -> None:
        policy = tiny_policy()
        sampler = SamplerCopy(policy, 0)
        prompts = [policy.prompt(PROBLEMS[0])]
        sampling = Sampling(max_new_tokens=6, seed=3)

        async def write(writer: TransformersPolicy) -> list[Completion]:
            return (await writer.generate(prompts, n=4, sampling=sampling))[0]

        before = await write(policy)
        assert await write(sampler) == before
        with torch.no_grad():
            for parameter in policy.model.parameters():
                parameter.mul_(1.5)
        policy.version = 7
        # An update that is not published is not seen.
        assert await write(sampler) == before
        await sampler.publish(3)
        assert (sampler.version, sampler.step) == (0, 0)
        after = await write(sampler)
        assert (sampler.version, sampler.step) == (7, 3)
        assert after == await write(policy) != before
        assert {c.policy_version for c in after} == {7}

    asyncio.run(publish())


def test_weights_are_kept_while_they_may_be_asked_for() -> None:
    policy = tiny_policy()
    sampler = SamplerCopy(policy, 0)

    def publish(version: int, asked: int) -> None:
        with torch.no_grad():
            next(policy.model.parameters()).fill_(float(version))
        policy.version = version
        sampler.hold(version, asked)

    def written() -> tuple[int, float]:
        return sampler.version, float(next(sampler.model.parameters())[0, 0])

    publish(1, asked=0)
    # Rank 0 asks for version 1, and what it says arrives after two further steps.
    publish(2, asked=1)
    publish(3, asked=1)
    assert sorted(sampler._held) == [1, 3]
    sampler.take(1)
    assert written() == (1, 1.0)
    # An update that was left out has the weights that are there already.
    sampler.hold(1, asked=1)
    assert sampler._held == {}
    publish(4, asked=1)
    taker = threading.Thread(target=sampler.take, args=(5,))
    taker.start()
    assert taker.is_alive()
    publish(5, asked=4)
    taker.join(30)
    assert written() == (5, 5.0)


def test_staleness_in_order_is_one_at_most() -> None:
    with pytest.raises(ConfigError, match="needs in_order = false"):
        parse_config({"grpo": {"max_staleness": 2}}, source="test")


NO_EVALUATION = {"evaluation": {"before": False, "after": False}}


@pytest.mark.slow
def test_a_synchronous_run_is_on_policy_and_repeats_bit_for_bit(
    make_config: Callable[..., Config],  # noqa: F811
    verifiers: list[StubVerifier],  # noqa: F811
) -> None:
    changes = {**NO_EVALUATION, "grpo__max_staleness": 0}
    whole = run(make_config("whole", **changes))
    assert state_of(whole, 4)["in_flight"] == {"draws": [], "step": 0}
    for line in step_lines(whole):
        assert (line["staleness_mean"], line["staleness_max"]) == (0.0, 0)
        rows = (whole / f"rollouts/step_{line['step']}.jsonl").read_text().splitlines()
        versions = {json.loads(row)["completion"]["policy_version"] for row in rows}
        assert versions == {line["step"] - 1}
    two = make_config("parts", **changes).model_copy(
        update={"grpo": make_config("x", **changes).grpo.model_copy(update={"steps": 2})}
    )
    run(two)
    shutil.rmtree(whole.parent / "parts" / "policy")
    again = run(make_config("parts", **changes))
    assert same(weights(whole), weights(again))
    assert step_lines(again) == step_lines(whole)


def test_a_run_of_completed_groups_trains_and_goes_on_after_a_stop(
    make_config: Callable[..., Config],  # noqa: F811
    verifiers: list[StubVerifier],  # noqa: F811
) -> None:
    settings = {"steps": 4, "groups_per_step": 3, "groups_per_draw": 4, "group_size": 6}
    overlap = {"in_order": False, "max_staleness": 2}
    run(make_config("o", **NO_EVALUATION, grpo={**settings, **overlap, "steps": 2}))
    folder = make_config("o").run
    shutil.rmtree(folder / "policy")
    assert run(make_config("o", **NO_EVALUATION, grpo={**settings, **overlap})) == folder
    lines = step_lines(folder)
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert all(line["staleness_max"] <= 2 for line in lines)
    assert any(line.get("grad_norm", 0.0) > 0.0 for line in lines)
    seen: list[str] = []
    for line in lines:
        rows = (folder / f"rollouts/step_{line['step']}.jsonl").read_text().splitlines()
        seen += dict.fromkeys(draw_of(json.loads(row)["rollout_id"]) for row in rows)
    assert len(seen) == len(set(seen))
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for part in ("generator", "pool", "learner"):
        assert all(f"idle_{part}_seconds" in row for row in metrics if row["kind"] == "step")


def test_the_source_is_what_the_settings_say(tmp_path: Path) -> None:
    async def open_each() -> None:
        for number, (in_order, bound) in enumerate([(True, 1), (True, 0), (False, 0)]):
            bench = Bench(tmp_path / str(number), HeldVerifier(holds=False))
            session = bench.run.session
            session.config = build_config(tmp_path / "c", in_order=in_order, max_staleness=bound)
            source = open_source(bench.state)
            assert isinstance(source, InOrder)
            await source.aclose()
            await bench.close()

    asyncio.run(open_each())


def test_occupancy_by_hand() -> None:
    clock = IdleClock()
    clock.wrote([1, 4])
    clock.wrote([2, 2])
    # Five tokens in two rows of four steps, four in two rows of two.
    assert clock.take_idle()["row_occupancy"] == pytest.approx(9 / 12)
    assert "row_occupancy" not in clock.take_idle()
