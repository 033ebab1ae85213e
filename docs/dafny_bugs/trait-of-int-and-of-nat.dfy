// A<int> and A<nat> count as the same parent trait, so that one field is of both types.
trait A<T> { var t: T }
trait B extends A<nat> {}
class C extends A<int>, B { constructor() { t := 1; } }
method M() ensures false { var c := new C(); c.t := -1; var b: B := c; assert b.t >= 0; }
