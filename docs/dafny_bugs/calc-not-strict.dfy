// The relation behind a calc's word is believed though no step shows it.
lemma Bug(x: int) ensures false {
  calc < { x; <= x; }
}
