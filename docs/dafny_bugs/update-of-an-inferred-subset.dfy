// An update keeps the type of what is updated, here the inferred Small, and is not checked against it.
type Small = s: seq<int> | forall i | 0 <= i < |s| :: s[i] < 3
function Same<T>(x: T): T { x }

lemma Bug(s: Small)
  requires |s| == 1
  ensures false
{
  var t := Same(s)[0 := 5];
  IsSmall(t);
  assert t[0] == 5;
}

lemma IsSmall(s: Small)
  ensures forall i | 0 <= i < |s| :: s[i] < 3
{ }
