/-!
Arithmetic of integers. Core Lean only, written for this project.
No Lean has read this file yet: see README.md.
-/

namespace Benchmark.Integers

theorem add_neg (a : Int) : a + -a = 0 := by
  omega

theorem sub_self_zero (a : Int) : a - a = 0 := by
  omega

theorem neg_involutive (a : Int) : - -a = a := by
  omega

theorem add_swap (a b : Int) : a + b = b + a :=
  Int.add_comm a b

theorem solve_linear (x : Int) (h : 2 * x + 3 = 11) : x = 4 := by
  omega

theorem between (x : Int) (h₁ : 3 < x) (h₂ : x < 5) : x = 4 := by
  omega

theorem neg_reverses (a b : Int) (h : a ≤ b) : -b ≤ -a := by
  omega

theorem parity_conflict (x y : Int) : 2 * x ≠ 2 * y + 1 := by
  omega

theorem two_equations (x y : Int) (h₁ : x + y = 10) (h₂ : x - y = 4) : x = 7 ∧ y = 3 := by
  constructor
  · omega
  · omega

theorem remainder_range (x : Int) : 0 ≤ x % 6 ∧ x % 6 < 6 := by
  constructor
  · omega
  · omega

theorem sign_cases (x : Int) : x < 0 ∨ x = 0 ∨ 0 < x := by
  omega

theorem consecutive_multiple_of_three (x : Int) :
    x % 3 = 0 ∨ (x + 1) % 3 = 0 ∨ (x + 2) % 3 = 0 := by
  omega

end Benchmark.Integers
