"""The worth of a proof's prefix: a small head on the policy's own hidden states.

Flows in: a policy, and pairs of a prefix and whether the whole body was proved, from rollouts of a
run and from samples of searches. Flows out: a ``ValueFn``, the chance that a prefix can be
completed. Features of prompt and prefix are computed once (``features``), and a perceptron
with one hidden layer is fitted to them (``fit``). How likely the policy finds the prefix is a
feature: a policy that is surprised by what it wrote is often wrong.
Not handled here: policies that give no hidden states.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter, with_config
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from typing_extensions import TypedDict

from proverrl.errors import ProblemError, UsageError
from proverrl.files.disk import saving
from proverrl.files.lines import ROW, read_row
from proverrl.lab.value.features import FEATURES, compute_features, count_features
from proverrl.lab.value.fit import (
    HeadFit,
    Side,
    ValueData,
    ValueHead,
    ValueMetrics,
    choose_side,
    measure_values,
)
from proverrl.lab.value.options import ValueOptions
from proverrl.lang.dafny.search.places import find_cuts
from proverrl.lang.records import Prefix
from proverrl.policy.engines import name_weights
from proverrl.policy.transformers import TransformersPolicy
from proverrl.search.proposals import render_prefix
from proverrl.search.samples import SearchSample
from proverrl.types import Candidate, Problem, Status

WEIGHTS, SETTINGS = "value.safetensors", "value.json"
VALUE_FOLDER = "value"
"""The folder where ``proverrl fit-value`` keeps it."""
_REMEDY = "fit one with proverrl fit-value"


# A figure that needs pairs which there are none of is NaN.
@with_config({**ROW, "allow_inf_nan": True})
class _MeasuredRow(TypedDict):
    num_pairs: int
    num_problems: int
    auc: float
    within: float
    brier: float
    brier_base: float
    calibration: float


class _HeadRow(TypedDict):
    hidden: int


@with_config(ROW)
class _ValueRow(TypedDict):
    features: int
    size: int
    layers: int
    policy_sha256: str
    config: _HeadRow
    test: dict[str, _MeasuredRow]


_ABOUT = TypeAdapter(_ValueRow)


@dataclass(frozen=True, slots=True)
class ValuePair:
    """A prefix of a body, and whether the whole body was proved. Rollouts do not hold the prefix's
    state."""

    problem: Problem
    prefix: Prefix
    solved: bool


def list_rollout_pairs(file: Path, rows: Iterable[Mapping[str, Any]]) -> list[ValuePair]:
    """The pairs of the rows of a ``file`` of a run's ``rollouts/``: the empty prefix of each judged
    body and one for every statement that another follows. Raises ``UsageError`` if a row lacks what
    a run writes, or a proof of its language has no states."""
    pairs = []
    for row in rows:
        try:
            pairs += _read_row(row)
        except (KeyError, ValueError, ProblemError) as error:
            raise UsageError(
                f"{file}: rollout {row['rollout_id']!r} is damaged ({error!r}); give the files "
                "that a run wrote into its folder rollouts/"
            ) from error
    return pairs


def list_pairs(samples: Iterable[SearchSample]) -> list[ValuePair]:
    """The pairs of searches: the empty prefix, and the body up to each end but the last."""
    return [
        ValuePair(sample.problem, Prefix(sample.body[:end], state), sample.proved)
        for sample in samples
        for end, state in ((0, ""), *zip(sample.ends[:-1], sample.states[:-1], strict=True))
    ]


def hash_pairs(pairs: Sequence[ValuePair]) -> str:
    """SHA-256 of the pairs in their order."""
    digest = hashlib.sha256()
    for pair in pairs:
        key = Candidate(pair.problem, pair.prefix.text).key
        state = pair.prefix.state
        digest.update(f"{pair.problem.id}\0{key}\0{state}\0{pair.solved}\n".encode())
    return digest.hexdigest()


def _read_row(row: Mapping[str, Any]) -> list[ValuePair]:
    status = Status(row["status"])
    body = row["body"]
    if not status.judged or body is None:
        return []
    given = row["problem"]
    language = given["language"]
    # The kind decides how a body is verified, not how the problem is shown.
    problem = Problem(given["id"], language, "statements", given["preamble"], given["statement"])
    solved = status is Status.PROVED
    if language != "dafny":
        raise UsageError(
            f"prefixes of proofs in {language} are read from their states, which rollouts do not "
            "hold; give samples, which `proverrl search --emit-samples` writes"
        )
    return [ValuePair(problem, Prefix(text, ""), solved) for text in list_prefixes(body)]


def list_prefixes(body: str) -> list[str]:
    """The empty prefix, and a Dafny body up to every place but the last where it could be cut."""
    return ["", *(body[: cut.end] for cut in find_cuts(body)[:-1])]


class ValueModel:
    """A ``ValueFn`` of a policy and a head that was fitted on that policy's hidden states, those
    after its ``layers`` last layers."""

    def __init__(self, policy: TransformersPolicy, head: ValueHead, layers: int) -> None:
        self.policy = policy
        self.head = head.eval()
        self.layers = layers

    async def __call__(self, problem: Problem, prefixes: Sequence[Prefix]) -> list[float]:
        """The chance for each prefix, in [0, 1]."""
        return await asyncio.to_thread(self.score, [(problem, prefix) for prefix in prefixes])

    @torch.inference_mode()
    def score(self, rows: Sequence[tuple[Problem, Prefix]]) -> list[float]:
        """``__call__`` for prefixes of any problems, in this thread."""
        if not rows:
            return []
        features = compute_features(self.policy, rows, self.layers)
        return [float(v) for v in torch.sigmoid(self.head(features))]


def build_data(policy: TransformersPolicy, pairs: Sequence[ValuePair], layers: int) -> ValueData:
    """The features of the pairs: each distinct prefix of a problem is computed once."""
    # A state that is not shown tells no prefixes apart.
    keys = [(pair.problem.id, *render_prefix(policy, pair.problem, pair.prefix)) for pair in pairs]
    rows = {key: (pair.problem, pair.prefix) for key, pair in zip(keys, pairs, strict=True)}
    numbers = {key: number for number, key in enumerate(rows)}
    names = {name: i for i, name in enumerate(dict.fromkeys(pair.problem.id for pair in pairs))}
    return ValueData(
        features=compute_features(policy, list(rows.values()), layers),
        rows=torch.tensor([numbers[key] for key in keys]),
        labels=torch.tensor([float(pair.solved) for pair in pairs]),
        problems=torch.tensor([names[pair.problem.id] for pair in pairs]),
    )


def open_fit(
    data: ValueData, pairs: Sequence[ValuePair], config: ValueOptions, seed: int
) -> HeadFit:
    """A fit of the pairs of ``build_data``, with the problems held back that ``choose_side`` names.
    Raises ``UsageError`` if the pairs of one side are all solved or all not, so that nothing can be
    fitted or measured."""
    masks = {side: _mask(pairs, config, seed, side) for side in ("train", "valid", "test")}
    for side, mask in masks.items():
        labels = data.labels[mask]
        if len(set(labels.tolist())) < 2:
            raise UsageError(
                f"the {len(labels)} pairs for {side} are not both solved and unsolved; give "
                "rollouts of more problems, or another seed"
            )
    return HeadFit(data, masks["train"], masks["valid"], config, seed)


@torch.inference_mode()
def measure_head(
    head: ValueHead,
    data: ValueData,
    pairs: Sequence[ValuePair],
    config: ValueOptions,
    seed: int,
) -> dict[str, ValueMetrics]:
    """Figures on the problems that had no part in the fit: ``all`` of their pairs, and those
    ``inside`` a body, which a search chooses between."""
    mask = _mask(pairs, config, seed, "test")
    scores = torch.sigmoid(head(data.features))[data.rows].tolist()
    found = {}
    for name, least in (("all", 0), ("inside", 1)):
        held = [
            (score, pair)
            for score, pair, chosen in zip(scores, pairs, mask.tolist(), strict=True)
            if chosen and len(pair.prefix.text) >= least
        ]
        if held:
            found[name] = measure_values(
                [score for score, _ in held],
                [pair.solved for _, pair in held],
                [pair.problem.id for _, pair in held],
            )
    return found


def _mask(pairs: Sequence[ValuePair], config: ValueOptions, seed: int, side: Side) -> Tensor:
    return torch.tensor([choose_side(p.problem.id, config, seed) == side for p in pairs])


def save_value(
    model: ValueModel, folder: Path, config: ValueOptions, metrics: dict[str, ValueMetrics]
) -> None:
    """Write the head with the name of the weights that it belongs to."""
    state = {name: tensor.contiguous() for name, tensor in model.head.state_dict().items()}
    about = {
        "features": FEATURES,
        "size": len(model.head.mean),
        "layers": model.layers,
        "policy_sha256": name_weights(model.policy),
        "config": config.model_dump(mode="json"),
        "test": {name: asdict(values) for name, values in metrics.items()},
    }
    with saving(folder):
        folder.mkdir(parents=True, exist_ok=True)
        save_file(state, folder / WEIGHTS)
        (folder / SETTINGS).write_text(json.dumps(about, indent=1) + "\n", "utf-8")


def load_value(policy: TransformersPolicy, folder: Path) -> ValueModel:
    """The model that ``save_value`` wrote. Raises ``UsageError`` if there is none, it is of a
    policy with other weights, or it is damaged."""
    about = read_about(folder)
    try:
        state = load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise UsageError(f"{folder} holds no value model: {error}; {_REMEDY}") from error
    if about["features"] != FEATURES:
        raise UsageError(
            f"the value model in {folder} was fitted by another version of proverrl, to other "
            f"features of a prefix; {_REMEDY}"
        )
    named = about["policy_sha256"]
    if named != name_weights(policy):
        raise UsageError(
            f"the value model in {folder} was trained on the hidden states of other weights "
            f"({named[:12]}) than this policy has ({name_weights(policy)[:12]}); train one for "
            "this policy"
        )
    try:
        head = _open_head(policy, about, state)
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"{folder} is damaged: {reason:.200}; {_REMEDY}") from error
    return ValueModel(policy, head, about["layers"])


def _open_head(
    policy: TransformersPolicy, about: Mapping[str, Any], state: Mapping[str, Tensor]
) -> ValueHead:
    """Raises ``RuntimeError`` or ``ValueError`` where something does not fit."""
    size, layers, hidden = about["size"], about["layers"], about["config"]["hidden"]
    if layers < 1 or hidden < 1 or size != count_features(policy, layers):
        raise ValueError(f"{SETTINGS} does not fit the policy's hidden states")
    if not all(bool(torch.isfinite(tensor).all()) for tensor in state.values()):
        raise ValueError("a weight is not finite")
    head = ValueHead(size, hidden)
    head.load_state_dict(state)
    return head


def read_about(folder: Path) -> dict[str, Any]:
    """The record that ``save_value`` wrote beside the weights. Raises ``UsageError`` if the folder
    holds no value model, and ``RunError`` if the file is damaged."""
    if not (folder / SETTINGS).is_file():
        # The folder of its run was given.
        inside = folder / VALUE_FOLDER
        remedy = f"give {inside}" if (inside / SETTINGS).is_file() else _REMEDY
        raise UsageError(f"{folder} holds no value model: it has no {SETTINGS}; {remedy}")
    return read_row(folder / SETTINGS, _ABOUT, _REMEDY)
