"""A scripted stand-in for the Lean REPL: it speaks the protocol and misbehaves on demand.

Run as ``python fake_lean_repl.py``, with the REPL's protocol on its pipes. It understands a toy
Lean: commands start in column 0; ``theorem NAME : TYPE := BODY`` is accepted unless its body holds
a word that says otherwise. A line ``-- fake {...}`` in a text makes it answer as given, with the
keys ``messages`` (severity and data), ``sorries`` (goals), ``axioms``, ``type`` and ``missing``;
the line must be indented, inside the theorem that it speaks of.
"""

import json
import os
import re
import subprocess
import sys
import time
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

Message = dict[str, Any]
LIMIT = "(deterministic) timeout at `whnf`, maximum number of heartbeats (400000) has been reached"
SORRY = "declaration uses `sorry`"
SCRIPT = re.compile(r"^\s*-- fake (\{.*\})\s*$", re.MULTILINE)
COMMAND = re.compile(r"^(?=\S)", re.MULTILINE)


@dataclass
class Declaration:
    type: str
    axioms: list[str] = field(default_factory=list)


@dataclass
class Environment:
    declarations: dict[str, Declaration] = field(default_factory=dict)
    instances: int = 0
    num_imports: int = 0


class Repl:
    def __init__(self) -> None:
        self.environments: list[Environment] = []
        self.goals: list[str] = []
        self.base = Environment()
        self.pending = ""

    # Answers

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        number = request.get("env")
        if number is not None and number >= len(self.environments):
            return {"message": "Unknown environment."}
        before = deepcopy(self.base if number is None else self.environments[number])
        return self.elaborate(request["cmd"], before, bool(request.get("allTactics")))

    def elaborate(self, text: str, env: Environment, all_tactics: bool) -> dict[str, Any]:
        words = text.split()
        misbehave(words)
        messages: list[Message] = []
        sorries: list[dict[str, Any]] = []
        tactics: list[dict[str, Any]] = []
        places = [match.start() for match in COMMAND.finditer(text)] + [len(text)]
        for start, end in pairwise(places):
            command = text[start:end]
            line = text.count("\n", 0, start) + 1
            if command.startswith("#exit") or "UNCLOSED" in command.split():
                if "UNCLOSED" in command.split():
                    messages.append(say("error", "unterminated comment", line))
                break
            self.run(command, line, env, messages, sorries)
            if all_tactics and command.startswith("theorem"):
                tactics += self.list_tactics(command, line)
        if "LEAK" in words:
            self.base = env
            for other in self.environments:
                other.declarations |= env.declarations
        self.environments.append(env)
        shift = 5 if "WRONG_ENV" in words else 0
        result: dict[str, Any] = {"env": len(self.environments) - 1 + shift}
        lists = {"messages": messages, "sorries": sorries, "tactics": tactics}
        return result | {key: value for key, value in lists.items() if value}

    def list_tactics(self, command: str, line: int) -> list[dict[str, Any]]:
        found = []
        for i, text in enumerate(command.split("\n")[1:], 1):
            if text.strip():
                self.goals.append(f"before {text.strip()}")
                found.append(
                    {
                        "pos": {"line": line + i, "column": len(text) - len(text.lstrip())},
                        "endPos": {"line": line + i, "column": len(text)},
                        "goals": f"⊢ before {text.strip()}",
                        "tactic": text.strip(),
                        "proofState": len(self.goals) - 1,
                        "usedConstants": [],
                    }
                )
        return found

    # Commands

    def run(
        self,
        command: str,
        line: int,
        env: Environment,
        messages: list[Message],
        sorries: list[dict[str, Any]],
    ) -> None:
        if match := re.match(r'#print "([^"]*)"', command):
            messages.append(say("info", match.group(1), line))
        elif match := re.match(r"import (\S+)", command):
            env.num_imports += 1
            if match.group(1).startswith("Missing"):
                messages.append(say("error", f"unknown module prefix '{match.group(1)}'", line))
        elif match := re.match(r"#check @_root_\.(\S+)", command):
            messages.append(self.check(match.group(1), line, env))
        elif match := re.match(r"#print axioms _root_\.(\S+)", command):
            messages.append(self.axioms(match.group(1), line, env))
        elif match := re.match(r"axiom (\S+)", command):
            env.declarations[match.group(1)] = Declaration("axiom", [match.group(1)])
        elif re.match(r"(local )?instance", command):
            env.instances += 1
        elif re.match(r"(private )?(theorem|lemma) ", command):
            self.prove(command, line, env, messages, sorries)

    def check(self, name: str, line: int, env: Environment) -> Message:
        found = env.declarations.get(name)
        if found is None:
            return say("error", f"Unknown identifier `_root_.{name}`", line, 8)
        # As Lean 4.35.0 does: the sign stands only before a first argument that is implicit.
        sign = "@" if re.match(r"∀ [{\[]", found.type) else ""
        return say("info", f"{sign}{name} : {found.type}", line)

    def axioms(self, name: str, line: int, env: Environment) -> Message:
        found = env.declarations.get(name)
        if found is None:
            return say("error", f"Unknown constant `_root_.{name}`", line, 14)
        if not found.axioms:
            return say("info", f"'{name}' does not depend on any axioms", line)
        listed = ",\n ".join(found.axioms)
        return say("info", f"'{name}' depends on axioms: [{listed}]", line)

    def prove(
        self,
        command: str,
        line: int,
        env: Environment,
        messages: list[Message],
        sorries: list[dict[str, Any]],
    ) -> None:
        found = re.match(
            r"(?:private )?(?:theorem|lemma) (\S+?)\s*:(.*?):=(.*)", command, re.DOTALL
        )
        if found is None:
            messages.append(say("error", "unexpected end of input", line))
            return
        name, kind, body = found.group(1), " ".join(found.group(2).split()), found.group(3)
        words = re.findall(r"[\w.']+", body)
        if env.instances:
            kind += f" using {env.instances} other instances"
        declaration = Declaration(kind)
        for word in words:
            if word in env.declarations:
                declaration.axioms += env.declarations[word].axioms
        if "choice" in words:
            declaration.axioms += ["propext", "Classical.choice", "Quot.sound"]
        if (script := SCRIPT.search(command)) is not None:
            if follow_script(json.loads(script.group(1)), line, declaration, messages, sorries):
                env.declarations[name] = declaration
            return
        if name in env.declarations:
            messages.append(say("error", f"'{name}' has already been declared", line))
            return
        if failure := find_failure(words, kind):
            place = locate(command, words, line)
            messages.append(say("error", failure, *place))
        elif "sorry" in words:
            goal = f"⊢ {kind}"
            self.goals.append(goal)
            sorries.append(locate_sorry(command, line, goal, len(self.goals) - 1))
            messages.append(say("warning", SORRY, line))
            declaration.axioms.append("sorryAx")
        env.declarations[name] = declaration


def find_failure(words: list[str], kind: str) -> str:
    if "exhaust" in words:
        return LIMIT
    if "recurse" in words:
        return "maximum recursion depth has been reached"
    if "unsolved" in words:
        return "unsolved goals\ncase a\nx : Nat\n⊢ x = x\n\ncase b\n⊢ True"
    if "wrong" in words or ("rfl" in words and kind == "(1 : Nat) = 2"):
        return "Type mismatch"
    return ""


def follow_script(
    script: dict[str, Any],
    line: int,
    declaration: Declaration,
    messages: list[Message],
    sorries: list[dict[str, Any]],
) -> bool:
    """Answer as a test wrote down; False when the declaration is not to exist."""
    messages += [say(m["severity"], m["data"], line) for m in script.get("messages", [])]
    places = {"pos": at(line, 0), "endPos": at(line, 1)}
    sorries += [{"goal": goal, **places} for goal in script.get("sorries", [])]
    declaration.type = script.get("type", declaration.type)
    declaration.axioms = script.get("axioms", declaration.axioms)
    return not script.get("missing", False)


def locate(command: str, words: list[str], line: int) -> tuple[int, int]:
    """Line and column of the first word that fails."""
    bad = next(word for word in words if word in ("exhaust", "recurse", "unsolved", "wrong", "rfl"))
    place = re.search(rf"\b{bad}\b", command)
    assert place is not None
    before = command[: place.start()]
    return line + before.count("\n"), len(before) - (before.rfind("\n") + 1)


def locate_sorry(command: str, line: int, goal: str, state: int) -> dict[str, Any]:
    before = command[: command.index("sorry")]
    row, column = line + before.count("\n"), len(before) - (before.rfind("\n") + 1)
    return {
        "goal": goal,
        "proofState": state,
        "pos": at(row, column),
        "endPos": at(row, column + 5),
    }


def at(line: int, column: int) -> dict[str, int]:
    return {"line": line, "column": column}


def say(severity: str, text: str, line: int, column: int = 0) -> Message:
    place = at(line, column)
    return {"severity": severity, "pos": place, "endPos": at(line, column + 1), "data": text}


def write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def misbehave(words: list[str]) -> None:
    """The faults that happen while a text is elaborated."""
    if "CRASH" in words:
        write('{"env": 1,')
        sys.stderr.write("PANIC at Lean.Elab: unreachable code\n")
        os._exit(134)
    for word in ("CRASH_ONCE", "HANG_ONCE"):
        if word in words:
            marker = Path(words[words.index(word) + 1])
            if not marker.exists():
                marker.touch()
                if word == "HANG_ONCE":
                    time.sleep(600)
                os._exit(134)
    if "HANG" in words:
        time.sleep(600)
    if "FORGE" in words:
        write('{"env": 1}\n\n')
    if "GARBAGE" in words:
        write("libc++abi: terminating\n")
    if "FLOOD" in words:
        sys.stderr.write("noise\n" * 200_000)
        sys.stderr.flush()
    if "MEMORY" in words:
        ballast.append(bytearray(os.urandom(1)) * (60 * 2**20))
    if "GRANDCHILD" in words:
        child = subprocess.Popen(["sleep", "600"])
        Path(words[words.index("GRANDCHILD") + 1]).write_text(f"{os.getpid()} {child.pid}")
        time.sleep(600)


ballast: list[bytearray] = []


def read_request() -> str:
    block = ""
    for line in sys.stdin:
        if not line.strip():
            return block
        block += line.rstrip()
    return block


def main(repl: Repl) -> None:
    while (block := read_request()) != "":
        request = json.loads(block)
        answer = repl.answer(request)
        words = request.get("cmd", "").split()
        if "HUGE" in words:
            answer.setdefault("messages", []).insert(1, say("info", "x" * 1_000_000, 2))
        if "NO_BLANK_LINE" in words:
            write(json.dumps(answer, ensure_ascii=False) + "\n#")
        # Like Lean: pretty JSON over several lines, then a blank line.
        write(json.dumps(answer, ensure_ascii=False, indent=1) + "\n\n")
        if "LEFTOVER" in words:
            write(json.dumps({"env": len(repl.environments)}) + "\n\n")


if __name__ == "__main__":
    sys.stdin.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    main(Repl())
