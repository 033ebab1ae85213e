"""Reads a configuration: a TOML file and ``--set key=value`` overrides.

Flows in: a file and dotted overrides. Flows out: one frozen ``Config``. Nothing is silently
ignored: an unknown key fails with the nearest valid name.
"""

from __future__ import annotations

import copy
import difflib
import os
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import ValidationError

from proverrl.config.base import Section
from proverrl.config.sections import Config
from proverrl.errors import ConfigError, RunError
from proverrl.files.lines import RESOLVED_FILE
from proverrl.files.shipped import LOOKED, find_config, find_extended, list_configs
from proverrl.files.strict_json import read_object

INPUTS = (
    *("problems.train", "problems.valid", "problems.heldout"),
    *("policy.path", "policy.examples", "expert_iteration.proofs", "samples.files"),
    "evaluation.benchmarks",
)
"""Keys that name what is read: looked for beside the file that holds them, then in the working
folder, then among the files that come with ProverRL."""


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read a TOML file, or a shipped one by its name, and apply ``key.subkey=value`` overrides
    (values in TOML's syntax). Raises ``ConfigError``, which names the file or override, the key,
    and the nearest valid key."""
    path = Path(path)
    return _build_config(lambda: read_table(path), overrides, path)


def load_stored_config(run: Path, overrides: Sequence[str] = ()) -> Config:
    """The configuration that a run stored, its folder being where it lies now. Raises ``RunError``
    if the folder is not a run, and ``ConfigError`` if an override is wrong."""
    path = run / RESOLVED_FILE
    try:
        table = read_stored_table(path)
    except FileNotFoundError as error:
        lacks = f"it has no {path.name}" if run.is_dir() else "no such folder"
        raise RunError(f"{run} is not a run folder: {lacks}") from error
    except (OSError, ValueError) as error:
        raise RunError(f"{run} is not a run folder: {path} cannot be read: {error}") from error
    return _build_config(lambda: table | {"run": str(run)}, overrides, path)


def _build_config(
    read: Callable[[], dict[str, Any]], overrides: Sequence[str], path: Path
) -> Config:
    try:
        given = {text.partition("=")[0].strip() for text in overrides}
        return parse_config(apply_overrides(read(), overrides), source=str(path), given=given)
    except RecursionError as error:
        raise ConfigError(f"{path}, or a --set, is nested too deeply to be read") from error


def choose_run(run: Path | None, overrides: Sequence[str]) -> Path | None:
    """The run whose weights are meant: none where an override names another policy."""
    return None if names_policy(overrides) else run


def names_policy(overrides: Sequence[str]) -> bool:
    """True if an override says which policy is meant."""
    return any(text.partition("=")[0].strip() == "policy.path" for text in overrides)


def read_stored_table(path: Path) -> dict[str, Any]:
    """The configuration in a ``resolved.json``, as a plain table. Raises ``OSError`` if the file
    cannot be read, and ``ValueError`` if it holds no configuration."""
    table = read_object(path).get("config")
    if not isinstance(table, dict):
        raise ValueError("it holds no object 'config'")  # noqa: TRY004
    return table


def read_table(path: Path, below: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The tables of a TOML file over those of the file that its ``extends`` names, relative to it.
    Raises ``ConfigError`` if a file is missing or broken, or extends itself by way of others."""
    found = find_config(path)
    if found is None:
        by = f", which {below[-1]} extends" if below else ""
        near = difflib.get_close_matches(path.stem, names := list_configs(), n=1, cutoff=0.0)
        there = ", ".join(name for name in names if "/" not in name)
        raise ConfigError(
            f"{path}: no such configuration file{by}; {LOOKED}: {near[0]!r} comes nearest of "
            f"{there}, and those in presets/"
        )
    path = found
    try:
        table = tomllib.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read as TOML: {error}") from error
    _prefer_beside(table, path.parent)
    parent = table.pop("extends", None)
    if parent is None:
        return table
    if not isinstance(parent, str):
        raise ConfigError(f"{path}: extends must name a file")
    above = find_extended(path, parent)
    if any(os.path.realpath(above) == os.path.realpath(seen) for seen in (*below, path)):
        raise ConfigError(f"{path}: extends {parent}, which extends this file")
    return _merge(read_table(above, (*below, path)), table)


def _prefer_beside(table: dict[str, Any], folder: Path) -> None:
    """Names of ``INPUTS`` that lie beside the file that holds them, as paths to there."""
    for key in INPUTS:
        section, _, last = key.partition(".")
        inner = table.get(section)
        if not isinstance(inner, dict) or last not in inner:
            continue
        if isinstance(named := inner[last], list):
            inner[last] = [_beside(name, folder) for name in named]
        else:
            inner[last] = _beside(named, folder)


def _beside(name: Any, folder: Path) -> Any:
    is_there = isinstance(name, str) and name and (folder / name).exists()
    return str(folder / name) if is_there else name


def _merge(
    table: dict[str, Any], changes: dict[str, Any], section: type[Section] = Config
) -> dict[str, Any]:
    """Section by section; a value that is a table, such as ``references_per_level``, is one value,
    and takes the place of the other."""
    merged = dict(table)
    for key, value in changes.items():
        old = merged.get(key)
        info = section.model_fields.get(key)
        inner, named = find_section(info.annotation) if info else (None, False)
        if inner is None or not isinstance(old, dict) or not isinstance(value, dict):
            merged[key] = value
        elif named:
            merged[key] = old | {
                name: _merge(old.get(name, {}), table, inner) for name, table in value.items()
            }
        else:
            merged[key] = _merge(old, value, inner)
    return merged


def find_section(annotation: Any) -> tuple[type[Section] | None, bool]:
    """The section that a key's type is, if any, and whether there are several by their names, as
    ``[endpoints.NAME]``."""
    named = get_origin(annotation) is dict
    inner = get_args(annotation)[1] if named else annotation
    return (inner if isinstance(inner, type) and issubclass(inner, Section) else None), named


def flatten_table(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of a table of tables by their whole keys, as ``grpo.steps``."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat |= flatten_table(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def apply_overrides(table: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """A copy of ``table`` with ``key.subkey=value`` overrides applied. Raises ``ConfigError`` for
    an override that is not ``key=value``."""
    table = copy.deepcopy(table)
    for override in overrides:
        _apply_override(table, override)
    return table


def parse_config(table: dict[str, Any], *, source: str, given: Collection[str] = ()) -> Config:
    """Build a ``Config`` from a plain table; ``source`` names it in errors, except for keys
    ``given`` with ``--set``."""
    try:
        return Config.model_validate(table)
    except ValidationError as error:
        by_place: dict[str, list[str]] = {}
        for problem in error.errors():
            place = "--set" if _is_given(problem["loc"], given) else source
            line = _explain(problem["loc"], problem["msg"], problem["type"])
            by_place.setdefault(place, []).append(line)
        said = [f"{place}: " + "; ".join(found) for place, found in by_place.items()]
        raise ConfigError("; ".join(said)) from error


def _is_given(location: tuple[int | str, ...], keys: Collection[str]) -> bool:
    """True if a place is that of one of the keys, or inside it."""
    name = ".".join(map(str, location))
    return any(name == key or name.startswith(f"{key}.") for key in keys)


def _apply_override(table: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    key = key.strip()
    if not equals or not key:
        raise ConfigError(f"--set {override!r}: write key=value, for example --set grpo.steps=20")
    try:
        value = tomllib.loads(f"value = {text.strip()}")["value"]
    except ValueError:
        # A bare word such as a path or a name is meant as a string.
        value = text.strip()
    *parents, last = key.split(".")
    for parent in parents:
        table = table.setdefault(parent, {})
        if not isinstance(table, dict):
            raise ConfigError(f"--set {override!r}: {parent!r} is not a table")
    table[last] = value


def _explain(location: tuple[int | str, ...], message: str, kind: str) -> str:
    name = ".".join(str(part) for part in location)
    if kind != "extra_forbidden":
        # pydantic's words for an error that a check of ours raised.
        message = message.removeprefix("Value error, ")
        if kind in ("tuple_type", "list_type"):
            message = 'a list is wanted, as \'["a", "b"]\''
        # What does not fit together has no single place.
        return f"{name}: {message}" if name else message
    valid = sorted(_key_names(Config, given=name.split(".")))
    section, _, last = name.rpartition(".")
    # lr in the section learner is learning_rate there.
    short = [key for key in valid if key.rpartition(".")[0] == section and last == _initials(key)]
    # So is step in grpo steps there, whatever other sections have a step.
    beside = [key for key in valid if key.rpartition(".")[0] == section]
    typo = difflib.get_close_matches(name, beside, n=1, cutoff=0.94)
    same_leaf = [key for key in valid if key.split(".")[-1] == last]
    near = difflib.get_close_matches(name, valid, n=1, cutoff=0.0)
    best = (short + typo + same_leaf + near)[0]
    return f"unknown key {name!r}; the nearest valid key is {best!r}"


def _initials(key: str) -> str:
    return "".join(word[:1] for word in key.rpartition(".")[2].split("_"))


def _key_names(
    section: type[Section], prefix: str = "", given: Sequence[str] = ()
) -> Iterator[str]:
    """All keys; of tables with names those of the table that the key ``given`` names."""
    for name, info in section.model_fields.items():
        yield prefix + name
        inner, named = find_section(info.annotation)
        if inner is not None and not named:
            yield from _key_names(inner, f"{prefix}{name}.")
        elif inner is not None and len(given) > 2 and given[0] == name:
            yield from _key_names(inner, f"{prefix}{name}.{given[1]}.")
