"""The traits of a loop, so that a configuration is checked without knowing its name.

Flows in: the name of a loop of ours, or of a plug-in. Flows out: its ``LoopTraits``. The functions
themselves stand in ``proverrl.jobs.train.LOOPS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

from proverrl import plugins
from proverrl.errors import UsageError

LoopName = Literal["warm_start", "grpo", "expert_iteration", "selfplay"]
StepsKey = Literal["grpo.steps", "expert_iteration.rounds"]
TakenKey = Literal[
    "experiments",
    "learner.shard",
    "vllm.sleep",
    "selfplay",
]
"""Keys, and tables, that a loop has to say that it obeys; others refuse them. ``selfplay`` stands
for a composer that the warm start teaches."""
Against = Callable[[Any, Any], str]
"""A ``Config`` and the options of the loop: why they do not fit together, or an empty string."""
T = TypeVar("T", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class LoopTraits:
    """``counts`` is the key of the steps or rounds that end the loop: with a larger number a
    finished run goes on. ``against`` is asked before a run starts."""

    title: str
    counts: StepsKey | None = None
    takes: frozenset[TakenKey] = frozenset()
    against: Against | None = None

    @property
    def unit(self) -> str:
        """The unit that the loop counts: ``step`` or ``round``."""
        return "round" if self.counts == "expert_iteration.rounds" else "step"


def _against_selfplay(config: Any, _: object) -> str:
    selfplay = config.selfplay
    if not config.grpo.in_order:
        return 'loop = "selfplay" learns in order; set grpo.in_order = true'
    copies = selfplay.composer == "policy" and selfplay.weights != "shared"
    if copies and (config.policy.engine == "vllm" or config.policy.lora.rank):
        return (
            f"selfplay.weights = {selfplay.weights!r} copies whole weights; set "
            'policy.engine = "transformers" and policy.lora.rank = 0'
        )
    return ""


_GRPO = frozenset(get_args(TakenKey)) - {"selfplay"}
_WARM: frozenset[TakenKey] = frozenset({"experiments", "learner.shard"})
OWN_LOOPS: Mapping[str, LoopTraits] = {
    "warm_start": LoopTraits("warm start", takes=_WARM),
    "grpo": LoopTraits("GRPO", "grpo.steps", _GRPO),
    "expert_iteration": LoopTraits("expert iteration", "expert_iteration.rounds"),
    "selfplay": LoopTraits("self-play", "grpo.steps", frozenset({"selfplay"}), _against_selfplay),
}


def loop_traits(
    title: str,
    *,
    counts: StepsKey | None = None,
    takes: frozenset[TakenKey] = frozenset(),
    against: Against | None = None,
) -> Callable[[T], T]:
    """Decorates the function of a loop with its ``LoopTraits``."""

    def describe(function: T) -> T:
        setattr(function, _TRAITS, LoopTraits(title, counts, takes, against))
        return function

    return describe


_TRAITS = "loop_traits"


def find_traits(name: str) -> LoopTraits:
    """Of a loop of ours, or of a plug-in, which is imported; one that says nothing of itself has
    none but its title. Raises ``UsageError`` as ``proverrl.plugins.load``."""
    if is_own(name):
        return known_traits(name)
    found = getattr(plugins.load("loop", name), _TRAITS, None)
    return found if isinstance(found, LoopTraits) else known_traits(name)


def is_own(name: str) -> bool:
    """True if a loop is one of ours."""
    return name in OWN_LOOPS


def known_traits(name: str) -> LoopTraits:
    """The traits of a loop, without importing it: of a plug-in its function's name."""
    title = name.rpartition(":")[2].replace("_", " ")
    return OWN_LOOPS.get(name, LoopTraits(title))


def check_loop(config: Any) -> None:
    """Raise ``UsageError`` for what the loop of a ``Config`` cannot be combined with. For our loops
    that was asked when the configuration was read; a plug-in may be imported only now."""
    if reason := against_loop(config, find_traits(config.loop)):
        raise UsageError(reason)


def against_loop(config: Any, traits: LoopTraits) -> str:
    """The reason why a ``Config`` does not fit its loop, or an empty string."""
    asked: dict[TakenKey, tuple[bool, str]] = {
        "experiments": (bool(config.experiments), "{}"),
        "learner.shard": (config.learner.shard != "none", '"none"'),
        "vllm.sleep": (config.policy.engine == "vllm" and config.vllm.sleep, "false"),
    }
    for key, (is_set, off) in asked.items():
        if is_set and key not in traits.takes:
            takers = [f'"{name}"' for name, own in OWN_LOOPS.items() if key in own.takes]
            return (
                f"{key} is for loop = {' or '.join(takers)}, not {config.loop!r}: choose that, or "
                f"set {key} = {off}"
            )
    if traits.against is None:
        return ""
    name, given = config.loop, config.loop_options
    options = None if is_own(name) else plugins.read_options("loop", name, given)
    return traits.against(config, options)
