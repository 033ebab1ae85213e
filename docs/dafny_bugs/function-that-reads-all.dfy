// A function that 'reads *' is believed unchanged when only what was allocated since has changed.
class C {
  var next: object?
}
ghost function IsLast(c: C): bool
  reads *
{ c.next == null }

method Bug()
  ensures false
{
  var c := new C;
  c.next := null;
  ghost var before := IsLast(c);
  c.next := c;
  ghost var after := IsLast(c);
}
