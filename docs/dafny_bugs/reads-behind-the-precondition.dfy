// What F reads depends on c.on, which it does not read while c.on is false: believed unchanged.
class C {
  var on: bool
  var v: int
}
ghost function F(c: C): int
  requires c.on
  reads if c.on then {c} else {}
{ c.v }

method Bug(c: C)
  requires !c.on
  modifies c
  ensures false
{
  c.on := true;
  c.v := 1;
  ghost var one := F(c);
  c.v := 2;
  ghost var two := F(c);
}
