// A callee's decreases clause is taken for well-formed at the call.
function F(k: int): int
  requires k > 0
  ensures k > 0
{ k }

lemma Bug(k: int)
  requires k > 0
  ensures false
  decreases F(k)
{ Bug(0); }
