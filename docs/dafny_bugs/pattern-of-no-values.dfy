// A variable in a pattern is not checked against its type.
type Nothing = x: int | false witness *

lemma Bug() ensures false {
  var (a: Nothing, b) := (1, 2);
}
