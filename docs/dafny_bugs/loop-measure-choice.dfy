// A loop's decreases clause is taken for well-formed before the invariants are checked on entry.
lemma Bug() ensures false {
  while false
    invariant false
    decreases (var y: int :| false; y)
  { }
}
