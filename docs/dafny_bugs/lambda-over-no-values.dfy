// In the body of a lambda its parameter is taken for a value of its type, which may have none.
type Nothing = x: int | false witness *

function F(k: int): int
  requires k > 0
  ensures k > 0
{ k }

lemma Bug(k: int) ensures k > 0 {
  ghost var f := (e: Nothing) => F(k);
  assert f == f;
}
