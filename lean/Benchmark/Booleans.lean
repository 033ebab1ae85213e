/-!
Booleans and decisions. Core Lean only, written for this project.
No Lean has read this file yet: see README.md.
-/

namespace Benchmark.Booleans

theorem not_not (b : Bool) : (!(!b)) = b := by
  cases b <;> rfl

theorem and_comm (a b : Bool) : (a && b) = (b && a) := by
  cases a <;> cases b <;> rfl

theorem or_true (b : Bool) : (b || true) = true := by
  cases b <;> rfl

theorem and_assoc (a b c : Bool) : ((a && b) && c) = (a && (b && c)) := by
  cases a <;> cases b <;> cases c <;> rfl

theorem de_morgan (a b : Bool) : (!(a && b)) = (!a || !b) := by
  cases a <;> cases b <;> rfl

theorem ne_true_is_false (b : Bool) (h : b ≠ true) : b = false := by
  cases b with
  | false => rfl
  | true => exact absurd rfl h

theorem bne_self (b : Bool) : (b != b) = false := by
  cases b <;> rfl

theorem and_eq_true_left (a b : Bool) (h : (a && b) = true) : a = true := by
  cases a with
  | true => rfl
  | false => exact h

theorem if_swap (b : Bool) (x y : Nat) : (if b then x else y) = (if !b then y else x) := by
  cases b <;> rfl

theorem three_pigeons (a b c : Bool) : a = b ∨ b = c ∨ a = c := by
  cases a <;> cases b <;> cases c <;> decide

theorem function_thrice (f : Bool → Bool) (b : Bool) : f (f (f b)) = f b := by
  cases ht : f true <;> cases hf : f false <;> cases b <;> simp [ht, hf]

end Benchmark.Booleans
