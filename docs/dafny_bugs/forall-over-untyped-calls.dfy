// The forall statement lets P be called of every sequence, whatever its elements are.
predicate P(s: seq<nat>) ensures forall i :: 0 <= i < |s| ==> s[i] >= 0 { s == [] || P(s[1..]) }
lemma M(s: seq<nat>) requires P(s) ensures |s| >= 0 { }
lemma L(t: seq<int>) requires t != [] ensures t[0] >= 0 {
  forall s: seq<nat> | P(s) { M(s); }
  assert (forall i :: 0 <= i < |t| ==> t[i] >= 0) ==> P(t) || !P(t);
}
lemma Bug() ensures false { L([-1]); }
