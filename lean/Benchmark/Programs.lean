/-!
Small functional programs and what they compute. Core Lean only, written for this project.
No Lean has read this file yet: see README.md.
-/

namespace Benchmark.Programs

/-- Reverse with an accumulator. -/
def reverseOnto {α : Type} : List α → List α → List α
  | [], acc => acc
  | x :: xs, acc => reverseOnto xs (x :: acc)

/-- The sum of a list. -/
def total : List Nat → Nat
  | [] => 0
  | x :: xs => x + total xs

/-- The sum of a list with an accumulator. -/
def totalOnto : List Nat → Nat → Nat
  | [], acc => acc
  | x :: xs, acc => totalOnto xs (acc + x)

/-- Put a number before the first that is not smaller. -/
def insertSorted (a : Nat) : List Nat → List Nat
  | [] => [a]
  | x :: xs => if a ≤ x then a :: x :: xs else x :: insertSorted a xs

/-- Sort by insertion. -/
def insertionSort : List Nat → List Nat
  | [] => []
  | x :: xs => insertSorted x (insertionSort xs)

/-- Expressions of numbers and sums. -/
inductive Expr where
  | num : Nat → Expr
  | plus : Expr → Expr → Expr

/-- The value of an expression. -/
def Expr.eval : Expr → Nat
  | .num n => n
  | .plus a b => a.eval + b.eval

/-- An expression with the operands of every sum exchanged. -/
def Expr.flip : Expr → Expr
  | .num n => .num n
  | .plus a b => .plus b.flip a.flip

/-- Compute the larger of two numbers. -/
def larger (a b : Nat) : Nat :=
  if a ≤ b then b else a

theorem total_singleton (n : Nat) : total [n] = n :=
  rfl

theorem eval_plus (a b : Expr) : (Expr.plus a b).eval = a.eval + b.eval :=
  rfl

theorem left_le_larger (a b : Nat) : a ≤ larger a b := by
  unfold larger
  split <;> omega

theorem larger_comm (a b : Nat) : larger a b = larger b a := by
  unfold larger
  split <;> split <;> omega

theorem larger_is_one (a b : Nat) : larger a b = a ∨ larger a b = b := by
  unfold larger
  split
  · exact Or.inr rfl
  · exact Or.inl rfl

theorem total_append (xs ys : List Nat) : total (xs ++ ys) = total xs + total ys := by
  induction xs with
  | nil => exact (Nat.zero_add (total ys)).symm
  | cons x rest ih =>
    show x + total (rest ++ ys) = x + total rest + total ys
    rw [ih, Nat.add_assoc]

theorem totalOnto_correct (xs : List Nat) (acc : Nat) : totalOnto xs acc = acc + total xs := by
  induction xs generalizing acc with
  | nil => rfl
  | cons x rest ih =>
    show totalOnto rest (acc + x) = acc + (x + total rest)
    rw [ih, Nat.add_assoc]

theorem eval_flip (e : Expr) : e.flip.eval = e.eval := by
  induction e with
  | num n => rfl
  | plus a b iha ihb =>
    show b.flip.eval + a.flip.eval = a.eval + b.eval
    rw [iha, ihb, Nat.add_comm]

theorem length_reverseOnto {α : Type} (xs acc : List α) :
    (reverseOnto xs acc).length = xs.length + acc.length := by
  induction xs generalizing acc with
  | nil => exact (Nat.zero_add acc.length).symm
  | cons x rest ih =>
    show (reverseOnto rest (x :: acc)).length = (x :: rest).length + acc.length
    rw [ih, List.length_cons, List.length_cons]
    omega

theorem reverseOnto_append {α : Type} (xs ys acc : List α) :
    reverseOnto (xs ++ ys) acc = reverseOnto ys (reverseOnto xs acc) := by
  induction xs generalizing acc with
  | nil => rfl
  | cons x rest ih => exact ih (x :: acc)

theorem length_insert (a : Nat) (xs : List Nat) : (insertSorted a xs).length = xs.length + 1 := by
  induction xs with
  | nil => rfl
  | cons x rest ih =>
    show (if a ≤ x then a :: x :: rest else x :: insertSorted a rest).length = rest.length + 2
    split
    · rfl
    · rw [List.length_cons, ih]

theorem total_insert (a : Nat) (xs : List Nat) : total (insertSorted a xs) = a + total xs := by
  induction xs with
  | nil => rfl
  | cons x rest ih =>
    show total (if a ≤ x then a :: x :: rest else x :: insertSorted a rest) =
      a + (x + total rest)
    split
    · rfl
    · show x + total (insertSorted a rest) = a + (x + total rest)
      omega

theorem total_sort (xs : List Nat) : total (insertionSort xs) = total xs := by
  have step : ∀ (a : Nat) (ys : List Nat), total (insertSorted a ys) = a + total ys := by
    intro a ys
    induction ys with
    | nil => rfl
    | cons y rest ih =>
      show total (if a ≤ y then a :: y :: rest else y :: insertSorted a rest) =
        a + (y + total rest)
      split
      · rfl
      · show y + total (insertSorted a rest) = a + (y + total rest)
        omega
  induction xs with
  | nil => rfl
  | cons x rest ih =>
    show total (insertSorted x (insertionSort rest)) = x + total rest
    rw [step, ih]

theorem reverse_twice {α : Type} (xs : List α) : reverseOnto (reverseOnto xs []) [] = xs := by
  have general : ∀ ys acc : List α,
      reverseOnto (reverseOnto ys acc) [] = reverseOnto acc ys := by
    intro ys
    induction ys with
    | nil =>
      intro acc
      rfl
    | cons y rest ih =>
      intro acc
      exact ih (y :: acc)
  exact general xs []

end Benchmark.Programs
