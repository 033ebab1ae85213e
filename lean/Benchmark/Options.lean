/-!
Options and pairs. Core Lean only, written for this project.
No Lean has read this file yet: see README.md.
-/

namespace Benchmark.Options

theorem some_injective {α : Type} {a b : α} (h : some a = some b) : a = b := by
  cases h
  rfl

theorem none_ne_some {α : Type} (a : α) : none ≠ some a := by
  intro h
  cases h

theorem pair_eta {α β : Type} (x : α × β) : (x.1, x.2) = x :=
  rfl

theorem map_some {α β : Type} (f : α → β) (a : α) : (some a).map f = some (f a) :=
  rfl

theorem none_or_some {α : Type} (o : Option α) : o = none ∨ ∃ a, o = some a := by
  cases o with
  | none => exact Or.inl rfl
  | some a => exact Or.inr ⟨a, rfl⟩

theorem swap_twice {α β : Type} (x : α × β) : Prod.swap (Prod.swap x) = x :=
  rfl

theorem get_default_of_none {α : Type} (a : α) : (none : Option α).getD a = a :=
  rfl

theorem map_compose {α β γ : Type} (f : α → β) (g : β → γ) (o : Option α) :
    (o.map f).map g = o.map (fun x => g (f x)) := by
  cases o <;> rfl

theorem bind_some {α : Type} (o : Option α) : o.bind some = o := by
  cases o <;> rfl

theorem bind_assoc {α β γ : Type} (o : Option α) (f : α → Option β) (g : β → Option γ) :
    (o.bind f).bind g = o.bind (fun x => (f x).bind g) := by
  cases o <;> rfl

theorem pair_ext {α β : Type} (x y : α × β) (h₁ : x.1 = y.1) (h₂ : x.2 = y.2) : x = y := by
  cases x with
  | mk a b =>
    cases y with
    | mk c d =>
      have e₁ : a = c := h₁
      have e₂ : b = d := h₂
      rw [e₁, e₂]

end Benchmark.Options
