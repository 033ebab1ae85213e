// The same of a line in the middle, where only some steps have an operator.
function F(k: int): bool
  requires k > 5
  ensures k > 5
{ true }

function T(k: int): bool { true }

lemma Bug(k: int) ensures k > 5 {
  calc { k > 5; F(k); == T(k); true; }
}
