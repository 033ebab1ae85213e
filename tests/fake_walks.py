"""The fake REPL with a toy of proofs that take several steps, the same in tactic mode and as files.

``theorem t (h : walk ab) : walk abba := by`` is proved by tactics, a line each:

- ``step a`` takes the first letter off; the last letter proves the goal;
- ``idle`` changes nothing, ``stray`` loses the way for good (``lost 1``, ``lost 2``, ...);
- ``have h : walk ab := by``, with its own tactics deeper or one on the line, and ``join h g``,
  which proves a walk that is two known walks in a row; ``recall h`` proves one that is known,
  also a theorem before;
- ``sorry`` proves anything, and what it hid is told. A comment says nothing to Lean, but the
  faults of the plain fake (``CRASH``, ``HANG_ONCE`` ...) may stand in one.

Run as ``python -m tests.fake_walks``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.fake_lean_repl import (
    SORRY,
    Declaration,
    Environment,
    Message,
    Repl,
    at,
    main,
    misbehave,
    say,
)

HEAD = re.compile(
    r"(?:theorem|lemma) (\S+)((?:\s+\(\w+ : walk \w+\))*)\s*:\s*walk (\w+)\s*:= by\s*?\n?",
    re.DOTALL,
)
BINDER = re.compile(r"\((\w+ : walk \w+)\)")
HAVE = re.compile(r"have (\w+) : walk (\w+) := by ?(.*)")
STEP = re.compile(r"step (\w)")
JOIN = re.compile(r"join (\w+) (\w+)")

Line = tuple[int, int, str]
"""Row (from 0), column and text of a line without its indentation."""


@dataclass
class Walk:
    """What happened: tactics with the goal before each, holes, and the first error."""

    steps: list[tuple[Line, str]] = field(default_factory=list)
    holes: list[tuple[Line, str]] = field(default_factory=list)
    theorems: dict[str, str] = field(default_factory=dict)
    error: tuple[Line, str] | None = None

    def run(self, block: Sequence[Line], goal: str) -> str:
        """The goal that is left, "" for none; after an error that of the failing tactic."""
        place = 0
        while place < len(block) and self.error is None:
            line = block[place]
            end = place + 1
            while end < len(block) and block[end][1] > line[1]:
                end += 1
            self.steps.append((line, goal))
            goal = self.take(line, block[place + 1 : end], goal)
            place = end
        return goal

    def take(self, line: Line, inside: Sequence[Line], goal: str) -> str:
        row, column, text = line
        if not goal:
            self.error = (line, "No goals to be solved")
        elif found := HAVE.fullmatch(text):
            first = [(row, column + found.start(3), found[3])] if found[3] else []
            fact = f"{found[1]} : walk {found[2]}"
            left = self.run([*first, *inside], aim(goal, f"walk {found[2]}"))
            if left and self.error is None:
                self.error = (line, f"unsolved goals\n{left}")
            goal = goal.replace("⊢", f"{fact}\n⊢")
        elif text == "sorry":
            self.holes.append((line, goal))
            goal = ""
        else:
            try:
                goal = move(goal, text, self.theorems)
            except ValueError as error:
                self.error = (line, str(error))
        return goal


def aim(goal: str, target: str) -> str:
    return goal[: goal.index("⊢")] + f"⊢ {target}"


def move(goal: str, tactic: str, theorems: Mapping[str, str]) -> str:
    """The goal after a tactic; ``ValueError`` says what is wrong with it."""
    target = goal.partition("⊢ ")[2]
    word = target.removeprefix("walk ")
    known = {**theorems, **dict(re.findall(r"^(\w+) : walk (\w+)$", goal, re.MULTILINE))}
    if tactic == "idle":
        return goal
    if tactic == "stray":
        far = int(target.removeprefix("lost ")) if target.startswith("lost") else 0
        return aim(goal, f"lost {far + 1}")
    if (found := STEP.fullmatch(tactic)) and target != word:
        if word[0] != found[1]:
            raise ValueError(f"the next letter is {word[0]}")
        return aim(goal, f"walk {word[1:]}") if word[1:] else ""
    if found := JOIN.fullmatch(tactic):
        if known.get(found[1], "?") + known.get(found[2], "?") != word:
            raise ValueError("these two walks are not that one")
        return ""
    if tactic.startswith("recall ") and known.get(tactic[7:]) == word:
        return ""
    raise ValueError(f"the tactic '{tactic}' does not apply")


def read_lines(text: str, column: int = 0) -> list[Line]:
    """The lines that are no comment; the first one begins at ``column``."""
    found = []
    for row, raw in enumerate(text.split("\n")):
        line = raw.partition("--")[0].strip()
        if line:
            indent = len(raw) - len(raw.lstrip()) + (0 if row else column)
            found.append((row, indent, line))
    return found


class Walks(Repl):
    """Theorems about walks; all others are those of the plain fake."""

    def __init__(self) -> None:
        super().__init__()
        self.told = Walk()
        self.head_lines = 0

    def step(self, number: int, tactic: str) -> dict[str, Any]:
        if number >= len(self.goals) or not re.search("⊢ (walk|lost)", self.goals[number]):
            return super().step(number, tactic)
        misbehave(tactic.split())
        walk = Walk()
        left = walk.run(read_lines(tactic), self.goals[number])
        if walk.error is not None:
            return {"message": f"Lean error:\n{walk.error[1]}"}
        holes = []
        for _, goal in walk.holes:
            self.goals.append(goal)
            holes.append({"proofState": len(self.goals) - 1, "goal": goal})
        answer = self.state(left)
        if holes and not left:
            answer["proofStatus"] = "Incomplete: contains sorry"
        return answer | ({"sorries": holes} if holes else {})

    def prove(
        self,
        command: str,
        line: int,
        env: Environment,
        messages: list[Message],
        sorries: list[dict[str, Any]],
    ) -> None:
        head = HEAD.match(command)
        if head is None:
            super().prove(command, line, env, messages, sorries)
            return
        name, binders, word = head.groups()
        facts = [*BINDER.findall(binders), f"⊢ walk {word}"]
        first = line + command.count("\n", 0, head.end())
        column = head.end() - (command.rfind("\n", 0, head.end()) + 1)
        walks = {k: d.type.split()[-1] for k, d in env.declarations.items() if "⊢ walk" in d.type}
        walk, lines = Walk(theorems=walks), read_lines(command[head.end() :], column)
        left = walk.run(lines, "\n".join(facts))
        for (row, indent, _), goal in walk.holes:
            self.goals.append(goal)
            places = {"pos": at(first + row, indent), "endPos": at(first + row, indent + 5)}
            sorries.append({"goal": goal, "proofState": len(self.goals) - 1, **places})
        if walk.error is not None:
            (row, indent, _), said = walk.error
            messages.append(say("error", said, first + row, indent))
        elif left or not lines:
            messages.append(say("error", f"unsolved goals\n{left}", line, 0))
        elif walk.holes:
            messages.append(say("warning", SORRY, line))
        axioms = ["sorryAx"] if walk.holes else []
        env.declarations[name] = Declaration(" → ".join(facts), axioms)
        self.told, self.head_lines = walk, first

    def list_tactics(self, command: str, line: int) -> list[dict[str, Any]]:
        if HEAD.match(command) is None:
            return super().list_tactics(command, line)
        found = []
        for (row, column, text), goal in self.told.steps:
            self.goals.append(goal)
            found.append(
                {
                    "pos": at(self.head_lines + row, column),
                    "endPos": at(self.head_lines + row, column + len(text)),
                    "goals": goal or "no goals",
                    "tactic": text,
                    "proofState": len(self.goals) - 1,
                    "usedConstants": [],
                }
            )
        return found


if __name__ == "__main__":
    sys.stdin.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    main(Walks())
