"""The loop ``value``: fits a value head to what runs and searches left, and measures it.

Flows in: the section ``[value]``: a policy, rollouts, samples of searches. Flows out: a run folder
with ``metrics.jsonl`` and ``value/``, which a search takes as ``search.value``. Features are saved,
and the fit after each epoch, so that an interrupted run ends as it would have. No verifier starts.
Not handled here: rollouts of Lean, whose bodies are not cut (samples of searches are).
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from threading import Event
from typing import Any

import torch

from proverrl.config import Config, load_stored_config
from proverrl.errors import RunError, StoppedError, UsageError
from proverrl.files.disk import loading, saving
from proverrl.files.lines import ROLLOUTS_FOLDER
from proverrl.jobs.evaluate import find_weights
from proverrl.monitor import Monitor
from proverrl.monitor.interrupt import stop_on_signals
from proverrl.monitor.metrics import RunLimits
from proverrl.monitor.rollout_rows import iter_rollouts
from proverrl.monitor.trackers import open_trackers
from proverrl.policy.engines import name_weights
from proverrl.policy.transformers import TransformersPolicy
from proverrl.run.checkpoint import latest_checkpoint
from proverrl.run.run_folder import check_resumable, lock_run, write_resolved
from proverrl.run.session import load_weights
from proverrl.search.samples import read_samples
from proverrl.search.value_features import check_layers
from proverrl.search.value_fit import ValueData
from proverrl.search.values import (
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

_FEATURES, _FIT = "features.pt", "fit.pt"


async def train_value(config: Config, *, live: bool | None = None) -> Path:
    """Run or resume; returns the run folder. A finished one is left as it is. Raises
    ``UsageError``: policy, rollouts or samples are missing, or show one outcome only; ``RunError``:
    the folder belongs to another configuration, or what it was begun with changed;
    ``StoppedError``: a signal asked for an end."""
    stop = Event()
    lost = "ended at once; lost: the epoch under way; the same command continues"
    with lock_run(config.run), stop_on_signals(stop.set, lambda: lost):
        check_resumable(config.run, config)
        if not is_finished(config):
            await asyncio.to_thread(_run, config, live, stop)
    return config.run


def is_finished(config: Config) -> bool:
    """Whether the run folder holds its value model."""
    return (config.run / VALUE_FOLDER / SETTINGS).exists()


def describe_value(folder: Path) -> list[str]:
    """What a finished run says of its value model, in lines."""
    about = read_about(folder / VALUE_FOLDER)
    lines = [f"value model: {folder / VALUE_FOLDER}"]
    for name, title in (("all", "all prefixes"), ("inside", "prefixes with text")):
        if row := about["test"].get(name):
            lines.append(
                f"{title} of held-back problems: AUC {row['auc']:.3f}, within a problem "
                f"{row['within']:.3f}, Brier {row['brier']:.3f} (base rate "
                f"{row['brier_base']:.3f}), calibration error {row['calibration']:.3f}; "
                f"{row['num_pairs']:,} pairs of {row['num_problems']} problems"
            )
    return lines


def _run(config: Config, live: bool | None, stop: Event) -> None:
    if config.threads:
        torch.set_num_threads(config.threads)
    folder, settings = config.run, config.value
    pairs = _read_pairs(config)
    policy = _open_policy(config)
    check_layers(policy, settings.layers)
    write_resolved(folder, config, toolchain="no verifier", engine=policy.engine)
    identity = hashlib.sha256((name_weights(policy) + hash_pairs(pairs)).encode()).hexdigest()
    saved = _load(folder / _FIT, identity)
    resume_step = saved["epoch"] if saved else -1
    epochs = settings.epochs
    trackers = open_trackers(config, folder)
    with Monitor(
        folder, live=live, limits=RunLimits(epochs), resume_step=resume_step, trackers=trackers
    ) as monitor:
        monitor.phase("policy", policy.engine)
        num_problems = len({pair.problem.id for pair in pairs})
        monitor.phase("pairs", f"{len(pairs)} of {num_problems} problems")
        data = _open_data(folder, policy, pairs, identity, settings.layers)
        fit = open_fit(data, pairs, settings, config.seed)
        if saved:
            fit.load_state_dict(saved)
        while not fit.done:
            if stop.is_set():
                raise StoppedError(
                    f"stopped; epoch {fit.epoch} is saved; the same command continues"
                )
            losses = fit.run_epoch()
            monitor.log("epoch", fit.epoch, losses)
            monitor.phase("fit", f"epoch {fit.epoch}, loss on held-back {losses['valid_loss']:.4f}")
            _save(folder / _FIT, {"of": identity, **fit.state_dict()})
        metrics = measure_head(fit.best, data, pairs, settings, config.seed)
        monitor.log("value", fit.epoch, {k: asdict(v) for k, v in metrics.items()})
    # The folder appears whole, because it is what says that the run is finished.
    unfinished = folder / f".{VALUE_FOLDER}"
    shutil.rmtree(unfinished, ignore_errors=True)
    save_value(ValueModel(policy, fit.best, settings.layers), unfinished, settings, metrics)
    os.replace(unfinished, folder / VALUE_FOLDER)
    for name in (_FEATURES, _FIT):
        (folder / name).unlink(missing_ok=True)


def _open_policy(config: Config) -> TransformersPolicy:
    """The policy of ``policy.path``, else the newest weights of ``value.run`` in its layout."""
    if config.policy.path:
        return load_weights(config, config.policy.path)
    if not config.value.run:
        raise UsageError(
            "a value model reads the hidden states of a policy; set value.run to a run, or "
            "policy.path"
        )
    run = Path(config.value.run)
    settings = load_stored_config(run).policy.model_copy(update={"device": config.policy.device})
    return load_weights(config.model_copy(update={"policy": settings}), find_weights(run))


def _read_pairs(config: Config) -> list[ValuePair]:
    settings = config.value
    files = _list_rollouts(Path(settings.run), settings.last_steps) if settings.run else []
    for name in settings.rollouts:
        path = Path(name)
        if not path.exists():
            raise UsageError(f"value.rollouts names {name}, which is not there")
        files += sorted(path.glob("*.jsonl"), key=_step_of) if path.is_dir() else [path]
    samples = [sample for name in settings.samples for sample in read_samples(Path(name))]
    if held := next((s.problem.id for s in samples if s.problem.split == "heldout"), None):
        raise UsageError(
            f"value.samples has a sample of {held!r}, a held-out problem: an evaluation with this "
            "value model would be worth nothing; search training problems"
        )
    rollouts = [pair for file in files for pair in list_rollout_pairs(file, iter_rollouts(file))]
    pairs = rollouts + list_pairs(samples)
    if not pairs:
        raise UsageError(
            "nothing to learn values from; set value.run to a run with rollouts, value.rollouts "
            "or value.samples"
        )
    return pairs


def _list_rollouts(run: Path, last_steps: int) -> list[Path]:
    files = sorted((run / ROLLOUTS_FOLDER).glob("step_*.jsonl"), key=_step_of)
    if not files and latest_checkpoint(run / "checkpoints") is None:
        raise RunError(f"{run} is no run with rollouts (value.run)")
    return files[-last_steps:]


def _step_of(path: Path) -> tuple[int, str]:
    number = path.stem.rpartition("_")[2]
    return (int(number) if number.isdigit() else 0, path.name)


def _open_data(
    folder: Path,
    policy: TransformersPolicy,
    pairs: Sequence[ValuePair],
    identity: str,
    layers: int,
) -> ValueData:
    """The features, from the folder where they were computed before."""
    if saved := _load(folder / _FEATURES, identity):
        return ValueData(**{field.name: saved[field.name] for field in fields(ValueData)})
    data = build_data(policy, pairs, layers)
    _save(folder / _FEATURES, {"of": identity, **vars(data)})
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
            f"{path.parent}: the policy, rollouts, samples or proverrl changed since this run was "
            "begun; bring them back, or name another folder with --run"
        )
    return state
