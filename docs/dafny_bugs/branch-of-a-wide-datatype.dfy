// A branch of a conditional is taken for a value of the type of the other, unchecked.
datatype D<T> = D(v: T)

lemma NotNegative(x: nat) ensures x >= 0 { }

lemma Bug() ensures false {
  var a: D<nat>, b: D<int> := D(1), D(-1);
  var s: D<nat> := if a.v == 0 then a else b;
  NotNegative(s.v);
}
