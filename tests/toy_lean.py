"""A toy Lean that a stand-in for the program ``lean`` elaborates texts with.

Commands start in column 0; ``theorem NAME : TYPE := BODY`` is accepted unless its body holds a word
that says otherwise. A line ``-- fake {...}`` in a text makes it answer as given, with the keys
``messages`` (severity and data), ``axioms``, ``type`` and ``missing``; the line must be indented,
inside the theorem that it speaks of. Other words make it misbehave.
"""

import json
import os
import re
import subprocess
import sys
import time
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


def elaborate(text: str, env: Environment) -> list[Message]:
    """The messages about a text, in the order of its commands; ``env`` takes what it declares."""
    words = text.split()
    misbehave(words)
    messages: list[Message] = []
    places = [match.start() for match in COMMAND.finditer(text)] + [len(text)]
    for start, end in pairwise(places):
        command = text[start:end]
        line = text.count("\n", 0, start) + 1
        if "UNCLOSED" in command.split():
            messages.append(say("error", "unterminated comment", line))
            break
        if command.startswith("#exit"):
            break
        messages += run(command, line, env)
    return messages


def run(command: str, line: int, env: Environment) -> list[Message]:
    if match := re.match(r'#print "([^"]*)"', command):
        return [say("info", match.group(1), line)]
    if match := re.match(r"#check @_root_\.(\S+)", command):
        return [check(match.group(1), line, env)]
    if match := re.match(r"#print axioms _root_\.(\S+)", command):
        return [list_axioms(match.group(1), line, env)]
    if match := re.match(r"axiom (\S+)", command):
        env.declarations[match.group(1)] = Declaration("axiom", [match.group(1)])
    elif re.match(r"(local )?instance", command):
        env.instances += 1
    elif re.match(r"(private )?(theorem|lemma) ", command):
        return prove(command, line, env)
    return []


def check(name: str, line: int, env: Environment) -> Message:
    found = env.declarations.get(name)
    if found is None:
        return say("error", f"Unknown identifier `_root_.{name}`", line, 8)
    # As Lean 4.35.0 does: the sign stands only before a first argument that is implicit.
    sign = "@" if re.match(r"∀ [{\[]", found.type) else ""
    return say("info", f"{sign}{name} : {found.type}", line)


def list_axioms(name: str, line: int, env: Environment) -> Message:
    found = env.declarations.get(name)
    if found is None:
        return say("error", f"Unknown constant `_root_.{name}`", line, 14)
    if not found.axioms:
        return say("info", f"'{name}' does not depend on any axioms", line)
    listed = ",\n ".join(found.axioms)
    return say("info", f"'{name}' depends on axioms: [{listed}]", line)


def prove(command: str, line: int, env: Environment) -> list[Message]:
    found = re.match(r"(?:private )?(?:theorem|lemma) (\S+?)\s*:(.*?):=(.*)", command, re.DOTALL)
    if found is None:
        return [say("error", "unexpected end of input", line)]
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
    if (match := SCRIPT.search(command)) is not None:
        script = json.loads(match.group(1))
        declaration.type = script.get("type", declaration.type)
        declaration.axioms = script.get("axioms", declaration.axioms)
        if not script.get("missing", False):
            env.declarations[name] = declaration
        return [say(one["severity"], one["data"], line) for one in script.get("messages", [])]
    if name in env.declarations:
        return [say("error", f"'{name}' has already been declared", line)]
    env.declarations[name] = declaration
    if failure := find_failure(words, kind):
        return [say("error", failure, *locate(command, words, line))]
    if "sorry" in words:
        declaration.axioms.append("sorryAx")
        return [say("warning", SORRY, line)]
    return [say("info", "x" * 1_000_000, line)] if "HUGE" in words else []


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


def locate(command: str, words: list[str], line: int) -> tuple[int, int]:
    """Line and column of the first word that fails."""
    bad = next(word for word in words if word in ("exhaust", "recurse", "unsolved", "wrong", "rfl"))
    place = re.search(rf"\b{bad}\b", command)
    assert place is not None
    before = command[: place.start()]
    return line + before.count("\n"), len(before) - (before.rfind("\n") + 1)


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
        write("Content-Len")
        sys.stderr.write("PANIC at Lean.Elab: unreachable code\n")
        os._exit(134)
    if "CRASH_ONCE" in words:
        marker = Path(words[words.index("CRASH_ONCE") + 1])
        if not marker.exists():
            marker.touch()
            os._exit(134)
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
