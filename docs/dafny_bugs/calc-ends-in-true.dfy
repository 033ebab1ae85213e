// A calc that ends in true has the operator <== without being written, so that its first line is not
// checked to have a value.
function F(k: int): int
  requires k > 5
  ensures k > 5
{ k }

lemma Bug(k: int) ensures k > 5 {
  calc { F(k) == k; == true; }
}
