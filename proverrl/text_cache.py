"""Remembers what functions make of texts.

Flows in: functions of texts. Flows out: the same functions, which compute a value once as long as
it is remembered. ``functools.lru_cache`` counts entries, so that a client with long texts could
fill a server's memory; here their characters count.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
MAX_CHARACTERS = 1_000_000
_ENTRY = 100
"""Characters that an entry counts for besides its own."""


def cache_texts(function: Callable[[*Ts], T]) -> Callable[[*Ts], T]:
    """Remember values by hashable arguments, from any thread. The value used longest ago
    is forgotten as soon as all arguments together have more than ``MAX_CHARACTERS``. Errors are not
    remembered."""
    known: OrderedDict[tuple[Any, ...], T] = OrderedDict()
    lock = threading.Lock()
    size = 0

    @wraps(function)
    def call(*arguments: *Ts) -> T:
        nonlocal size
        with lock:
            if arguments in known:
                known.move_to_end(arguments)
                return known[arguments]
        value = function(*arguments)
        with lock:
            if arguments not in known:
                known[arguments] = value
                size += _measure(arguments)
            while size > MAX_CHARACTERS:
                size -= _measure(known.popitem(last=False)[0])
        return value

    return call


def _measure(arguments: tuple[Any, ...]) -> int:
    return _ENTRY + sum(len(one) for one in arguments if isinstance(one, str))
