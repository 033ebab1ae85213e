// The member's type is taken from what was assigned first, before the type of t is known.
lemma Bug(a: (nat, int), b: (int, int))
  requires b == (-1, 0)
  ensures false
{
  var t := a;
  t := b;
  IsNatural(t.0);
}

lemma IsNatural(n: nat)
  ensures n >= 0
{ }
