"""One tactic at a time: what a policy writes after a prefix up to the line's end.

Flows in: a policy; requests for continuations. Flows out: bodies that are the prefix and one line
more. With ``best_first`` this is BFS-Prover (Xin et al. 2025, arXiv 2502.03438): each body is one
edge of the tree with the log-probability of its own tokens, the end of the line among them.
The policy is given the beginning of the answer up to the hole, so that its first token is already
proof. The line is taken as it is indented; without indentation it stands in the hole's column.
Nothing is written beyond the line: a line that opens a block (``have h : p := by``) fails, or goes
on where the next line is deeper. Not handled here: Dafny, whose statements do not end with a line.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from proverrl.config.search import StepName
from proverrl.errors import UsageError
from proverrl.lang import find_language
from proverrl.lang.records import Prefix
from proverrl.policy.base import Policy
from proverrl.problems.prompt import render_opening
from proverrl.search.base import Proposal
from proverrl.search.proposals import Proposer, make_proposal, render_prefix
from proverrl.types import Completion, Problem, Sampling
from proverrl.verify.body_place import hole_column

_NO_TACTIC = ("--", "/-", "```", "<")
"""Begin lines in which no tactic stands: comments, the end of a block of code, marks of an end."""


@dataclass
class StepProposer(Proposer):
    """A ``Propose`` of single tactics. ``num_unread`` counts the answers that begin with none."""

    def __post_init__(self) -> None:
        self.sampling = replace(self.sampling, stop=(*self.sampling.stop, "\n"))

    def _open(self, problem: Problem, prefix: Prefix) -> tuple[str, str]:
        """The beginning of the answer, at the root too.

        Raises:
            UsageError: proofs in the problem's language have no steps that end with a line.
        """
        searching = find_language(problem.language).searching
        if searching is None or not searching.has_steps:
            raise UsageError(
                f"problem {problem.id!r} is in {problem.language}, and search.step = "
                '"tactic" is for languages of tactics; set search.step = "proof"'
            )
        if prefix.text:
            return render_prefix(self.policy, problem, prefix)
        return render_opening(problem, "", self.policy.layout), ""

    def _read(self, problem: Problem, prefix: Prefix, completion: Completion) -> Proposal:
        line = completion.text.split("\n")[0].rstrip()
        if not line.strip() or line.lstrip().startswith(_NO_TACTIC):
            self.num_unread += 1
            return make_proposal(prefix.text, completion, "the answer begins with no tactic")
        if not prefix.text:
            return make_proposal(line.lstrip(), completion)
        if line == line.lstrip():
            line = " " * hole_column(problem) + line
        return make_proposal(f"{prefix.text}\n{line}", completion)


PROPOSERS: dict[StepName, type[Proposer]] = {"proof": Proposer, "tactic": StepProposer}


def make_proposer(policy: Policy, sampling: Sampling, step: StepName) -> Proposer:
    """What writes whole proofs, or one tactic, after a prefix."""
    return PROPOSERS[step](policy, sampling)
