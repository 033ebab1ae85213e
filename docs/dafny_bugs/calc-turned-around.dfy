// Whether the last line of a calc that is turned around has a value is taken for granted.
lemma Bug() ensures false {
  calc { 1 / 0 == 1; == true; <== true; }
  calc { 1 / 0 != 1; == true; <== true; }
}
