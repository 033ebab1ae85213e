"""The options of Dafny that a user may give to bare files.

Flows in: arguments of ``--dafny-arg``, options of a project file. Flows out: nothing, or the reason
why one is refused. An option is taken if a verdict can depend on it in two ways only: a proof is
found or not, or another form of the language is read. It may not choose what is to be proved.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from proverrl.errors import UsageError

_NUMBER = r"[:=][0-9]"
_SWITCH = r"(?:[:=](?:true|false))?"
_OPTIONS = {
    "2": {
        "/arith": _NUMBER,
        "/autoTriggers": _NUMBER,
        "/definiteAssignment": "[:=][123]",
        "/induction": _NUMBER,
        "/inductionHeuristic": _NUMBER,
        "/noNLarith": "",
        "/vcsSplitOnEveryAssert": "",
    },
    "4": {
        "--default-function-opacity": "[:=](?:transparent|autoRevealDependencies|opaque)",
        "--disable-nonlinear-arithmetic": _SWITCH,
        "--enforce-determinism": _SWITCH,
        "--function-syntax": "[:=][34]",
        "--isolate-assertions": _SWITCH,
        "--manual-lemma-induction": _SWITCH,
        "--manual-triggers": _SWITCH,
        "--quantifier-syntax": "[:=][34]",
        "--relax-definite-assignment": _SWITCH,
        "--standard-libraries": _SWITCH,
    },
}
USE = "use "
"""Begins the reason where this command has an option of its own."""
_UNUSED = "nothing is compiled, printed or written here"
_WARNS = "warnings fail no file here"
HARMLESS = (_UNUSED, _WARNS)
"""The reasons of options that no verdict depends on."""
_REFUSED = {
    "a part of the program would not be verified": "proc filter-symbol filter-position noVerify "
    "no-verify dafnyVerify verifyAllModules verify-included-files loopUnroll noResolve noTypecheck "
    "noIncludes",
    "use --rlimit or --timeout of this command": "rlimit resource-limit timeLimit "
    "verification-time-limit",
    "use -j of this command": "vcsCores cores",
    "use --allow, which counts what is believed": "noCheating allow-axioms noExterns "
    "allow-external-contracts",
    "it changes what the program means": "allocated ironDafny allowGlobals noAutoReq dprelude "
    "general-traits general-newtypes type-system-refresh disableScopes rewriteFocalPredicates "
    "prelude",
    "it chooses the prover or its options": "z3exe solver-path proverOpt solver-option "
    "solver-option-bits prover-log boogie errorLimit error-limit",
    _UNUSED: "compile compileTarget spillTargetCode out dprint rprint print bprint optimize xml "
    "log-format trace stats output target build include-runtime spill-translation verbose progress "
    "json-output show-snippets show-hints ignore-indentation optimize-erasable-datatype-wrapper "
    "translate-standard-library translation-record test-assumptions python-module-name "
    "go-module-name rust-module-name",
    _WARNS: "allow-warnings allow-deprecation warn-as-errors warn-contradictory-assumptions "
    "warn-deprecation warn-missing-constructor-parentheses warn-redundant-assumptions "
    "warn-shadowing analyze-proofs suggest-proof-refactoring",
    "name the files themselves": "library input",
}


def check_arguments(arguments: Sequence[str], version: str) -> None:
    """Raise ``UsageError`` for an option that this Dafny may not be given."""
    for argument in arguments:
        if reason := explain_refusal(argument, version):
            raise UsageError(f"--dafny-arg {argument}: {reason}")


def write_seed(number: int, version: str) -> tuple[str, ...]:
    """The option by which the solver begins with another random seed; none for 0, its own."""
    option = "/randomSeed" if version.startswith("2.") else "--boogie=/randomSeed"
    return (f"{option}:{number}",) if number else ()


def explain_refusal(argument: str, version: str) -> str:
    """The reason why this Dafny may not be given an option; empty where it may."""
    known = _OPTIONS[version.partition(".")[0]]
    name, value = re.fullmatch(r"([^:=]*)(.*)", argument, re.DOTALL).groups()  # type: ignore[union-attr]
    if name in known:
        fits = re.fullmatch(known[name], value)
        return "" if fits else f"this value of {name} may not be given"
    bare = name.lstrip("-/").lower()
    for reason, names in _REFUSED.items():
        if bare in names.lower().split():
            return reason
    return f"not among the options that Dafny {version} may be given: {', '.join(known)}"
