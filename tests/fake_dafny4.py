#!/usr/bin/env python3
"""A stand-in for ``dafny`` of Dafny 4: exit codes and JSON log as its documentation says.

The words of the program decide what it does. A lemma on a line with ``PROVE``, ``REFUTE`` or
``EXHAUST`` gets that outcome; what a policy comments is taken out before. No claim
is made that a real Dafny 4 answers the same.
"""

import json
import os
import re
import sys
import time
from pathlib import Path

OUTCOMES = {
    "PROVE": ("Correct", "Valid"),
    "REFUTE": ("Errors", "Invalid"),
    "EXHAUST": ("OutOfResource", "OutOfResource"),
    "HANG_PROVER": ("TimedOut", "TimeOut"),
    "ODD": ("Inconclusive", "Undetermined"),
    "NEW": ("Wonderful", "Wonderful"),
}
KNOWN = (
    "--cores",
    "--verification-time-limit",
    "--resource-limit",
    "--solver-path",
    "--log-format",
)
LOG_FORMAT = re.compile(r"json;LogFileName=(\S+)")


def make_result(name: str, outcome: str, line: int) -> dict[str, object]:
    whole, part = OUTCOMES[outcome]
    places = [{"filename": "p.dfy", "line": line, "col": c, "description": "d"} for c in (1, 9)]
    run = {"vcNum": 1, "outcome": part, "runTime": "00:00:01", "resourceCount": 7}
    return {
        "name": f"Impl$$_module.__default.{name}",
        "outcome": whole,
        "runTime": "00:00:01",
        "resourceCount": 7,
        "vcResults": [run | {"assertions": places}],
    }


def decide(name: str, text: str, limit: int) -> str:
    """The outcome of one lemma; a limit below 100 000 is too small for any."""
    if name == "CanaryHard" and limit * int(os.environ.get("FAKE_SCALE", "1")) < 100_000:
        return "EXHAUST"
    if name == "CanaryFalse":
        return "REFUTE"
    return next((word for word in OUTCOMES if word in text), "PROVE")


def main() -> int:
    if sys.argv[1:] in (["--version"], ["/version"]):
        print(os.environ.get("FAKE_VERSION", "4.9.0+0123456789"))
        return 0 if sys.argv[1] == "--version" else 1
    command, source_name, *options = sys.argv[1:]
    given = dict(zip(options[::2], options[1::2], strict=True))
    if command != "verify" or set(given) != set(KNOWN):
        print("Unrecognized command or argument")
        return 1
    source = Path(source_name).read_text("utf-8")
    if "CRASH" in source:
        return 134
    if "HANG_ALL" in source:
        time.sleep(600)
    if "SYNTAX" in source:
        print("p.dfy(1,3): Error: invalid declaration\n1 parse errors detected in p.dfy")
        return 2
    results = []
    code = 0
    for line, text in enumerate(source.split("\n"), start=1):
        if not (lemma := re.match(r"lemma (\w+)", text)):
            continue
        outcome = decide(lemma[1], text, int(given["--resource-limit"]))
        results.append(make_result(lemma[1], outcome, line))
        if outcome == "REFUTE":
            print(f"p.dfy({line},9): Error: a postcondition could not be proved\n  |")
            print(f"p.dfy({line},1): Related location: this is the postcondition")
        if outcome != "PROVE":
            code = 4
    if "assume " in source:
        print("p.dfy(1,40): Warning: assume statement has no {:axiom} annotation")
        code = 2
    log = json.dumps({"verificationResults": results})
    if "HALF_LOG" in source:
        log = log[: len(log) // 2]
    if (found := LOG_FORMAT.match(given["--log-format"])) and "NO_LOG" not in source:
        Path(found[1]).write_text(log, "utf-8")
    if "WRONG_CODE" in source:
        code = 0
    if "FAIL_CODE" in source:
        code = 4
    print(f"\nDafny program verifier finished with {len(results)} verified, 0 errors")
    return code


if __name__ == "__main__":
    sys.exit(main())
