// A sum of sequences is taken for one of the type of its first part, unchecked.
lemma NotNegative(x: nat) ensures x >= 0 { }

lemma Bug() ensures false {
  var a: int -> nat, b: int -> int := x => 1, x => -1;
  var s := [a] + [b];
  NotNegative(s[1](0));
}
