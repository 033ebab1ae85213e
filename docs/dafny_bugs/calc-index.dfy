// The index of the operator behind calc is not checked to have a value where all steps have their own.
codatatype S = C(t: S)

lemma Bug(s: S) ensures false {
  calc ==#[(var y: nat :| false; y)] { s; == s; }
}
