// The assertion of the last block is assumed.
lemma Bug() ensures false {
  assert {:isolate "paths"} true;
}
