"""A small world to search in: bodies are letters, and everything about them is known.

``a`` and ``b`` are steps, ``n`` is a step that changes nothing, ``x`` is an error. A body that
comes to ``target`` (without its ``n``) is a proof; one that ends elsewhere is refused as a whole.
The state after some letters is those letters without ``n``.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pytest

from proverrl.config.search import SearchConfig
from proverrl.errors import RecordError
from proverrl.lang.records import Prefix, Segment
from proverrl.search.base import Functions, Proposal, Search, SearchResult
from proverrl.search.run import TreeSearch
from proverrl.search.tree import Tree
from proverrl.types import Candidate, Problem, Status, Verdict
from tests.builders import build_problem, build_verdict

Runner: TypeAlias = Callable[[Coroutine[Any, Any, SearchResult]], SearchResult]
"""What runs a search: ``asyncio.run``, or the loop in which a pool lives."""


@dataclass
class World:
    """``script`` gives bodies in order in place of the random policy; ``statuses`` overrides the
    verdict of a body. ``verified`` and ``asked`` record the calls; ``running`` counts those that
    have not returned."""

    target: str = "abba"
    letters: str = "aabbnx"
    length: int = 6
    script: list[str] | None = None
    statuses: dict[str, Status] = field(default_factory=dict)
    verified: list[str] = field(default_factory=list)
    asked: list[tuple[str, str, int, int]] = field(default_factory=list)
    running: int = 0

    async def propose(
        self, problem: Problem, prefix: Prefix, num: int, seed: int
    ) -> list[Proposal]:
        self.asked.append((prefix.text, prefix.state, num, seed))
        if self.script is not None:
            bodies = [self.script.pop(0) for _ in range(min(num, len(self.script)))]
        else:
            rng = random.Random(seed)
            lengths = [rng.randint(1, self.length) for _ in range(num)]
            bodies = [prefix.text + "".join(rng.choices(self.letters, k=n)) for n in lengths]
        return [self.proposal(body, prefix.text) for body in bodies]

    def proposal(self, body: str, before: str = "") -> Proposal:
        """A token a letter; ``a`` costs 0.1, ``b`` 0.2, all others 0.4 of log-probability."""
        written = body[len(before) :]
        costs = {"a": 0.1, "b": 0.2}
        return Proposal(body, len(written), -sum(costs.get(letter, 0.4) for letter in written))

    async def verify(self, candidate: Candidate) -> Verdict:
        self.verified.append(candidate.body)
        self.running += 1
        try:
            await self.work(candidate)
        finally:
            self.running -= 1
        return build_verdict(self.judge(candidate.body))

    async def work(self, candidate: Candidate) -> None:
        await asyncio.sleep(0)

    def judge(self, body: str) -> Status:
        done = body.replace("n", "") == self.target
        return self.statuses.get(body, Status.PROVED if done else Status.REJECTED)

    def segment(self, candidate: Candidate, verdict: Verdict) -> tuple[Segment, ...]:
        good = candidate.body.split("x")[0]
        texts = [good[:end] for end in range(1, len(good) + 1)]
        return tuple(Segment(text, text.replace("n", "")) for text in texts)

    async def correct(self, problem: Problem, body: str, verdict: Verdict, seed: int) -> Proposal:
        """One letter is drawn anew."""
        rng = random.Random(seed)
        place = rng.randrange(len(body))
        return self.proposal(body[:place] + rng.choice(self.letters) + body[place + 1 :])

    def functions(self, **changed: Any) -> Functions:
        given: dict[str, Any] = {
            "propose": self.propose,
            "verify": self.verify,
            "segment": self.segment,
            "correct": self.correct,
            **changed,
        }
        return Functions(**given)


PROBLEM = build_problem("letters")


def build_search(world: World, *, seed: int = 0, **config: Any) -> TreeSearch:
    settings = SearchConfig(**{"name": "rmax_ts", **config})
    return TreeSearch(PROBLEM, world.functions(), settings, seed=seed)


def run_search(world: World, *, seed: int = 0, **config: Any) -> SearchResult:
    def watch(search: TreeSearch) -> None:
        check_invariants(search.strategy.tree)

    return asyncio.run(build_search(world, seed=seed, **config).run(watch))


def run_stopped(build: Callable[[], Search], run: Runner, after: int) -> SearchResult:
    """What one search finds from the state that another had after so many calls."""

    class StopError(Exception):
        pass

    saved: list[dict[str, Any]] = []

    def watch(search: Search) -> None:
        if len(search.curve) == after:
            saved.append(search.state_dict())
            raise StopError

    with pytest.raises(StopError):
        run(build().run(watch))
    resumed = build()
    resumed.load_state_dict(saved[0])
    return run(resumed.run())


def check_invariants(tree: Tree) -> None:
    """Raise ``RecordError`` where the tree contradicts itself. O(nodes)."""
    limit = math.inf if tree.gamma == 1 else 1 / (1 - tree.gamma)
    for number, node in enumerate(tree.nodes):
        children = list((node.children or {}).items())
        kin = [child for _, child in children]
        facts = {
            "its number": node.id == number,
            "its parent": node.parent is None
            if number == 0
            else (node.parent is not None and node.parent.id < number),
            "its depth": node.depth == (node.parent.depth + 1 if node.parent else 0),
            "its place among its parent's children": node.parent is None
            or (node.parent.children or {}).get(node.state) is node,
            "its children's edges": all(k == c.state and c.parent is node for k, c in children),
            "a state unlike its parent's": node.parent is None or node.state != node.parent.state,
            "its texts": 0 < len(node.prefixes) <= tree.max_prefixes
            and all(0 <= end <= len(body) for body, end in node.prefixes),
            "different texts": len({b[:e] for b, e in node.prefixes}) == len(node.prefixes),
            "jobs under way": node.own_jobs >= 0
            and node.sub_jobs == node.own_jobs + sum(c.sub_jobs for c in kin),
            "its counts": -1e-9 <= node.own_count <= node.sub_count + 1e-9
            and node.sub_count <= limit + 1e-9,
            "its rewards": abs(node.own_reward) <= node.own_count + 1e-9
            and abs(node.sub_reward) <= node.sub_count + 1e-9,
        }
        if tree.gamma == 1:
            total = node.own_count + sum(c.sub_count for c in kin)
            facts["counts that add up"] = abs(node.sub_count - total) < 1e-6
        wrong = [name for name, holds in facts.items() if not holds]
        if wrong:
            raise RecordError(f"node {number} of the search tree: wrong {', '.join(wrong)}")
