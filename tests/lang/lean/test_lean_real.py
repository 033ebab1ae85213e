"""The Lean back end against a real Lean, wherever one is installed; skipped elsewhere.

``bash scripts/setup_lean.sh`` brings what these tests need, or PROVERRL_LEAN names a ``lean``. The
core library may be a reduced one: nothing here needs more than ``Nat``, ``List`` and ``decide``.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from proverrl.config.base import LeanBackend
from proverrl.errors import ProblemError, ToolchainError, WorkerError
from proverrl.lang.lean.verify.judge import KnownStatements, LeanLimits
from proverrl.lang.lean.verify.workers.server import LeanServer
from proverrl.lang.lean.verify.workers.toolchain import LeanToolchain, find_lean_toolchain
from proverrl.lang.lean.verify.workers.worker import LeanWorker
from proverrl.types import HOLE, Candidate, Problem, Status, Verdict
from tests.lean_builders import build_lean_problem

pytestmark = pytest.mark.lean

BACKENDS: tuple[LeanBackend, ...] = ("lean-server", "lean-file")


def find_toolchain(backend: LeanBackend) -> LeanToolchain:
    try:
        return find_lean_toolchain(backend)
    except ToolchainError as error:
        pytest.skip(f"no real Lean here: {error}")


@pytest.fixture(params=BACKENDS)
def toolchain(request: pytest.FixtureRequest) -> LeanToolchain:
    return find_toolchain(request.param)


@pytest.fixture
def server() -> LeanToolchain:
    return find_toolchain("lean-server")


def run(
    toolchain: LeanToolchain,
    work: Callable[[LeanWorker], Awaitable[None]],
    limits: LeanLimits | None = None,
) -> None:
    async def main() -> None:
        # Starting runs the canaries: true, false, sorry, axiom.
        worker = await LeanWorker.start(toolchain, limits or LeanLimits(), KnownStatements())
        try:
            await work(worker)
        finally:
            worker.kill()
            await worker.join()

    asyncio.run(main())


def judge_all(
    toolchain: LeanToolchain, candidates: Sequence[Candidate], limits: LeanLimits | None = None
) -> list[Verdict]:
    verdicts: list[Verdict] = []

    async def work(worker: LeanWorker) -> None:
        verdicts.extend([await worker.judge(candidate) for candidate in candidates])

    run(toolchain, work, limits)
    return verdicts


def state(statement: str, preamble: str = "") -> Problem:
    """A problem by all of its text, with ``_`` for the hole."""
    return Problem("p", "lean", "tactics", preamble, statement.replace("_", HOLE, 1))


ADD_COMM = build_lean_problem("swap", "∀ a b : Nat, a + b = b + a")
FALSE = build_lean_problem("no", "(1 : Nat) = 2")
TRUE = build_lean_problem("yes", "True")
KINDS = {
    "intro a b\n  exact Nat.add_comm a b": "proved",
    "exact Nat.add_comm": "proved",
    "sorry": "incomplete",
    "exact sorry": "incomplete",
    "intro a b\n  rfl": "rejected",
    "": "rejected",
    "exact unknown_name": "rejected",
    "exact (fun a b => Nat.add_comm a b": "rejected",
    "exact Nat.add_comm\n/- never closed": "rejected",
    "exact Nat.add_comm\n#exit": "unsound",
    "have : ∀ n : Nat, n < 600 → n < 700 := by decide\n  exact Nat.add_comm": "exhausted",
    f"exact {'(' * 3000}Nat.add_comm{')' * 3000}": "exhausted",
}


def test_each_kind_of_body_gets_its_status(toolchain: LeanToolchain) -> None:
    verdicts = judge_all(toolchain, [Candidate(ADD_COMM, body) for body in KINDS])
    found = {body: v.status.value for body, v in zip(KINDS, verdicts, strict=True)}
    assert found == KINDS
    recursion = verdicts[list(KINDS.values()).index("exhausted")].diagnostics[0].message
    assert recursion.startswith("maximum recursion depth has been reached")


def test_heartbeats_run_out(toolchain: LeanToolchain) -> None:
    work = (
        "have : ∀ a b c : Nat, a + b + c = a + (b + c) := fun a b c => by simp [Nat.add_assoc]\n  "
    )
    long, short = judge_all(
        toolchain,
        [Candidate(TRUE, work * number + "trivial") for number in (300, 3)],
        LeanLimits(max_heartbeats=200),
    )
    assert (long.status, short.status) == (Status.EXHAUSTED, Status.PROVED), long.diagnostics
    said = long.diagnostics[0].message
    assert said.startswith("(deterministic) timeout at ")
    assert "maximum number of heartbeats (200) has been reached" in said


CHEATS = [
    ("exact sorryAx _ false", "", "incomplete"),
    ("exact (evil : (1 : Nat) = 2)", "axiom evil : (1 : Nat) = 2\n", "unsound"),
    (
        "exact evil",
        "set_option warn.sorry false\ntheorem evil : (1 : Nat) = 2 := sorry\n",
        "unsound",
    ),
    ("rfl", "instance : OfNat Nat 2 := ⟨1⟩\n", "unsound"),
    (
        "trivial",
        'local notation:50 (priority := high) a:51 " = " b:51 => (fun _ _ => True) a b\n',
        "unsound",
    ),
    ("trivial", "macro_rules | `($a = $b) => `(True)\n", "unsound"),
    ("trivial\n#exit", "", "rejected"),
]


def test_cheats_that_the_text_audit_did_not_see(toolchain: LeanToolchain) -> None:
    verdicts = judge_all(toolchain, [Candidate(FALSE, body, pre) for body, pre, _ in CHEATS])
    assert [v.status.value for v in verdicts] == [status for *_, status in CHEATS]


HOLES = {
    "theorem t (p q : Prop) (h : p) : p ∧ q := by\n  constructor\n  · exact h\n  · sorry\n": (
        "incomplete",
        ["p q : Prop\nh : p\n⊢ q"],
    ),
    "theorem t (p q : Prop) (h : p) : p ∧ q := by\n  constructor\n  · sorry\n  · sorry\n": (
        "incomplete",
        ["p q : Prop\nh : p\n⊢ p", "p q : Prop\nh : p\n⊢ q"],
    ),
    "theorem t (p : Prop) (h : p) : p := by\n  first | exact h | sorry\n": ("incomplete", []),
    "theorem t (p : Prop) : p := sorry\n": ("incomplete", ["p : Prop\n⊢ p"]),
    "theorem t (p q : Prop) (h : p ∨ q) : q ∨ p := by\n  cases h with\n  | inl h => sorry\n"
    "  | inr h => exact Or.inl (sorry)\n": (
        "incomplete",
        ["p q : Prop\nh : p\n⊢ q ∨ p", "p q : Prop\nh : q\n⊢ q"],
    ),
    # The goal of a term that stands where a tactic could, and of two in one tactic.
    "theorem t (p q : Prop) (f : p → p) (h : q) : p ∧ q := by\n  have g : p := f\n    sorry\n"
    "  exact ⟨sorry, sorry⟩\n": (
        "incomplete",
        [
            "p q : Prop\nf : p → p\nh : q\n⊢ p",
            "p q : Prop\nf : p → p\nh : q\ng : p\n⊢ p",
            "p q : Prop\nf : p → p\nh : q\ng : p\n⊢ q",
        ],
    ),
    "theorem t (p q : Prop) (h : p) : p ∧ q := by\n  constructor\n  · exact i\n  · sorry\n": (
        "rejected",
        ["p q : Prop\nh : p\n⊢ q"],
    ),
}


def test_lean_says_what_is_open_at_the_holes_of_a_file(server: LeanToolchain) -> None:
    """Also of what Lean would take: it uses no hole of the third."""
    bare = build_lean_problem(kind="file")
    verdicts = judge_all(server, [Candidate(bare, text) for text in HOLES])
    assert [(v.status.value, list(v.goals)) for v in verdicts] == list(HOLES.values())
    assert verdicts[3].states == ((1, 28, "p : Prop\n⊢ p"),)


@pytest.mark.parametrize("word", ["", "private "])
def test_an_axiom_cannot_take_the_name_of_one_of_leans(toolchain: LeanToolchain, word: str) -> None:
    """In an open namespace Lean calls ``Ours.Quot.sound`` by the name of its own axiom."""
    problem = state("theorem t : (1 : Nat) = 2 := by\n  _\n", "namespace Ours\n")
    prelude = f"{word}axiom Quot.sound : (1 : Nat) = 2\n"
    text = f"namespace A\n{prelude}theorem t : (1 : Nat) = 2 := A.Quot.sound\n"
    verdicts = judge_all(
        toolchain,
        [
            Candidate(problem, "exact Ours.Quot.sound", prelude),
            Candidate(build_lean_problem(kind="file"), text),
        ],
    )
    for verdict, name in zip(verdicts, ("Ours.Quot.sound", "A.Quot.sound"), strict=True):
        assert verdict.status is Status.UNSOUND
        assert verdict.axioms[0].endswith(name)


def test_axioms_are_reported(toolchain: LeanToolchain) -> None:
    excluded = build_lean_problem("lem", "∀ p : Prop, p ∨ ¬p")
    (verdict,) = judge_all(toolchain, [Candidate(excluded, "exact Classical.em")])
    assert verdict.status is Status.PROVED
    assert set(verdict.axioms) == {"propext", "Classical.choice", "Quot.sound"}
    expected = ("audit", "no-errors", "no-sorry", "target", "type", "axioms:3")
    assert verdict.checks[:6] == expected


def test_places_are_counted_in_code_points(toolchain: LeanToolchain) -> None:
    plane = state("theorem t (𝔸 𝔹 : Nat) : 𝔸 = 𝔹 := by\n  _\n")
    bodies = ["show 𝔸 = 𝔹; rfl", "skip\n  exact /- 😀 -/ 𝔸𝔸"]
    one, two = judge_all(toolchain, [Candidate(plane, body) for body in bodies])
    first, second = one.diagnostics[0], two.diagnostics[0]
    assert (first.line, first.column, first.end_column) == (2, 14, 17)
    assert (first.body_line, first.body_column) == (1, 12)
    assert first.message.startswith("Tactic `rfl` failed: The left-hand side\n  𝔸\n")
    assert (second.line, second.column, second.end_column) == (3, 16, 18)
    assert (second.body_line, second.body_column) == (2, 16)
    assert second.message.startswith("Unknown identifier `𝔸𝔸`")


STATEMENTS = {
    "theorem t (x : Nat) : x = x := by\n  _\n\nend A.B\n": "namespace A.B\n",
    "theorem s (x : Nat) : x = x := by\n  _\n": "namespace A.B\n",
    "theorem t (α : Type u) (x : α) : x = x := by\n  _\n": "universe u\n",
    "theorem t.{v, u} (α : Type u) (β : Type v) (x : α) (y : β) : x = x := by\n  _\n": "",
    "theorem t [Inhabited Nat] (x : Nat) : x = x := by\n  _\n": "",
    "theorem t {x : Nat} : x = x := by\n  _\n": "",
    "theorem t ⦃x : Nat⦄ : x = x := by\n  _\n": "",
    "theorem «a b» (x : Nat) : x = x := by\n  _\n": "",
    "theorem «a.b».«c: d» {x : Nat} : x = x := by\n  _\n": "",
    "theorem «a b».{u} {α : Type u} {x : α} : x = x := by\n  _\n": "",
    "theorem «theorem» (x : Nat) : x = x := by\n  _\n": "",
    "theorem «foo» (x : Nat) : x = x := by\n  _\n": "",
    "theorem α₁' (x : Nat) : x = x := by\n  _\n": "",
    "theorem t : x = x := by\n  _\n\nend\n": "section\nvariable (x : Nat)\n",
    "theorem t (a : α) : a = a := by\n  _\n\nend\n": "section\nvariable {α : Type} [Inhabited α]\n",
    "theorem t (x : α) : x = x := by\n  _\n": "set_option autoImplicit true\n",
    "protected theorem A.t (x : Nat) : x = x := by\n  _\n": "",
    "theorem _root_.t (x : Nat) : x = x := by\n  _\n\nend A\n": "namespace A\n",
    "/-- About x. -/\ntheorem t (x : Nat) : x = x := by\n  _\n": "",
    "theorem t (x : Nat) : f x = x := by\n  _\n": "def f (x : Nat) := x\n",
}


def test_each_form_of_a_statement_can_be_proved(toolchain: LeanToolchain) -> None:
    problems = []
    for text, preamble in STATEMENTS.items():
        before, _, after = text.rpartition(":= by\n  _")
        statement = f"{before}:= by\n  {HOLE}{after}"
        problems.append(Problem("p", "lean", "tactics", preamble, statement))
    verdicts = judge_all(toolchain, [Candidate(problem, "rfl") for problem in problems])
    found = [verdict.status for verdict in verdicts]
    assert dict(zip(STATEMENTS, found, strict=True)) == dict.fromkeys(STATEMENTS, Status.PROVED)


@pytest.mark.parametrize(
    ("statement", "preamble", "why"),
    [
        ("private theorem t : True := by\n  _\n", "", "t is private; drop that word"),
        ("theorem t : True := by\n  _\n", "import No.Such\n", "imports fail in Lean: unknown mod"),
        ("theorem t (x : α) : x = x := by\n  _\n", "", "fails in Lean: Unknown identifier `α`"),
        ("theorem t (α : Type u) : α = α := by\n  _\n", "", "unknown universe level `u`"),
        ("theorem t : 1 = := by\n  _\n", "", "own statement fails in Lean: unexpected token"),
        ("theorem trivial : True := by\n  _\n", "", "`trivial` has already been declared"),
        ("example : True := by\n  _\n", "", "'example', which cannot be asked for"),
    ],
)
def test_a_problem_that_cannot_be_asked_is_named(
    toolchain: LeanToolchain, statement: str, preamble: str, why: str
) -> None:
    async def work(worker: LeanWorker) -> None:
        for _ in range(2):
            with pytest.raises(ProblemError, match=f"problem 'p': .*{why}"):
                await worker.judge(Candidate(state(statement, preamble), "trivial"))
        # It costs nobody else anything.
        assert (await worker.judge(Candidate(TRUE, "trivial"))).status is Status.PROVED

    run(toolchain, work)


FILES = {
    "theorem a : True := trivial\n": ("proved", "theorems:1"),
    "import Init\nopen Nat\ntheorem a : True := trivial": ("proved", "theorems:1"),
    "private theorem h : True := trivial\ntheorem a : True := h\n": ("proved", "theorems:1"),
    "private theorem h : True := trivial\n": ("rejected", "no-statement"),
    "namespace A\ntheorem «a b» : True := trivial\nend A\n": ("proved", "theorems:1"),
    "mutual\ntheorem a : True := trivial\ntheorem b : True := trivial\nend\n": (
        "proved",
        "theorems:2",
    ),
    "private axiom x : False\nprivate theorem h : True := x.elim\ntheorem a : True := h\n": (
        "unsound",
        "no-statement",
    ),
    "theorem a (x : α) : x = x := rfl\n": ("proved", "theorems:1"),
    "theorem a : True := sorry": ("incomplete", "messages"),
    "import No.Such\ntheorem a : True := trivial": ("rejected", "header"),
}


def test_instances_of_the_problem_are_the_same_in_statement_and_proof(
    toolchain: LeanToolchain,
) -> None:
    """Lean puts the name of the module into the names that it gives to them."""
    turned = "instance (priority := 10000) : LT Nat := ⟨fun a b => Nat.lt b a⟩\n"
    problem = state("theorem t (a b : Nat) (h : a < b) : a < b := by\n  _\n", turned)
    hidden = state("theorem t : Hidden.one = 1 := by\n  _\n", "private def Hidden.one : Nat := 1\n")
    verdicts = judge_all(toolchain, [Candidate(problem, "exact h"), Candidate(hidden, "rfl")])
    assert [verdict.status for verdict in verdicts] == [Status.PROVED, Status.PROVED]


def test_bare_files_are_judged_by_their_theorems(toolchain: LeanToolchain) -> None:
    bare = build_lean_problem(kind="file")
    verdicts = judge_all(toolchain, [Candidate(bare, text) for text in FILES])
    for (text, (status, check)), verdict in zip(FILES.items(), verdicts, strict=True):
        assert (text, verdict.status.value, check in verdict.checks) == (text, status, True)


@pytest.mark.parametrize("how", ["", "set_option pp.fullNames false in open X in "])
@pytest.mark.parametrize("word", ["", "private "])
def test_an_answer_about_another_theorem_is_not_believed(
    toolchain: LeanToolchain, word: str, how: str
) -> None:
    """What a text without an audit could do: a macro that turns our question to another name."""
    text = (
        f"axiom bad : False\n{word}theorem X.u : True := trivial\n"
        "macro_rules | `(command| #print axioms _root_.u) => "
        f"`(command| {how}#print axioms X.u)\ntheorem u : False := bad\n"
    )

    async def work(worker: LeanWorker) -> None:
        with pytest.raises(WorkerError, match=r"axioms of u is not understood: .*X\.u"):
            await worker.judge(Candidate(build_lean_problem(kind="file"), text))

    run(toolchain, work)


def test_the_goals_before_every_tactic_are_told(server: LeanToolchain) -> None:
    limits = LeanLimits(trace_states=True)
    body = "intro a b\n  exact Nat.add_comm a b"
    (verdict,) = judge_all(server, [Candidate(ADD_COMM, body)], limits)
    assert verdict.states == (
        (1, 0, "⊢ ∀ (a b : Nat), a + b = b + a"),
        (2, 2, "a b : Nat\n⊢ a + b = b + a"),
    )


def test_a_dead_document_is_seen(server: LeanToolchain) -> None:
    """``lean --worker`` is no server that starts its worker again: what died is gone."""

    async def main() -> None:
        worker = await LeanWorker.start(server, LeanLimits(), KnownStatements())
        assert isinstance(worker.session, LeanServer)
        await worker.judge(Candidate(TRUE, "trivial"))
        worker.session._documents[-1].group.kill()
        with pytest.raises(Exception, match="server died"):
            await worker.judge(Candidate(TRUE, "trivial"))
        worker.kill()
        await worker.join()

    asyncio.run(main())


# What a candidate leaves behind: a prelude, and a probe that has another outcome where it is seen.
LEFT_BEHIND = {
    "def": ("def left : Nat := 3\n", "have : left = 3 := rfl\n  trivial"),
    "theorem": ("theorem left : True := trivial\n", "exact left"),
    "axiom": ("axiom left : True\n", "exact left"),
    "instance": ("instance : OfNat Nat 7 := ⟨1⟩\n", "have : (7 : Nat) = 1 := rfl\n  trivial"),
    "default": ("instance : Inhabited (Nat → True) := ⟨fun _ => trivial⟩\n", "exact default 1"),
    "option": ("set_option autoImplicit true\n", "exact (fun (x : left) => trivial) 1"),
    "depth": ("set_option maxRecDepth 20\n", "exact id (id (id (id (id (id (id trivial))))))"),
    "warning": ("set_option warn.sorry false\n", "have : True := sorry\n  trivial"),
    "macro": ('macro "left" : tactic => `(tactic| trivial)\n', "left"),
    "term macro": ('macro "left!" : term => `(trivial)\n', "exact left!"),
    "rules": ("macro_rules | `(tactic| rfl) => `(tactic| trivial)\n", "rfl"),
    "notation": ('notation "left" => True.intro\n', "exact left"),
    "local notation": ('local notation "left" => True.intro\n', "exact left"),
    "infix": ('infixl:65 " ⊹ " => Nat.add\n', "have : 1 ⊹ 1 = 2 := rfl\n  trivial"),
    "namespace": ("namespace Left\ndef here : Nat := 3\n", "have := here\n  trivial"),
    "open": ("open Nat\n", "have := succ_pos 1\n  trivial"),
    "export": ("export Nat (succ_pos)\n", "have := succ_pos 1\n  trivial"),
    "simp": (
        "def left (n : Nat) : Nat := n\n@[simp] theorem left_is (n : Nat) : left n = n := rfl\n",
        "have : (∀ n : Nat, left n = n) := by simp\n  trivial",
    ),
    "scoped": (
        'namespace Left\nscoped notation "left" => True.intro\nend Left\nopen Left\n',
        "exact left",
    ),
    "variable": ("variable (left : True)\n", "exact left"),
    "universe": ("universe left\n", "have := (PUnit.unit : PUnit.{left + 1})\n  trivial"),
    "section": ("section\nlocal instance : OfNat Nat 9 := ⟨0⟩\n", "exact of_decide_eq_true rfl"),
    "reducible": ("attribute [irreducible] Nat.add\n", "have : 2 + 2 = 4 := by decide\n  trivial"),
    "initialize": ("initialize left : Nat ← pure 3\n", "have := left\n  trivial"),
    "syntax": ('syntax "left" : tactic\n', "left"),
    "nothing": ("", "trivial"),
    "wrong": ("", "exact (1 : Nat)"),
    "cut": ("theorem left : True := by\n", "trivial"),
    "unclosed": ("", "trivial\n/- left"),
    "end": ("", "trivial\nend Left"),
}


MODULE = "external:file:///proverrl/Candidate.lean"
"""What a document's module is called, in the names that Lean makes."""


def compare_pairs(names: Sequence[str], server: LeanToolchain) -> None:
    """One after the other in one document, each of them must be as it is in a process alone."""
    candidates = [Candidate(TRUE, LEFT_BEHIND[name][1]) for name in names] + [
        Candidate(TRUE, body, prelude) for prelude, body in map(LEFT_BEHIND.__getitem__, names)
    ]
    alone = judge_all(replace(server, backend="lean-file"), candidates)
    order = list(range(len(candidates)))
    order += random.Random(0).choices(order, k=8 * len(order))
    together = judge_all(server, [candidates[number] for number in order])
    for (before, number), verdict in zip(pairwise(order), together[1:], strict=True):
        lonely, texts = alone[number], (candidates[before].source, candidates[number].source)
        assert (verdict.status, texts) == (lonely.status, texts)
        assert (verdict.axioms, texts) == (lonely.axioms, texts)
        said = [d.message.replace(MODULE, "Candidate") for d in verdict.diagnostics]
        assert said == [d.message for d in lonely.diagnostics]


def test_nothing_of_one_candidate_reaches_the_next(server: LeanToolchain) -> None:
    compare_pairs(("def", "instance", "option", "macro", "notation", "simp", "open"), server)


@pytest.mark.slow
def test_nothing_of_any_candidate_reaches_the_next(server: LeanToolchain) -> None:
    """Over 500 pairs of 60 candidates."""
    compare_pairs(tuple(LEFT_BEHIND), server)


def test_a_definition_asks_for_code_that_lean_compiles(toolchain: LeanToolchain) -> None:
    statement = "def solve : { f : Nat → Nat // ∀ x, f x = 2 * x } :=\n  _\n"
    problem = replace(state(statement), kind="term")
    choice = "(⟨2 * x, rfl⟩ : ∃ y, y = 2 * x)"
    chosen = f"⟨fun x => Classical.choose {choice}, fun x => Classical.choose_spec {choice}⟩"
    go = "def go : Nat → Nat\n  | 0 => 0\n  | n + 1 => go n + 2\n"
    proof = (
        "by\n    induction x with\n    | zero => rfl\n    | succ n ih => simp only [go, ih]; rfl"
    )
    right = "⟨fun x => 2 * x, fun _ => rfl⟩"
    candidates = [
        Candidate(problem, right),
        Candidate(problem, f"⟨go, fun x => {proof}⟩", go),
        Candidate(problem, right.replace("2", "3")),
        Candidate(problem, chosen),
        Candidate(problem, f"open Classical in {chosen}"),
    ]
    verdicts = judge_all(toolchain, candidates)
    assert [v.status for v in verdicts] == [Status.PROVED] * 2 + [Status.REJECTED] * 3
    assert "noncomputable" in verdicts[3].diagnostics[0].message
