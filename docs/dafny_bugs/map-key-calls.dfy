// The key of a map comprehension is taken to depend on its variable alone.
predicate Injective(s: seq<int>) { forall i, j :: 0 <= i < j < |s| ==> s[i] != s[j] }

function Inverse(s: seq<int>): map<int, int>
  requires Injective(s)
{ map i | 0 <= i < |s| :: s[i] := i }

lemma Bug() ensures false {
  var s, t := [5, 6], [6, 5];
  assert s[0] == 5 && s[1] == 6 && t[0] == 6 && t[1] == 5;
  assert s[0] in Inverse(s);
  assert Inverse(s)[s[0]] == 0;
  assert t[1] in Inverse(t);
  assert Inverse(t)[t[1]] == 1;
}
