// Two methods that Dafny proves.
method Copy(n: nat) returns (s: int)
  ensures s == n
{
  s := 0;
  while s < n
    invariant 0 <= s <= n
  {
    s := s + 1;
  }
}

lemma Doubling(n: nat)
  ensures n + n == 2 * n
{
}
