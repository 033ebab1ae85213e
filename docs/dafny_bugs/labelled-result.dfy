// A labelled assertion of a result is revealed of what the result holds since.
lemma Bug() returns (x: int) ensures false {
  x := 0;
  assert Zero: x == 0;
  x := 1;
  reveal Zero;
}
