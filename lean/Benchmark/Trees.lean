/-!
Induction on types of our own. Core Lean only, written for this project.
No Lean has read this file yet: see README.md.
-/

namespace Benchmark.Trees

/-- Binary trees with numbers at the inner nodes. -/
inductive Tree where
  | leaf : Tree
  | node : Tree → Nat → Tree → Tree

/-- The number of inner nodes. -/
def Tree.size : Tree → Nat
  | .leaf => 0
  | .node l _ r => l.size + 1 + r.size

/-- The tree with left and right exchanged everywhere. -/
def Tree.mirror : Tree → Tree
  | .leaf => .leaf
  | .node l v r => .node r.mirror v l.mirror

/-- The number of leaves. -/
def Tree.leaves : Tree → Nat
  | .leaf => 1
  | .node l _ r => l.leaves + r.leaves

/-- The numbers from left to right. -/
def Tree.toList : Tree → List Nat
  | .leaf => []
  | .node l v r => l.toList ++ v :: r.toList

/-- Numbers by successor, as a type of our own. -/
inductive Peano where
  | zero : Peano
  | succ : Peano → Peano

/-- The sum of two such numbers, by recursion on the second. -/
def Peano.add (a : Peano) : Peano → Peano
  | .zero => a
  | .succ b => .succ (a.add b)

/-- `Even n`: `n` is twice something. -/
inductive Even : Nat → Prop where
  | zero : Even 0
  | step (n : Nat) : Even n → Even (n + 2)

theorem size_leaf : Tree.leaf.size = 0 :=
  rfl

theorem leaf_ne_node (l r : Tree) (v : Nat) : Tree.leaf ≠ Tree.node l v r := by
  intro h
  cases h

theorem even_four : Even 4 :=
  Even.step 2 (Even.step 0 Even.zero)

theorem peano_add_succ (a b : Peano) : a.add (Peano.succ b) = Peano.succ (a.add b) :=
  rfl

theorem peano_zero_add (a : Peano) : Peano.zero.add a = a := by
  induction a with
  | zero => rfl
  | succ b ih => exact congrArg Peano.succ ih

theorem peano_succ_add (a b : Peano) : (Peano.succ a).add b = Peano.succ (a.add b) := by
  induction b with
  | zero => rfl
  | succ c ih => exact congrArg Peano.succ ih

theorem mirror_mirror (t : Tree) : t.mirror.mirror = t := by
  induction t with
  | leaf => rfl
  | node l v r ihl ihr =>
    show Tree.node l.mirror.mirror v r.mirror.mirror = Tree.node l v r
    rw [ihl, ihr]

theorem size_mirror (t : Tree) : t.mirror.size = t.size := by
  induction t with
  | leaf => rfl
  | node l v r ihl ihr =>
    show r.mirror.size + 1 + l.mirror.size = l.size + 1 + r.size
    omega

theorem leaves_of_size (t : Tree) : t.leaves = t.size + 1 := by
  induction t with
  | leaf => rfl
  | node l v r ihl ihr =>
    show l.leaves + r.leaves = l.size + 1 + r.size + 1
    omega

theorem even_double (n : Nat) : Even (n + n) := by
  induction n with
  | zero => exact Even.zero
  | succ k ih =>
    have h : k + 1 + (k + 1) = k + k + 2 := by omega
    rw [h]
    exact Even.step (k + k) ih

theorem peano_add_comm (a b : Peano) : a.add b = b.add a := by
  induction b with
  | zero =>
    show a = Peano.zero.add a
    induction a with
    | zero => rfl
    | succ c ih => exact congrArg Peano.succ ih
  | succ c ih =>
    have h : ∀ x y : Peano, (Peano.succ x).add y = Peano.succ (x.add y) := by
      intro x y
      induction y with
      | zero => rfl
      | succ z ihz => exact congrArg Peano.succ ihz
    exact (congrArg Peano.succ ih).trans (h c a).symm

theorem length_toList (t : Tree) : t.toList.length = t.size := by
  induction t with
  | leaf => rfl
  | node l v r ihl ihr =>
    show (l.toList ++ v :: r.toList).length = l.size + 1 + r.size
    rw [List.length_append, List.length_cons]
    omega

theorem even_half (n : Nat) (h : Even n) : ∃ k, n = 2 * k := by
  induction h with
  | zero => exact ⟨0, rfl⟩
  | step m _ ih =>
    cases ih with
    | intro k hk => exact ⟨k + 1, by omega⟩

theorem even_add (m n : Nat) (hm : Even m) (hn : Even n) : Even (m + n) := by
  induction hn with
  | zero => exact hm
  | step k _ ih => exact Even.step (m + k) ih

end Benchmark.Trees
