"""The searches by name, and how one is put together.

Flows in: a problem, functions, the section ``[search]``. Flows out: a ``Search`` that can be run.
"""

from __future__ import annotations

from typing import Protocol

from proverrl.config.search import BaseName, CompositeName, SearchConfig
from proverrl.search.base import Functions, Searching
from proverrl.search.best_first import BestFirst
from proverrl.search.best_of_n import BestOfN
from proverrl.search.composite import Composite, MakeBase
from proverrl.search.deepsearch import DeepSearch
from proverrl.search.lemma_search import LemmaSearch
from proverrl.search.puct import Puct
from proverrl.search.rmax_ts import RMaxTS
from proverrl.search.run import Search
from proverrl.search.self_correct import SelfCorrect
from proverrl.search.strategy import Strategy
from proverrl.search.subgoal_search import SubgoalSearch
from proverrl.types import Problem


class MakeStrategy(Protocol):
    """Builds a strategy; ``root_state`` is the key of the statement's own state, when known."""

    def __call__(
        self, config: SearchConfig, functions: Functions, *, root_state: str = ""
    ) -> Strategy: ...


SEARCHES: dict[BaseName, MakeStrategy] = {
    "best_of_n": BestOfN,
    "self_correct": SelfCorrect,
    "best_first": BestFirst,
    "rmax_ts": RMaxTS,
    "puct": Puct,
    "deepsearch": DeepSearch,
}


class MakeComposite(Protocol):
    """Builds a search of several searches, each made by ``make_base``."""

    def __call__(
        self,
        problem: Problem,
        functions: Functions,
        config: SearchConfig,
        make_base: MakeBase,
        *,
        seed: int = 0,
    ) -> Composite: ...


COMPOSITES: dict[CompositeName, MakeComposite] = {"subgoals": SubgoalSearch, "lemmas": LemmaSearch}


def make_single(
    problem: Problem,
    functions: Functions,
    config: SearchConfig,
    *,
    seed: int = 0,
    root_state: str = "",
) -> Search:
    """A search with one tree. ``ConfigError`` when it lacks a function that it needs."""
    strategy = SEARCHES[config.base_name](config, functions, root_state=root_state)
    return Search(problem, functions, config, strategy, seed=seed)


def make_search(
    problem: Problem,
    functions: Functions,
    config: SearchConfig,
    *,
    seed: int = 0,
    root_state: str = "",
) -> Searching:
    """The search that ``config`` names. ``ConfigError`` when it lacks a function that it needs,
    ``UsageError`` when it is not for such a problem."""
    for name, make in COMPOSITES.items():
        if name == config.name:
            return make(problem, functions, config, make_single, seed=seed)
    return make_single(problem, functions, config, seed=seed, root_state=root_state)


def list_parts(search: Searching) -> list[Search]:
    """The searches with a tree that a search is made of: itself, or those of its parts."""
    if isinstance(search, Composite):
        return list(search.searches.values())
    return [search] if isinstance(search, Search) else []
