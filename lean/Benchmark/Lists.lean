/-!
Lists. Core Lean only, written for this project.
No Lean has read this file yet: see README.md.
-/

namespace Benchmark.Lists

theorem nil_append {α : Type} (xs : List α) : [] ++ xs = xs :=
  rfl

theorem append_nil {α : Type} (xs : List α) : xs ++ [] = xs := by
  induction xs with
  | nil => rfl
  | cons x rest ih => exact congrArg (List.cons x) ih

theorem cons_ne_nil {α : Type} (x : α) (xs : List α) : x :: xs ≠ [] := by
  intro h
  cases h

theorem append_assoc {α : Type} (xs ys zs : List α) : (xs ++ ys) ++ zs = xs ++ (ys ++ zs) := by
  induction xs with
  | nil => rfl
  | cons x rest ih => exact congrArg (List.cons x) ih

theorem length_append {α : Type} (xs ys : List α) : (xs ++ ys).length = xs.length + ys.length := by
  induction xs with
  | nil => rw [List.nil_append, List.length_nil, Nat.zero_add]
  | cons x rest ih =>
    rw [List.cons_append, List.length_cons, List.length_cons]
    omega

theorem length_map {α β : Type} (f : α → β) (xs : List α) : (xs.map f).length = xs.length := by
  induction xs with
  | nil => rfl
  | cons x rest ih => rw [List.map_cons, List.length_cons, List.length_cons, ih]

theorem map_id {α : Type} (xs : List α) : xs.map (fun x => x) = xs := by
  induction xs with
  | nil => rfl
  | cons x rest ih => exact congrArg (List.cons x) ih

theorem cons_injective {α : Type} {x y : α} {xs ys : List α} (h : x :: xs = y :: ys) :
    x = y ∧ xs = ys := by
  cases h
  exact ⟨rfl, rfl⟩

theorem map_append {α β : Type} (f : α → β) (xs ys : List α) :
    (xs ++ ys).map f = xs.map f ++ ys.map f := by
  induction xs with
  | nil => rfl
  | cons x rest ih => exact congrArg (List.cons (f x)) ih

theorem map_compose {α β γ : Type} (f : α → β) (g : β → γ) (xs : List α) :
    (xs.map f).map g = xs.map (fun x => g (f x)) := by
  induction xs with
  | nil => rfl
  | cons x rest ih => exact congrArg (List.cons (g (f x))) ih

theorem nil_of_length_zero {α : Type} (xs : List α) (h : xs.length = 0) : xs = [] := by
  cases xs with
  | nil => rfl
  | cons x rest =>
    rw [List.length_cons] at h
    omega

theorem mem_append_left {α : Type} (a : α) (xs ys : List α) (h : a ∈ xs) : a ∈ xs ++ ys :=
  List.mem_append.mpr (Or.inl h)

theorem length_filter_le {α : Type} (p : α → Bool) (xs : List α) :
    (xs.filter p).length ≤ xs.length := by
  induction xs with
  | nil => exact Nat.le_refl 0
  | cons x rest ih =>
    cases h : p x with
    | true =>
      have e : (x :: rest).filter p = x :: rest.filter p := by simp [h]
      rw [e, List.length_cons, List.length_cons]
      omega
    | false =>
      have e : (x :: rest).filter p = rest.filter p := by simp [h]
      rw [e, List.length_cons]
      omega

end Benchmark.Lists
