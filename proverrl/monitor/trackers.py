"""The same figures in the tools that people watch: TensorBoard, Weights & Biases.

Flows in: the lines of ``metrics.jsonl``. Flows out: scalars named ``KIND/FIGURE`` to each tool that
``logging.backends`` names, through accelerate's trackers. A tool that fails while the run goes on
is left out from there, with a warning: the run and ``metrics.jsonl`` do not depend on it. After a
resume lines may come twice, since what was written after the checkpoint is written again.
"""

from __future__ import annotations

import json
import math
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from proverrl.config import Config
from proverrl.errors import UsageError
from proverrl.files.extras import require_module
from proverrl.files.lines import write_atomically
from proverrl.files.strict_json import read_object

IDS_FILE = "trackers.json"
"""The file in the run folder with its id in each tool, so that a resume goes on with it."""

PROJECT = "proverrl"
"""The project in tools that have some, where wandb's own variable ``WANDB_PROJECT`` names none."""

_HAVE_AXES = frozenset({"tensorboard"})
"""Tools in which each curve has steps of its own; in others a run has one axis, and the step is a
figure beside the others."""


def open_trackers(config: Config, folder: Path) -> dict[str, Any]:
    """The tools that ``logging.backends`` names, begun or gone on with; ``jsonl`` is always there
    and none of them. Raises ``UsageError``: one is not installed, or does not begin."""
    names = [name for name in config.logging.backends if name != "jsonl"]
    for name in names:
        require_module(name, "logging.backends")
    return {name: _open(name, config, folder) for name in names}


def _open(name: str, config: Config, folder: Path) -> Any:
    from accelerate.tracking import LOGGER_TYPE_TO_CLASS

    if name == "tensorboard":
        options: dict[str, Any] = {"logging_dir": folder}
    else:
        options = {"name": folder.name, "id": _find_id(name, folder), "resume": "allow"}
        options["dir"] = str(folder)
    project = name if name == "tensorboard" else os.environ.get("WANDB_PROJECT", PROJECT)
    tracker = LOGGER_TYPE_TO_CLASS[name](project, **options)
    try:
        tracker.start()
        if name != "tensorboard":  # whose form of it is a run of its own
            tracker.store_init_configuration(config.dump())
    except Exception as error:  # each tool has its own
        raise UsageError(
            f"{name} does not begin: {error}; see to its settings, or leave it out of "
            "logging.backends"
        ) from error
    return tracker


def _find_id(name: str, folder: Path) -> str:
    path = folder / IDS_FILE
    ids = read_object(path) if path.exists() else {}
    if name not in ids:
        ids[name] = uuid.uuid4().hex[:8]
        write_atomically(path, json.dumps(ids) + "\n")
    return str(ids[name])


class TrackerSet:
    """Hands lines to several tools; ``warn`` is told of one that fails."""

    def __init__(self, trackers: Mapping[str, Any], warn: Callable[[str, str], None]) -> None:
        self._trackers = dict(trackers)
        self._warn = warn

    def log(self, row: Mapping[str, Any]) -> None:
        """One line of ``metrics.jsonl``: all its numbers, those in tables too."""
        kind, step = str(row["kind"]), int(row["step"])
        values = dict(_list_numbers(row, kind))
        for name in tuple(self._trackers):
            self._try(name, "log", values, **({"step": step} if name in _HAVE_AXES else {}))

    def close(self) -> None:
        """End them; what they still have to send is sent."""
        for name in tuple(self._trackers):
            self._try(name, "finish")
            self._trackers.pop(name, None)

    def _try(self, name: str, method: str, *values: Any, **options: Any) -> None:
        try:
            getattr(self._trackers[name], method)(*values, **options)
        except Exception as error:  # noqa: BLE001 a tool's fault must not end a run
            del self._trackers[name]
            text = f"{name} is left out from here: {error}; {name} lacks what metrics.jsonl holds"
            self._warn(name, text)


def _list_numbers(row: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    for key, value in row.items():
        name = f"{prefix}/{key}"
        if isinstance(value, Mapping):
            yield from _list_numbers(value, name)
        elif isinstance(value, int | float) and math.isfinite(value):
            yield name, float(value)
