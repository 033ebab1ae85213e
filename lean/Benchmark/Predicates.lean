/-!
Predicate logic: quantifiers, equality and relations. Core Lean only, written for this project.
No Lean has read this file yet: see README.md.
-/

namespace Benchmark.Predicates

theorem forall_and_left {α : Type} {p q : α → Prop} (h : ∀ x, p x ∧ q x) : ∀ x, p x :=
  fun x => (h x).1

theorem exists_of_forall {p : Nat → Prop} (h : ∀ n, p n) : ∃ n, p n :=
  ⟨0, h 0⟩

theorem eq_symmetric {α : Type} {a b : α} (h : a = b) : b = a :=
  h.symm

theorem not_exists_imp_forall_not {α : Type} {p : α → Prop} (h : ¬∃ x, p x) : ∀ x, ¬p x :=
  fun x hx => h ⟨x, hx⟩

theorem forall_not_imp_not_exists {α : Type} {p : α → Prop} (h : ∀ x, ¬p x) : ¬∃ x, p x := by
  intro hex
  cases hex with
  | intro x hx => exact h x hx

theorem exists_or {α : Type} {p q : α → Prop} (h : ∃ x, p x ∨ q x) : (∃ x, p x) ∨ ∃ x, q x := by
  cases h with
  | intro x hx =>
    cases hx with
    | inl hp => exact Or.inl ⟨x, hp⟩
    | inr hq => exact Or.inr ⟨x, hq⟩

theorem exists_forall_swap {α β : Type} {r : α → β → Prop} (h : ∃ x, ∀ y, r x y) :
    ∀ y, ∃ x, r x y := by
  intro y
  cases h with
  | intro x hx => exact ⟨x, hx y⟩

theorem rewrite_predicate {α : Type} {p : α → Prop} {a b : α} (h : a = b) (ha : p a) : p b :=
  h ▸ ha

theorem unique_choice {α : Type} {p : α → Prop} {a b : α} (h : ∃ c, ∀ x, p x → x = c) (ha : p a)
    (hb : p b) :
    a = b := by
  cases h with
  | intro c hc => exact (hc a ha).trans (hc b hb).symm

theorem not_forall_imp_exists {α : Type} {p : α → Prop} (h : ¬∀ x, p x) : ∃ x, ¬p x := by
  cases Classical.em (∃ x, ¬p x) with
  | inl hex => exact hex
  | inr hn =>
    exact False.elim (h (fun x => Classical.byContradiction (fun hx => hn ⟨x, hx⟩)))

theorem transitive_chain {α : Type} {r : α → α → Prop} (ht : ∀ x y z, r x y → r y z → r x z)
    {a b c d : α} (h₁ : r a b) (h₂ : r b c) (h₃ : r c d) :
    r a d :=
  ht a b d h₁ (ht b c d h₂ h₃)

theorem drinker {α : Type} (a : α) (p : α → Prop) : ∃ x, p x → ∀ y, p y := by
  cases Classical.em (∃ x, ¬p x) with
  | inl hex =>
    cases hex with
    | intro x hx => exact ⟨x, fun h => absurd h hx⟩
  | inr hn =>
    exact ⟨a, fun _ y => Classical.byContradiction (fun hy => hn ⟨y, hy⟩)⟩

theorem no_barber {α : Type} (shaves : α → α → Prop) : ¬∃ b, ∀ x, shaves b x ↔ ¬shaves x x := by
  intro h
  cases h with
  | intro b hb =>
    have hn : ¬shaves b b := fun hs => (hb b).mp hs hs
    exact hn ((hb b).mpr hn)

theorem cantor {α : Type} (f : α → α → Prop) : ¬∀ s : α → Prop, ∃ a, ∀ x, f a x ↔ s x := by
  intro h
  cases h (fun x => ¬f x x) with
  | intro a ha =>
    have hn : ¬f a a := fun hf => (ha a).mp hf hf
    exact hn ((ha a).mpr hn)

end Benchmark.Predicates
