// Two methods that Dafny proves when their loops have invariants: proverrl annotate finds them.
function Sum(n: nat): nat
{
  if n == 0 then 0 else n + Sum(n - 1)
}

method Add(n: nat) returns (r: nat)
  ensures r == Sum(n)
{
  r := 0;
  var i := 0;
  while i < n
  {
    i := i + 1;
    r := r + i;
  }
}

method Fill(a: array<int>, v: int)
  modifies a
  ensures forall k :: 0 <= k < a.Length ==> a[k] == v
{
  var i := 0;
  while i != a.Length
  {
    a[i] := v;
    i := i + 1;
  }
}
