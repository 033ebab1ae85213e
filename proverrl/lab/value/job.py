"""A value head is fitted to what runs and searches left.

Flows in: a policy, rollouts of runs, samples of searches. Flows out: a folder with ``value/``,
which the search ``puct`` takes. Features are saved, and the fit after each epoch, so that an
interrupted fit ends as it would have. No verifier starts.
Not handled here: rollouts of Lean, whose bodies are not cut (samples of searches are).
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from threading import Event
from typing import Any

import torch

from proverrl.config import Config, load_stored_config
from proverrl.errors import RunError, StoppedError, UsageError
from proverrl.files.disk import appearing, loading, saving
from proverrl.files.lines import ROLLOUTS_FOLDER
from proverrl.jobs.evaluate import find_weights
from proverrl.lab.value.features import check_layers
from proverrl.lab.value.fit import ValueData
from proverrl.lab.value.model import (
    SETTINGS,
    VALUE_FOLDER,
    ValueModel,
    ValuePair,
    build_data,
    hash_pairs,
    list_pairs,
    list_rollout_pairs,
    measure_head,
    open_fit,
    read_about,
    save_value,
)
from proverrl.lab.value.options import ValueOptions
from proverrl.monitor.interrupt import stop_on_signals
from proverrl.monitor.rollout_rows import iter_rollouts
from proverrl.policy.engines import name_weights
from proverrl.policy.transformers import TransformersPolicy
from proverrl.run.checkpoint import latest_checkpoint
from proverrl.run.run_folder import lock_run
from proverrl.run.session import load_weights
from proverrl.search.samples import read_samples

_FEATURES, _FIT = "features.pt", "fit.pt"


def fit_value(
    out: Path, options: ValueOptions, *, tell: Callable[[str], object] = lambda _: None
) -> None:
    """Fit, or go on with a fit. A finished one is left as it is. Raises ``UsageError``: policy,
    rollouts or samples are missing, or show one outcome only; ``RunError``: what the fit was begun
    with changed; ``StoppedError``: a signal asked for an end."""
    stop = Event()
    lost = "ended at once; lost: the epoch under way; the same command continues"

    async def work() -> None:
        # Signals come to an event loop, which must not wait for an epoch.
        with stop_on_signals(stop.set, lambda: lost):
            await asyncio.to_thread(_fit, out, options, tell, stop)

    with lock_run(out):
        if (out / VALUE_FOLDER / SETTINGS).exists():
            tell(f"{out} is finished; nothing to do")
        else:
            asyncio.run(work())


def describe_value(out: Path) -> list[str]:
    """The known facts of a fitted value model, in lines."""
    about = read_about(out / VALUE_FOLDER)
    lines = [f"value model: {out / VALUE_FOLDER}"]
    for name, title in (("all", "all prefixes"), ("inside", "prefixes with text")):
        if row := about["test"].get(name):
            lines.append(
                f"{title} of held-back problems: AUC {row['auc']:.3f}, within a problem "
                f"{row['within']:.3f}, Brier {row['brier']:.3f} (base rate "
                f"{row['brier_base']:.3f}), calibration error {row['calibration']:.3f}; "
                f"{row['num_pairs']:,} pairs of {row['num_problems']} problems"
            )
    return lines


def _fit(out: Path, options: ValueOptions, tell: Callable[[str], object], stop: Event) -> None:
    pairs = _read_pairs(options)
    policy = _open_policy(options)
    check_layers(policy, options.layers)
    told = name_weights(policy) + hash_pairs(pairs) + options.model_dump_json()
    identity = hashlib.sha256(told.encode()).hexdigest()
    saved = _load(out / _FIT, identity)
    tell(f"{len(pairs)} pairs of {len({pair.problem.id for pair in pairs})} problems")
    data = _open_data(out, policy, pairs, identity, options.layers)
    fit = open_fit(data, pairs, options, options.seed)
    if saved:
        fit.load_state_dict(saved)
    while not fit.done:
        if stop.is_set():
            raise StoppedError(f"stopped; epoch {fit.epoch} is saved; the same command continues")
        losses = fit.run_epoch()
        tell(f"epoch {fit.epoch}, loss on held-back problems {losses['valid_loss']:.4f}")
        _save(out / _FIT, {"of": identity, **fit.state_dict()})
    metrics = measure_head(fit.best, data, pairs, options, options.seed)
    # The folder appears whole, because it is what says that the fit is finished.
    with appearing(out / VALUE_FOLDER) as unfinished:
        save_value(ValueModel(policy, fit.best, options.layers), unfinished, options, metrics)
    for name in (_FEATURES, _FIT):
        (out / name).unlink(missing_ok=True)


def _open_policy(options: ValueOptions) -> TransformersPolicy:
    """The policy that is named, else the newest weights of the run in its layout."""
    if not (options.policy or options.run):
        raise UsageError(
            "a value model reads the hidden states of a policy; give --run, or set policy to the "
            "folder of one"
        )
    run = Path(options.run)
    config = load_stored_config(run) if options.run else Config()
    return load_weights(config, options.policy or find_weights(run))


def _read_pairs(options: ValueOptions) -> list[ValuePair]:
    files = _list_rollouts(Path(options.run), options.last_steps) if options.run else []
    for name in options.rollouts:
        path = Path(name)
        if not path.exists():
            raise UsageError(f"rollouts names {name}, which is not there")
        files += sorted(path.glob("*.jsonl"), key=_step_of) if path.is_dir() else [path]
    samples = [sample for name in options.samples for sample in read_samples(Path(name))]
    if held := next((s.problem.id for s in samples if s.problem.split == "heldout"), None):
        raise UsageError(
            f"samples has a sample of {held!r}, a held-out problem: an evaluation with this value "
            "model would be worth nothing; search training problems"
        )
    rollouts = [pair for file in files for pair in list_rollout_pairs(file, iter_rollouts(file))]
    pairs = rollouts + list_pairs(samples)
    if not pairs:
        raise UsageError(
            "nothing to learn values from; give --run, a run with rollouts, or set rollouts or "
            "samples"
        )
    return pairs


def _list_rollouts(run: Path, last_steps: int) -> list[Path]:
    files = sorted((run / ROLLOUTS_FOLDER).glob("step_*.jsonl"), key=_step_of)
    if not files and latest_checkpoint(run / "checkpoints") is None:
        raise RunError(f"{run} is no run with rollouts; give another --run")
    return files[-last_steps:]


def _step_of(path: Path) -> tuple[int, str]:
    number = path.stem.rpartition("_")[2]
    return (int(number) if number.isdigit() else 0, path.name)


def _open_data(
    out: Path,
    policy: TransformersPolicy,
    pairs: Sequence[ValuePair],
    identity: str,
    layers: int,
) -> ValueData:
    """The features, from the folder where they were computed before."""
    if saved := _load(out / _FEATURES, identity):
        return ValueData(**{field.name: saved[field.name] for field in fields(ValueData)})
    data = build_data(policy, pairs, layers)
    _save(out / _FEATURES, {"of": identity, **vars(data)})
    return data


def _save(path: Path, state: Mapping[str, Any]) -> None:
    partial = path.with_suffix(".partial")
    with saving(path):
        torch.save(dict(state), partial)
        os.replace(partial, path)


def _load(path: Path, identity: str) -> dict[str, Any] | None:
    if not path.exists():
        return None
    with loading(path):
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    if state["of"] != identity:
        raise RunError(
            f"{path.parent}: the policy, rollouts, samples or keys changed since this fit was "
            "begun; bring them back, or name another folder"
        )
    return state
