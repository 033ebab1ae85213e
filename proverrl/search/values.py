"""What a prefix of a proof is worth: a small head on the policy's own hidden states.

Flows in: pairs of a prefix and whether the proof that went on from it was found, from the rollouts
of a run or from search trees. Flows out: a ``ValueFn``, the chance that a prefix can be completed.
The policy's weights are not trained: its last hidden states of prompt and prefix, the one of the
last token beside their mean, are computed once, and a perceptron with one hidden layer is fitted to
them with binary cross-entropy. It stops when the loss on problems that it never saw stops falling,
and keeps the weights that were best there.
Values on search trees after AlphaProof-like searches need no more than this; not handled here:
training the trunk (a value that changes the policy), policies behind a server or an engine that
gives no hidden states.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from proverrl.errors import UsageError
from proverrl.policy.transformers import TransformersPolicy
from proverrl.search.base import Prefix
from proverrl.search.dafny_places import find_cuts
from proverrl.search.proposals import make_extend, render_prefix
from proverrl.search.value_metrics import ValueMetrics, measure_values
from proverrl.seeds import derive_seed
from proverrl.types import Language, Problem, Status

WEIGHTS, SETTINGS = "value.safetensors", "value.json"


@dataclass(frozen=True, slots=True)
class ValuePair:
    """A prefix of a body, and whether the whole body was proved."""

    problem: Problem
    prefix: str
    solved: bool


@dataclass(frozen=True, slots=True)
class ValueSettings:
    """``valid_share`` of the problems (not of the pairs) is held back; training ends after
    ``patience`` epochs in which the loss on them was not lower, or after ``epochs``."""

    hidden: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    batch_size: int = 256
    epochs: int = 60
    patience: int = 5
    valid_share: float = 0.2
    seed: int = 0


class ValueHead(nn.Module):
    """From features of shape (rows, 2 x hidden size) to logits of shape (rows,)."""

    mean: Tensor
    scale: Tensor

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("scale", torch.ones(size))
        self.first = nn.Linear(size, hidden)
        self.last = nn.Linear(hidden, 1)

    def forward(self, features: Tensor) -> Tensor:
        inner = torch.relu(self.first((features - self.mean) / self.scale))
        logits: Tensor = self.last(inner).squeeze(-1)
        return logits


class ValueModel:
    """A ``ValueFn`` of a policy and a head that was fitted on that policy's hidden states."""

    def __init__(self, policy: TransformersPolicy, head: ValueHead) -> None:
        self.policy = policy
        self.head = head.eval()

    async def __call__(self, problem: Problem, prefixes: Sequence[Prefix]) -> list[float]:
        """The chance for each prefix, in [0, 1]."""
        return await asyncio.to_thread(self.score, [(problem, p.text) for p in prefixes])

    @torch.inference_mode()
    def score(self, rows: Sequence[tuple[Problem, str]]) -> list[float]:
        """``__call__`` for prefixes of any problems, in this thread."""
        if not rows:
            return []
        return [float(v) for v in torch.sigmoid(self.head(compute_features(self.policy, rows)))]


def read_pairs(files: Iterable[Path], language: Language = "dafny") -> list[ValuePair]:
    """The pairs of a run's ``rollouts/*.jsonl``: the empty prefix of each judged body and one for
    every statement that another follows.

    Raises:
        UsageError: a line is no rollout.
    """
    pairs = []
    for file in files:
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
            try:
                row = json.loads(line)
                pairs += _read_row(row, language)
            except (KeyError, TypeError, ValueError) as error:
                raise UsageError(
                    f"{file}, line {number}: not a rollout ({error!r}); give the files that a run "
                    "wrote into its folder rollouts/"
                ) from error
    return pairs


def list_prefixes(body: str) -> list[str]:
    """The empty prefix, and the body up to every cut but the last."""
    return ["", *(body[: cut.end] for cut in find_cuts(body)[:-1])]


def compute_features(
    policy: TransformersPolicy, rows: Sequence[tuple[Problem, str]], batch_size: int = 64
) -> Tensor:
    """Hidden states of prompt and prefix: that of the last token, then the mean of all; of shape
    (rows, 2 x hidden size), in 32 bits, without gradients."""
    extend = make_extend(policy)
    tokens = []
    for problem, text in rows:
        prompt = policy.prompt(problem)
        opening, _ = render_prefix(policy, problem, Prefix(text, ""))
        tokens.append((extend(prompt, opening) if opening else prompt).token_ids)
    order = sorted(range(len(tokens)), key=lambda i: len(tokens[i]))
    found: list[Tensor] = [torch.empty(0)] * len(tokens)
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        features = _embed(policy, [tokens[i] for i in chosen])
        for index, feature in zip(chosen, features, strict=True):
            found[index] = feature
    return torch.stack(found)


def train_value(
    policy: TransformersPolicy, pairs: Sequence[ValuePair], settings: ValueSettings
) -> tuple[ValueModel, ValueMetrics]:
    """Fit a head; the metrics are those on the problems that were held back.

    Raises:
        UsageError: the pairs of one side are all solved or all not, so that nothing can be fitted
            or measured.
    """
    is_valid = [is_held_back(pair.problem.id, settings) for pair in pairs]
    # Rollouts of a problem share prefixes, the empty one above all: each is computed once.
    rows = {(pair.problem.id, pair.prefix): (pair.problem, pair.prefix) for pair in pairs}
    numbers = {key: number for number, key in enumerate(rows)}
    chosen = [numbers[pair.problem.id, pair.prefix] for pair in pairs]
    features = compute_features(policy, list(rows.values()))[chosen]
    labels = torch.tensor([float(pair.solved) for pair in pairs])
    mask = torch.tensor(is_valid)
    for name, side in (("training", labels[~mask]), ("validation", labels[mask])):
        if len(side.unique()) < 2:  # type: ignore[no-untyped-call]
            raise UsageError(
                f"the {len(side)} {name} pairs are not both solved and unsolved; give rollouts of "
                "more problems, or another value seed"
            )
    head = fit_head(features[~mask], labels[~mask], features[mask], labels[mask], settings)
    model = ValueModel(policy, head)
    with torch.inference_mode():
        scores = torch.sigmoid(head(features[mask])).tolist()
    held = [pair for pair, valid in zip(pairs, is_valid, strict=True) if valid]
    metrics = measure_values(scores, [p.solved for p in held], [p.problem.id for p in held])
    return model, metrics


def is_held_back(problem_id: str, settings: ValueSettings) -> bool:
    """Whether a problem is for validation: decided by its id, so that more pairs move none."""
    return derive_seed(settings.seed, "value", problem_id) / 2**63 < settings.valid_share


def fit_head(
    features: Tensor,
    labels: Tensor,
    valid_features: Tensor,
    valid_labels: Tensor,
    settings: ValueSettings,
) -> ValueHead:
    """The head with the lowest binary cross-entropy on the validation rows."""
    generator = torch.Generator().manual_seed(settings.seed)
    head = ValueHead(features.shape[1], settings.hidden)
    for parameter in head.parameters():
        bound = parameter.shape[-1] ** -0.5
        nn.init.uniform_(parameter, -bound, bound, generator=generator)
    head.mean.copy_(features.mean(0))
    head.scale.copy_(features.std(0).clamp(min=1e-6))
    optimizer = torch.optim.AdamW(
        head.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
    )
    measure = nn.functional.binary_cross_entropy_with_logits
    best, best_loss, waited = copy.deepcopy(head), float("inf"), 0
    for _ in range(settings.epochs):
        order = torch.randperm(len(features), generator=generator)
        for chosen in order.split(settings.batch_size):  # type: ignore[no-untyped-call]
            optimizer.zero_grad()
            measure(head(features[chosen]), labels[chosen]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        with torch.inference_mode():
            loss = float(measure(head(valid_features), valid_labels))
        waited += 1
        if loss < best_loss:
            best, best_loss, waited = copy.deepcopy(head), loss, 0
        elif waited >= settings.patience:
            break
    return best


def save_value(
    model: ValueModel, folder: Path, settings: ValueSettings, metrics: ValueMetrics
) -> None:
    """Write the head beside the policy that it belongs to."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.contiguous() for name, tensor in model.head.state_dict().items()}
    save_file(state, folder / WEIGHTS)
    about = {"size": len(model.head.mean), "settings": asdict(settings), "valid": asdict(metrics)}
    (folder / SETTINGS).write_text(json.dumps(about, indent=1) + "\n", "utf-8")


def load_value(policy: TransformersPolicy, folder: Path) -> ValueModel:
    """The model that ``save_value`` wrote.

    Raises:
        UsageError: there is none, or it is of a policy with another hidden size.
    """
    try:
        about = json.loads((folder / SETTINGS).read_text("utf-8"))
        state = load_file(folder / WEIGHTS)
    except OSError as error:
        raise UsageError(f"{folder} holds no value model: {error}; train one first") from error
    size = 2 * int(policy.model.config.get_text_config(decoder=True).hidden_size)
    if about["size"] != size:
        raise UsageError(
            f"the value model in {folder} reads {about['size']} features, this policy has {size}; "
            "train one for this policy"
        )
    head = ValueHead(size, int(about["settings"]["hidden"]))
    head.load_state_dict(state)
    return ValueModel(policy, head)


def _read_row(row: dict[str, Any], language: Language) -> list[ValuePair]:
    status = Status(row["status"])
    body = row["body"]
    if not status.judged or not isinstance(body, str):
        return []
    given = row["problem"]
    # The kind decides how a body is verified, not how the problem is shown.
    problem = Problem(given["id"], language, "statements", given["preamble"], given["statement"])
    solved = status is Status.PROVED
    return [ValuePair(problem, prefix, solved) for prefix in list_prefixes(body)]


@torch.inference_mode()
def _embed(policy: TransformersPolicy, rows: Sequence[Sequence[int]]) -> Tensor:
    lengths = torch.tensor([len(row) for row in rows], device=policy.device)
    longest = int(lengths.max())
    ids = torch.tensor([[*row, *[policy.end_id] * (longest - len(row))] for row in rows])
    mask = torch.arange(longest, device=policy.device) < lengths[:, None]
    policy.model.eval()
    out = policy.model(
        input_ids=ids.to(policy.device),
        attention_mask=mask.long(),
        output_hidden_states=True,
        logits_to_keep=1,
    )
    states = out.hidden_states[-1].float()
    last = states[torch.arange(len(rows), device=policy.device), lengths - 1]
    mean = (states * mask[..., None]).sum(1) / lengths[:, None]
    return torch.cat([last, mean], dim=1).cpu()
