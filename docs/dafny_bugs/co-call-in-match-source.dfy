// A co-recursive call counts as guarded in the source of a match.
codatatype S = Cons(head: int, tail: S)

function F(): S { Cons(0, match F() case Cons(h, t) => Cons(1 - t.head, t)) }

lemma Bug() ensures false {
  assert F().tail.head == 1 - F().tail.head;
}
