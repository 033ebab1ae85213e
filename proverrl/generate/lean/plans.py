"""Theorems of logic made from their proofs.

Flows in: a random source, a style and names. Flows out: theorems, with and without points. A proof
is drawn from the goal down, step by step, and each step puts into the statement the hypothesis that
it needs; a fact that a step yields (an alternative, a witness, an assumption) must be used below
it, so no step is idle. At last come hypotheses that lead nowhere. Names are drawn when the theorem
is accepted: until then a name is its role and a number, ``hyp#3``. Not handled here: whether a
theorem has a shorter proof.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from proverrl.generate.families import Names, ProgramText
from proverrl.generate.lean.draft import POOLS, arm, ask_theorem, split, stack
from proverrl.generate.lean.formulas import FALSE, Fact, Formula, Scope, is_local, join

_MAX_WIDTH = 76
_BOUND = ("point#90", "point#91", "point#92")
_SLOT = re.compile(r"(\w+)#\d+")


@dataclass(frozen=True, slots=True)
class Style:
    """The style of a family's plans.

    ``tactics`` and ``decoys`` are ranges: of the number of tactics, and of hypotheses that
    mislead. ``root``, ``steps``, ``goals`` and ``clues`` are kinds, repeated by weight: of the
    theorem, of steps towards an atom, of premises of a rule, of alternatives. ``edges`` is the
    share of the relation among atoms. A proof must hold the steps ``needs`` and so many
    ``splits``; ``reuse`` is the chance that a branch splits a used disjunction again.
    """

    tactics: tuple[int, int]
    decoys: tuple[int, int]
    root: str
    steps: str
    goals: str
    clues: str
    preds: int = 0
    points: int = 0
    edges: float = 0
    needs: str = ""
    splits: int = 0
    reuse: float = 0.3


class Plan:
    """One theorem under construction."""

    def __init__(self, rng: random.Random, style: Style) -> None:
        self._rng, self._style = rng, style
        self._hyps: dict[Formula, str] = {}
        self._rules: list[tuple[tuple[Formula, ...], Formula]] = []
        self._bases: list[Fact] = []
        self._splits: list[Fact] = []
        self._seen: set[Formula] = set()
        self._dead: list[Formula] = []
        self._points = tuple(f"point#{i}" for i in range(style.points))
        self._is_idle = False
        self._taken: set[str] = set()
        self._turns = rng.randrange(2)
        size = rng.randint(*style.tactics)
        self._goal = self._draw(rng.choice(style.root.split()), self._points)
        self._proof = self._prove(self._goal, Scope(), (), size)
        for _ in range(rng.randint(*style.decoys)):
            self._mislead()

    def write(self, names: Names) -> ProgramText | None:
        """The theorem; None where it is too short, too long, too wide, given, needs
        too many names or holds an idle step."""
        style = self._style
        hyps = [f"({name} : {formula})" for formula, name in self._hyps.items()]
        self._rng.shuffle(hyps)
        text = " ".join([*hyps, str(self._goal), *self._proof])
        slots = list(dict.fromkeys(match[0] for match in _SLOT.finditer(text)))
        roles = [slot.split("#")[0] for slot in slots]
        num_tactics = sum(not line.lstrip().startswith("|") for line in self._proof)
        if not (
            not self._is_idle
            and self._goal not in self._hyps
            and self._taken.issuperset(style.needs.split())
            and style.tactics[0] <= num_tactics <= style.tactics[1]
            and style.splits <= sum("cases" in line for line in self._proof)
            and all(len(_SLOT.sub("name", hyp)) <= _MAX_WIDTH for hyp in hyps)
            and all(roles.count(role) <= min(map(len, POOLS[role])) for role in set(roles))
        ):
            return None
        given = {slot: names.pick(role) for slot, role in zip(slots, roles, strict=True)}
        space = names.pick("type") if style.points else ""
        kinds = {
            "pred#": f"{space} → Prop",
            "relation#": f"{space} → {space} → Prop",
            "prop#": "Prop",
            "point#": space,
        }
        binders = [f"({space} : Type)"] if space else []
        for role, kind in kinds.items():
            outer = [slot for slot in slots if slot.startswith(role) and slot not in _BOUND]
            if same := [given[slot] for slot in outer if not is_local(slot)]:
                binders.append(f"({' '.join(same)} : {kind})")

        def name(text: str) -> str:
            return _SLOT.sub(lambda match: given[match[0]], text)

        proof = [name(line) for line in self._proof]
        goal = name(str(self._goal))
        return ask_theorem(names.pick("theorem"), [*binders, *map(name, hyps)], goal, proof)

    # Formulas, and how they come into the statement.

    def _atom(self, points: Sequence[str], about: str = "") -> Formula:
        """An atom, if possible one that stands nowhere yet, over ``points``; one is ``about``."""
        style, rng = self._style, self._rng
        atom = Formula((f"prop#{len(self._seen)}",))
        for _ in range(10 if style.points else 0):
            first = about or rng.choice(points)
            if rng.random() < style.edges:
                pair = [first, rng.choice([point for point in points if point != first])]
                atom = Formula(("relation#0", *rng.sample(pair, 2)))
            else:
                atom = Formula((f"pred#{rng.randrange(style.preds)}", first))
            if atom not in self._seen:
                break
        return atom if about else self._note(atom)

    def _note(self, formula: Formula) -> Formula:
        """The formula, which should be new: it would be proved already, or a split idle."""
        self._is_idle |= formula in self._seen
        self._seen.add(formula)
        return formula

    def _draw(self, kind: str, points: Sequence[str], goal: Formula = FALSE) -> Formula:
        """A formula of a kind: a sign, "atom", "goal" (``goal`` itself) or "→goal"."""
        if kind == "goal":
            return goal
        if kind == "atom":
            return self._atom(points)
        if kind == "→goal":
            return join("→", self._atom(points), goal)
        if kind == "=":
            first = self._rng.choice([p for p in points if p in goal.head] or points)
            second = self._rng.choice([point for point in points if point != first])
            ends = self._rng.sample([first, second], 2)
            self._seen.add(Formula(("=", *ends[::-1])))
            return self._note(Formula(("=", *ends)))
        if kind == "∃":
            bound = _BOUND[2]
            atoms = [self._atom(points, bound) for _ in range(self._rng.randint(1, 2))]
            return self._note(Formula(("∃", bound), (join("∧", *dict.fromkeys(atoms)),)))
        if kind == "↔":
            signs = self._rng.choice(("atom ∨", "∨ ∨", "∧ ∨", "∨ atom", "∧ atom")).split()
            left, right = (self._draw(sign, points) for sign in signs)
            if right.parts and self._rng.random() < 0.5:
                right = join(right.sign, *self._rng.sample([right.parts[0], left], 2))
            return join("↔", left, right)
        return join(kind, self._atom(points), *([] if kind == "¬" else [self._atom(points)]))

    def _assume(self, formula: Formula) -> str:
        """The name of a hypothesis of the statement."""
        return self._hyps.setdefault(formula, f"hyp#{len(self._hyps)}")

    def _find(self, formula: Formula, scope: Scope) -> str:
        """The name of a fact that is given or has been found; empty for none."""
        found = (fact.term for fact in scope.facts if fact.formula == formula)
        return next(found, self._hyps.get(formula, ""))

    def _state(self, premises: Sequence[Formula], conclusion: Formula) -> str:
        """A rule, general in all local points and perhaps in one more; its term at these points."""
        rule = join("→", *premises, conclusion)
        self._is_idle |= len({*premises, conclusion}) <= len(premises)
        points = [point for point in dict.fromkeys(rule.words()) if is_local(point)]
        is_equation = "=" in rule.words()  # which has no type when both its ends are bound
        self._is_idle |= is_equation and len(points) > 1
        others = [word for part in premises for word in part.words() if word in self._points]
        if others and len(points) < 2 and not is_equation and self._rng.random() < 0.6:
            points.append(self._rng.choice(others))
        for point, bound in zip(points, _BOUND, strict=False):
            rule = rule.put(point, bound)
        if points:
            rule = Formula(("∀", *_BOUND[: len(points)]), (rule,))
        if premises:
            self._rules.append((tuple(premises), conclusion))
        return " ".join([self._assume(rule), *points])

    def _bring(self, kind: str, goal: Formula, scope: Scope, must: tuple[Fact, ...]) -> list[Fact]:
        """A fact of a kind from the statement, perhaps through a rule that uses the first of
        ``must``; then the rest of ``must``."""
        can_cause = must and not must[0].formula.parts and " " not in must[0].term
        cause = must[:1] if can_cause and self._rng.random() < 0.5 else ()
        points = (*self._points, *scope.points) if cause else self._points
        formula = self._draw(kind, points, goal)
        if kind == "∨":
            clues = self._rng.sample(self._style.clues.split(), 2)
            formula = join("∨", *(self._draw(clue, points, goal) for clue in clues))
        term = self._state([fact.formula for fact in cause], formula)
        fact = Fact(" ".join([term, *(fact.term for fact in cause)]), formula)
        return [fact, *must[len(cause) :]]

    # The proof, from the goal down.

    def _prove(self, goal: Formula, scope: Scope, must: tuple[Fact, ...], size: int) -> list[str]:
        """A proof of about ``size`` tactics that uses every fact of ``must``."""
        for fact in must:
            rest = tuple(other for other in must if other is not fact)
            if fact.formula == goal and not rest:
                return [f"exact {fact.term}"]
            if (lines := self._use(fact, goal, scope, rest, size)) is not None:
                return lines
        can_split = "split" in self._style.steps and size >= 6
        if goal.sign in ("∨", "∃") and can_split and self._rng.random() < 0.6:
            return self._step("split", goal, scope, must, size)
        if goal.parts:
            return self._enter(goal, scope, must, size)
        if goal == FALSE:
            return self._refute(goal, scope, must, size)
        if not must and (known := self._find(goal, scope)):
            return [f"exact {known}"]
        if size <= 3 and len(must) <= 3:
            return self._close(goal, scope, must)
        step = self._rng.choice(self._style.steps.split()) if size > 3 else "apply"
        return self._step(step, goal, scope, must, size)

    def _use(
        self, fact: Fact, goal: Formula, scope: Scope, rest: tuple[Fact, ...], size: int
    ) -> list[str] | None:
        """A proof that begins by taking ``fact`` apart; None for a fact that has no such use."""
        sign, parts = fact.formula.sign, fact.formula.parts
        if sign == "∨":
            owner, lucky = self._rng.randrange(2), self._rng.randrange(2)
            inside = replace(scope, split=scope.split | {fact.term})
            arms = []
            for i, side in enumerate(("inl", "inr")):
                clue, below = inside.learn(parts[i], i == lucky)
                facts = (clue, *(rest if i == owner else ()))
                lines = self._prove(goal, below, facts, (size - 1 + i) // 2)
                arms.append(arm(f"{side} {clue.term}", lines))
            return split(f"cases {fact.term}", *arms)
        if sign in ("∧", "∃"):
            pattern = []
            if sign == "∃":
                point, scope = scope.meet()
                body = parts[0].put(fact.formula.head[1], point)
                parts, pattern = body.parts or (body,), [point]
            found = []
            for part in parts:
                piece, scope = scope.learn(part, fact.guess)
                found.append(piece)
            names = ", ".join([*pattern, *(piece.term for piece in found)])
            lines = self._prove(goal, scope, (*rest, *found), size - 1)
            return [f"obtain ⟨{names}⟩ := {fact.term}", *lines]
        if sign == "→" and parts[1] == goal:
            return [f"apply {fact.term}", *self._prove(parts[0], scope, rest, size - 1)]
        if fact.formula.head[0] == "=" and not goal.parts and goal.head[0] != "=":
            _, left, right = fact.formula.head
            for old, new, arrow in ((left, right, ""), (right, left, "← ")):
                moved = goal.put(old, new)
                is_told = moved in self._hyps and not rest
                if old in goal.head and (is_told or moved not in self._seen):
                    self._seen.add(moved)
                    self._taken.add("=")
                    lines = self._prove(moved, scope, rest, size - 1)
                    return [f"rw [{arrow}{fact.term}]", *lines]
        return None

    def _enter(self, goal: Formula, scope: Scope, must: tuple[Fact, ...], size: int) -> list[str]:
        """A proof that begins by taking the goal apart."""
        sign, parts = goal.sign, goal.parts
        if sign in ("→", "¬"):
            fact, scope = scope.learn(parts[0])
            below = parts[1] if sign == "→" else FALSE
            return [f"intro {fact.term}", *self._prove(below, scope, (*must, fact), size - 1)]
        if sign == "∨":
            known = [part in [fact.formula for fact in must] for part in parts]
            self._turns += 1
            side = known.index(True) if any(known) else self._turns % 2
            lines = self._prove(parts[side], scope, must, size - 1)
            return [("left", "right")[side], *lines]
        if sign == "∃":
            self._turns += 1
            near = [w for fact in must for w in fact.formula.words() if is_local(w)]
            point = near[0] if near else self._points[self._turns % len(self._points)]
            body = parts[0].put(goal.head[1], point)
            return [f"refine ⟨{point}, ?_⟩", *self._prove(body, scope, must, size - 1)]
        if sign == "↔":
            parts = (join("→", *parts), join("→", *parts[::-1]))
        return ["constructor", *self._fork(parts, scope, must, size - 1)]

    def _fork(
        self, goals: Sequence[Formula], scope: Scope, must: tuple[Fact, ...], size: int
    ) -> list[str]:
        """A proof of each goal, each fact of ``must`` used in one of them."""
        owners = [self._rng.randrange(len(goals)) for _ in must]
        cuts = sorted(self._rng.randint(1, max(1, size - 1)) for _ in goals[1:])
        blocks = []
        for i, (goal, low, high) in enumerate(zip(goals, [0, *cuts], [*cuts, size], strict=True)):
            own = tuple(fact for fact, owner in zip(must, owners, strict=True) if owner == i)
            blocks.append(self._prove(goal, scope, own, high - low))
        return stack(blocks)

    def _refute(self, goal: Formula, scope: Scope, must: tuple[Fact, ...], size: int) -> list[str]:
        """A proof by a contradiction with a hypothesis."""
        wrong = self._atom(self._points)
        name = self._assume(join("¬", wrong))
        lines = [f"apply {name}", *self._prove(wrong, scope, must, size - 1)]
        return lines if goal == FALSE else ["exfalso", *lines]

    def _close(self, goal: Formula, scope: Scope, must: tuple[Fact, ...]) -> list[str]:
        """A proof by a hypothesis, or by a rule whose premises are facts at hand."""
        is_outer = not any(map(is_local, goal.head))
        if not must and is_outer and self._rng.random() < 0.4:
            name = self._assume(goal)
            self._bases.append(Fact(name, goal))
            return [f"exact {name}"]
        if not must or (len(must) == 1 and self._rng.random() < 0.25):
            known = [fact for fact in scope.facts if not fact.formula.parts] + self._bases
            known = [fact for fact in known if fact not in must and fact.formula != goal]
            if not known or self._rng.random() < 0.4:
                base = self._atom(self._points)
                known = [Fact(self._assume(base), base)]
                self._bases += known
            must = (*must, self._rng.choice(known))
        term = self._state([fact.formula for fact in must], goal)
        return [f"apply {term}", *stack([[f"exact {fact.term}"] for fact in must])]

    def _step(
        self, step: str, goal: Formula, scope: Scope, must: tuple[Fact, ...], size: int
    ) -> list[str]:
        """A proof that begins with a step of a kind, or with a rule where that is impossible."""
        rng, points = self._rng, (*self._points, *scope.points)
        if step == "split" and size >= 5:
            free = [fact for fact in self._splits if fact.term not in scope.split]
            if free and rng.random() < self._style.reuse:
                return self._prove(goal, scope, (*must, rng.choice(free)), size)
            fact, *rest = self._bring("∨", goal, scope, must)
            if len(rest) == len(must) and not any(part.parts for part in fact.formula.parts):
                self._splits.append(fact)
            return self._prove(goal, scope, (fact, *rest), size)
        if step in ("∧", "∃", "=") and not goal.parts:
            fact, *rest = self._bring(step, goal, scope, must)
            if step != "=" or set(fact.formula.head) & set(goal.head):
                return self._prove(goal, scope, (fact, *rest), size)
        if step == "absurd" and any(fact.guess for fact in must):
            return self._refute(goal, scope, must, size - 1)
        if goal.head[0] == "relation#0" and step in ("trans", "symm"):
            _, left, right = goal.head
            middles = [p for p in points if p not in (left, right)]
            middle = rng.choice(middles) if step == "trans" else left
            ends = [(left, middle), (middle, right)] if step == "trans" else [(right, left)]
            edges = [Formula(("relation#0", *pair)) for pair in ends]
            if not self._seen.intersection(edges):
                self._seen.update(edges)
                self._taken.add(step)
                law = join("→", *edges, goal)
                bound = dict(zip(dict.fromkeys((left, middle, right)), _BOUND, strict=False))
                for point, name in bound.items():
                    law = law.put(point, name)
                name = self._assume(Formula(("∀", *bound.values()), (law,)))
                return [
                    " ".join([f"apply {name}", *bound]),
                    *self._fork(edges, scope, must, size - 1),
                ]
        num = rng.choice((1, 2, 2, 3) if size > 6 else (1, 1, 2) if size > 3 else (2,))
        kinds = [rng.choice(self._style.goals.split()) if size >= 5 else "atom" for _ in range(num)]
        premises = [self._draw(kind, points) for kind in kinds]
        term = self._state(premises, goal)
        return [f"apply {term}", *self._fork(premises, scope, must, size - 1)]

    def _mislead(self) -> None:
        """A hypothesis that leads nowhere: it needs or yields something that cannot be had."""
        rng, style = self._rng, self._style
        fresh = Formula((f"prop#{len(self._seen)}",))
        if self._points:
            fresh = Formula((f"pred#{style.preds}", rng.choice(self._points)))
        self._seen.add(fresh)
        if not self._dead or rng.random() < 0.4:
            self._dead.append(fresh)
        dead = rng.choice(self._dead)
        premises, conclusion = rng.choice(self._rules or [((dead,), self._goal)])
        known, kind = rng.choice(premises), rng.randrange(8)
        rule = ([dead], conclusion) if kind < 4 else (rng.sample([dead, known], 2), conclusion)
        if kind == 6 and fresh not in self._dead and not self._points:
            self._state([known], fresh)
        elif kind < 6 and len({*rule[0], rule[1]}) == len(rule[0]) + 1:
            self._state(*rule)
        elif style.edges or "=" in style.steps:
            sign = "=" if rng.random() >= style.edges else "relation#0"
            self._assume(Formula((sign, rng.choice(self._points), f"point#{style.points}")))
        else:
            self._assume(join("¬", dead))
