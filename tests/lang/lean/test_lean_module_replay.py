"""Replaying a compiled module: the plumbing over a fake ``lean``, the kernel over a real one.

The real one is named by PROVERRL_LEAN, and LEAN_PATH is handed on to it. It was tried with Lean
4.35.0, elaborator and kernel; reduced core library (with declarations of the few types of
``Lean`` that ``replay.lean`` names).
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from proverrl.errors import WorkerError
from proverrl.lang.lean.syntax.declarations import find_target
from proverrl.lang.lean.verify.judge import STANDARD_AXIOMS, KnownStatements, LeanLimits
from proverrl.lang.lean.verify.replay import ReplayOutcome, replay
from proverrl.lang.lean.verify.workers.toolchain import find_lean_toolchain
from proverrl.lang.lean.verify.workers.worker import LeanWorker
from proverrl.types import HOLE, Candidate, Problem, Status, Verdict
from proverrl.verifier.process_group import ProcessGroup

FAKE = """
import os, sys, time
run, program, nonce, olean, *ours = sys.argv[1:]
assert run == "--run" and "def main" in open(program).read() and os.environ["MARK"] == "1"
text = open(olean).read().replace("NONCE", nonce).replace("OURS", " ".join(ours))
if "SLEEP" in text: time.sleep(600)
if "DIE" in text: os.abort()
word, _, rest = text.partition("\\n")
sys.stdout.write(rest)
sys.stdout.flush()
sys.exit(int(word))
"""
OK = "NONCE started\nNONCE theorem t\nNONCE theorem u\nNONCE replayed\n"
SAME = OK.replace("NONCE replayed", "NONCE same\nNONCE replayed")


def replay_fake(
    folder: Path,
    code: int,
    says: str,
    theorem: str | None = "t",
    seconds: float = 60.0,
    challenge: Path | None = None,
) -> ReplayOutcome:
    olean = folder / "X.olean"
    olean.write_text(f"{code}\n{says}")
    lean = (sys.executable, "-c", FAKE)
    groups: list[ProcessGroup] = []
    replaying = replay(
        olean, lean, {"MARK": "1"}, groups, theorem=theorem, challenge=challenge, seconds=seconds
    )
    try:
        return asyncio.run(replaying)
    finally:
        assert groups == []


def test_a_module_that_the_kernel_accepts_passes(tmp_path: Path) -> None:
    assert replay_fake(tmp_path, 0, OK) == ReplayOutcome(True, True, "theorems:2")
    private = OK.replace("theorem t", "theorem _private.X.0.t")
    assert replay_fake(tmp_path, 0, private).passed
    allowed = OK.replace("theorem u", "axiom propext")
    assert replay_fake(tmp_path, 0, allowed) == ReplayOutcome(True, True, "theorems:1")


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("NONCE started\nNONCE refused (kernel) type\n mismatch\n", "(kernel) type mismatch"),
        (OK.replace("theorem u", "axiom a"), "the module declares axioms: a"),
        (OK.replace("theorem t", "theorem s.t"), "the module declares no t"),
        ("NONCE started\nNONCE replayed\n", "the module declares no t"),
        (OK.replace("theorem t", "theorem _private.X.0.Y.t"), "the module declares no t"),
        (OK.replace("theorem t", "theorem _private.X.0.0.t"), "the module declares no t"),
        # A theorem's name may hold a line break, but not the word of this run.
        (OK.replace("t\n", "«a\ntheorem t»\n"), "the module declares no t"),
    ],
)
def test_what_does_not_hold_is_refused(tmp_path: Path, says: str, why: str) -> None:
    assert replay_fake(tmp_path, 0, says) == ReplayOutcome(True, False, why)


def test_the_challenge_must_have_been_compared(tmp_path: Path) -> None:
    """A word about it is due exactly when there is one."""
    ours = tmp_path / "Challenge.olean"
    assert replay_fake(tmp_path, 0, SAME, challenge=ours) == ReplayOutcome(True, True, "theorems:2")
    other = SAME.replace("same", "differs d is defined in another way")
    why = "the proved statement is not ours: d is defined in another way"
    assert replay_fake(tmp_path, 0, other, challenge=ours) == ReplayOutcome(True, False, why)
    refused = SAME.replace("replayed", "refused (kernel) no")
    assert replay_fake(tmp_path, 0, refused, challenge=ours).detail == "(kernel) no"
    given = SAME.replace("same", "differs OURS")
    assert replay_fake(tmp_path, 0, given, challenge=ours).detail.endswith(f": {ours} t")
    twice = SAME.replace("NONCE same", "NONCE same\nNONCE differs d")
    for wrong in (OK, twice, SAME.replace("same", "equal"), OK + "NONCE same\n"):
        with pytest.raises(WorkerError, match="is not understood"):
            replay_fake(tmp_path, 0, wrong, challenge=ours)
    for theorem, challenge in (("t", None), (None, ours)):
        assert replay_fake(tmp_path, 0, OK, theorem, challenge=challenge).passed
        with pytest.raises(WorkerError, match="is not understood"):
            replay_fake(tmp_path, 0, SAME, theorem, challenge=challenge)


def test_a_file_of_the_module_system_is_refused(tmp_path: Path) -> None:
    """Its public part shows theorems without their proofs."""
    (tmp_path / "X.olean.private").write_text("")
    why = "a file of Lean's module system hides its proofs"
    assert replay_fake(tmp_path, 0, OK) == ReplayOutcome(True, False, why)


def test_a_lean_that_cannot_replay_says_so(tmp_path: Path) -> None:
    outcome = replay_fake(tmp_path, 1, "unknown module prefix 'Lean'\n")
    why = "this Lean cannot replay: unknown module prefix 'Lean'"
    assert outcome == ReplayOutcome(False, False, why)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (0, ""),
        (0, "replayed\nstarted\n"),
        (0, "NONCE started\n"),
        (1, OK),
        (1, "NONCE started\nuncaught exception: unknown module prefix 'Mathlib'\n"),
        (0, OK + "and more\n"),
        (0, OK.replace("theorem u", "lemma u")),
        (0, OK.replace("theorem u", "replayed")),
        (0, OK.replace("theorem u", "refused u")),
        (0, OK.replace("NONCE started\n", "") + "NONCE started\n"),
        (0, OK.replace("NONCE", "0" * 32)),
        (0, "DIE"),
    ],
)
def test_what_is_not_understood_is_no_answer(tmp_path: Path, code: int, says: str) -> None:
    with pytest.raises(WorkerError):
        replay_fake(tmp_path, code, says)


def test_death_and_delay_name_their_cause(tmp_path: Path) -> None:
    with pytest.raises(WorkerError) as died:
        replay_fake(tmp_path, 0, "DIE")
    assert (str(died.value), died.value.cause) == ("the replay was killed by signal 6", "died")
    with pytest.raises(WorkerError) as late:
        replay_fake(tmp_path, 0, "SLEEP", seconds=0.5)
    assert (str(late.value), late.value.cause) == (
        "the replay did not end in 0.5 seconds",
        "deadline",
    )


def test_the_memory_of_a_replay_counts_while_it_runs(tmp_path: Path) -> None:
    """The pool kills a worker by the memory of its groups."""
    olean = tmp_path / "X.olean"
    olean.write_text("0\nSLEEP")
    groups: list[ProcessGroup] = []

    async def main() -> None:
        lean = (sys.executable, "-c", FAKE)
        running = asyncio.create_task(replay(olean, lean, {"MARK": "1"}, groups, theorem="t"))
        give_up = time.monotonic() + 30
        while not (groups and groups[0].memory_mb > 1):
            assert time.monotonic() < give_up
            await asyncio.sleep(0.02)
        groups[0].kill()
        with pytest.raises(WorkerError, match="the replay was killed by signal 9"):
            await running
        assert groups == []

    asyncio.run(main())


# A real Lean

SKIP = "set_option debug.skipKernelTC true in"
FALSE = "theorem t : (1 : Nat) = 2 := "
ATTACKS = {
    "command": f"{SKIP}\n{FALSE}by decide +kernel",
    "tactic": f"{FALSE}by\n  {SKIP}\n  decide +kernel",
    "term": f"{FALSE}{SKIP} by decide +kernel",
    "nested": f"{SKIP}\nset_option maxRecDepth 900 in\n{FALSE}by\n  {SKIP}\n  decide +kernel",
    "whole file": f"set_option debug.skipKernelTC true\n{FALSE}by decide +kernel",
    "helper": f"{SKIP}\ntheorem h : (1 : Nat) = 2 := by decide +kernel\n{FALSE}h",
    "proof inside a definition": (
        f"{SKIP}\ndef d : {{ n : Nat // n = 2 }} := ⟨1, by decide +kernel⟩\n"
        "theorem t : d.val = 2 := d.property"
    ),
    "instance": (
        "class Bad : Prop where bad : False\n"
        f"{SKIP}\ninstance : Bad := ⟨by\n  have h : (1 : Nat) = 2 := by decide +kernel\n"
        f"  exact absurd h (by decide)⟩\n{FALSE}Bad.bad.elim"
    ),
    "opaque": (
        f"{SKIP}\nopaque o : {{ n : Nat // 1 = 2 }} := ⟨0, by decide +kernel⟩\n{FALSE}o.property"
    ),
    "section": f"section\nset_option debug.skipKernelTC true\n{FALSE}by decide +kernel\nend",
}
HONEST = """
inductive Tree | leaf | node (l r : Tree)
def Tree.size : Tree → Nat | leaf => 1 | node l r => l.size + r.size
mutual
inductive Even : Nat → Prop | zero : Even 0 | step : Odd n → Even (n + 1)
inductive Odd : Nat → Prop | step : Even n → Odd (n + 1)
end
structure Point where
  x : Nat
  y : Nat
  deriving DecidableEq
opaque secret : Nat
def half (n : Nat) : Nat := if h : n < 2 then 0 else half (n - 2) + 1
termination_by n
theorem u : Even 2 := .step (.step .zero)
theorem t (s : Tree) : 0 < s.size := by
  induction s with
  | leaf => decide
  | node l r a b => simp only [Tree.size]; omega
"""


# Each of them: our text before the statement, the statement, and the candidate's text, which is
# whole, or follows ours and has HERE for the statement. Then what the comparison says.
TREE = "inductive Tree | leaf | node (l r : Tree)\n"
SIZE = "def Tree.size : Tree → Nat | leaf => 1 | node l r => l.size + r.size\n"
ONE_IS_TWO = "theorem t : (1 : Nat) = 2"
FORGERIES = {
    "another theorem": ("", ONE_IS_TWO, "theorem t : (1 : Nat) = 1 := rfl", "t has another type"),
    "an equation over =": (
        "",
        ONE_IS_TWO,
        'notation:50 (priority := high) a:51 " = " b:51 => a < b\nHERE := by decide',
        "t has another type",
    ),
    "a numeral": (
        "",
        ONE_IS_TWO,
        "instance two : OfNat Nat 2 := ⟨1⟩\nHERE := rfl",
        "t has another type",
    ),
    "a sum": (
        "",
        "theorem t : (1 : Nat) + 1 = 3",
        "instance plus : HAdd Nat Nat Nat := ⟨fun _ _ => 3⟩\nHERE := rfl",
        "t has another type",
    ),
    "a function in an inner namespace": (
        "def f (n : Nat) : Nat := n\nnamespace A\n",
        "theorem t : f 1 = 2",
        "def f (_ : Nat) : Nat := 2\nHERE := rfl",
        "A.t has another type",
    ),
    "a type in an inner namespace": (
        "namespace A\n",
        "theorem t (a b : Nat) : a = b",
        "abbrev Nat := Unit\nHERE := rfl",
        "A.t has another type",
    ),
    "a word of ours": (
        TREE,
        "theorem t (s : Tree) : s = .leaf",
        "inductive Other | leaf\nmacro_rules | `(Tree) => `(Other)\nHERE := by cases s; rfl",
        "t has another type",
    ),
    "a hypothesis": (
        "",
        ONE_IS_TWO,
        "section\nvariable (h : False)\ninclude h\nHERE := h.elim\nend",
        "t has another type",
    ),
    "another universe": (
        "",
        "theorem t.{u} (α : Type u) (a : α) : ∃ b : α, b = a",
        "theorem t.{u} (α : Type (u + 1)) (a : α) : ∃ b : α, b = a := ⟨a, rfl⟩",
        "t has another type",
    ),
    "no universe": (
        "",
        "theorem t.{u} (α : Sort u) (a : α) : a = a",
        "theorem t (α : Prop) (a : α) : a = a := rfl",
        "t has other universes",
    ),
    "a definition": (
        "def f (n : Nat) : Nat := n + 1\n",
        "theorem t : f 1 = 1",
        "def f (n : Nat) : Nat := n\ntheorem t : f 1 = 1 := rfl",
        "f is defined in another way",
    ),
    "a definition behind another": (
        "def f (n : Nat) : Nat := n + 1\ndef g (n : Nat) : Nat := f n\n",
        "theorem t : g 1 = 1",
        "def f (n : Nat) : Nat := n\ndef g (n : Nat) : Nat := f n\ntheorem t : g 1 = 1 := rfl",
        "f is defined in another way",
    ),
    "one more constructor": (
        TREE,
        "theorem t : ∃ s : Tree, ∀ l r, s ≠ .leaf ∧ s ≠ .node l r",
        "inductive Tree | leaf | node (l r : Tree) | other\n"
        "theorem t : ∃ s : Tree, ∀ l r, s ≠ .leaf ∧ s ≠ .node l r :=\n"
        "  ⟨.other, fun _ _ => ⟨nofun, nofun⟩⟩",
        "Tree is defined in another way",
    ),
    "a constructor of another type": (
        "inductive Box (α : Type) : Prop | mk (a : α)\n",
        "theorem t : Box Empty",
        "inductive Box (α : Type) : Prop | mk\ntheorem t : Box Empty := .mk",
        "Box.mk has another type",
    ),
    "a structure": (
        "structure Small where\n  n : Nat\n  small : n < 2\n",
        "theorem t : ∃ s : Small, s.n = 5",
        "structure Small where\n  n : Nat\n  small : n < 9\n"
        "theorem t : ∃ s : Small, s.n = 5 := ⟨⟨5, by decide⟩, rfl⟩",
        "Small.mk has another type",
    ),
    "a measure": (
        "def half (n : Nat) : Nat := if h : n < 2 then 0 else half (n - 2) + 1\n",
        "theorem t : half 1 = 1",
        "def half (n : Nat) : Nat := if h : n < 2 then 1 else half (n - 2) + 1\n"
        "theorem t : half 1 = 1 := by unfold half; rfl",
        "half is defined in another way",
    ),
    "a recursive function": (
        TREE + SIZE,
        "theorem t : Tree.leaf.size = 2",
        TREE + SIZE.replace("=> 1", "=> 2") + "theorem t : Tree.leaf.size = 2 := rfl",
        r"Tree\.size.* is defined in another way",
    ),
    "a definition that became opaque": (
        "def d : { n : Nat // n < 3 } := ⟨1, by decide⟩\n",
        "theorem t : d.val < 3",
        "opaque d : { n : Nat // n < 3 } := ⟨1, by decide⟩\ntheorem t : d.val < 3 := d.property",
        "d is defined in another way",
    ),
    "an axiom": ("", ONE_IS_TWO, "axiom a : False\nHERE := a.elim", "a is not ours"),
    "an axiom of another type": (
        "axiom a : True\n",
        ONE_IS_TWO,
        f"axiom a : False\n{ONE_IS_TWO} := a.elim",
        "a has another type",
    ),
}
QUESTION = "import X\nset_option pp.all true in\n#check @_root_.t\n"
FORGED_ANSWERS = {
    "macro": "macro_rules | `(command| #check $_:term) => `(command| #print SAID)",
    "syntax": (
        'syntax (priority := high) "#check" term : command\n'
        "macro_rules | `(command| #check $_) => `(command| #print SAID)"
    ),
}


def compile_real(folder: Path, source: str) -> Path:
    lean = os.environ.get("PROVERRL_LEAN")
    if not lean:
        pytest.skip("no real Lean here: PROVERRL_LEAN names none")
    folder.mkdir(exist_ok=True)
    (folder / "X.lean").write_text(source, encoding="utf-8")
    command = [lean, "-o", str(folder / "X.olean"), str(folder / "X.lean")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stdout
    return folder / "X.olean"


def replay_real(
    olean: Path,
    theorem: str | None,
    challenge: Path | None = None,
    allowed_axioms: frozenset[str] = STANDARD_AXIOMS,
) -> ReplayOutcome:
    known = {name: os.environ[name] for name in ("LEAN_PATH",) if name in os.environ}
    outcome = asyncio.run(
        replay(
            olean,
            (os.environ["PROVERRL_LEAN"],),
            known,
            [],
            theorem=theorem,
            challenge=challenge,
            allowed_axioms=allowed_axioms,
        )
    )
    if not outcome.ran:
        pytest.skip(outcome.detail)
    return outcome


@pytest.mark.lean
@pytest.mark.parametrize("name", ATTACKS)
def test_what_skipped_the_kernel_is_refused(tmp_path: Path, name: str) -> None:
    """Lean itself compiles each of these without an error."""
    outcome = replay_real(compile_real(tmp_path, ATTACKS[name] + "\n"), "t")
    assert (outcome.ran, outcome.passed) == (True, False)
    assert "(kernel)" in outcome.detail


@pytest.mark.lean
def test_declarations_of_every_kind_pass(tmp_path: Path) -> None:
    olean = compile_real(tmp_path, HONEST)
    assert replay_real(olean, "t").passed
    assert replay_real(olean, "v") == ReplayOutcome(True, False, "the module declares no v")


@pytest.mark.lean
def test_a_new_axiom_is_refused(tmp_path: Path) -> None:
    olean = compile_real(tmp_path, "axiom a : False\ntheorem t : 1 = 2 := a.elim\n")
    assert replay_real(olean, "t") == ReplayOutcome(True, False, "the module declares axioms: a")


@pytest.mark.lean
@pytest.mark.parametrize("name", FORGERIES)
def test_what_is_not_our_statement_is_refused(tmp_path: Path, name: str) -> None:
    """Lean itself compiles each of these without an error, and the kernel accepts it."""
    before, statement, theirs, why = FORGERIES[name]
    theorem = "A.t" if "namespace A" in before else "t"
    axiom = frozenset("a")
    challenge = compile_real(tmp_path / "ours", f"{before}{statement} := sorry\n")
    source = before + theirs.replace("HERE", statement) if "HERE" in theirs else theirs
    olean = compile_real(tmp_path, source + "\n")
    assert replay_real(olean, theorem, allowed_axioms=axiom).passed
    outcome = replay_real(olean, theorem, challenge, axiom)
    assert (outcome.ran, outcome.passed) == (True, False)
    assert re.fullmatch(f"the proved statement is not ours: {why}", outcome.detail)


def ask(folder: Path) -> str:
    """What Lean prints as the type of the theorem, to a process that imports the module."""
    (folder / "Question.lean").write_text(QUESTION)
    command = [os.environ["PROVERRL_LEAN"], "--json", "Question.lean"]
    known = os.environ.get("LEAN_PATH", "")
    here = dict(os.environ, LEAN_PATH=os.pathsep.join(filter(None, (known, str(folder)))))
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder, env=here)
    answer = json.loads(done.stdout)
    assert (answer["severity"], answer["pos"]) == ("information", {"line": 3, "column": 0})
    return str(answer["data"])


@pytest.mark.lean
@pytest.mark.parametrize("name", FORGED_ANSWERS)
def test_a_forged_answer_does_not_help(tmp_path: Path, name: str) -> None:
    challenge = compile_real(tmp_path / "ours", f"{ONE_IS_TWO} := sorry\n")
    said = ask(challenge.parent)
    assert said.startswith("t : @Eq.{1} Nat")
    forged = FORGED_ANSWERS[name].replace("SAID", json.dumps(said))
    olean = compile_real(tmp_path, f"theorem t : (1 : Nat) = 1 := rfl\n{forged}\n")
    assert ask(tmp_path) == said
    why = "the proved statement is not ours: t has another type"
    assert replay_real(olean, "t", challenge) == ReplayOutcome(True, False, why)


@pytest.mark.lean
def test_a_worker_does_not_believe_a_forged_answer(tmp_path: Path) -> None:
    """The audit, which comes before the worker, refuses the second text."""
    replay_real(compile_real(tmp_path, HONEST), "t")
    less = 'notation:50 (priority := high) a:51 " = " b:51 => a < b\n'
    statement = f"theorem t : p = 2 := by\n  {HOLE}\n"
    problem = Problem("p", "lean", "tactics", "private def p : Nat := 1 + 1\n", statement)
    false = replace(problem, preamble="private def p : Nat := 1\n")

    async def judge() -> list[Verdict]:
        toolchain, known = find_lean_toolchain("lean-file"), KnownStatements()
        worker = await LeanWorker.start(toolchain, LeanLimits(), known)
        try:
            honest = await worker.judge(Candidate(problem, "rfl"))
            await worker.judge(Candidate(false, "rfl"))
            ours = known.find(false)
            assert ours is not None
            said = json.dumps(ours.fingerprint, ensure_ascii=False)
            forged = less + FORGED_ANSWERS["macro"].replace("SAID", said) + "\n"
            return [honest, await worker.judge(Candidate(false, "decide", forged))]
        finally:
            worker.kill()
            await worker.join()

    honest, forged = asyncio.run(judge())
    assert (honest.status, forged.status) == (Status.PROVED, Status.UNSOUND)
    why = "the proved statement is not ours: t has another type"
    assert [d.message for d in forged.diagnostics] == [f"the compiled text is refused: {why}"]


@pytest.mark.lean
def test_our_statement_passes_whatever_is_declared_beside_it(tmp_path: Path) -> None:
    """Names of bound variables are no part of a statement."""
    before, proof = HONEST.split("theorem t")
    stated, _, _ = proof.partition(":= by")
    challenge = compile_real(tmp_path / "ours", f"{before}theorem t{stated}:= sorry\n")
    more = "theorem zero (n : Nat) (h : n < 0) : False := by omega\ndef two := 2\n"
    changed = re.sub(r"\bs\b", "other", proof)
    for source in (HONEST, f"{before}{more}theorem t{proof}", f"{before}theorem t{changed}"):
        assert replay_real(compile_real(tmp_path, source), "t", challenge).passed


@pytest.mark.lean
def test_a_challenge_without_the_theorem_passes_nothing(tmp_path: Path) -> None:
    challenge = compile_real(tmp_path / "ours", "def t : True := sorry\n")
    olean = compile_real(tmp_path, "theorem t : True := trivial\n")
    why = "the proved statement is not ours: t is declared in another way"
    assert replay_real(olean, "t", challenge) == ReplayOutcome(True, False, why)


@pytest.mark.lean
def test_a_damaged_file_is_no_answer(tmp_path: Path) -> None:
    olean = compile_real(tmp_path, HONEST)
    assert replay_real(olean, "t").passed
    olean.write_bytes(b"not a module")
    with pytest.raises(WorkerError, match="failed to read file"):
        replay_real(olean, "t")


def load_sample() -> list[dict[str, str]]:
    rows = Path("lean/benchmark.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(row) for row in rows][::4]


@pytest.mark.lean
@pytest.mark.parametrize("row", load_sample(), ids=lambda row: row["id"])
def test_the_reference_proofs_pass(tmp_path: Path, row: dict[str, str]) -> None:
    text = row["preamble"] + row["statement"]
    olean = compile_real(tmp_path, text.replace(HOLE, row["reference"]))
    challenge = compile_real(tmp_path / "ours", text.replace(HOLE, "sorry"))
    problem = Problem(row["id"], "lean", row["kind"], row["preamble"], row["statement"])
    outcome = replay_real(olean, find_target(problem), challenge)
    assert (outcome.ran, outcome.passed) == (True, True), outcome.detail
