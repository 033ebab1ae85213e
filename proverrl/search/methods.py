"""The searches by name, and how one is put together.

Flows in: a problem, functions, the section ``[search]``. Flows out: a ``Search`` that can be run.
"""

from __future__ import annotations

from typing import Protocol

from proverrl.config.search import SearchConfig, SearchName
from proverrl.search.base import Functions
from proverrl.search.best_first import BestFirst
from proverrl.search.best_of_n import BestOfN
from proverrl.search.deepsearch import DeepSearch
from proverrl.search.puct import Puct
from proverrl.search.rmax_ts import RMaxTS
from proverrl.search.run import Search
from proverrl.search.self_correct import SelfCorrect
from proverrl.search.strategy import Strategy
from proverrl.types import Problem


class MakeStrategy(Protocol):
    """Builds a strategy; ``root_state`` is the key of the statement's own state, when known."""

    def __call__(
        self, config: SearchConfig, functions: Functions, *, root_state: str = ""
    ) -> Strategy: ...


SEARCHES: dict[SearchName, MakeStrategy] = {
    "best_of_n": BestOfN,
    "self_correct": SelfCorrect,
    "best_first": BestFirst,
    "rmax_ts": RMaxTS,
    "puct": Puct,
    "deepsearch": DeepSearch,
}


def make_search(
    problem: Problem,
    functions: Functions,
    config: SearchConfig,
    *,
    seed: int = 0,
    root_state: str = "",
) -> Search:
    """The search that ``config`` names. ``ConfigError`` when it lacks a function that it needs."""
    strategy = SEARCHES[config.name](config, functions, root_state=root_state)
    return Search(problem, functions, config, strategy, seed=seed)
