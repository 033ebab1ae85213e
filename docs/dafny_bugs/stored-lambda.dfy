// A function that reads the heap may be stored in it behind a datatype (Landin's knot).
datatype B = B(f: () ~> int)
class C {
  ghost var f: B
  constructor () ensures true { }
}

method Bug() ensures false {
  var c := new C();
  ghost var h := () reads * => if c.f.f.requires() then c.f.f() + 1 else 0;
  c.f := B(h);
  assert h.requires();
  assert h() == c.f.f() + 1;
}
