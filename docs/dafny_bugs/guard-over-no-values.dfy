// A guard that binds is taken for true where its type has no value.
type Nothing = x: int | false witness *

lemma Bug<T>(k: T, l: T) ensures k == l {
  if e: Nothing :| true { }
}
