/-!
Arithmetic of natural numbers. Core Lean only, written for this project.
No Lean has read this file yet: see README.md.
-/

namespace Benchmark.Naturals

/-- The sum of the numbers below `n`. -/
def sumBelow : Nat → Nat
  | 0 => 0
  | n + 1 => sumBelow n + n

/-- The product of the numbers from 1 to `n`. -/
def factorial : Nat → Nat
  | 0 => 1
  | n + 1 => (n + 1) * factorial n

theorem le_add_right (a b : Nat) : a ≤ a + b :=
  Nat.le_add_right a b

theorem add_zero_right (n : Nat) : n + 0 = n :=
  rfl

theorem add_swap (a b : Nat) : a + b = b + a :=
  Nat.add_comm a b

theorem zero_add_left (n : Nat) : 0 + n = n := by
  induction n with
  | zero => rfl
  | succ k ih => exact congrArg Nat.succ ih

theorem lt_succ (n : Nat) : n < n + 1 := by
  omega

theorem add_left_swap (a b c : Nat) : a + (b + c) = b + (a + c) := by
  omega

theorem double (n : Nat) : n + n = 2 * n := by
  omega

theorem le_antisymmetric (a b : Nat) (h₁ : a ≤ b) (h₂ : b ≤ a) : a = b := by
  omega

theorem mul_add_distrib (a b c : Nat) : a * (b + c) = a * b + a * c :=
  Nat.mul_add a b c

theorem positive_successor (n : Nat) (h : 0 < n) : ∃ m, n = m + 1 := by
  cases n with
  | zero => exact absurd h (Nat.lt_irrefl 0)
  | succ m => exact ⟨m, rfl⟩

theorem even_or_odd (n : Nat) : (∃ k, n = 2 * k) ∨ ∃ k, n = 2 * k + 1 := by
  cases Nat.mod_two_eq_zero_or_one n with
  | inl h => exact Or.inl ⟨n / 2, by omega⟩
  | inr h => exact Or.inr ⟨n / 2, by omega⟩

theorem sum_of_odds (a b : Nat) (ha : a % 2 = 1) (hb : b % 2 = 1) : (a + b) % 2 = 0 := by
  omega

theorem remainder_bound (n : Nat) : n % 7 ≤ 6 := by
  omega

theorem division_law (n : Nat) : 5 * (n / 5) + n % 5 = n := by
  omega

theorem square_successor (n : Nat) : (n + 1) * (n + 1) = n * n + 2 * n + 1 := by
  rw [Nat.add_mul, Nat.mul_add]
  omega

theorem sumBelow_le_succ (n : Nat) : sumBelow n ≤ sumBelow (n + 1) :=
  Nat.le_add_right (sumBelow n) n

theorem factorial_positive (n : Nat) : 0 < factorial n := by
  induction n with
  | zero => exact Nat.zero_lt_one
  | succ k ih => exact Nat.mul_pos (Nat.succ_pos k) ih

theorem sumBelow_succ (n : Nat) : sumBelow (n + 1) = sumBelow n + n :=
  rfl

theorem double_sumBelow (n : Nat) : 2 * sumBelow n + n = n * n := by
  induction n with
  | zero => rfl
  | succ k ih =>
    have step : sumBelow (k + 1) = sumBelow k + k := rfl
    have square : (k + 1) * (k + 1) = k * k + k + (k + 1) := by
      rw [Nat.add_mul, Nat.mul_add]
      omega
    rw [step, square]
    omega

theorem factorial_ge_self (n : Nat) : n ≤ factorial n := by
  cases n with
  | zero => exact Nat.zero_le _
  | succ k =>
    have pos : 0 < factorial k := by
      induction k with
      | zero => exact Nat.zero_lt_one
      | succ j ih => exact Nat.mul_pos (Nat.succ_pos j) ih
    exact Nat.le_mul_of_pos_right (k + 1) pos

theorem no_half_of_one (n : Nat) : 2 * n ≠ 1 := by
  omega

theorem strong_induction {p : Nat → Prop} (h : ∀ n, (∀ m, m < n → p m) → p n) (n : Nat) : p n := by
  have all : ∀ k, ∀ m, m < k → p m := by
    intro k
    induction k with
    | zero =>
      intro m hm
      exact absurd hm (Nat.not_lt_zero m)
    | succ j ih =>
      intro m hm
      exact h m (fun i hi => ih i (Nat.lt_of_lt_of_le hi (Nat.le_of_lt_succ hm)))
  exact all (n + 1) n (Nat.lt_succ_self n)

end Benchmark.Naturals
