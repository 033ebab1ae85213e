// A loop's second invariant is taken for well-formed before the first one is checked on entry.
lemma Bug() ensures false {
  while false
    invariant false
    invariant (var y: int :| false; y) == 0
  { }
}
