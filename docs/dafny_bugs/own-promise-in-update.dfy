// A function's postcondition is taken for granted where it calls itself in an update of a datatype.
function F(n: int): int
  ensures (0, 1).(0 := F(n)).0 == 1 && false
{ 1 }

lemma Bug() ensures false {
  ghost var w := F(0);
  assert [F(0)][0] == w;
}
