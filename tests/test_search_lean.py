"""Searches of Lean proofs end to end, over the fake REPL: nothing here says anything about a real
Lean. Both ways to a state, tactic mode and whole files, are held against each other."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from proverrl.config.search import SearchName
from proverrl.errors import ProblemError, UsageError, WorkerError
from proverrl.lang.lean.search.tactic_mode import TacticMode
from proverrl.lang.lean.search.tactic_states import LeanStates
from proverrl.lang.records import Prefix
from proverrl.search.base import Proposal, SearchResult
from proverrl.search.run import TreeSearch
from proverrl.types import Candidate, Problem, Status, Verdict
from tests.lean_builders import build_walk_problem
from tests.walk_search import (
    Confirmer,
    StatesFrom,
    Tools,
    build_walk_search,
    open_tools,
    run_walk_search,
    spawn,
)

SEEDS: dict[SearchName, int] = {"rmax_ts": 3, "best_first": 0, "puct": 2, "best_of_n": 1}
"""Seeds with which a proof comes soon, so that the tests are short; others take longer."""


def picture(result: SearchResult) -> dict[str, Any]:
    """What two searches must agree in; verdicts hold seconds."""
    return {
        "tree": result.tree,
        "proofs": [(proof.body, proof.calls, proof.confirmed) for proof in result.proofs],
        "spent": (result.stopped, result.calls, result.tokens, result.expansions),
        "curve": result.curve,
    }


def letters(body: str) -> str:
    """What the steps of a body spell."""
    return "".join(line.split()[1] for line in body.split("\n") if "step" in line)


@pytest.mark.parametrize("states_from", ["tactic-mode", "whole-file"])
@pytest.mark.parametrize("name", SEEDS)
def test_each_search_finds_a_proof_of_several_levels(
    name: SearchName, states_from: StatesFrom
) -> None:
    # A policy of at most three tactics needs more for six letters; best-of-n has no second level.
    flat = name == "best_of_n"
    word, length = ("abba", 6) if flat else ("ababab", 3)
    result, search, tools = run_walk_search(
        name, states_from, calls=600, max_idle=300, seed=SEEDS[name], word=word, length=length
    )
    assert result.stopped == "proved"
    (proof,) = result.proofs
    assert letters(proof.body) == word
    assert "stray" not in proof.body
    # It was judged once more as a whole file by a worker that judged nothing before.
    assert proof.confirmed
    assert result.confirmations == 1
    assert len(tools.confirmer.pids) == 1
    assert max(node.depth for node in search.strategy.tree.nodes) >= 2
    deepest = max(len(prefix.text.split("\n")) for prefix in tools.guesser.asked)
    assert deepest == 1 if flat else deepest >= 3


@pytest.mark.parametrize("name", SEEDS)
def test_both_ways_to_a_state_grow_the_same_tree(name: SearchName) -> None:
    by_tactics, by_files = (
        picture(run_walk_search(name, how, calls=60, word="ababab")[0])
        for how in ("tactic-mode", "whole-file")
    )
    assert by_tactics == by_files
    assert len(by_tactics["tree"]["tree"]["nodes"]) > 5


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_search_whose_repl_is_killed_again_and_again_loses_nothing(workers: int) -> None:
    """Killed after every third expansion: the fresh worker replays the path."""
    killed: list[int] = []

    def kill(search: TreeSearch, tools: Tools) -> None:
        assert tools.states is not None
        if search.num_expansions % 3 == 0:
            for pid in set(tools.states.pids) - set(killed):
                killed.append(pid)
                os.kill(pid, signal.SIGKILL)

    settings: dict[str, Any] = {"calls": 30, "word": "ababab", "workers": workers}
    quiet, _, calm = run_walk_search("rmax_ts", "tactic-mode", **settings)
    result, _, tools = run_walk_search("rmax_ts", "tactic-mode", watch=kill, **settings)
    assert picture(result) == picture(quiet)
    assert tools.states is not None
    assert calm.states is not None
    assert len(killed) > 3
    assert 0 < tools.states.num_restarts <= len(killed)
    assert tools.states.num_replayed > 0
    # What was new was computed once, killed or not.
    assert tools.states.num_steps == calm.states.num_steps
    assert (calm.states.num_replayed, calm.states.num_restarts) == (0, 0)


def test_a_search_of_tactic_mode_goes_on_in_a_new_process() -> None:
    """Stopped after 5 expansions, saved as JSON, gone on with over other REPLs."""

    class StopError(Exception):
        pass

    def stop(search: TreeSearch) -> None:
        if search.num_expansions == 5:
            raise StopError

    async def begin() -> tuple[str, int]:
        async with open_tools() as tools:
            search = build_walk_search(tools, word="ababab", calls=60)
            with pytest.raises(StopError):
                await search.run(stop)
            assert tools.states is not None
            return json.dumps(search.state_dict()), tools.states.num_steps

    async def go_on(saved: str) -> tuple[SearchResult, int]:
        async with open_tools() as tools:
            search = build_walk_search(tools, word="ababab", calls=60)
            search.load_state_dict(json.loads(saved))
            result = await search.run()
            assert tools.states is not None
            return result, tools.states.num_steps

    whole, _, tools = run_walk_search("rmax_ts", "tactic-mode", word="ababab", calls=60)
    saved, before = asyncio.run(begin())
    result, after = asyncio.run(go_on(saved))
    assert picture(result) == picture(whole)
    # No number of a state was kept: what lies on the way is run again in the new process.
    assert tools.states is not None
    assert before + after > tools.states.num_steps


def test_searches_share_workers_and_nothing_else() -> None:
    async def main() -> list[SearchResult]:
        async with open_tools(workers=2) as tools:
            words = ("abba", "baab", "abab")
            searches = [
                build_walk_search(tools, word=word, calls=2000, max_idle=2000, max_in_flight=2)
                for word in words
            ]
            results = await asyncio.gather(*(search.run() for search in searches))
            return list(results)

    results = asyncio.run(main())
    assert [letters(result.proofs[0].body) for result in results] == ["abba", "baab", "abab"]


# States in a pool of workers


def run(work: Any, **settings: Any) -> None:
    async def main() -> None:
        states = LeanStates(spawn, **settings)
        try:
            await work(states)
        finally:
            await states.aclose()

    asyncio.run(main())


def goals(states: tuple[Any, ...]) -> list[str]:
    return ["failed" if state.is_failure else " ".join(state.goals) for state in states]


def test_a_path_is_replayed_where_it_is_not_known() -> None:
    async def work(states: LeanStates) -> None:
        problem = build_walk_problem("abb")
        first = await states.walk(problem, ("step a", "step b"))
        assert goals(first) == ["⊢ walk abb", "⊢ walk bb", "⊢ walk b"]
        assert goals(await states.walk(problem, ("step a",))) == ["⊢ walk abb", "⊢ walk bb"]
        assert goals(await states.walk(problem, ("step b", "step b"))) == ["⊢ walk abb", "failed"]
        # step a, step b and the failing step b.
        assert (states.num_steps, states.num_replayed) == (3, 0)
        (pid,) = states.pids
        os.kill(pid, signal.SIGKILL)
        # Known already: the dead worker is not even asked.
        assert await states.walk(problem, ("step a", "step b")) == first
        done = await states.walk(problem, ("step a", "step b", "step b"))
        assert goals(done)[-1] == ""
        assert done[-1].status == "completed"
        assert (states.num_steps, states.num_replayed, states.num_restarts) == (4, 2, 1)
        assert states.pids != (pid,)

    run(work)


@pytest.mark.slow
def test_a_worker_that_dies_or_hangs_in_a_request_is_replaced(tmp_path: Path) -> None:
    async def work(states: LeanStates) -> None:
        problem = build_walk_problem("abb")
        crash = f"step a -- CRASH_ONCE {tmp_path / 'crashed'}"
        hang = f"step b -- HANG_ONCE {tmp_path / 'hung'}"
        assert goals(await states.walk(problem, (crash,))) == ["⊢ walk abb", "⊢ walk bb"]
        assert states.num_restarts == 1
        walked = await states.walk(problem, (crash, hang))
        assert goals(walked) == ["⊢ walk abb", "⊢ walk bb", "⊢ walk b"]
        assert (states.num_restarts, states.num_replayed) == (2, 1)
        with pytest.raises(WorkerError, match="died"):
            await states.walk(problem, ("step a", "step b -- CRASH"))
        assert states.num_restarts == 4
        assert goals(await states.walk(problem, ("stray",))) == ["⊢ walk abb", "⊢ lost 1"]

    run(work, deadline_seconds=3)


def test_paths_that_are_asked_together_go_to_two_workers() -> None:
    async def work(states: LeanStates) -> None:
        problem = build_walk_problem("ab")
        here, there = await asyncio.gather(
            states.walk(problem, ("step a",)), states.walk(problem, ("idle",))
        )
        assert (goals(here)[1], goals(there)[1]) == ("⊢ walk b", "⊢ walk ab")
        assert len(states.pids) == 2
        # The worker that holds the most of a path gets it: nothing is run again.
        await states.walk(problem, ("idle", "step a"))
        await states.walk(problem, ("step a", "step b"))
        assert (states.num_steps, states.num_replayed) == (4, 0)

    run(work, workers=2)


def test_a_full_worker_is_replaced() -> None:
    async def work(states: LeanStates) -> None:
        problem = build_walk_problem("abb")
        await states.walk(problem, ("step a", "step b"))
        (pid,) = states.pids
        # The canary with a sorry is state 0, the hole 1, the steps 2 and 3: full at 4.
        await states.walk(problem, ("step a", "stray"))
        assert states.pids != (pid,)
        assert (states.num_restarts, states.num_replayed) == (0, 1)

    run(work, max_states=4)
    with pytest.raises(UsageError, match="at least 1 worker"):
        LeanStates(spawn, workers=0)


def test_a_bad_problem_costs_no_worker() -> None:
    async def work(states: LeanStates) -> None:
        await states.walk(build_walk_problem("abb"), ("step a",))
        (pid,) = states.pids
        broken = Problem("b", "lean", "tactics", "", "theorem b : wrong := wrong\n  /*{HOLE}*/\n")
        with pytest.raises(ProblemError, match="its own statement fails"):
            await states.walk(broken, ())
        assert states.pids == (pid,)

    run(work)


def test_one_who_gives_up_leaves_no_answer_behind(tmp_path: Path) -> None:
    async def work(states: LeanStates) -> None:
        problem, marker = build_walk_problem("abb"), tmp_path / "hung"
        late = asyncio.create_task(states.walk(problem, (f"step a -- HANG_ONCE {marker}",)))
        while not marker.exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)
        late.cancel()
        with pytest.raises(asyncio.CancelledError):
            await late
        assert states.pids == ()
        assert goals(await states.walk(problem, ("step a",))) == ["⊢ walk abb", "⊢ walk bb"]

    run(work)


def test_a_body_that_breaks_every_worker_is_not_judged_and_the_search_goes_on() -> None:
    async def main() -> None:
        async with open_tools() as tools:
            verify = tools.functions.verify
            crashed = await verify(Candidate(build_walk_problem(), "step a\n  step b -- CRASH"))
            assert (crashed.status, crashed.cause) == (Status.CRASHED, "died")
            half = await verify(Candidate(build_walk_problem(), "step a\n  \ud800"))
            assert half.status is Status.REJECTED
            assert "Unicode" in half.diagnostics[0].message
            bodies = ["step a -- CRASH", "step a\n  step b", "step a\n  step b\n  step b\n  step a"]

            async def propose(
                problem: Problem, prefix: Prefix, num: int, seed: int
            ) -> list[Proposal]:
                return [Proposal(bodies.pop(0), 1, -1.0)]

            tools.guesser.propose = propose  # type: ignore[method-assign]
            search = build_walk_search(tools, "best_of_n", calls=10, width=1)
            search.functions = type(tools.functions)(propose=propose, verify=verify)
            result = await search.run()
            assert (result.stopped, result.calls) == ("proved", 3)

    asyncio.run(main())


def test_what_tactic_mode_takes_for_proved_counts_only_as_a_whole_file() -> None:
    """Tactic mode says completed; the judge of files says no, and then the confirmer does."""

    async def main() -> None:
        problem = build_walk_problem("a")
        refuse = Verdict(Status.REJECTED)

        async def judge(candidate: Candidate) -> Verdict:
            return refuse

        states = LeanStates(spawn)
        verdict = await TacticMode(states, judge).verify(Candidate(problem, "step a"))
        assert verdict.status is Status.REJECTED
        assert verdict.states == ((1, 0, "⊢ walk a"),)
        assert (await Confirmer()(Candidate(problem, "step a"))).proved
        await states.aclose()

    asyncio.run(main())
