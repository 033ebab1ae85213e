// Facts about recursive functions of sequences.

//@ repeat-length, level 1, statements
//@ A sequence of n copies has n elements.
module RepeatLength {
  function Repeat(x: int, n: nat): seq<int>
  {
    if n == 0 then [] else [x] + Repeat(x, n - 1)
  }

  lemma {:induction false} Length(x: int, n: nat)
    ensures |Repeat(x, n)| == n
  {
    //<
    if n > 0 {
      Length(x, n - 1);
    }
    //>
  }
}

//@ reverse-length, level 2, statements
//@ A sequence and its reverse are equally long.
module ReverseLength {
  function Reverse(s: seq<int>): seq<int>
  {
    if |s| == 0 then [] else Reverse(s[1..]) + [s[0]]
  }

  lemma {:induction false} Length(s: seq<int>)
    ensures |Reverse(s)| == |s|
  {
    //<
    if |s| > 0 {
      Length(s[1..]);
    }
    //>
  }
}

//@ filter-shortens, level 2, statements
//@ Keeping only the even elements keeps at most all of them.
module FilterShortens {
  function Evens(s: seq<int>): seq<int>
  {
    if |s| == 0 then []
    else if s[0] % 2 == 0 then [s[0]] + Evens(s[1..])
    else Evens(s[1..])
  }

  lemma {:induction false} Shorter(s: seq<int>)
    ensures |Evens(s)| <= |s|
  {
    //<
    if |s| > 0 {
      Shorter(s[1..]);
    }
    //>
  }
}

//@ filter-keeps-even, level 3, statements
//@ Everything that the filter for even numbers keeps is even.
module FilterKeepsEven {
  function Evens(s: seq<int>): seq<int>
  {
    if |s| == 0 then []
    else if s[0] % 2 == 0 then [s[0]] + Evens(s[1..])
    else Evens(s[1..])
  }

  lemma {:induction false} AllEven(s: seq<int>)
    ensures forall i :: 0 <= i < |Evens(s)| ==> Evens(s)[i] % 2 == 0
  {
    //<
    if |s| > 0 {
      AllEven(s[1..]);
    }
    //>
  }
}

//@ sum-append, level 3, statements
//@ The sum of two joined sequences is the sum of their sums.
module SumAppend {
  function Sum(s: seq<int>): int
  {
    if |s| == 0 then 0 else s[0] + Sum(s[1..])
  }

  lemma {:induction false} Append(s: seq<int>, t: seq<int>)
    ensures Sum(s + t) == Sum(s) + Sum(t)
  {
    //<
    if |s| == 0 {
      assert s + t == t;
    } else {
      Append(s[1..], t);
      assert (s + t)[1..] == s[1..] + t;
    }
    //>
  }
}

//@ count-append, level 3, statements
//@ A value occurs in two joined sequences as often as in both together.
module CountAppend {
  function Count(s: seq<int>, x: int): nat
  {
    if |s| == 0 then 0 else Count(s[1..], x) + (if s[0] == x then 1 else 0)
  }

  lemma {:induction false} Append(s: seq<int>, t: seq<int>, x: int)
    ensures Count(s + t, x) == Count(s, x) + Count(t, x)
  {
    //<
    if |s| == 0 {
      assert s + t == t;
    } else {
      assert (s + t)[1..] == s[1..] + t;
      Append(s[1..], t, x);
    }
    //>
  }
}

//@ map-elements, level 2, statements
//@ Doubling a sequence element by element: each place holds the double of what was there.
module MapElements {
  function Double(s: seq<int>): seq<int>
  {
    if |s| == 0 then [] else [2 * s[0]] + Double(s[1..])
  }

  lemma {:induction false} Elements(s: seq<int>)
    ensures |Double(s)| == |s|
    ensures forall i :: 0 <= i < |s| ==> Double(s)[i] == 2 * s[i]
  {
    //<
    if |s| > 0 {
      Elements(s[1..]);
      forall i | 0 <= i < |s|
        ensures Double(s)[i] == 2 * s[i]
      {
        assert i > 0 ==> s[i] == s[1..][i - 1];
        assert i > 0 ==> Double(s)[i] == Double(s[1..])[i - 1];
      }
    }
    //>
  }
}

//@ largest-is-there, level 3, statements
//@ The largest element is one of the elements, and none is larger.
module LargestIsThere {
  function Largest(s: seq<int>): int
    requires |s| > 0
  {
    if |s| == 1 then s[0]
    else if s[0] > Largest(s[1..]) then s[0]
    else Largest(s[1..])
  }

  lemma {:induction false} IsThere(s: seq<int>)
    requires |s| > 0
    ensures Largest(s) in s
    ensures forall x :: x in s ==> x <= Largest(s)
  {
    //<
    if |s| > 1 {
      IsThere(s[1..]);
      assert forall x :: x in s ==> x == s[0] || x in s[1..];
    }
    //>
  }
}

//@ reverse-append, level 4, statements
//@ Reversing two joined sequences joins the reverses the other way round.
module ReverseAppend {
  function Reverse(s: seq<int>): seq<int>
  {
    if |s| == 0 then [] else Reverse(s[1..]) + [s[0]]
  }

  lemma {:induction false} Append(s: seq<int>, t: seq<int>)
    ensures Reverse(s + t) == Reverse(t) + Reverse(s)
  {
    //<
    if |s| == 0 {
      assert s + t == t;
      assert Reverse(t) + [] == Reverse(t);
    } else {
      assert (s + t)[1..] == s[1..] + t;
      Append(s[1..], t);
      assert (Reverse(t) + Reverse(s[1..])) + [s[0]] == Reverse(t) + (Reverse(s[1..]) + [s[0]]);
    }
    //>
  }
}

//@ reverse-twice, level 4, statements
//@ Reversing twice gives the sequence back, given what reversing does to joined sequences.
module ReverseTwice {
  function Reverse(s: seq<int>): seq<int>
  {
    if |s| == 0 then [] else Reverse(s[1..]) + [s[0]]
  }

  lemma {:induction false} Append(s: seq<int>, t: seq<int>)
    ensures Reverse(s + t) == Reverse(t) + Reverse(s)
  {
    if |s| == 0 {
      assert s + t == t;
      assert Reverse(t) + [] == Reverse(t);
    } else {
      assert (s + t)[1..] == s[1..] + t;
      Append(s[1..], t);
      assert (Reverse(t) + Reverse(s[1..])) + [s[0]] == Reverse(t) + (Reverse(s[1..]) + [s[0]]);
    }
  }

  lemma {:induction false} Twice(s: seq<int>)
    ensures Reverse(Reverse(s)) == s
  {
    //<
    if |s| > 0 {
      Append(Reverse(s[1..]), [s[0]]);
      Twice(s[1..]);
      assert Reverse([s[0]]) == [s[0]];
      assert [s[0]] + s[1..] == s;
    }
    //>
  }
}

//@ reverse-places, level 3, statements
//@ The element at a place of the reverse is the one as far from the other end.
module ReversePlaces {
  function Reverse(s: seq<int>): seq<int>
    ensures |Reverse(s)| == |s|
  {
    if |s| == 0 then [] else Reverse(s[1..]) + [s[0]]
  }

  lemma {:induction false} Place(s: seq<int>, i: nat)
    requires i < |s|
    ensures Reverse(s)[i] == s[|s| - 1 - i]
  {
    //<
    if i == |s| - 1 {
      assert Reverse(s)[i] == s[0];
    } else {
      Place(s[1..], i);
      assert Reverse(s)[i] == Reverse(s[1..])[i];
    }
    //>
  }
}

//@ sum-from-both-ends, level 4, statements
//@ Adding from the front and adding from the back give the same sum.
module SumFromBothEnds {
  function Front(s: seq<int>): int
  {
    if |s| == 0 then 0 else s[0] + Front(s[1..])
  }

  function Back(s: seq<int>): int
  {
    if |s| == 0 then 0 else Back(s[..|s| - 1]) + s[|s| - 1]
  }

  lemma {:induction false} Same(s: seq<int>)
    ensures Front(s) == Back(s)
    decreases |s|
  {
    //<
    if |s| > 1 {
      var middle := s[1..|s| - 1];
      Same(s[1..]);
      Same(s[..|s| - 1]);
      Same(middle);
      assert s[1..][..|s| - 2] == middle;
      assert s[..|s| - 1][1..] == middle;
    }
    //>
  }
}

//@ count-by-multiset, level 4, statements
//@ Counting one by one agrees with the multiset of the elements.
module CountByMultiset {
  function Count(s: seq<int>, x: int): nat
  {
    if |s| == 0 then 0 else Count(s[1..], x) + (if s[0] == x then 1 else 0)
  }

  lemma {:induction false} Agrees(s: seq<int>, x: int)
    ensures Count(s, x) == multiset(s)[x]
  {
    //<
    if |s| > 0 {
      Agrees(s[1..], x);
      assert s == [s[0]] + s[1..];
      assert multiset(s) == multiset([s[0]]) + multiset(s[1..]);
    }
    //>
  }
}

//@ take-and-drop, level 2, statements
//@ The leading small elements and what comes after them are the whole sequence.
module TakeAndDrop {
  function Leading(s: seq<int>, limit: int): seq<int>
  {
    if |s| == 0 || s[0] >= limit then [] else [s[0]] + Leading(s[1..], limit)
  }

  function After(s: seq<int>, limit: int): seq<int>
  {
    if |s| == 0 || s[0] >= limit then s else After(s[1..], limit)
  }

  lemma {:induction false} Whole(s: seq<int>, limit: int)
    ensures Leading(s, limit) + After(s, limit) == s
  {
    //<
    if |s| > 0 && s[0] < limit {
      var small, after := Leading(s[1..], limit), After(s[1..], limit);
      Whole(s[1..], limit);
      assert ([s[0]] + small) + after == [s[0]] + (small + after);
      assert s == [s[0]] + s[1..];
    }
    //>
  }
}

//@ flatten-append, level 4, statements
//@ Flattening two joined sequences of sequences joins the two flattened ones.
module FlattenAppend {
  function Flatten(s: seq<seq<int>>): seq<int>
  {
    if |s| == 0 then [] else s[0] + Flatten(s[1..])
  }

  lemma {:induction false} Append(s: seq<seq<int>>, t: seq<seq<int>>)
    ensures Flatten(s + t) == Flatten(s) + Flatten(t)
  {
    //<
    if |s| == 0 {
      assert s + t == t;
    } else {
      assert (s + t)[1..] == s[1..] + t;
      Append(s[1..], t);
      assert s[0] + (Flatten(s[1..]) + Flatten(t)) == (s[0] + Flatten(s[1..])) + Flatten(t);
    }
    //>
  }
}

//@ subsequence-reflexive, level 2, statements
//@ Every sequence is a subsequence of itself with anything put before it.
module SubsequenceReflexive {
  predicate Within(s: seq<int>, t: seq<int>)
  {
    |s| == 0 || (|t| > 0 && ((s[0] == t[0] && Within(s[1..], t[1..])) || Within(s, t[1..])))
  }

  lemma {:induction false} Suffix(before: seq<int>, s: seq<int>)
    requires Within(s, s)
    ensures Within(s, before + s)
  {
    //<
    if |before| == 0 {
      assert before + s == s;
    } else {
      Suffix(before[1..], s);
      assert (before + s)[1..] == before[1..] + s;
    }
    //>
  }
}

//@ subsequence-transitive, level 5, statements
//@ A subsequence of a subsequence is a subsequence.
module SubsequenceTransitive {
  predicate Within(s: seq<int>, t: seq<int>)
  {
    |s| == 0 || (|t| > 0 && ((s[0] == t[0] && Within(s[1..], t[1..])) || Within(s, t[1..])))
  }

  lemma {:induction false} Transitive(s: seq<int>, t: seq<int>, u: seq<int>)
    requires Within(s, t)
    requires Within(t, u)
    ensures Within(s, u)
    decreases |u|, |t|
  {
    //<
    if |s| > 0 {
      if t[0] == u[0] && Within(t[1..], u[1..]) {
        if s[0] == t[0] && Within(s[1..], t[1..]) {
          Transitive(s[1..], t[1..], u[1..]);
        } else {
          Transitive(s, t[1..], u[1..]);
        }
      } else {
        Transitive(s, t, u[1..]);
      }
    }
    //>
  }
}

//@ sum-bounded, level 3, statements
//@ If no element is above a limit, the sum is at most the limit times the length.
module SumBounded {
  function Sum(s: seq<int>): int
  {
    if |s| == 0 then 0 else s[0] + Sum(s[1..])
  }

  lemma {:induction false} Bounded(s: seq<int>, limit: int)
    requires forall i :: 0 <= i < |s| ==> s[i] <= limit
    ensures Sum(s) <= limit * |s|
  {
    //<
    if |s| > 0 {
      Bounded(s[1..], limit);
      assert limit * |s| == limit + limit * |s[1..]|;
    }
    //>
  }
}

//@ first-place, level 5, annotate
//@ A value whose count is positive has a first place, before which it does not occur.
module FirstPlace {
  function Count(s: seq<int>, x: int): nat
  {
    if |s| == 0 then 0 else Count(s[..|s| - 1], x) + (if s[|s| - 1] == x then 1 else 0)
  }

  method Find(s: seq<int>, x: int) returns (place: nat)
    requires Count(s, x) > 0
    ensures place < |s| && s[place] == x
    ensures Count(s[..place], x) == 0
  {
    place := 0;
    while place < |s| && s[place] != x
      //<
      invariant place <= |s|
      invariant Count(s[..place], x) == 0
      //>
    {
      //<
      assert s[..place + 1][..place] == s[..place];
      //>
      place := place + 1;
    }
    //<
    assert s[..|s|] == s;
    //>
  }
}
