// A lambda that reads * counts as unchanged by an assignment to a new array.
method Bug(k: int) ensures k > 0 {
  var c := new bool[1];
  c[0] := false;
  ghost var f := () reads * => if c[0] then true else k > 0;
  ghost var a := f();
  c[0] := true;
  assert a == f();
}
