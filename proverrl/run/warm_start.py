"""The warm start: the model that reinforcement learning starts from.

Flows in: what is taught, the references among it. Flows out: updated weights of the model, which
are in ``warm_start/`` of the run's folder as well. Not handled here: which pairs there are
(``pairs``), the training itself (``supervised``).
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch

from proverrl.files.disk import saving
from proverrl.policy.lora import attach_adapter, merge_adapter
from proverrl.run.pairs import PairSource
from proverrl.run.session import Session
from proverrl.run.supervised import train_supervised
from proverrl.seeds import derive_seed


def warm_start(session: Session, taught: Sequence[PairSource]) -> None:
    """Train on what is ``taught``, and save the weights; the last file written marks the end."""
    config, monitor, policy = session.config, session.monitor, session.policy
    settings = config.warm_start
    sources = [*taught]

    def show(step: int, loss: float) -> None:
        if step < settings.steps:
            session.check_stop(f"the warm start was at step {step} and begins again")
        monitor.phase("warm start", f"{step}/{settings.steps}, loss {loss:.3f}")
        if step % 10 == 0 or step == settings.steps:
            monitor.log("sft", step, {"loss": loss})

    if settings.steps and sources:
        seed = derive_seed(config.seed, "warm_start")
        train_supervised(session, sources, settings, steps=settings.steps, seed=seed, progress=show)
    lora = config.policy.lora
    if lora.rank:
        merge_adapter(policy.model)
    temporary = session.warm_weights.with_suffix(".tmp")
    with saving(session.warm_weights.parent):
        session.warm_weights.parent.mkdir(exist_ok=True)
        policy.save(session.warm_weights.parent / "policy")
        torch.save(policy.model.state_dict(), temporary)
        os.replace(temporary, session.warm_weights)
    if lora.rank:
        # The loop trains a new one, on top of the warm-started policy.
        attach_adapter(policy.model, lora, seed=derive_seed(config.seed, "lora"))
    session.sampler.push(policy.version)
