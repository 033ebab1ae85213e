// A function's postcondition is taken for granted where it calls itself in a sequence by a lambda.
function F(n: nat): int
  ensures seq(1, i => F(n)) == [0]
{ 1 }

lemma Bug() ensures false {
  assert seq(1, i => F(0))[0] == 1;
}
