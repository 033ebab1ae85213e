"""What a search tree itself costs: selections and backups per CPU second, and memory per node.

Flows in: a number of nodes and of expansions. Flows out: figures. Nothing is proposed or verified:
bodies are made up, one in five takes a step that is new.
"""

from __future__ import annotations

import gc
import random
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from rich.table import Table

from proverrl.config.search import SearchConfig, TreeSearchName
from proverrl.lang.records import Segment
from proverrl.search.base import Functions, Job, JudgedProposal, Proposal
from proverrl.search.run import SEARCHES
from proverrl.search.strategy import Expansion, Strategy
from proverrl.types import Candidate, Status, Verdict

METHODS: tuple[TreeSearchName, ...] = ("rmax_ts", "best_first")
TARGET_PER_SECOND = 5000
TARGET_BYTES = 2048
_REFUSED = Verdict(Status.REJECTED)
_STATE = "open: " + 12 * "a postcondition might not hold; "


@dataclass(frozen=True, slots=True)
class TreeCost:
    """``per_second`` counts a selection and its backup as one; nothing is inserted meanwhile."""

    method: str
    nodes: int
    expansions: int
    per_second: float
    most_children: int
    deepest: int
    bytes_per_node: float


async def _never(*_: Any) -> Any:
    raise NotImplementedError("nothing is proposed or verified here")


def _no_segments(candidate: Candidate, verdict: Verdict) -> tuple[Segment, ...]:
    return ()


def make_strategy(name: TreeSearchName) -> Strategy:
    """A strategy with the default constants, on functions that are never called."""
    asked = cast(Callable[..., Awaitable[Any]], _never)
    functions = Functions(asked, asked, segment=_no_segments, correct=asked)
    config = SearchConfig(name=name)
    return SEARCHES[name](config, functions)


def grow(strategy: Strategy, nodes: int, rng: random.Random) -> None:
    """Expand until the tree has so many nodes: bodies of one to six steps, some of them shared."""
    number = 0
    while len(strategy.tree) < nodes:
        number += 1
        job = strategy.choose(number, rng.getrandbits(32), 1)
        assert job is not None  # the root can always be expanded
        strategy.absorb(job, _make_up(job, rng))


def _make_up(job: Job, rng: random.Random) -> Expansion:
    text, segments = job.prefix.text, []
    for _ in range(rng.randint(1, 6)):
        step = rng.randrange(12)
        text += f"  assert step_{step}(x) by {{ lemma_{step}(x, y); }}\n"
        segments.append(Segment(text, f"{_STATE}{step} {len(text)}"))
    proposal = Proposal(text, 20 * len(segments), -rng.random() * 20 * len(segments))
    return Expansion((JudgedProposal(proposal, _REFUSED, tuple(segments)),))


def measure_tree(name: TreeSearchName, *, nodes: int, expansions: int, seed: int = 0) -> TreeCost:
    """Grow a tree twice, once for its memory and once for its speed."""
    gc.collect()
    tracemalloc.start()
    measured = make_strategy(name)
    grow(measured, nodes, random.Random(seed))
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    strategy = make_strategy(name)
    grow(strategy, nodes, random.Random(seed))
    tree = strategy.tree
    seconds = _time_expansions(strategy, expansions)
    return TreeCost(
        method=name,
        nodes=len(tree),
        expansions=expansions,
        per_second=expansions / seconds,
        most_children=max(len(node.children or ()) for node in tree.nodes),
        deepest=max(node.depth for node in tree.nodes),
        bytes_per_node=size / len(tree),
    )


def _time_expansions(strategy: Strategy, expansions: int) -> float:
    """Each body repeats its prefix, so that what is measured has the same number of nodes."""
    started = time.process_time()
    for number in range(expansions):
        job = strategy.choose(number, number, 1)
        assert job is not None
        judged = JudgedProposal(Proposal(job.prefix.text, 1, -1.0), _REFUSED, ())
        strategy.absorb(job, Expansion((judged,)))
    return time.process_time() - started


def measure_search(
    *,
    methods: Sequence[TreeSearchName] = METHODS,
    nodes: int = 10_000,
    expansions: int = 10_000,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Every method at a quarter of the nodes and at all of them."""
    rows = []
    for name in methods:
        for size in (max(1, nodes // 4), nodes):
            say(f"{name}: {size} nodes")
            rows.append(asdict(measure_tree(name, nodes=size, expansions=expansions)))
    targets = {"per_second": TARGET_PER_SECOND, "bytes_per_node": TARGET_BYTES, "nodes": nodes}
    return {"rows": rows, "targets": targets}


def make_table(results: dict[str, Any]) -> Table:
    """The figures, one row a method and size."""
    table = Table(
        title=f"targets at {results['targets']['nodes']:,} nodes: at least "
        f"{TARGET_PER_SECOND:,} selections and backups a CPU second, below {TARGET_BYTES} bytes "
        "a node"
    )
    for head in ("method", "nodes", "per CPU second", "most children", "deepest", "bytes per node"):
        table.add_column(head, justify="left" if head == "method" else "right")
    for row in results["rows"]:
        table.add_row(
            row["method"],
            f"{row['nodes']:,}",
            f"{row['per_second']:,.0f}",
            str(row["most_children"]),
            str(row["deepest"]),
            f"{row['bytes_per_node']:.0f}",
        )
    return table
