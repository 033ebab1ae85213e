// Programs and lemmas that need the right fact at the right place, and nothing else.

//@ empty-end, level 1, assertions
//@ A sequence with nothing added is the same sequence, also under a function.
module EmptyEnd {
  function Sum(s: seq<int>): int
  {
    if |s| == 0 then 0 else s[0] + Sum(s[1..])
  }

  lemma SameSum(s: seq<int>)
    ensures Sum(s + []) == Sum(s)
  {
    //<
    assert s + [] == s;
    //>
  }
}

//@ cut-and-join, level 1, assertions
//@ Cutting a sequence in two and joining the parts does not change its sum.
module CutAndJoin {
  function Sum(s: seq<int>): int
  {
    if |s| == 0 then 0 else s[0] + Sum(s[1..])
  }

  lemma SameSum(s: seq<int>, k: nat)
    requires k <= |s|
    ensures Sum(s[..k] + s[k..]) == Sum(s)
  {
    //<
    assert s[..k] + s[k..] == s;
    //>
  }
}

//@ name-a-witness, level 1, assertions
//@ Some number below a hundred is its own double less seven.
module NameAWitness {
  function Twist(n: int): int
  {
    2 * n - 7
  }

  lemma Exists()
    ensures exists n :: 0 <= n < 100 && Twist(n) == n
  {
    //<
    assert Twist(7) == 7;
    //>
  }
}

//@ three-pieces, level 2, assertions
//@ Cutting a sequence at two places and joining the three pieces does not change its sum.
module ThreePieces {
  function Sum(s: seq<int>): int
  {
    if |s| == 0 then 0 else s[0] + Sum(s[1..])
  }

  lemma SameSum(s: seq<int>, a: nat, b: nat)
    requires a <= b <= |s|
    ensures Sum(s[..a] + s[a..b] + s[b..]) == Sum(s)
  {
    //<
    assert s[..a] + s[a..b] + s[b..] == s;
    //>
  }
}

//@ whole-array, level 2, assertions
//@ The elements of an array up to its length are all its elements.
module WholeArray {
  function Sum(s: seq<int>): int
  {
    if |s| == 0 then 0 else s[|s| - 1] + Sum(s[..|s| - 1])
  }

  method Total(a: array<int>) returns (total: int)
    ensures total == Sum(a[..])
  {
    total := 0;
    var i := 0;
    while i < a.Length
      invariant 0 <= i <= a.Length
      invariant total == Sum(a[..i])
    {
      total := total + a[i];
      i := i + 1;
      assert a[..i][..i - 1] == a[..i - 1];
    }
    //<
    assert a[..a.Length] == a[..];
    //>
  }
}

//@ one-more-element, level 2, assertions
//@ The first elements and one more are the first elements with that one added at the end.
module OneMoreElement {
  function Evens(s: seq<int>): nat
  {
    if |s| == 0 then 0
    else Evens(s[..|s| - 1]) + (if s[|s| - 1] % 2 == 0 then 1 else 0)
  }

  method CountEvens(s: seq<int>) returns (count: nat)
    ensures count == Evens(s)
  {
    count := 0;
    var i := 0;
    while i < |s|
      invariant 0 <= i <= |s|
      invariant count == Evens(s[..i])
    {
      if s[i] % 2 == 0 {
        count := count + 1;
      }
      //<
      assert s[..i + 1][..i] == s[..i];
      //>
      i := i + 1;
    }
    assert s[..i] == s;
  }
}

//@ squares-modulo-four, level 2, assertions
//@ A square leaves 0 or 1 when it is divided by four.
module SquaresModuloFour {
  lemma Remainder(n: int)
    ensures (n * n) % 4 == 0 || (n * n) % 4 == 1
  {
    //<
    assert n == 2 * (n / 2) + n % 2;
    assert n * n == 4 * ((n / 2) * (n / 2)) + 4 * (n / 2) * (n % 2) + (n % 2) * (n % 2);
    assert n * n == 4 * ((n / 2) * (n / 2) + (n / 2) * (n % 2)) + (n % 2) * (n % 2);
    //>
  }
}

//@ order-of-union, level 2, assertions
//@ A function of a set does not depend on how the set was put together.
module OrderOfUnion {
  function Code(s: set<int>): int
  {
    |s| * 31 + (if 7 in s then 5 else 2)
  }

  function Hash(s: set<int>, salt: nat): int
  {
    if salt == 0 then Code(s) else Hash(s, salt - 1) * 3 + Code(s)
  }

  lemma SameHash(a: set<int>, b: set<int>, salt: nat)
    ensures Hash(a + b + a, salt) == Hash(b + a, salt)
  {
    //<
    assert a + b + a == b + a;
    //>
  }
}

//@ multiset-of-parts, level 2, assertions
//@ The elements of a sequence are those of its two parts together.
module MultisetOfParts {
  lemma Parts(s: seq<int>, k: nat)
    requires k <= |s|
    ensures multiset(s) == multiset(s[k..]) + multiset(s[..k])
  {
    //<
    assert s == s[..k] + s[k..];
    //>
  }
}

//@ insert-and-remove, level 3, assertions
//@ Putting an element in and taking it out again leaves the sequence as it was.
module InsertAndRemove {
  function Sum(s: seq<int>): int
  {
    if |s| == 0 then 0 else s[0] + Sum(s[1..])
  }

  function Insert(s: seq<int>, k: nat, x: int): seq<int>
    requires k <= |s|
  {
    s[..k] + [x] + s[k..]
  }

  function Remove(s: seq<int>, k: nat): seq<int>
    requires k < |s|
  {
    s[..k] + s[k + 1..]
  }

  lemma SameSum(s: seq<int>, k: nat, x: int)
    requires k <= |s|
    ensures Sum(Remove(Insert(s, k, x), k)) == Sum(s)
  {
    //<
    assert Remove(Insert(s, k, x), k) == s;
    //>
  }
}

//@ four-steps, level 2, assertions
//@ Four steps of a recursion at once.
module FourSteps {
  function Steps(n: nat): int
  {
    if n == 0 then 2 else 3 * Steps(n - 1) - 1
  }

  lemma {:induction false} Four(n: nat)
    ensures Steps(n + 4) == 81 * Steps(n) - 40
  {
    //<
    assert Steps(n + 1) == 3 * Steps(n) - 1;
    assert Steps(n + 2) == 3 * Steps(n + 1) - 1;
    assert Steps(n + 3) == 3 * Steps(n + 2) - 1;
    //>
  }
}

//@ next-multiple, level 3, assertions
//@ After a multiple of d comes, d further on, the next one; d is not a fixed number.
module NextMultiple {
  predicate Multiple(n: int, d: int)
  {
    exists k :: -1000 < k < 1000 && Times(k, d) == n
  }

  function Times(k: int, d: int): int
  {
    k * d
  }

  lemma Next(k: int, d: int)
    requires 0 <= k < 500
    ensures Multiple(k * d + d, d)
  {
    //<
    assert Times(k + 1, d) == k * d + d;
    //>
  }
}

//@ swap-back, level 3, assertions
//@ Swapping the same two places twice brings the sequence back.
module SwapBack {
  function Swap(s: seq<int>, i: nat, j: nat): seq<int>
    requires i < |s| && j < |s|
  {
    s[i := s[j]][j := s[i]]
  }

  function Score(s: seq<int>): int
  {
    if |s| == 0 then 1 else s[0] * 10 + Score(s[1..])
  }

  lemma Back(s: seq<int>, i: nat, j: nat)
    requires i < |s| && j < |s|
    ensures Score(Swap(Swap(s, i, j), i, j)) == Score(s)
  {
    //<
    assert Swap(Swap(s, i, j), i, j) == s;
    //>
  }
}

//@ rotate-twice, level 3, assertions
//@ Moving the first element to the end twice moves the first two.
module RotateTwice {
  function Rotate(s: seq<int>): seq<int>
  {
    if |s| == 0 then s else s[1..] + [s[0]]
  }

  function Score(s: seq<int>): int
  {
    if |s| == 0 then 1 else s[0] - 2 * Score(s[1..])
  }

  lemma Twice(s: seq<int>)
    requires |s| >= 2
    ensures Score(Rotate(Rotate(s))) == Score(s[2..] + s[..2])
  {
    //<
    assert Rotate(Rotate(s)) == s[2..] + s[..2];
    //>
  }
}

//@ two-keys, level 3, assertions
//@ Writing under two different keys gives the same map in either order.
module TwoKeys {
  function Total(m: map<int, int>, n: nat): int
  {
    if n == 0 then 0 else Total(m, n - 1) + (if n in m then m[n] else 0)
  }

  lemma {:induction false} EitherOrder(m: map<int, int>, j: int, k: int, n: nat)
    requires j != k
    ensures Total(m[j := 1][k := 2], n) == Total(m[k := 2][j := 1], n)
  {
    //<
    assert m[j := 1][k := 2] == m[k := 2][j := 1];
    //>
  }
}

//@ element-of-join, level 3, assertions
//@ What stands in one of two sequences stands somewhere in their join.
module ElementOfJoin {
  predicate Holds(s: seq<int>, x: int)
  {
    exists i :: 0 <= i < |s| && s[i] == x
  }

  lemma Joined(s: seq<int>, t: seq<int>, i: nat)
    requires i < |t|
    ensures Holds(s + t, t[i])
  {
    //<
    assert (s + t)[|s| + i] == t[i];
    //>
  }
}

//@ square-of-sum, level 4, assertions
//@ Twice a product is at most the sum of the squares.
module SquareOfSum {
  function Square(n: int): int
  {
    n * n
  }

  lemma Mean(a: int, b: int, c: int)
    requires 0 <= a && 0 <= b && 0 <= c
    ensures a * b + b * c + c * a <= Square(a) + Square(b) + Square(c)
  {
    //<
    assert Square(a - b) >= 0;
    assert Square(b - c) >= 0;
    assert Square(c - a) >= 0;
    assert Square(a - b) == Square(a) - 2 * (a * b) + Square(b);
    assert Square(b - c) == Square(b) - 2 * (b * c) + Square(c);
    assert Square(c - a) == Square(c) - 2 * (c * a) + Square(a);
    //>
  }
}

//@ three-joined, level 4, assertions
//@ The sum of three joined sequences, in whatever order they are joined, given the sum of two.
module ThreeJoined {
  function Sum(s: seq<int>): int
  {
    if |s| == 0 then 0 else s[0] + Sum(s[1..])
  }

  lemma {:induction false} Two(s: seq<int>, t: seq<int>)
    ensures Sum(s + t) == Sum(s) + Sum(t)
  {
    if |s| == 0 {
      assert s + t == t;
    } else {
      Two(s[1..], t);
      assert (s + t)[1..] == s[1..] + t;
    }
  }

  lemma Middle(s: seq<int>, k: nat, x: int)
    requires k < |s|
    ensures Sum(s[k := x]) == Sum(s) - s[k] + x
  {
    Two(s[..k], [s[k]]);
    Two(s[..k] + [s[k]], s[k + 1..]);
    Two(s[..k], [x]);
    Two(s[..k] + [x], s[k + 1..]);
    //<
    assert s == s[..k] + [s[k]] + s[k + 1..];
    assert s[k := x] == s[..k] + [x] + s[k + 1..];
    assert Sum([x]) == x + Sum([]);
    assert Sum([s[k]]) == s[k] + Sum([]);
    //>
  }
}
