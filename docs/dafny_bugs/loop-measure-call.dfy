// The same with the precondition of a function.
function F(k: int): int
  requires k > 0
  ensures k > 0
{ k }

lemma Bug(k: int) ensures k > 0 {
  var i := 0;
  while i < 1
    invariant k > 0
    decreases F(k) - i
  { i := i + 1; }
}
