/-!
Propositional logic: connectives and how they depend on each other. Core Lean only, written for this project.
No Lean has read this file yet: see README.md.
-/

namespace Benchmark.Propositional

theorem identity {p : Prop} : p → p :=
  fun h => h

theorem and_left_of {p q : Prop} (h : p ∧ q) : p :=
  h.1

theorem and_swap {p q : Prop} (h : p ∧ q) : q ∧ p :=
  ⟨h.2, h.1⟩

theorem or_swap {p q : Prop} (h : p ∨ q) : q ∨ p := by
  cases h with
  | inl hp => exact Or.inr hp
  | inr hq => exact Or.inl hq

theorem imp_trans {p q r : Prop} (hpq : p → q) (hqr : q → r) : p → r := by
  intro hp
  exact hqr (hpq hp)

theorem not_not_intro {p : Prop} (hp : p) : ¬¬p :=
  fun hn => hn hp

theorem contrapose {p q : Prop} (h : p → q) (hq : ¬q) : ¬p :=
  fun hp => hq (h hp)

theorem curry {p q r : Prop} (h : p ∧ q → r) : p → q → r := by
  intro hp hq
  exact h ⟨hp, hq⟩

theorem uncurry {p q r : Prop} (h : p → q → r) : p ∧ q → r := by
  intro hpq
  exact h hpq.1 hpq.2

theorem and_assoc_iff {p q r : Prop} : (p ∧ q) ∧ r ↔ p ∧ (q ∧ r) := by
  constructor
  · intro h
    exact ⟨h.1.1, h.1.2, h.2⟩
  · intro h
    exact ⟨⟨h.1, h.2.1⟩, h.2.2⟩

theorem not_or_iff {p q : Prop} : ¬(p ∨ q) ↔ ¬p ∧ ¬q := by
  constructor
  · intro h
    exact ⟨fun hp => h (Or.inl hp), fun hq => h (Or.inr hq)⟩
  · intro h hpq
    cases hpq with
    | inl hp => exact h.1 hp
    | inr hq => exact h.2 hq

theorem not_and_of_or_not {p q : Prop} (h : ¬p ∨ ¬q) : ¬(p ∧ q) := by
  intro hpq
  cases h with
  | inl hp => exact hp hpq.1
  | inr hq => exact hq hpq.2

theorem and_or_distrib {p q r : Prop} (h : p ∧ (q ∨ r)) : (p ∧ q) ∨ (p ∧ r) := by
  cases h.2 with
  | inl hq => exact Or.inl ⟨h.1, hq⟩
  | inr hr => exact Or.inr ⟨h.1, hr⟩

theorem or_of_not_imp {p q : Prop} (h : p ∨ q) (hp : ¬p) : q := by
  cases h with
  | inl h => exact absurd h hp
  | inr h => exact h

theorem iff_not_self {p : Prop} : ¬(p ↔ ¬p) := by
  intro h
  have hn : ¬p := fun hp => h.mp hp hp
  exact hn (h.mpr hn)

theorem triple_negation {p : Prop} (h : ¬¬¬p) : ¬p :=
  fun hp => h (fun hn => hn hp)

theorem not_not_em (p : Prop) : ¬¬(p ∨ ¬p) := by
  intro h
  exact h (Or.inr (fun hp => h (Or.inl hp)))

theorem by_contradiction {p : Prop} (h : ¬¬p) : p := by
  cases Classical.em p with
  | inl hp => exact hp
  | inr hn => exact absurd hn h

theorem peirce {p q : Prop} (h : (p → q) → p) : p := by
  cases Classical.em p with
  | inl hp => exact hp
  | inr hn => exact h (fun hp => absurd hp hn)

theorem imp_iff_not_or {p q : Prop} : (p → q) ↔ (¬p ∨ q) := by
  constructor
  · intro h
    cases Classical.em p with
    | inl hp => exact Or.inr (h hp)
    | inr hn => exact Or.inl hn
  · intro h hp
    cases h with
    | inl hn => exact absurd hp hn
    | inr hq => exact hq

theorem linearity (p q : Prop) : (p → q) ∨ (q → p) := by
  cases Classical.em p with
  | inl hp => exact Or.inr (fun _ => hp)
  | inr hn => exact Or.inl (fun hp => absurd hp hn)

end Benchmark.Propositional
