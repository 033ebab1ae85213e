// The same behind a variable.
function F(n: int): bool
  ensures var x := 0; F(n)
  ensures false
{ true }

lemma Bug() ensures false { assert F(0); }
