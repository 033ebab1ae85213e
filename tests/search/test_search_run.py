"""Every search: its budget, repeating, resuming, cancelling, many expansions at once."""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proverrl.config.search import SearchConfig, SearchName, TreeSearchName
from proverrl.errors import ConfigError, RecordError, RunError, WorkerError
from proverrl.search.base import Functions, SearchResult
from proverrl.search.run import SEARCHES, TreeSearch
from proverrl.types import Candidate, Status, Verdict
from tests.builders import build_problem, build_verdict
from tests.search_world import PROBLEM, World, build_search, check_invariants, run_search

NAMES: tuple[TreeSearchName, ...] = get_args(TreeSearchName)
HARD: dict[str, Any] = {"target": "abababab", "letters": "aabbnx"}


class LateWorld(World):
    """Verdicts come in a random order that a seed decides."""

    def __init__(self, seed: int, **fields: Any) -> None:
        super().__init__(**fields)
        self.rng = random.Random(seed)
        self.most = 0

    async def work(self, candidate: Candidate) -> None:
        self.most = max(self.most, self.running)
        for _ in range(self.rng.randint(0, 6)):
            await asyncio.sleep(0)


class HangingWorld(World):
    """No verdict ever comes."""

    async def work(self, candidate: Candidate) -> None:
        await asyncio.Event().wait()


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError


def test_the_names_of_the_configuration_are_the_searches() -> None:
    assert set(NAMES) == set(SEARCHES)
    assert set(get_args(SearchName)) == {*SEARCHES, "pooled_hints"}


@pytest.mark.parametrize("name", NAMES)
def test_an_easy_problem_is_proved_within_the_budget(name: TreeSearchName) -> None:
    world = World(target="ab", letters="ab", length=2)
    found = run_search(world, name=name, calls=64, seed=2)
    assert found.stopped == "proved"
    (proof,) = found.proofs
    assert proof.body == "ab"
    assert proof.verdict.proved
    # The proof was the last call, and its number is its place among all calls.
    assert world.verified[proof.calls - 1] == "ab"
    assert proof.calls == found.calls == len(world.verified)
    assert proof.tokens <= found.tokens
    assert not proof.confirmed


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(NAMES),
    seed=st.integers(0, 999),
    calls=st.integers(1, 40),
    in_flight=st.sampled_from([1, 2, 7]),
    width=st.integers(0, 6),
)
def test_any_search_keeps_its_budget_and_its_invariants(
    name: TreeSearchName,
    seed: int,
    calls: int,
    in_flight: int,
    width: int,
) -> None:
    world = LateWorld(seed, target="abab", length=4)
    search = build_search(
        world,
        seed=seed,
        name=name,
        calls=calls,
        max_in_flight=in_flight,
        width=width,
        stop_after=3,
    )
    found = asyncio.run(search.run())
    assert found.calls == len(world.verified) <= calls
    assert len(set(world.verified)) == len(world.verified)
    assert world.running == 0
    assert world.most <= in_flight
    assert all(proof.calls <= calls for proof in found.proofs)
    assert [p.calls for p in found.curve] == sorted(p.calls for p in found.curve)
    assert (search.state_dict()["jobs"], search.strategy.tree.root.sub_jobs) == ([], 0)
    check_invariants(search.strategy.tree)
    assert found.curve[-1].calls <= found.calls


@pytest.mark.parametrize("name", NAMES)
def test_a_search_with_one_job_repeats(name: TreeSearchName) -> None:
    one, two, other = (
        json.dumps(run_search(World(**HARD), name=name, seed=seed, calls=30).tree)
        for seed in (5, 5, 6)
    )
    assert one == two
    assert one != other


def run_with_break(name: TreeSearchName, after: int) -> tuple[SearchResult, list[str]]:
    """A search that is saved after so many expansions, through JSON, and gone on with."""
    kept: list[str] = []

    def watch(search: TreeSearch) -> None:
        if search.num_expansions == after:
            kept.append(json.dumps(search.state_dict()))
            raise KeyError

    first = build_search(World(**HARD), name=name, calls=40, stop_after=2)
    with pytest.raises(KeyError):
        asyncio.run(first.run(watch))
    second = World(**HARD)
    search = build_search(second, name=name, calls=40, stop_after=2)
    search.load_state_dict(json.loads(kept[0]))
    return asyncio.run(search.run()), second.verified


@pytest.mark.parametrize("after", [1, 2, 4])
@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_search_is_the_search_that_was_not_interrupted(
    name: TreeSearchName, after: int
) -> None:
    world = World(**HARD)
    whole = run_search(world, name=name, calls=40, stop_after=2)
    found, verified = run_with_break(name, after)
    assert found == whole
    assert world.verified[-len(verified) :] == verified
    assert 0 < len(verified) < len(world.verified)


@pytest.mark.parametrize("name", NAMES)
def test_a_job_that_was_under_way_is_made_again(name: TreeSearchName) -> None:
    """Saved in the middle of an expansion, with a part of its calls made."""
    whole = run_search(World(**HARD), name=name, calls=25)
    states: list[str] = []

    class SavingWorld(World):
        async def work(self, candidate: Candidate) -> None:
            states.append(json.dumps(search.state_dict()))

    search = build_search(SavingWorld(**HARD), name=name, calls=25)
    asyncio.run(search.run())
    assert len(states) == 25
    for state in states[1::8]:
        again = build_search(World(**HARD), name=name, calls=25)
        again.load_state_dict(json.loads(state))
        assert len(again.state_dict()["jobs"]) == 1
        assert asyncio.run(again.run()) == whole


def test_jobs_under_way_of_a_concurrent_search_are_made_again() -> None:
    states: list[dict[str, Any]] = []

    def watch(search: TreeSearch) -> None:
        check_invariants(search.strategy.tree)
        states.append(json.loads(json.dumps(search.state_dict())))

    options: dict[str, Any] = {"name": "rmax_ts", "calls": 40, "max_in_flight": 8}
    asyncio.run(build_search(LateWorld(3, **HARD), **options).run(watch))
    state = states[10]
    numbers = [job["number"] for job in state["jobs"]]
    assert len(numbers) >= 6
    world = LateWorld(4, **HARD)
    search = build_search(world, **options)
    search.load_state_dict(state)
    assert len(search.state_dict()["jobs"]) == len(numbers)
    found = asyncio.run(search.run())
    assert found.calls == 40
    assert found.calls - state["spent"]["calls"] == len(world.verified)
    prefixes = [job["prefix"]["text"] for job in state["jobs"]]
    assert [text for text, *_ in world.asked[: len(numbers)]] == prefixes


def test_a_saved_search_is_not_that_of_another_problem() -> None:
    state = build_search(World()).state_dict()
    other = TreeSearch(
        build_problem("other", n=7), World().functions(), SearchConfig(length_power=1)
    )
    with pytest.raises(RunError, match=r"differs in problem, .*search\.length_power"):
        other.load_state_dict(state)
    longer = build_search(World(), calls=99, max_in_flight=3)
    longer.load_state_dict(state)


def test_a_finished_search_goes_on_with_a_larger_budget() -> None:
    whole = run_search(World(**HARD), calls=30, name="rmax_ts")
    short = build_search(World(**HARD), calls=12, name="rmax_ts")
    asyncio.run(short.run())
    longer = build_search(World(**HARD), calls=30, name="rmax_ts")
    longer.load_state_dict(short.state_dict())
    assert asyncio.run(longer.run()).tree == whole.tree


def test_expansions_end_out_of_order() -> None:
    """Three jobs; the second to start is judged first, the first last."""
    gates = {body: asyncio.Event() for body in ("a", "b", "ab")}

    class GatedWorld(World):
        async def work(self, candidate: Candidate) -> None:
            await gates[candidate.body].wait()

    world = GatedWorld(target="none", script=["a", "b", "ab"])
    search = build_search(world, calls=3, max_in_flight=3, name="rmax_ts")

    async def scenario() -> list[tuple[str, int, int]]:
        seen: list[tuple[str, int, int]] = []
        task = asyncio.ensure_future(search.run())
        await until(lambda: world.running == 3)
        root = search.strategy.tree.root
        # Three jobs, all at the root: nothing else is there to choose.
        assert (root.own_jobs, root.sub_jobs, search.calls) == (3, 3, 3)
        for body in ("b", "ab", "a"):
            gates[body].set()
            await until(lambda: search.num_expansions == len(seen) + 1)
            seen.append((body, len(search.strategy.tree), root.own_jobs))
        await task
        return seen

    # b; then a and ab with one body; then a, which is known by then: reward 0.
    assert asyncio.run(scenario()) == [("b", 2, 2), ("ab", 4, 1), ("a", 4, 0)]
    root = search.strategy.tree.root
    assert root.own_reward == pytest.approx(0.99 * 0.99 + 0.99)
    assert root.own_count == pytest.approx(2.9701)


def test_the_same_body_from_two_jobs_at_once_is_one_call() -> None:
    world = LateWorld(0, target="none", script=["ab"] * 5 + ["ba"])
    found = run_search(world, name="best_of_n", width=1, calls=6, max_in_flight=5, max_idle=9)
    assert world.verified == ["ab", "ba"]
    assert (found.calls, found.stopped) == (2, "idle")


@pytest.mark.parametrize("name", NAMES)
def test_a_cancelled_search_leaves_nothing_running(name: TreeSearchName) -> None:
    world = HangingWorld(**HARD)
    search = build_search(world, name=name, calls=40, max_in_flight=4)

    async def scenario() -> set[asyncio.Task[Any]]:
        task = asyncio.ensure_future(search.run())
        await until(lambda: world.running == 4)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(scenario()) == set()
    assert world.running == 0
    # It can be gone on with, in this process too.
    search.functions = World(**HARD).functions()
    assert asyncio.run(search.run()).calls <= 40


def test_a_broken_verifier_ends_the_search_and_leaves_nothing_running() -> None:
    class BreakingWorld(World):
        async def work(self, candidate: Candidate) -> None:
            if len(self.verified) == 5:
                raise WorkerError("broken")
            await asyncio.Event().wait()

    world = BreakingWorld(**HARD)

    async def scenario() -> int:
        with pytest.raises(WorkerError):
            await build_search(world, calls=40, max_in_flight=5, name="best_of_n").run()
        return len(asyncio.all_tasks())

    assert asyncio.run(scenario()) == 1
    assert world.running == 0


def test_a_proof_ends_the_others_and_their_calls_are_counted() -> None:
    class OneAnswers(World):
        async def work(self, candidate: Candidate) -> None:
            if candidate.body != "ab":
                await asyncio.Event().wait()

    world = OneAnswers(target="ab", script=["a", "b", "ab"])
    search = build_search(world, calls=9, max_in_flight=3)
    found = asyncio.run(search.run())
    assert (found.stopped, found.calls, len(world.verified)) == ("proved", 3, 3)
    assert world.running == 0
    check_invariants(search.strategy.tree)
    assert search.strategy.tree.root.sub_jobs == 0


def test_only_what_the_fresh_verifier_proves_too_is_found() -> None:
    world = World(target="ab", script=["ab", "anb"])
    asked: list[str] = []

    async def confirm(candidate: Candidate) -> Verdict:
        asked.append(candidate.body)
        return build_verdict(Status.REJECTED if candidate.body == "ab" else Status.PROVED)

    functions = world.functions(confirm=confirm)
    search = TreeSearch(PROBLEM, functions, SearchConfig(calls=5, name="rmax_ts"))
    found = asyncio.run(search.run())
    assert [(proof.body, proof.confirmed) for proof in found.proofs] == [("anb", True)]
    assert [(body, verdict.status) for body, verdict in found.refuted] == [("ab", Status.REJECTED)]
    assert (asked, found.confirmations, found.calls) == (["ab", "anb"], 2, 2)


@pytest.mark.parametrize("status", [Status.TIMEOUT, Status.CRASHED])
def test_a_proof_that_the_fresh_verifier_could_not_judge_is_not_refuted(status: Status) -> None:
    world = World(target="ab", script=["ab", "ab"])
    fresh = [build_verdict(status), build_verdict(Status.PROVED)]

    async def confirm(candidate: Candidate) -> Verdict:
        return fresh.pop(0)

    functions = world.functions(confirm=confirm)
    once = TreeSearch(PROBLEM, functions, SearchConfig(calls=1, name="best_of_n", width=1))
    found = asyncio.run(once.run())
    # One call without a verdict says nothing of the problem, and the body may be asked again.
    assert (found.proofs, found.refuted, found.judged, found.calls) == ((), (), False, 1)
    again = TreeSearch(PROBLEM, functions, SearchConfig(calls=2, name="best_of_n", width=1))
    again.load_state_dict(once.state_dict())
    assert [proof.body for proof in asyncio.run(again.run()).proofs] == ["ab"]


def test_a_proof_that_is_judged_again_keeps_the_verdict_with_its_states() -> None:
    """Fresh workers do not read states: their verdict would leave a proof without any."""
    first = replace(build_verdict(Status.PROVED), checks=("with states",))

    async def verify(candidate: Candidate) -> Verdict:
        return first

    async def confirm(candidate: Candidate) -> Verdict:
        return build_verdict(Status.PROVED)

    functions = World(script=["ab"]).functions(verify=verify, confirm=confirm)
    search = TreeSearch(PROBLEM, functions, SearchConfig(calls=1, name="rmax_ts"))
    asyncio.run(search.run())
    asyncio.run(search.judge_proofs_again())
    assert [proof.verdict for proof in search.spent.proofs] == [first]
    assert search.spent.verdicts == {"ab": first}


def test_what_is_not_judged_is_asked_again_and_costs_a_call_each_time() -> None:
    world = World(target="none", script=["a", "a", "b"], statuses={"a": Status.CRASHED})
    found = run_search(world, calls=3)
    assert world.verified == ["a", "a", "b"]
    assert (found.calls, found.stopped) == (3, "calls")


def test_a_policy_that_repeats_itself_does_not_search_for_ever() -> None:
    world = World(letters="a", length=1, target="none")
    found = run_search(world, calls=50, max_idle=7, name="best_of_n", width=1)
    assert (found.stopped, found.calls, found.expansions) == ("idle", 1, 8)


def test_a_search_says_which_function_it_lacks() -> None:
    for name, lacks, remedy in (
        ("self_correct", "correct", "a function correct"),
        ("rmax_ts", "segment", "states: set search.states"),
    ):
        functions = World().functions(**{lacks: None})
        config = SearchConfig(name=name)
        with pytest.raises(ConfigError, match=f'"{name}" needs {remedy}'):
            TreeSearch(PROBLEM, functions, config)
    plain = Functions(World().propose, World().verify)
    TreeSearch(PROBLEM, plain, SearchConfig(name="best_of_n"))


def test_a_proposal_must_begin_with_its_prefix() -> None:
    world = World(script=["ab", "b"], target="none")
    with pytest.raises(RecordError, match="does not begin with its prefix 'a'"):
        run_search(world, calls=5, name="best_first", width=1)


def test_damage_to_a_tree_is_found() -> None:
    search = build_search(World(**HARD), calls=20)
    asyncio.run(search.run())
    tree = search.strategy.tree
    node = tree.nodes[3]
    for name, value, word in (
        ("own_jobs", 1, "jobs under way"),
        ("depth", 9, "its depth"),
        ("own_count", math.inf, "its counts"),
        ("own_reward", 99.0, "its rewards"),
        ("state", "?", "its children's edges"),
        ("prefixes", [], "its texts"),
        ("id", 0, "its number"),
    ):
        kept = getattr(node, name)
        setattr(node, name, value)
        with pytest.raises(RecordError, match=word):
            check_invariants(tree)
        setattr(node, name, kept)
    check_invariants(tree)
