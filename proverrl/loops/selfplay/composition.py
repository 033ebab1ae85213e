"""The material of composition in a run: parents, archive, filters, attacks on statements.

Flows in: a session, proofs, drafts. Flows out: ``archive.jsonl`` in the run's folder; pairs of
parents; tools of the filters; beliefs about operators. Not handled here: what is put in
(``state``).
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from proverrl.benchmarks.open import open_benchmark
from proverrl.compose.archive import ARCHIVE_FILE, ProblemArchive
from proverrl.compose.composers import Draft, Pair
from proverrl.compose.filters import Asker, FilterTools
from proverrl.config.selfplay import ParentChoice
from proverrl.curriculum.base import Belief, update_belief
from proverrl.errors import ProblemError
from proverrl.files.shipped import find_file
from proverrl.lang.records import Parent
from proverrl.problems.contamination import OverlapIndex, make_skeleton, take_statements
from proverrl.run.checkpoint import latest_checkpoint
from proverrl.run.session import Session
from proverrl.seeds import derive_seed
from proverrl.types import Problem

TOO_LONG = "too long for the model's context"


class ComposedProblems:
    """The composed problems of a run, stopped or not; ``base`` are those of the training file,
    ``seen`` the skeletons of all that exist."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.base = session.problems
        self.archive = _open_archive(session)
        self.num_filter_calls = 0
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
        """Pairs for round ``number``; the run's own ``proofs`` are known, and references."""
        config = self._session.config
        references = {problem.id: body for problem, body in self.base.references}
        return draw_pairs(
            random.Random(derive_seed(config.seed, "parents", number)),
            config.selfplay.parents,
            num,
            base=self.base.all,
            proofs=proofs,
            references=references,
        )

    def open_tools(self, seen: set[str]) -> FilterTools:
        """The tools of filters."""
        config = self._session.config
        return FilterTools(
            asker=Asker(self._session.verifier, deadline_seconds=config.pool.deadline_seconds),
            held_out=self._held_out,
            seen=seen,
        )

    def state_dict(self) -> dict[str, Any]:
        return {"archive": self.archive.state_dict(), "filter_calls": self.num_filter_calls}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.archive.load_state_dict(state["archive"])
        self.num_filter_calls = state["filter_calls"]
        self.join()


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
    if find_file(config.problems.valid).exists():
        sources.append(str(config.problems.valid))
    found = [p for source in sources for p in open_benchmark(source).problems]
    session.monitor.phase("filters", f"{len(found)} held-out problems must not leak")
    return found


def draw_pairs(
    rng: random.Random,
    choice: ParentChoice,
    num: int,
    *,
    base: Sequence[Problem],
    proofs: Mapping[str, str],
    references: Mapping[str, str],
) -> list[Pair]:
    """``num`` pairs. Solved are base problems that the run has proved (``proofs``), or any while
    no two of one language are. Raises ``ProblemError``: a problem has no second one of its
    language."""
    problems = sorted(base, key=lambda problem: problem.id)
    if choice == "solved":
        solved = [problem for problem in problems if problem.id in proofs]
        numbers = Counter(problem.language for problem in solved)
        problems = [problem for problem in solved if numbers[problem.language] > 1] or problems
    known = {**references, **proofs}
    return [draw_pair(rng, problems, problems, known) for _ in range(num)]


def weigh_operators(archive: ProblemArchive, low: float, high: float) -> dict[str, Belief]:
    """The usefulness of each operator so far: Beta parameters of the share of its statements that
    no filter stopped and that more than ``low`` and at most ``high`` of the attempts proved. A
    statement that was made again was of no use."""
    beliefs: dict[str, Belief] = defaultdict(lambda: [1.0, 1.0])
    for composed in archive:
        facts = archive.facts(composed.problem.id)
        rate = facts.get("solve_rate")
        if rate is None and "stopped_by" not in facts:
            continue
        useful = rate is not None and low < rate <= high and "stopped_by" not in facts
        for name in composed.operator.split("+"):
            total = 1 + facts.get("repeats", 0)
            update_belief(beliefs[name], int(useful), total, discount=1.0)
    return dict(beliefs)


def draw_pair(
    rng: random.Random,
    first: Sequence[Problem],
    second: Sequence[Problem],
    references: Mapping[str, str],
) -> Pair:
    """Two problems of one language, each with a proof where one is known."""
    a = rng.choice(first)
    others = [p for p in second if p.id != a.id and p.language == a.language]
    if not others:
        raise ProblemError(
            f"problem {a.id!r} has no second problem of its language to be paired with; give "
            "problems.train at least two"
        )
    b = rng.choice(others)
    return Parent(a, references.get(a.id)), Parent(b, references.get(b.id))


def drop_long(session: Session, drafts: Sequence[Draft]) -> list[Draft]:
    """The drafts, with a reason in place of a problem to which the model has no room to answer."""
    return [
        draft
        if draft.composed is None or session.has_room(draft.composed.problem)
        else replace(draft, composed=None, reason=TOO_LONG)
        for draft in drafts
    ]
