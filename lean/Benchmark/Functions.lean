/-!
Functions: composition, injections, inverses. Core Lean only, written for this project.
No Lean has read this file yet: see README.md.
-/

namespace Benchmark.Functions

/-- Different arguments have different values. -/
def Injective {α β : Type} (f : α → β) : Prop :=
  ∀ a b, f a = f b → a = b

/-- Every element is a value. -/
def Surjective {α β : Type} (f : α → β) : Prop :=
  ∀ b, ∃ a, f a = b

/-- Apply a function `n` times. -/
def iterate {α : Type} (f : α → α) : Nat → α → α
  | 0, x => x
  | n + 1, x => iterate f n (f x)

theorem compose_assoc {α β γ δ : Type} (f : α → β) (g : β → γ) (h : γ → δ) :
    (h ∘ g) ∘ f = h ∘ (g ∘ f) :=
  rfl

theorem extensional {α β : Type} (f g : α → β) (h : ∀ x, f x = g x) : f = g :=
  funext h

theorem congruence {α β : Type} (f : α → β) {a b : α} (h : a = b) : f a = f b :=
  congrArg f h

theorem injective_id {α : Type} : Injective (fun x : α => x) :=
  fun _ _ h => h

theorem surjective_id {α : Type} : Surjective (fun x : α => x) :=
  fun b => ⟨b, rfl⟩

theorem injective_compose {α β γ : Type} (f : α → β) (g : β → γ) (hf : Injective f)
    (hg : Injective g) :
    Injective (fun x => g (f x)) := by
  intro a b h
  exact hf a b (hg (f a) (f b) h)

theorem surjective_compose {α β γ : Type} (f : α → β) (g : β → γ) (hf : Surjective f)
    (hg : Surjective g) :
    Surjective (fun x => g (f x)) := by
  intro c
  cases hg c with
  | intro b hb =>
    cases hf b with
    | intro a ha =>
      have e : g (f a) = c := by rw [ha, hb]
      exact ⟨a, e⟩

theorem injective_of_left_inverse {α β : Type} (f : α → β) (g : β → α) (h : ∀ x, g (f x) = x) :
    Injective f := by
  intro a b hab
  rw [← h a, ← h b, hab]

theorem injective_of_compose {α β γ : Type} (f : α → β) (g : β → γ)
    (h : Injective (fun x => g (f x))) :
    Injective f := by
  intro a b hab
  exact h a b (congrArg g hab)

theorem iterate_commutes {α : Type} (f : α → α) (n : Nat) (x : α) :
    iterate f n (f x) = f (iterate f n x) := by
  induction n generalizing x with
  | zero => rfl
  | succ k ih => exact ih (f x)

theorem iterate_add {α : Type} (f : α → α) (m n : Nat) (x : α) :
    iterate f (m + n) x = iterate f n (iterate f m x) := by
  induction m generalizing x with
  | zero =>
    show iterate f (0 + n) x = iterate f n x
    rw [Nat.zero_add]
  | succ k ih =>
    have e : k + 1 + n = k + n + 1 := by omega
    rw [e]
    exact ih (f x)

theorem no_surjection_to_predicates {α : Type} (f : α → (α → Bool)) : ¬Surjective f := by
  intro h
  have key : ∀ b : Bool, b ≠ !b := by
    intro b
    cases b <;> decide
  cases h (fun x => !(f x x)) with
  | intro a ha => exact key (f a a) (congrFun ha a)

end Benchmark.Functions
