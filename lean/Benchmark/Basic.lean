/-!
Elementary theorems in core Lean, written for this project, with reference proofs.
No theorem here needs more than the `Init` library that every Lean file imports.
-/

namespace Benchmark

/-! ### Propositions -/

theorem and_swap {p q : Prop} (h : p ∧ q) : q ∧ p :=
  ⟨h.2, h.1⟩

theorem or_swap {p q : Prop} (h : p ∨ q) : q ∨ p := by
  cases h with
  | inl hp => exact Or.inr hp
  | inr hq => exact Or.inl hq

theorem contrapose {p q : Prop} (h : p → q) (hq : ¬q) : ¬p :=
  fun hp => hq (h hp)

theorem not_exists_imp_forall_not {α : Type} {p : α → Prop} (h : ¬∃ x, p x) : ∀ x, ¬p x :=
  fun x hx => h ⟨x, hx⟩

/-! ### Booleans -/

theorem bool_not_not (b : Bool) : (!(!b)) = b := by
  cases b <;> rfl

theorem bool_and_comm (a b : Bool) : (a && b) = (b && a) := by
  cases a <;> cases b <;> rfl

/-! ### Natural numbers -/

theorem zero_add_nat (n : Nat) : 0 + n = n := by
  induction n with
  | zero => rfl
  | succ k ih => rw [Nat.add_succ, ih]

theorem add_left_swap (a b c : Nat) : a + (b + c) = b + (a + c) := by
  rw [← Nat.add_assoc, Nat.add_comm a b, Nat.add_assoc]

theorem le_add_right_nat (a b : Nat) : a ≤ a + b :=
  Nat.le_add_right a b

/-- The sum of the first `n` natural numbers, `0` to `n - 1`. -/
def sumBelow : Nat → Nat
  | 0 => 0
  | n + 1 => sumBelow n + n

theorem sumBelow_le_succ (n : Nat) : sumBelow n ≤ sumBelow (n + 1) :=
  Nat.le_add_right (sumBelow n) n

/-! ### Lists -/

theorem append_nil_list {α : Type} (xs : List α) : xs ++ [] = xs := by
  induction xs with
  | nil => rfl
  | cons x rest ih => rw [List.cons_append, ih]

theorem length_append_list {α : Type} (xs ys : List α) :
    (xs ++ ys).length = xs.length + ys.length := by
  induction xs with
  | nil => rw [List.nil_append, List.length_nil, Nat.zero_add]
  | cons x rest ih =>
    rw [List.cons_append, List.length_cons, List.length_cons, ih, Nat.add_right_comm]

end Benchmark
