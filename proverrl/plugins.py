"""Plug-ins, in place of parts of ours: ``package.module:function``, or an installed name.

Flows in: names from a configuration, and the options beside them. Flows out: functions with their
options bound. A module is looked for where Python looks, and in the working folder. A package that
brings several plug-ins names them in entry points: the group ``proverrl.SEAM`` with ``name =
"package.module:function"``; ``reward.name = "name"`` then means that function. Everything is
checked before a run starts. A plug-in runs with the rights of its user; it can change what a policy
learns from, and no verdict but those of a language of its own.
Not handled here: what plug-ins do.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal, TypeVar, get_type_hints

from pydantic import BaseModel, ValidationError

from proverrl.errors import UsageError

Seam = Literal[
    "loop",
    "reward",
    "advantage",
    "loss",
    "curriculum",
    "callback",
    "search",
    "composer",
    "benchmark",
    "policy",
    "rollout",
    "experiment",
]
PARAMETERS: Mapping[Seam, tuple[str, ...]] = {
    "loop": ("session",),
    "reward": ("rollout",),
    "advantage": ("inputs",),
    "loss": ("inputs",),
    "curriculum": ("problems", "seed"),
    "callback": ("event", "row"),
    "search": ("config", "functions"),
    "composer": ("parents", "seed"),
    "benchmark": (),
    "policy": ("prompt", "n", "sampling"),
    "rollout": ("config",),
    "experiment": ("config",),
}
"""The arguments of a part, by position; ``options`` comes by name, to a part that has it."""
_KEYS: Mapping[Seam, str] = {
    "loop": "loop",
    "callback": "logging.callbacks",
    "composer": "selfplay.composer",
    "benchmark": "--benchmark",
    "policy": "policy.engine",
    "rollout": "rollout.mode",
    "experiment": "experiments",
}
"""The key that names such a part, if not ``SEAM.name``."""
HOOKS: Mapping[Seam, tuple[str, ...]] = {"reward": ("check", "review")}
"""Attributes that a plug-in may have beside what it is called for; None where it has none."""
_WITHOUT_OPTIONS: tuple[Seam, ...] = ("callback", "benchmark")
"""Plug-ins that have no table of their own."""
_PLACE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
T = TypeVar("T", bound=Callable[..., Any])
Base = TypeVar("Base")


def is_place(text: str) -> bool:
    """True when a text has the form ``package.module:function``."""
    return _PLACE.fullmatch(text) is not None


def list_installed(group: str) -> tuple[str, ...]:
    """The names that installed packages give in ``proverrl.GROUP``, each once."""
    return tuple(dict.fromkeys(point.name for point in entry_points(group=f"proverrl.{group}")))


def find_installed(group: str, name: str) -> str:
    """The ``package.module:function`` that a name of ``list_installed`` stands for; empty for other
    names. Raises ``UsageError``: two packages give the name, or it stands for something else."""
    points = _find_points(group, name)
    if not points:
        return ""
    packages = find_package(group, name)
    if len(points) > 1:
        raise UsageError(
            f"{group} {name!r} is a name of two installed packages, {packages}: uninstall one"
        )
    if not is_place(points[0].value):
        raise UsageError(
            f"{group} {name!r} of the installed package {packages} is {points[0].value!r}; its "
            f"entry point in proverrl.{group} has to be package.module:function"
        )
    return points[0].value


def find_package(group: str, name: str) -> str:
    """The installed package that gives a name in ``proverrl.GROUP``; the value of an entry point
    without a distribution."""
    points = _find_points(group, name)
    return " and ".join(p.value if p.dist is None else p.dist.name for p in points)


def _find_points(group: str, name: str) -> list[EntryPoint]:
    return [point for point in entry_points(group=f"proverrl.{group}") if point.name == name]


def choose(seam: Seam, known: Mapping[Any, T], name: str, options: Mapping[str, Any]) -> T:
    """The part of this name: one of ours, or a plug-in with its options bound. Raises
    ``UsageError`` as ``bind``."""
    if name in known:
        return known[name]
    bound: Any = bind(seam, name, options)
    return bound  # type: ignore[no-any-return]


def bind(seam: Seam, name: str, options: Mapping[str, Any]) -> Callable[..., Any]:
    """A plug-in, called as ``PARAMETERS`` says; for the same options the same one, which is checked
    once. Raises ``UsageError``: it cannot be imported, is no function, takes other parameters, or
    does not take these options."""
    return _bind(seam, name, json.dumps(dict(options), sort_keys=True))


def read_options(seam: Seam, name: str, options: Mapping[str, Any]) -> Any:
    """The options as the plug-in gets them. Raises ``UsageError`` as ``bind``."""
    bind(seam, name, options)
    return _read_options(seam, name, load(_find_key(seam), name), options)


def open_part(
    seam: Seam, name: str, options: Mapping[str, Any], config: object, base: type[Base]
) -> Base:
    """The object that a plug-in makes of a configuration. Raises ``UsageError`` as ``bind``, and
    for an object of no subclass of ``base``."""
    made = bind(seam, name, options)(config)
    if not isinstance(made, base):
        wanted = f"an object of a subclass of {base.__module__}.{base.__name__}"
        raise refuse(seam, name, made, "a configuration", wanted)
    return made


def make(key: str, found: Any, base: type[Base]) -> Base:
    """The object of ``base`` that was found, or one of its class. Raises ``UsageError``, which
    begins with ``key``: it is no such object, or the class makes none without arguments."""
    if inspect.isclass(found) and issubclass(found, base):
        try:
            with refuse_exit(key, found.__name__):
                found = found()
        except TypeError as error:
            raise UsageError(f"{key}: {error}") from error
    if not isinstance(found, base):
        wanted = f"{base.__module__}.{base.__name__}"
        raise UsageError(f"{key}: it is no {wanted}, but {type(found).__name__}")
    return found


def refuse(seam: Seam, name: str, given: object, asked: str, wanted: str) -> UsageError:
    """The error for what a part ``gave`` when it was ``asked`` for something. The folder of a run
    stays as it was, so that the same command goes on once the part is mended."""
    text = " ".join(repr(given).split())
    return UsageError(
        f"{_find_key(seam)}: {name} gave {text:.120} for {asked}; return {wanted}. A run continues "
        "by the same command from what it saved last"
    )


@cache
def _bind(seam: Seam, name: str, options_text: str) -> Callable[..., Any]:
    options = json.loads(options_text)
    key = _find_key(seam)
    function = load(key, name)
    if not callable(function):
        raise UsageError(f"{key}: {name} is no function, but {type(function).__name__}")
    names = PARAMETERS[seam]
    try:
        signature = inspect.signature(function)
        takes_options = "options" in signature.parameters
        signature.bind(*names, **({"options": None} if takes_options else {}))
    except (TypeError, ValueError) as error:
        wanted = ", ".join([*names, "*", "options"])
        raise UsageError(
            f"{key}: {name} cannot be called as f({wanted}), where options may be left out: {error}"
        ) from None
    if takes_options and seam in _WITHOUT_OPTIONS:
        raise UsageError(
            f"{key}: {name} has a parameter 'options', which no configuration can give to a "
            f"{seam}; name a function without it"
        )
    if not takes_options:
        if options:
            raise UsageError(
                f"{_find_table(seam, name)}: {name} takes none; give it a parameter 'options', or "
                f"drop {', '.join(sorted(options))}"
            )
        bound = function
    else:
        bound = partial(function, options=_read_options(seam, name, function, options))
    hooks = {hook: getattr(function, hook, None) for hook in HOOKS.get(seam, ())}
    return _keep_running(key, name, bound, hooks)


def _keep_running(
    key: str, name: str, function: Callable[..., Any], hooks: Mapping[str, Any]
) -> Callable[..., Any]:
    """The function with its hooks, plain or async. None of them may end the program: its exit
    status would be taken for the command's."""

    async def wait(given: Awaitable[Any]) -> Any:
        with refuse_exit(key, name):
            return await given

    def guard(called: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            with refuse_exit(key, name):
                given = called(*arguments, **named)
            return wait(given) if inspect.isawaitable(given) else given

        return call

    kept = guard(function)
    vars(kept).update({hook: each and guard(each) for hook, each in hooks.items()})
    return kept


@contextmanager
def refuse_exit(key: str, name: str) -> Iterator[None]:
    """Raise ``UsageError`` where a plug-in asks the program to end."""
    try:
        yield
    except SystemExit as error:
        raise UsageError(f"{key}: {name} asked the program to end ({error!r})") from error


def _find_key(seam: Seam) -> str:
    return _KEYS.get(seam, f"{seam}.name")


def _find_table(seam: Seam, name: str) -> str:
    """The table of a part's options."""
    if seam == "experiment":
        return f"experiments.{json.dumps(name)}"
    return "loop_options" if seam == "loop" else f"{_find_key(seam).partition('.')[0]}.options"


def check(given: Sequence[tuple[Seam, str, Mapping[str, Any]]]) -> None:
    """Raise ``UsageError`` as ``bind`` for each name that is a plug-in's, and for options of a part
    of ours, which has keys of its own."""
    for seam, name, options in given:
        if is_place(name):
            bind(seam, name, options)
        elif options:
            table = _find_table(seam, name)
            own = name if seam == "loop" else table.partition(".")[0]
            raise UsageError(
                f"{table} are for a plug-in ({_find_key(seam)} = "
                f'"package.module:function"); {name!r} has keys in [{own}]'
            )


@cache
def load(key: str, name: str) -> Any:
    """The object at ``package.module:attribute``. Raises ``UsageError``, which begins with
    ``key``: it cannot be imported, or the module has nothing of that name."""
    module, _, path = name.partition(":")
    if (here := os.getcwd()) not in sys.path:
        # A command that is installed does not look into the folder that it is called in.
        sys.path.append(here)
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and f"{module}.".startswith(f"{error.name}."):
            raise UsageError(
                f"{key}: no module {module!r}; install its package, or start in the folder that "
                f"holds {module.replace('.', '/')}.py"
            ) from None
        raise UsageError(f"{key}: {module} cannot be imported: {error}") from error
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"{key}: {module} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    for part in path.split("."):
        if not hasattr(found, part):
            near = difflib.get_close_matches(part, dir(found), n=1)
            hint = f"; it has {near[0]!r}" if near else ""
            raise UsageError(f"{key}: {module} has no {part!r}{hint}")
        found = getattr(found, part)
    return found


def _read_options(
    seam: Seam, name: str, function: Callable[..., Any], options: Mapping[str, Any]
) -> Any:
    """The options in the pydantic model that annotates the parameter; without one a mapping."""
    table = _find_table(seam, name)
    called = function.__init__ if inspect.isclass(function) else function
    try:
        model = get_type_hints(called).get("options")
    except NameError as error:
        raise UsageError(
            f"{_find_key(seam)}: the annotations of {name} name nothing: {error}"
        ) from error
    if not (inspect.isclass(model) and issubclass(model, BaseModel)):
        return dict(options)
    try:
        # Strict about keys whatever the model says: one that is misspelt would do nothing.
        unknown = sorted(options.keys() - model.model_fields.keys())
        if unknown:
            known = ", ".join(model.model_fields) or "none"
            raise UsageError(f"{table}: unknown {unknown[0]!r}; {name} knows: {known}")
        return model.model_validate(dict(options))
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, (table, *e['loc'])))}: {e['msg'].removeprefix('Value error, ')}"
            for e in error.errors()
        )
        raise UsageError(faults) from None
