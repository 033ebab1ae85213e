"""What a run has composed: the archive, what the guards said, and the base problems beside them.

Flows in: a session. Flows out: ``archive.jsonl`` in its folder with a picture beside it, pairs of
parents, tools of the guards. Not handled here: what is put in (``rounds``, ``data_loop``).
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from proverrl.benchmarks.open import open_benchmark
from proverrl.compose.archive import ARCHIVE_FILE, ProblemArchive
from proverrl.compose.archive_picture import draw_archive
from proverrl.compose.composers import Pair
from proverrl.compose.guards import Asker, GuardLedger, GuardTools
from proverrl.files.lines import write_atomically
from proverrl.loops.checkpoint import latest_checkpoint
from proverrl.loops.selfplay.attack import use_attacks
from proverrl.loops.selfplay.parents import draw_pairs
from proverrl.loops.session import Session
from proverrl.problems.contamination import OverlapIndex, make_skeleton, take_statements
from proverrl.seeds import derive_seed
from proverrl.types import Problem


class ComposedProblems:
    """The composed problems of a run, stopped or not; ``base`` are those of the training file, and
    ``seen`` the skeletons of all that exist: the same again is a duplicate."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.base = session.problems
        self.archive = _open_archive(session)
        self.guards = GuardLedger()
        self._held_out = OverlapIndex(take_statements(_read_held_out(session)))
        self.seen: set[str] = set()
        self.see(self.base.all)

    def see(self, problems: Iterable[Problem]) -> None:
        """Problems that exist."""
        self.seen |= {make_skeleton(problem) for problem in problems}

    def join(self) -> None:
        """Have the session know all problems that the run may have proofs of."""
        self._session.problems = self.base.join([c.problem for c in self.archive])

    def draw_parents(self, proofs: Mapping[str, str], *, number: int, num: int) -> list[Pair]:
        """Pairs for round ``number``, each with a proof where one is known: of the references of
        warm start, or of the run's own ``proofs``."""
        config = self._session.config
        return draw_pairs(
            random.Random(derive_seed(config.seed, "parents", number)),
            config.selfplay.parents,
            num,
            base=self.base.all,
            archive=self.archive,
            proofs=proofs,
            references={problem.id: body for problem, body in self.base.references},
        )

    def open_tools(self, attacks: Mapping[str, Sequence[str]], seen: set[str]) -> GuardTools:
        """What guards work with; of ``attacks`` they try those on a problem's id."""
        config = self._session.config
        return GuardTools(
            asker=Asker(self._session.verifier, deadline_seconds=config.pool.deadline_seconds),
            held_out=self._held_out,
            seen=seen,
            attack=use_attacks(attacks),
            near_share=config.selfplay.near_share,
        )

    def state_dict(self) -> dict[str, Any]:
        return {"archive": self.archive.state_dict(), "guards": self.guards.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.archive.load_state_dict(state["archive"])
        self.guards.load_state_dict(state["guards"])
        self.join()


def draw_lineage(session: Session) -> None:
    """Draw the archive beside it, as far as there is one."""
    path = session.folder / ARCHIVE_FILE
    if path.exists():
        write_atomically(path.with_suffix(".svg"), draw_archive(ProblemArchive(path)))


def _open_archive(session: Session) -> ProblemArchive:
    """The run's archive; empty before its first checkpoint."""
    archive = ProblemArchive(session.folder / ARCHIVE_FILE)
    if latest_checkpoint(session.checkpoints) is None:
        # What a run wrote that was stopped before its first checkpoint is made again.
        archive.load_state_dict({"num_lines": 0, "sha256": hashlib.sha256().hexdigest()})
    return archive


def _read_held_out(session: Session) -> list[Problem]:
    """All problems that the run is measured by."""
    config = session.config
    sources = [str(config.problems.heldout), *config.evaluation.benchmarks]
    if config.problems.valid.exists():
        sources.append(str(config.problems.valid))
    found = [p for source in sources for p in open_benchmark(source).problems]
    session.monitor.phase("guards", f"{len(found)} held-out problems must not leak")
    return found
