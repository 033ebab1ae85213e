"""A scripted stand-in for DafnyServer: the words of the program decide what it does.

Run as ``python fake_dafny_server.py`` with the server's line protocol on its pipes. The name
after PROVE or REFUTE becomes the entry of the answer, so that a test can tell whose answer it got.
"""

import base64
import json
import os
import subprocess
import sys
import time
from pathlib import Path

END = "[SUCCESS] [[DAFNY-SERVER: EOM]]"
# What the real one says of the canary's types, as far as it is read.
TYPES = """\
    IsNullableRefType: ?55
DEBUG: ProcessAssignable: assigning proxy ?52.T := ?54 -> bool
DEBUG: setting proxy ?54.T := bool
DEBUG: setting proxy ?50.T := int
"""


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def entry(name: str, outcome: str) -> str:
    return f"\nVerifying {name} ...\n  [1 proof obligation]  {outcome}\n"


def answer(source: str, options: list[str]) -> None:
    words = source.split()
    if "/trace" in options:
        z3 = next(o.removeprefix("/z3exe:") for o in options if o.startswith("/z3exe:"))
        say(f"[TRACE] Using prover: {z3}\n")
    if "CanaryTypes" in source:
        say(TYPES)
    elif "CanaryHard" in source:
        outcomes = {"CanaryTrue": "timed out", "CanaryHard": "timed out"}
        say("".join(entry(f"Impl$$_module.__default.{k}", v) for k, v in outcomes.items()))
    elif "CanaryTrue" in source:
        outcomes = {"CanaryTrue": "verified", "CanaryFalse": "error"}
        refuted = ("Assume", "Maps", "Ordinals", "Multisets")
        outcomes |= {f"Canary{name}": "error" for name in refuted}
        say("".join(entry(f"Impl$$_module.__default.{k}", v) for k, v in outcomes.items()))
    act(words)
    if "PROVE" in words:
        say(entry(words[words.index("PROVE") + 1], "verified"))
    if "REFUTE" in words:
        say(entry(words[words.index("REFUTE") + 1], "error"))
        say("p.dfy(1,2): Error: assertion violation\n")


def act(words: list[str]) -> None:
    """The faults."""
    if "CRASH" in words:
        say("\nVerifying Impl$$half ...\n")
        os._exit(3)
    if "CRASH_ONCE" in words or "HANG_ONCE" in words:
        word = "CRASH_ONCE" if "CRASH_ONCE" in words else "HANG_ONCE"
        marker = Path(words[words.index(word) + 1])
        if not marker.exists():
            marker.touch()
            if word == "HANG_ONCE":
                time.sleep(600)
            os._exit(3)
    if "HANG" in words:
        time.sleep(600)
    if "HUGE" in words:
        say("p.dfy(1,2): Info: " + "x" * 8_000_000 + "\n")
    if "FLOOD" in words:
        sys.stderr.write("noise\n" * 200_000)
        sys.stderr.flush()
    if "FORGE" in words:
        say(entry("Impl$$forged", "verified") + END + "\n")
    if "GARBAGE" in words:
        sys.stdout.buffer.write(bytes(range(128, 256)) + b"\nwhat is this\n")
        sys.stdout.flush()
    if "INCONCLUSIVE" in words:
        say(entry("Impl$$odd", "inconclusive"))
    if "GRANDCHILD" in words:
        child = subprocess.Popen(["sleep", "600"])
        Path(words[words.index("GRANDCHILD") + 1]).write_text(f"{os.getpid()} {child.pid}")
        time.sleep(600)
    if "STRAY" in words:
        # It leaves the process group, but not the session.
        child = subprocess.Popen(["sleep", "600"], process_group=0)
        Path(words[words.index("STRAY") + 1]).write_text(f"{os.getpid()} {child.pid}")
        time.sleep(600)
    if "EAT" in words:
        eaten = bytearray(os.urandom(1)) * (int(words[words.index("EAT") + 1]) * 2**20)
        time.sleep(600 + len(eaten) % 2)
    if "CHILD_EATS" in words:
        size = words[words.index("CHILD_EATS") + 1]
        eat = f"import time; eaten = b'x' * ({size} * 2**20); time.sleep(600)"
        subprocess.run([sys.executable, "-c", eat], check=False)


def main() -> None:
    late = ""
    for line in sys.stdin:
        verb = line.strip()
        if verb != "verify":
            say(f"Unknown verb '{verb}'\n[FAILURE] [[DAFNY-SERVER: EOM]]\n{late}")
            late = ""
            continue
        payload = ""
        for part in sys.stdin:
            if part.strip() == "[[DAFNY-CLIENT: EOM]]":
                break
            payload += part
        request = json.loads(base64.b64decode(payload))
        source = request["source"]
        if "LATE" in source.split():
            late = entry("Impl$$late", "verified")
        answer(source, request["args"])
        say(f"Verification completed successfully!\n{END}\n")


if __name__ == "__main__":
    main()
