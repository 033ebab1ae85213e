"""Modules that an installation may lack: the extra that brings each, and its command.

Flows in: the name of a module. Flows out: whether it is there, and one line with the remedy. The
core of the package verifies, serves and checks; everything else is one of the extras of
``pyproject.toml``. Not handled here: versions, which pip chooses.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

from proverrl.errors import UsageError
from proverrl.files.shipped import is_checkout, name_root

TRAINING = (
    *("torch", "transformers", "tokenizers", "accelerate", "datasets", "plotly"),
    *("scipy", "numpy", "jinja2", "pyarrow", "safetensors", "huggingface_hub"),
)
"""Modules that only training, evaluation and reports import."""
EXTRAS = (
    dict.fromkeys(TRAINING, "train")
    | {name: name for name in ("mcp", "ray", "tensorboard", "vllm", "wandb")}
    | {"lean_dojo": "leandojo", "peft": "lora"}
)
"""The extra that brings a module which the core of the package does without."""


def install_extra(name: str) -> str:
    """The command that installs an extra, as this package itself was installed."""
    what = f"-e '{name_root()}[{name}]'" if is_checkout() else f"'proverrl[{name}]'"
    return f"{sys.executable} -m pip install {what}"


def tell_missing(module: str, needed_by: str) -> str:
    """A sentence on a module of ``EXTRAS`` that is not installed, and the command for it."""
    command = install_extra(EXTRAS[module])
    return f"{needed_by} needs {module}, which is not installed; run: {command}"


def require_module(module: str, needed_by: str) -> None:
    """Raises ``UsageError`` with the remedy where a module of ``EXTRAS`` is not installed. It is
    looked for and not imported, since some are used by other processes only."""
    if sys.modules.get(module) is None and find_spec(module) is None:
        raise UsageError(tell_missing(module, needed_by))
