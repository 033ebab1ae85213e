"""Low-rank adapters inside a model, through peft (the ``lora`` extra).

Source: Hu et al. 2021, "LoRA", arXiv 2106.09685: a matrix W acts as W + (alpha / rank) B A, and
only A and B learn. The model object stays the same, so that sampler and learner both use the
adapters. Not handled here: whether the sampler really sees them (``proverrl.policy.probe``).
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from proverrl.config import LoraConfig
from proverrl.errors import RunError, UsageError, name_some
from proverrl.files.disk import loading
from proverrl.files.extras import require_module

ADAPTER_FOLDER = "adapter"
"""The place of the adapter in a policy's folder, in peft's own format."""

_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
_REFUSALS = (
    *(AttributeError, TypeError, ValueError, LookupError, ArithmeticError),
    *(ImportError, RuntimeError, UserWarning, re.error),
)
"""What peft raises for an adapter that does not fit, or whose settings cannot be."""
_NAME = "default"
_PREFIX = "base_model.model."


def require_peft() -> None:
    """Raise ``UsageError`` if what ``attach_adapter`` needs is not installed."""
    require_module("peft", "policy.lora.rank above 0")


def has_adapter(model: Any) -> bool:
    """True if ``attach_adapter`` was called on the model and ``merge_adapter`` was not."""
    return bool(getattr(model, "peft_config", None))


def attach_adapter(model: Any, settings: LoraConfig, *, seed: int, base: str = "") -> None:
    """Put fresh adapters into the model; all other weights are frozen. B is 0, so the model
    computes what it computed before. ``base`` is where it was loaded from or saved. Raises
    ``UsageError`` if peft is not installed, or the model has no layer that it could adapt."""
    require_peft()
    import peft

    config = peft.LoraConfig(
        base_model_name_or_path=base or None,
        r=settings.rank,
        lora_alpha=settings.alpha,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    try:
        peft.inject_adapter_in_model(config, model, _NAME)
    except ValueError as error:
        raise UsageError(f"policy.lora.rank = {settings.rank}: {error}") from error
    reset_adapter(model, seed=seed)


def reset_adapter(model: Any, *, seed: int) -> None:
    """Reset the adapters to fresh ones, drawn under ``seed``."""
    torch.manual_seed(seed)
    for _, layer in _layers(model):
        layer.reset_lora_parameters(_NAME, True)


def adapter_weights(model: Any) -> dict[str, Tensor]:
    """The adapters' matrices by name."""
    return {name: p.detach() for name, p in model.named_parameters() if f".{_NAME}." in name}


def adapter_rank(model: Any) -> int:
    """The rank of the model's adapters."""
    return int(model.peft_config[_NAME].r)


def adapter_targets(model: Any) -> list[str]:
    """The names of the layers that have adapters, without what they stand in."""
    return sorted({name.rpartition(".")[2] for name, _ in _layers(model)})


def has_moved(model: Any) -> bool:
    """True if any B is not 0, so that the adapters change what the model computes."""
    return _any_moved(adapter_weights(model))


def _any_moved(weights: dict[str, Tensor]) -> bool:
    return any(bool(w.any()) for name, w in weights.items() if ".lora_B." in name)


def base_weights(model: Any) -> dict[str, Tensor]:
    """The parameters that the adapters stand on, by the names of the model without adapters."""
    return {
        name.replace(".base_layer.", "."): p.detach()
        for name, p in model.named_parameters()
        if f".{_NAME}." not in name
    }


@contextmanager
def adapter_disabled(model: Any) -> Iterator[None]:
    """Inside this context the model computes as if it had no adapters."""
    layers = [layer for _, layer in _layers(model)]
    try:
        for layer in layers:
            layer.enable_adapters(False)
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)


def merged_state(model: Any) -> dict[str, Tensor]:
    """The weights of the model without adapters that computes the same, by their plain names. Sums
    are taken in float32 and rounded to the base's dtype."""
    state = {
        name.replace(".base_layer.", "."): value
        for name, value in model.state_dict().items()
        if f".{_NAME}." not in name
    }
    for name, layer in _layers(model):
        state[f"{name}.weight"] = _merged_weight(layer)
    return state


def merge_adapter(model: Any) -> None:
    """Add the adapters to the weights and remove them; all weights can be trained again."""
    for name, layer in _layers(model):
        base = layer.get_base_layer()
        base.weight.data = _merged_weight(layer)
        parent, _, child = name.rpartition(".")
        setattr(model.get_submodule(parent), child, base)
    del model.peft_config
    model.requires_grad_(True)


def save_adapter(model: Any, folder: Path) -> None:
    """Write the adapters as peft does, for ``peft.PeftModel.from_pretrained`` to read."""
    folder.mkdir(parents=True, exist_ok=True)
    mine = adapter_weights(model)
    weights = {name: mine[own].cpu().contiguous() for name, own in _saved_names(model).items()}
    save_file(weights, folder / _WEIGHTS[0])
    model.peft_config[_NAME].save_pretrained(folder)


@torch.no_grad()
def load_adapter(model: Any, folder: Path) -> None:
    """Load what ``save_adapter`` wrote. Raises ``RunError`` if it cannot be read, or belongs to
    another shape of adapter."""
    path = folder / _WEIGHTS[0]
    with loading(path):
        saved = load_file(path)
    mine, names = adapter_weights(model), _saved_names(model)
    shapes = {name: tuple(mine[names[name]].shape) for name in names}
    if shapes != {name: tuple(value.shape) for name, value in saved.items()}:
        raise RunError(f"{path}: an adapter of another shape; policy.lora was changed")
    for name, value in saved.items():
        mine[names[name]].copy_(value)


def stack_adapters(lower: Path, upper: Path, base: str) -> None:
    """Make the adapter in ``upper``, of a model into which that in ``lower`` was merged, one that
    stands on ``base``, a folder or a name, as ``lower`` does: the sum of both products is that of
    the matrices side by side. Both are of one shape. Of a ``lower`` that never moved nothing is
    taken."""
    config = json.loads((upper / "adapter_config.json").read_text("utf-8"))
    place = Path(base)
    config["base_model_name_or_path"] = str(place.absolute()) if place.exists() else base
    with loading(lower):
        below = load_file(lower / _WEIGHTS[0])
    if _any_moved(below):
        weights = load_file(upper / _WEIGHTS[0])
        for name, value in below.items():
            side = 0 if ".lora_A." in name else 1
            weights[name] = torch.cat([value, weights[name]], dim=side)
        save_file(weights, upper / _WEIGHTS[0])
        # Their quotient, which scales the product, stays.
        config["r"], config["lora_alpha"] = 2 * config["r"], 2 * config["lora_alpha"]
    text = json.dumps(config, indent=2, sort_keys=True)
    (upper / "adapter_config.json").write_text(text, "utf-8")


def list_adapters(path: Path | str) -> tuple[list[Path], Path | str]:
    """The folders of adapters that stand on each other, the last one first, and what they all stand
    on; none and ``path`` for what is no folder of an adapter alone. Raises ``UsageError`` where one
    does not say on what it stands, or they stand on each other in a circle."""
    adapters: list[Path] = []
    inside = Path(path) / ADAPTER_FOLDER
    if (inside / "adapter_config.json").exists() and not (Path(path) / "config.json").exists():
        # The policy in a checkpoint of a run.
        path = inside
    while base := _find_base(Path(path)):
        if Path(path) in adapters:
            raise UsageError(f"{path}: an adapter that stands on itself")
        adapters.append(Path(path))
        beside = Path(path) / base
        path = beside if beside.is_dir() else base
    return adapters, path


def _find_base(folder: Path) -> str:
    path = folder / "adapter_config.json"
    if (folder / "config.json").exists() or not path.exists():
        return ""
    with loading(path):
        try:
            config = json.loads(path.read_text("utf-8"))
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{path} is no JSON: {error}") from error
    base = config.get("base_model_name_or_path") if isinstance(config, dict) else None
    if not isinstance(base, str) or not base:
        raise UsageError(
            f"{path} does not say on which model the adapter stands; write its folder or hub name "
            'behind "base_model_name_or_path"'
        )
    return base


def merge_saved(model: Any, folder: Path) -> Any:
    """The model with the weights of an adapter that peft wrote and can merge; all of them can be
    trained. Raises ``UsageError`` for another one, and where the adapter does not fit the model."""
    require_module("peft", f"the adapter {str(folder)!r}")
    from peft import PeftModel
    from peft.utils.save_and_load import load_peft_weights

    try:
        with loading(folder), warnings.catch_warnings():
            # It leaves out what it does not find.
            warnings.filterwarnings("error", message=".*(missing|unexpected) adapter keys")
            if not any((folder / name).exists() for name in _WEIGHTS):
                # The library would ask the hub for a model of that name.
                raise ValueError(f"it holds no {_WEIGHTS[0]}")
            tied = _find_tied(model)
            adapted = PeftModel.from_pretrained(model, str(folder.absolute()))
            for name, layer in _layers(adapted.base_model.model):
                if tied is not None and layer.get_base_layer().weight is tied:
                    raise ValueError(f"{name} shares its weights with another layer; untie them")
            if _is_plain(adapted):
                # Rounded once, as where a run saves its policy.
                merged = adapted.base_model.model
                saved = load_peft_weights(str(folder.absolute()), device="cpu")
                own = (name for name in saved if ".lora_" in name)
                if lost := sorted({*own} - {*_saved_names(merged)}):
                    raise ValueError(f"the base has no place for {name_some(lost)}")
                merge_adapter(merged)
            else:
                merged = adapted.merge_and_unload()
    except _REFUSALS as error:
        line = " ".join(str(error).split("\n")[:2])
        raise UsageError(
            f"the adapter {str(folder)!r} cannot be merged into its base: {line}"
        ) from error
    return merged.requires_grad_(True)


def _find_tied(model: Any) -> Tensor | None:
    """The weights that the head shares with the embedding, if it does: merged into them, an adapter
    of one layer would change both."""
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    shares = head is not None and head.weight is embedding.weight
    return embedding.weight if shares else None


def _is_plain(adapted: Any) -> bool:
    """True if an adapter that peft read is such as ``attach_adapter`` makes: products of two
    matrices on linear layers, and nothing else."""
    from peft.tuners.lora import Linear

    config = adapted.peft_config[_NAME]
    others = (config.modules_to_save, config.trainable_token_indices, config.lora_bias)
    return not any(others) and all(
        type(layer) is Linear and not layer.lora_variant and not layer.fan_in_fan_out
        for _, layer in _layers(adapted.base_model.model)
    )


def _saved_names(model: Any) -> dict[str, str]:
    """The names of the adapters' weights as peft saves them, and here."""
    return {_PREFIX + name.replace(f".{_NAME}.", "."): name for name in adapter_weights(model)}


def _merged_weight(layer: Any) -> Tensor:
    weight = layer.get_base_layer().weight.detach()
    a, b = layer.lora_A[_NAME].weight.detach(), layer.lora_B[_NAME].weight.detach()
    merged: Tensor = weight.float() + layer.scaling[_NAME] * (b.float() @ a.float())
    return merged.to(weight.dtype)


def _layers(model: Any) -> list[tuple[str, Any]]:
    return [(name, m) for name, m in model.named_modules() if hasattr(m, "lora_A")]
