// A datatype may hold itself through a class's type parameter.
class A<T> {
  const f: T -> int
  constructor (h: T -> int) ensures f == h { f := h; }
}
datatype W = W(a: A<W>)

method Bug() ensures false {
  var h := (w: W) => w.a.f(w) + 1;
  var a := new A<W>(h);
  var w := W(a);
  assert a.f(w) == h(w);
}
