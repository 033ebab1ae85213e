// The hypothesis of the induction lets P be called of every sequence, whatever its elements are.
predicate P(s: seq<nat>) ensures forall i :: 0 <= i < |s| ==> s[i] >= 0 { s == [] || P(s[1..]) }
lemma L(s: seq<nat>, t: seq<int>) requires P(s) requires t != [] ensures t[0] >= 0 {
  assert (forall i :: 0 <= i < |t| ==> t[i] >= 0) ==> P(t) || !P(t);
}
lemma Bug() ensures false { L([], [-1]); }
